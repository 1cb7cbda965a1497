"""What the methods that mix along geodesics share: a regulariser, and the bank of logarithms."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from rmixup.augment.bank import Bank, Coordinates, Ledger, Source, coordinate_bank, logarithms
from rmixup.augment.base import Mixing
from rmixup.augment.plan import Integers
from rmixup.spd.repair import parse_regularizer


@dataclass(frozen=True, kw_only=True)
class Geodesic(Mixing):
    """Mixing that needs positive definite networks.

    Parameters
    ----------
    regularizer : "shrink=0.05", "floor=1e-6", ..., or None
        Makes the networks positive definite first; without it, networks that are not are refused.
    """

    regularizer: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.regularizer is not None:
            parse_regularizer(self.regularizer)

    def ledger(self, source: Source) -> Ledger:
        """Applies the regulariser to matrices and keeps the record of it."""
        regularizer = None if self.regularizer is None else parse_regularizer(self.regularizer)
        return Ledger(self.name, source, regularizer)


def log_bank(source: Source, method: Geodesic, cache: str | Path | None) -> Bank:
    """Logarithms in float64, stored in the networks' dtype."""
    ledger = method.ledger(source)

    def chart(S: Tensor, rows: Integers) -> Coordinates:
        return logarithms(*ledger.spectrum(S, rows))

    return coordinate_bank(source, chart, ledger.close, identity=f"logarithms|{method.regularizer}", cache=cache)
