"""The Transformer's parts for many runs at once on an NVIDIA GPU, each with all that follows it in one kernel.

Dropout's masks are made in registers where they are used, and told from what came through afterwards. A forward product
of float32 is three of TF32 on tensor cores (high·high, high·low, low·high, summed in float32): faster than one of
float32, and as near to the truth; gradients' products are left to cuBLAS, which is faster there. All tensors are
contiguous and begin with the runs. May not be here: gradients' bookkeeping, modules.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from rmixup.models.dropout_triton import kept

_LEVELS = 1 << 16
# Rows that a program goes through where it sums over them, and how many of them at once.
_ROWS, _AT_ONCE = 32, 4
_COLUMNS = 256
# Heads are padded to a multiple of this: tensor cores need aligned rows.
_ALIGNED = 8
# Numbers of a copy that a program moves.
_COPIED = 1024


class Drop(NamedTuple):
    """Dropout: a word a run, and the numbers of 65536 levels that fall out (0: none)."""

    words: Tensor | None
    dropped: int

    @property
    def on(self) -> bool:
        """Whether anything is dropped."""
        return self.words is not None and self.dropped > 0

    @property
    def first_kept(self) -> int:
        """The least of -32768 … 32767 that stays."""
        return self.dropped - _LEVELS // 2

    @property
    def scale(self) -> float:
        """What is left is made larger by this."""
        return _LEVELS / (_LEVELS - self.dropped) if self.on else 1.0

    def pointer(self, other: Tensor) -> Tensor:
        """The words, or something to point at."""
        return self.words if self.words is not None else other


class Cut(NamedTuple):
    """How a product is cut: edges of a tile, depth of a step along the sum, warps, stages of loads under way."""

    rows: int
    columns: int
    depth: int
    warps: int
    stages: int


# As measured on an H200 at 100 to 360 nodes.
TILE = Cut(128, 64, 32, 4, 3)


# ---- products ---------------------------------------------------------------------------------------------------


@triton.jit  # type: ignore[untyped-decorator]
def _affine_kernel(  # type: ignore[no-untyped-def]  # noqa: PLR0917
    x, weight, bias, out, words, first_kept, scale,
    M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, POSITIVE: tl.constexpr, DROP: tl.constexpr,
    PRECISION: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """One tile of one run's x Wᵀ + b (M, N)."""
    across: tl.constexpr = (N + COLUMNS - 1) // COLUMNS
    run = tl.program_id(1).to(tl.int64)
    m = tl.program_id(0) // across * ROWS + tl.arange(0, ROWS)
    n = tl.program_id(0) % across * COLUMNS + tl.arange(0, COLUMNS)
    left = x + run * M * K + m[:, None] * K
    right = weight + run * N * K + n[None, :] * K
    whole = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for start in range(0, K, DEPTH):
        k = start + tl.arange(0, DEPTH)
        rows = tl.load(left + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        columns = tl.load(right + k[:, None], mask=(n[None, :] < N) & (k[:, None] < K), other=0.0)
        whole = tl.dot(rows, columns, whole, input_precision=PRECISION)
    whole += tl.load(bias + run * N + n, mask=n < N, other=0.0)[None, :]
    place = m[:, None] * N + n[None, :]
    if POSITIVE:
        whole = tl.maximum(whole, 0.0)
    if DROP:
        whole = tl.where(kept(tl.load(words + run), place, first_kept), whole * scale, 0.0)
    tl.store(out + run * M * N + place, whole, mask=(m[:, None] < M) & (n[None, :] < N))


def affine(x: Tensor, weight: Tensor, bias: Tensor, precision: str, drop: Drop | None = None) -> Tensor:
    """x Wᵀ + b of x (R, T, a), weight (R, b, a), bias (R, b); with `drop` its positive part, with dropout."""
    (runs, tokens, width), out_width = x.shape, weight.shape[1]
    out = x.new_empty(runs, tokens, out_width)
    chance = drop or Drop(None, 0)
    _affine_kernel[(triton.cdiv(tokens, TILE.rows) * triton.cdiv(out_width, TILE.columns), runs)](
        x, weight, bias, out, chance.pointer(x), chance.first_kept, chance.scale,
        M=tokens, N=out_width, K=width, POSITIVE=drop is not None, DROP=chance.on, PRECISION=precision,
        ROWS=TILE.rows, COLUMNS=TILE.columns, DEPTH=TILE.depth, num_warps=TILE.warps, num_stages=TILE.stages,
    )  # fmt: skip
    return out


@triton.jit  # type: ignore[untyped-decorator]
def _gate_kernel(  # type: ignore[no-untyped-def]  # noqa: PLR0917
    grad, passed, sums, scale,
    TOKENS: tl.constexpr, WIDTH: tl.constexpr, GATE: tl.constexpr,
    ROWS: tl.constexpr, STEP: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Some columns of some rows of one run: closed where nothing passed, in place, and their sums."""
    run = tl.program_id(2).to(tl.int64)
    c = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((COLUMNS,), dtype=tl.float32)
    for step in range(0, ROWS, STEP):
        t = tl.program_id(0) * ROWS + step + tl.arange(0, STEP)
        inside = (t[:, None] < TOKENS) & (c[None, :] < WIDTH)
        place = run * TOKENS * WIDTH + t[:, None] * WIDTH + c[None, :]
        value = tl.load(grad + place, mask=inside, other=0.0)
        if GATE:
            value = tl.where(tl.load(passed + place, mask=inside, other=0.0) > 0, value * scale, 0.0)
            tl.store(grad + place, value, mask=inside)
        total += tl.sum(value, 0)
    part = run * tl.num_programs(0) + tl.program_id(0)
    tl.store(sums + part * WIDTH + c, total, mask=c < WIDTH)


def gate(grad: Tensor, passed: Tensor, scale: float) -> Tensor:
    """Multiply grad (R, T, width) by `scale` where `passed` is positive, else by 0, in place; its sums (R, width)."""
    return _sums(grad, passed, scale)


def sums(grad: Tensor) -> Tensor:
    """Sums over tokens of (R, T, width): (R, width)."""
    return _sums(grad, None, 1.0)


def _sums(grad: Tensor, passed: Tensor | None, scale: float) -> Tensor:
    runs, tokens, width = grad.shape
    parts = triton.cdiv(tokens, _ROWS)
    found = grad.new_empty(runs, parts, width)
    columns = min(_COLUMNS, triton.next_power_of_2(width))
    _gate_kernel[(parts, triton.cdiv(width, columns), runs)](
        grad, grad if passed is None else passed, found, scale, TOKENS=tokens, WIDTH=width,
        GATE=passed is not None, ROWS=_ROWS, STEP=_AT_ONCE, COLUMNS=columns, num_warps=4,
    )  # fmt: skip
    return found.sum(1)


# ---- attention --------------------------------------------------------------------------------------------------


@triton.jit  # type: ignore[untyped-decorator]
def _heads_kernel(  # type: ignore[no-untyped-def]  # noqa: PLR0917
    together, apart, networks,
    PARTS: tl.constexpr, NODES: tl.constexpr, HEADS: tl.constexpr, WIDTH: tl.constexpr, PADDED: tl.constexpr,
    SPLIT: tl.constexpr, COPIED: tl.constexpr,
):  # fmt: skip
    """Some numbers moved between (networks, NODES, PARTS, HEADS, WIDTH) and (PARTS, networks, HEADS, NODES, PADDED)."""
    at = tl.program_id(0).to(tl.int64) * COPIED + tl.arange(0, COPIED)
    column, row = at % PADDED, at // PADDED
    node, row = row % NODES, row // NODES
    head, row = row % HEADS, row // HEADS
    network, part = row % networks, row // networks
    there = ((network * NODES + node) * PARTS + part) * HEADS * WIDTH + head * WIDTH + column
    inside = part < PARTS
    if SPLIT:
        value = tl.load(together + there, mask=inside & (column < WIDTH), other=0.0)
        tl.store(apart + at, value, mask=inside)
    else:
        inside = inside & (column < WIDTH)
        tl.store(together + there, tl.load(apart + at, mask=inside), mask=inside)


def split_heads(together: Tensor, parts: int, heads: int) -> Tensor:
    """(R, B, n, parts·heads·width) as (parts, R, B·heads, n, padded width), zero where it is padded."""
    runs, samples, nodes, width = together.shape
    width //= parts * heads
    apart = together.new_empty(parts, runs, samples * heads, nodes, -(-width // _ALIGNED) * _ALIGNED)
    _move_heads(together, apart, heads, width, split=True)
    return apart


def join_heads(apart: Tensor, heads: int, width: int) -> Tensor:
    """Undo `split_heads`."""
    parts, runs, networks, nodes = apart.shape[:4]
    together = apart.new_empty(runs, networks // heads, nodes, parts * heads * width)
    _move_heads(together, apart, heads, width, split=False)
    return together


def _move_heads(together: Tensor, apart: Tensor, heads: int, width: int, split: bool) -> None:
    parts, nodes, padded = apart.shape[0], *apart.shape[3:]
    _heads_kernel[(triton.cdiv(apart.numel(), _COPIED),)](
        together, apart, together.shape[0] * together.shape[1], PARTS=parts, NODES=nodes, HEADS=heads, WIDTH=width,
        PADDED=padded, SPLIT=split, COPIED=_COPIED, num_warps=4,
    )  # fmt: skip


@triton.jit  # type: ignore[untyped-decorator]
def _shares_kernel(  # type: ignore[no-untyped-def]  # noqa: PLR0917
    scores, passed, words, first_kept, scale, factor, rows_of_run, rows,
    WIDTH: tl.constexpr, PADDED: tl.constexpr, DROP: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """The softmax of some rows times `factor`, in place, and beside it with dropout."""
    t = tl.program_id(0).to(tl.int64) * STEP + tl.arange(0, STEP)
    c = tl.arange(0, PADDED)
    inside = (t[:, None] < rows) & (c[None, :] < WIDTH)
    place = t[:, None] * WIDTH + c[None, :]
    value = tl.where(inside, tl.load(scores + place, mask=inside, other=0.0) * factor, -1e30)
    value = tl.where(inside, tl.exp(value - tl.max(value, 1)[:, None]), 0.0)
    value = value / tl.maximum(tl.sum(value, 1), 1e-30)[:, None]
    tl.store(scores + place, value, mask=inside)
    if DROP:
        run = t // rows_of_run
        at = ((t - run * rows_of_run)[:, None] * WIDTH + c[None, :]).to(tl.int32)
        word = tl.load(words + run, mask=t < rows, other=0)[:, None]
        tl.store(passed + place, tl.where(kept(word, at, first_kept), value * scale, 0.0), mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def _shares_backward_kernel(  # type: ignore[no-untyped-def]  # noqa: PLR0917
    grad, shares, passed, scale, factor, rows,
    WIDTH: tl.constexpr, PADDED: tl.constexpr, DROP: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """The gradient of some rows of scores, in the place of the gradient of what passed."""
    t = tl.program_id(0).to(tl.int64) * STEP + tl.arange(0, STEP)
    c = tl.arange(0, PADDED)
    inside = (t[:, None] < rows) & (c[None, :] < WIDTH)
    place = t[:, None] * WIDTH + c[None, :]
    above = tl.load(grad + place, mask=inside, other=0.0)
    share = tl.load(shares + place, mask=inside, other=0.0)
    if DROP:
        # A share that is zero itself has no gradient either way.
        above = tl.where(tl.load(passed + place, mask=inside, other=0.0) > 0, above * scale, 0.0)
    tl.store(grad + place, share * (above - tl.sum(above * share, 1)[:, None]) * factor, mask=inside)


def shares(scores: Tensor, factor: float, drop: Drop) -> tuple[Tensor, Tensor]:
    """The softmax (R, heads, n, n) of scores times `factor`, in their place, and the same with dropout."""
    rows, width = scores[..., 0].numel(), scores.shape[-1]
    passed = torch.empty_like(scores) if drop.on else scores
    _shares_kernel[(triton.cdiv(rows, _AT_ONCE),)](
        scores, passed, drop.pointer(scores), drop.first_kept, drop.scale, factor, rows // len(scores), rows,
        WIDTH=width, PADDED=triton.next_power_of_2(width), DROP=drop.on, STEP=_AT_ONCE, num_warps=4,
    )  # fmt: skip
    return scores, passed


def shares_backward(grad: Tensor, held: Tensor, passed: Tensor, factor: float, drop: Drop) -> Tensor:
    """The gradient of the scores, from that of what passed, in its place."""
    rows, width = held[..., 0].numel(), held.shape[-1]
    _shares_backward_kernel[(triton.cdiv(rows, _AT_ONCE),)](
        grad, held, passed, drop.scale, factor, rows,
        WIDTH=width, PADDED=triton.next_power_of_2(width), DROP=drop.on, STEP=_AT_ONCE, num_warps=4,
    )  # fmt: skip
    return grad


# ---- residual sum and normalisation -----------------------------------------------------------------------------


@triton.jit  # type: ignore[untyped-decorator]
def _add_norm_kernel(  # type: ignore[no-untyped-def]  # noqa: PLR0917
    x, y, weight, bias, out, normed, slope, words, first_kept, scale, eps,
    TOKENS: tl.constexpr, WIDTH: tl.constexpr, PADDED: tl.constexpr, DROP: tl.constexpr,
    ROWS: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """Some rows of one run: the normalised sum of x and y."""
    run = tl.program_id(1).to(tl.int64)
    c = tl.arange(0, PADDED)
    stretch = tl.load(weight + run * WIDTH + c, mask=c < WIDTH, other=0.0)
    shift = tl.load(bias + run * WIDTH + c, mask=c < WIDTH, other=0.0)
    for step in range(0, ROWS, STEP):
        t = tl.program_id(0) * ROWS + step + tl.arange(0, STEP)
        inside = (t[:, None] < TOKENS) & (c[None, :] < WIDTH)
        place = t[:, None] * WIDTH + c[None, :]
        added = tl.load(y + run * TOKENS * WIDTH + place, mask=inside, other=0.0)
        if DROP:
            added = tl.where(kept(tl.load(words + run), place, first_kept), added * scale, 0.0)
        z = tl.load(x + run * TOKENS * WIDTH + place, mask=inside, other=0.0) + added
        z = tl.where(inside, z - (tl.sum(z, 1) / WIDTH)[:, None], 0.0)
        steep = 1.0 / tl.sqrt(tl.sum(z * z, 1) / WIDTH + eps)
        z = z * steep[:, None]
        tl.store(normed + run * TOKENS * WIDTH + place, z, mask=inside)
        tl.store(out + run * TOKENS * WIDTH + place, z * stretch[None, :] + shift[None, :], mask=inside)
        tl.store(slope + run * TOKENS + t, steep, mask=t < TOKENS)


@triton.jit  # type: ignore[untyped-decorator]
def _add_norm_backward_kernel(  # type: ignore[no-untyped-def]  # noqa: PLR0917
    grad, weight, normed, slope, for_x, for_y, for_weight, for_bias, words, first_kept, scale,
    TOKENS: tl.constexpr, WIDTH: tl.constexpr, PADDED: tl.constexpr, DROP: tl.constexpr,
    ROWS: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """The gradients of some rows of one run, and their part of the gradients of weight and bias."""
    run = tl.program_id(1).to(tl.int64)
    c = tl.arange(0, PADDED)
    stretch = tl.load(weight + run * WIDTH + c, mask=c < WIDTH, other=0.0)
    stretches = tl.zeros((PADDED,), dtype=tl.float32)
    shifts = tl.zeros((PADDED,), dtype=tl.float32)
    for step in range(0, ROWS, STEP):
        t = tl.program_id(0) * ROWS + step + tl.arange(0, STEP)
        inside = (t[:, None] < TOKENS) & (c[None, :] < WIDTH)
        place = t[:, None] * WIDTH + c[None, :]
        above = tl.load(grad + run * TOKENS * WIDTH + place, mask=inside, other=0.0)
        z = tl.load(normed + run * TOKENS * WIDTH + place, mask=inside, other=0.0)
        steep = tl.load(slope + run * TOKENS + t, mask=t < TOKENS, other=0.0)
        stretches += tl.sum(above * z, 0)
        shifts += tl.sum(above, 0)
        above = above * stretch[None, :]
        along = tl.sum(above * z, 1) / WIDTH
        middle = tl.sum(above, 1) / WIDTH
        found = (above - middle[:, None] - z * along[:, None]) * steep[:, None]
        tl.store(for_x + run * TOKENS * WIDTH + place, found, mask=inside)
        if DROP:
            found = tl.where(kept(tl.load(words + run), place, first_kept), found * scale, 0.0)
            tl.store(for_y + run * TOKENS * WIDTH + place, found, mask=inside)
    part = run * tl.num_programs(0) + tl.program_id(0)
    tl.store(for_weight + part * WIDTH + c, stretches, mask=c < WIDTH)
    tl.store(for_bias + part * WIDTH + c, shifts, mask=c < WIDTH)


def add_norm(  # noqa: PLR0917
    x: Tensor, y: Tensor, weight: Tensor, bias: Tensor, eps: float, drop: Drop
) -> tuple[Tensor, Tensor, Tensor]:
    """Layer normalisation of x + dropout(y), both (R, T, width), by weight and bias (R, width).

    Returns
    -------
    the outputs, and what `add_norm_backward` needs: the sums normalised (R, T, width), and by what factor (R, T)
    """
    runs, tokens, width = x.shape
    out, normed, slope = torch.empty_like(x), torch.empty_like(x), x.new_empty(runs, tokens)
    _add_norm_kernel[(triton.cdiv(tokens, _ROWS), runs)](
        x, y, weight, bias, out, normed, slope, drop.pointer(x), drop.first_kept, drop.scale, eps,
        **_normalisation(tokens, width, drop),
    )  # fmt: skip
    return out, normed, slope


def add_norm_backward(
    grad: Tensor, weight: Tensor, normed: Tensor, slope: Tensor, drop: Drop
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gradients of x, y, weight and bias."""
    runs, tokens, width = grad.shape
    for_x, parts = torch.empty_like(grad), triton.cdiv(tokens, _ROWS)
    for_y = torch.empty_like(grad) if drop.on else for_x
    for_weight, for_bias = grad.new_empty(2, runs, parts, width)
    _add_norm_backward_kernel[(parts, runs)](
        grad, weight, normed, slope, for_x, for_y, for_weight, for_bias, drop.pointer(grad), drop.first_kept,
        drop.scale, **_normalisation(tokens, width, drop),
    )  # fmt: skip
    return for_x, for_y, for_weight.sum(1), for_bias.sum(1)


def _normalisation(tokens: int, width: int, drop: Drop) -> dict[str, object]:
    return {
        "TOKENS": tokens, "WIDTH": width, "PADDED": triton.next_power_of_2(width), "DROP": drop.on,
        "ROWS": _ROWS, "STEP": _AT_ONCE, "num_warps": 4,
    }  # fmt: skip
