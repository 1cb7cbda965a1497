"""What a finding is, and how names are put into its words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from rmixup.data.doctor.scan import MatrixScan, SeriesScan
from rmixup.data.networks import Networks

Severity = Literal["error", "warning", "info"]


class Patient(NamedTuple):
    """A data set and what was measured in it."""

    ds: Networks
    series: SeriesScan | None
    matrices: MatrixScan


class Told(NamedTuple):
    """What a check has to say: the message with its numbers, the remedy, whom and which nodes it concerns."""

    message: str
    remedy: str
    subjects: Sequence[str] = ()
    nodes: Sequence[str] = ()


class Finding(NamedTuple):
    """One thing found in a data set."""

    code: str
    severity: Severity
    message: str
    remedy: str
    subjects: list[str]
    nodes: list[str]


Check = Callable[[Patient], Told | None]
Checks = dict[str, tuple[Severity, Check]]


def named(names: Any, chosen: Any) -> list[str]:
    """The chosen names, each once, in order."""
    return list(dict.fromkeys(np.asarray(names)[np.asarray(chosen, dtype=bool)].tolist()))


def span(values: Iterable[Any]) -> str:
    """The smallest and the largest value, or the one there is.

    >>> span([3, 1, 2]), span([4, 4])
    ('1–3', '4')
    """
    present = np.asarray(list(values))
    low, high = f"{present.min():.4g}", f"{present.max():.4g}"
    return low if low == high else f"{low}–{high}"


def counted(count: int, noun: str) -> str:
    """A number with its noun.

    >>> counted(1, "node"), counted(2, "matrix")
    ('1 node', '2 matrices')
    """
    plural = {"matrix": "matrices", "person": "people", "class": "classes"}.get(noun, f"{noun}s")
    return f"{count} {noun if count == 1 else plural}"
