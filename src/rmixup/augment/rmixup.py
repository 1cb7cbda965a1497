"""R-Mixup: the geodesic between two networks, by default the log-Euclidean one.

Geodesics of a flat geometry are straight lines in its coordinates: these are computed once a network, in float64, and
a mix costs one map back. Curved geometries (riemann, wasserstein) have their geodesics computed at each mix.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rmixup.augment.bank import Bank, Coordinates, Source, coordinate_bank, matrix_bank
from rmixup.augment.base import Batch, Prepared
from rmixup.augment.geodesic import Geodesic, log_bank
from rmixup.augment.names import lookup
from rmixup.augment.plan import Integers
from rmixup.spd import correlation, product
from rmixup.spd.metrics import METRICS, Metric

# The published code puts this in the place of eigenvalues that are not positive.
PUBLISHED_EIGENVALUE = 1e-8


@dataclass(frozen=True, kw_only=True)
class RMixup(Geodesic):
    """A point of the geodesic from S_i to S_j; by default exp((1 - λ) log S_i + λ log S_j).

    Parameters
    ----------
    alpha, pairs, per, published : see `Mixing`
        `published` also takes logarithms in the networks' own dtype, with eigenvalues that are not positive replaced
        by 1e-8, instead of asking for a regulariser.
    metric : name in `rmixup.spd.METRICS`
        euclid, chol, logchol, wasserstein, riemann or logeuclid.
    unit_diagonal : bool
        Rescale mixes to correlation matrices.
    regularizer : "shrink=0.05", "floor=1e-6", ..., or None
        Makes the networks positive definite first; without it, networks that are not are refused.

    >>> import numpy as np
    >>> x = np.stack([np.diag([1.0, 4.0]), np.diag([4.0, 1.0])])
    >>> x2, y2 = RMixup()(x, [0.0, 1.0], seed=0)
    >>> np.linalg.det(x2).round(9).tolist()
    [4.0, 4.0]
    """

    name = "rmixup"
    metric: str = "logeuclid"
    unit_diagonal: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        lookup(self.metric, METRICS, "metric")

    @property
    def capturable(self) -> bool:  # type: ignore[override]
        """Curved geometries look at their matrices on the host."""
        return self._metric.inverse is not None

    def bank(self, source: Source, cache: str | Path | None) -> Bank:
        """Coordinates where the geometry is flat, else matrices; both regularised."""
        if self.metric == "logeuclid":
            return _published_logs(source, cache) if self.published else log_bank(source, self, cache)
        if self.metric == "euclid" and self.regularizer is None:
            return matrix_bank(source)
        ledger, metric = self.ledger(source), self._metric

        def chart(S: Tensor, rows: Integers) -> Coordinates:
            regular = ledger.matrices(S, rows)
            return Coordinates(regular if metric.chart is None else metric.chart(regular))

        # A matrix floored in float64 may no longer be positive definite in float32; coordinates always are.
        dtype = torch.float64 if metric.chart is None else None
        identity = f"{self.metric}|{self.regularizer}"
        return coordinate_bank(source, chart, ledger.close, identity=identity, cache=cache, dtype=dtype)

    def mix(self, prepared: Prepared, batch: Batch) -> Tensor:
        """The geodesic at λ."""
        x = self._on_geodesic(prepared, batch)
        return correlation.unit_diagonal(x) if self.unit_diagonal else x

    def distances(self, prepared: Prepared, some: Tensor) -> Tensor:
        """Distances of the geometry; those of a curved one pair by pair."""
        if self._metric.chart is not None:
            # Cholesky factors are triangles: their upper half is zero, not a mirror.
            return prepared.bank.distances(prepared.rows[some], prepared.rows, not self._metric.node_order)
        others = prepared.bank.rows(prepared.rows)
        return torch.stack([self._metric.distance(others[one], others) for one in some])

    @property
    def _metric(self) -> Metric:
        return METRICS[self.metric]

    def _on_geodesic(self, prepared: Prepared, batch: Batch) -> Tensor:
        if self._metric.inverse is None:
            x = self._metric.geodesic(prepared.first(batch), prepared.second(batch), batch.lam)
            return x.to(prepared.y.dtype)
        line = prepared.between(batch)
        if self.metric == "logeuclid":
            return product.expm(line, bounds=prepared.bounds)
        return self._metric.inverse(line.tril() if self._metric.node_order else line)


def _published_logs(source: Source, cache: str | Path | None) -> Bank:
    """Logarithms in the networks' own dtype, eigenvalues that are not positive replaced."""
    changed = 0

    def chart(S: Tensor, rows: Integers) -> Coordinates:
        nonlocal changed
        w, V = torch.linalg.eigh(S.to(source.x.dtype))
        changed += int((w <= 0).any(-1).sum())
        w = torch.where(w <= 0, PUBLISHED_EIGENVALUE, w)
        logs = w.log()
        return Coordinates((V * logs[:, None, :]) @ V.mT, logs.amin(1), logs.amax(1))

    def close() -> dict[str, Any]:
        return {"regularizer": f"published={PUBLISHED_EIGENVALUE:g}", "changed": changed, "total": len(source.rows)}

    return coordinate_bank(source, chart, close, identity="published logarithms", cache=cache)
