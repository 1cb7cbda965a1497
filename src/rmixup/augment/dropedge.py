"""DropEdge: some edges set to zero."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rmixup.augment.base import Batch, Prepared
from rmixup.augment.dropping import Dropping
from rmixup.augment.masks import diagonal_mask, edge_uniforms, entry_uniforms


@dataclass(frozen=True, kw_only=True)
class DropEdge(Dropping):
    """Off-diagonal edges are dropped symmetrically, each with probability `rate`.

    As published, every entry has its own mask, the diagonal too.

    >>> import numpy as np
    >>> x2, _ = DropEdge(rate=0.5)(np.ones((1, 6, 6)), [0], seed=0)
    >>> bool((x2 == x2.swapaxes(1, 2)).all()), float(np.trace(x2[0]))
    (True, 6.0)
    """

    name = "dropedge"

    def mix(self, prepared: Prepared, batch: Batch) -> Tensor:
        """Zero dropped edges."""
        x, nodes = prepared.first(batch), prepared.nodes
        if self.published:
            kept = entry_uniforms(batch.words, nodes) >= self.rate
        else:
            kept = edge_uniforms(batch.words, nodes, prepared.bank.index) >= self.rate
            kept = kept | diagonal_mask(nodes, kept.device)
        return torch.where(kept, x, torch.zeros_like(x))
