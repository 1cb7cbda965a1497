"""Dropout whose masks follow from a word: the same on a CPU and a GPU, alone or in a stack of runs.

torch's own dropout draws from a global generator. Its masks depend on what ran before and on the device, and on
a CPU they are drawn one after another (measured: 10 ms for 2.6 million, where these take 2).
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from rmixup import keys
from rmixup.errors import DataError

try:
    from rmixup.models import dropout_triton as fused
except ImportError:  # Triton comes with torch's builds for NVIDIA's GPUs; the masks are the same without it
    fused = None  # type: ignore[assignment]

# A decision is made on 16 bits, so probabilities are multiples of 1/65536 (0.1 becomes 0.100006).
_LEVELS = 1 << 16


def check_probability(p: float) -> float:
    """Return p, a probability with which a number is dropped, or refuse it."""
    if not 0 <= p < 1:
        raise DataError(f"expected a dropout in [0, 1), got {p}")
    return p


def dropped(p: float) -> int:
    """How many of 65536 levels fall out.

    >>> dropped(0.5)
    32768
    """
    return round(p * _LEVELS)


def streams(word: Tensor | None, count: int) -> list[Tensor | None]:
    """One word for each of `count` dropouts of a model; all None (no dropout) where the model's own word is None.

    >>> import torch
    >>> streams(None, 2)
    [None, None]
    >>> [stream.shape for stream in streams(torch.tensor(7), 2)]
    [torch.Size([]), torch.Size([])]
    """
    return [None] * count if word is None else list(keys.bits(word, count).unbind(-1))


def dropout(x: Tensor, p: float, word: Tensor | None) -> Tensor:
    """Set each number of x to zero with probability p and scale the others so that the mean stays.

    Parameters
    ----------
    x : floating tensor of any shape
        The mask is drawn in the order of its numbers: a shorter batch gets the beginning of a longer one's mask.
    p : float in [0, 1)
        Rounded to 1/65536; the scale is that of the rounded value.
    word : int64 tensor without dimensions, or None
        Names the mask. None returns x itself.

    Examples
    --------
    >>> import torch
    >>> x = torch.ones(4, 8)
    >>> dropout(x, 0.5, None) is x
    True
    >>> y = dropout(x, 0.5, torch.tensor(3))
    >>> torch.equal(y, dropout(x, 0.5, torch.tensor(3))), y.unique().tolist()
    (True, [0.0, 2.0])
    """
    levels = dropped(p)
    if word is None or levels == 0:
        return x
    return cast(Tensor, _Dropout.apply(x, word, levels)[0])  # type: ignore[no-untyped-call]


class _Dropout(torch.autograd.Function):
    """Dropout of x (..., M) or, in a stack, (R, ..., M), by a word or by R words.

    A function of its own because no released torch can cut words into 16 bits under vmap, and because a GPU makes the
    mask again in the backward pass instead of keeping it. The second result is what a CPU keeps.
    """

    @staticmethod
    def forward(x: Tensor, words: Tensor, dropped: int) -> tuple[Tensor, Tensor]:
        flat = x.reshape(words.numel(), -1)
        if x.device.type == "cuda" and fused is not None:
            return fused.dropped(flat, words, dropped).view(x.shape), x.new_empty(0)
        mask = _mask(words.reshape(-1), flat.shape[1], dropped, x.dtype)
        return (flat * mask).view(x.shape), mask

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, int], output: tuple[Tensor, Tensor]) -> None:
        _, words, ctx.dropped = inputs
        ctx.save_for_backward(words, output[1])
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor | None) -> tuple[Tensor, None, None]:
        words, mask = ctx.saved_tensors
        if mask.numel() == 0:
            return _Dropout.apply(grad, words, ctx.dropped)[0], None, None  # type: ignore[no-untyped-call]
        return grad * mask.view(grad.shape), None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], x: Tensor, words: Tensor, dropped: int) -> Any:
        x = x.movedim(in_dims[0], 0) if in_dims[0] is not None else x.expand(info.batch_size, *x.shape)
        words = words if in_dims[1] is not None else words.expand(info.batch_size)
        return _Dropout.apply(x.contiguous(), words.contiguous(), dropped), (0, 0)  # type: ignore[no-untyped-call]


def _mask(words: Tensor, count: int, dropped: int, dtype: torch.dtype) -> Tensor:
    """Zeros and scales (R, count)."""
    first_kept = dropped - _LEVELS // 2  # of -32768 … 32767
    # Clamped to 0 or 1 while still 16 bits wide: a comparison takes five times as long on a CPU.
    kept = keys.short_bits(words, count).clamp(first_kept - 1, first_kept).sub_(first_kept - 1)
    return kept.to(dtype).mul_(_LEVELS / (_LEVELS - dropped))
