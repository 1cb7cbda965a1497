"""What every backbone is: a module from networks to outputs, and the small pieces that several share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor, nn

from rmixup.errors import DataError


class Backbone(nn.Module, ABC):
    """A module `(B, n, n) -> (B, n_outputs)`, built as `Backbone(n_nodes, n_outputs, **options)`.

    The outputs are logits, one a class, or standardised regression targets. `forward(x)` evaluates: no dropout,
    the same result each time. `forward(x, word)` trains: its dropout follows from the word alone
    (see `rmixup.models.dropout`). State that changes in `forward` (batch norm's means) is not allowed: it could
    neither be stacked nor resumed.

    `stackable = False` says that `forward` cannot run under `torch.func.vmap`; its runs are then trained one
    after another.
    """

    stackable: ClassVar[bool] = True

    def __init__(self, n_nodes: int, n_outputs: int) -> None:
        super().__init__()
        if n_nodes < 2:
            raise DataError(f"expected networks of at least 2 nodes, got n_nodes={n_nodes}")
        if n_outputs < 1:
            raise DataError(f"expected at least 1 output, got n_outputs={n_outputs}")

    @abstractmethod
    def forward(self, x: Tensor, word: Tensor | None = None) -> Tensor:
        """Map networks (B, n, n) to outputs (B, n_outputs); a 0-dim int64 word turns dropout on."""


def edges(x: Tensor) -> Tensor:
    """The edges above the diagonal, row by row: (..., n, n) -> (..., n(n-1)/2).

    >>> import torch
    >>> edges(torch.arange(9).view(3, 3)).tolist()
    [1, 2, 5]
    """
    n = x.shape[-1]
    row, column = torch.triu_indices(n, n, offset=1, device=x.device)
    return x.flatten(-2).index_select(-1, row * n + column)


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Refuse an option that is none of its choices."""
    if value not in choices:
        raise DataError(f"expected {name} to be one of {', '.join(choices)}, got {value!r}")
