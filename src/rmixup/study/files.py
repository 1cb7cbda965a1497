"""What the files of a study are written with: `rmixup.files`, and tables as tab-separated text."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from rmixup.errors import DataError
from rmixup.files import (
    TEMPORARY,
    canonical,
    digest,
    is_left_over,
    place_folder,
    seal,
    short_hash,
    sync_folder,
    unseal,
    write,
    write_new,
)

__all__ = [
    "TEMPORARY",
    "canonical",
    "digest",
    "dump_table",
    "is_left_over",
    "load_table",
    "place_folder",
    "seal",
    "short_hash",
    "sync_folder",
    "unseal",
    "write",
    "write_new",
]

Table = dict[str, list[Any]]


def dump_table(table: Mapping[str, Sequence[Any]]) -> bytes:
    """Columns of equal length as tab-separated text: numbers read back exactly, text is quoted whatever it holds."""
    lengths = {name: len(column) for name, column in table.items()}
    if len(set(lengths.values())) > 1:
        raise DataError(f"expected columns of one length, got {lengths}")
    stream = io.StringIO()
    writer = csv.writer(stream, delimiter="\t", lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    writer.writerow(table)
    writer.writerows(zip(*(map(_plain, column) for column in table.values()), strict=True))
    return stream.getvalue().encode("utf-8", "surrogatepass")


def _plain(value: Any) -> str | float:
    return value if isinstance(value, str) else float(value)


def load_table(content: bytes) -> Table:
    """Read what `dump_table` wrote: text columns as text, all others as floats.

    >>> load_table(dump_table({"subject": ["1", "=2"], "p": [0.25, 1]}))
    {'subject': ['1', '=2'], 'p': [0.25, 1.0]}
    """
    stream = io.StringIO(content.decode("utf-8", "surrogatepass"), newline="")
    header, *rows = csv.reader(stream, delimiter="\t", quoting=csv.QUOTE_NONNUMERIC)
    if not all(isinstance(name, str) for name in header) or any(len(row) != len(header) for row in rows):
        raise ValueError(f"expected a line of names and rows of as many values, got {len(header)} names")
    columns = zip(*rows, strict=True) if rows else [()] * len(header)
    return {name: list(column) for name, column in zip(header, columns, strict=True)}
