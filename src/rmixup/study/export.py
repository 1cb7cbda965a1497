"""A study's numbers for other programs: CSV or Parquet, one file a table."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pandas as pd

from rmixup.errors import RMixupError, StoreError
from rmixup.files import beside, discard, sweep, sync
from rmixup.study.project import Study
from rmixup.study.tables import (
    cell_table,
    comparison_table,
    curve_table,
    prediction_table,
    settings,
    summary_table,
)

Format = Literal["csv", "parquet"]

# A spreadsheet takes a text that begins so for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def export(study: Study, out: Path, form: Format = "csv") -> list[Path]:
    """Write cells, summary, comparisons, predictions and curves to a folder; each file is whole or absent."""
    cells = cell_table(study)
    found = settings(study, table=cells)
    tables = {
        "cells": cells,
        "summary": summary_table(found),
        "comparisons": comparison_table(found),
        "predictions": prediction_table(study),
        "curves": curve_table(study),
    }
    out.mkdir(parents=True, exist_ok=True)
    return [write_table(table, out / f"{name}.{form}", form) for name, table in tables.items()]


def write_table(table: pd.DataFrame, path: Path, form: Format = "csv") -> Path:
    """Write one table, whole or not at all; what a spreadsheet would take for a formula is made text in a CSV."""
    sweep(path)
    temporary = beside(path)
    try:
        _WRITERS[form](table, temporary)
        sync(temporary)
        temporary.replace(path)
    except OSError as error:
        raise StoreError(
            f"{path}: could not write {len(table)} rows ({error.strerror}): free space or rights?"
        ) from error
    finally:
        discard(temporary)
    return path


def _csv(table: pd.DataFrame, path: Path) -> None:
    texts = table.select_dtypes(include=["object", "string"]).columns
    safe = table.assign(**{name: table[name].map(_no_formula) for name in texts})
    # A bare carriage return ends a row for whoever reads, but is no reason to quote for pandas.
    returns = any("\r" in str(text) for name in texts for text in (name, *safe[name]))
    safe.columns = [_no_formula(name) for name in safe.columns]
    quoting: Literal[0, 2] = csv.QUOTE_NONNUMERIC if returns else csv.QUOTE_MINIMAL
    safe.to_csv(path, index=False, errors="backslashreplace", quoting=quoting)


def _no_formula(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def _parquet(table: pd.DataFrame, path: Path) -> None:
    try:
        table.to_parquet(path, index=False)
    except ImportError as error:
        raise RMixupError("Parquet needs pyarrow: pip install pyarrow, or use --format csv") from error


_WRITERS: dict[str, Callable[[pd.DataFrame, Path], None]] = {"csv": _csv, "parquet": _parquet}
