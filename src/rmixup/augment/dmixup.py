"""D-Mixup: some edges of one network, the others of another."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rmixup.augment.base import Batch, Mixing, Prepared
from rmixup.augment.masks import edge_uniforms, entry_uniforms


@dataclass(frozen=True, kw_only=True)
class DMixup(Mixing):
    """M ∘ S_j + (1 - M) ∘ S_i with a symmetric mask M whose edges are 1 with probability λ.

    The published mask is not symmetric; `published=True` draws every entry by itself.

    >>> import numpy as np
    >>> x2, y2 = DMixup()(np.stack([np.zeros((3, 3)), np.ones((3, 3))]), [0, 1], seed=1)
    >>> bool((x2 == x2.swapaxes(1, 2)).all()), sorted({float(value) for value in x2.ravel()})
    (True, [0.0, 1.0])
    """

    name = "dmixup"

    def mix(self, prepared: Prepared, batch: Batch) -> Tensor:
        """Choose edge by edge."""
        nodes = prepared.nodes
        u = (
            entry_uniforms(batch.words, nodes)
            if self.published
            else edge_uniforms(batch.words, nodes, prepared.bank.index)
        )
        return torch.where(u < batch.lam[:, None, None], prepared.second(batch), prepared.first(batch))
