"""Losses: one number a run, whatever the number of runs, with weights that also serve as a mask for padding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional


def weighted_mean(values: Tensor, weights: Tensor | None = None) -> Tensor:
    """Mean over samples: (..., B) -> (...). Samples of weight 0 count as absent; where all are, the mean is 0.

    >>> import torch
    >>> weighted_mean(torch.tensor([[1.0, 3.0], [5.0, 7.0]]), torch.tensor([[1.0, 1.0], [1.0, 0.0]])).tolist()
    [2.0, 5.0]
    """
    if weights is None:
        return values.mean(-1)
    total = weights.sum(-1)
    return (values * weights).sum(-1) / torch.where(total > 0, total, 1)


def soft_cross_entropy(outputs: Tensor, targets: Tensor, weights: Tensor | None = None) -> Tensor:
    """Cross-entropy against soft labels, the mean over samples.

    Parameters
    ----------
    outputs : (..., B, C) logits
    targets : (..., B, C) label weights that sum to 1, as mixing makes them
    weights : (..., B) sample weights, optional

    Returns
    -------
    (...) one loss a run.

    Examples
    --------
    >>> import torch
    >>> round(soft_cross_entropy(torch.zeros(4, 2), torch.full((4, 2), 0.5)).item(), 4)
    0.6931
    """
    return weighted_mean(-(targets * functional.log_softmax(outputs, -1)).sum(-1), weights)


def squared_error(outputs: Tensor, targets: Tensor, weights: Tensor | None = None) -> Tensor:
    """Squared error, the mean over targets and samples: (..., B, k) and (..., B, k) -> (...).

    >>> import torch
    >>> squared_error(torch.zeros(4, 1), torch.full((4, 1), 3.0)).item()
    9.0
    """
    return weighted_mean((outputs - targets).square().mean(-1), weights)


LOSSES: dict[str, Callable[[Tensor, Tensor, Tensor | None], Tensor]] = {
    "classification": soft_cross_entropy,
    "regression": squared_error,
}


@dataclass(frozen=True)
class Scaler:
    """Standardises regression targets by the mean and deviation of the training targets.

    Attributes
    ----------
    mean, scale : (..., 1, k)
        One row a run. A target that never varies has scale 1.

    Examples
    --------
    >>> import torch
    >>> scaler = Scaler.fit(torch.tensor([[1.0], [3.0]]))
    >>> scaler.standardise(torch.tensor([[5.0]])).item(), scaler.restore(torch.tensor([[3.0]])).item()
    (3.0, 5.0)
    """

    mean: Tensor
    scale: Tensor

    @classmethod
    def fit(cls, y: Tensor, mask: Tensor | None = None) -> Scaler:
        """Fit on training targets y (..., N, k); a mask (..., N) says which rows are there."""
        counted = torch.ones_like(y) if mask is None else mask[..., None].to(y.dtype)
        count = counted.sum(-2, keepdim=True)
        mean = (y * counted).sum(-2, keepdim=True) / count
        deviation = (((y - mean) * counted).square().sum(-2, keepdim=True) / count).sqrt()
        tiny = 10 * torch.finfo(y.dtype).eps * mean.abs()  # a constant's deviation is rounding error, not 0
        return cls(mean, torch.where(deviation > tiny, deviation, 1))

    def standardise(self, y: Tensor) -> Tensor:
        """Original units to standardised targets, (..., N, k)."""
        return (y - self.mean) / self.scale

    def restore(self, outputs: Tensor) -> Tensor:
        """Standardised outputs to original units, (..., N, k)."""
        return outputs * self.scale + self.mean
