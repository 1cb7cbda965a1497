"""Tables of what is known of people: matched by subject id, columns read as labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rmixup.data.labels import Text, is_missing, matching_hint, shown
from rmixup.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

Array = npt.NDArray[Any]


def rows_of(table: pd.DataFrame | None, subjects: Text, problems: list[str]) -> pd.DataFrame | None:
    """The table's rows for these subjects, in their order."""
    if table is None:
        return None
    table = table.set_axis(table.index.map(str).rename("subject"), axis=0)
    if list(table.index) == subjects.tolist():
        return table.copy()
    if not table.index.is_unique:
        problems.append("table must have one row a subject, or one row a network in the same order")
        return None
    absent = sorted(set(subjects.tolist()) - set(table.index))
    if absent:
        hint = matching_hint(absent, list(table.index))
        problems.append(f"table has no row for {len(absent)} subjects ({shown(absent)}){hint}")
        return None
    rows: pd.DataFrame = table.loc[subjects.tolist()]
    return rows


def by_id(table: pd.DataFrame, on: str | None) -> pd.DataFrame:
    """The table indexed by subject id as text; ids that are missing or repeated are refused."""
    if on is not None:
        if on not in table.columns:
            raise DataError(f"the table has no column {on!r} to match subjects on; it has {shown(table.columns, 20)}")
        table = table.set_index(on)
    if any(is_missing(value) for value in table.index):
        raise DataError("the table has rows without a subject id: fill them in or leave these rows out")
    table = table.set_axis(table.index.map(str).rename("subject"), axis=0)
    repeated = table.index[table.index.duplicated()]
    if len(repeated):
        raise DataError(f"the table has several rows for one subject ({shown(repeated.unique())}): keep one each")
    return table


def column_values(columns: pd.DataFrame, task: str | None, problems: list[str]) -> Array:
    """The columns as an array whose type says what they are, as `task` asks where it does."""
    values: Array = columns.to_numpy(dtype=object)
    values = np.array(values.tolist()) if values.shape[1] > 1 else np.array(values[:, 0].tolist())
    if task == "classification" and values.dtype.kind == "f" and bool((values == np.round(values)).all()):
        return values.astype(np.int64)
    if task == "regression":
        try:
            return values.astype(np.float64)
        except ValueError:
            problems.append(f"regression needs numbers; the column holds {shown(sorted(set(map(str, values.flat))))}")
    return values
