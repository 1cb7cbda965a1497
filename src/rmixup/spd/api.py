"""The public functions of `rmixup.spd`: in through the door, one pure function, out through the door.

NumPy arrays in give NumPy arrays back, torch tensors give tensors on the same device. What may not be here:
mathematics.
"""

from __future__ import annotations

import difflib
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rmixup.errors import DataError
from rmixup.spd import correlation, kernel, product, repair, spectral
from rmixup.spd.correlation import CORRELATION_METRICS
from rmixup.spd.door import as_float, enter, leave
from rmixup.spd.metrics import METRICS, Metric
from rmixup.spd.product import Bounds
from rmixup.spd.repair import Regularization

METHODS = ("auto", "spectral", "product")

# From how many nodes on products beat an eigen-decomposition; None: never. `rmixup bench spd` measures it.
# CPU: 2 cores of an AMD EPYC, torch 2.13.0, November 2026. CUDA: products win by two orders of magnitude at 360 nodes
# on one H200 (torch 2.11), so all sizes take them; logs of up to 32 nodes keep cuSOLVER's batched Jacobi method.
PRODUCT_FROM: dict[tuple[str, str, torch.dtype], int | None] = {
    ("expm", "cpu", torch.float32): 16,
    ("expm", "cpu", torch.float64): 48,
    ("expm", "cuda", torch.float32): 1,
    ("expm", "cuda", torch.float64): 1,
    ("logm", "cpu", torch.float32): None,
    ("logm", "cpu", torch.float64): None,
    ("logm", "cuda", torch.float32): 33,
    ("logm", "cuda", torch.float64): 33,
}
# Finding unknown bounds has its price, which exponentials of smaller matrices do not earn back on a CPU.
UNKNOWN_BOUNDS_FROM = 64
# Logs of matrices with a larger ratio of bounds go through eigen-decompositions, which say what is wrong.
PRODUCT_CONDITION = 1e10


def logm(S: Any, floor: float | None = None, method: str = "auto", bounds: Bounds | None = None) -> Any:
    """Matrix logarithm.

    Parameters
    ----------
    S : (..., n, n) symmetric positive definite, float32 or float64
    floor : eigenvalues below it are raised to it; None refuses matrices that are not positive definite
    method : "auto", "spectral" or "product" (products know no floor, and no gradients)
    bounds : (lo, hi) that enclose all eigenvalues, if known; only products use them

    Returns
    -------
    (..., n, n), as it came: dtype, device, NumPy or torch. Computed in float64.

    >>> logm(np.diag([1.0, np.e]))
    array([[0., 0.],
           [0., 1.]])
    """
    (S,), numpy = enter(S=S)
    _check_floor(floor, method)
    chosen = "spectral" if floor is not None else _choose("logm", method, S, bounds)
    _check_bounds(bounds, positive=True)
    if chosen == "product":
        known = bounds or _bounds_for_products(S)
        if method == "product" or known[1] / known[0] <= PRODUCT_CONDITION:
            return leave(product.logm(S, known), numpy)
    return leave(spectral.logm(S, floor), numpy)


def expm(L: Any, method: str = "auto", bounds: Bounds | None = None) -> Any:
    """Matrix exponential of symmetric matrices.

    Parameters
    ----------
    L : (..., n, n) symmetric, float32 or float64
    method : "auto", "spectral" or "product"
    bounds : (lo, hi) that enclose all eigenvalues, if known; only products use them

    Returns
    -------
    (..., n, n), as it came: dtype, device, NumPy or torch.

    >>> expm(np.zeros((2, 2)))
    array([[1., 0.],
           [0., 1.]])
    """
    (L,), numpy = enter(L=L)
    _check_bounds(bounds, positive=False)
    if _choose("expm", method, L, bounds) == "product":
        return leave(product.expm(L, bounds), numpy)
    return leave(spectral.expm(L), numpy)


