"""What the methods that mix along geodesics share: a regulariser, and the bank of logarithms."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from rmixup.augment.bank import Bank, Coordinates, Ledger, Source, coordinate_bank, logarithms
from rmixup.augment.base import Mixing
from rmixup.augment.plan import Integers
from rmixup.spd import product
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
        return log_by_products(ledger, S, rows) if S.is_cuda else logarithms(*ledger.spectrum(S, rows))

    return coordinate_bank(source, chart, ledger.close, identity=f"logarithms|{method.regularizer}", cache=cache)


def log_by_products(ledger: Ledger, S: Tensor, rows: Integers) -> Coordinates:
    """Logarithms by matrix products, as a GPU likes it, except of matrices that may be singular or below a floor."""
    regular = ledger.shrunk(S)
    low, high, factored = _enclosed(regular)
    clear = factored & (low > ledger.resolution * high) & (low > ledger.floor)
    doubtful = (~clear).nonzero()[:, 0]
    eye = torch.eye(S.shape[-1], dtype=S.dtype, device=S.device)
    # The doubtful ones are the identity here, and are done by eigenvalues below.
    safe = torch.where(clear[:, None, None], regular, eye)
    bounds = (float(torch.where(clear, low, 1.0).min()), float(torch.where(clear, high, 1.0).max()))
    logs = product.logm(safe, bounds=bounds)
    ends = [*product.spectrum(logs)]
    if len(doubtful):
        exact = logarithms(*ledger.spectrum(S[doubtful], rows[doubtful.cpu().numpy()]))
        logs[doubtful] = exact.values
        for end, value in zip(ends, (exact.low, exact.high), strict=True):
            assert value is not None
            end[doubtful] = value
    ledger.note(ends[0][clear].exp(), S[clear])
    return Coordinates(logs, *ends)


def _enclosed(S: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Bounds of each spectrum from norms, and which matrices have a Cholesky factor."""
    factor, failed = torch.linalg.cholesky_ex(S)
    eye = torch.eye(S.shape[-1], dtype=S.dtype, device=S.device).expand(S.shape)
    inverse = torch.linalg.solve_triangular(factor, eye, upper=False)
    # The trace of the inverse is at least its largest eigenvalue.
    low, high = 1 / inverse.square().sum((-2, -1)), torch.linalg.matrix_norm(S)
    return low, high, failed == 0
