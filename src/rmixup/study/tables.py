"""The numbers of a study as tables: a row a cell, and for each setting every method beside its reference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from rmixup.errors import DataError
from rmixup.study.cells import Cell
from rmixup.study.project import Study
from rmixup.study.statistics import (
    NAN,
    Comparison,
    Floats,
    Ranking,
    bootstrap_interval,
    compare,
    measure,
    ranks,
    verdict,
)

# Which score a study is judged by, where nobody says: the first of these that its cells have.
PREFERRED = ("auroc", "mse", "accuracy")
_REFERENCE = "none"
_WHAT = ("key", "method", "backbone", "baseline", "train_size", "length", "repeat", "fold", "seed")
_COLUMNS = (*_WHAT, "state", "reason", "seconds")


@dataclass(frozen=True)
class Row:
    """One method in one setting: its scores over the splits, in the score's own scale.

    `mean` and `sd` are NaN where a split has no score; `missing` says why, by number of splits. `baseline`: whether it
    is a linear model that stands beside the others.
    """

    method: str
    values: Floats
    mean: float
    sd: float
    interval: tuple[float, float]
    missing: dict[str, int]
    ranking: Ranking
    baseline: bool = False


@dataclass(frozen=True)
class Setting:
    """One backbone, training size and series length: every method and the linear baselines on the same splits."""

    backbone: str
    train_size: float
    length: int | None
    score: str
    reference: str
    rows: list[Row]
    comparisons: list[Comparison]

    @property
    def verdicts(self) -> list[str]:
        """A sentence for each method but the reference."""
        return [verdict(comparison) for comparison in self.comparisons]

    @property
    def baselines(self) -> frozenset[str]:
        """The methods that are linear baselines."""
        return frozenset(row.method for row in self.rows if row.baseline)


def cell_table(study: Study) -> pd.DataFrame:
    """A row a cell: what it is, its state (done, failed, missing), reason, sizes, scores, seconds.

    Every cell that is read is checked against its checksums first.
    """
    store, failures = study.store, study.store.failures()
    rows = []
    for cell in study.cells:
        row = _describe(cell)
        if store.has(cell.key):
            record = store.read(cell.key)
            sizes = {f"n_{part}": n for part, n in record.sizes.items()}
            row |= {"state": "done", "seconds": record.timings["seconds"], **sizes, **record.scores}
        elif cell.key in failures:
            row |= {"state": "failed", "reason": failures[cell.key].reason}
        rows.append(row)
    return pd.DataFrame(rows)


def _describe(cell: Cell) -> dict[str, Any]:
    place = (cell.train_size, cell.length, cell.repeat, cell.fold, cell.seed)
    names = (cell.key, str(cell.method), str(cell.backbone), cell.is_baseline)
    return dict(zip(_COLUMNS, (*names, *place, "missing", None, NAN), strict=True))


def labels(table: pd.DataFrame) -> pd.Series[str]:
    """What the cells of a table are called: by their method, or by the linear baseline they are.

    One name stands for both a method and a baseline (tangent): where a study has both, the baseline says so.
    """
    methods = table.loc[~table["baseline"], "method"].unique()
    named = table["backbone"].where(~table["backbone"].isin(methods), table["backbone"] + " (baseline)")
    return table["method"].where(~table["baseline"], named)


def score_names(table: pd.DataFrame) -> list[str]:
    """Scores that the finished cells have, those people look at first in front."""
    known = [*_COLUMNS, "n_train", "n_validation", "n_test"]
    found = [str(name) for name in table.columns if name not in known]
    return sorted(found, key=lambda name: (PREFERRED.index(name) if name in PREFERRED else len(PREFERRED), name))


def settings(study: Study, score: str | None = None, table: pd.DataFrame | None = None) -> list[Setting]:
    """Every setting of a study with its rows and comparisons by one score; none before a cell is done.

    Parameters
    ----------
    score : which one; by default the first of `score_names`.
    table : from `cell_table`, where it is at hand.
    """
    table = cell_table(study) if table is None else table
    names = score_names(table)
    if not names:
        return []
    chosen = score or names[0]
    if chosen not in names:
        raise DataError(f"no cell has a score {chosen!r}; there are: {', '.join(names)}")
    return [_setting(*place, chosen, part) for place, part in _parts(study, table)]


def _parts(study: Study, table: pd.DataFrame) -> Iterator[tuple[tuple[str, float, int | None], pd.DataFrame]]:
    """The rows of each setting, in the order of the spec; baselines stand in every one of their size and length."""
    cells = [cell for cell in study.cells if not cell.is_baseline]
    places = dict.fromkeys((str(cell.backbone), cell.train_size, cell.length) for cell in cells)
    for backbone, train_size, length in places:
        at_length = table["length"].isna() if length is None else table["length"] == length
        same = (table["train_size"] == train_size) & at_length
        yield (backbone, train_size, length), table[same & (table["baseline"] | (table["backbone"] == backbone))]


def _setting(backbone: str, train_size: float, length: int | None, score: str, part: pd.DataFrame) -> Setting:
    part = part.assign(label=labels(part))
    baselines = dict(zip(part["label"], part["baseline"], strict=True))
    reference = _REFERENCE if _REFERENCE in baselines else next(iter(baselines))
    measured = measure(score)
    values = {label: _by_split(part[part["label"] == label], score) for label in baselines}
    missing = {label: _missing(part[part["label"] == label], score) for label in baselines}
    ranking = ranks(values, measured.higher_is_better)
    rows = [_row(label, values[label], missing[label], ranking[label], bool(b)) for label, b in baselines.items()]
    ratio = float((part["n_test"] / part["n_train"]).mean())
    comparisons = compare(values, reference, measured, ratio, missing)
    return Setting(backbone, train_size, length, score, reference, rows, comparisons)


def _by_split(part: pd.DataFrame, score: str) -> Floats:
    """One score a split: the mean over its seeds, undefined where one of them is."""
    split = part.groupby(["repeat", "fold"], sort=True)[score]
    return np.asarray(split.agg(lambda scores: scores.mean(skipna=False)), dtype=float)


def _missing(part: pd.DataFrame, score: str) -> dict[str, int]:
    """Reason -> number of splits that lack a score for it."""
    lacking = part[part[score].isna()]
    why = lacking["reason"].where(lacking["state"] == "failed", lacking["state"])
    why = why.where(lacking["state"] != "done", "score undefined").replace("missing", "not run yet")
    first = why.groupby([lacking["repeat"], lacking["fold"]], sort=True).first()
    return dict(Counter(map(str, first)))


def _row(label: str, values: Floats, missing: dict[str, int], ranking: Ranking, baseline: bool) -> Row:
    sd = float(values.std(ddof=1)) if len(values) > 1 else NAN
    return Row(label, values, float(values.mean()), sd, bootstrap_interval(values), missing, ranking, baseline)


def curve_table(study: Study) -> pd.DataFrame:
    """A row an epoch of each finished cell: key, epoch, curves."""
    return _stacked(study, "curves", "epoch")


def prediction_table(study: Study) -> pd.DataFrame:
    """A row a test subject of each finished cell: key, subject, truth, predictions."""
    return _stacked(study, "predictions", "row")


def _stacked(study: Study, what: str, counter: str) -> pd.DataFrame:
    store = study.store
    parts = []
    for cell in study.cells:
        if store.has(cell.key):
            columns = getattr(store.read(cell.key), what)
            length = len(next(iter(columns.values()), []))
            parts.append(pd.DataFrame({"key": [cell.key] * length, counter: range(length), **columns}))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame({"key": [], counter: []})


def summary_table(found: list[Setting]) -> pd.DataFrame:
    """A row a method of each setting: mean, sd, interval, rank, wins, missing splits."""
    return pd.DataFrame([_summary(setting, row) for setting in found for row in setting.rows])


def _summary(setting: Setting, row: Row) -> dict[str, Any]:
    low, high = row.interval
    return {
        "backbone": setting.backbone,
        "train_size": setting.train_size,
        "length": setting.length,
        "score": setting.score,
        "method": row.method,
        "splits": len(row.values),
        "mean": row.mean,
        "sd": row.sd,
        "low": low,
        "high": high,
        "mean_rank": row.ranking.mean_rank,
        "wins": row.ranking.wins,
        "missing": "; ".join(f"{reason} {count}×" for reason, count in sorted(row.missing.items())),
    }


def comparison_table(found: list[Setting]) -> pd.DataFrame:
    """A row a comparison of each setting, with its tests, bounds and verdict."""
    return pd.DataFrame([_compared(setting, one) for setting in found for one in setting.comparisons])


def _compared(setting: Setting, one: Comparison) -> dict[str, Any]:
    low, high = one.interval
    same = ("method", "reference", "splits", "gain", "p", "p_holm", "p_wilcoxon", "effect", "wins", "losses")
    return {
        "backbone": setting.backbone,
        "train_size": setting.train_size,
        "length": setting.length,
        "score": setting.score,
        **{name: getattr(one, name) for name in same},
        "unit": one.measure.unit,
        "low": low,
        "high": high,
        "excluded_gain": one.excluded_gain,
        "excluded_loss": one.excluded_loss,
        "verdict": verdict(one),
    }
