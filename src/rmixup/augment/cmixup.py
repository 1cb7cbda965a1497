"""C-Mixup: the straight line between networks of near labels (Yao et al. 2022)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from rmixup.augment.base import Batch, Draws, Mixing, Prepared
from rmixup.augment.pairs import LabelKernel, Partners, Policy
from rmixup.augment.plan import Integers

# The published code has one bandwidth in raw label units a data set; this stands where none is given.
PUBLISHED_BANDWIDTH = 1.0


@dataclass(frozen=True, kw_only=True)
class CMixup(Mixing):
    """V-Mixup whose partners come from a kernel on the labels; for classes, from the same class.

    As published, the bandwidth of `pairs="label-kernel"` is 1 in raw label units, a network can be its own partner,
    and batches of odd size are not mixed.

    >>> import numpy as np
    >>> x = np.stack([k * np.eye(2) for k in (1.0, 2.0, 3.0, 4.0)])
    >>> x2, y2 = CMixup()(x, [0, 0, 1, 1], seed=0)
    >>> y2.tolist()
    [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]
    """

    name = "cmixup"
    pairs: str | Policy = "label-kernel"

    def policy(self) -> Policy:
        """The label kernel; as published in raw units."""
        policy = super().policy()
        if self.published and policy == LabelKernel():
            return LabelKernel(PUBLISHED_BANDWIDTH, "raw", itself=True)
        return policy

    def draws(self, i: Integers, partners: Partners, rng: np.random.Generator) -> Draws:
        """As published, λ is 0 for a batch of odd size."""
        drawn = super().draws(i, partners, rng)
        return drawn._replace(lam=np.zeros(len(i))) if self.published and len(i) % 2 else drawn

    def mix(self, prepared: Prepared, batch: Batch) -> Tensor:
        """The straight line."""
        return prepared.between(batch)
