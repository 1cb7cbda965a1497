"""Six geometries of symmetric positive definite matrices: geodesic, distance and mean of each.

`METRICS` lists them by pyRiemann's names. Four are flat: a chart maps matrices to a space where geodesics are
straight lines, so one `pullback` makes all three functions. Two are curved (riemann, wasserstein) and work on
factors A = F Fᵀ instead of on A, which halves the digits that ill-conditioned matrices cost.

Functions take symmetric (..., n, n) tensors unchecked (the door is `api`), compute in float64 and return the
dtype that came; t is a number or has the leading shape; means are over axis -3. Geodesics and distances are
differentiable, and so are the flat means. What may not be here: repairs of singular matrices.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, cast

import torch
from torch import Tensor

from rmixup.errors import NotSPDError
from rmixup.spd.door import LISTED, listed, symmetrize, where
from rmixup.spd.spectral import Rule, _apply, _power_slope, _require, expm, logm

Position = float | Tensor
Chart = Callable[[Tensor], Tensor]

EPS = torch.finfo(torch.float64).eps
# Eigenvalues of a positive semidefinite matrix can come out this many n·eps of the largest below zero.
ROUNDING_OVER_N_EPS = 16.0
MAX_ITERATIONS = 500
# An iteration has arrived when its step, relative to the spread of the matrices, falls to this many eps ...
STEP_OVER_EPS = 64.0
# ... or no longer shrinks: rounding keeps it from falling further. Above this it has not arrived at all.
STALLED_STEP = EPS**0.5
PATIENCE = 8


class Mean(Protocol):
    """A mean over axis -3; weights (..., N) need not sum to one."""

    def __call__(self, S: Tensor, weights: Tensor | None = None) -> Tensor:
        """Average (..., N, n, n) to (..., n, n)."""
        ...


class Metric(NamedTuple):
    """One geometry: its functions and what a user should know about it.

    `chart` and `inverse` map to and from coordinates in which geodesics are straight lines, None where a geometry
    is curved. `swells`: the determinant can exceed both ends along a geodesic. `full_rank`: singular matrices have
    no geodesic. `node_order`: results depend on the order of the nodes.
    """

    geodesic: Callable[[Tensor, Tensor, Position], Tensor]
    distance: Callable[[Tensor, Tensor], Tensor]
    mean: Mean
    swells: bool
    full_rank: bool
    node_order: bool = False
    chart: Chart | None = None
    inverse: Chart | None = None


def pullback(chart: Chart, inverse: Chart, *, swells: bool, full_rank: bool, node_order: bool = False) -> Metric:
    """Make the geometry in which `chart` turns geodesics into straight lines."""

    def geodesic(A: Tensor, B: Tensor, t: Position) -> Tensor:
        a, b = chart(A), chart(B)
        t = _position(t, a)
        return _as(A, B, inverse((1 - t) * a + t * b))

    def distance(A: Tensor, B: Tensor) -> Tensor:
        return _as(A, B, torch.linalg.matrix_norm(chart(A) - chart(B)))

    def mean(S: Tensor, weights: Tensor | None = None) -> Tensor:
        return _as(S, S, inverse(weighted_mean(chart(S), weights)))

    return Metric(geodesic, distance, mean, swells, full_rank, node_order, chart, inverse)


def weighted_mean(S: Tensor, weights: Tensor | None) -> Tensor:
    """The arithmetic mean over axis -3; weights (..., N) need not sum to one."""
    if weights is None:
        return S.mean(-3)
    return (_shares(weights, S)[..., None, None] * S).sum(-3)


def _shares(weights: Tensor, like: Tensor) -> Tensor:
    weights = weights.to(like)
    return weights / weights.sum(-1, keepdim=True)


def _position(t: Position, like: Tensor) -> Tensor:
    return torch.as_tensor(t, dtype=like.dtype, device=like.device)[..., None, None]


def float64(S: Tensor) -> Tensor:
    """The same values in float64; Apple's MPS has none, so its matrices go over the CPU.

    >>> float64(torch.ones(1)).dtype
    torch.float64
    """
    return (S.cpu() if S.device.type == "mps" else S).to(torch.float64)


def _as(A: Tensor, B: Tensor, result: Tensor) -> Tensor:
    return result.to(device=A.device, dtype=torch.promote_types(A.dtype, B.dtype))


def _gram(F: Tensor) -> Tensor:
    return symmetrize(F @ F.mT)


# --- flat geometries: charts -----------------------------------------------------------------------------------


def _identity(S: Tensor) -> Tensor:
    return S


def cholesky(S: Tensor) -> Tensor:
    """Lower Cholesky factors in float64, or an error that names the matrices that have none.

    >>> cholesky(4 * torch.eye(2))
    tensor([[2., 0.],
            [0., 2.]], dtype=torch.float64)
    """
    L, failed = torch.linalg.cholesky_ex(float64(S))
    if bool(failed.any()):
        raise NotSPDError(_no_factor(failed, S.shape[-1]))
    return cast(Tensor, L)


def _no_factor(failed: Tensor, n: int) -> str:
    positions = failed.nonzero()
    found = [f"{where(k)} at row {int(failed[tuple(k)]) - 1} of {n}" for k in positions[:LISTED]]
    return (
        "this geometry needs positive definite matrices, but the Cholesky factorisation stops for "
        f"{listed(found, len(positions))}; use longer series or fewer nodes, or regularise first, for example with "
        "spd.regularize(S, how='shrink', amount=0.05)"
    )


def _log_cholesky(S: Tensor) -> Tensor:
    L = cholesky(S)
    return L.tril(-1) + torch.diag_embed(L.diagonal(dim1=-2, dim2=-1).log())


def _from_log_cholesky(X: Tensor) -> Tensor:
    return _gram(X.tril(-1) + torch.diag_embed(X.diagonal(dim1=-2, dim2=-1).exp()))


def _log(S: Tensor) -> Tensor:
    return logm(float64(S))


# --- riemann: the affine-invariant geometry --------------------------------------------------------------------


def _riemann_geodesic(A: Tensor, B: Tensor, t: Position) -> Tensor:
    a, b = float64(A), float64(B)
    L = cholesky(a)
    return _as(A, B, cast(Tensor, _Affine.apply(L, _whiten(L, b), _position(t, a))))  # type: ignore[no-untyped-call]


def _riemann_distance(A: Tensor, B: Tensor) -> Tensor:
    a, b = float64(A), float64(B)
    s = torch.linalg.svdvals(_whiten(cholesky(a), b))
    return _as(A, B, 2 * torch.linalg.vector_norm(s.log(), dim=-1))


def _whiten(L: Tensor, S: Tensor) -> Tensor:
    """A factor K of L⁻¹ S L⁻ᵀ = K Kᵀ: its condition number is the root of theirs."""
    return cast(Tensor, torch.linalg.solve_triangular(L, cholesky(S), upper=False))


class _Affine(torch.autograd.Function):
    """L (K Kᵀ)ᵗ Lᵀ with its first derivative, right for repeated singular values of K."""

    @staticmethod
    def forward(ctx: Any, L: Tensor, K: Tensor, t: Tensor) -> Tensor:
        U, s, _ = torch.linalg.svd(K)
        ctx.save_for_backward(L, K, t, U, s)
        return _gram(L @ U * s[..., None, :] ** t)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        L, K, t, U, s = ctx.saved_tensors
        w = s[..., None, :] ** 2
        grad, LU = symmetrize(grad), L @ U
        inner = LU.mT @ grad @ LU
        slope = _power_slope(torch.maximum(w, w.mT), torch.minimum(w, w.mT), t)
        for_L = 2 * grad @ (LU * w**t) @ U.mT
        for_K = 2 * U @ (slope * inner) @ U.mT @ K
        for_t = (inner.diagonal(dim1=-2, dim2=-1)[..., None, :] * w**t * w.log()).sum(-1, keepdim=True)
        return for_L.sum_to_size(L.shape), for_K.sum_to_size(K.shape), for_t.sum_to_size(t.shape)


@torch.no_grad()
def _riemann_mean(S: Tensor, weights: Tensor | None = None) -> Tensor:
    """Karcher's mean by gradient steps of the best length (Bini & Iannazzo 2013), from the log-Euclidean mean."""
    s = float64(S)
    M = expm(weighted_mean(logm(s), weights))
    factors = cholesky(s)

    def step(M: Tensor) -> tuple[Tensor, Tensor]:
        L = cholesky(M)
        U, sigma, _ = torch.linalg.svd(torch.linalg.solve_triangular(L[..., None, :, :], factors, upper=False))
        logs = 2 * sigma.log()
        # Symmetric to the last bit: near the mean T is all rounding.
        T = symmetrize(weighted_mean((U * logs[..., None, :]) @ U.mT, weights))
        length = 2 / weighted_mean(_curvature(logs)[..., None, None], weights)
        spread = weighted_mean(torch.linalg.vector_norm(logs, dim=-1)[..., None, None], weights)[..., 0, 0]
        return symmetrize(L @ expm(length * T) @ L.mT), torch.linalg.matrix_norm(T) / spread.clamp(min=1)

    return _as(S, S, _iterate(step, M, "riemann"))


