"""The folder on disk: memory-mapped arrays, tables of text, dataset.json with a checksum of each file.

A folder is written beside its place and moved there by one rename, so it is whole or it is not there:

- `dataset.json`      schema, sizes and checksums, target and classes, provenance, content hash
- `matrices.npy`      (N, n, n); absent where only series are known
- `series.npy`        (sum of t_i, n), all series one below the other; `offsets.npy` (N + 1,) says where each begins
- `participants.tsv`  participant_id, label…, group, family, frames
- `phenotype.tsv`     everything else known of the people
- `nodes.tsv`         name, x, y, z
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rmixup.data.networks import Networks
from rmixup.data.npy import RowsFile, open_array, sync
from rmixup.data.provenance import Provenance, sha256_of
from rmixup.data.tsv import MISSING, read_tsv, write_tsv
from rmixup.errors import DataError, FormatError, StoreError

if TYPE_CHECKING:
    import pandas as pd

Array = npt.NDArray[Any]

SCHEMA = 1
FORMAT = "rmixup networks"
MANIFEST = "dataset.json"
# Read whole on opening, so they are always verified; the arrays are mapped and verified when asked.
_LARGE = frozenset({"matrices.npy", "series.npy"})
_NAMES = _LARGE | {"offsets.npy", "participants.tsv", "phenotype.tsv", "nodes.tsv"}
_MAX_MANIFEST = 64 << 20


# ---- writing


class Writer:
    """Writes a folder one network at a time, with the memory of one network; nothing is there before `commit`.

    >>> import tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp()) / "cohort"
    >>> with Writer(folder, nodes=["a", "b"]) as writer:
    ...     writer.add("s1", matrix=np.eye(2))
    ...     writer.add("s2", matrix=np.eye(2))
    ...     ds = writer.commit(y=["patient", "control"])
    >>> ds
    Networks(2 networks of 2 nodes, classification: control 1, patient 1)

    Parameters
    ----------
    folder : path
        Where the folder shall be. An existing one is refused unless `overwrite`, and is replaced only if rmixup
        wrote it.
    nodes : (n,) text, optional
    dtype : "float32" or "float64", optional
        How matrices and series are stored; as the first one comes, when left out.
    """

    def __init__(
        self, folder: str | Path, nodes: Any = None, *, overwrite: bool = False, dtype: npt.DTypeLike | None = None
    ) -> None:
        self.folder = Path(os.path.abspath(folder))  # noqa: PTH100 -- resolve() would replace a link by its target
        self.subjects: list[str] = []
        self._nodes = nodes
        self._dtype = None if dtype is None else np.dtype(dtype)
        self._overwrite = overwrite
        self._lengths: list[int] = []
        self._files: dict[str, RowsFile] = {}
        self._open = ExitStack()
        _check_place(self.folder, overwrite)
        with _disk_errors(self.folder):
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            sweep(self.folder)
            self._part = _sibling(self.folder, "part")
            self._part.mkdir()

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.discard()

    def add(self, subject: str, matrix: Any = None, series: Any = None, frames: int | None = None) -> None:
        """Append one network: matrix (n, n), series (t, n), or both; `frames` where only the matrix is known."""
        given = {
            name: np.asarray(value) for name, value in (("matrices", matrix), ("series", series)) if value is not None
        }
        self._check(subject, given)
        with _disk_errors(self.folder):
            for name, array in given.items():
                rows = array[None] if name == "matrices" else array
                self._file(name, array).append(rows)
        self.subjects.append(str(subject))
        self._lengths.append(len(given["series"]) if "series" in given else frames or 0)

    def _check(self, subject: str, given: Mapping[str, Array]) -> None:
        if not given:
            raise DataError(f"subject {subject}: expected a matrix or a series, got neither")
        if self.subjects and set(given) != set(self._files):
            raise DataError(
                f"subject {subject} comes with {' and '.join(given)}, the ones before with "
                f"{' and '.join(self._files)}: give the same for everybody"
            )
        n = self._n_nodes(given)
        for name, array in given.items():
            fits = array.shape == (n, n) if name == "matrices" else array.ndim == 2 and array.shape[1] == n
            if not fits or array.dtype.kind not in "fiub":
                expected = f"({n}, {n})" if name == "matrices" else f"(t, {n})"
                raise DataError(
                    f"subject {subject}: expected {name} of shape {expected} holding numbers, got {array.shape} "
                    f"{array.dtype}: everybody must have the same {n} nodes"
                )

    def _n_nodes(self, given: Mapping[str, Array]) -> int:
        if self._nodes is not None:
            return len(self._nodes)
        known: tuple[Array | RowsFile, ...] = (*self._files.values(), *given.values())
        return int(known[0].shape[-1]) if known[0].shape else 0

    def _file(self, name: str, array: Array) -> RowsFile:
        if name not in self._files:
            is_float = array.dtype in (np.dtype(np.float32), np.dtype(np.float64))
            dtype = self._dtype or (array.dtype if is_float else np.dtype(np.float64))
            shape = array.shape if name == "matrices" else array.shape[1:]
            self._files[name] = self._open.enter_context(RowsFile(self._part / f"{name}.npy", shape, dtype))
        return self._files[name]

    def commit(self, **known: Any) -> Networks:
        """Write what is known of the people, move the folder to its place, return its Networks.

        Keywords are those of `Networks` (y, groups, families, table, target, classes, coordinates, provenance), in
        the order in which the networks were added; the constructor judges them before anything is moved.
        """
        if not self.subjects:
            raise DataError(f"{self.folder}: no networks were added, so there is nothing to write")
        with _disk_errors(self.folder):
            for file in self._files.values():
                file.close()
            self._describe(known)
            _move(self._part, self.folder, self._overwrite)
        return open_folder(self.folder)

    def _describe(self, known: Mapping[str, Any]) -> None:
        """Everything but the arrays, which are closed again on return: some systems do not move what is open."""
        ds = self._networks(known)
        _write_tables(ds, self._part)
        _write_manifest(ds, self._part)

    def _networks(self, known: Mapping[str, Any]) -> Networks:
        arrays: dict[str, Any] = {"frames": self._lengths if all(self._lengths) else None}
        if "matrices" in self._files:
            arrays["matrices"] = open_array(self._part / "matrices.npy")
        if "series" in self._files:
            offsets = np.concatenate([[0], np.cumsum(self._lengths)]).astype(np.int64)
            with RowsFile(self._part / "offsets.npy", (), np.dtype(np.int64)) as file:
                file.append(offsets)
                file.close()
            arrays["series"] = _cut(open_array(self._part / "series.npy"), offsets)
        return Networks(subjects=self.subjects, nodes=self._nodes, **{**arrays, **known})

    def discard(self) -> None:
        """Close and remove what was not committed."""
        self._open.close()
        shutil.rmtree(self._part, ignore_errors=True)


def save(ds: Networks, folder: str | Path, overwrite: bool = False) -> Path:
    """Write a data set as a folder; returns its path.

    >>> import tempfile, pathlib
    >>> ds = Networks(np.stack([np.eye(2)] * 3), [0.5, 1.0, 2.0])
    >>> folder = save(ds, pathlib.Path(tempfile.mkdtemp()) / "cohort")
    >>> open_folder(folder).content_hash() == ds.content_hash()
    True
    """
    known = ("y", "groups", "families", "target", "classes", "coordinates", "provenance", "table")
    with Writer(folder, ds.nodes, overwrite=overwrite) as writer:
        for row, matrix in enumerate(_one_by_one(ds)):
            series = None if ds.series is None else ds.series[row]
            frames = None if ds.frames is None else int(ds.frames[row])
            writer.add(str(ds.subjects[row]), matrix, series, frames)
        writer.commit(**{name: getattr(ds, name) for name in known})
        return writer.folder


def _one_by_one(ds: Networks) -> Iterator[Array | None]:
    if not ds.has_matrices:
        yield from [None] * len(ds)
        return
    for _, block in ds.blocks():
        yield from block


def _write_tables(ds: Networks, part: Path) -> None:
    columns: dict[str, Any] = {"participant_id": ds.subjects.tolist()}
    if ds.y is not None:
        values = ds.label_names() if ds.task == "classification" else ds.y
        names = ["label"] if values.ndim == 1 else [f"label_{k}" for k in range(values.shape[1])]
        columns |= dict(zip(names, values.reshape(len(ds), -1).T.tolist(), strict=True))
    known: dict[str, Array | None] = {"group": ds.groups, "family": ds.families, "frames": ds.frames}
    columns |= {name: values.tolist() for name, values in known.items() if values is not None}
    _write_columns(part / "participants.tsv", columns)
    places = {} if ds.coordinates is None else dict(zip("xyz", ds.coordinates.T.tolist(), strict=True))
    _write_columns(part / "nodes.tsv", {"name": ds.nodes.tolist(), **places})
    if ds.table is not None:
        _write_columns(part / "phenotype.tsv", _phenotype(ds.table))


def _write_columns(path: Path, columns: Mapping[str, list[Any]]) -> None:
    write_tsv(path, list(columns), zip(*columns.values(), strict=True))


def _phenotype(table: pd.DataFrame) -> dict[str, list[Any]]:
    """The table's columns as text, None where missing; floats so that they come back to the last bit."""
    columns: dict[str, list[Any]] = {"participant_id": list(table.index)}
    for name, column in table.items():
        if str(name) in columns:
            raise DataError(f"the table has two columns named {name}; rename one")
        missing = column.isna()
        columns[str(name)] = [None if gone else value for value, gone in zip(column.tolist(), missing, strict=True)]
    return columns


