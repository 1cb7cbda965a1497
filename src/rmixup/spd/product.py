"""Matrix functions through matrix products alone: the fast path, on a GPU above all.

`expm` shifts the spectrum below zero, halves it as often as needed, applies one polynomial and squares back. The
polynomials are minimax fits of exp on [-width, 0], of degree 8 in three products or 16 in four, kept in `SCHEMES`
(`tools/fit_expm.py` finds them). `logm` takes square roots by scaled coupled Newton-Schulz steps (Higham 2008,
section 6.3; scaling of Chen and Chow 2014) until the spectrum is narrow, then a Chebyshev series of log.

With `bounds` that the caller knows, nothing is looked at on the host: no wait for the device, so the calls can be
captured in a CUDA graph. Functions take symmetric (..., n, n) tensors unchecked. What may not be here: an
eigen-decomposition of a full matrix, with two exceptions that the code names: gradients and unknown bounds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.polynomial.chebyshev import chebdiv, chebinterpolate
from torch import Tensor

from rmixup.errors import NotSPDError
from rmixup.spd import spectral
from rmixup.spd.door import LISTED, listed, where

try:
    from rmixup.spd import product_triton as fused
except ImportError:  # Triton comes with torch's builds for NVIDIA's GPUs; batched products serve without it
    fused = None  # type: ignore[assignment]

Bounds = tuple[float, float]
Coefficients = np.ndarray[Any, np.dtype[np.float64]]


class Scheme(NamedTuple):
    """A polynomial p(A) close to exp(width·(A - 1)/2) for spectra of A in [-1, 1].

    Q2 = A², Q3 = Q2(Q2 + b A), Q4 = (Q3 + l·(A, Q2))(Q3 + r·(A, Q2)) and so on, each with all before it;
    p = e·(I, A, Q2, ..., last), where e ends with the factor of the last product.
    """

    width: float
    error: float
    first: float
    pairs: tuple[tuple[tuple[float, ...], tuple[float, ...]], ...]
    ends: tuple[float, ...]

    @property
    def products(self) -> int:
        """How many matrix products one evaluation takes."""
        return 2 + len(self.pairs)


class Series(NamedTuple):
    """The same by Chebyshev coefficients."""

    width: float
    coefficients: Coefficients


SCHEMES = (
    Scheme(
        width=3.0,
        error=1.1e-07,
        first=2.7039766842330715,
        pairs=(((30.390469520070877, 17.178158920059854), (19.710910105588365, -1.0)),),
        ends=(
            0.22313016014842957,
            0.3346943701027786,
            0.16115871630095227,
            0.029322242698602816,
            0.00015001504518454575,
        ),
    ),
    Scheme(
        width=12.0,
        error=3.1e-08,
        first=1.5882829481070189,
        pairs=(
            ((1.4137202438484922, -0.8076557154101464), (0.0516248380650434, 1.5111030040208067)),
            (
                (53.83456593903116, 37.203162463497335, 14.376385150028238),
                (-5.4261356376566345, 9.556680352201047, 3.1427306035951377),
            ),
        ),
        ends=(
            0.0024787319138553873,
            0.01487275026912681,
            0.10145536163059733,
            0.00027724510409162504,
            0.012548598581272457,
            0.0001977017785329989,
        ),
    ),
    Scheme(
        width=18.0,
        error=4.4e-07,
        first=0.6517869720721242,
        pairs=(
            ((1.2733526091875076, -0.9985610994044483), (-0.858327606863147, -0.06717579188036314)),
            (
                (3.737307350211772, 2.845121289481345, 2.1944742464148823),
                (-1.4613133351158283, 1.7444163717375467, 0.48811871149724306),
            ),
        ),
        ends=(
            0.00012330812738967312,
            0.001103731592189848,
            0.2131200836517709,
            -0.03905774037993008,
            0.0571710339617117,
            0.02666426314680583,
        ),
    ),
)
# In float32: the largest error of the polynomial, squarings included, relative to the exponential of the upper bound.
TOLERANCE = 5e-7
# A spectrum may reach beyond [-1, 1] by this much (bounds that miss a little) before a GPU's halves run over.
ROOM = 1.1
# In float64 a Chebyshev series takes the place of the schemes: rounding in their steps would show.
SERIES_WIDTH = 6.0
SERIES_ERROR = 1e-16

# On a CPU, batches go through in groups whose buffers stay in the cache; on a GPU in groups that fit its memory.
GROUP_BYTES = {"cpu": 2**21, "cuda": 2**28}
# From this size a CPU computes only the lower block triangle of a symmetric product, in so many block columns.
BLOCKS_FROM = 140
BLOCKS = 3

# Steps of the Lanczos process that finds unknown bounds; up to this size the eigenvalues themselves are cheaper.
LANCZOS_STEPS = 20
RITZ_SLACK = 0.005

# logm: the caller's bounds are widened by this share, so that rounding never leaves the region of convergence.
WIDEN = 0.01
# Square roots are taken until the condition number is at most this; then the series is shorter than another root.
SERIES_CONDITION = 16.0
# A root has converged when the interval of its singular values is this narrow; the next step squares the rest.
ROOT_CONVERGED = 1e-8


def expm(L: Tensor, bounds: Bounds | None = None) -> Tensor:
    """Matrix exponential of symmetric matrices.

    Parameters
    ----------
    L : (..., n, n) float32 or float64
        Symmetric. If gradients are asked for, the spectral path computes it.
    bounds : (lo, hi), optional
        Python floats that enclose all eigenvalues; those of cached logs enclose every mix of them. Nothing waits
        for the device then. Without them a few Lanczos steps per matrix find them, at the price of one wait.

    Returns
    -------
    (..., n, n), symmetric, same dtype and device. In float32 the error is `TOLERANCE` plus rounding, relative to
    exp(hi): bounds that are loose above cost accuracy, below products. Eigenvalues outside the bounds lose accuracy
    first (by two hundredths of the width: 1e-4 or better); far outside, the polynomial runs away. On a GPU where
    `torch.set_float32_matmul_precision` asks for less than "highest", a third of the products is made and the error
    stays below 1e-3.

    >>> expm(torch.zeros(2, 2), bounds=(-1.0, 1.0)).allclose(torch.eye(2))
    True
    """
    if L.requires_grad and torch.is_grad_enabled():
        return spectral.expm(L)
    flat = L.reshape(-1, *L.shape[-2:])
    if flat.numel() == 0:
        return L.clone()
    top, width = (bounds[1], bounds[1] - bounds[0]) if bounds is not None else _tops_and_width(flat)
    polynomial, squarings = choose(width) if L.dtype == torch.float32 else choose_series(width)
    out = torch.empty_like(flat, memory_format=torch.contiguous_format)
    for rows in _groups(flat):
        part = top[rows] if isinstance(top, Tensor) else top
        _expm_group(flat[rows], part, polynomial, squarings, out[rows])
    return out.reshape(L.shape)


def choose(width: float) -> tuple[Scheme, int]:
    """Return the scheme and the number of squarings with the fewest products, then the least error.

    >>> scheme, squarings = choose(10.0)
    >>> scheme.products, squarings
    (4, 0)
    """

    def cost(option: tuple[Scheme, int]) -> tuple[bool, int, float]:
        scheme, squarings = option
        error = scheme.error * 2**squarings
        return error > TOLERANCE, scheme.products + squarings, error

    return min(((scheme, _squarings(width, scheme.width)) for scheme in SCHEMES), key=cost)


def choose_series(width: float) -> tuple[Series, int]:
    """Return the Chebyshev series of exp, to float64 rounding, and the number of squarings.

    >>> series, squarings = choose_series(20.0)
    >>> len(series.coefficients), squarings
    (20, 2)
    """
    squarings = _squarings(width, SERIES_WIDTH)
    part = max(width / 2**squarings, 1e-3)
    # Coefficient k is about (part/4)^k / k! times two and the value at the middle.
    degree = next(
        k for k in range(1, 100) if 2 * math.exp(-part / 2) * (part / 4) ** k < SERIES_ERROR * math.factorial(k)
    )
    return Series(part, chebinterpolate(lambda y: np.exp((y - 1) * part / 2), degree)), squarings


def _squarings(width: float, one: float) -> int:
    return max(0, math.ceil(math.log2(max(width, one) / one)))


def _expm_group(L: Tensor, top: Tensor | float, polynomial: Scheme | Series, squarings: int, out: Tensor) -> None:
    """exp(L) = (exp(top/2^s) p((L - top)/2^s))^(2^s), written into `out`."""
    scale = 2.0 / (polynomial.width * 2**squarings)
    if isinstance(polynomial, Scheme) and not isinstance(top, Tensor) and L.is_cuda and fused is not None:
        _expm_fused(L, top, polynomial, squarings, out)
        return
    A = torch.mul(L, scale)
    A.diagonal(dim1=-2, dim2=-1).add_(1.0 - top * scale)
    P = _evaluate(A, polynomial, out) if isinstance(polynomial, Scheme) else _chebyshev(A, polynomial.coefficients)
    spare = A
    for _ in range(squarings):
        P, spare = symmetric_product(P, P, out=spare), P
    factor = torch.exp(top[..., None]) if isinstance(top, Tensor) else math.exp(top)
    # Rounding leaves the halves of the last product unequal by a few digits at the end.
    torch.add(P, P.mT, out=spare)
    torch.mul(spare, 0.5 * factor, out=out)


def _evaluate(A: Tensor, scheme: Scheme, out: Tensor) -> Tensor:
    """p(A), written into `out`."""
    left, right = torch.empty_like(A), torch.empty_like(A)
    Q = [A, symmetric_product(A, A, out=torch.empty_like(A))]
    torch.add(Q[1], A, alpha=scheme.first, out=right)
    Q.append(symmetric_product(Q[1], right, out=torch.empty_like(A)))
    for k, (for_left, for_right) in enumerate(scheme.pairs):
        _combine(Q, for_left, left)
        _combine(Q, for_right, right)
        if k < len(scheme.pairs) - 1:
            Q.append(symmetric_product(left, right, out=torch.empty_like(A)))
    identity, *others, last = scheme.ends
    torch.mul(Q[0], others[0], out=out)
    for q, e in zip(Q[1:], others[1:], strict=True):
        out.add_(q, alpha=e)
    out.diagonal(dim1=-2, dim2=-1).add_(identity)
    return symmetric_product(left, right, out=out, alpha=last, beta=1.0)


def _expm_fused(L: Tensor, top: float, scheme: Scheme, squarings: int, out: Tensor) -> None:
    """The same on a GPU: each product with the sums that follow it in one kernel.

    Memory is taken over as soon as nobody reads it: that of A and Q2 by later factors, that of Q3 by the last sum.
    """
    split = torch.get_float32_matmul_precision() == "highest"
    on, Output, sizes = fused.Products(len(L), L.shape[-1], L.device, split), fused.Output, _sizes(scheme)
    scale, factor = 2.0 / (scheme.width * 2**squarings), math.exp(top)
    identity, *ends, last = scheme.ends
    (l1, r1), *more = scheme.pairs
    room, (a, q2, end) = [on.halves() for _ in range(4)], [on.term() for _ in range(3)]
    A, Q2, right, left, spare = (room[k].holding(size) for k, size in zip((0, 1, 2, 0, 3), sizes, strict=False))
    on.begin(L.contiguous(), scale, 1.0 - top * scale, A, a)
    on.product(A, A, [Output(Q2), Output(right, 1.0, [scheme.first]), Output(q2)], [a])
    sums = [Output(left, 1.0, l1), Output(spare, 1.0, r1)]
    if more:
        (l2, r2), q3 = more[0], end
        on.product(Q2, right, [*sums, Output(q3)], [a, q2])
        tail = Output(end, ends[3], ends[:3], identity)
        left2, right2 = room[1].holding(sizes[5]), room[2].holding(sizes[6])
        on.product(left, spare, [Output(left2, 1.0, l2), Output(right2, 1.0, r2), tail], [a, q2, q3])
        left, spare, free = left2, right2, [room[0], room[3]]
    else:
        on.product(Q2, right, [*sums, Output(end, ends[2], ends[:2], identity)], [a, q2])
        free = [room[1], room[2]]
    if squarings == 0:
        on.product(left, spare, [Output(out, factor * last, [factor], result=True)], [end])
        return
    P, other = (one.holding(1.0) for one in free)  # exponentials of numbers below zero
    on.product(left, spare, [Output(P, last, [1.0])], [end])
    for _ in range(squarings - 1):
        on.product(P, P, [Output(other)])
        P, other = other, P
    on.product(P, P, [Output(out, factor, result=True)])


@cache
def _sizes(scheme: Scheme) -> list[float]:
    """The largest norms of A, Q2, the right factor of Q3 and both factors of each later product."""
    A = np.linspace(-ROOM, ROOM, 1001)
    Q = [A, A * A]
    factors = [A, Q[1], Q[1] + scheme.first * A]
    Q.append(Q[1] * factors[-1])
    for pair in scheme.pairs:
        factors += [Q[-1] + sum(c * q for c, q in zip(one, Q, strict=False)) for one in pair]
        Q.append(factors[-2] * factors[-1])
    return [float(np.abs(factor).max()) for factor in factors]


def _combine(Q: list[Tensor], coefficients: tuple[float, ...], out: Tensor) -> None:
    """The last of Q plus the weighted others."""
    torch.add(Q[-1], Q[0], alpha=coefficients[0], out=out)
    for q, c in zip(Q[1:-1], coefficients[1:], strict=True):
        out.add_(q, alpha=c)


def symmetric_product(A: Tensor, B: Tensor, out: Tensor, alpha: float = 1.0, beta: float = 0.0) -> Tensor:
    """alpha·A@B + beta·out into `out`, for symmetric (batch, n, n) matrices that commute.

    Their product is symmetric, so that a CPU can leave out the blocks above the diagonal and mirror them.

    >>> A = 2 * torch.eye(2)[None]
    >>> symmetric_product(A, A, out=torch.empty(1, 2, 2))
    tensor([[[4., 0.],
             [0., 4.]]])
    """
    n = A.shape[-1]
    if A.device.type != "cpu" or n < BLOCKS_FROM:
        return torch.baddbmm(out, A, B, beta=beta, alpha=alpha, out=out)
    edges = [16 * round(n * k / BLOCKS / 16) for k in range(BLOCKS)] + [n]
    for a, b in pairwise(edges):
        part = out[:, a:, a:b]
        part.copy_(torch.baddbmm(part, A[:, a:], B[:, :, a:b], beta=beta, alpha=alpha))
    for a, b in pairwise(edges[:-1]):
        out[:, a:b, b:].copy_(out[:, b:, a:b].mT)
    return out


def _groups(flat: Tensor) -> Iterator[slice]:
    bytes_each = flat.shape[-1] ** 2 * flat.element_size()
    size = max(torch.get_num_threads(), GROUP_BYTES.get(flat.device.type, GROUP_BYTES["cuda"]) // bytes_each)
    for first in range(0, len(flat), size):
        yield slice(first, first + size)


def _tops_and_width(L: Tensor) -> tuple[Tensor, float]:
    """An upper bound (batch, 1) for each matrix, and a width that holds every spectrum below it."""
    lo, hi = spectrum(L)
    return hi[:, None], float((hi - lo).amax())


def spectrum(L: Tensor) -> tuple[Tensor, Tensor]:
    """Enclose the spectra of (batch, n, n) symmetric matrices; returns lo, hi (batch,).

    Lanczos from one fixed vector, each end moved out by its residual and a slack: not a proof, but the ends
    converge first, and `expm` bears a miss. Up to `LANCZOS_STEPS` nodes the eigenvalues themselves.

    >>> lo, hi = spectrum(torch.diag(torch.arange(30.0))[None])
    >>> bool(lo[0] <= 0), bool(hi[0] >= 29)
    (True, True)
    """
    n = L.shape[-1]
    if n <= LANCZOS_STEPS:
        w = torch.linalg.eigvalsh(L.to(torch.float64)).to(L.dtype)
        return w[:, 0], w[:, -1]
    diagonal, beside = _lanczos(L)
    T = torch.diag_embed(diagonal) + torch.diag_embed(beside[:, :-1], 1) + torch.diag_embed(beside[:, :-1], -1)
    w, V = torch.linalg.eigh(T)
    residual = beside[:, -1:] * V[:, -1].abs() + RITZ_SLACK * (w[:, -1:] - w[:, :1])
    return w[:, 0] - residual[:, 0], w[:, -1] + residual[:, -1]


def _lanczos(L: Tensor) -> tuple[Tensor, Tensor]:
    """The tridiagonal matrix of `LANCZOS_STEPS` steps, and the residual as its last off-diagonal entry."""
    n = L.shape[-1]
    # A fixed vector without pattern: the fractional parts of k·golden ratio.
    v = ((torch.arange(1, n + 1, device=L.device, dtype=torch.float64) * 0.6180339887498949) % 1 - 0.5).to(L.dtype)
    v = (v / v.norm()).expand(len(L), n)
    before, beta = torch.zeros_like(v), torch.zeros_like(v[:, :1])
    diagonal, beside = [], []
    for _ in range(LANCZOS_STEPS):
        u = (L @ v[..., None])[..., 0] - beta * before
        alpha = (u * v).sum(-1, keepdim=True)
        u = u - alpha * v
        beta = u.norm(dim=-1, keepdim=True)
        before, v = v, u / beta.clamp(min=torch.finfo(L.dtype).tiny)
        diagonal.append(alpha)
        beside.append(beta)
    return torch.cat(diagonal, -1), torch.cat(beside, -1)


def logm(S: Tensor, bounds: Bounds | None = None) -> Tensor:
    """Matrix logarithm of symmetric positive definite matrices, computed in float64.

    Parameters
    ----------
    S : (..., n, n) float32 or float64
        Symmetric positive definite. If gradients are asked for, the spectral path computes it.
    bounds : (lo, hi), optional
        Python floats, 0 < lo, that enclose all eigenvalues (they are widened by one per cent). Nothing waits for
        the device then. Without them one Cholesky factorisation per matrix finds them, and refuses matrices that
        have none.

    Returns
    -------
    (..., n, n), symmetric, same dtype and device. The error relative to the norm of the log is near
    1e-16·hi/lo, as for any float64 algorithm, and at least 1e-13. An eigenvalue outside the bounds gives a wrong
    log without a warning: below, too large; far above, NaN.

    >>> logm(torch.eye(2), bounds=(0.5, 2.0)).abs().max() < 1e-6
    tensor(True)
    """
    if (S.requires_grad and torch.is_grad_enabled()) or S.device.type == "mps":  # MPS has no float64
        return spectral.logm(S)
    flat = S.reshape(-1, *S.shape[-2:])
    if flat.numel() == 0:
        return S.clone()
    lo, hi = bounds if bounds is not None else positive_bounds(flat.to(torch.float64), S.shape[:-2])
    out = torch.empty_like(flat, memory_format=torch.contiguous_format)
    for rows in _groups(flat):
        out[rows] = _logm_group(flat[rows].to(torch.float64), lo * (1 - WIDEN), hi * (1 + WIDEN))
    return out.reshape(S.shape)


def positive_bounds(S: Tensor, shape: torch.Size) -> Bounds:
    """Enclose the spectra of (batch, n, n) matrices by ‖S‖ and 1/‖S⁻¹‖; without a Cholesky factor they are not SPD."""
    factor, info = torch.linalg.cholesky_ex(S)
    _require_factored(info, shape)
    # ‖L⁻¹‖² in the Frobenius norm is the trace of the inverse, at least its largest eigenvalue.
    eye = torch.eye(S.shape[-1], dtype=S.dtype, device=S.device).expand(S.shape)
    trace_of_inverse = torch.linalg.solve_triangular(factor, eye, upper=False).square().sum((-2, -1))
    lo, hi = (1 / trace_of_inverse).amin(), torch.linalg.matrix_norm(S).amax()
    both = torch.stack((lo, hi)).tolist()
    return both[0], both[1]


def _require_factored(info: Tensor, shape: torch.Size) -> None:
    positions = info.nonzero()[:, 0].tolist()
    if positions:
        named = listed([where(spectral.unravel(k, shape)) for k in positions[:LISTED]], len(positions))
        raise NotSPDError(f"all matrices must be positive definite, but not so: {named}. {spectral.REMEDY}")


def _logm_group(S: Tensor, lo: float, hi: float) -> Tensor:
    Y, ratio, roots = S / hi, lo / hi, 0
    while ratio * SERIES_CONDITION < 1:
        Y, ratio, roots = _square_root(Y, ratio), math.sqrt(ratio), roots + 1
    log = _log_series(Y, ratio).mul_(2.0**roots)
    log.diagonal(dim1=-2, dim2=-1).add_(math.log(hi))
    return 0.5 * (log + log.mT)


def _square_root(S: Tensor, ratio: float) -> Tensor:
    """The root of matrices with spectra in [ratio, 1], by coupled Newton-Schulz: Y to S^½, Z to S^-½.

    Each step maps the singular values x of the iterate by x(3 - a²x²)a/2, where a keeps [s, 1] inside [s', 1] with
    the largest s'. How many steps that takes is known beforehand.
    """
    Y, Z = S, None
    s, converged = math.sqrt(ratio), False
    while not converged:
        converged = 1 - s < ROOT_CONVERGED
        a = math.sqrt(3 / (1 + s + s * s))
        P = (Y if Z is None else Z @ Y).mul(-0.5 * a**3)
        P.diagonal(dim1=-2, dim2=-1).add_(1.5 * a)
        Y, Z = Y @ P, P if Z is None else P @ Z
        s = min(1.0, 0.5 * a * s * (3 - a * a * s * s))
    return 0.5 * (Y + Y.mT)


def _log_series(Y: Tensor, ratio: float) -> Tensor:
    """log on spectra in [ratio, 1] by its Chebyshev series, whose coefficients are known: 2(-1)^(k+1) r^k / k."""
    r = (1 - math.sqrt(ratio)) / (1 + math.sqrt(ratio))
    degree = next(d for d in range(1, 1000) if 2 * r**d < SERIES_ERROR * (1 - r))
    k = np.arange(1, degree + 1)
    constant = 2 * math.log((1 + math.sqrt(ratio)) / 2)
    A = Y * (2 / (1 - ratio))
    A.diagonal(dim1=-2, dim2=-1).sub_((1 + ratio) / (1 - ratio))
    return _chebyshev(A, np.concatenate(([constant], -2 * (-r) ** k / k)))


def _chebyshev(A: Tensor, coefficients: Coefficients) -> Tensor:
    """Sum the series c_k T_k(A) in about 2·sqrt(degree) products: Horner's rule in T_m (Paterson and Stockmeyer)."""
    m = max(2, round(math.sqrt(len(coefficients))))
    T = [A, (A @ A).mul_(2)]
    T[1].diagonal(dim1=-2, dim2=-1).sub_(1)
    while len(T) < m:
        T.append((A @ T[-1]).mul_(2).sub_(T[-2]))
    blocks: list[Coefficients] = []
    rest = coefficients
    while len(rest) > m:
        rest, block = (np.asarray(c, dtype=np.float64) for c in chebdiv(rest, [0.0] * m + [1.0]))
        blocks.append(block)
    sum_ = _weighted(T, rest)
    for block in reversed(blocks):
        sum_ = T[m - 1] @ sum_
        sum_ += _weighted(T, block)
    return sum_


def _weighted(T: list[Tensor], coefficients: Coefficients) -> Tensor:
    """c_0 I + c_1 T_1 + ..."""
    out = torch.zeros_like(T[0])
    for t, c in zip(T, coefficients[1:], strict=False):
        out.add_(t, alpha=float(c))
    out.diagonal(dim1=-2, dim2=-1).add_(float(coefficients[0]))
    return out
