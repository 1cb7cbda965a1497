"""What people hand in as labels and names, turned into codes, numbers and text, or into problems in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Text = npt.NDArray[np.str_]

_SHOWN = 5


class Labels(NamedTuple):
    """`y` int64 codes with `classes`, or float64 numbers (N,) or (N, k) without; `task` says which."""

    y: Array | None
    classes: tuple[str, ...] | None
    task: str | None


def shown(names: Iterable[object], limit: int = _SHOWN) -> str:
    """The first few names and how many more there are.

    >>> shown(["a", "b", "c"], limit=2)
    'a, b and 1 more'
    """
    texts = [str(name) for name in names]
    more = f" and {len(texts) - limit} more" if len(texts) > limit else ""
    return ", ".join(texts[:limit]) + more


def parse_labels(y: object, classes: Sequence[str] | None, subjects: Text, problems: list[str]) -> Labels:
    """Labels as people give them. Text, booleans and integers name classes; floats are numbers to predict.

    >>> parse_labels(["patient", "control"], None, np.array(["s1", "s2"]), [])
    Labels(y=array([1, 0]), classes=('control', 'patient'), task='classification')
    """
    if y is None:
        return Labels(None, None, None)
    given = np.asarray(y)
    if given.ndim not in {1, 2} or len(given) != len(subjects):
        problems.append(f"y must have one label for each of the {len(subjects)} networks; its shape is {given.shape}")
        return Labels(None, None, None)
    if given.dtype.kind == "f" or given.ndim == 2:
        return _numbers(given, classes, subjects, problems)
    return _codes(given, classes, subjects, problems)


def _numbers(given: Array, classes: Sequence[str] | None, subjects: Text, problems: list[str]) -> Labels:
    try:
        values = given.astype(np.float64)
    except (TypeError, ValueError):
        problems.append("y with several columns must hold numbers; give classes as one column of names")
        return Labels(None, None, None)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    bad = ~np.isfinite(values).reshape(len(values), -1).all(axis=1)
    if bad.any():
        problems.append(_undefined("label", subjects[bad]))
    if classes is not None and not bad.any():
        if values.ndim == 1 and bool((values == np.round(values)).all()):
            return _codes(values.astype(np.int64), classes, subjects, problems)
        problems.append("classes were given but y holds numbers that are not whole: leave classes out for regression")
    return Labels(values, None, "regression")


def _codes(given: Array, classes: Sequence[str] | None, subjects: Text, problems: list[str]) -> Labels:
    missing = np.array([is_missing(value) for value in given.tolist()], dtype=bool)
    if missing.any():
        problems.append(_undefined("label", subjects[missing]))
        return Labels(None, None, None)
    if given.dtype.kind in "iub" and classes is not None and _are_codes(given, classes):
        return Labels(given.astype(np.int64), tuple(map(str, classes)), "classification")
    names = [str(value) for value in given.tolist()]
    order = sort_names(set(names)) if classes is None else tuple(map(str, classes))
    if len(set(order)) != len(order):
        problems.append(f"classes must be distinct; they are {shown(order, 20)}")
    unknown = sort_names(set(names) - set(order))
    if unknown:
        problems.append(f"y holds {shown(unknown)}, which classes ({shown(order, 20)}) does not name")
        return Labels(None, None, None)
    position = {name: code for code, name in enumerate(order)}
    return Labels(np.array([position[name] for name in names], dtype=np.int64), order, "classification")


def _are_codes(given: Array, classes: Sequence[str]) -> bool:
    """Integers are positions in `classes`, unless they are themselves among the names."""
    if {str(value) for value in given.tolist()} <= set(map(str, classes)):
        return False
    return bool(((given.astype(np.int64) >= 0) & (given.astype(np.int64) < len(classes))).all())


def sort_names(names: Iterable[str]) -> tuple[str, ...]:
    """Names in order; where all are whole numbers, in the order of the numbers.

    >>> sort_names(["10", "9"]), sort_names(["b", "a"])
    (('9', '10'), ('a', 'b'))
    """
    names = list(names)
    whole = all(name.removeprefix("-").isdecimal() for name in names)
    return tuple(sorted(names, key=lambda name: (int(name), name)) if whole else sorted(names))


def parse_names(values: object, count: int, what: str, problems: list[str]) -> Text | None:
    """One text for each of `count`; missing and unwritable ones are problems."""
    given = np.asarray(values, dtype=object)
    if given.shape != (count,):
        problems.append(f"{what} must be {count} names in a row; the shape is {given.shape}")
        return None
    undefined = [k for k, value in enumerate(given) if is_missing(value) or value == ""]
    if undefined:
        problems.append(f"{what} has no name at {shown(undefined)} (counted from 0): name each, or leave {what} out")
        return None
    names = [value.decode() if isinstance(value, bytes) else str(value) for value in given]
    unwritable = [repr(name) for name in names if not _writable(name)]
    if unwritable:
        problems.append(f"{what} must be text that UTF-8 can hold, without NUL: {shown(unwritable)}")
        return None
    array = np.array(names, dtype=np.str_) if names else np.empty(0, dtype="<U1")
    array.setflags(write=False)
    return array


def _writable(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in name


def is_missing(value: object) -> bool:
    """None, NaN, pandas' NA and NaT."""
    return value is None or type(value).__name__ in {"NAType", "NaTType"} or value != value  # noqa: PLR0124 -- NaN


def _undefined(what: str, subjects: Text) -> str:
    return (
        f"{len(subjects)} of the {what}s are not defined (subjects {shown(subjects)}): "
        "fill them in, or leave these people out"
    )


def matching_hint(wanted: Sequence[str], offered: Sequence[str]) -> str:
    """What would make two sets of ids meet, in words; empty when nothing simple does.

    >>> matching_hint(["sub-01"], ["1"])
    " (they do match without 'sub-' and leading zeros: write them alike)"
    """
    bare = {_bare(name) for name in offered}
    if any(_bare(name) in bare for name in wanted):
        return " (they do match without 'sub-' and leading zeros: write them alike)"
    return f" (networks: {shown(wanted, 3)}; table: {shown(offered, 3)})"


def _bare(name: str) -> str:
    return name.strip().removeprefix("sub-").lstrip("0").removesuffix(".0")