def powm(S: Any, p: float) -> Any:
    """Matrix power of (..., n, n) positive definite matrices; for p > 0 they may be singular.

    >>> powm(np.diag([1.0, 4.0]), 1.5)
    array([[1., 0.],
           [0., 8.]])
    """
    (S,), numpy = enter(S=S)
    if not math.isfinite(p):
        raise DataError(f"the power p must be a finite number, but is {p}")
    return leave(spectral.powm(S, float(p)), numpy)


def sqrtm(S: Any) -> Any:
    """The symmetric square root of (..., n, n) positive semi-definite matrices.

    >>> sqrtm(np.diag([1.0, 4.0]))
    array([[1., 0.],
           [0., 2.]])
    """
    return powm(S, 0.5)


def invsqrtm(S: Any) -> Any:
    """The inverse of the symmetric square root of (..., n, n) positive definite matrices.

    >>> invsqrtm(np.diag([1.0, 4.0]))
    array([[1. , 0. ],
           [0. , 0.5]])
    """
    return powm(S, -0.5)


def geodesic(A: Any, B: Any, t: Any, metric: str = "logeuclid") -> Any:
    """The matrix at position t on the geodesic from A (t = 0) to B (t = 1).

    Parameters
    ----------
    A, B : (..., n, n), leading shapes broadcast
    t : number, or array that broadcasts with the leading shape
    metric : a name of `METRICS`, or "offlog" for correlation matrices

    >>> geodesic(np.eye(2), 4 * np.eye(2), 0.5)
    array([[2., 0.],
           [0., 2.]])
    """
    (A, B), numpy = enter(A=A, B=B)
    return leave(find_metric(metric).geodesic(A, B, _position(t, A, B)), numpy)


def distance(A: Any, B: Any, metric: str = "logeuclid") -> Any:
    """The distance between A and B, (..., n, n) with leading shapes that broadcast; returns (...).

    >>> float(distance(np.eye(1), np.e * np.eye(1)))
    1.0
    """
    (A, B), numpy = enter(A=A, B=B)
    return leave(find_metric(metric).distance(A, B), numpy)


def mean(S: Any, metric: str = "logeuclid", weights: Any = None) -> Any:
    """The mean of (..., N, n, n) over axis -3; weights (..., N) need not sum to one.

    >>> mean(np.stack([np.eye(2), 4 * np.eye(2)]))
    array([[2., 0.],
           [0., 2.]])
    """
    (S,), numpy = enter(S=S)
    if S.ndim < 3 or S.shape[-3] == 0:
        raise DataError(f"a mean needs matrices along axis -3, shape (..., N, n, n) with N >= 1, not {tuple(S.shape)}")
    return leave(find_metric(metric).mean(S, weights=None if weights is None else _weights(weights, S)), numpy)