def _column_types(table: pd.DataFrame) -> dict[str, str]:
    from pandas.api import types

    def kind(column: pd.Series[Any]) -> str:
        if types.is_bool_dtype(column):
            return "boolean"
        if types.is_integer_dtype(column):
            return "integer"
        return "number" if types.is_float_dtype(column) else "text"

    return {str(name): kind(column) for name, column in table.items()}


def _write_manifest(ds: Networks, part: Path) -> None:
    files = sorted(path for path in part.iterdir() if path.is_file())
    content = {
        "format": FORMAT,
        "schema": SCHEMA,
        "n_subjects": len(ds),
        "n_nodes": ds.n_nodes,
        "target": ds.target,
        "task": ds.task,
        "classes": ds.classes,
        "columns": None if ds.table is None else _column_types(ds.table),
        "files": {path.name: {"sha256": sha256_of(path), "size": path.stat().st_size} for path in files},
        "content_hash": ds.content_hash(),
        "provenance": ds.provenance.to_json(),
    }
    with (part / MANIFEST).open("w", encoding="utf-8") as file:
        json.dump({**content, "seal": _seal(content)}, file, indent=1)
        sync(file)


def _seal(content: Mapping[str, Any]) -> str:
    """A checksum of the manifest itself."""
    text = json.dumps({k: v for k, v in content.items() if k != "seal"}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


# ---- places and names


def _check_place(folder: Path, overwrite: bool) -> None:
    if not os.path.lexists(folder):
        return
    if not folder.is_dir():
        raise StoreError(f"{folder}: a file of this name is in the way; choose another name")
    if not any(folder.iterdir()):
        return
    if not (folder / MANIFEST).is_file():
        raise StoreError(f"{folder}: this folder holds something else than networks; choose another name")
    if not overwrite:
        raise StoreError(f"{folder}: the folder exists already; choose another name, or ask to overwrite it")


def _sibling(folder: Path, kind: str) -> Path:
    """A hidden name beside the folder that says which process on which machine it belongs to."""
    owner = f"{_host()}-{os.getpid()}"
    return folder.parent / f".{folder.name}.{owner}-{uuid.uuid4().hex[:12]}.{kind}"


def _host() -> str:
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:12]


