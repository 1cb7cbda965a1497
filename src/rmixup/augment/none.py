"""No augmentation: the method every other one is measured against."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from rmixup.augment.base import Augmentation, Batch, Prepared


@dataclass(frozen=True, kw_only=True)
class NoAugmentation(Augmentation):
    """Networks and labels as they are.

    >>> import numpy as np
    >>> NoAugmentation()(np.eye(2)[None], [0])[0]
    array([[[1., 0.],
            [0., 1.]]])
    """

    name = "none"

    def mix(self, prepared: Prepared, batch: Batch) -> Tensor:
        """S_i."""
        return prepared.first(batch)
