"""How far matrices are from positive definite, and the two explicit ways to make them so.

Nothing in rmixup repairs a matrix silently: `regularize` returns what it did, and the string form of a regulariser
("shrink=0.05") is part of a run's identity. Functions take symmetric (..., n, n) tensors unchecked (the door is
`api`). What may not be here: estimators that need the series (Ledoit-Wolf, OAS), which live in `rmixup.data`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from rmixup.errors import DataError
from rmixup.spd.door import symmetrize
from rmixup.spd.spectral import eigh

# Eigenvalues above this count as positive (the paper's SPD-ness), and "floor" raises smaller ones to it.
SPDNESS_TOLERANCE = 1e-6
DEFAULT_AMOUNT = {"shrink": 0.05, "floor": 1e-6}


class Regularizer(NamedTuple):
    """A way to make matrices positive definite, and how much of it."""

    how: str
    amount: float

    def __str__(self) -> str:
        return f"{self.how}={self.amount!r}"


@dataclass(frozen=True)
class Regularization:
    """What `regularize` did: how, by which amount, to how many of how many matrices, and how bad they were."""

    how: str
    amount: float
    changed: int
    total: int
    smallest_before: float

    def __str__(self) -> str:
        return (
            f"{self.how}={self.amount:g} changed {self.changed} of {self.total} matrices "
            f"(smallest eigenvalue before: {self.smallest_before:.3g})"
        )


def spdness(S: Tensor, tol: float = SPDNESS_TOLERANCE) -> Tensor:
    """The share of eigenvalues above `tol`, a float64 number in [0, 1] for each matrix: shape (...).

    >>> spdness(torch.diag(torch.tensor([1.0, 0.5, 0.0, 0.0])))
    tensor(0.5000, dtype=torch.float64)
    """
    return (eigh(S)[0] > tol).double().mean(-1)


def rank_bound(n: int, t: int) -> int:
    """The largest rank that a correlation or covariance of n nodes from t frames can have: centring costs one frame.

    >>> rank_bound(100, 100), rank_bound(100, 101)
    (99, 100)
    """
    return max(0, min(n, t - 1))


def parse_regularizer(text: str) -> Regularizer:
    """Read "shrink=0.05" or "floor=1e-6"; a name alone stands for its default amount.

    >>> parse_regularizer("shrink=0.1")
    Regularizer(how='shrink', amount=0.1)
    >>> str(parse_regularizer("floor"))
    'floor=1e-06'
    """
    how, equals, amount = (part.strip() for part in text.partition("="))
    try:
        value = float(amount) if equals else None
    except ValueError:
        raise DataError(f"a regulariser's amount must be a number, as in 'shrink=0.05', but came {text!r}") from None
    return checked_regularizer(how, value)


def checked_regularizer(how: str, amount: float | None = None) -> Regularizer:
    """Return a regulariser whose amount is filled in and makes sense.

    >>> checked_regularizer("shrink").amount
    0.05
    """
    if how not in DEFAULT_AMOUNT:
        raise DataError(
            f"a regulariser of matrices is {' or '.join(map(repr, DEFAULT_AMOUNT))} with an amount, such as "
            f"'shrink=0.05', but came {how!r} (Ledoit-Wolf and OAS are kinds of connectivity, estimated from series)"
        )
    amount = DEFAULT_AMOUNT[how] if amount is None else float(amount)
    top = 1.0 if how == "shrink" else float("inf")
    if not 0 < amount <= top or amount == float("inf"):
        raise DataError(f"the amount of {how!r} must be above 0 and at most {top:g}, but is {amount:g}")
    return Regularizer(how, amount)


def regularize(S: Tensor, how: str = "shrink", amount: float | None = None) -> tuple[Tensor, Regularization]:
    """Make symmetric matrices positive definite, and say what that took.

    Parameters
    ----------
    S : (..., n, n) tensor
    how : "shrink", (1 - ε) S + ε tr(S)/n I, or "floor", eigenvalues below the amount raised to it
    amount : ε in (0, 1] or the floor; None stands for 0.05 or 1e-6

    Returns
    -------
    The matrices, in the same dtype, and a `Regularization`. A floor leaves matrices already above it untouched.

    >>> S2, what = regularize(torch.ones(2, 2), "shrink", 0.5)
    >>> S2
    tensor([[1.0000, 0.5000],
            [0.5000, 1.0000]])
    >>> print(what)
    shrink=0.5 changed 1 of 1 matrices (smallest eigenvalue before: ...)
    """
    chosen = checked_regularizer(how, amount)
    w, V = eigh(S)
    result, changed = _shrink(S, chosen.amount) if how == "shrink" else _floor(S, w, V, chosen.amount)
    smallest = float(w.min()) if w.numel() else float("nan")
    return result, Regularization(*chosen, changed, S.shape[:-2].numel(), smallest)


def _shrink(S: Tensor, amount: float) -> tuple[Tensor, int]:
    n = S.shape[-1]
    level = amount / n * S.diagonal(dim1=-2, dim2=-1).sum(-1)
    shrunk = (1 - amount) * S + torch.diag_embed(level[..., None].expand(S.shape[:-1]))
    return shrunk, S.shape[:-2].numel()


def _floor(S: Tensor, w: Tensor, V: Tensor, amount: float) -> tuple[Tensor, int]:
    low = (w < amount).any(-1)
    raised = symmetrize((V * w.clamp(min=amount)[..., None, :]) @ V.mT).to(device=S.device, dtype=S.dtype)
    return torch.where(low[..., None, None].to(S.device), raised, S), int(low.sum())