def sweep(folder: Path) -> None:
    """Remove what writers of this folder that died on this machine left behind; bring back what one had moved aside."""
    if not folder.parent.is_dir():
        return
    for path in sorted(folder.parent.iterdir()):
        if not path.name.startswith(f".{folder.name}.") or not _is_left_behind(path):
            continue
        if path.suffix == ".old" and not folder.exists():
            path.rename(folder)
        else:
            shutil.rmtree(path, ignore_errors=True)


def _is_left_behind(path: Path) -> bool:
    owner = path.name.split(".")[-2].split("-")
    if path.suffix not in {".part", ".old"} or len(owner) != 3 or owner[0] != _host() or not owner[1].isdecimal():
        return False
    return os.name == "posix" and not _is_alive(int(owner[1]))


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def _move(part: Path, folder: Path, overwrite: bool) -> None:
    """Bring a finished folder to its place; an old one steps aside first and is removed last."""
    _check_place(folder, overwrite)
    _sync_folder(part)
    if not folder.exists():
        part.rename(folder)
    else:
        aside = _sibling(folder, "old")
        folder.rename(aside)
        part.rename(folder)
        shutil.rmtree(aside, ignore_errors=True)
    _sync_folder(folder.parent)


def _sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk, where the system knows how."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _disk_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except StoreError:
        raise
    except OSError as error:
        raise StoreError(
            f"{folder}: cannot be written ({error.strerror or error}; {_free(folder)}); nothing was left there"
        ) from error


def _free(folder: Path) -> str:
    """How much room there is where a folder was to be."""
    try:
        return f"{shutil.disk_usage(folder.parent).free} bytes are free there"
    except OSError:
        return "there is no such place"


# ---- reading


