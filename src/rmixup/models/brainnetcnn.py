"""BrainNetCNN (Kawahara et al. 2017): convolutions over the rows and columns that cross at an edge."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from rmixup.models.backbone import Backbone
from rmixup.models.mlp import Perceptron

_SLOPE = 1 / 3  # of the published LeakyReLU


class EdgeToEdge(nn.Module):
    """Each edge (i, j) sees all edges of i and all edges of j: (B, in, n, n) -> (B, out, n, n)."""

    def __init__(self, n_nodes: int, inputs: int, outputs: int) -> None:
        super().__init__()
        bound = (inputs * n_nodes) ** -0.5
        self.row = nn.Parameter(torch.empty(outputs, inputs, n_nodes).uniform_(-bound, bound))
        self.column = nn.Parameter(torch.empty(outputs, inputs, n_nodes).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(outputs).uniform_(-bound, bound))

    def forward(self, x: Tensor) -> Tensor:
        """Sum of a 1×n and an n×1 convolution, each spread back over the edges it saw."""
        rows = torch.einsum("bcik,ock->boi", x, self.row) + self.bias[:, None]
        columns = torch.einsum("bckj,ock->boj", x, self.column)
        return rows[..., :, None] + columns[..., None, :]


class BrainNetCNN(Backbone):
    """Edge-to-edge layers, edge-to-node, node-to-graph, a perceptron 128 -> 30 -> outputs.

    Parameters
    ----------
    n_nodes, n_outputs : int
    channels : int
        Of the edge-to-edge layers; edge-to-node has twice, node-to-graph eight times as many.
    layers : int
        Number of edge-to-edge layers.
    dropout : float in [0, 1)
        In the perceptron.

    Examples
    --------
    >>> import torch
    >>> BrainNetCNN(6, 2, channels=4)(torch.eye(6).expand(3, 6, 6)).shape
    torch.Size([3, 2])
    """

    def __init__(
        self, n_nodes: int, n_outputs: int, *, channels: int = 32, layers: int = 2, dropout: float = 0.5
    ) -> None:
        super().__init__(n_nodes, n_outputs)
        self.edge_to_edge = nn.ModuleList(
            EdgeToEdge(n_nodes, channels if depth else 1, channels) for depth in range(layers)
        )
        self.edge_to_node = nn.Linear(n_nodes * (channels if layers else 1), 2 * channels)
        self.head = Perceptron([n_nodes * 2 * channels, 8 * channels, 128, 30, n_outputs], dropout, _SLOPE)

    def forward(self, x: Tensor, word: Tensor | None = None) -> Tensor:
        """Map networks (B, n, n) to outputs (B, n_outputs)."""
        x = x[:, None]
        for layer in self.edge_to_edge:
            x = functional.leaky_relu(layer(x), _SLOPE)
        # A node sees all channels of all its edges.
        nodes = functional.leaky_relu(self.edge_to_node(x.transpose(1, 2).flatten(2)), _SLOPE)
        outputs: Tensor = self.head(nodes.flatten(1), word)
        return outputs
