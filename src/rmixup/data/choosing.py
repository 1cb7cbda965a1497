"""Choosing people and nodes: by slice, mask, position or name."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rmixup.data.labels import Text, matching_hint, shown
from rmixup.data.rows import Index, Rows
from rmixup.errors import DataError

Array = npt.NDArray[Any]


def positions(index: Any, count: int) -> Index:
    """A slice, a mask, positions or one position as positions from 0."""
    if isinstance(index, slice):
        return np.arange(count)[index]
    array = np.asarray(index)
    if array.dtype.kind == "b" and array.shape != (count,):
        raise IndexError(f"a mask must have {count} entries; this one has shape {array.shape}")
    if array.dtype.kind not in "iub" and array.size:
        raise IndexError(f"expected a slice, a mask or positions, got {array.dtype}; choose by name with select()")
    if array.ndim > 1:
        raise IndexError(f"positions must be in one row; their shape is {array.shape}")
    return np.atleast_1d(np.arange(count)[array if array.size else array.astype(np.int64)])


def named(wanted: Any, names: Text, what: str) -> Index:
    """Positions of names, in the order asked for; every position of a name that occurs more than once."""
    wanted = [wanted] if isinstance(wanted, str) else [str(name) for name in wanted]
    places: dict[str, list[int]] = {}
    for place, name in enumerate(names.tolist()):
        places.setdefault(name, []).append(place)
    unknown = [name for name in wanted if name not in places]
    if unknown:
        raise DataError(f"no {what} are named {shown(unknown)}{matching_hint(unknown, names.tolist())}")
    return np.array([place for name in wanted for place in places[name]], dtype=np.int64)


def pick(array: Array | None, rows: Index) -> Array | None:
    """Rows of an array that may be unknown, read-only."""
    if array is None:
        return None
    chosen: Array = array[rows]
    chosen.setflags(write=False)
    return chosen


def submatrices(rows: Rows, keep: Index) -> Array:
    """(N, k, k) the chosen rows and columns of every matrix."""
    result = np.empty((len(rows), len(keep), len(keep)), dtype=rows.dtype)
    for start, block in rows.blocks():
        result[start : start + len(block)] = block[:, keep[:, None], keep]
    result.setflags(write=False)
    return result
