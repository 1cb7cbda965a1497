"""Randomness from keys: (seed, *labels) names a stream of numbers, the only source of chance in rmixup.

Nothing here has state. The same key gives the same numbers whatever ran before, in any process, on any
device. `generator` is for drawing on the host (splits, pairs, λ); `uniform` and `normal` expand one word per
sample into as many numbers as a matrix has edges, on the device where they are needed.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch

Label = int | str

_MASK64 = (1 << 64) - 1
# SplitMix64 (Steele, Lea & Flood 2014): one multiply-xor-shift chain a number, no state between numbers.
_GOLDEN = 0x9E3779B97F4A7C15
_MIX_1 = 0xBF58476D1CE4E5B9
_MIX_2 = 0x94D049BB133111EB


def word(seed: int, *labels: Label) -> int:
    """Return the 64-bit word that stands for a key.

    >>> word(0, "epoch", 3) == word(0, "epoch", 3)
    True
    >>> word(0, "epoch", 3) == word(0, "epoch", "3")
    False
    """
    text = "\x1f".join(f"{type(label).__name__}:{label}" for label in (int(seed), *map(_plain, labels)))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def _plain(label: Label) -> Label:
    """NumPy's integers name the same stream as Python's."""
    return label if isinstance(label, str) else int(label)


def generator(seed: int, *labels: Label) -> np.random.Generator:
    """Return a NumPy generator for a key.

    >>> float(generator(0, "split").random()) == float(generator(0, "split").random())
    True
    """
    return np.random.Generator(np.random.PCG64DXSM(word(seed, *labels)))


def _signed(value: int) -> int:
    """The same 64 bits as torch's signed integers hold them."""
    value &= _MASK64
    return value - (1 << 64) if value >> 63 else value


def _shift_right(x: torch.Tensor, bits: int) -> torch.Tensor:
    """A logical shift: torch's own keeps the sign."""
    return (x >> bits).bitwise_and_((1 << (64 - bits)) - 1)


def bits(words: torch.Tensor, count: int) -> torch.Tensor:
    """Expand each word into `count` 64-bit words.

    Parameters
    ----------
    words : int64 tensor of any shape (...)
        One word a sample, as `Plan.words` holds them.
    count : int
        How many numbers each word gives.

    Returns
    -------
    int64 tensor (..., count), the same bits on every device.
    """
    import torch

    counter = torch.arange(1, count + 1, dtype=torch.int64, device=words.device).mul_(_signed(_GOLDEN))
    z = words[..., None] + counter
    # In place: millions of numbers a training step are bound by memory, and this halves the time.
    z.bitwise_xor_(_shift_right(z, 30)).mul_(_signed(_MIX_1))
    z.bitwise_xor_(_shift_right(z, 27)).mul_(_signed(_MIX_2))
    return z.bitwise_xor_(_shift_right(z, 31))


def short_bits(words: torch.Tensor, count: int) -> torch.Tensor:
    """Expand each word into `count` 16-bit words, four from each of `bits`: for decisions as cheap as dropout's.

    Parameters
    ----------
    words : int64 tensor of any shape (...)
        One word a stream.
    count : int
        How many numbers each word gives.

    Returns
    -------
    int16 tensor (..., count), each value of -32768 … 32767 equally likely, the same on every device.

    >>> import torch
    >>> short_bits(torch.tensor([1, 2]), 6).shape
    torch.Size([2, 6])
    """
    import torch

    return bits(words, -(-count // 4)).view(torch.int16)[..., :count]


def uniform(words: torch.Tensor, count: int) -> torch.Tensor:
    """Uniform float32 numbers in (0, 1), exactly the same on every device.

    >>> import torch
    >>> u = uniform(torch.tensor([1, 2]), 4)
    >>> u.shape, bool((u > 0).all() and (u < 1).all())
    (torch.Size([2, 4]), True)
    """
    import torch

    # 23 bits and a half: every value is exact in float32 and neither 0 nor 1 occurs.
    return (_shift_right(bits(words, count), 41).to(torch.float32) + 0.5) * 2.0**-23


def normal(words: torch.Tensor, count: int) -> torch.Tensor:
    """Standard normal float32 numbers by inverting the distribution function (equal to a rounding across devices)."""
    import torch

    drawn: torch.Tensor = torch.special.ndtri(uniform(words, count))
    return drawn
