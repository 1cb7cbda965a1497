"""A folder with one file a subject (.csv .tsv .txt .1D .npy .mat) and a table of labels.

A file holds one person's series (t rows, n columns) or matrix (n, n). Whose it is says its name: the part that differs
between files, or `{id}` in a pattern.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path

import numpy as np

from rmixup.data.labels import shown
from rmixup.data.readers._files import Array, existing, open_arrays, read_mat
from rmixup.data.readers._people import Found, Person, by_subject, classify, matching
from rmixup.data.readers._phenotype import find_table, is_table
from rmixup.data.readers._text import read_grid
from rmixup.errors import DataError, FormatError

DESCRIPTION = "FOLDER/<subject>.csv|.tsv|.txt|.1D|.npy|.mat with a table of labels"
OPTIONS = ("pattern", "content", "transpose", "variable")

TEXT = frozenset({".csv", ".tsv", ".txt", ".1d"})
ENDINGS = TEXT | {".npy", ".mat"}
# Names of nodes, not of people.
_NODE_TABLES = ("nodes", "rois", "regions", "atlas", "roi_orderkey")


def recognises(path: Path) -> bool:
    """A folder with files of numbers in it that are no tables."""
    return path.is_dir() and bool(_files(path))


def _files(folder: Path) -> list[Path]:
    return [file for file in sorted(folder.iterdir()) if _is_data(file)]


def _is_data(file: Path) -> bool:
    name = file.name.lower()
    hidden = name.startswith(".") or is_table(file) or name.startswith(_NODE_TABLES)
    return file.suffix.lower() in ENDINGS and not hidden and not file.is_dir()


def read(
    path: Path,
    *,
    labels: str | Path | None = None,
    pattern: str | None = None,
    content: str = "auto",
    transpose: bool = False,
    variable: str | None = None,
) -> Found:
    """Find the people of a folder, by the names of its files."""
    files = matching(path, pattern) if pattern else _files(path)
    if labels:
        files = [file for file in files if file.resolve() != Path(labels).resolve()]
    if not files:
        raise DataError(
            f"{path}: no file fits --pattern {pattern!r}; it has {shown(sorted(p.name for p in path.iterdir()))}"
        )
    _one_kind(path, files)
    people = by_subject(files, path, pattern)

    def stream(wanted: Collection[str]) -> Iterator[Person]:
        for subject, file in people.items():
            if subject in wanted:
                yield read_person(file, subject, content, transpose, variable)

    return Found("tables", tuple(people), stream, tuple(files), table_path=None if labels else find_table(path))


def _one_kind(path: Path, files: list[Path]) -> None:
    endings = Counter(file.suffix for file in files)
    if len(endings) > 1:
        some = shown(f"{count} × {ending}" for ending, count in endings.items())
        raise DataError(
            f"{path}: has files of several kinds ({some}); choose with --pattern, such as --pattern '*.csv'"
        )


def read_person(
    file: Path, subject: str, content: str = "auto", transpose: bool = False, variable: str | None = None
) -> Person:
    """One person's array from a file of any kind."""
    values, nodes = read_values(existing(file), variable)
    where = str(file)
    values, kind = classify(values, where, content, transpose)
    names = None if nodes is None or len(nodes) != values.shape[1] else nodes
    return Person(subject, values, kind, names, where)


def read_values(file: Path, variable: str | None = None) -> tuple[Array, tuple[str, ...] | None]:
    """The numbers of a file, and the names of its columns where it has them."""
    ending = file.suffix.lower()
    if ending in TEXT:
        grid = read_grid(file)
        return grid.values, grid.columns or grid.rows
    if ending == ".npy":
        return open_arrays(file)[""].whole(), None
    return _variable(file, variable), None


def _variable(file: Path, name: str | None) -> Array:
    """The one table of numbers in a .mat file, or the one that is named."""
    found = read_mat(file, None if name is None else (name,))
    tables = {
        key: value for key, value in found.items() if isinstance(value, np.ndarray) and min(value.shape, default=0) > 1
    }
    if name is not None and name not in tables:
        raise FormatError(f"{file}: has no table of numbers named {name!r}; its variables: {shown(read_mat(file), 10)}")
    if len(tables) != 1:
        raise FormatError(
            f"{file}: expected one table of numbers, found {shown(tables, 10) or 'none'}; choose with --variable NAME"
        )
    return np.asarray(next(iter(tables.values())))
