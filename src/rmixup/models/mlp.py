"""A multi-layer perceptron on the edges: the simplest network that is not linear."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor, nn
from torch.nn import functional

from rmixup.models.backbone import Backbone, edges
from rmixup.models.dropout import check_probability, dropout, streams


class Perceptron(nn.Module):
    """Linear layers of the given widths, LeakyReLU and dropout between: (..., widths[0]) -> (..., widths[-1]).

    >>> import torch
    >>> Perceptron([6, 4, 2])(torch.ones(3, 6)).shape
    torch.Size([3, 2])
    """

    def __init__(self, widths: Sequence[int], dropout: float = 0.0, slope: float = 0.01) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
        self.dropout = check_probability(dropout)
        self.slope = slope

    def forward(self, x: Tensor, word: Tensor | None = None) -> Tensor:
        """Apply the layers; a word turns dropout on."""
        *hidden, last = self.layers
        for layer, stream in zip(hidden, streams(word, len(hidden)), strict=True):
            x = dropout(functional.leaky_relu(layer(x), self.slope), self.dropout, stream)
        outputs: Tensor = last(x)
        return outputs


class MLP(Backbone):
    """Edges above the diagonal -> hidden layers -> outputs.

    Parameters
    ----------
    n_nodes, n_outputs : int
    hidden : sequence of int
        Widths of the hidden layers.
    dropout : float in [0, 1)
        After each hidden layer.

    Examples
    --------
    >>> import torch
    >>> MLP(5, 1, hidden=(8,))(torch.eye(5).expand(3, 5, 5)).shape
    torch.Size([3, 1])
    """

    def __init__(
        self, n_nodes: int, n_outputs: int, *, hidden: Sequence[int] = (256, 32), dropout: float = 0.1
    ) -> None:
        super().__init__(n_nodes, n_outputs)
        self.perceptron = Perceptron([n_nodes * (n_nodes - 1) // 2, *hidden, n_outputs], dropout)

    def forward(self, x: Tensor, word: Tensor | None = None) -> Tensor:
        """Map networks (B, n, n) to outputs (B, n_outputs)."""
        outputs: Tensor = self.perceptron(edges(x), word)
        return outputs
