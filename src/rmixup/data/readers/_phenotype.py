"""Tables about people: participants.tsv, phenotype CSVs; read as text first, so that ids keep their leading zeros.

May not be here: networks. A table is joined to them by subject id, never by position.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rmixup.data.labels import shown
from rmixup.data.readers._text import read_text, sniff_delimiter
from rmixup.errors import DataError, FormatError

MISSING = frozenset({"", "n/a", "N/A", "NA", "NaN", "nan", "null", "None"})
ID_COLUMNS = ("participant_id", "subject_id", "subject", "sub_id", "file_id", "id", "subid", "barcode", "sample")
# What people call the table that goes with a folder of networks.
TABLE_NAMES = ("participants", "phenotyp", "labels", "subjects", "demographics")


def read_table(path: Path, missing: frozenset[str] = MISSING) -> pd.DataFrame:
    """A CSV, TSV or Parquet table; columns of numbers become numbers, all else stays text (missing: NaN)."""
    if path.suffix.lower() == ".parquet":
        return _read_parquet(path)
    text = read_text(path)
    delimiter = sniff_delimiter(text.split("\n", 1)[0]) or "\t"
    try:
        table = pd.read_csv(io.StringIO(text), sep=delimiter, dtype=str, keep_default_na=False, index_col=False)
    except (pd.errors.ParserError, pd.errors.EmptyDataError, pd.errors.ParserWarning) as error:
        raise FormatError(f"{path}: cannot be read as a table ({_first_line(error)}); export it again") from None
    table.columns = [str(name).strip() for name in table.columns]
    if len(table) == 0:
        raise FormatError(f"{path}: expected one row a subject below the header, found the header only")
    stripped: pd.DataFrame = table.apply(lambda column: column.str.strip())
    return stripped.map(lambda cell: np.nan if cell in missing else cell)


def _read_parquet(path: Path) -> pd.DataFrame:
    from rmixup.data.readers._files import need

    need("pyarrow", path)
    try:
        table = pd.read_parquet(path)
        table = table if isinstance(table.index, pd.RangeIndex) else table.reset_index()
    except Exception as error:  # what the file says of itself is believed by pandas, which then raises anything
        raise FormatError(f"{path}: cannot be read as Parquet ({_first_line(error)}); write it again") from None
    if table.empty:
        raise FormatError(f"{path}: expected one row a subject with its id, found an empty table")
    table = table.set_axis(table.columns.map(str), axis=1)
    twice = table.columns[table.columns.duplicated()].unique()
    if len(twice):  # unlike CSV, where pandas numbers them
        raise FormatError(
            f"{path}: {shown(twice)} names more than one column; give each its own name and write it again"
        )
    return table.apply(lambda column: _decoded(path, column))


def _decoded(path: Path, column: pd.Series[Any]) -> pd.Series[Any]:
    """The column with bytes as text: some writers store text without saying that it is."""
    cells = column.astype(object) if isinstance(column.dtype, pd.CategoricalDtype) else column
    if cells.dtype != object or not cells.map(lambda cell: isinstance(cell, bytes)).any():
        return column
    try:
        return cells.map(lambda cell: cell.decode() if isinstance(cell, bytes) else cell)
    except UnicodeDecodeError as error:
        raise FormatError(
            f"{path}: column {str(column.name)!r} holds bytes that are no UTF-8 text ({error.object[:20]!r}); write it "
            "as text"
        ) from None


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).split("\n")[0].removeprefix("Error tokenizing data. C error: ")


def find_table(folder: Path, above: bool = True) -> Path | None:
    """The table that lies beside the data or one folder up; two that could be it are not guessed between."""
    for place in (folder, folder.parent) if above else (folder,):
        found = [file for file in sorted(place.iterdir()) if is_table(file)] if place.is_dir() else []
        if len(found) > 1:
            raise DataError(
                f"{place}: {shown(file.name for file in found)} could each be the table of labels; choose with --labels"
            )
        if found:
            return found[0]
    return None


def is_table(path: Path) -> bool:
    """Whether the name says that this is a table about people."""
    return path.suffix.lower() in {".tsv", ".csv", ".parquet"} and path.name.lower().startswith(TABLE_NAMES)


def join(table: pd.DataFrame, path: Path, subjects: Sequence[str], id_column: str | None = None) -> pd.DataFrame:
    """The table's rows by subject id, indexed by the subjects' own names; subjects without a row are left out.

    Ids that differ only by 'sub-' or leading zeros meet when that leaves every id unique.
    """
    columns = [_column(table, path, id_column)] if id_column else _candidates(table)
    joined = max((_join_on(table, path, column, subjects) for column in columns), key=len)
    if len(joined) == 0:
        offered = table[columns[0]].dropna().astype(str)
        raise DataError(
            f"{path}: no id in column {' or '.join(map(repr, columns))} matches a subject; the table has "
            f"{shown(offered, 3)}, the data have {shown(subjects, 3)}: name the column with --id-column, or say how "
            "ids stand in file names with --pattern"
        )
    return joined


def _column(table: pd.DataFrame, path: Path, name: str) -> str:
    if name not in table.columns:
        raise DataError(f"{path}: no column is named {name!r}; there are: {shown(table.columns, 30)}")
    return name


def _candidates(table: pd.DataFrame) -> list[str]:
    known = [name for name in table.columns if name.lower() in ID_COLUMNS]
    return known or [table.columns[0]]


def _join_on(table: pd.DataFrame, path: Path, column: str, subjects: Sequence[str]) -> pd.DataFrame:
    ids = table[column]
    rows = table[ids.notna()].set_axis(ids.dropna().astype(str), axis=0)
    for simplify in (str, bare_id):
        keys, wanted = rows.index.map(simplify), [simplify(name) for name in subjects]
        known = set(keys)
        present = [(name, key) for name, key in zip(subjects, wanted, strict=True) if key in known]
        if present and len(set(wanted)) == len(wanted):
            _refuse_twice(path, column, keys, {key for _, key in present})
            found = rows.set_axis(keys, axis=0).loc[[key for _, key in present]]
            return without_ids(found.set_axis(pd.Index([name for name, _ in present], name="subject"), axis=0), column)
    return rows.iloc[:0]


def without_ids(table: pd.DataFrame, column: str) -> pd.DataFrame:
    """The table without its column of ids, which its index holds; another `participant_id` is kept under a new name."""
    return table.drop(columns=column).rename(columns={"participant_id": "participant_id_in_table"})


def _refuse_twice(path: Path, column: str, keys: pd.Index[str], wanted: set[str]) -> None:
    twice = sorted(set(keys[keys.duplicated()]) & wanted)
    if twice:
        raise DataError(f"{path}, column {column!r}: {shown(twice)} stand in more than one row; keep one row a subject")


def bare_id(name: str) -> str:
    """An id without what tools add to it: 'sub-', 'Subject', leading zeros, a decimal point from a spreadsheet."""
    bare = re.sub(r"^sub-|^sub(ject)?[-_]?(?=\d+$)", "", name.strip().removesuffix(".0"), flags=re.IGNORECASE)
    return bare.lstrip("0") if bare.isdecimal() else bare


def typed(table: pd.DataFrame) -> pd.DataFrame:
    """Columns in which every value that is there is a number, as numbers; whole ones as int64 where none is missing."""
    return table.apply(_typed_column)


def _typed_column(column: pd.Series[Any]) -> pd.Series[Any]:
    numbers = pd.to_numeric(column, errors="coerce")
    if bool((numbers.notna() == column.notna()).all()) and bool(column.notna().any()):
        return numbers
    return column


def check_target(joined: pd.DataFrame, path: Path, name: str, source: pd.DataFrame) -> None:
    """Refuse a target column that is not there, or in which a few cells among numbers are text."""
    _column(joined, path, name)
    column = joined[name]
    numbers = pd.to_numeric(column, errors="coerce")
    text = numbers.isna() & column.notna()
    if 0 < text.sum() < 0.5 * column.notna().sum():
        cell = column[text].iloc[0]
        line = int(np.flatnonzero((source[name] == cell).to_numpy())[0]) + 2
        raise FormatError(
            f"{path}: line {line}, column {name!r}: expected a number as in the other rows, found {cell!r}; "
            "correct the cell, or leave it empty and use --drop-unlabelled"
        )
