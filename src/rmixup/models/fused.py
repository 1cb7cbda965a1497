"""Parts of the Transformer that a GPU computes in few kernels, with their gradients, alone and in a stack of runs.

Each function of autograd here has the runs as first dimension, 1 outside of vmap, and joins a vmapped dimension to it:
the kernels see the whole stack at once. May not be here: kernels; what other devices do.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

try:
    from rmixup.models import fused_triton as kernels
except ImportError:  # Triton comes with torch's builds for NVIDIA's GPUs; torch's own operations serve without it
    kernels = None  # type: ignore[assignment]

# Below, tiles are mostly padding.
_NODES = 16


def serves(x: Tensor) -> bool:
    """Whether the kernels take x (..., n, width): float32 on an NVIDIA GPU, outside of autocast."""
    if kernels is None or not x.is_cuda or x.dtype != torch.float32:
        return False
    if x.ndim < 3 or x.shape[-2] < _NODES or not x.numel():
        return False
    return not torch.is_autocast_enabled("cuda")


def precision() -> str:
    """How products are made: as near to float32 as torch is asked to be."""
    return "tf32x3" if torch.get_float32_matmul_precision() == "highest" else "tf32"


def affine(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The affine map x Wᵀ + b: (..., a) to (..., b)."""
    flat = x.reshape(1, -1, x.shape[-1])
    out = cast(Tensor, _Affine.apply(flat, weight[None], bias[None]))  # type: ignore[no-untyped-call]
    return out.view(*x.shape[:-1], -1)


def feedforward(  # noqa: PLR0917
    x: Tensor, weight_1: Tensor, bias_1: Tensor, weight_2: Tensor, bias_2: Tensor, word: Tensor | None, dropped: int
) -> Tensor:
    """An affine map, its positive part, dropout, and another affine map: (B, n, a) to (B, n, a)."""
    flat = x.reshape(1, -1, x.shape[-1])
    parts = (weight_1[None], bias_1[None], weight_2[None], bias_2[None], _first(word))
    out: Tensor = _FeedForward.apply(flat, *parts, dropped)[0]  # type: ignore[no-untyped-call]
    return out.view(x.shape)


def attend(query_key_value: Tensor, heads: int, word: Tensor | None, dropped: int) -> Tensor:
    """Attention of (B, n, 3·inner), queries, keys and values side by side; (B, n, inner)."""
    given = (query_key_value[None], _first(word), heads, dropped)
    out: Tensor = _Attend.apply(*given)[0]  # type: ignore[no-untyped-call]
    return out.squeeze(0)


def add_norm(  # noqa: PLR0917
    x: Tensor, y: Tensor, weight: Tensor, bias: Tensor, eps: float, word: Tensor | None, dropped: int
) -> Tensor:
    """Layer normalisation of x + dropout(y), both (B, n, width)."""
    flat_x, flat_y = (part.reshape(1, -1, part.shape[-1]) for part in (x, y))
    given = (flat_x, flat_y, weight[None], bias[None], _first(word), eps, dropped)
    out: Tensor = _AddNorm.apply(*given)[0]  # type: ignore[no-untyped-call]
    return out.view(x.shape)


def _first(word: Tensor | None) -> Tensor | None:
    return None if word is None else word[None]


def _joined(info: Any, in_dims: tuple[int | None, ...], parts: tuple[Tensor | None, ...]) -> list[Tensor | None]:
    """The vmapped dimension of each tensor as part of its first."""
    return [
        None if part is None else _first_of(part, at, info.batch_size).flatten(0, 1).contiguous()
        for part, at in zip(parts, in_dims, strict=False)
    ]


def _first_of(part: Tensor, at: int | None, size: int) -> Tensor:
    return part.expand(size, *part.shape) if at is None else part.movedim(at, 0)


def _apart(info: Any, parts: Any) -> Any:
    """Undo `_joined`."""
    if isinstance(parts, Tensor):
        return _split(parts, info.batch_size), 0
    return tuple(_split(part, info.batch_size) for part in parts), (0,) * len(parts)


def _split(part: Tensor, size: int) -> Tensor:
    return part.view(size, len(part) // size, *part.shape[1:])


class _Affine(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return kernels.affine(x.contiguous(), weight.contiguous(), bias.contiguous(), precision())

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[:2])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        x, weight = (part.contiguous() for part in ctx.saved_tensors)
        grad = grad.contiguous()
        for_x = grad @ weight if ctx.needs_input_grad[0] else None
        return for_x, grad.mT @ x, kernels.sums(grad)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *given: Any) -> Any:
        return _apart(info, _Affine.apply(*_joined(info, in_dims, given)))  # type: ignore[no-untyped-call]


