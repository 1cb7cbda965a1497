"""A stack: one .npz or .npy file with everybody's matrices or series.

.npz: `matrices` (N, n, n), or `series` (N, t, n), or `series_0`, `series_1`, … (t_k, n); `subjects`; where known `y`,
`groups`, `families`, `nodes`. .npy: matrices (N, n, n) or series (N, t, n); it has no room for ids, so the rows of the
table that goes with it say who they are, in order, and must be as many.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rmixup.data.labels import shown
from rmixup.data.readers._files import Npy, existing, open_arrays
from rmixup.data.readers._people import Found, Kind, Person, classify
from rmixup.data.readers._phenotype import ID_COLUMNS, find_table, read_table, without_ids
from rmixup.errors import DataError, FormatError

DESCRIPTION = "stack.npz with matrices or series, y, subjects; or stack.npy with a table"
OPTIONS = ("content",)

_KNOWN = frozenset({"matrices", "series", "y", "subjects", "groups", "families", "nodes"})
# The columns that the stack's own labels get.
_LABEL, _GROUP, _FAMILY = "y", "group", "family"
_STACK_DIMENSIONS = 3


def recognises(path: Path) -> bool:
    """A .npz or .npy file, or a folder whose one .npy or .npz holds a stack."""
    if path.is_file():
        return path.suffix.lower() in {".npz", ".npy"}
    return _stack_in(path) is not None


def _stack_in(folder: Path) -> Path | None:
    stacks = [file for file in sorted(folder.iterdir()) if file.suffix.lower() in {".npz", ".npy"}]
    if len(stacks) != 1:
        return None
    arrays = open_arrays(stacks[0])
    stacked = stacks[0].suffix == ".npz" or len(arrays[""].shape) == _STACK_DIMENSIONS
    return stacks[0] if stacked else None


def read(path: Path, *, labels: str | Path | None = None, id_column: str | None = None, content: str = "auto") -> Found:
    """Find the people of a stack file."""
    file = path if path.is_file() else _stack_in(path)
    assert file is not None
    arrays = open_arrays(file)
    if file.suffix.lower() == ".npy":
        return _plain_stack(file, arrays[""], labels, id_column, content)
    return _archive(file, arrays, labels, content)


def _plain_stack(file: Path, stack: Npy, labels: str | Path | None, id_column: str | None, content: str) -> Found:
    table_path = existing(Path(labels)) if labels else find_table(file.parent)
    if table_path is None:
        raise DataError(
            f"{file}: a .npy file cannot say whose its networks are; name the table whose rows are in the same order "
            "with --labels, or save an .npz with `subjects`"
        )
    raw = read_table(table_path)
    column = id_column or next((name for name in raw.columns if name.lower() in ID_COLUMNS), raw.columns[0])
    if column not in raw.columns or raw[column].isna().any():
        raise DataError(f"{table_path}: column {column!r} must give every row a subject id; choose it with --id-column")
    ids = raw[column].astype(str)
    if len(ids) != stack.shape[0]:
        raise DataError(
            f"{file}: holds {stack.shape[0]} networks, {table_path} has {len(ids)} rows; a .npy file is joined to its "
            "table row by row, so both must be as many: save an .npz with `subjects` if they are not"
        )
    _refuse_repeats(ids.tolist(), table_path)
    table = without_ids(raw.set_axis(pd.Index(ids, name="subject"), axis=0), column)
    return Found(
        layout="arrays",
        subjects=tuple(ids),
        stream=lambda wanted: _stream(stack, ids.tolist(), None, wanted, _kind(stack, content)),
        files=(file, table_path),
        table=table,
        table_path=table_path,
        steps=(("row by row", {"table": str(table_path), "id_column": column}),),
    )


def _archive(file: Path, arrays: dict[str, Npy], labels: str | Path | None, content: str) -> Found:
    numbered = sorted((name for name in arrays if name.removeprefix("series_").isdecimal()), key=lambda s: int(s[7:]))
    unknown = sorted(set(arrays) - _KNOWN - set(numbered))
    if not numbered and not {"matrices", "series"} & set(arrays):
        raise FormatError(
            f"{file}: expected an array 'matrices' or 'series' (or series_0, series_1, …), found {shown(unknown, 10)}; "
            "rename it"
        )
    if "subjects" not in arrays:
        raise FormatError(f"{file}: has no array 'subjects' (text, one id a network); add it: labels are joined by id")
    subjects = [str(name) for name in _texts(arrays["subjects"])]
    nodes = tuple(_texts(arrays["nodes"])) if "nodes" in arrays else None
    stack = arrays.get("series" if "series" in arrays and content != "matrices" else "matrices", arrays.get("series"))
    if stack is not None and len(stack.shape) != _STACK_DIMENSIONS:
        raise _no_stack(stack)
    _agree(file, len(numbered) if stack is None else stack.shape[0], subjects)
    parts = [arrays[name] for name in numbered]
    # A stack's own labels go along as a table, unless one is named.
    table = None if labels else _own_table(file, arrays, subjects)
    own = () if table is None else tuple(table.columns)
    return Found(
        layout="arrays",
        subjects=tuple(subjects),
        stream=lambda wanted: (
            _stream_parts(parts, subjects, nodes, wanted)
            if stack is None
            else _stream(stack, subjects, nodes, wanted, "matrix" if stack is arrays.get("matrices") else "series")
        ),
        files=(file,),
        table=table,
        table_path=None if labels else find_table(file.parent, above=False) if table is None else file,
        target=_LABEL if _LABEL in own else None,
        groups=_GROUP if _GROUP in own else None,
        families=None if _FAMILY not in own else dict(zip(subjects, _texts(arrays["families"]), strict=True)),
        steps=() if not unknown else (("ignore", {"arrays": unknown}),),
    )


def _agree(file: Path, count: int, subjects: list[str]) -> None:
    if count != len(subjects):
        raise FormatError(f"{file}: holds {count} networks and {len(subjects)} subjects; give every network one id")
    _refuse_repeats(subjects, file)


def _refuse_repeats(ids: list[str], where: Path) -> None:
    twice = sorted({name for name in ids if ids.count(name) > 1}) if len(set(ids)) < len(ids) else []
    if twice:
        raise DataError(
            f"{where}: {shown(twice)} occur more than once among the subjects; give every network its own id"
        )


def _texts(array: Npy) -> list[str]:
    values = array.whole()
    if values.ndim != 1:
        raise FormatError(f"{array.where}: expected one row of names, found shape {values.shape}; save it as 1-D")
    return [value.decode() if isinstance(value, bytes) else str(value) for value in values.tolist()]


def _own_table(file: Path, arrays: dict[str, Npy], subjects: list[str]) -> pd.DataFrame | None:
    columns: dict[str, Any] = {}
    for name, column in ((_LABEL, "y"), (_GROUP, "groups"), (_FAMILY, "families")):
        if column not in arrays:
            continue
        values = arrays[column].whole()
        if values.dtype.kind not in "biufSU":
            raise FormatError(f"{file}: {column!r} holds {values.dtype}; save it as numbers or text")
        if not 1 <= values.ndim <= (2 if column == "y" else 1):
            raise FormatError(f"{file}: {column!r} has the shape {values.shape}; give every subject one entry")
        if len(values) != len(subjects):
            raise FormatError(
                f"{file}: {column!r} has {len(values)} entries for {len(subjects)} subjects; give one each"
            )
        if values.ndim == 1:
            columns[name] = values
        else:
            columns |= {f"{name}_{k}": values[:, k] for k in range(values.shape[1])}
    return pd.DataFrame(columns, index=pd.Index(subjects, name="subject")) if columns else None


def _no_stack(stack: Npy) -> FormatError:
    return FormatError(f"{stack.where}: expected (N, n, n) or (N, t, n), found shape {stack.shape}; save it so")


def _kind(stack: Npy, content: str) -> Kind:
    """What a .npy stack holds, judged by its first entry."""
    if len(stack.shape) != _STACK_DIMENSIONS or 0 in stack.shape:
        raise _no_stack(stack)
    return classify(next(stack.rows()), stack.where, content)[1]


def _stream(
    stack: Npy, subjects: list[str], nodes: tuple[str, ...] | None, wanted: Collection[str], kind: Kind
) -> Iterator[Person]:
    content = "matrices" if kind == "matrix" else "series"
    for name, values in zip(subjects, stack.rows(), strict=True):
        if name in wanted:
            where = f"{stack.where}, subject {name}"
            yield Person(name, classify(values, where, content)[0], kind, nodes, where)


def _stream_parts(
    parts: list[Npy], subjects: list[str], nodes: tuple[str, ...] | None, wanted: Collection[str]
) -> Iterator[Person]:
    for name, part in zip(subjects, parts, strict=True):
        if name in wanted:
            yield Person(name, classify(np.asarray(part.whole()), part.where, "series")[0], "series", nodes, part.where)
