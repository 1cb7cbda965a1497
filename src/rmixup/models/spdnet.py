"""SPDNet (Huang & Van Gool 2017), built from spd-learn's layers: stays among positive definite matrices until a log."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import ClassVar

from torch import Tensor, nn

from rmixup.errors import DataError, RMixupError
from rmixup.models.backbone import Backbone


class SPDNet(Backbone):
    """Bilinear maps with rectified eigenvalues, a matrix logarithm, one linear layer. Has no dropout.

    Needs spd-learn (`pip install 'rmixup[spdnet]'`). Its eigen-decompositions do not run under vmap, so runs are
    trained one after another.

    Parameters
    ----------
    n_nodes, n_outputs : int
    widths : sequence of int, optional
        Sizes of the matrices after each bilinear map; by default n/2 and n/4 (2 at least).
    floor : float
        Eigenvalues below are raised to it after each map, so singular networks are allowed.

    Examples
    --------
    >>> import torch
    >>> SPDNet(6, 2)(torch.eye(6).expand(3, 6, 6)).shape
    torch.Size([3, 2])
    """

    stackable: ClassVar[bool] = False

    def __init__(
        self, n_nodes: int, n_outputs: int, *, widths: Sequence[int] | None = None, floor: float = 1e-4
    ) -> None:
        super().__init__(n_nodes, n_outputs)
        try:
            from spd_learn.modules import BiMap, LogEig, ReEig
        except ImportError as error:
            raise RMixupError("the backbone spdnet needs spd-learn: pip install 'rmixup[spdnet]'") from error
        sizes = [n_nodes, *(widths or (max(2, n_nodes // 2), max(2, n_nodes // 4)))]
        if any(small > large for large, small in pairwise(sizes)):
            raise DataError(f"expected widths that never grow from {n_nodes} nodes, got {sizes[1:]}")
        maps = pairwise(sizes)
        self.spd = nn.Sequential(*(layer for a, b in maps for layer in (BiMap(a, b), ReEig(floor))), LogEig())
        self.head = nn.Linear(sizes[-1] * (sizes[-1] + 1) // 2, n_outputs)

    def forward(self, x: Tensor, word: Tensor | None = None) -> Tensor:
        """Map networks (B, n, n) to outputs (B, n_outputs)."""
        outputs: Tensor = self.head(self.spd(x))
        return outputs
