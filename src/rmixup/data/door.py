"""What the constructor of Networks accepts: each function checks one argument and adds what is wrong to `problems`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rmixup.data.labels import Labels, Text, parse_names, shown
from rmixup.data.rows import freeze
from rmixup.errors import DataError

Array = npt.NDArray[Any]
Target = str | tuple[str, ...]


def parse_matrices(matrices: Any, problems: list[str]) -> Array | None:
    """(N, n, n), read-only; None where not given or refused."""
    if matrices is None:
        return None
    array = matrices if isinstance(matrices, np.memmap) else np.asarray(matrices)
    if array.ndim != 3 or array.shape[1] != array.shape[2]:
        problems.append(f"matrices must have shape (N, n, n); theirs is {array.shape}")
        return None
    return _floats(array, "matrices", problems)


def _floats(array: Array, what: str, problems: list[str]) -> Array | None:
    """float32 and float64 as they are, whole numbers and short floats as float64."""
    if array.dtype.kind not in "fiub":
        problems.append(f"{what} must hold real numbers, not {array.dtype}")
        return None
    kept = array.dtype in (np.dtype(np.float32), np.dtype(np.float64))
    return freeze(array if kept else array.astype(np.float64))


def parse_series(series: Any, problems: list[str]) -> tuple[Array, ...] | None:
    """The series as read-only arrays (t_i, n)."""
    if series is None:
        return None
    parts = [np.asarray(x) for x in series]
    wrong = [f"number {k} {x.shape}" for k, x in enumerate(parts) if x.ndim != 2]
    if wrong:
        problems.append(f"each series must have shape (t, n); not so: {shown(wrong)}")
        return None
    widths = [x.shape[1] for x in parts]
    odd = [f"number {k} has {w}" for k, w in enumerate(widths) if w != widths[0]]
    if odd:
        problems.append(f"all series must have the same nodes; the first has {widths[0]}, but {shown(odd)}")
        return None
    checked = [_floats(x, f"series number {k}", problems) for k, x in enumerate(parts)]
    return tuple(x for x in checked if x is not None)


def agreed_size(stack: Array | None, parts: tuple[Array, ...] | None, problems: list[str]) -> tuple[int, int]:
    """N and n, which matrices and series must agree on."""
    sizes = []
    if stack is not None:
        sizes.append((len(stack), stack.shape[1]))
    if parts is not None:
        sizes.append((len(parts), parts[0].shape[1] if parts else sizes[0][1] if sizes else 0))
    if len(set(sizes)) > 1:
        problems.append(
            f"matrices are {sizes[0][0]} networks of {sizes[0][1]} nodes, series {sizes[1][0]} of {sizes[1][1]}"
        )
    return sizes[0]


def names_or_numbers(values: Any, count: int, what: str, prefix: str, problems: list[str]) -> Text:
    """Names as given, or numbered ones."""
    width = len(str(max(count - 1, 0)))
    numbers = np.array([f"{prefix}-{k:0{width}d}" for k in range(count)], dtype=np.str_)
    numbers.setflags(write=False)
    names = None if values is None else parse_names(values, count, what, problems)
    return numbers if names is None else names


def refuse_repeats(names: Text, what: str, problems: list[str]) -> None:
    """Every name once."""
    unique, counts = np.unique(names, return_counts=True)
    if (counts > 1).any():
        problems.append(f"{what} must have different names; more than once: {shown(unique[counts > 1])}")


def parse_target(target: str | Sequence[str] | None, labels: Labels, problems: list[str]) -> Target | None:
    """One name, or one for each column of y."""
    if target is None or labels.y is None:
        return None
    names = (target,) if isinstance(target, str) else tuple(map(str, target))
    columns = 1 if labels.y.ndim == 1 else labels.y.shape[1]
    if len(names) != columns and not (isinstance(target, str) and columns > 1):
        problems.append(f"target names {len(names)} columns but y has {columns}")
    return names[0] if len(names) == 1 else names


def parse_coordinates(coordinates: Any, n_nodes: int, problems: list[str]) -> Array | None:
    """(n, 3) floats."""
    if coordinates is None:
        return None
    array = np.array(coordinates, dtype=np.float64)
    if array.shape != (n_nodes, 3):
        problems.append(f"coordinates must have shape ({n_nodes}, 3), one row a node; theirs is {array.shape}")
    return freeze(array)


def lengths(series: Sequence[Array]) -> npt.NDArray[np.int64]:
    """(N,) the number of frames of each series."""
    lengths = np.array([len(x) for x in series], dtype=np.int64)
    lengths.setflags(write=False)
    return lengths


def parse_frames(
    frames: Any, parts: tuple[Array, ...] | None, count: int, problems: list[str]
) -> npt.NDArray[np.int64] | None:
    """(N,) frames behind each matrix, from the series where there are any."""
    if parts is not None:
        if frames is not None and list(frames) != lengths(parts).tolist():
            problems.append("frames must be the lengths of the series; leave it out where series are given")
        return lengths(parts)
    if frames is None:
        return None
    array = np.asarray(frames)
    if array.shape != (count,) or array.dtype.kind not in "iu" or bool((array < 1).any()):
        problems.append(f"frames must be {count} positive whole numbers")
        return None
    return freeze(array.astype(np.int64))


def one_of(value: object, allowed: tuple[object, ...], what: str) -> None:
    """Refuse a value that is not among the allowed ones."""
    demand(value in allowed, f"{what} must be one of {', '.join(map(repr, allowed))}, not {value!r}")


def demand(holds: bool, message: str) -> None:
    """Refuse what does not hold."""
    if not holds:
        raise DataError(message)
