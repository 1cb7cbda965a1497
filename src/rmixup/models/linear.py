"""Affine maps of many rows: on a CPU through oneDNN, on an NVIDIA GPU through a kernel of `rmixup.models.fused`.

torch multiplies float32 matrices on a CPU with MKL, which leaves half of the vector width of processors that are not
Intel's unused. oneDNN, which torch carries too, asks the processor what it can do. Measured on two cores of an AMD
EPYC (Zen 5): 5760 rows of 360 to 1080 numbers take 9.2 ms instead of 20.6. May not be here: kernels.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from rmixup.models import fused

# Below, what is around a call of oneDNN costs more than its products save (measured).
_ROWS, _COLUMNS = 256, 64
# What torch's own compiler calls; where a torch has it no more, torch's linear map serves.
_product: Any = getattr(torch.ops.mkldnn, "_linear_pointwise", None)


class Linear(nn.Linear):
    """torch's own layer, its map carried out by `linear`.

    >>> Linear(3, 2)(torch.ones(4, 3)).shape
    torch.Size([4, 2])
    """

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 -- torch's name
        """Map (..., a) to (..., b)."""
        return linear(input, self.weight, self.bias)


def linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The affine map x Wᵀ + b of torch.nn.functional.linear, equal to it but for rounding.

    Parameters
    ----------
    x : (..., a)
    weight : (b, a)
    bias : (b,)

    Returns
    -------
    (..., b)

    >>> linear(torch.ones(2, 3), torch.ones(1, 3), torch.ones(1)).tolist()
    [[4.0], [4.0]]
    """
    if fused.serves(x):
        return fused.affine(x, weight, bias)
    if not _pays(x, weight):
        return functional.linear(x, weight, bias)
    return _times(x.reshape(-1, x.shape[-1]), weight, bias).view(*x.shape[:-1], -1)


def _pays(x: Tensor, weight: Tensor) -> bool:
    if x.device.type != "cpu" or x.dtype != torch.float32 or weight.dtype != torch.float32:
        return False
    if torch.is_autocast_enabled("cpu") or _product is None:
        return False
    return x.numel() >= _ROWS * x.shape[-1] and min(weight.shape) >= _COLUMNS


def _times(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x Wᵀ + b, of matrices."""
    return cast(Tensor, _Times.apply(x, weight, bias))  # type: ignore[no-untyped-call]


class _Times(torch.autograd.Function):
    """A function of its own because oneDNN's product knows neither gradients nor vmap."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return cast(Tensor, _product(x, weight, bias, "none", [], ""))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor | None], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[:2])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        for_x, for_weight, for_bias = ctx.needs_input_grad
        return (
            _times(grad, weight.mT) if for_x else None,
            _times(grad.mT, x.mT) if for_weight else None,
            grad.sum(0) if for_bias else None,
        )

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], x: Tensor, weight: Tensor, bias: Tensor | None) -> Any:
        # Run by run: rounded as a single run is, so that no unit near its kink falls on the other side.
        parts = [
            [part] * info.batch_size if at is None or part is None else part.unbind(at)
            for part, at in zip((x, weight, bias), in_dims, strict=True)
        ]
        return torch.stack([_times(*run) for run in zip(*parts, strict=True)]), 0
