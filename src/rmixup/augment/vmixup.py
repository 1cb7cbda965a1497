"""V-Mixup: the straight line between two networks (Zhang et al. 2018)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from rmixup.augment.base import Batch, Mixing, Prepared


@dataclass(frozen=True, kw_only=True)
class VMixup(Mixing):
    """(1 - λ) S_i + λ S_j.

    >>> import numpy as np
    >>> x, y = np.stack([np.eye(2), 3 * np.eye(2)]), [0.0, 1.0]
    >>> x2, y2 = VMixup()(x, y, seed=0)
    >>> bool(np.allclose(x2[:, 0, 0], 1 + 2 * y2))
    True
    """

    name = "vmixup"

    def mix(self, prepared: Prepared, batch: Batch) -> Tensor:
        """The straight line."""
        return prepared.between(batch)
