"""A backbone of one's own: the nodes are gathered into a few systems that are learned with the rest.

Run it: python backbone.py
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rmixup.models import BACKBONES, Backbone
from rmixup.models.dropout import check_probability, dropout
from rmixup.testing import check_backbone


class Systems(Backbone):
    """Soft assignment of n nodes to systems -> connectivity among systems -> outputs.

    Parameters
    ----------
    n_nodes, n_outputs : int
    systems : int
        How many systems are learned.
    dropout : float in [0, 1)
        On the connectivity among systems.
    """

    def __init__(self, n_nodes: int, n_outputs: int, *, systems: int = 8, dropout: float = 0.1) -> None:
        super().__init__(n_nodes, n_outputs)
        self.assignment = nn.Parameter(torch.randn(n_nodes, systems))
        self.outputs = nn.Linear(systems**2, n_outputs)
        self.dropout = check_probability(dropout)

    def forward(self, x: Tensor, word: Tensor | None = None) -> Tensor:
        """Map networks (B, n, n) to outputs (B, n_outputs); a word turns dropout on."""
        share = self.assignment.softmax(0)  # each system is a weighted mean of nodes
        among = share.mT @ x @ share
        outputs: Tensor = self.outputs(dropout(among.flatten(-2), self.dropout, word))
        return outputs


BACKBONES["systems"] = Systems

if __name__ == "__main__":
    check_backbone("systems", sizes=(5, 37), systems=4)
    print("systems keeps the rules of a backbone")
