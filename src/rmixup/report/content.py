"""The words and tables of a report, as plain values for the template. May not be here: HTML, drawing, statistics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from rmixup import __version__
from rmixup.data.doctor import Finding, concerned
from rmixup.report.answer import place
from rmixup.report.names import short, visible
from rmixup.report.numbers import NONE, number, p_value, score
from rmixup.report.predictions import SiteScores
from rmixup.study.project import Study
from rmixup.study.statistics import ALPHA, Comparison, measure
from rmixup.study.tables import Row, Setting, labels

VERSION = __version__
PRINCIPAL = 3
_LONG = 300
_FAILURES = 50
_SITES = 100

HOW_COMPARED = (
    "Every method was trained and tested on the same splits. “linear” and “tangent” (“tangent (baseline)” beside the "
    "augmentation of that name) are linear models of the edges and in tangent space, without augmentation. Gains are "
    "means of paired differences; p values are of the corrected resampled t test of Nadeau and Bengio, adjusted by "
    "Holm over the methods of a table (not over tables). “Excluded” is the one-sided 95 % bound: a larger gain, or a "
    "larger loss, can be excluded. Intervals are bootstrap intervals of the mean over splits."
)
HOW_SEVERAL = "Below the tables stand the comparisons of them with evidence of a gain or a loss, where there are any."
HOW_SPLITS = (
    "A dot is one split; a grey line joins what was measured on the same split. In the panels of gains, the pale bar "
    "is what the corrected test cannot exclude, and the dark bar is the mean; right of the line is better."
)
HOW_CURVES = (
    "Mean loss over all runs of a method; the band holds the middle 80 % of them. The reported epoch is the best one "
    "on the validation part. The training loss is of augmented networks, where there is augmentation."
)
HOW_CALIBRATION = (
    "Predictions of all test parts in ten bins of equal number, with Wilson's 95 % intervals; on the dashed line, "
    "probabilities are what they say. People who were tested on several splits count each time."
)
HOW_REGRESSION = "Predictions of all test parts; on the dashed line they are right. People count once a split."
HOW_SITES = {
    "auroc": "Pairs of people of one site with different labels, tested on the same split: the share in the right "
    "order. A dash: a site that never had both labels in a test part.",
    "accuracy": "The share of a site's test predictions that are right.",
    "mse": "The mean squared error of a site's test predictions.",
}
HOW_MADE = (
    "Two networks of the data, chosen at random (of different classes where there are classes), and what lies halfway "
    "between them: along a straight line, as ordinary mixup goes, and along the log-Euclidean geodesic, as R-Mixup "
    "goes. Along straight lines the determinant swells, often above both ends; along geodesics it does not, but the "
    "diagonal shrinks."
)

_PAPER = (
    "Kan X, Li Z, Cui H, Yu Y, Xu R, Yu S, Zhang Z, Guo Y, Yang C. R-Mixup: Riemannian Mixup for Biological Networks. "
    "Proceedings of the 29th ACM SIGKDD Conference on Knowledge Discovery and Data Mining, 2023. "
    "doi:10.1145/3580305.3599483"
)
_SOFTWARE = (
    f"The rmixup developers. rmixup: augment, model and evaluate networks measured on few samples, version {VERSION}."
)


@dataclass(frozen=True)
class Cell:
    """What stands in a table, and by which number it is sorted where it is one."""

    text: str
    value: float | None = None


@dataclass(frozen=True)
class Table:
    """A table; the first cell of a row names it. Columns of `numeric` names are set to the right."""

    name: str
    caption: str
    columns: list[str]
    rows: list[list[Cell]]
    numeric: frozenset[str] = field(default_factory=frozenset)
    marked: frozenset[int] = field(default_factory=frozenset)


# --- results


def scores(setting: Setting) -> Table:
    """Every method of a setting beside its reference."""
    measured = measure(setting.score)
    unit = f" ({measured.unit})" if measured.unit else ""
    columns = [
        "method", f"{setting.score}, mean ± sd", "95 % interval", f"gain{unit}", "p (Holm)", "gain excluded above",
        "loss excluded above", "mean rank", "best on", "missing",
    ]  # fmt: skip
    compared = {one.method: one for one in setting.comparisons}
    rows = [[*_scored(row, setting.score), *_compared(compared.get(row.method)), *_ranked(row)] for row in setting.rows]
    direction = "higher is better" if measured.higher_is_better else "lower is better"
    splits = len(setting.rows[0].values)
    caption = (
        f"{place(setting)}: {setting.score} ({direction}) on {splits} paired splits, against {short(setting.reference)}"
    )
    reference = next(k for k, row in enumerate(setting.rows) if row.method == setting.reference)
    name = f"scores-{short(setting.backbone)}-{setting.train_size:g}-{setting.length}"
    return Table(name, caption, columns, rows, frozenset(columns[1:]), frozenset([reference]))


def _scored(row: Row, name: str) -> list[Cell]:
    measured = measure(name)
    low, high = (score(end, measured) for end in row.interval)
    spread = score(row.sd, measured)
    mean = Cell(f"{score(row.mean, measured)} ± {spread}" if np.isfinite(row.mean) else NONE, row.mean)
    return [Cell(short(row.method)), mean, Cell(NONE if low == NONE else f"{low} to {high}", row.interval[0])]


def _compared(one: Comparison | None) -> list[Cell]:
    if one is None:
        return [Cell("reference"), *[Cell("")] * 3]
    bounds = (max(0.0, one.excluded_gain), max(0.0, one.excluded_loss)) if np.isfinite(one.p) else (np.nan, np.nan)
    ends = [Cell(number(bound), bound) for bound in bounds]
    gain = Cell(number(one.gain, sign=True), one.gain)
    return [gain, Cell(p_value(one.p_holm), one.p_holm), *ends]


def _ranked(row: Row) -> list[Cell]:
    rank, wins = row.ranking.mean_rank, row.ranking.wins
    missing = "; ".join(f"{visible(why)} {count}×" for why, count in sorted(row.missing.items()))
    return [Cell(number(rank), rank), Cell(number(wins, 1), wins), Cell(missing or "0", sum(row.missing.values()))]


def verdicts(found: Sequence[Setting]) -> list[str]:
    """The sentence of each comparison; of several settings those alone that show anything, with where."""
    if len(found) == 1:
        return [_typeset(sentence) for sentence in found[0].verdicts]
    return [
        f"{place(setting)}: {_typeset(sentence)}"
        for setting in found
        for one, sentence in zip(setting.comparisons, setting.verdicts, strict=True)
        if one.p_holm <= ALPHA
    ]


def _typeset(sentence: str) -> str:
    return visible(sentence).replace("(-", "(−")


# --- sites


def site_frame(found: SiteScores) -> pd.DataFrame:
    """Scores at each site, a row a site, unrounded."""
    return pd.DataFrame({"site": found.sites, "predictions": found.counts, **found.values})


def sites(found: SiteScores) -> Table:
    """The same for people."""
    columns = ["site", "predictions", *map(short, found.values)]
    rows = [_at_site(found, k) for k in range(min(_SITES, len(found.sites)))]
    more = f", the {_SITES} largest of {len(found.sites)}" if len(found.sites) > _SITES else ""
    caption = f"{found.score} at each site{more}"
    return Table("sites", caption, columns, rows, frozenset(columns[1:]))


def _at_site(found: SiteScores, k: int) -> list[Cell]:
    measured, count = measure(found.score), int(found.counts[k])
    values = [float(scores[k]) for scores in found.values.values()]
    return [Cell(short(found.sites[k])), _count(count), *(Cell(score(value, measured), value) for value in values)]


# --- data


def findings(found: Iterable[Finding]) -> Table:
    """What the doctor found."""
    rows = [[Cell(one.code), Cell(one.severity), *map(Cell, _told(one))] for one in found]
    columns = ["finding", "severity", "what", "who or where", "what to do"]
    return Table("findings", "Findings of rmixup check", columns, rows)


def _told(one: Finding) -> list[str]:
    return [visible(one.message), short(concerned(one), _LONG), visible(one.remedy)]


# --- how it was done


def states(cells: pd.DataFrame) -> Table:
    """How many cells are done, failed or missing, method by method."""
    label = labels(cells)
    counts = pd.crosstab(label, cells["state"]).reindex(index=list(dict.fromkeys(label)))
    kinds = ["done", "failed", "missing"]
    rows = [
        [Cell(short(method)), *(_count(int(counts.get(kind, {}).get(method, 0))) for kind in kinds)]
        for method in counts.index
    ]
    return Table(
        "states", "Cells: one is one method on one split with one seed", ["method", *kinds], rows, frozenset(kinds)
    )


def _count(number_of: int) -> Cell:
    return Cell(str(number_of), float(number_of))


def failures(study: Study) -> list[Table]:
    """Which cells failed and why; nothing where none did."""
    names = {cell.key: str(cell) for cell in study.cells}
    failed = [(key, why) for key, why in study.store.failures().items() if key in names]
    rows = [
        [Cell(short(names[key], 120)), Cell(visible(why.reason)), Cell(short(why.message, _LONG))]
        for key, why in failed
    ]
    more = f", the first {_FAILURES} of {len(rows)}" if len(rows) > _FAILURES else ""
    table = Table("failures", f"Cells that failed{more}", ["cell", "reason", "message"], rows[:_FAILURES])
    return [table] if rows else []


def protocol(study: Study) -> Table:
    """The whole spec, flat."""
    facts = _flat(study.spec.model_dump(exclude_none=True))
    settings = {f"run.{name}": value for name, value in vars(study.settings).items()}
    rows = [[Cell(short(name)), Cell(short(_said(value), _LONG))] for name, value in {**facts, **settings}.items()]
    return Table("protocol", "Settings", ["setting", "value"], rows)


def _flat(value: Mapping[str, Any], start: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, item in value.items():
        found |= _flat(item, f"{start}{name}.") if isinstance(item, Mapping) else {f"{start}{name}": item}
    return found


def _said(value: Any) -> str:
    """A value of a spec in words; a choice as its name with its options."""
    if isinstance(value, Mapping):
        options = [f"{name}={_said(item)}" for name, item in value.items() if name != "name"]
        return " ".join([str(value.get("name", "")), *options]).strip()
    return ", ".join(map(_said, value)) if isinstance(value, list | tuple) else str(value)


def versions(study: Study) -> Table:
    """What the numbers may depend on: data, versions, machine."""
    data = {"data, SHA-256": study.data.sha256, "people": study.data.subjects, "groups": study.data.groups}
    about = {**data, **study.environment, "run by": study.work, "report written by rmixup": VERSION}
    rows = [[Cell(name), Cell(short(value, 80))] for name, value in about.items()]
    return Table("versions", "Data, versions, machine", ["what", "value"], rows)


def changes(study: Study) -> list[str]:
    """What was changed on request while the study ran."""
    told = [
        f"{visible(name)} was {short(change[name]['was'])} and is {short(change[name]['is'])}"
        for change in study.allowed
        for name in change
    ]
    return [f"Changed on request while the study ran: {'; '.join(told)}."] if told else []


def citations() -> list[str]:
    """The software and the paper it implements."""
    return [_SOFTWARE, _PAPER]