def open_folder(folder: str | Path, verify: bool = False) -> Networks:
    """The Networks of a folder, arrays memory-mapped.

    Schema, sizes and the checksums of the small files are always verified, those of the arrays with `verify`.
    What is damaged is named.
    """
    folder = Path(folder)
    if not folder.exists():
        sweep(folder)
    manifest = _read_manifest(folder)
    try:
        _verify(folder, manifest["files"], verify)
        ds = Networks(**_contents(folder, manifest))
        stated, content = (manifest["n_subjects"], manifest["n_nodes"]), manifest["content_hash"]
    except (FormatError, StoreError):
        raise
    except (DataError, LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise FormatError(f"{folder}: its files do not fit together ({error}); import the data set again") from error
    if (len(ds), ds.n_nodes) != stated:
        raise FormatError(
            f"{folder}: the arrays do not have the size that {MANIFEST} states; import the data set again"
        )
    return ds.known_by(content) if verify else ds


def is_folder(path: str | Path) -> bool:
    """Whether rmixup wrote this folder."""
    try:
        _read_manifest(Path(path))
    except (StoreError, FormatError):
        return False
    return True


def _read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    if not path.is_file():
        raise StoreError(
            f"{folder}: this is not a folder of networks ({MANIFEST} is missing); make one with rmixup import"
        )
    if path.stat().st_size > _MAX_MANIFEST:
        raise FormatError(f"{path}: {path.stat().st_size} bytes are too many for a description; the file is damaged")
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        kind, schema = manifest["format"], manifest["schema"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise FormatError(f"{path}: is damaged ({error}); import the data set again") from error
    if kind != FORMAT or not isinstance(schema, int):
        raise FormatError(f"{path}: describes {kind!r}, expected {FORMAT!r}")
    if schema > SCHEMA:
        raise FormatError(f"{path}: was written by a newer rmixup (schema {schema}, known {SCHEMA}); update rmixup")
    if manifest.get("seal") != _seal(manifest):
        raise FormatError(f"{path}: was changed after it was written; import the data set again")
    return dict(manifest)


def _verify(folder: Path, files: Mapping[str, Mapping[str, Any]], verify: bool) -> None:
    problems = []
    for name, stated in files.items():
        path = folder / name
        if name not in _NAMES or not path.is_file():
            problems.append(f"{name} is missing")
        elif path.stat().st_size != stated["size"]:
            problems.append(f"{name} has {path.stat().st_size} bytes, expected {stated['size']}")
        elif (verify or name not in _LARGE) and sha256_of(path) != stated["sha256"]:
            problems.append(f"{name} does not have the checksum it was written with")
    if problems:
        raise StoreError(f"{folder}: is damaged: {'; '.join(problems)}; import the data set again")


def _contents(folder: Path, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What the constructor of Networks takes."""
    people, nodes = read_tsv(folder / "participants.tsv"), read_tsv(folder / "nodes.tsv")
    files = manifest["files"]
    contents: dict[str, Any] = {
        "subjects": people["participant_id"],
        "groups": people.get("group"),
        "families": people.get("family"),
        "frames": [int(t) for t in people["frames"]] if "frames" in people else None,
        "nodes": nodes["name"],
        "coordinates": [list(map(float, place)) for place in zip(nodes["x"], nodes["y"], nodes["z"], strict=True)]
        if "x" in nodes
        else None,
        "y": _labels(people, manifest["task"]),
        "target": manifest["target"],
        "classes": manifest["classes"],
        "provenance": Provenance(**manifest["provenance"]),
    }
    if "matrices.npy" in files:
        contents["matrices"] = open_array(folder / "matrices.npy")
    if "series.npy" in files:
        contents["series"] = _cut(open_array(folder / "series.npy"), open_array(folder / "offsets.npy"))
    if "phenotype.tsv" in files:
        contents["table"] = _table(read_tsv(folder / "phenotype.tsv"), manifest["columns"])
    return contents


def _labels(people: Mapping[str, list[str]], task: str | None) -> Array | None:
    columns = [column for name, column in people.items() if name == "label" or name.startswith("label_")]
    if task is None:
        return None
    if task == "classification":
        return np.array(columns[0], dtype=object)
    return np.array(columns, dtype=np.float64).T.reshape(len(columns[0]), -1)


def _cut(stacked: Array, offsets: Array) -> tuple[Array, ...]:
    """The series of each network as views; the plain array beneath a memory map is many times quicker to cut."""
    plain = np.asarray(stacked)
    return tuple(plain[start:stop] for start, stop in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True))


def _table(columns: dict[str, list[str]], types: Mapping[str, str]) -> pd.DataFrame:
    import pandas as pd

    index = pd.Index(columns.pop("participant_id"), name="subject", dtype=object)
    data = {
        name: _typed([None if text == MISSING else text for text in texts], types[name])
        for name, texts in columns.items()
    }
    return pd.DataFrame(data, index=index)


def _typed(texts: list[str | None], kind: str) -> Any:
    """A column with the type it was written from."""
    import pandas as pd

    if kind == "number":
        return np.array([np.nan if text is None else float(text) for text in texts], dtype=np.float64)
    if kind == "text":
        return np.array(texts, dtype=object)
    convert: Any = int if kind == "integer" else {"True": True, "False": False}.__getitem__
    values: Any = [None if text is None else convert(text) for text in texts]
    return (
        np.array(values) if None not in values else pd.array(values, dtype="Int64" if kind == "integer" else "boolean")
    )
