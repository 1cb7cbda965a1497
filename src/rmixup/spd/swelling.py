"""What happens to a network's size along a geodesic: determinant, trace and condition number.

Straight lines between covariance matrices pass through matrices whose determinant exceeds both ends: they swell.
Functions take (..., n, n) tensors unchecked and return plain NumPy, for tables and figures. What may not be here:
drawing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from rmixup.spd.metrics import METRICS, Position
from rmixup.spd.spectral import eigh

Geodesic = Callable[[Tensor, Tensor, Position], Tensor]
Array = np.ndarray[Any, np.dtype[np.float64]]

# A determinant that exceeds both ends by no more than this in its logarithm does so by rounding.
LOG_DET_TOLERANCE = 1e-8


class Profile(NamedTuple):
    """A network's size along geodesics: each (T, ...) over positions t (T,) and the pairs' leading shape."""

    t: Array
    log_det: Array
    trace: Array
    condition: Array


def profile(A: Tensor, B: Tensor, geodesic: Geodesic, t: Array) -> Profile:
    """Measure log determinant, trace and condition number at positions t from A to B (..., n, n).

    >>> import torch
    >>> from rmixup.spd.metrics import METRICS
    >>> A, B = torch.diag(torch.tensor([1.0, 4.0])), torch.diag(torch.tensor([4.0, 1.0]))
    >>> middle = np.array([0.5])
    >>> [profile(A, B, METRICS[name].geodesic, middle).trace.item() for name in ("euclid", "logeuclid")]
    [5.0, 4.0]
    """
    measured = [_sizes(geodesic(A, B, float(position))) for position in t]
    return Profile(np.asarray(t, dtype=np.float64), *(np.stack(values) for values in zip(*measured, strict=True)))


def _sizes(S: Tensor) -> tuple[Array, Array, Array]:
    w = eigh(S)[0].cpu().numpy()
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(w).sum(-1), w.sum(-1), w[..., -1] / w[..., 0]


def swells(along: Profile, tolerance: float = LOG_DET_TOLERANCE) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which pairs have a point between the ends whose determinant exceeds both; t must begin at 0 and end at 1."""
    ends = np.maximum(along.log_det[0], along.log_det[-1])
    result: np.ndarray[Any, np.dtype[np.bool_]] = along.log_det[1:-1].max(0) > ends + tolerance
    return result


class Comparison(NamedTuple):
    """All geometries between the same matrices: profiles and midpoints by the geometry's name."""

    profiles: dict[str, Profile]
    midpoints: dict[str, Array]


def compare(A: Tensor, B: Tensor, points: int = 41) -> Comparison:
    """Measure every geometry of `METRICS` at evenly spread points from A to B (..., n, n).

    >>> import torch
    >>> measured = compare(torch.eye(2), 4 * torch.eye(2), points=3)
    >>> [round(float(x), 3) for x in np.exp(measured.profiles["logeuclid"].log_det)]
    [1.0, 4.0, 16.0]
    >>> measured.midpoints["euclid"].tolist()
    [[2.5, 0.0], [0.0, 2.5]]
    """
    t = np.linspace(0, 1, points)
    return Comparison(
        {name: profile(A, B, metric.geodesic, t) for name, metric in METRICS.items()},
        {name: metric.geodesic(A, B, 0.5).cpu().numpy() for name, metric in METRICS.items()},
    )
