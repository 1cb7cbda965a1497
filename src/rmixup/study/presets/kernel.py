"""Study H: do mixes along geodesics fit a regression on networks better than straight mixes, as a theorem says?

The paper's theorem takes estimators in log coordinates, fitted to the very people who are mixed. Two controls tell
what it is worth: the same estimators in the coordinates of the matrix entries, where straight mixes are the straight
lines; and estimators fitted to other people, whose judgement does not depend on having seen the parents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import torch
from torch import Tensor

from rmixup import keys
from rmixup.spd.kernel import flat_kernel_ridge, flat_regression
from rmixup.spd.metrics import METRICS
from rmixup.spd.spectral import logm
from rmixup.study.presets.cohort import cohort, numbers
from rmixup.study.presets.findings import Findings
from rmixup.study.statistics import ALPHA, bootstrap_interval, corrected_t, effect_size

if TYPE_CHECKING:
    from rmixup.data.networks import Networks

PAIRS, QUICK_PAIRS = 1000, 100
# Diffusion times that are tried, as multiples of the one that `rmixup.spd.kernel_ridge` takes by itself.
TIMES = (0.25, 1.0, 4.0)
SAME, OTHER = "the mixed people", "other people"
LOG, ENTRIES = "logarithms", "matrix entries"
GEODESIC, STRAIGHT = "log-Euclidean", "straight"
PAIR = "heat kernel, the two parents alone"
# A mean squared error below this share of the labels' variance is rounding.
EXACT = 1e-12
Row = dict[str, Any]


class Fitted(Protocol):
    """An estimator in flat coordinates."""

    def at(self, X: Tensor) -> Tensor:
        """Labels (N,) of coordinates (N, d)."""
        ...


def _least_norm(X: Tensor, y: Tensor) -> Fitted:
    return flat_regression(X, y)


def _penalised(X: Tensor, y: Tensor) -> Fitted:
    """With a penalty as large as the mean squared length of the coordinates."""
    return flat_regression(X, y, ridge=float((X - X.mean(0)).square().sum(1).mean()))


def _heat(multiple: float) -> Callable[[Tensor, Tensor], Fitted]:
    def fit(X: Tensor, y: Tensor) -> Fitted:
        return flat_kernel_ridge(X, y, sigma=multiple * flat_kernel_ridge(X, y).sigma)

    return fit


ESTIMATORS: dict[str, Callable[[Tensor, Tensor], Fitted]] = {
    "geodesic regression": _least_norm,
    "geodesic regression, ridge": _penalised,
    **{f"heat kernel ridge, time × {multiple:g}": _heat(multiple) for multiple in TIMES},
}


class Mixes(NamedTuple):
    """Pairs i, j of rows with λ, the labels and both kinds of mixes (B, n, n) that they have."""

    i: Tensor
    j: Tensor
    y: Tensor
    networks: dict[str, Tensor]


def compute(
    ds: Networks, *, nodes: int | None = None, regularizer: str | None = None, quick: bool = False, seed: int = 0
) -> Findings:
    """Compare losses at log-Euclidean and straight mixes.

    Parameters
    ----------
    ds : Networks with one number a person as label (or two classes)
    nodes : how many nodes to draw; None: all
    regularizer : see `rmixup.study.presets.cohort.cohort`
    quick : a tenth of the pairs
    seed : of pairs, halves and nodes

    Returns
    -------
    Findings with the table "kernel": a row an estimator, its coordinates and whom it was fitted to; the losses are mean
    squared errors in units of the labels' variance, `smaller` is the share of pairs whose geodesic mix has the smaller
    one.
    """
    import pandas as pd

    people = cohort(ds, nodes, regularizer, seed)
    y = numbers(people.ds, "kernel")
    y = (y - y.mean()) / y.std()
    order = torch.from_numpy(keys.generator(seed, "halves", len(y)).permutation(len(y)))
    mixed, other = order[: len(y) // 2], order[len(y) // 2 :]
    mixes = _mixes(people.S[mixed], y[mixed], QUICK_PAIRS if quick else PAIRS, seed)
    rows = _rows(_losses(people.S, y, {SAME: mixed, OTHER: other}, mixes))
    facts = {**people.facts, "quick": quick, "pairs": len(mixes.y), "target": people.ds.target}
    return Findings("kernel", {"kernel": pd.DataFrame(rows)}, facts, (*people.sentences, *_sentences(rows)))


def _mixes(S: Tensor, y: Tensor, count: int, seed: int) -> Mixes:
    rng = keys.generator(seed, "pairs", len(S))
    first = rng.integers(0, len(S), count)
    second = (first + rng.integers(1, len(S), count)) % len(S)
    i, j, lam = (torch.from_numpy(drawn) for drawn in (first, second, rng.random(count)))
    networks = {
        GEODESIC: METRICS["logeuclid"].geodesic(S[i], S[j], lam),
        STRAIGHT: METRICS["euclid"].geodesic(S[i], S[j], lam),
    }
    return Mixes(i, j, torch.lerp(y[i], y[j], lam), networks)


COORDINATES: dict[str, Callable[[Tensor], Tensor]] = {
    LOG: lambda S: logm(S).flatten(1),
    ENTRIES: lambda S: S.flatten(1),
}


def _losses(S: Tensor, y: Tensor, rows: dict[str, Tensor], mixes: Mixes) -> Iterator[tuple[dict[str, str], Any]]:
    """What was fitted to whom in which coordinates, and the squared errors (pairs,) by kind of mix."""
    for coordinates, chart in COORDINATES.items():
        X = chart(S)
        at = {kind: chart(networks) for kind, networks in mixes.networks.items()}
        for fitted_to, some in rows.items():
            for name, fit in ESTIMATORS.items():
                model = fit(X[some], y[some])
                errors = {kind: (model.at(x) - mixes.y).square().numpy() for kind, x in at.items()}
                yield {"estimator": name, "coordinates": coordinates, "fitted_to": fitted_to}, errors
        own, labels = X[rows[SAME]], y[rows[SAME]]
        time = flat_kernel_ridge(own, labels).sigma
        errors = {kind: _of_two(own, labels, x, mixes, time).numpy() for kind, x in at.items()}
        yield {"estimator": PAIR, "coordinates": coordinates, "fitted_to": SAME}, errors


def _of_two(X: Tensor, y: Tensor, at: Tensor, mixes: Mixes, time: float) -> Tensor:
    """Squared errors of the kernel regression on two people, the one that the paper's proof looks at."""

    def kernel(a: Tensor, b: Tensor) -> Tensor:
        return (-(a - b).square().sum(1) / (4 * time)).exp()

    i, j = mixes.i, mixes.j
    both, first, second = kernel(X[i], X[j]), kernel(X[i], at), kernel(X[j], at)
    predicted = ((y[i] - both * y[j]) * first + (y[j] - both * y[i]) * second) / (1 - both**2)
    return (predicted - mixes.y).square()


