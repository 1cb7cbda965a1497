"""Mixing in the off-log geometry of correlation matrices: every mix has a unit diagonal by construction."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from torch import Tensor

from rmixup.augment.bank import Bank, Coordinates, Source, coordinate_bank
from rmixup.augment.base import Batch, Prepared
from rmixup.augment.geodesic import Geodesic
from rmixup.augment.gmixup import UNIT_DIAGONAL_TOLERANCE
from rmixup.augment.labels import named
from rmixup.augment.plan import Integers
from rmixup.errors import DataError
from rmixup.spd import correlation


@dataclass(frozen=True, kw_only=True)
class OffLog(Geodesic):
    """The straight line between the off-diagonal parts of two logarithms, mapped back to a correlation matrix.

    Networks must be correlations. A regulariser's result is rescaled to a unit diagonal. The way back is iterative,
    in float64, and an order slower than `RMixup`'s.

    >>> import numpy as np
    >>> x = np.stack([np.eye(2), np.array([[1.0, 0.5], [0.5, 1.0]])])
    >>> OffLog()(x, [0.0, 1.0], seed=0)[0].diagonal(axis1=1, axis2=2).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """

    name = "offlog"
    capturable = False

    def bank(self, source: Source, cache: str | Path | None) -> Bank:
        """Off-log coordinates."""
        _require_correlations(source)
        ledger = self.ledger(source)

        def chart(S: Tensor, rows: Integers) -> Coordinates:
            return Coordinates(correlation.offlog(correlation.unit_diagonal(ledger.matrices(S, rows))))

        return coordinate_bank(source, chart, ledger.close, identity=f"offlog|{self.regularizer}", cache=cache)

    def mix(self, prepared: Prepared, batch: Batch) -> Tensor:
        """The correlation matrix at λ."""
        return correlation.offexp(prepared.between(batch))


def _require_correlations(source: Source) -> None:
    off = np.concatenate([(S.diagonal(dim1=1, dim2=2) - 1).abs().amax(1).cpu().numpy() for _, S in source.chunks()])
    bad = source.rows[off > UNIT_DIAGONAL_TOLERANCE]
    if len(bad):
        raise DataError(
            f"offlog mixes correlation matrices, but {len(bad)} networks have no unit diagonal (at {named(bad)}; off "
            f"by up to {off.max():.2g}); rescale them first, with rmixup.spd.unit_diagonal, or use metric='logeuclid'"
        )
