"""Study J: training and test loss over the epochs. Does training without augmentation overfit, and mixing not?

The test loss is watched, it never selects anything. The training loss of a method that mixes is that on its mixes and
mixed labels, so it cannot be compared between methods; the test losses can.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmixup.study.presets.findings import Findings
from rmixup.study.presets.training import METHOD, REFERENCE, STRAIGHT, Outcome, Row, build, facts, opening_sentences
from rmixup.study.statistics import ALPHA, compare, corrected_t, measure
from rmixup.study.tables import curve_table

if TYPE_CHECKING:
    import pandas as pd

    from rmixup.study.presets.opening import Opened
    from rmixup.study.project import Study
    from rmixup.study.spec import Spec

NAME = "curves"
METHODS = (REFERENCE, STRAIGHT, METHOD)
CURVES = ("train_loss", "validation_loss", "test_loss")
WATCHED = "test_loss"


def spec_for(found: Opened, *, quick: bool = False, repeats: int | None = None) -> Spec:
    """None, V-Mixup and R-Mixup with the test loss watched; linear models have no epochs, so they are left out."""
    grid = {"methods": METHODS, "baselines": []}
    return build(NAME, found, grid, quick=quick, repeats=repeats, watch_test=True)


def finish(study: Study) -> Findings:
    """Tables "curves" (a row a method: where its test loss is lowest and how far it rises), "epochs" and "runs"."""
    import pandas as pd

    outcome = Outcome(study)
    losses = _losses(study, outcome)
    runs = _runs(losses)
    table = (
        [_summary(name, runs[runs["method"] == name]) for name in dict.fromkeys(runs["method"])] if len(runs) else []
    )
    tables = {NAME: pd.DataFrame(table), "epochs": pd.DataFrame(_epochs(losses)), "runs": runs}
    return Findings(NAME, tables, facts(outcome), [*opening_sentences(outcome), *_sentences(runs, table, outcome)])


def _losses(study: Study, outcome: Outcome) -> pd.DataFrame:
    """A row a run and epoch."""
    known = outcome.cells[["key", "method", "repeat"]]
    return curve_table(study).merge(known, on="key").rename(columns={"repeat": "split"})


def _runs(losses: pd.DataFrame) -> pd.DataFrame:
    """A row a run: its lowest and last test loss, and its last training loss."""
    import pandas as pd

    rows = []
    for (method, split), epochs in losses.groupby(["method", "split"], sort=False):
        one = epochs.sort_values("epoch")
        watched = one[WATCHED].to_numpy()
        rows.append({
            "method": method, "split": split, "lowest": watched.min(), "lowest_epoch": int(watched.argmin()) + 1,
            "last": watched[-1], "rise": watched[-1] - watched.min(), "train_last": one["train_loss"].to_numpy()[-1],
        })  # fmt: skip
    return pd.DataFrame(rows)


def _summary(name: str, runs: pd.DataFrame) -> Row:
    row: Row = {"method": name, "splits": len(runs), "lowest_epoch": float(runs["lowest_epoch"].median())}
    for quantity in ("lowest", "last", "rise", "train_last"):
        row |= {quantity: runs[quantity].mean(), f"{quantity}_sd": runs[quantity].std(ddof=1)}
    return row


def _epochs(losses: pd.DataFrame) -> list[Row]:
    """A row a method, curve and epoch: the mean over splits, and where the middle 80 % lie."""
    rows = []
    for (method, epoch), one in losses.groupby(["method", "epoch"], sort=False):
        for curve in CURVES:
            if curve in one:
                low, high = np.quantile(one[curve], [0.1, 0.9])
                rows.append({"method": method, "curve": curve, "epoch": int(str(epoch)) + 1, "mean": one[curve].mean(),
                             "low": low, "high": high})  # fmt: skip
    return rows


def _sentences(runs: pd.DataFrame, table: list[Row], outcome: Outcome) -> list[str]:
    said = [
        f"{row['method']}: the test loss is lowest at epoch {row['lowest_epoch']:.0f} (median) with "
        f"{row['lowest']:.3f} and ends at {row['last']:.3f}, a rise of {row['rise']:.3f}; the training loss ends "
        f"at {row['train_last']:.3f}."
        for row in table
    ]
    rises = {name: runs[runs["method"] == name].sort_values("split") for name in METHODS}
    whole = [name for name, own in rises.items() if len(own) == outcome.study.spec.split.repeats]
    if REFERENCE not in whole or len(whole) < 2:
        return said
    ratio = float((outcome.cells["n_test"] / outcome.cells["n_train"]).mean())
    base = rises[REFERENCE]["rise"].to_numpy()
    p = corrected_t(base, ratio).p
    overfits = p <= ALPHA and base.mean() > 0
    said.append(
        f"Without augmentation the test loss {'rises' if overfits else 'does not rise'} beyond chance from its lowest "
        f"point to the last epoch (p = {p:.2g})."
    )
    found = compare({name: rises[name]["rise"].to_numpy() for name in whole}, REFERENCE, measure("loss"), ratio)
    for one in found:
        size = f"{one.gain:+.3f} less rise, p = {one.p_holm:.2g} after Holm"
        known = "overfits less" if one.gain > 0 else "overfits more"
        said.append(f"{one.method} {known} than none ({size})." if one.p_holm <= ALPHA
                    else f"{one.method}: no evidence that it overfits less or more than none ({size}).")  # fmt: skip
    return said
