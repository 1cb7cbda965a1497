"""Networks as weighted graphs: which edges a layer sees, how weights are normalised, and what gcn and gin share."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor, nn
from torch.nn import functional

from rmixup.errors import DataError
from rmixup.models.backbone import Backbone, check_choice, edges
from rmixup.models.dropout import check_probability, dropout, streams
from rmixup.models.mlp import Perceptron


def adjacency(x: Tensor, threshold: float = 1.0, signed: str = "keep") -> Tensor:
    """Edge weights of networks, without loops.

    Parameters
    ----------
    x : (B, n, n)
    threshold : float in (0, 1]
        Share of edges kept in each network: the strongest by absolute weight, ties included.
    signed : {"keep", "absolute", "positive"}
        What happens to negative edges: kept with their sign, made positive, or left out.

    Examples
    --------
    >>> import torch
    >>> x = torch.tensor([[[1.0, -0.5, 0.1], [-0.5, 1.0, 0.3], [0.1, 0.3, 1.0]]])
    >>> adjacency(x, threshold=0.5, signed="absolute")[0].tolist()
    [[0.0, 0.5, 0.0], [0.5, 0.0, 0.30...], [0.0, 0.30..., 0.0]]
    """
    weights = x - torch.diag_embed(x.diagonal(dim1=-2, dim2=-1))
    if signed != "keep":
        weights = weights.abs() if signed == "absolute" else weights.relu()
    if threshold == 1:
        return weights
    strengths = edges(weights).abs()
    kept = max(1, round(threshold * strengths.shape[-1]))
    weakest = strengths.topk(kept, dim=-1).values[..., -1, None, None]
    return weights * (weights.abs() >= weakest)


def normalised(weights: Tensor) -> Tensor:
    """D^-½ (A + I) D^-½ with D the sums of absolute weights: bounded whatever the signs, Kipf's where all are positive.

    >>> import torch
    >>> normalised(torch.tensor([[0.0, -3.0], [-3.0, 0.0]])).tolist()
    [[0.25, -0.75], [-0.75, 0.25]]
    """
    looped = weights + torch.eye(weights.shape[-1], dtype=weights.dtype, device=weights.device)
    scale = looped.abs().sum(-1).rsqrt()
    return scale[..., :, None] * looped * scale[..., None, :]


class GraphBackbone(Backbone):
    """Graph layers over rows of S as node features, a readout over nodes, a perceptron with 32 hidden units.

    Parameters
    ----------
    n_nodes, n_outputs : int
    layers, hidden : int
        Number of graph layers and their width.
    threshold : float in (0, 1]
        Share of the strongest edges that messages pass along; node features stay whole.
    signed : {"keep", "absolute", "positive"}
        What happens to negative edges.
    readout : {"sum", "mean"}
        Over nodes.
    dropout : float in [0, 1)
        After each graph layer.
    """

    def __init__(
        self,
        n_nodes: int,
        n_outputs: int,
        *,
        layers: int = 3,
        hidden: int = 64,
        threshold: float = 1.0,
        signed: str = "keep",
        readout: str = "sum",
        dropout: float = 0.1,
    ) -> None:
        super().__init__(n_nodes, n_outputs)
        if not 0 < threshold <= 1:
            raise DataError(f"expected threshold, the share of edges kept, in (0, 1], got {threshold}")
        check_choice("signed", signed, ("keep", "absolute", "positive"))
        check_choice("readout", readout, ("sum", "mean"))
        self.threshold, self.signed, self.readout = threshold, signed, readout
        self.dropout = check_probability(dropout)
        self.layers = nn.ModuleList(self.layer(hidden if depth else n_nodes, hidden) for depth in range(layers))
        self.head = Perceptron([hidden if layers else n_nodes, 32, n_outputs])

    @abstractmethod
    def layer(self, width: int, hidden: int) -> nn.Module:
        """Make a layer that is called with node features (B, n, width) and `graph(x)`."""

    def graph(self, x: Tensor) -> Tensor:
        """The weights (B, n, n) that the layers see."""
        return adjacency(x, self.threshold, self.signed)

    def forward(self, x: Tensor, word: Tensor | None = None) -> Tensor:
        """Map networks (B, n, n) to outputs (B, n_outputs)."""
        graph = self.graph(x)
        for layer, stream in zip(self.layers, streams(word, len(self.layers)), strict=True):
            x = dropout(functional.leaky_relu(layer(x, graph)), self.dropout, stream)
        outputs: Tensor = self.head(x.sum(-2) if self.readout == "sum" else x.mean(-2))
        return outputs
