"""DropNode: all edges of some nodes set to zero."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rmixup import keys
from rmixup.augment.base import Batch, Draws, Prepared
from rmixup.augment.dropping import Dropping
from rmixup.augment.masks import diagonal_mask
from rmixup.augment.pairs import Partners
from rmixup.augment.plan import Integers


@dataclass(frozen=True, kw_only=True)
class DropNode(Dropping):
    """Rows and columns of dropped nodes are zero off the diagonal; each node is dropped with probability `rate`.

    As published, one mask serves a whole batch and the diagonal of dropped nodes is zero too.

    >>> import numpy as np
    >>> x2, _ = DropNode(rate=0.5)(np.ones((1, 6, 6)), [0], seed=0)
    >>> np.diagonal(x2[0])
    array([1., 1., 1., 1., 1., 1.])
    """

    name = "dropnode"

    def draws(self, i: Integers, partners: Partners, rng: np.random.Generator) -> Draws:
        """As published, all samples of a batch have one word."""
        own = super().draws(i, partners, rng)
        return own._replace(words=np.full(len(i), own.words[0])) if self.published and len(i) else own

    def mix(self, prepared: Prepared, batch: Batch) -> Tensor:
        """Zero the rows and columns of dropped nodes."""
        kept = keys.uniform(batch.words, prepared.nodes) >= self.rate
        edges = kept[:, :, None] & kept[:, None, :]
        if not self.published:
            edges = edges | diagonal_mask(prepared.nodes, edges.device)
        x = prepared.first(batch)
        return torch.where(edges, x, torch.zeros_like(x))
