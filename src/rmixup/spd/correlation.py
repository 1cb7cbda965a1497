"""Correlation matrices: a diagonal of ones, and the geometry that keeps it.

A full-rank correlation matrix is told by the off-diagonal part H of its logarithm, and every hollow symmetric H
is that of exactly one (Archakov & Hansen 2021, Econometrica 89:1699). Straight lines in H are therefore geodesics
whose every point has a unit diagonal (the off-log metric of Thanwerdas & Pennec). Functions take (..., n, n)
tensors unchecked (the door is `api`). What may not be here: other ways to make a correlation from a series.
"""

from __future__ import annotations

from typing import cast

import numpy as np
import torch
from torch import Tensor

from rmixup.errors import DataError
from rmixup.spd.door import LISTED, listed, where
from rmixup.spd.metrics import Metric, float64, pullback
from rmixup.spd.spectral import eigh, expm, logm

MAX_ITERATIONS = 2000
# The iteration ends when log diag is this close to 0, which is a few roundings of a well-conditioned exponential ...
DIAGONAL_TOLERANCE = 1e-12
# ... and fails when rounding or slowness keeps it above this.
DIAGONAL_ALLOWED = 1e-9
# Gauss-Legendre nodes for an integral of exponentials; 32 are exact to rounding up to a condition number of 1e16.
QUADRATURE_NODES = 32


def unit_diagonal(S: Tensor) -> Tensor:
    """Rescale covariances (..., n, n) to correlations: S_ij / sqrt(S_ii S_jj), with ones on the diagonal.

    >>> unit_diagonal(torch.tensor([[4.0, 1.0], [1.0, 1.0]]))
    tensor([[1.0000, 0.5000],
            [0.5000, 1.0000]])
    """
    scale = S.diagonal(dim1=-2, dim2=-1).rsqrt()
    # One factor after the other could lose the mirror symmetry by a rounding.
    scaled = S * (scale[..., :, None] * scale[..., None, :])
    return torch.where(torch.eye(S.shape[-1], dtype=torch.bool, device=S.device), 1.0, scaled)


def offlog(C: Tensor) -> Tensor:
    """The off-log coordinates of correlation matrices: the logarithm in float64 with a zeroed diagonal.

    >>> offlog(torch.eye(2))
    tensor([[0., 0.],
            [0., 0.]], dtype=torch.float64)
    """
    return _hollow(logm(float64(C)))


def offexp(H: Tensor) -> Tensor:
    """The correlation matrices whose off-log coordinates are H, the inverse of `offlog`.

    The diagonal of H is ignored. Differentiable once.

    >>> offexp(torch.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    hollow = _hollow(float64(H))
    x = _diagonal(hollow.detach())
    if hollow.requires_grad:
        x = _with_gradient(hollow, x)
    return unit_diagonal(expm(hollow + torch.diag_embed(x))).to(device=H.device, dtype=H.dtype)


def _hollow(X: Tensor) -> Tensor:
    return X - torch.diag_embed(X.diagonal(dim1=-2, dim2=-1))


@torch.no_grad()
def _diagonal(H: Tensor) -> Tensor:
    """The x (..., n) for which exp(H + diag x) has a unit diagonal: repeat x - log diag exp(H + diag x)."""
    x = torch.zeros_like(H[..., 0])
    error = torch.zeros_like(x)
    for _ in range(MAX_ITERATIONS):
        w, V = eigh(H + torch.diag_embed(x))
        error = (V**2 @ w.exp()[..., None])[..., 0].log()
        x = x - error
        if bool((error.abs() <= DIAGONAL_TOLERANCE).all()):
            return x
    _require_unit(error.abs().amax(-1))
    return x


def _require_unit(error: Tensor) -> None:
    bad = ~(error <= DIAGONAL_ALLOWED)
    if bool(bad.any()):
        found = [f"{where(k)} is off by {float(error[tuple(k)]):.2g}" for k in bad.nonzero()[:LISTED]]
        raise DataError(
            f"no correlation matrix was found for these off-log coordinates in {MAX_ITERATIONS} iterations: the "
            f"diagonal of {listed(found, int(bad.sum()))}; the matrices mixed are almost singular, so regularise "
            "them first, for example with spd.regularize(S, how='shrink', amount=0.05)"
        )


def _with_gradient(H: Tensor, x: Tensor) -> Tensor:
    """The same x, now knowing how it depends on H: one Newton step at the solution (implicit differentiation)."""
    diagonal = expm(H + torch.diag_embed(x)).diagonal(dim1=-2, dim2=-1)
    slope = _slope_of_diagonal(H.detach() + torch.diag_embed(x))
    return cast(Tensor, x - torch.linalg.solve(slope, (diagonal - 1)[..., None])[..., 0])


def _slope_of_diagonal(M: Tensor) -> Tensor:
    """d diag exp(M) / d diag M, entry i by j the integral over s in [0, 1] of exp(sM)_ij exp((1-s)M)_ij."""
    w, V = eigh(M)
    nodes, weights = np.polynomial.legendre.leggauss(QUADRATURE_NODES)
    total = torch.zeros_like(M)
    for node, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
        one, other = ((V * (share * w).exp()[..., None, :]) @ V.mT for share in (float(node), float(1 - node)))
        total += float(weight) * one * other
    return total


CORRELATION_METRICS: dict[str, Metric] = {
    # The determinant of a correlation matrix is largest at the identity, so a way there and past it swells.
    "offlog": pullback(offlog, offexp, swells=True, full_rank=True),
}