def _rows(losses: Iterator[tuple[dict[str, str], Any]]) -> list[Row]:
    rows = []
    for names, errors in losses:
        difference = errors[GEODESIC] - errors[STRAIGHT]
        low, high = bootstrap_interval(difference)
        rows.append({
            **names,
            "geodesic": errors[GEODESIC].mean(),
            "straight": errors[STRAIGHT].mean(),
            "difference": difference.mean(),
            "low": low,
            "high": high,
            "p": corrected_t(difference, 0.0).p,
            "effect": effect_size(difference),
            "smaller": float((difference < 0).mean()),
        })  # fmt: skip
    return rows


# --- words


def _sentences(table: list[Row]) -> list[str]:
    own = [row for row in table if row["fitted_to"] == SAME]
    in_logs, in_entries = ([row for row in own if row["coordinates"] == name] for name in (LOG, ENTRIES))
    found = [
        f"Fitted to the mixed people in log coordinates, {_count(in_logs)}.",
        f"Fitted to the mixed people in the coordinates of the entries, {_count(in_entries)}.",
    ]
    if _clear(in_logs, -1) > len(in_logs) / 2 and _clear(in_entries, +1) > len(in_entries) / 2:
        found.append(
            "Mixes that are straight lines in the estimator's coordinates fit it better, whichever these are: the "
            "theorem follows from its choice of coordinates, and favours neither kind of mix by itself."
        )
    for name in (LOG, ENTRIES):
        others = [row for row in table if row["fitted_to"] == OTHER and row["coordinates"] == name]
        found.append(f"Fitted to other people in the coordinates of the {name}, {_count(others)}.")
    shares = [row["smaller"] for row in in_logs]
    if min(shares) < 1:
        found.append(
            "Even where the theorem applies its statement does not hold pair by pair: the geodesic mix has the smaller "
            f"loss for {min(shares):.0%} to {max(shares):.0%} of the pairs."
        )
    return found


def _count(rows: list[Row]) -> str:
    geodesic, straight = _clear(rows, -1), _clear(rows, +1)
    return (
        f"log-Euclidean mixes have the smaller loss in {geodesic} of {len(rows)} regressions, straight mixes in "
        f"{straight}, and {len(rows) - geodesic - straight} show no difference (p > {ALPHA:g})"
    )


def _clear(rows: list[Row], sign: int) -> int:
    """How many differences have this sign beyond chance."""
    return sum(row["p"] <= ALPHA and sign * row["difference"] > EXACT for row in rows)
