"""Tables of text as TSV that gives back exactly what was written: tabs, quotes, line ends, formulas, emoji."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

from rmixup.data.npy import sync
from rmixup.errors import DataError, FormatError

# What BIDS writes for a missing value.
MISSING = "n/a"
_SPECIAL = frozenset('\t\r\n"')


def write_tsv(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write rows below their column names; None is a missing value."""
    with path.open("w", encoding="utf-8", newline="") as file:
        for row in (columns, *rows):
            file.write("\t".join(map(field, row)) + "\n")
        sync(file)


def field(value: object) -> str:
    """A value as one field: quoted where tabs, quotes or line ends in it ask for that."""
    text = MISSING if value is None else str(value)
    if len(text) > csv.field_size_limit():
        raise DataError(f"a text of {len(text)} characters ({text[:30]}…) does not fit into a table; shorten it")
    return '"' + text.replace('"', '""') + '"' if _SPECIAL & set(text) else text


def read_tsv(path: Path) -> dict[str, list[str]]:
    """Column name → texts, missing values as they were written; a table that is not rectangular is refused."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file, delimiter="\t", strict=True))
    except (csv.Error, UnicodeDecodeError) as error:
        raise FormatError(f"{path}: this is not a table rmixup wrote ({error}); import the data set again") from error
    if not rows:
        raise FormatError(f"{path}: the table is empty; expected a line of column names")
    ragged = [k for k, row in enumerate(rows, start=1) if len(row) != len(rows[0])]
    if ragged:
        raise FormatError(f"{path}: row {ragged[0]} has {len(rows[ragged[0] - 1])} fields, expected {len(rows[0])}")
    return {name: [row[k] for row in rows[1:]] for k, name in enumerate(rows[0])}
