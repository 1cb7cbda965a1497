"""Readers: one file a source, each turns what its owners distribute into a `Networks`.

`READERS` maps a layout's name to its module, which has `recognises(path)`, `read(path, **options) -> Found`, and
`OPTIONS` and `DESCRIPTION` to say so. A reader only finds and reads; labels are joined and repairs made, when asked
for, in `_assemble`, the same way for all. May not be here: splits, anything fitted over subjects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import Any

from rmixup.data import store
from rmixup.data.labels import shown
from rmixup.data.networks import Networks
from rmixup.data.readers import arrays, bids, expression, mat, pcp, tables
from rmixup.data.readers._assemble import Folder, Memory, Settings, assemble, choose
from rmixup.data.readers._files import existing
from rmixup.data.readers._people import Found, Person
from rmixup.errors import DataError, FormatError

# The first that recognises a path wins: the most particular come first.
READERS: dict[str, ModuleType] = {
    "pcp": pcp,
    "bids": bids,
    "mat": mat,
    "arrays": arrays,
    "tables": tables,
    "expression": expression,
}

_COMMON = {field.name for field in fields(Settings)}


def load(
    path: str | Path,
    target: str | Sequence[str] | None = None,
    groups: str | None = None,
    layout: str = "auto",
    *,
    verify: bool = False,
    **options: Any,
) -> Networks:
    """Read any supported file or folder into memory (a folder that rmixup wrote is mapped, not read).

    Parameters
    ----------
    path : path
        A folder of `rmixup import`, a stack, a folder with one file a subject, ABIDE, BIDS derivatives, CONN, DPABI,
        or a table of gene expression; the page "Your own data" shows each.
    target, groups : str
        Columns of the table that goes with the data: what is to be predicted, and the site.
    layout : str
        A name in `READERS`, or "auto": the first that recognises the path.
    verify : bool
        Of a folder that rmixup wrote, compare also the arrays with their checksums, as all commands do; reads all.
    **options
        What `rmixup import --help` lists, with underscores: `labels="participants.csv"`, `kind="correlation"`,
        `regularize="shrink=0.05"`, `drop_subjects=["sub-07"]`, …

    >>> import tempfile, numpy as np
    >>> stack = Path(tempfile.mkdtemp()) / "stack.npz"
    >>> np.savez(stack, matrices=np.stack([np.eye(3)] * 2), y=["a", "b"], subjects=["s1", "s2"])
    >>> load(stack)
    Networks(2 networks of 3 nodes, classification: a 1, b 1)
    """
    path = existing(Path(path))
    if path.name == store.MANIFEST or (path / store.MANIFEST).is_file():
        return _open(path if path.is_dir() else path.parent, target, groups, verify, options)
    found, settings = find(path, layout, {"target": target, "groups": groups, **options})
    return assemble(found, settings, Memory())


def import_folder(
    source: str | Path,
    out: str | Path,
    layout: str = "auto",
    overwrite: bool = False,
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> Networks:
    """Read a source one subject at a time into a folder that `load` opens; nothing is there before all of it is.

    `progress` is called with how many subjects are done and how many there are. Other options as in `load`.
    """
    source = existing(Path(source))
    if (source / store.MANIFEST).is_file():
        raise DataError(f"{source}: is a folder that rmixup wrote already; use it as it is, or import its source again")
    found, settings = find(source, layout, options)
    done = iter(range(1, len(found.subjects) + 1))

    def tell(_: str) -> None:
        if progress is not None:
            progress(next(done), len(found.subjects))

    with Folder(Path(out), overwrite, tell) as sink:
        return assemble(found, settings, sink)


def find(path: Path, layout: str, options: dict[str, Any]) -> tuple[Found, Settings]:
    """What a reader finds, and the settings that hold for every layout; options of other layouts are refused."""
    name = recognise(path) if layout == "auto" else layout
    if name not in READERS:
        raise DataError(f"no layout is named {name!r}; there are: auto, {', '.join(READERS)}")
    reader = READERS[name]
    given = {key: value for key, value in options.items() if value is not None}
    unknown = sorted(set(given) - _COMMON - set(reader.OPTIONS))
    if unknown:
        raise DataError(
            f"{path}: layout {name!r} has no option {shown(unknown)}; it has: "
            + ", ".join((*reader.OPTIONS, *sorted(_COMMON)))
        )
    settings = Settings(**{key: value for key, value in given.items() if key in _COMMON})
    takes = signature(reader.read).parameters
    return reader.read(path, **{key: value for key, value in given.items() if key in takes}), settings


def recognise(path: Path) -> str:
    """The name of the first layout that a path has."""
    for name, reader in READERS.items():
        if reader.recognises(path):
            return name
    there = shown((file.name for file in sorted(path.iterdir())), 5) if path.is_dir() else path.name
    known = "; ".join(f"{name}: {reader.DESCRIPTION}" for name, reader in READERS.items())
    raise FormatError(f"{path}: no known layout (found: {there or 'nothing'}); the layouts are {known}")


def _open(
    folder: Path, target: str | Sequence[str] | None, groups: str | None, verify: bool, options: dict[str, Any]
) -> Networks:
    if options:
        raise DataError(f"{folder}: {shown(sorted(options))} are for sources; import again to change what was done")
    ds = store.open_folder(folder, verify=verify)
    if groups is not None and ds.table is not None:
        ds = ds.join(ds.table, groups=groups)
    return ds if target is None or target == ds.target else ds.with_target(target)


__all__ = ["READERS", "Found", "Person", "Settings", "choose", "find", "import_folder", "load", "recognise"]
