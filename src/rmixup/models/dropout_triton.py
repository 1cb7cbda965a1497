"""Dropout in one kernel: the numbers of `rmixup.keys.short_bits` made in registers, nothing of them in memory."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 1024
_LEVELS = 1 << 16


@triton.jit
def kept(word, at, first_kept):  # type: ignore[no-untyped-def]
    """Whether the numbers at places `at` of a word's mask stay."""
    # SplitMix64, as in rmixup.keys: number q of a word gives the decisions 4q … 4q + 3.
    z = word.to(tl.uint64, bitcast=True) + (at // 4 + 1).to(tl.uint64) * 0x9E3779B97F4A7C15
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB
    z = z ^ (z >> 31)
    short = ((z >> (at % 4 * 16).to(tl.uint64)) & 0xFFFF).to(tl.int32)
    return tl.where(short >= 32768, short - 65536, short) >= first_kept


@triton.jit  # type: ignore[untyped-decorator]
def _kernel(x, out, words, count, first_kept, scale, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: PLR0917
    run = tl.program_id(1)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    place = run.to(tl.int64) * count + at
    value = tl.load(x + place, mask=inside)
    tl.store(out + place, tl.where(kept(tl.load(words + run), at, first_kept), value * scale, 0.0), mask=inside)


def dropped(x: Tensor, words: Tensor, dropped: int) -> Tensor:
    """x (R, M) with the masks of words (R,): each number zero with probability dropped / 65536, else scaled."""
    x = x.contiguous()
    out = torch.empty_like(x)
    grid = (triton.cdiv(x.shape[1], _BLOCK), x.shape[0])
    scale = _LEVELS / (_LEVELS - dropped)
    _kernel[grid](x, out, words.contiguous(), x.shape[1], dropped - _LEVELS // 2, scale, BLOCK=_BLOCK)
    return out
