"""The answer of a study: did augmentation help, what can be excluded, and does a linear baseline do as well.

Words only, from settings that `rmixup.study.tables` compared; nothing is tested here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from rmixup.report.names import short
from rmixup.report.numbers import amount, listed, number, p_value, score
from rmixup.study.statistics import ALPHA, Comparison, measure
from rmixup.study.tables import Row, Setting

Kind = Literal["gain", "loss", "none", "open"]
_NAMED = 3
# With fewer splits there is no answer; with fewer than the second number it is given with a warning.
FEWEST, FEW = 3, 5
# Differences whose mean is so many of their deviations are equal but for rounding.
_CONSTANT = 1e6
_LINEAR = {"linear": "A linear model of the edges", "tangent": "A linear model in tangent space"}


@dataclass(frozen=True)
class Answer:
    """The verdict in one word for a machine, in one sentence, and what must be said beside it."""

    kind: Kind
    sentence: str
    beside: list[str]


def answer(settings: Sequence[Setting], missing: int = 0, total: int = 0) -> Answer:
    """The verdict of a study.

    Parameters
    ----------
    settings : from `rmixup.study.tables.settings`; the first is the one the sentence speaks of.
    missing, total : how many cells have no result, of how many.
    """
    beside = [f"{missing} of {total} cells have no result yet or failed; see below."] if missing else []
    if not settings:
        return Answer("open", "No answer yet: no cell of this study has a result.", beside)
    first = settings[0]
    kind, sentence = _judge(first)
    splits = len(first.rows[0].values)
    few = [f"These are {splits} splits only: take ten or more before you believe it."]
    linear = [words for setting in settings[:1] if (words := _baseline(setting))]
    others = _others(settings[1:])
    warned = few if kind != "open" and splits < FEW else []
    return Answer(kind, sentence, [*warned, *linear, *others, *beside])


def augmented(setting: Setting) -> list[Comparison]:
    """The comparisons of augmentation methods, without those of linear baselines."""
    return [one for one in setting.comparisons if one.method not in setting.baselines]


def place(setting: Setting) -> str:
    """A setting in a few words.

    >>> place(Setting("gcn", 0.5, 100, "auroc", "none", [], []))
    'gcn, 50 % of the training data, 100 frames'
    """
    size = [] if setting.train_size == 1 else [f"{100 * setting.train_size:g} % of the training data"]
    length = [] if setting.length is None else [f"{setting.length} frames"]
    return ", ".join([short(setting.backbone), *size, *length])


def _judge(setting: Setting) -> tuple[Kind, str]:
    compared = augmented(setting)
    defined = [one for one in compared if _is_defined(one)]
    gains = [one for one in defined if one.p_holm <= ALPHA and one.gain > 0]
    losses = [one for one in defined if one.p_holm <= ALPHA and one.gain < 0]
    if not compared:
        return "open", "This study compares no augmentation with a model trained without one."
    if not defined:
        return "open", f"No answer yet: no method has scores on {FEWEST} splits or more beside its reference."
    if gains:
        return "gain", _gained(setting, gains, len(compared))
    return ("loss" if losses else "none"), _no_gain(setting, defined, losses, len(compared))


def _is_defined(one: Comparison) -> bool:
    """Whether a comparison can be judged: equal differences on a few splits are a coincidence, not certainty."""
    varied = one.gain == 0 or abs(one.effect) < _CONSTANT
    return bool(one.splits >= FEWEST and np.isfinite(one.p_holm) and varied)


def _gained(setting: Setting, gains: list[Comparison], compared: int) -> str:
    best = sorted(gains, key=lambda one: -one.gain)
    said = [
        f"{short(one.method)} by {amount(one.gain, one.measure)} "
        f"(p {_equals(one.p_holm)}, at least {amount(-one.excluded_loss, one.measure)})"
        for one in best[:_NAMED]
    ]
    more = [f"{len(best) - _NAMED} more"] if len(best) > _NAMED else []
    return (
        f"Yes ({_where(setting)}): {len(best)} of {_counted(compared)} did better than {short(setting.reference)}, "
        f"{listed([*said, *more])}."
    )


def _no_gain(setting: Setting, defined: list[Comparison], losses: list[Comparison], compared: int) -> str:
    largest = amount(max(max(0.0, one.excluded_gain) for one in defined), defined[0].measure)
    which = f"for each of {_counted(len(defined))}" if len(defined) > 1 else f"for {short(defined[0].method)}"
    worse = [f"{short(one.method)} by {amount(-one.gain, one.measure)}" for one in losses[:_NAMED]]
    harm = f" Worse than {short(setting.reference)}: {listed(worse)}." if worse else ""
    left = f" ({compared - len(defined)} could not be compared)" if compared > len(defined) else ""
    return (
        f"No evidence that augmentation helped ({_where(setting)}): a gain above {largest} can be excluded "
        f"{which}{left}.{harm}"
    )


def _counted(methods: int) -> str:
    return f"{methods} augmentation method{'s' if methods > 1 else ''}"


def _where(setting: Setting) -> str:
    splits = len(setting.rows[0].values)
    return f"{place(setting)}; {setting.score}, {splits} splits"


def _equals(p: float) -> str:
    words = p_value(p)
    return words if words.startswith("<") else f"= {words}"


def _baseline(setting: Setting) -> str:
    """Whether a linear model did better than every network model, split by split."""
    measured = measure(setting.score)
    linear = _best([row for row in setting.rows if row.baseline], measured.sign)
    network = _best([row for row in setting.rows if not row.baseline], measured.sign)
    if linear is None or network is None:
        return ""
    ahead = measured.sign * (linear.values - network.values)
    means = f"mean {score(linear.mean, measured)} against {score(network.mean, measured)} of {short(network.method)}"
    name = f"{_LINEAR[linear.method.partition(' ')[0]]}, “{linear.method}”,"
    if ahead.mean() > 0:
        won = f"on {int((ahead > 0).sum())} of {len(ahead)} splits"
        return f"{name} did better than the best network model {won} ({means})."
    return f"{name} is the best of the linear baselines and did not do better than the best network model ({means})."


def _best(rows: list[Row], sign: int) -> Row | None:
    return max((row for row in rows if np.isfinite(row.mean)), key=lambda row: sign * row.mean, default=None)


def _others(settings: Sequence[Setting]) -> list[str]:
    """What came out in the other settings; that nothing did is said, too."""
    told = [words for setting in settings if (words := _elsewhere(setting))]
    warning = (
        f"Each of the {len(settings) + 1} settings is corrected by itself: among many, one may stand out by chance."
    )
    chance = [warning] if told else []
    silent = len(settings) - len(told)
    if not silent:
        return [*told, *chance]
    whole = "the other" if not told else "another"
    which = f"{whole} setting" if silent == 1 else f"{'the other' if not told else 'the remaining'} {silent} settings"
    return [*told, f"In {which} there is no evidence of a gain or a loss.", *chance]


def _elsewhere(setting: Setting) -> str:
    """One other setting, where anything came out."""
    shown = [one for one in augmented(setting) if _is_defined(one) and one.p_holm <= ALPHA]
    said = [f"{short(one.method)} {number(one.gain, sign=True)} {one.measure.unit}".rstrip() for one in shown]
    return f"With {place(setting)}: {listed(said)} (p ≤ {ALPHA:g} after Holm)." if said else ""
