"""A graph convolutional network (Kipf & Welling 2017) on the whole weighted, signed network."""

from __future__ import annotations

from torch import Tensor, nn

from rmixup.models.graph import GraphBackbone, normalised


class Convolution(nn.Module):
    """An update of the nodes: Â x W + b."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, hidden)
        # As torch_geometric begins.
        nn.init.xavier_uniform_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, x: Tensor, graph: Tensor) -> Tensor:
        """Map node features (B, n, width) to (B, n, hidden)."""
        return graph @ (x @ self.linear.weight.mT) + self.linear.bias


class GCN(GraphBackbone):
    """Graph convolutions with normalised weights; the options are those of `GraphBackbone`.

    Negative edges that are kept count with their absolute weight in the normalisation, so nothing grows without bound.

    Examples
    --------
    >>> import torch
    >>> GCN(6, 2, hidden=8, threshold=0.5)(torch.eye(6).expand(3, 6, 6)).shape
    torch.Size([3, 2])
    """

    def layer(self, width: int, hidden: int) -> nn.Module:
        """A graph convolution."""
        return Convolution(width, hidden)

    def graph(self, x: Tensor) -> Tensor:
        """The normalised weights (B, n, n), with loops."""
        return normalised(super().graph(x))