def _curvature(logs: Tensor) -> Tensor:
    """One plus the largest eigenvalue of half the Hessian of d²(M, S), from the logs of the spectrum of M⁻¹S."""
    half_range = (logs.amax(-1) - logs.amin(-1)) / 2
    return 1 + torch.where(half_range > 0, half_range / half_range.clamp(min=EPS).tanh(), 1.0)


# --- wasserstein: the Bures geometry ---------------------------------------------------------------------------
# With roots R of A and B and the rotation Q that brings them closest (Procrustes), the geodesic is the straight
# line between R_A and R_B Q, squared. No inverse appears, so singular matrices are as good as others.


def _root(S: Tensor) -> Tensor:
    """The square root in float64; eigenvalues below zero by no more than the rounding of S count as zero."""
    allowed = ROUNDING_OVER_N_EPS * S.shape[-1] * torch.finfo(S.dtype).eps

    def valid(w: Tensor, first: int, shape: torch.Size) -> None:
        _require(w < -allowed * w.abs().amax(-1, keepdim=True), w, first, shape, "non-negative")

    return _apply(float64(S), Rule(lambda w: w.clamp(min=0).sqrt(), lambda a, b: _power_slope(a, b, 0.5), valid))


def _wasserstein_geodesic(A: Tensor, B: Tensor, t: Position) -> Tensor:
    R = _root(A)
    t = _position(t, R)
    return _as(A, B, _gram((1 - t) * R + t * _closest(_root(B), R)))


