"""Products of symmetric matrices on an NVIDIA GPU, in one kernel each with all that is added to the product.

A float32 number is held as the sum of two float16 numbers, 22 bits, scaled so that neither end of float16's range is
met. A product is then three of float16 (high·high, high·low, low·high, summed in float32): tensor cores take them
several times faster than one of float32, and the error is near it. Where torch is asked for less than float32, the low
parts are left out: a third of the products, an error below 1e-3. Only tiles on and below the diagonal are computed,
and written to both halves. Matrices are padded with zeros to whole tiles, so that no load needs a mask. May not be
here: which polynomial is evaluated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

# Terms and outputs a launch has room for.
_TERMS, _OUTPUTS = 3, 3
_NOTHING, _HALVES, _LOWER, _RESULT = range(4)
# Halves are scaled so that their largest number is about this; float16 ends at 65504.
_LARGEST = 2.0**14


class Tiles(NamedTuple):
    """How a launch is cut: edge of a tile, depth of a step along the sum, warps, stages of loads under way."""

    edge: int
    depth: int
    warps: int
    stages: int


class Halves(NamedTuple):
    """A factor: `parts` (2, batch, p, p) float16, or (1, ...), whose sum divided by `scale` is the matrix."""

    parts: Tensor
    scale: float

    def holding(self, norm: float) -> Halves:
        """The same memory for matrices of at most this spectral norm."""
        return Halves(self.parts, scale_for(norm))


class Output(NamedTuple):
    """`into` becomes product·(X Y) + terms·(T…) + identity·I.

    Halves hold a factor for later; a tensor (batch, p, p) a term, on and below the diagonal alone; with `result` the
    tensor is (batch, n, n) and whole.
    """

    into: Halves | Tensor
    product: float = 1.0
    terms: Sequence[float] = ()
    identity: float = 0.0
    result: bool = False


def scale_for(norm: float) -> float:
    """The power of two by which matrices of at most this spectral norm (so no larger entry) are scaled."""
    return 2.0 ** math.floor(math.log2(_LARGEST / norm))


@triton.jit  # type: ignore[untyped-decorator]
def _write(  # type: ignore[no-untyped-def]  # noqa: PLR0917
    out, value, scale, matrix, rows, columns, n, p, part, off, KIND: tl.constexpr, SPLIT: tl.constexpr
):
    if KIND == 1:  # a factor
        scaled = value * scale
        high = scaled.to(tl.float16)
        low = (scaled - high.to(tl.float32)).to(tl.float16)
        base = out + matrix * p * p
        place = rows[:, None] * p + columns[None, :]
        tl.store(base + place, high)
        if SPLIT:
            tl.store(base + part + place, low)
        if off:
            across = columns[:, None] * p + rows[None, :]
            tl.store(base + across, tl.trans(high))
            if SPLIT:
                tl.store(base + part + across, tl.trans(low))
    if KIND == 2:  # a term
        tl.store(out + matrix * p * p + rows[:, None] * p + columns[None, :], value)
    if KIND == 3:  # the result
        base = out + matrix * n * n
        tl.store(base + rows[:, None] * n + columns[None, :], value, mask=(rows[:, None] < n) & (columns[None, :] < n))
        if off:
            across = columns[:, None] * n + rows[None, :]
            tl.store(base + across, tl.trans(value), mask=(columns[:, None] < n) & (rows[None, :] < n))


@triton.jit  # type: ignore[untyped-decorator]
def _product_kernel(  # type: ignore[no-untyped-def]  # noqa: PLR0917
    x, y, t0, t1, t2, o0, o1, o2,
    p0, a0, b0, c0, i0, s0,
    p1, a1, b1, c1, i1, s1,
    p2, a2, b2, c2, i2, s2,
    n, p, batch, tiles,
    TERMS: tl.constexpr, KIND0: tl.constexpr, KIND1: tl.constexpr, KIND2: tl.constexpr,
    SPLIT: tl.constexpr, EDGE: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """One tile on or below the diagonal of one matrix."""
    matrix = (tl.program_id(0) // tiles).to(tl.int64)
    tile = tl.program_id(0) % tiles
    # Tiles are numbered row by row: 0; 1, 2; 3, 4, 5; ...
    row = ((tl.sqrt((8 * tile + 1).to(tl.float32)) - 1.0) * 0.5 + 1e-4).to(tl.int32)
    column = tile - row * (row + 1) // 2
    rows = row * EDGE + tl.arange(0, EDGE)
    columns = column * EDGE + tl.arange(0, EDGE)
    part = batch.to(tl.int64) * p * p
    inner = tl.arange(0, DEPTH)
    left = x + matrix * p * p + rows[:, None] * p + inner[None, :]
    # Y is symmetric: its columns are read as rows, in the order of memory.
    right = y + matrix * p * p + columns[:, None] * p + inner[None, :]
    whole = tl.zeros((EDGE, EDGE), dtype=tl.float32)
    for _ in range(0, p, DEPTH):
        left_high, right_high = tl.load(left), tl.load(right)
        if SPLIT:
            left_low, right_low = tl.load(left + part), tl.load(right + part)
            whole = tl.dot(left_high, tl.trans(right_low), whole)
            whole = tl.dot(left_low, tl.trans(right_high), whole)
        whole = tl.dot(left_high, tl.trans(right_high), whole)
        left += DEPTH
        right += DEPTH
    off = row != column
    if row == column:
        whole = 0.5 * (whole + tl.trans(whole))
    place = matrix * p * p + rows[:, None] * p + columns[None, :]
    identity = ((rows[:, None] == columns[None, :]) & (rows[:, None] < n)).to(tl.float32)
    v0 = whole * p0 + identity * i0
    v1 = whole * p1 + identity * i1
    v2 = whole * p2 + identity * i2
    if TERMS > 0:
        t = tl.load(t0 + place)
        v0 += t * a0
        v1 += t * a1
        v2 += t * a2
    if TERMS > 1:
        t = tl.load(t1 + place)
        v0 += t * b0
        v1 += t * b1
        v2 += t * b2
    if TERMS > 2:
        t = tl.load(t2 + place)
        v0 += t * c0
        v1 += t * c1
        v2 += t * c2
    _write(o0, v0, s0, matrix, rows, columns, n, p, part, off, KIND0, SPLIT)
    _write(o1, v1, s1, matrix, rows, columns, n, p, part, off, KIND1, SPLIT)
    _write(o2, v2, s2, matrix, rows, columns, n, p, part, off, KIND2, SPLIT)


@triton.jit  # type: ignore[untyped-decorator]
def _begin_kernel(  # type: ignore[no-untyped-def]  # noqa: PLR0917
    given, halves, term, factor, shift, scale, n, p, batch, SPLIT: tl.constexpr, WIDTH: tl.constexpr
):
    """One row of one matrix."""
    matrix = (tl.program_id(0) // p).to(tl.int64)
    row = tl.program_id(0) % p
    part = batch.to(tl.int64) * p * p
    for first in range(0, p, WIDTH):
        columns = first + tl.arange(0, WIDTH)
        inside = columns < tl.where(row < n, n, 0)
        value = tl.load(given + matrix * n * n + row * n + columns, mask=inside, other=0.0) * factor
        value += tl.where((columns == row) & inside, shift, 0.0)
        place = matrix * p * p + row * p + columns
        room = columns < p
        tl.store(term + place, value, mask=room)
        scaled = value * scale
        high = scaled.to(tl.float16)
        tl.store(halves + place, high, mask=room)
        if SPLIT:
            tl.store(halves + part + place, (scaled - high.to(tl.float32)).to(tl.float16), mask=room)


class Products:
    """Room for products of a batch of matrices (batch, n, n), in how many parts, and how they are cut."""

    def __init__(self, batch: int, n: int, device: torch.device, split: bool = True, cut: Tiles | None = None) -> None:
        self.batch, self.n, self.device, self.split = batch, n, device, split
        self.cut = cut or tiles_for(batch, n)
        self.padded = triton.cdiv(n, self.cut.edge) * self.cut.edge

    def halves(self) -> Halves:
        """Memory for a factor."""
        shape = (1 + self.split, self.batch, self.padded, self.padded)
        return Halves(torch.empty(shape, dtype=torch.float16, device=self.device), 1.0)

    def term(self) -> Tensor:
        """Memory for a term."""
        return torch.empty(self.batch, self.padded, self.padded, device=self.device)

    def begin(self, L: Tensor, factor: float, shift: float, halves: Halves, term: Tensor) -> None:
        """Write A = factor·L + shift·I of contiguous matrices as a factor and as a term."""
        _begin_kernel[(self.batch * self.padded,)](
            L, halves.parts, term, factor, shift, halves.scale, self.n, self.padded, self.batch,
            SPLIT=self.split, WIDTH=128, num_warps=1,
        )  # fmt: skip

    def product(self, X: Halves, Y: Halves, outputs: Sequence[Output], terms: Sequence[Tensor] = ()) -> None:
        """Write weighted sums of X @ Y (which commute), terms and the identity into each of at most 3 outputs.

        None may be X or Y. One may be a term: a tile is read before it is written, and by nobody else.
        """
        across = self.padded // self.cut.edge
        tiles = across * (across + 1) // 2
        weights: list[float] = []
        for out in outputs:
            scale = out.into.scale if isinstance(out.into, Halves) else 1.0
            own = out.product / (X.scale * Y.scale)
            weights += [own, *_filled(out.terms, _TERMS, 0.0), out.identity, scale]
        into = [out.into.parts if isinstance(out.into, Halves) else out.into for out in outputs]
        kinds = _filled([_kind(out) for out in outputs], _OUTPUTS, _NOTHING)
        _product_kernel[(self.batch * tiles,)](
            X.parts, Y.parts, *_filled(terms, _TERMS, X.parts), *_filled(into, _OUTPUTS, X.parts),
            *_filled(weights, _OUTPUTS * (_TERMS + 3), 0.0), self.n, self.padded, self.batch, tiles,
            TERMS=len(terms), KIND0=kinds[0], KIND1=kinds[1], KIND2=kinds[2],
            SPLIT=self.split, EDGE=self.cut.edge, DEPTH=self.cut.depth,
            num_warps=self.cut.warps, num_stages=self.cut.stages,
        )  # fmt: skip


def _kind(out: Output) -> int:
    if isinstance(out.into, Halves):
        return _HALVES
    return _RESULT if out.result else _LOWER


def tiles_for(batch: int, n: int) -> Tiles:
    """How to cut, as measured on an H200."""
    if n <= 128 or batch < 64:
        return Tiles(64, 32, 4, 3)
    return Tiles(128, 32, 8, 3)


def _filled(values: Sequence[Any], count: int, blank: Any) -> list[Any]:
    return [*values, *[blank] * (count - len(values))]
