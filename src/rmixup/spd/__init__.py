"""Geometry of symmetric positive definite matrices: pure functions on (..., n, n) arrays or tensors.

The names here check their input and take NumPy or torch; the modules behind them (`spectral`, `product`,
`metrics`, ...) take tensors unchecked, for whoever has checked already. May not be here: data sets, randomness,
anything beyond torch and NumPy.
"""

from rmixup.spd.api import (
    distance,
    expm,
    geodesic,
    geodesic_regression,
    geodesic_trend,
    heat_kernel,
    invsqrtm,
    kernel_ridge,
    logm,
    mean,
    powm,
    regularize,
    spdness,
    sqrtm,
    unit_diagonal,
)
from rmixup.spd.correlation import CORRELATION_METRICS
from rmixup.spd.metrics import METRICS
from rmixup.spd.repair import parse_regularizer, rank_bound

__all__ = [
    "CORRELATION_METRICS",
    "METRICS",
    "distance",
    "expm",
    "geodesic",
    "geodesic_regression",
    "geodesic_trend",
    "heat_kernel",
    "invsqrtm",
    "kernel_ridge",
    "logm",
    "mean",
    "parse_regularizer",
    "powm",
    "rank_bound",
    "regularize",
    "spdness",
    "sqrtm",
    "unit_diagonal",
]
