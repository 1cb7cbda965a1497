"""Study A: the paper's eight methods with the Transformer, beside linear models, on the same splits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmixup.study.presets.findings import LINEAR, Findings
from rmixup.study.presets.published import PUBLISHED, data_set
from rmixup.study.presets.training import (
    METHOD,
    METHODS,
    STRAIGHT,
    Outcome,
    Row,
    against,
    best,
    build,
    column,
    compared,
    counted,
    facts,
    mean_table,
    opening_sentences,
    setting_name,
    split_table,
)
from rmixup.study.spec import BASELINES
from rmixup.study.statistics import measure

if TYPE_CHECKING:
    from rmixup.study.presets.opening import Opened
    from rmixup.study.project import Study
    from rmixup.study.spec import Spec
    from rmixup.study.tables import Setting

NAME = "overall"
BACKBONES = ("transformer",)


def spec_for(found: Opened, *, quick: bool = False, repeats: int | None = None) -> Spec:
    """Eight methods, the Transformer, and the linear baselines."""
    return build(NAME, found, {"methods": METHODS, "backbones": BACKBONES}, quick=quick, repeats=repeats)


def finish(study: Study) -> Findings:
    """Tables "overall" (a row a method: mean and deviation, ours and published), "comparisons" and "splits"."""
    return found_in(NAME, study)


def found_in(name: str, study: Study) -> Findings:
    """The findings of a study of methods, for any backbones."""
    import pandas as pd

    outcome = Outcome(study)
    whose = data_set(study.spec.data)
    rows = [_with_published(row, outcome, whose) for row in mean_table(outcome, ["backbone"])]
    tables = {
        name: pd.DataFrame(_linear_last(rows)),
        "comparisons": compared(outcome),
        "splits": split_table(outcome),
    }
    said = [*opening_sentences(outcome), *(line for one in outcome.judged for line in _sentences(one, outcome, whose))]
    return Findings(name, tables, {**facts(outcome), "published_data": whose}, said)


def _linear_last(rows: list[Row]) -> list[Row]:
    """Each row once: linear models are the same beside every backbone."""
    once = {(row["backbone"], row["method"]): row for row in rows}
    return sorted(once.values(), key=lambda row: row["backbone"] == LINEAR)


def _with_published(row: Row, outcome: Outcome, whose: str | None) -> Row:
    """Means and deviations of a row, each beside its published figure where the data are the paper's."""
    model = LINEAR if row["method"] in BASELINES else row["backbone"]
    full: Row = {"backbone": model, "method": row["method"]}
    for score in outcome.scores:
        name = column(score)
        full |= {name: row[name], f"{name}_sd": row[f"{name}_sd"]}
        if whose is not None:
            known = PUBLISHED.get((whose, row["backbone"], row["method"], score))
            full[f"{name}_published"] = None if known is None else known.mean
            full[f"{name}_published_sd"] = None if known is None else known.sd
    return full


# ---- words


def _sentences(setting: Setting, outcome: Outcome, whose: str | None) -> list[str]:
    """One backbone: the field, the method, its geometry, the linear baselines, the paper."""
    augmented = [one for one in setting.comparisons if one.method not in BASELINES]
    named = f"{setting_name(setting)}: "
    lines = [
        f"of the augmentations against none, by {setting.score}, {counted(augmented)} (p after Holm).",
        *(line for line in setting.verdicts if line.startswith(f"{METHOD} against")),
        *against(setting, outcome, METHOD, STRAIGHT),
        *_beside_baselines(setting, outcome),
        *_beside_published(setting, whose),
    ]
    return [named + line for line in lines]


def _beside_baselines(setting: Setting, outcome: Outcome) -> list[str]:
    """The best network against the best linear model; the best of many is flattered by having been chosen."""
    network, linear = best(setting, METHODS), best(setting, BASELINES)
    if network is None or linear is None:
        return []
    factor = measure(setting.score).factor
    return [
        f"the best network by its mean is {network.method} ({factor * network.mean:.2f}), the best linear model "
        f"{linear.method} ({factor * linear.mean:.2f}).",
        *against(setting, outcome, METHOD, linear.method),
    ]


def _beside_published(setting: Setting, whose: str | None) -> list[str]:
    if whose is None:
        return []
    factor = measure(setting.score).factor
    known = {row.method: PUBLISHED.get((whose, setting.backbone, row.method, setting.score)) for row in setting.rows}
    ours = {row.method: factor * row.mean for row in setting.rows}
    within = [name for name, figure in known.items() if figure and abs(ours[name] - figure.mean) <= figure.sd]
    published = [name for name, figure in known.items() if figure]
    if not published:
        return []
    here, there = (_gain(values) for values in (ours, {name: known[name].mean for name in published}))  # type: ignore[union-attr]
    return [
        f"published for these data: {METHOD} {there:+.2f} over none; here {here:+.2f}. {len(within)} of "
        f"{len(published)} means lie within one published standard deviation of the published mean."
    ]


def _gain(values: dict[str, float]) -> float:
    return values[METHOD] - values["none"]
