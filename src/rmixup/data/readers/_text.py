"""Numbers and names from a text file: CSV, TSV, TXT and AFNI's 1D, with errors that name the line and the column.

May not be here: what the numbers mean (series or matrix, whose they are).
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rmixup.errors import FormatError

Floats = npt.NDArray[np.float64]

# What BIDS, pandas and R write for a value that is not there.
_MISSING = re.compile(r"(?<![^\s,;])(?:n/a|N/A|NA|NaN|nan|null)(?![^\s,;])")
_COMMENTS = ("#", "%")
# What stands above a column of row names.
_ABOVE_ROW_NAMES = frozenset({"", "node", "nodes", "name", "names", "label", "index", "roi", "region"})


@dataclass(frozen=True)
class Grid:
    """The numbers of a text file: values (rows, columns), and the names of columns and rows where it gives them."""

    values: Floats
    columns: tuple[str, ...] | None = None
    rows: tuple[str, ...] | None = None


def read_grid(path: Path) -> Grid:
    """Read a text file of numbers; the delimiter, a header and a column of row names are found, not asked for.

    A byte-order mark, Windows line ends, comment lines and commas in a .tsv are accepted; missing values (n/a, NaN)
    become NaN. Everything else that is not a number is refused with its line and column.
    """
    lines = _lines(path)
    first = next((k for k, line in enumerate(lines) if not _is_comment(line, lines[k + 1 :])), None)
    if first is None:
        raise FormatError(f"{path}: expected numbers, found comments only; export the file again")
    delimiter = _delimiter(path, lines[first])
    marked = lines[first].lstrip().startswith(_COMMENTS)
    header = _cells(_clean(lines[first]) if marked else lines[first], delimiter)
    names = tuple(_clean(cell) for cell in header) if marked or _is_header(header) else None
    body = lines[first + (names is not None) :]
    if not body:
        raise FormatError(f"{path}: expected rows of numbers below the header, found the header only")
    offset = first + 1 + (names is not None)
    labelled = _has_row_names(path, body, delimiter, offset)
    values = _parse(path, body, delimiter, labelled, offset)
    rows = tuple(_clean(_first_cell(line, delimiter)) for line in body) if labelled else None
    return _shape(path, values, names, rows)


def read_text(path: Path) -> str:
    """The whole file as text, without a byte-order mark and with plain line ends."""
    raw = path.read_bytes()
    if not raw.strip():
        raise FormatError(f"{path}: the file is empty; copy or export it again")
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise FormatError(f"{path}: the text is UTF-16, expected UTF-8; save it as CSV UTF-8 or TSV")
    if b"\0" in raw[:4096]:
        raise FormatError(f"{path}: expected text, found binary data; is the file name's ending right?")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def sniff_delimiter(line: str) -> str | None:
    """The delimiter of a table's first line: tab, else comma, else semicolon, else white space (None)."""
    return next((mark for mark in "\t,;" if mark in line), None)


def _lines(path: Path) -> list[str]:
    """The lines, those that hold nothing left out at the end only, so that line numbers stay true."""
    lines = read_text(path).rstrip().split("\n")
    return [line.rstrip(" \t") for line in lines] if lines[0][-1:] in " \t" else lines


def _is_comment(line: str, later: list[str]) -> bool:
    """A line is a comment when it starts as one and is not the header, which has as many cells as what follows."""
    if not line.strip():
        return True
    if not line.lstrip().startswith(_COMMENTS):
        return False
    below = next((text for text in later if text.strip() and not text.lstrip().startswith(_COMMENTS)), "")
    delimiter = sniff_delimiter(below)
    count = len(_cells(below, delimiter))
    return count < 2 or len(_cells(_clean(line), delimiter)) != count


def _delimiter(path: Path, line: str) -> str | None:
    delimiter = sniff_delimiter(line)
    numbers_with_comma = re.search(r"(^|[\t;])\s*-?\d+,\d+(e[-+]?\d+)?\s*([\t;]|$)", line)
    if numbers_with_comma and ("\t" in line or ";" in line):
        raise FormatError(
            f"{path}: the first line has decimal commas (or tabs and commas mixed), expected decimal points; "
            "export the file with '.' as decimal mark"
        )
    return delimiter


