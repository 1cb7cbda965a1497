"""Matrix functions through eigen-decompositions: exact to float64 rounding, slow, with gradients.

Every decomposition is done in float64, in chunks of bounded memory, and checked by putting the matrix together
again; where a GPU fails or is wrong the CPU does it, and devices without float64 (Apple's MPS) go over the CPU.
Functions take symmetric (..., n, n) tensors unchecked (the door is `api`). What may not be here: matrix products
in place of a decomposition (`product`), and silent repairs: eigenvalues are raised only to a `floor` the caller
names.

Gradients use divided differences (Daleckii and Krein): the derivative of f at S = V diag(w) Vᵀ in direction E is
V (D ∘ VᵀEV) Vᵀ with D_ij = (f(w_i) - f(w_j)) / (w_i - w_j), written so that equal and nearly equal eigenvalues
lose no digits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from rmixup.errors import DataError, NotSPDError
from rmixup.spd.door import LISTED, listed, where

EPS = torch.finfo(torch.float64).eps
# Float64 matrices held at once by one chunk: eigenvectors, the matrix and two temporaries.
CHUNK_BYTES = 2**28
CHUNK_COPIES = 4
# V diag(w) Vᵀ must give S back within this many n·eps of its norm; a good decomposition stays below 1.
RESIDUAL_OVER_N_EPS = 16.0
# Eigenvalues below n·eps of the largest are rounding, so such a matrix counts as singular.
SINGULAR_OVER_N_EPS = 1.0
# What to do about a matrix that is not positive definite.
REMEDY = (
    "A correlation or covariance of n nodes from fewer than n + 1 frames is always singular: use longer series or "
    "fewer nodes, spd.regularize(S, how='shrink', amount=0.05), or a floor for the eigenvalues, logm(S, floor=1e-6)"
)


class Rule(NamedTuple):
    """A scalar function and its divided differences, both on float64 eigenvalues.

    `value` maps w (..., n) to f(w); `slope` maps pairs (a, b), a ≥ b, to (f(a) - f(b)) / (a - b);
    `valid` raises if the eigenvalues (batch, n) of matrices numbered from `first` in `shape` do not fit.
    """

    value: Callable[[Tensor], Tensor]
    slope: Callable[[Tensor, Tensor], Tensor]
    valid: Callable[[Tensor, int, torch.Size], None] | None = None


def eigh(S: Tensor) -> tuple[Tensor, Tensor]:
    """Return eigenvalues (..., n), ascending, and eigenvectors (..., n, n), in float64, without gradients.

    On a device without float64 (MPS) both come back on the CPU.

    >>> w, V = eigh(torch.diag(torch.tensor([2.0, 1.0])))
    >>> w
    tensor([1., 2.], dtype=torch.float64)
    """
    flat = _flat64(S)
    parts = [_eigh_checked(chunk, first, S.shape[:-2]) for first, chunk in _chunks(flat)]
    if not parts:
        return flat.new_empty(S.shape[:-1]), flat.new_empty(S.shape)
    w, V = (torch.cat(part) if len(part) > 1 else part[0] for part in zip(*parts, strict=True))
    return w.reshape(S.shape[:-1]), V.reshape(S.shape)


def logm(S: Tensor, floor: float | None = None) -> Tensor:
    """Matrix logarithm; eigenvalues below `floor` are raised to it, and without a floor they must be positive.

    >>> logm(torch.eye(2))
    tensor([[0., 0.],
            [0., 0.]])
    """
    return _apply(S, Rule(_log, _log_slope, _require_positive) if floor is None else _floored_log(floor))


def expm(L: Tensor) -> Tensor:
    """Matrix exponential.

    >>> expm(torch.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    return _apply(L, Rule(torch.exp, _exp_slope))


def powm(S: Tensor, p: float) -> Tensor:
    """Matrix power. A negative p needs positive eigenvalues; a positive one takes singular matrices too.

    >>> powm(torch.diag(torch.tensor([4.0, 9.0])), 0.5)
    tensor([[2., 0.],
            [0., 3.]])
    """
    if p == 0:
        return torch.eye(S.shape[-1], dtype=S.dtype, device=S.device).expand(S.shape) + 0 * S
    valid = _require_positive if p < 0 else _require_non_negative
    return _apply(S, Rule(lambda w: w.clamp(min=0) ** p, lambda a, b: _power_slope(a, b, p), valid))


def sqrtm(S: Tensor) -> Tensor:
    """The symmetric square root: sqrtm(S) @ sqrtm(S) = S.

    >>> sqrtm(4 * torch.eye(2))
    tensor([[2., 0.],
            [0., 2.]])
    """
    return powm(S, 0.5)


def invsqrtm(S: Tensor) -> Tensor:
    """The inverse of the symmetric square root.

    >>> invsqrtm(4 * torch.eye(2))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.5000]])
    """
    return powm(S, -0.5)


def _apply(S: Tensor, rule: Rule) -> Tensor:
    return cast(Tensor, _Spectral.apply(S, rule))  # type: ignore[no-untyped-call]


class _Spectral(torch.autograd.Function):
    """V f(w) Vᵀ with its first derivative."""

    @staticmethod
    def forward(ctx: Any, S: Tensor, rule: Rule) -> Tensor:
        flat = _flat64(S)
        out = torch.empty(flat.shape, dtype=S.dtype, device=flat.device)
        kept = []
        for first, chunk in _chunks(flat):
            w, V = _eigh_checked(chunk, first, S.shape[:-2])
            if rule.valid is not None:
                rule.valid(w, first, S.shape[:-2])
            out[first : first + len(chunk)] = _compose(V, rule.value(w))
            if ctx.needs_input_grad[0]:
                kept.append((w, V))
        ctx.rule, ctx.kept = rule, kept
        return out.reshape(S.shape).to(S.device)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        flat = _flat64(grad)
        out = torch.empty(flat.shape, dtype=grad.dtype, device=flat.device)
        first = 0
        for w, V in ctx.kept:
            rows = slice(first, first + len(w))
            first += len(w)
            # Off-symmetric parts of the incoming gradient act on the symmetric matrices through their mean.
            inner = V.mT @ (0.5 * (flat[rows] + flat[rows].mT)) @ V
            a, b = torch.maximum(w[:, :, None], w[:, None, :]), torch.minimum(w[:, :, None], w[:, None, :])
            out[rows] = V @ (ctx.rule.slope(a, b) * inner) @ V.mT
        return out.reshape(grad.shape).to(grad.device), None


def _flat64(S: Tensor) -> Tensor:
    S = S.detach()
    if S.device.type == "mps":
        S = S.cpu()
    return S.to(torch.float64).reshape(-1, *S.shape[-2:])


def _chunks(flat: Tensor) -> Iterator[tuple[int, Tensor]]:
    size = max(1, CHUNK_BYTES // (CHUNK_COPIES * 8 * flat.shape[-1] ** 2))
    for first in range(0, len(flat), size):
        yield first, flat[first : first + size]


def _compose(V: Tensor, values: Tensor) -> Tensor:
    """V diag(values) Vᵀ, exactly symmetric."""
    product = (V * values[:, None, :]) @ V.mT
    return 0.5 * (product + product.mT)


def _eigh_checked(S: Tensor, first: int, shape: torch.Size) -> tuple[Tensor, Tensor]:
    """Decompose (batch, n, n) float64; what a GPU gets wrong is done again on the CPU."""
    try:
        w, V = torch.linalg.eigh(S)
        bad = _bad(S, w, V)
    except RuntimeError:  # LinAlgError, or cuSOLVER's own
        w, V = torch.zeros_like(S[:, 0]), torch.zeros_like(S)
        bad = torch.ones(len(S), dtype=torch.bool, device=S.device)
    if bool(bad.any()):
        for k in bad.nonzero()[:, 0].tolist():
            w[k], V[k] = _eigh_on_cpu(S[k])
        _require_decomposed(_bad(S, w, V), first, shape)
    return w, V


def _eigh_on_cpu(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """One matrix; where LAPACK gives up too, NaN says so."""
    try:
        w, V = torch.linalg.eigh(matrix.cpu())
    except RuntimeError:
        return torch.full_like(matrix[0], torch.nan), torch.full_like(matrix, torch.nan)
    return w.to(matrix.device), V.to(matrix.device)


def _bad(S: Tensor, w: Tensor, V: Tensor) -> Tensor:
    """Which decompositions do not give their matrix back; NaN counts as bad."""
    residual = torch.linalg.matrix_norm(_compose(V, w) - S)
    within: Tensor = residual <= RESIDUAL_OVER_N_EPS * S.shape[-1] * EPS * torch.linalg.matrix_norm(S)
    return ~within


def _require_decomposed(bad: Tensor, first: int, shape: torch.Size) -> None:
    positions = (bad.nonzero()[:, 0] + first).tolist()
    if positions:
        named = listed([where(unravel(k, shape)) for k in positions[:LISTED]], len(positions))
        raise DataError(
            f"no eigen-decomposition could be computed for {named}, on the CPU either; their entries are not finite "
            "or of wildly different size: look at them, or leave them out"
        )


def _require_positive(w: Tensor, first: int, shape: torch.Size) -> None:
    limit = SINGULAR_OVER_N_EPS * w.shape[-1] * EPS * w.abs().amax(-1, keepdim=True)
    _require(w <= limit, w, first, shape, "positive")


def _require_non_negative(w: Tensor, first: int, shape: torch.Size) -> None:
    limit = RESIDUAL_OVER_N_EPS * w.shape[-1] * EPS * w.abs().amax(-1, keepdim=True)
    _require(w < -limit, w, first, shape, "non-negative")


def _require(wrong: Tensor, w: Tensor, first: int, shape: torch.Size, kind: str) -> None:
    count = wrong.sum(-1)
    positions = count.nonzero()[:, 0].tolist()
    if not positions:
        return
    n = w.shape[-1]
    found = [
        f"{where(unravel(k + first, shape))} has {int(count[k])} of {n} eigenvalues that are not "
        f"(smallest {float(w[k, 0]):.3g}, largest {float(w[k, -1]):.3g})"
        for k in positions[:LISTED]
    ]
    raise NotSPDError(f"all eigenvalues must be {kind} beyond rounding: {listed(found, len(positions))}. {REMEDY}")


def unravel(position: int, shape: torch.Size) -> tuple[int, ...]:
    """The index in a leading shape of the matrix at a position of the flattened batch.

    >>> unravel(5, torch.Size((2, 3)))
    (1, 2)
    """
    index = []
    for size in reversed(shape):
        position, remainder = divmod(position, size)
        index.append(remainder)
    return tuple(reversed(index))


def _log(w: Tensor) -> Tensor:
    return w.log()


def _floored_log(floor: float) -> Rule:
    def slope(a: Tensor, b: Tensor) -> Tensor:
        high, low = a.clamp(min=floor), b.clamp(min=floor)
        # The share of the step from b to a that lies above the floor.
        share = torch.where(a == b, (a >= floor).to(a.dtype), (high - low) / torch.where(a == b, 1.0, a - b))
        return share * _log_slope(high, low)

    return Rule(lambda w: w.clamp(min=floor).log(), slope)


def _relative_gap(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Return (a - b)/a and log(b/a) for a ≥ b ≥ 0, each to full precision near a = b."""
    gap = torch.where(a > 0, (a - b) / torch.where(a > 0, a, 1.0), 0.0)
    return gap, torch.where(gap < 0.5, torch.log1p(-gap), torch.log(b / a))


def _log_slope(a: Tensor, b: Tensor) -> Tensor:
    gap, log_ratio = _relative_gap(a, b)
    return torch.where(gap == 0, 1.0, -log_ratio / torch.where(gap == 0, 1.0, gap)) / a


def _exp_slope(a: Tensor, b: Tensor) -> Tensor:
    step = b - a
    return a.exp() * torch.where(step == 0, 1.0, torch.expm1(step) / torch.where(step == 0, 1.0, step))


def _power_slope(a: Tensor, b: Tensor, p: float) -> Tensor:
    a, b = a.clamp(min=0), b.clamp(min=0)
    gap, log_ratio = _relative_gap(a, b)
    share = torch.where(gap == 0, p, -torch.expm1(p * log_ratio) / torch.where(gap == 0, 1.0, gap))
    return share * a ** (p - 1)
