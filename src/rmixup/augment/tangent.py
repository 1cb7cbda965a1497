"""Mixing in the tangent space at the training mean G: G^½ exp((1 - λ) T_i + λ T_j) G^½."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from rmixup.augment.bank import Bank, Coordinates, Source, compose, coordinate_bank, logarithms
from rmixup.augment.base import Batch, Prepared, Training
from rmixup.augment.geodesic import Geodesic, log_bank
from rmixup.augment.names import lookup
from rmixup.augment.plan import Integers
from rmixup.spd import correlation, product
from rmixup.spd.metrics import METRICS
from rmixup.spd.spectral import eigh


@dataclass(frozen=True, kw_only=True)
class Tangent(Geodesic):
    """R-Mixup seen from the training mean, with T_i = log(G^-½ S_i G^-½).

    Parameters
    ----------
    mean : name in `rmixup.spd.METRICS`
        The geometry of the mean G. "riemann" is pyRiemann's default, slower to find.
    unit_diagonal : bool
        Rescale mixes to correlation matrices.

    >>> import numpy as np
    >>> x = np.stack([np.diag([1.0, 4.0]), np.diag([4.0, 1.0])])
    >>> np.linalg.det(Tangent()(x, [0.0, 1.0], seed=0)[0]).round(9).tolist()
    [4.0, 4.0]
    """

    name = "tangent"
    mean: str = "logeuclid"
    unit_diagonal: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        lookup(self.mean, METRICS, "metric")

    def bank(self, source: Source, cache: str | Path | None) -> Bank:
        """Logarithms, the same as rmixup's: they give the mean."""
        return log_bank(source, self, cache)

    def fit(self, training: Training) -> dict[str, Tensor]:
        """G^½ and G^-½."""
        if self.mean == "logeuclid":
            w, V = eigh(_mean_log(training))
            w = w.exp()
        else:
            ledger = self.ledger(training.source)
            S = torch.cat([ledger.matrices(S, training.source.rows[at]) for at, S in training.source.chunks()])
            w, V = eigh(METRICS[self.mean].mean(S))
        return {"root": compose(V, w.sqrt()), "inverse_root": compose(V, w.rsqrt())}

    def run_bank(self, training: Training, fitted: dict[str, Tensor]) -> Bank:
        """The T_i."""
        ledger, whiten = self.ledger(training.source), fitted["inverse_root"]

        def chart(S: Tensor, rows: Integers) -> Coordinates:
            regular = S if self.regularizer is None else ledger.matrices(S, rows)
            return logarithms(*eigh(whiten @ regular @ whiten))

        identity = f"tangent|{self.mean}|{self.regularizer}"
        cache = training.cache
        return coordinate_bank(training.source, chart, lambda: training.bank.record, identity=identity, cache=cache)

    def mix(self, prepared: Prepared, batch: Batch) -> Tensor:
        """Mix in the tangent space and come back."""
        root = prepared.fitted["root"].index_select(0, batch.run)
        x = root @ product.expm(prepared.between(batch), bounds=prepared.bounds) @ root
        x = 0.5 * (x + x.mT)
        return correlation.unit_diagonal(x) if self.unit_diagonal else x


def _mean_log(training: Training) -> Tensor:
    bank = training.bank
    total = torch.zeros(bank.nodes, bank.nodes, dtype=torch.float64, device=bank.values.device)
    for rows in torch.from_numpy(training.rows).to(bank.values.device).chunk(max(1, len(training.rows) // 64)):
        total += bank.rows(rows).double().sum(0)
    return total / len(training.rows)
