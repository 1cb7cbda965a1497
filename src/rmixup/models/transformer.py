"""The Transformer of the protocol: the nodes are the tokens, a node's features are its row of the network."""

from __future__ import annotations

import math

from torch import Tensor, nn
from torch.nn import functional

from rmixup.models import fused
from rmixup.models.backbone import Backbone, check_choice
from rmixup.models.dropout import check_probability, dropout, dropped, streams
from rmixup.models.linear import Linear
from rmixup.models.mlp import Perceptron

_REDUCED = 8  # numbers a node keeps for the flattened readout


class Attention(nn.Module):
    """Self-attention over nodes. A head is ⌈width / heads⌉ wide, so that any width works with any number of heads."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        inner = heads * math.ceil(width / heads)
        self.query_key_value = Linear(width, 3 * inner)
        self.out = Linear(inner, width)
        # As torch.nn.MultiheadAttention begins.
        nn.init.xavier_uniform_(self.query_key_value.weight)
        nn.init.zeros_(self.query_key_value.bias)
        nn.init.zeros_(self.out.bias)

    def forward(self, x: Tensor, word: Tensor | None) -> Tensor:
        """Map node features (B, n, width) to (B, n, width)."""
        joined: Tensor = self.out(self._heads(self.query_key_value(x), word))
        return joined

    def _heads(self, query_key_value: Tensor, word: Tensor | None) -> Tensor:
        """What the heads say, side by side (B, n, inner)."""
        if fused.serves(query_key_value):
            return fused.attend(query_key_value, self.heads, word, dropped(self.dropout))
        # (B, n, 3·inner) -> three times (B, heads, n, head width)
        width = query_key_value.shape[-1] // (3 * self.heads)
        apart = query_key_value.view(*query_key_value.shape[:2], 3, self.heads, width)
        query, key, value = apart.permute(2, 0, 3, 1, 4)
        scores = (query * key.shape[-1] ** -0.5) @ key.mT
        shares = dropout(scores.softmax(-1), self.dropout, word)
        joined: Tensor = (shares @ value).transpose(1, 2).flatten(2)
        return joined


class Layer(nn.Module):
    """Attention, then a feed-forward net, each added to its input and normalised (torch's post-norm encoder layer)."""

    def __init__(self, width: int, heads: int, feedforward: int, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.attention = Attention(width, heads, dropout)
        self.norm_1 = nn.LayerNorm(width)
        self.expand = Linear(width, feedforward)
        self.contract = Linear(feedforward, width)
        self.norm_2 = nn.LayerNorm(width)

    def forward(self, x: Tensor, word: Tensor | None) -> Tensor:
        """Map node features (B, n, width) to (B, n, width)."""
        in_attention, after_attention, in_feedforward, after_feedforward = streams(word, 4)
        x = self._add(self.norm_1, x, self.attention(x, in_attention), after_attention)
        return self._add(self.norm_2, x, self._feedforward(x, in_feedforward), after_feedforward)

    def _feedforward(self, x: Tensor, word: Tensor | None) -> Tensor:
        if fused.serves(x):
            weights = (self.expand.weight, self.expand.bias, self.contract.weight, self.contract.bias)
            return fused.feedforward(x, *weights, word, dropped(self.dropout))
        out: Tensor = self.contract(dropout(functional.relu(self.expand(x)), self.dropout, word))
        return out

    def _add(self, norm: nn.LayerNorm, x: Tensor, update: Tensor, word: Tensor | None) -> Tensor:
        if fused.serves(x):
            return fused.add_norm(x, update, norm.weight, norm.bias, norm.eps, word, dropped(self.dropout))
        out: Tensor = norm(x + dropout(update, self.dropout, word))
        return out


class Transformer(Backbone):
    """Encoder layers of width n over the nodes, a readout, a perceptron 256 -> 32 -> outputs.

    Parameters
    ----------
    n_nodes, n_outputs : int
    layers, heads, feedforward : int
        Encoder layers, heads of each, width of its feed-forward net.
    dropout : float in [0, 1)
        In the encoder: on attention, in the feed-forward net and after both.
    readout : {"flatten", "pool"}
        "flatten" reduces each node to 8 numbers and joins them (the protocol's); "pool" averages the nodes, which
        needs fewer parameters where n is large.

    Examples
    --------
    >>> import torch
    >>> Transformer(6, 2, feedforward=16)(torch.eye(6).expand(3, 6, 6)).shape
    torch.Size([3, 2])
    """

    def __init__(
        self,
        n_nodes: int,
        n_outputs: int,
        *,
        layers: int = 2,
        heads: int = 4,
        feedforward: int = 1024,
        dropout: float = 0.1,
        readout: str = "flatten",
    ) -> None:
        super().__init__(n_nodes, n_outputs)
        check_choice("readout", readout, ("flatten", "pool"))
        check_probability(dropout)
        self.encoder = nn.ModuleList(Layer(n_nodes, heads, feedforward, dropout) for _ in range(layers))
        self.reduce = nn.Linear(n_nodes, _REDUCED) if readout == "flatten" else None
        self.head = Perceptron([n_nodes * _REDUCED if self.reduce else n_nodes, 256, 32, n_outputs])

    def forward(self, x: Tensor, word: Tensor | None = None) -> Tensor:
        """Map networks (B, n, n) to outputs (B, n_outputs)."""
        for layer, stream in zip(self.encoder, streams(word, len(self.encoder)), strict=True):
            x = layer(x, stream)
        read = x.mean(-2) if self.reduce is None else functional.leaky_relu(self.reduce(x)).flatten(-2)
        outputs: Tensor = self.head(read)
        return outputs
