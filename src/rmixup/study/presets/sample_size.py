"""Study C: does an augmentation help more the fewer people there are? 10 to 100 % of the training data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmixup.study.presets.findings import Findings
from rmixup.study.presets.published import PUBLISHED_SIZES, SIZED_METHODS, data_set
from rmixup.study.presets.training import (
    METHOD,
    REFERENCE,
    Outcome,
    Row,
    build,
    column,
    compared,
    facts,
    mean_table,
    opening_sentences,
    pair,
    split_table,
    test_to_train,
)
from rmixup.study.statistics import ALPHA, bootstrap_interval, corrected_t, holm, measure, verdict

if TYPE_CHECKING:
    from rmixup.study.presets.opening import Opened
    from rmixup.study.project import Study
    from rmixup.study.spec import Spec
    from rmixup.study.tables import Setting

NAME = "sample-size"
SIZES = tuple(k / 10 for k in range(1, 11))
QUICK_SIZES = (0.25, 0.5, 1.0)


def spec_for(found: Opened, *, quick: bool = False, repeats: int | None = None) -> Spec:
    """Four methods at each share of the training data; smaller parts lie in larger ones, the test part stays."""
    grid = {"methods": SIZED_METHODS, "train_sizes": QUICK_SIZES if quick else SIZES}
    return build(NAME, found, grid, quick=quick, repeats=repeats)


def finish(study: Study) -> Findings:
    """Tables "sample-size" (a row a share and method), "comparisons" and "splits"."""
    import pandas as pd

    outcome = Outcome(study)
    whose = data_set(study.spec.data)
    rows = [_with_published(row, outcome, whose) for row in mean_table(outcome, ["train_size"])]
    tables = {NAME: pd.DataFrame(rows), "comparisons": compared(outcome), "splits": split_table(outcome)}
    said = [*opening_sentences(outcome), *along_sentences(outcome, "train_size")]
    return Findings(NAME, tables, {**facts(outcome), "published_data": whose}, said)


def _with_published(row: Row, outcome: Outcome, whose: str | None) -> Row:
    known = PUBLISHED_SIZES.get((whose or "", row["train_size"], row["method"], outcome.score))
    return row if known is None else {**row, f"{column(outcome.score)}_published": known.mean,
                                      f"{column(outcome.score)}_published_sd": known.sd}  # fmt: skip


# ---- words, shared with study D


def along_sentences(outcome: Outcome, name: str) -> list[str]:
    """R-Mixup against none at each size or length, Holm over these, and whether its gain depends on them."""
    found = sorted(outcome.judged, key=lambda setting: getattr(setting, name))
    if not found:
        return []
    gains = [pair(setting, outcome, METHOD, REFERENCE) for setting in found]
    p = holm([one.p for one in gains])
    told = [_at(setting, name) for setting in found]
    ahead = [at for at, one, value in zip(told, gains, p, strict=True) if value <= ALPHA and one.gain > 0]
    behind = [at for at, one, value in zip(told, gains, p, strict=True) if value <= ALPHA and one.gain < 0]
    said = [
        f"{METHOD} against none, by {outcome.score}, Holm over the {len(found)} {_plural(name)}: a gain beyond chance "
        f"at {', '.join(ahead) or 'none'}, a loss at {', '.join(behind) or 'none'}."
    ]
    said += [f"At {at}: {verdict(one)}" for at, one in {told[0]: gains[0], told[-1]: gains[-1]}.items()]
    return said + (_dependence(found, outcome, told) if len(found) > 1 else [])


def _dependence(found: list[Setting], outcome: Outcome, told: list[str]) -> list[str]:
    """The gain at one end minus that at the other, split by split."""
    first, last = (_gains(setting) for setting in (found[0], found[-1]))
    more = first - last
    low, high = bootstrap_interval(more)
    p = corrected_t(more, test_to_train(outcome, found[0])).p
    unit = measure(outcome.score).unit
    size = f"{more.mean():+.2f} {unit}".rstrip() + f" (interval {low:+.2f} to {high:+.2f}, p = {p:.2g})"
    known = "differs beyond chance" if p <= ALPHA else "no evidence that it differs"
    if not np.isfinite(p):
        return [f"Whether the gain at {told[0]} differs from that at {told[-1]} cannot be said: scores are missing."]
    return [f"The gain of {METHOD} at {told[0]} minus that at {told[-1]}: {size}; {known}."]


def _gains(setting: Setting) -> np.ndarray:
    """Gain of the method over none on each split."""
    values = {row.method: row.values for row in setting.rows}
    measured = measure(setting.score)
    return np.asarray(measured.sign * measured.factor * (values[METHOD] - values[REFERENCE]))


def _at(setting: Setting, name: str) -> str:
    return f"{setting.train_size:.0%}" if name == "train_size" else f"t = {setting.length}"


def _plural(name: str) -> str:
    return "shares of the training data" if name == "train_size" else "lengths"
