"""A method of one's own: all edges among some nodes come from the partner, all others stay.

Run it: python method.py
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rmixup import keys
from rmixup.augment import METHODS, Batch, Mixing, Prepared
from rmixup.testing import check_augmentation


@dataclass(frozen=True, kw_only=True)
class NodeMix(Mixing):
    """The edges among randomly chosen nodes from S_j, the others from S_i.

    A node is chosen with probability √λ, so that an edge comes from S_j with probability λ, as its label does.
    """

    name = "nodemix"

    def mix(self, prepared: Prepared, batch: Batch) -> Tensor:
        """Take the block of chosen nodes from the partner."""
        # The plan's words are the only chance here, so one plan makes the same networks on any device.
        chosen = keys.uniform(batch.words, prepared.nodes) < batch.lam.sqrt()[:, None]
        block = chosen[:, :, None] & chosen[:, None, :]
        return torch.where(block, prepared.second(batch), prepared.first(batch))


METHODS["nodemix"] = NodeMix

if __name__ == "__main__":
    check_augmentation("nodemix")
    check_augmentation(NodeMix(alpha=0.4, pairs="cross-group", per="pair"))
    print("nodemix keeps the rules of an augmentation")
