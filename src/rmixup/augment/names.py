"""Names people type: look one up, or say which was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import TypeVar

from rmixup.errors import DataError

Value = TypeVar("Value")


def lookup(name: str, known: Mapping[str, Value], what: str) -> Value:
    """Return `known[name]`, or say what there is.

    >>> lookup("vmixop", {"vmixup": 1, "none": 2}, "augmentation")
    Traceback (most recent call last):
    rmixup.errors.DataError: no augmentation is named 'vmixop'; did you mean 'vmixup'? There are: vmixup, none
    """
    if name in known:
        return known[name]
    near = difflib.get_close_matches(str(name).lower(), known, n=1, cutoff=0.4)
    guess = f"; did you mean {near[0]!r}?" if near else "."
    raise DataError(f"no {what} is named {name!r}{guess} There are: {', '.join(known)}")
