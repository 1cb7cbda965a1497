"""Statistics on paired splits, in plain NumPy and SciPy, and the sentence that says what they mean.

Scores of two methods on the same splits are compared by their differences. Splits of one data set overlap in their
training parts, so the usual t test is far too sure of itself: the corrected resampled t test of Nadeau & Bengio (2003)
widens its variance by the ratio of test to training size. A split without a score makes what rests on it undefined;
it is never left out of a mean. May not be here: files, formatting beyond the one sentence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from rmixup import keys
from rmixup.errors import DataError

Floats = NDArray[np.float64]
NAN = float("nan")
# The level of every test and interval of a verdict.
ALPHA = 0.05


@dataclass(frozen=True)
class Measure:
    """A score: which direction is better, and in what unit differences are told (`factor` × score)."""

    name: str
    higher_is_better: bool
    factor: float = 1.0
    unit: str = ""

    @property
    def sign(self) -> int:
        """Turns a difference of scores into a gain."""
        return 1 if self.higher_is_better else -1


_SHARES = (
    "auroc", "auprc", "accuracy", "balanced_accuracy", "precision", "recall", "sensitivity", "specificity", "f1", "r2"
)  # fmt: skip
_LOSSES = ("mse", "rmse", "mae", "loss", "brier", "calibration_error")
# Shares are told in points (percent), losses in their own unit.
MEASURES: dict[str, Measure] = {
    **{name: Measure(name, higher_is_better=True, factor=100.0, unit="points") for name in _SHARES},
    **{name: Measure(name, higher_is_better=False) for name in _LOSSES},
    "r": Measure("r", higher_is_better=True),
    "pearson": Measure("pearson", higher_is_better=True),
    "spearman": Measure("spearman", higher_is_better=True),
}


def measure(name: str) -> Measure:
    """The measure of a score; `macro_` and the like before a known name, and `_last` after it, change nothing."""
    bare = name.removesuffix("_last")
    known = next((key for key in MEASURES if bare == key or bare.endswith(f"_{key}")), None)
    if known is None:
        raise DataError(f"score {name!r}: unknown which direction is better; known are {', '.join(sorted(MEASURES))}")
    found = MEASURES[known]
    return Measure(name, found.higher_is_better, found.factor, found.unit)


@dataclass(frozen=True)
class Test:
    """A test of differences against zero; `se` and `df` are of the mean difference, NaN for rank tests."""

    __test__ = False  # not for pytest to collect

    statistic: float
    p: float
    se: float = NAN
    df: float = NAN


def bootstrap_interval(values: ArrayLike, level: float = 0.95, draws: int = 9999, seed: int = 0) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean; NaN where fewer than two values, or one undefined, are given.

    >>> low, high = bootstrap_interval([0.70, 0.72, 0.75, 0.71])
    >>> 0.70 < low < 0.72 < high < 0.75
    True
    """
    x = np.asarray(values, dtype=float)
    if len(x) < 2 or not np.isfinite(x).all():
        return NAN, NAN
    drawn = keys.generator(seed, "bootstrap", len(x)).integers(0, len(x), (draws, len(x)))
    low, high = np.quantile(x[drawn].mean(1), [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def corrected_t(differences: ArrayLike, test_to_train: float) -> Test:
    """Nadeau & Bengio's corrected resampled t test of paired differences, two-sided.

    Parameters
    ----------
    differences : (n,) one difference a split.
    test_to_train : size of the test part over that of the training part; 0 gives the ordinary paired t test.

    >>> round(corrected_t([1.0, 2.0, 0.5, 1.5], test_to_train=2 / 7).p, 4)
    0.0773
    """
    d = np.asarray(differences, dtype=float)
    if len(d) < 2 or not np.isfinite(d).all():
        return Test(NAN, NAN)
    se = float(np.sqrt(d.var(ddof=1) * (1 / len(d) + test_to_train)))
    if se == 0:
        same = bool(d[0] == 0)
        return Test(0.0 if same else float(np.copysign(np.inf, d[0])), 1.0 if same else 0.0, 0.0, len(d) - 1)
    t = float(d.mean() / se)
    return Test(t, float(2 * stats.t.sf(abs(t), len(d) - 1)), se, len(d) - 1)


def wilcoxon(differences: ArrayLike) -> Test:
    """Wilcoxon's signed rank test, two-sided, as SciPy's; p = 1 where all differences are zero."""
    d = np.asarray(differences, dtype=float)
    if len(d) < 1 or not np.isfinite(d).all():
        return Test(NAN, NAN)
    if not d.any():
        return Test(0.0, 1.0)
    found = stats.wilcoxon(d)
    return Test(float(found.statistic), float(found.pvalue))


def effect_size(differences: ArrayLike) -> float:
    """Mean difference in units of its standard deviation (Cohen's d of paired values); NaN where that is zero."""
    d = np.asarray(differences, dtype=float)
    spread = d.std(ddof=1) if len(d) > 1 else 0.0
    return float(d.mean() / spread) if spread > 0 else NAN


def holm(p_values: ArrayLike) -> Floats:
    """Holm's adjusted p values, in the order given. An undefined p stays undefined and still counts as a comparison.

    >>> holm([0.01, 0.04, 0.03]).round(3).tolist()
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, dtype=float)
    order = np.argsort(p)  # undefined ones come last
    stepped = np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p))))
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted


def bounds(differences: ArrayLike, test_to_train: float, level: float = 1 - ALPHA) -> tuple[float, float]:
    """One-sided bounds of the mean difference by the corrected t: it is above the first, and below the second.

    Each holds at `level` by itself: a gain above the second number can be excluded.
    """
    d = np.asarray(differences, dtype=float)
    test = corrected_t(d, test_to_train)
    if np.isnan(test.p):
        return NAN, NAN
    width = float(stats.t.ppf(level, test.df)) * test.se
    return float(d.mean() - width), float(d.mean() + width)


@dataclass(frozen=True)
class Ranking:
    """Mean rank (1 is best) of a method over the splits, and on how many it was best, ties shared."""

    mean_rank: float
    wins: float


def ranks(scores: Mapping[str, ArrayLike], higher_is_better: bool) -> dict[str, Ranking]:
    """Rank methods on each split; undefined where a method lacks a score on any split.

    >>> ranks({"a": [0.7, 0.8], "b": [0.6, 0.8]}, higher_is_better=True)["a"]
    Ranking(mean_rank=1.25, wins=1.5)
    """
    table = np.array([np.asarray(values, dtype=float) for values in scores.values()])
    if not np.isfinite(table).all():
        return dict.fromkeys(scores, Ranking(NAN, NAN))
    placed = stats.rankdata(-table if higher_is_better else table, axis=0)
    best = placed == placed.min(0)
    wins = (best / best.sum(0)).sum(1)
    return {name: Ranking(float(r.mean()), float(w)) for name, r, w in zip(scores, placed, wins, strict=True)}


@dataclass(frozen=True)
class Comparison:
    """One method against a reference on the same splits; gains are positive where the method is better.

    All gains are in the unit of the measure (points for shares). `p` is of the corrected t, `p_holm` over all methods
    compared to the same reference. `excluded_gain`: a larger gain can be excluded; `excluded_loss`: a larger loss can.
    `missing` counts the splits without a score, by reason.
    """

    method: str
    reference: str
    measure: Measure
    splits: int
    missing: Mapping[str, int]
    gain: float
    interval: tuple[float, float]
    p: float
    p_holm: float
    p_wilcoxon: float
    effect: float
    wins: int
    losses: int
    excluded_gain: float
    excluded_loss: float


def compare(
    scores: Mapping[str, ArrayLike],
    reference: str,
    measured: Measure,
    test_to_train: float,
    missing: Mapping[str, Mapping[str, int]] | None = None,
) -> list[Comparison]:
    """Compare every method with the reference, adjusted over all of them by Holm.

    Parameters
    ----------
    scores : method -> (n,) one score a split, in the same order of splits, NaN where there is none.
    reference : the method that the others are compared with.
    measured : which score it is.
    test_to_train : size of the test part over that of the training part.
    missing : method -> reason -> number of splits without a score, for those that lack any.

    >>> scores = {"none": [0.70, 0.72, 0.71], "rmixup": [0.73, 0.74, 0.75]}
    >>> compare(scores, "none", measure("auroc"), 2 / 7)[0].gain.__round__(6)
    3.0
    """
    base = np.asarray(scores[reference], dtype=float)
    scale = measured.sign * measured.factor
    gains = {name: scale * (np.asarray(x, dtype=float) - base) for name, x in scores.items() if name != reference}
    adjusted = holm([corrected_t(gain, test_to_train).p for gain in gains.values()])
    lacking = {name: _reasons(missing or {}, (reference, name)) for name in gains}
    return [
        _comparison(
            method=name,
            reference=reference,
            measured=measured,
            gain=gain,
            test_to_train=test_to_train,
            p_holm=float(p_holm),
            missing=lacking[name],
        )
        for (name, gain), p_holm in zip(gains.items(), adjusted, strict=True)
    ]


def _reasons(missing: Mapping[str, Mapping[str, int]], names: Sequence[str]) -> dict[str, int]:
    """The reasons of both sides of a comparison, told apart by side."""
    return {f"{name}: {reason}": n for name in names for reason, n in missing.get(name, {}).items()}


def _comparison(
    *,
    method: str,
    reference: str,
    measured: Measure,
    gain: Floats,
    test_to_train: float,
    p_holm: float,
    missing: Mapping[str, int],
) -> Comparison:
    low, high = bounds(gain, test_to_train)
    return Comparison(
        method=method,
        reference=reference,
        measure=measured,
        splits=len(gain),
        missing=missing,
        gain=float(gain.mean()) if len(gain) else NAN,
        interval=bootstrap_interval(gain),
        p=corrected_t(gain, test_to_train).p,
        p_holm=p_holm,
        p_wilcoxon=wilcoxon(gain).p,
        effect=effect_size(gain),
        wins=int((gain > 0).sum()),
        losses=int((gain < 0).sum()),
        excluded_gain=high,
        excluded_loss=-low,
    )


def verdict(comparison: Comparison) -> str:
    """The one sentence that says what a comparison shows, as plainly when it shows nothing.

    >>> scores = {"none": [0.70, 0.72, 0.71], "rmixup": [0.71, 0.71, 0.72]}
    >>> print(verdict(compare(scores, "none", measure("auroc"), 2 / 7)[0]))
    rmixup against none (auroc, 3 paired splits): no evidence of a gain or a loss (+0.33 points, p = 0.75 after Holm);
    a gain above 2.99 points and a loss above 2.32 points can be excluded.
    """
    c = comparison
    start = f"{c.method} against {c.reference} ({c.measure.name}, {c.splits} paired splits): "
    if np.isnan(c.gain) or np.isnan(c.p):
        return start + _undefined(c)
    size = f"{_amount(c.gain, c.measure, sign=True)}, p {_p(c.p_holm)} after Holm"
    if c.p_holm <= ALPHA:
        return start + _evidence(c, size)
    return f"{start}no evidence of a gain or a loss ({size}); {_excluded(c)}."


def _undefined(c: Comparison) -> str:
    if c.missing:
        why = ", ".join(f"{reason} {count}×" for reason, count in sorted(c.missing.items()))
        return f"undefined, because splits lack a score ({why})."
    return "undefined, because a paired test needs two splits with defined scores."


def _evidence(c: Comparison, size: str) -> str:
    word, won = ("gain", c.wins) if c.gain > 0 else ("loss", c.losses)
    at_least = -c.excluded_loss if c.gain > 0 else -c.excluded_gain
    reach = f"at least {_amount(at_least, c.measure)} with 95 % confidence"
    return f"evidence of a {word} ({size}), {reach}, on {won} of {c.splits} splits."


def _excluded(c: Comparison) -> str:
    """What can be ruled out; where even no gain at all can, that is said with zero."""
    gain, loss = (_amount(max(0.0, bound), c.measure) for bound in (c.excluded_gain, c.excluded_loss))
    return f"a gain above {gain} and a loss above {loss} can be excluded"


def _amount(value: float, measured: Measure, sign: bool = False) -> str:
    digits = f"{value:+.2f}" if sign else f"{value:.2f}"
    if abs(value) < 0.1 and not measured.unit:
        digits = f"{value:+.2g}" if sign else f"{value:.2g}"
    return f"{digits} {measured.unit}".rstrip()


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"= {value:.2g}"
