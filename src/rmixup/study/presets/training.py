"""What the studies that train networks (A–F and J) share: their protocol, their scores, and how these are told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rmixup.study import material
from rmixup.study.presets.opening import Opened, regularised, with_labels
from rmixup.study.spec import Grid, Protocol, Spec, Split
from rmixup.study.statistics import ALPHA, Comparison, compare, measure, verdict
from rmixup.study.tables import Setting, cell_table, comparison_table, settings

if TYPE_CHECKING:
    import pandas as pd

    from rmixup.data.networks import Networks
    from rmixup.study.project import Study

# The paper's methods, in the order of its tables.
METHODS = ("none", "vmixup", "dmixup", "dropnode", "dropedge", "gmixup", "cmixup", "rmixup")
REFERENCE, STRAIGHT, METHOD = "none", "vmixup", "rmixup"
# The paper took five splits. Twice as many make an interval that says something.
REPEATS, QUICK_REPEATS = 10, 3
# Enough to see a study run from end to end; nothing to conclude from.
QUICK = {"epochs": 5, "learning_rate": 1e-3}
Row = dict[str, Any]


def build(
    name: str,
    found: Opened,
    grid: Mapping[str, Any],
    *,
    quick: bool,
    repeats: int | None,
    epochs: int | None = None,
    watch_test: bool = False,
) -> Spec:
    """The spec of a study: the paper's protocol on these data, made positive definite where need be."""
    quickly = {**(QUICK if quick else {}), **({"epochs": epochs} if epochs else {})}
    return Spec(
        name=name,
        data=regularised(with_labels(found)).data,
        split=Split(repeats=repeats or (QUICK_REPEATS if quick else REPEATS)),
        protocol=Protocol.model_validate({"watch_test": watch_test, **quickly}),
        grid=Grid.model_validate(grid),
    )


class Outcome:
    """The results of a finished study: a row a cell, and its settings by each score the paper tells."""

    def __init__(self, study: Study) -> None:
        self.study = study
        self.cells = cell_table(study)
        self.ds: Networks = material.loaded(study.spec.data)

    @cached_property
    def scores(self) -> tuple[str, ...]:
        """As the paper: AUROC and accuracy for two classes, macro precision and recall for more, MSE for numbers."""
        if self.ds.classes is None:
            return ("mse",)
        return ("auroc", "accuracy") if len(self.ds.classes) == 2 else ("macro_precision", "macro_recall")

    @property
    def score(self) -> str:
        """The one that a study is judged by."""
        return self.scores[0]

    @cached_property
    def settings(self) -> dict[str, list[Setting]]:
        """Score -> settings. A study none of whose cells has a result has none."""
        return {score: settings(self.study, score, self.cells) if score in self.cells else [] for score in self.scores}

    @property
    def judged(self) -> list[Setting]:
        """The settings by the score that counts."""
        return self.settings[self.score]


def facts(outcome: Outcome) -> dict[str, Any]:
    """What a result belongs to: the data's hash, the spec without places, settings, versions."""
    study, ds = outcome.study, outcome.ds
    done = outcome.cells["state"].value_counts()
    return {
        "data": study.data.sha256,
        "networks": len(ds),
        "nodes": material.choose_nodes(ds, study.spec.data.nodes).n_nodes,
        "spec": study.spec.model_dump(exclude={"data": {"path"}}),
        "settings": asdict(study.settings),
        "cells": {str(state): int(count) for state, count in done.items()},
        "versions": dict(study.environment),
    }


# ---- tables


def column(score: str) -> str:
    """What a column of a score is called: shares are in percent, as in the paper.

    >>> column("auroc"), column("mse")
    ('auroc_percent', 'mse')
    """
    return f"{score}_percent" if measure(score).factor == 100 else score


def split_table(outcome: Outcome) -> pd.DataFrame:
    """A row a method, setting, score and split, in the unit of the score's column."""
    import pandas as pd

    return pd.DataFrame([
        {**place(setting), "method": row.method, "score": column(score), "split": split, "value": value}
        for score, found in outcome.settings.items()
        for setting in found
        for row in setting.rows
        for split, value in enumerate(measure(score).factor * row.values)
    ])  # fmt: skip


def place(setting: Setting) -> Row:
    """Where a setting stands in the grid."""
    return {"backbone": setting.backbone, "train_size": setting.train_size, "length": setting.length}


def compared(outcome: Outcome) -> pd.DataFrame:
    """Every comparison with no augmentation, by every score."""
    return comparison_table([setting for found in outcome.settings.values() for setting in found])


def mean_table(outcome: Outcome, keep: Iterable[str]) -> list[Row]:
    """A row a method of each setting: mean, standard deviation and interval of each score; `keep` of its place."""
    kept = tuple(keep)
    rows = []
    for together in zip(*outcome.settings.values(), strict=True):
        for own in zip(*(setting.rows for setting in together), strict=True):
            row: Row = {name: place(together[0])[name] for name in kept} | {"method": own[0].method}
            for setting, one in zip(together, own, strict=True):
                factor, name = measure(setting.score).factor, column(setting.score)
                low, high = one.interval
                row |= {name: factor * one.mean, f"{name}_sd": factor * one.sd}
                row |= {f"{name}_low": factor * low, f"{name}_high": factor * high}
            rows.append(row)
    return rows


