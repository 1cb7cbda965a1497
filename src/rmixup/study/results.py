"""What a cell gives back: a result, or the reason why there is none."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Result:
    """The outcome of one trained and tested cell.

    Parameters
    ----------
    scores : name -> value on the test part; NaN says that the score is undefined there.
    predictions : column name -> one value a test subject; `subject` holds the names.
    sizes : numbers of subjects in `train`, `validation` and `test`.
    curves : column name -> one value an epoch.
    timings : name -> seconds; not part of what must be reproducible.
    notes : further facts to keep, such as the epoch chosen or the regulariser's record; JSON values.
    weights : parameter name -> array, where the spec asks to keep them.
    """

    scores: Mapping[str, float]
    predictions: Mapping[str, Sequence[Any]]
    sizes: Mapping[str, int]
    curves: Mapping[str, Sequence[float]] = field(default_factory=dict)
    timings: Mapping[str, float] = field(default_factory=dict)
    notes: Mapping[str, Any] = field(default_factory=dict)
    weights: Mapping[str, NDArray[np.generic]] = field(default_factory=dict)


@dataclass(frozen=True)
class Failure:
    """Why a cell has no result. `reason` is one of a few words, `message` says what happened."""

    reason: str
    message: str


Outcome = Result | Failure


def judge(outcome: Outcome) -> Outcome:
    """Predictions that are not finite are a divergence, whoever produced them: they must never be averaged."""
    if isinstance(outcome, Failure):
        return outcome
    bad = [name for name, column in outcome.predictions.items() if not all(map(_finite, column))]
    if bad:
        return Failure("divergence", f"predictions are not finite in column {', '.join(map(repr, bad))}")
    return outcome


def _finite(value: object) -> bool:
    return isinstance(value, str) or math.isfinite(value)  # type: ignore[arg-type]