def _wasserstein_distance(A: Tensor, B: Tensor) -> Tensor:
    R = _root(A)
    return _as(A, B, torch.linalg.matrix_norm(R - _closest(_root(B), R)))


def _closest(R: Tensor, F: Tensor) -> Tensor:
    """The R Q, Q orthogonal, that lies closest to F."""
    return R @ cast(Tensor, _Polar.apply(R.mT @ F))  # type: ignore[no-untyped-call]


class _Polar(torch.autograd.Function):
    """The orthogonal factor of a square matrix with its first derivative, right for repeated singular values."""

    @staticmethod
    def forward(ctx: Any, M: Tensor) -> Tensor:
        U, s, Vh = torch.linalg.svd(M)
        ctx.save_for_backward(U, s, Vh)
        return cast(Tensor, U @ Vh)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        U, s, Vh = ctx.saved_tensors
        X = U.mT @ grad @ Vh.mT
        sums = s[..., :, None] + s[..., None, :]
        # Directions in which a singular matrix leaves the rotation free carry no gradient.
        return cast(Tensor, U @ torch.where(sums > 0, (X - X.mT) / sums, 0.0) @ Vh)


@torch.no_grad()
def _wasserstein_mean(S: Tensor, weights: Tensor | None = None) -> Tensor:
    """The barycentre by Álvarez-Esteban's fixed point (2016), written as averaging of aligned roots."""
    roots = _root(S)

    def step(F: Tensor) -> tuple[Tensor, Tensor]:
        moved = weighted_mean(_closest(roots, F[..., None, :, :]), weights)
        return moved, torch.linalg.matrix_norm(moved - F) / torch.linalg.matrix_norm(F).clamp(min=EPS)

    return _as(S, S, _gram(_iterate(step, weighted_mean(roots, weights), "wasserstein")))


def _iterate(step: Callable[[Tensor], tuple[Tensor, Tensor]], x: Tensor, name: str) -> Tensor:
    """Repeat a step until its size is rounding; warn if it never gets there."""
    best, since = float("inf"), 0
    for _ in range(MAX_ITERATIONS):
        x, sizes = step(x)
        size = float(sizes.max()) if sizes.numel() else 0.0
        since = 0 if size < best else since + 1
        best = min(best, size)
        if size <= STEP_OVER_EPS * EPS or (since >= PATIENCE and best <= STALLED_STEP):
            return x
    if best > STALLED_STEP:
        warnings.warn(
            f"the {name} mean has not converged after {MAX_ITERATIONS} iterations (relative step {best:.2g}): the "
            "matrices are too ill-conditioned; regularise them first, or use the logeuclid mean",
            RuntimeWarning,
            stacklevel=3,
        )
    return x


# ---------------------------------------------------------------------------------------------------------------

METRICS: dict[str, Metric] = {
    "euclid": pullback(_identity, _identity, swells=True, full_rank=False),
    "chol": pullback(cholesky, _gram, swells=True, full_rank=True, node_order=True),
    "logchol": pullback(_log_cholesky, _from_log_cholesky, swells=False, full_rank=True, node_order=True),
    "wasserstein": Metric(_wasserstein_geodesic, _wasserstein_distance, _wasserstein_mean, True, False),
    "riemann": Metric(_riemann_geodesic, _riemann_distance, _riemann_mean, False, True),
    "logeuclid": pullback(_log, expm, swells=False, full_rank=True),
}