# ---- sentences


def opening_sentences(outcome: Outcome) -> list[str]:
    """What was run on what, and what is missing; a protocol other than the paper's is said."""
    study, ds = outcome.study, outcome.ds
    spec = study.spec
    train, validation, test = (round(100 * share) for share in spec.split.sizes)
    said = [
        f"{len(ds)} networks of {facts(outcome)['nodes']} nodes ({_told(ds)}), {spec.split.repeats} paired splits of "
        f"{train}/{validation}/{test} % for training, validation and test, {spec.protocol.epochs} epochs; networks "
        + (f"regularised with {spec.data.regularize}." if spec.data.regularize else "as they are.")
    ]
    usual = Protocol()
    changed = [name for name in Protocol.model_fields if name not in {"watch_test", "precision"}
               and getattr(spec.protocol, name) != getattr(usual, name)]  # fmt: skip
    if spec.protocol.precision != usual.precision:
        said.append(f"Products of the network models: {spec.protocol.precision}, where the device has it.")
    if changed:
        told = " and ".join(f"{name} {getattr(spec.protocol, name):g}" for name in changed)
        said.append(f"This is not the paper's protocol ({told}): it shows that the study runs, and settles nothing.")
    return said + missing_sentences(outcome)


def _told(ds: Networks) -> str:
    if ds.classes is not None:
        return f"{len(ds.classes)} classes"
    return "one number a person" if ds.y is not None and ds.y.ndim == 1 else "several numbers a person"


def missing_sentences(outcome: Outcome) -> list[str]:
    """Who has no result, and why."""
    lacking = outcome.cells[outcome.cells["state"] != "done"]
    if not len(lacking):
        return []
    failures = outcome.study.store.failures()
    names = lacking["method"].where(~lacking["baseline"], lacking["backbone"])
    told = [
        f"{name} {failures[key].reason}: {failures[key].message}" if key in failures else f"{name} not run yet"
        for key, name in zip(lacking["key"], names, strict=True)
    ]
    reasons = "; ".join(f"{what} ({count}×)" for what, count in Counter(told).most_common(3))
    return [f"{len(lacking)} of {len(outcome.cells)} runs have no result; what rests on them is undefined: {reasons}."]


def setting_name(setting: Setting) -> str:
    """A backbone as people call it."""
    return {"transformer": "Transformer", "gcn": "GCN", "gin": "GIN"}.get(setting.backbone, setting.backbone)


def pair(setting: Setting, outcome: Outcome, method: str, reference: str) -> Comparison:
    """One planned comparison, by itself."""
    values = {row.method: row.values for row in setting.rows}
    chosen = {name: values[name] for name in (reference, method)}
    return compare(chosen, reference, measure(setting.score), test_to_train(outcome, setting))[0]


def test_to_train(outcome: Outcome, setting: Setting) -> float:
    """Size of the test part over that of the training part of a setting's splits."""
    cells = outcome.cells[outcome.cells["train_size"] == setting.train_size]
    return float((cells["n_test"] / cells["n_train"]).mean()) if "n_test" in cells else float("nan")


def counted(comparisons: Sequence[Comparison]) -> str:
    """How many of several comparisons show something, and which.

    >>> counted([])
    'none of 0 shows a gain or a loss beyond chance'
    """
    defined = [one for one in comparisons if np.isfinite(one.p_holm)]
    gains = [one.method for one in defined if one.p_holm <= ALPHA and one.gain > 0]
    losses = [one.method for one in defined if one.p_holm <= ALPHA and one.gain < 0]
    total = len(comparisons)
    said = [f"{len(found)} of {total} {verb} beyond chance ({', '.join(found)})"
            for found, verb in ((gains, "gain"), (losses, "lose")) if found]  # fmt: skip
    if not said and (defined or not total):
        said.append(f"none of {len(defined)} shows a gain or a loss beyond chance")
    if len(defined) < total:
        said.append(f"{total - len(defined)} of {total} cannot be judged")
    return " and ".join(said)


def against(setting: Setting, outcome: Outcome, method: str, reference: str) -> list[str]:
    """The verdict of one planned comparison, where both are in the setting."""
    have = {row.method for row in setting.rows}
    return [verdict(pair(setting, outcome, method, reference))] if {method, reference} <= have else []


class Best(NamedTuple):
    """A method and its mean score."""

    method: str
    mean: float


def best(setting: Setting, among: Iterable[str]) -> Best | None:
    """The method with the best mean among some, ties to the first; None where none has a score."""
    wanted = set(among)
    known = [row for row in setting.rows if row.method in wanted and np.isfinite(row.mean)]
    if not known:
        return None
    found = max(known, key=lambda row: measure(setting.score).sign * row.mean)
    return Best(found.method, found.mean)