def _cells(line: str, delimiter: str | None) -> list[str]:
    return [cell.strip() for cell in line.strip("\n").split(delimiter)]


def _first_cell(line: str, delimiter: str | None) -> str:
    return next((cell.strip() for cell in line.strip("\n").split(delimiter, 1)), "")


def _is_header(cells: list[str]) -> bool:
    """Whether these are names of columns, not a row of numbers that may have a name itself."""
    first, *rest = cells
    names_rows = _clean(first).lower() in _ABOVE_ROW_NAMES
    return not all(map(_is_number, rest)) or (not _is_number(first) and (names_rows or not rest))


def _has_row_names(path: Path, body: list[str], delimiter: str | None, offset: int) -> bool:
    """Whether every row begins with a name; where some do and some do not, the first row's is a mistake."""
    named = [not _is_number(_first_cell(line, delimiter)) for line in body]
    if not named[0] or all(named):
        return named[0]
    cell = _first_cell(body[0], delimiter)
    raise FormatError(f"{path}: line {offset}, column 1: expected a number, found {cell!r}")


def _clean(name: str) -> str:
    return name.strip().lstrip("#%").strip().strip("\"'")


def _is_number(cell: str) -> bool:
    if _MISSING.fullmatch(cell):
        return True
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _parse(path: Path, body: list[str], delimiter: str | None, labelled: bool, offset: int) -> Floats:
    width = len(_cells(body[0], delimiter))
    text = _MISSING.sub("nan", "\n".join(body)) if _may_miss(body) else "\n".join(body)
    columns = range(1, width) if labelled else None
    try:
        values = np.loadtxt(io.StringIO(text), delimiter=delimiter, comments=None, ndmin=2, usecols=columns)
    except ValueError:
        raise _diagnosis(path, body, delimiter, labelled, offset) from None
    # NumPy passes over what stands behind the columns that are asked for, and over lines that are blank.
    ragged = labelled and any(len(_cells(line, delimiter)) != width for line in body)
    if not ragged and values.shape == (len(body), width - labelled):
        return values
    raise _diagnosis(path, body, delimiter, labelled, offset)


def _may_miss(body: list[str]) -> bool:
    """Whether a letter that only missing values have occurs: looking costs far less than replacing."""
    return any("n" in line or "N" in line for line in body)


def _diagnosis(path: Path, body: list[str], delimiter: str | None, labelled: bool, offset: int) -> FormatError:
    """Find the first cell or row that cannot be read; only ever called when one cannot."""
    width = len(_cells(body[0], delimiter))
    for number, line in enumerate(body, start=offset):
        cells = _cells(line, delimiter)
        if len(cells) != width:
            return _ragged(path, number, line, len(cells), width)
        for column, cell in enumerate(cells[labelled:], start=1 + labelled):
            if not _is_number(cell):
                what = f"{cell!r}" if cell else "an empty cell"
                return FormatError(f"{path}: line {number}, column {column}: expected a number, found {what}")
    return FormatError(f"{path}: expected a table of numbers with {width} columns in every row; export it again")


def _ragged(path: Path, number: int, line: str, count: int, width: int) -> FormatError:
    if not line.strip():
        return FormatError(f"{path}: line {number} is blank inside the table; remove it")
    return FormatError(
        f"{path}: line {number} has {count} values, expected {width} as in the first row; "
        "the file is cut off or mixes delimiters: export it again"
    )


def _shape(path: Path, values: Floats, names: tuple[str, ...] | None, rows: tuple[str, ...] | None) -> Grid:
    """Fit the header to the columns; a header cell above the row names belongs to them."""
    if names is not None and rows is not None and len(names) == values.shape[1] + 1:
        names = names[1:]
    elif names is not None and len(names) == values.shape[1] and names[0] == "":
        # pandas' own index: an unnamed first column of running numbers
        names, values = names[1:], values[:, 1:]
    if names is not None and len(names) != values.shape[1]:
        raise FormatError(
            f"{path}: the header has {len(names)} names, the rows have {values.shape[1]} numbers; "
            "give every column one name, or none"
        )
    if names is not None and rows is not None and set(names) == set(rows) and names != rows:
        raise FormatError(f"{path}: rows and columns name the same nodes in different orders; write them in one order")
    return Grid(values, names, rows)