def find_metric(name: str) -> Metric:
    """Look a geometry up by its name.

    >>> find_metric("logeuclide")
    Traceback (most recent call last):
    rmixup.errors.DataError: no metric is named 'logeuclide' (did you mean 'logeuclid'?); there are: ...
    """
    known = {**METRICS, **CORRELATION_METRICS}
    if name not in known:
        close = difflib.get_close_matches(str(name), known, n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        raise DataError(f"no metric is named {name!r}{hint}; there are: {', '.join(known)}")
    return known[name]


def spdness(S: Any, tol: float = repair.SPDNESS_TOLERANCE) -> Any:
    """The share of eigenvalues above `tol` of each of (..., n, n) symmetric matrices; returns (...).

    >>> float(spdness(np.diag([1.0, 0.0])))
    0.5
    """
    (S,), numpy = enter(S=S)
    return leave(repair.spdness(S, tol), numpy)


def regularize(S: Any, how: str = "shrink", amount: float | None = None) -> tuple[Any, Regularization]:
    """Make symmetric matrices positive definite, and say what that took.

    Parameters
    ----------
    S : (..., n, n)
    how : "shrink", (1 - ε) S + ε tr(S)/n I, or "floor", eigenvalues below the amount raised to it
    amount : ε in (0, 1] or the floor; None stands for 0.05 or 1e-6

    Returns
    -------
    The matrices, and what was done to them.

    >>> S, what = regularize(np.ones((2, 2)), "shrink", 0.5)
    >>> S, what.changed
    (array([[1. , 0.5],
           [0.5, 1. ]]), 1)
    """
    (S,), numpy = enter(S=S)
    result, what = repair.regularize(S, how, amount)
    return leave(result, numpy), what


def unit_diagonal(S: Any) -> Any:
    """Rescale (..., n, n) covariances to correlations: ones on the diagonal.

    >>> unit_diagonal(np.array([[4.0, 1.0], [1.0, 1.0]]))
    array([[1. , 0.5],
           [0.5, 1. ]])
    """
    (S,), numpy = enter(S=S)
    low = S.detach().diagonal(dim1=-2, dim2=-1).amin() if S.numel() else torch.ones(())
    if not bool(low > 0):
        raise DataError(f"every diagonal entry must be positive, but the smallest is {float(low):.6g}; drop that node")
    return leave(correlation.unit_diagonal(S), numpy)


def heat_kernel(A: Any, B: Any, sigma: float, normalized: bool = False) -> Any:
    """The log-Euclidean heat kernel at time sigma between all pairs of (N, n, n) and (M, n, n); returns (N, M).

    >>> heat_kernel(np.eye(2)[None], np.eye(2)[None], sigma=1.0)
    array([[1.]])
    """
    # Their leading shapes need not broadcast, so each comes in alone.
    (a,), numpy = enter(A=A)
    (b,), other = enter(B=B)
    _check_stack("A", a)
    _check_stack("B", b)
    if not 0 < sigma < math.inf:
        raise DataError(f"sigma must be a positive number, but is {sigma}")
    return leave(kernel.heat_kernel(a, b, sigma, normalized), numpy and other)


@dataclass(frozen=True)
class Regressor:
    """A fitted regression on networks; made by `kernel_ridge` or `geodesic_regression`."""

    model: kernel.KernelRidge | kernel.GeodesicRegression

    def predict(self, S: Any) -> Any:
        """Labels (N,) or (N, k) of networks (N, n, n)."""
        (S,), numpy = enter(S=S)
        _check_stack("S", S)
        return leave(self.model.predict(S), numpy)


def kernel_ridge(S: Any, y: Any, sigma: float | None = None, ridge: float = kernel.DEFAULT_RIDGE) -> Regressor:
    """Fit labels (N,) or (N, k) to networks (N, n, n) by kernel ridge regression with the heat kernel.

    >>> S = np.stack([np.eye(2), 2 * np.eye(2)])
    >>> kernel_ridge(S, np.array([0.0, 1.0]), ridge=0.0).predict(S).round(6) + 0.0
    array([0., 1.])
    """
    (S,), _ = enter(S=S)
    return Regressor(kernel.kernel_ridge(S, _labels(y, S), sigma, ridge))


def geodesic_regression(S: Any, y: Any, ridge: float = 0.0) -> Regressor:
    """Fit labels (N,) or (N, k) to networks (N, n, n), linearly along log-Euclidean geodesics.

    >>> fit = geodesic_regression(np.stack([np.eye(2), np.e * np.eye(2)]), np.array([0.0, 1.0]))
    >>> fit.predict(np.e**0.5 * np.eye(2)[None]).round(6)
    array([0.5])
    """
    (S,), _ = enter(S=S)
    return Regressor(kernel.geodesic_regression(S, _labels(y, S), ridge))


@dataclass(frozen=True)
class Trend:
    """Networks along a label; made by `geodesic_trend`."""

    model: kernel.GeodesicTrend
    numpy: bool

    def at(self, y: Any) -> Any:
        """The network (..., n, n) at labels y (...)."""
        return leave(self.model.at(_numbers("y", y, self.model.direction)), self.numpy)


def geodesic_trend(S: Any, y: Any) -> Trend:
    """Fit networks (N, n, n) as a function of one label (N,): the log-Euclidean geodesic closest to them.

    >>> trend = geodesic_trend(np.stack([np.eye(2), 4 * np.eye(2)]), np.array([0.0, 1.0]))
    >>> trend.at(0.5).round(6) + 0.0
    array([[2., 0.],
           [0., 2.]])
    """
    (S,), numpy = enter(S=S)
    labels = _labels(y, S)
    if labels.ndim != 1:
        raise DataError(f"a trend is over one label, y of shape (N,), but y has shape {tuple(labels.shape)}")
    return Trend(kernel.geodesic_trend(S, labels), numpy)


def _choose(function: str, method: str, S: Tensor, bounds: Bounds | None) -> str:
    if method not in METHODS:
        raise DataError(f"method must be one of {', '.join(METHODS)}, but is {method!r}")
    if S.requires_grad and torch.is_grad_enabled():
        return "spectral"
    if method != "auto":
        return method
    start = PRODUCT_FROM.get((function, S.device.type, S.dtype))
    if start is None or (bounds is None and S.shape[-1] < UNKNOWN_BOUNDS_FROM and not S.is_cuda):
        return "spectral"
    return "product" if S.shape[-1] >= start and S.numel() else "spectral"


def _bounds_for_products(S: Tensor) -> Bounds:
    return product.positive_bounds(S.reshape(-1, *S.shape[-2:]).to(torch.float64), S.shape[:-2])


def _check_floor(floor: float | None, method: str) -> None:
    if floor is None:
        return
    if not 0 < floor < math.inf:
        raise DataError(f"floor must be a positive number, but is {floor}")
    if method == "product":
        raise DataError("products cannot apply a floor to eigenvalues; use method='spectral', or regularize first")


def _check_bounds(bounds: Bounds | None, positive: bool) -> None:
    if bounds is None:
        return
    lo, hi = bounds
    if not (-math.inf < lo <= hi < math.inf and (lo > 0 or not positive)):
        kind = "0 < lo <= hi" if positive else "lo <= hi"
        raise DataError(f"bounds must be finite numbers (lo, hi) with {kind}, but are {bounds}")


def _check_stack(name: str, S: Tensor) -> None:
    if S.ndim != 3:
        raise DataError(f"{name} must hold networks along its first axis, shape (N, n, n), but has {tuple(S.shape)}")


def _position(t: Any, A: Tensor, B: Tensor) -> Tensor:
    position = _numbers("t", t, A)
    lead = torch.broadcast_shapes(A.shape[:-2], B.shape[:-2])  # type: ignore[no-untyped-call]
    try:
        torch.broadcast_shapes(position.shape, lead)  # type: ignore[no-untyped-call]
    except RuntimeError:
        shape = tuple(position.shape)
        raise DataError(f"t must be a number or broadcast with {tuple(lead)}, but has shape {shape}") from None
    return position


def _weights(weights: Any, S: Tensor) -> Tensor:
    w = _numbers("weights", weights, S)
    if w.shape not in (S.shape[:-2], S.shape[-3:-2]):
        raise DataError(f"weights must have shape {tuple(S.shape[:-2])}, one a matrix, but have {tuple(w.shape)}")
    if not bool((w >= 0).all() and (w.sum(-1) > 0).all()):
        raise DataError("weights must be non-negative and not all zero")
    return w


def _labels(y: Any, S: Tensor) -> Tensor:
    _check_stack("S", S)
    labels = _numbers("y", y, S)
    if labels.ndim not in (1, 2) or len(labels) != len(S):
        raise DataError(f"y must have one row for each of {len(S)} networks, but has shape {tuple(labels.shape)}")
    return labels


def _numbers(name: str, value: Any, like: Tensor) -> Tensor:
    """Numbers of any real kind as finite floats on the matrices' device."""
    if not isinstance(value, Tensor):
        value = np.asarray(value)
        value = value.astype(np.float64) if value.dtype.kind in "iub" else value
    elif not (value.is_floating_point() or value.is_complex()):
        value = value.to(torch.get_default_dtype())
    numbers: Tensor = as_float(name, value).to(like.device)
    if not bool(numbers.detach().isfinite().all()):
        raise DataError(f"{name} must be finite, but {int((~numbers.isfinite()).sum())} of its entries are not")
    return numbers
