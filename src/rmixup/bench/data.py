"""Connectivity of a whole cohort, beside nilearn's ConnectivityMeasure with the same estimator.

A call computes the matrices of `batch` people with n nodes and series of unequal length, as many frames as ABIDE's; the
cohort of 200 nodes has as many people as ABIDE, too. Both sides of a row use the same estimator on the same series.
`ratio` says how many times faster than nilearn a kind is, `error` is the largest difference to nilearn's matrices.
May not be here: files, which depend on the disk.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from rmixup import keys
from rmixup.bench.timing import side_by_side
from rmixup.data.connectivity import connectivity
from rmixup.errors import DataError

Row = dict[str, Any]
Array = npt.NDArray[Any]

KINDS = ("correlation", "ledoit-wolf", "oas", "partial")
# People by nodes. ABIDE's 1009 of 200 nodes are the most that nilearn does in seconds.
COHORTS = {100: 200, 200: 1009, 400: 100}
QUICK_COHORTS = {50: 20, 200: 100}
FRAMES = (78, 316)  # the shortest and the longest of ABIDE
SECONDS, QUICK_SECONDS = 1.0, 0.2
# Few, because nilearn takes most of the time.
ROUNDS = 3


def rows(quick: bool = False) -> list[Row]:
    """Time every kind at every size, nilearn's and ours in turn."""
    cohorts, seconds = (QUICK_COHORTS, QUICK_SECONDS) if quick else (COHORTS, SECONDS)
    return [row for n, people in cohorts.items() for row in table(cohort(people, n), seconds)]


def cohort(people: int, n: int, seed: int = 0) -> list[Array]:
    """Random walks (t, n) of unequal length, as strongly correlated as real series are."""
    chance = keys.generator(seed, "bench", "data", people, n)
    return [np.cumsum(chance.normal(size=(int(t), n)), axis=0) for t in chance.integers(*FRAMES, size=people)]


def table(series: list[Array], seconds: float) -> list[Row]:
    """The rows of one cohort."""
    return [row for kind in KINDS for row in _side_by_side(kind, series, seconds)]


def _side_by_side(kind: str, series: list[Array], seconds: float) -> list[Row]:
    theirs = nilearn_call(kind, series)
    error = float(np.abs(connectivity(series, kind) - theirs()).max())
    calls: dict[str, Callable[[], object]] = {"nilearn": theirs, "rmixup": lambda: connectivity(series, kind)}
    taken = side_by_side(calls, torch.device("cpu"), seconds, ROUNDS)
    shape = {"n": series[0].shape[1], "batch": len(series)}
    return [
        {
            "method": f"{name} {kind}",
            **shape,
            "seconds": taken[name],
            "ratio": taken["nilearn"] / taken[name],
            "error": error if name == "rmixup" else None,
        }
        for name in calls
    ]


def nilearn_call(kind: str, series: list[Array]) -> Callable[[], Array]:
    """What a user of nilearn writes for the same matrices."""
    try:
        from nilearn.connectome import ConnectivityMeasure
    except ImportError as error:
        raise DataError("this bench compares with nilearn, which is not here: pip install rmixup[neuro]") from error
    from sklearn.covariance import OAS, EmpiricalCovariance, LedoitWolf

    estimators = {"correlation": EmpiricalCovariance, "oas": OAS}
    estimator = estimators.get(kind, LedoitWolf)(store_precision=False)
    name = "partial correlation" if kind == "partial" else "correlation"
    return lambda: np.asarray(ConnectivityMeasure(estimator, kind=name, standardize=True).fit_transform(series))
