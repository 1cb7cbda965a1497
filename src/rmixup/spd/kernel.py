"""Regression on networks in log-Euclidean coordinates: heat kernel, kernel ridge, and along geodesics.

The logarithm turns Sym⁺(n) with its log-Euclidean distance into a flat space of dimension n(n+1)/2, so the heat
kernel is a Gaussian there and geodesic regression is linear regression on logs. Functions take symmetric (N, n, n)
tensors unchecked (the door is `api`) and compute in float64. What may not be here: curved geometries, whose heat
kernel has no such form.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from rmixup.errors import DataError
from rmixup.spd.metrics import float64
from rmixup.spd.spectral import expm, logm

DEFAULT_RIDGE = 1e-3
# Singular values of centred logs below this share of the largest are rounding: no direction of variation.
RANK_TOLERANCE = 1e-10


def log_heat_kernel(A: Tensor, B: Tensor, sigma: float) -> Tensor:
    """Logarithm of the heat kernel at time sigma between all pairs of (N, n, n) and (M, n, n): (N, M) float64.

    log K = -dim/2 log(4πσ) - d(A, B)²/(4σ) with dim = n(n+1)/2. The kernel itself leaves float64's range soon: at
    n = 100 its normaliser has 5050 half powers.

    >>> log_heat_kernel(torch.eye(1)[None], torch.eye(1)[None], sigma=1 / (4 * math.pi))
    tensor([[-0.]], dtype=torch.float64)
    """
    n = A.shape[-1]
    normaliser = n * (n + 1) / 4 * math.log(4 * math.pi * sigma)
    return -_squared_distances(_logs(A), _logs(B)) / (4 * sigma) - normaliser


def heat_kernel(A: Tensor, B: Tensor, sigma: float, normalized: bool = False) -> Tensor:
    """The heat kernel at time sigma between all pairs of (N, n, n) and (M, n, n): (N, M) float64.

    Without its normaliser, a common factor that regression does not see, it is 1 for equal matrices and never
    overflows. With it, use `log_heat_kernel` for all but small matrices.

    >>> heat_kernel(torch.eye(2)[None], torch.eye(2)[None], sigma=1.0)
    tensor([[1.]], dtype=torch.float64)
    """
    if normalized:
        return log_heat_kernel(A, B, sigma).exp()
    return _gaussian(_logs(A), _logs(B), sigma)


def _logs(S: Tensor) -> Tensor:
    """Flat log coordinates (N, n²) whose Euclidean distance is the log-Euclidean one."""
    return logm(float64(S)).flatten(-2)


def _gaussian(X: Tensor, Y: Tensor, sigma: float) -> Tensor:
    return (-_squared_distances(X, Y) / (4 * sigma)).exp()


def _squared_distances(X: Tensor, Y: Tensor) -> Tensor:
    """Through one product of centred rows, so that a common offset costs no digits."""
    centre = X.mean(0)
    X, Y = X - centre, Y - centre
    squares = (X * X).sum(-1)[:, None] + (Y * Y).sum(-1) - 2 * X @ Y.mT
    return squares.clamp(min=0)


@dataclass(frozen=True, repr=False)
class KernelRidge:
    """Labels as a sum of heat kernels at the training networks; made by `kernel_ridge`."""

    logs: Tensor
    weights: Tensor
    sigma: float

    def predict(self, S: Tensor) -> Tensor:
        """Labels (N,) or (N, k) of networks (N, n, n)."""
        return self.at(_logs(S))

    def at(self, X: Tensor) -> Tensor:
        """Labels (N,) or (N, k) of coordinates (N, d)."""
        return _gaussian(X, self.logs, self.sigma) @ self.weights

    def __repr__(self) -> str:
        return f"KernelRidge({len(self.logs)} networks, sigma={self.sigma:.4g})"


def kernel_ridge(S: Tensor, y: Tensor, sigma: float | None = None, ridge: float = DEFAULT_RIDGE) -> KernelRidge:
    """Fit kernel ridge regression with the heat kernel.

    Parameters
    ----------
    S : (N, n, n) tensor of networks
    y : (N,) or (N, k) labels
    sigma : diffusion time; None takes a quarter of the median squared distance between the networks
    ridge : what is added to the kernel's diagonal of ones; 0 interpolates the labels

    >>> S = torch.stack([torch.eye(2), 2 * torch.eye(2)])
    >>> kernel_ridge(S, torch.tensor([0.0, 1.0]), ridge=0.0).predict(S).round(decimals=6).abs()
    tensor([0., 1.], dtype=torch.float64)
    """
    return flat_kernel_ridge(_logs(S), y, sigma, ridge)


def flat_kernel_ridge(logs: Tensor, y: Tensor, sigma: float | None = None, ridge: float = DEFAULT_RIDGE) -> KernelRidge:
    """`kernel_ridge` for networks that are coordinates (N, d) of a flat space already, logs or others."""
    sigma = _median_time(logs) if sigma is None else float(sigma)
    kernel = _gaussian(logs, logs, sigma) + ridge * torch.eye(len(logs), dtype=logs.dtype, device=logs.device)
    factor, failed = torch.linalg.cholesky_ex(kernel)
    if bool(failed):
        raise DataError(
            f"the kernel matrix of these {len(logs)} networks is singular at sigma={sigma:.4g} with ridge={ridge:g}: "
            "two networks are equal, or sigma is too large; raise ridge (1e-3 is the default) or lower sigma"
        )
    weights = torch.cholesky_solve(y.to(logs).reshape(len(logs), -1), factor).reshape(y.shape)
    return KernelRidge(logs, weights, sigma)


def _median_time(logs: Tensor) -> float:
    distances = _squared_distances(logs, logs)
    rows, columns = torch.triu_indices(len(logs), len(logs), 1)
    median = float(distances[rows, columns].median()) if len(rows) else 0.0
    if not median > 0:
        raise DataError(
            f"sigma cannot be chosen from {len(logs)} networks whose median distance is 0; pass sigma, and look for "
            "duplicated networks"
        )
    return median / 4


@dataclass(frozen=True, repr=False)
class GeodesicRegression:
    """Labels as a linear function of logs; made by `geodesic_regression`."""

    centre: Tensor
    offset: Tensor
    slope: Tensor

    def predict(self, S: Tensor) -> Tensor:
        """Labels (N,) or (N, k) of networks (N, n, n)."""
        return self.at(_logs(S))

    def at(self, X: Tensor) -> Tensor:
        """Labels (N,) or (N, k) of coordinates (N, d)."""
        return (X - self.centre) @ self.slope + self.offset

    def __repr__(self) -> str:
        return f"GeodesicRegression(n={math.isqrt(len(self.centre))})"


def geodesic_regression(S: Tensor, y: Tensor, ridge: float = 0.0) -> GeodesicRegression:
    """Fit labels linearly in log coordinates: linear along every log-Euclidean geodesic.

    Parameters
    ----------
    S : (N, n, n) tensor of networks
    y : (N,) or (N, k) labels
    ridge : penalty on the squared slope; with 0 and fewer networks than n(n+1)/2 the solution of least norm, which
        passes through every label

    >>> S = torch.stack([torch.eye(2), math.e * torch.eye(2)])
    >>> fit = geodesic_regression(S, torch.tensor([0.0, 1.0]))
    >>> fit.predict(math.e**0.5 * torch.eye(2)[None])
    tensor([0.5000], dtype=torch.float64)
    """
    return flat_regression(_logs(S), y, ridge)


def flat_regression(logs: Tensor, y: Tensor, ridge: float = 0.0) -> GeodesicRegression:
    """`geodesic_regression` for networks that are coordinates (N, d) of a flat space already, logs or others."""
    y = float64(y)
    centre, offset = logs.mean(0), y.mean(0)
    U, s, Vh = torch.linalg.svd(logs - centre, full_matrices=False)
    known = s > RANK_TOLERANCE * s.amax()
    gain = torch.where(known, s / torch.where(known, s**2 + ridge, 1.0), 0.0)
    slope = Vh.mT @ (gain[:, None] * (U.mT @ (y - offset).reshape(len(y), -1)))
    return GeodesicRegression(centre, offset, slope.reshape(-1, *y.shape[1:]))


@dataclass(frozen=True, repr=False)
class GeodesicTrend:
    """The log-Euclidean geodesic of networks over a label; made by `geodesic_trend`."""

    intercept: Tensor
    direction: Tensor

    def at(self, y: Tensor) -> Tensor:
        """The network (..., n, n) that the trend has at labels y (...)."""
        return expm(self.intercept + y.to(self.direction)[..., None, None] * self.direction)

    def __repr__(self) -> str:
        return f"GeodesicTrend(n={len(self.direction)})"


def geodesic_trend(S: Tensor, y: Tensor) -> GeodesicTrend:
    """Fit networks (N, n, n) as a function of one label (N,): the geodesic closest to them (Fletcher 2011).

    >>> S = torch.stack([torch.eye(2), math.e * torch.eye(2)])
    >>> geodesic_trend(S, torch.tensor([0.0, 1.0])).at(torch.tensor(0.0)).abs()
    tensor([[1., 0.],
            [0., 1.]], dtype=torch.float64)
    """
    logs, y = logm(float64(S)), float64(y)
    centred = y - y.mean()
    variation = (centred**2).sum()
    if not bool(variation > 0):
        raise DataError(f"a trend over a label needs at least two different labels, but all {len(y)} are equal")
    direction = (centred[:, None, None] * logs).sum(0) / variation
    return GeodesicTrend(logs.mean(0) - y.mean() * direction, direction)
