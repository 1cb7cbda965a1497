"""A graph isomorphism network (Xu et al. 2019) on the whole weighted, signed network."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rmixup.models.graph import GraphBackbone


class Isomorphism(nn.Module):
    """An update of the nodes: net((1 + ε) x + A x). The norm keeps sums over hundreds of neighbours in range."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.epsilon = nn.Parameter(torch.zeros(()))
        self.net = nn.Sequential(
            nn.Linear(width, hidden), nn.LayerNorm(hidden), nn.LeakyReLU(), nn.Linear(hidden, hidden)
        )

    def forward(self, x: Tensor, graph: Tensor) -> Tensor:
        """Map node features (B, n, width) to (B, n, hidden)."""
        updated: Tensor = self.net((1 + self.epsilon) * x + graph @ x)
        return updated


class GIN(GraphBackbone):
    """Isomorphism layers on the weights as they are; the options are those of `GraphBackbone`.

    Examples
    --------
    >>> import torch
    >>> GIN(6, 2, hidden=8, signed="positive")(torch.eye(6).expand(3, 6, 6)).shape
    torch.Size([3, 2])
    """

    def layer(self, width: int, hidden: int) -> nn.Module:
        """An isomorphism layer."""
        return Isomorphism(width, hidden)