class _FeedForward(torch.autograd.Function):
    @staticmethod
    def forward(  # noqa: PLR0917
        x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor, words: Tensor | None, dropped: int
    ) -> tuple[Tensor, Tensor]:
        drop = kernels.Drop(words, dropped)
        hidden = kernels.affine(x.contiguous(), w1.contiguous(), b1.contiguous(), precision(), drop)
        return kernels.affine(hidden, w2.contiguous(), b2.contiguous(), precision()), hidden

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        x, w1, _, w2, _, words, dropped = inputs
        ctx.scale = kernels.Drop(words, dropped).scale
        ctx.save_for_backward(x, w1, w2, output[1])
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor | None) -> Any:
        x, w1, w2, hidden = (part.contiguous() for part in ctx.saved_tensors)
        grad = grad.contiguous()
        inside = grad @ w2
        # What came through is positive: its sign tells where the positive part and the dropout let it pass.
        for_b1 = kernels.gate(inside, hidden, ctx.scale)
        for_x = inside @ w1 if ctx.needs_input_grad[0] else None
        return for_x, inside.mT @ x, for_b1, grad.mT @ hidden, kernels.sums(grad), None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *given: Any) -> Any:
        return _apart(info, _FeedForward.apply(*_joined(info, in_dims, given[:6]), *given[6:]))  # type: ignore[no-untyped-call]


class _Attend(torch.autograd.Function):
    """Scores, shares, sums of values. Kept beside the result: the heads apart, the shares before and after dropout."""

    @staticmethod
    def forward(qkv: Tensor, words: Tensor | None, heads: int, dropped: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        width, drop = qkv.shape[-1] // (3 * heads), kernels.Drop(words, dropped)
        query, key, value = apart = kernels.split_heads(qkv.contiguous(), 3, heads)
        shares, passed = kernels.shares(query @ key.mT, width**-0.5, drop)
        out = kernels.join_heads((passed @ value)[None], heads, width)
        # One tensor cannot be two outputs.
        return out, apart, shares, passed if drop.on else passed.new_empty(len(qkv), 0)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        qkv, words, ctx.heads, dropped = inputs
        ctx.width, ctx.drop = qkv.shape[-1] // (3 * ctx.heads), kernels.Drop(words, dropped)
        ctx.save_for_backward(*output[1:])
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *_: Tensor | None) -> Any:
        apart, shares, passed = ctx.saved_tensors
        query, key, value = apart
        if not ctx.drop.on:
            passed = shares
        above = kernels.split_heads(grad.contiguous(), 1, ctx.heads)[0]
        for_scores = kernels.shares_backward(above @ value.mT, shares, passed, ctx.width**-0.5, ctx.drop)
        found = torch.empty_like(apart)
        for left, right, into in zip((for_scores, for_scores.mT, passed.mT), (key, query, above), found, strict=True):
            torch.matmul(left, right, out=into)
        return kernels.join_heads(found, ctx.heads, ctx.width), None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *given: Any) -> Any:
        out, apart, *others = _Attend.apply(*_joined(info, in_dims, given[:2]), *given[2:])  # type: ignore[no-untyped-call]
        (out, *others), _ = _apart(info, (out, *others))
        apart = apart.view(len(apart), info.batch_size, -1, *apart.shape[2:])
        return (out, apart, *others), (0, 1, 0, 0)


class _AddNorm(torch.autograd.Function):
    @staticmethod
    def forward(  # noqa: PLR0917
        x: Tensor, y: Tensor, weight: Tensor, bias: Tensor, words: Tensor | None, eps: float, dropped: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        x, y, weight, bias = (part.contiguous() for part in (x, y, weight, bias))
        return kernels.add_norm(x, y, weight, bias, eps, kernels.Drop(words, dropped))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
        _, _, weight, _, words, _, ctx.dropped = inputs
        ctx.save_for_backward(weight, *output[1:], *[words] * (words is not None))
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *_: Tensor | None) -> Any:
        weight, normed, slope, *words = (part.contiguous() for part in ctx.saved_tensors)
        drop = kernels.Drop(words[0] if words else None, ctx.dropped)
        return *kernels.add_norm_backward(grad.contiguous(), weight, normed, slope, drop), None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *given: Any) -> Any:
        return _apart(info, _AddNorm.apply(*_joined(info, in_dims, given[:5]), *given[5:]))  # type: ignore[no-untyped-call]
