"""G-Mixup: networks drawn from mixed edge generators (after Han et al. 2022)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rmixup import keys
from rmixup.augment.bank import Source, pack
from rmixup.augment.base import Batch, Mixing, Prepared, Training
from rmixup.augment.labels import Labels, named
from rmixup.errors import DataError

# A diagonal within this of one everywhere means correlations, whose edges are clipped to [-1, 1].
UNIT_DIAGONAL_TOLERANCE = 1e-4


@dataclass(frozen=True, kw_only=True)
class GMixup(Mixing):
    """Each edge is Normal, with the λ-mix of the two labels' means and of their standard deviations.

    For classes, the generator of an edge is the mean and deviation over the training networks of the class. For
    numbers, its mean is linear in the label, μ + (σ/σ_y) ρ (y - μ_y) with one target, the least-squares plane with
    several, and its variance is what the label leaves unexplained, (1 - ρ²) σ². Edges of correlations are clipped to
    [-1, 1]; the diagonal is that of the straight line.

    >>> import numpy as np
    >>> x = np.stack([np.full((2, 2), v) + (1 - v) * np.eye(2) for v in (0.1, 0.2, 0.3, 0.4)])
    >>> x2, y2 = GMixup()(x, [0, 0, 1, 1], seed=0)
    >>> float(np.diagonal(x2, axis1=1, axis2=2).min())
    1.0
    """

    name = "gmixup"

    def require(self, labels: Labels) -> None:
        """A deviation needs two members of each class."""
        super().require(labels)
        if labels.codes is None:
            return
        members = np.bincount(labels.codes)
        alone = np.flatnonzero(members == 1)
        if len(alone):
            raise DataError(
                f"gmixup's edge generators need at least two training networks of each class, but {len(alone)} classes "
                f"have one member only (codes {named(alone)}); join them with another class, or leave them out"
            )

    def fit(self, training: Training) -> dict[str, Tensor]:
        """Edge generators: means and deviations (p, edges) that are linear in the p features of a label."""
        source, labels = training.source, training.labels
        y = torch.from_numpy(labels.mixable()).to(source.device)
        scale = _label_scale(y) if labels.task == "regression" else {}
        features = _features(y, scale)
        # Each class has its own deviation; with numbers there is one, which stands beside the constant.
        groups = _constant_only(features) if scale else features
        mean = _least_squares(source, features)
        return {
            **scale,
            "mean": mean,
            "deviation": _deviations(source, features, groups, mean),
            "limit": _limit(source),
        }

    def mix(self, prepared: Prepared, batch: Batch) -> Tensor:
        """Draw every edge."""
        nodes = prepared.nodes
        fitted = {name: value.index_select(0, batch.run) for name, value in prepared.fitted.items()}
        f = _features(prepared.mixed_labels(batch), fitted)[:, None, :]
        mean, deviation = (f @ fitted["mean"])[:, 0], (f @ fitted["deviation"])[:, 0]
        edges = mean + deviation * keys.normal(batch.words, mean.shape[1]).to(mean.dtype)
        limit = fitted["limit"]
        x = edges.clamp(-limit, limit).index_select(1, prepared.bank.index).view(-1, nodes, nodes)
        x.diagonal(dim1=1, dim2=2).copy_(prepared.between(batch).diagonal(dim1=1, dim2=2))
        return x


def _label_scale(y: Tensor) -> dict[str, Tensor]:
    """Mean and deviation of each target, so that the least squares are well conditioned."""
    targets = y.reshape(len(y), -1)
    deviation = targets.std(0, correction=0)
    return {"center": targets.mean(0), "scale": torch.where(deviation > 0, deviation, 1.0)}


def _features(y: Tensor, scale: dict[str, Tensor]) -> Tensor:
    """What a generator is linear in (B, p): class probabilities, or one and the standardised targets."""
    if "scale" not in scale:
        return y
    z = (y.reshape(len(y), -1) - scale["center"]) / scale["scale"]
    return torch.cat([torch.ones_like(z[:, :1]), z], dim=1)


def _constant_only(features: Tensor) -> Tensor:
    groups = torch.zeros_like(features)
    groups[:, 0] = 1
    return groups


def _least_squares(source: Source, features: Tensor) -> Tensor:
    """The coefficients (p, edges) of each edge on the features; for classes these are the class means."""
    inverse = torch.linalg.pinv(features)
    edges = source.nodes * (source.nodes + 1) // 2
    total = torch.zeros(features.shape[1], edges, dtype=torch.float64, device=features.device)
    for places, S in source.chunks():
        total += inverse[:, places] @ pack(S)
    return total


def _deviations(source: Source, features: Tensor, groups: Tensor, mean: Tensor) -> Tensor:
    """Deviations (p, edges) around the generator's mean, one for each column of `groups` (N, p)."""
    total = torch.zeros_like(mean)
    for places, S in source.chunks():
        total += groups[places].T @ (pack(S) - features[places] @ mean) ** 2
    freedom = (groups.sum(0) - 1).clamp(min=1)
    return (total / freedom[:, None]).sqrt()


def _limit(source: Source) -> Tensor:
    """1 if the networks are correlations, else infinity."""
    off = max(float((S.diagonal(dim1=1, dim2=2) - 1).abs().max()) for _, S in source.chunks())
    return torch.tensor([1.0 if off <= UNIT_DIAGONAL_TOLERANCE else torch.inf], dtype=torch.float64)
