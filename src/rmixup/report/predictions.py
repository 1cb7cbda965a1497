"""What the predictions of a study's test parts say beyond one score: calibration, and scores at each site.

A cell's predictions have a row a test subject: `truth` (the name of the class, or the number), and the output: one
probability a class (columns `p_NAME`, or `p` alone for class 1), or `predicted`. Of several numbers (`truth_0`, …) the
first is looked at. Other columns are people's names and sites. What may not be here: drawing, files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from rmixup.study.statistics import NAN

Floats = NDArray[np.float64]
_SITES = ("group", "site")
_BINS = 10


@dataclass(frozen=True)
class Predicted:
    """Test predictions of one model on one split.

    Parameters
    ----------
    truth : (N,) class codes, or numbers.
    outputs : (N, C) class probabilities, or (N, 1) numbers.
    classes : names of the classes in the order of their codes; empty for regression.
    sites : (N,) text, or None where none are known.
    """

    truth: Floats
    outputs: Floats
    classes: tuple[str, ...]
    sites: NDArray[np.str_] | None


def read(columns: Mapping[str, Sequence[Any]]) -> Predicted | None:
    """The predictions of one cell; None where its columns do not tell what was predicted.

    >>> found = read({"subject": ["s1", "s2"], "truth": [0, 1], "p": [0.25, 0.75]})
    >>> found.outputs.tolist(), found.classes
    ([[0.75, 0.25], [0.25, 0.75]], ('0', '1'))
    """
    names, outputs = _outputs(columns)
    told = next((columns[name] for name in ("truth", "truth_0") if name in columns), None)
    if outputs is None or told is None:
        return None
    truth = _codes(told, names)
    where = next((name for name in _SITES if name in columns), None)
    sites = None if where is None else np.array([str(site) for site in columns[where]], dtype=np.str_)
    return None if truth is None else Predicted(truth, outputs, names, sites)


def _outputs(columns: Mapping[str, Sequence[Any]]) -> tuple[tuple[str, ...], Floats | None]:
    each = [name for name in columns if name.startswith("p_")]
    if each:
        return tuple(name.removeprefix("p_") for name in each), np.array([columns[name] for name in each], float).T
    if "p" in columns:
        p = np.asarray(columns["p"], float)
        return ("0", "1"), np.stack([1 - p, p], 1)
    number = next((columns[name] for name in ("predicted", "predicted_0") if name in columns), None)
    return (), None if number is None else np.asarray(number, float)[:, None]


def _codes(truth: Sequence[Any], classes: tuple[str, ...]) -> Floats | None:
    """Truths as numbers; names of classes become their codes."""
    if not any(isinstance(value, str) for value in truth):
        return np.asarray(truth, float)
    position = {name: float(code) for code, name in enumerate(classes)}
    known = all(value in position for value in truth)
    return np.array([position[value] for value in truth]) if known else None


# --- calibration


@dataclass(frozen=True)
class Calibration:
    """Predicted probabilities against what happened, in bins of equal number.

    Parameters
    ----------
    predicted, happened : (B,) mean probability and share of each bin.
    low, high : (B,) Wilson's 95 % interval of the share.
    counts : (B,) predictions in each bin.
    error : expected calibration error, the mean distance of the two weighted by count.
    """

    predicted: Floats
    happened: Floats
    low: Floats
    high: Floats
    counts: NDArray[np.int64]
    error: float


def calibration(parts: Sequence[Predicted], bins: int = _BINS) -> Calibration:
    """Calibration over all test parts of a method: of class 1 in a binary task, of the predicted class otherwise.

    >>> one = Predicted(np.array([0.0, 1.0]), np.array([[0.9, 0.1], [0.1, 0.9]]), ("a", "b"), None)
    >>> calibration([one]).error.__round__(3)
    0.1
    """
    p, hit = (np.concatenate(each) for each in zip(*map(_events, parts), strict=True))
    order = np.argsort(p, kind="stable")
    groups = [group for group in np.array_split(order, min(bins, len(p))) if len(group)]
    predicted = np.array([p[group].mean() for group in groups])
    happened = np.array([hit[group].mean() for group in groups])
    counts = np.array([len(group) for group in groups])
    low, high = _wilson(happened, counts)
    error = float(counts @ np.abs(predicted - happened) / counts.sum())
    return Calibration(predicted, happened, low, high, counts, error)


def _events(part: Predicted) -> tuple[Floats, Floats]:
    if part.outputs.shape[1] == 2:
        return part.outputs[:, 1], (part.truth == 1).astype(float)
    return part.outputs.max(1), (part.outputs.argmax(1) == part.truth).astype(float)


def _wilson(share: Floats, count: NDArray[np.int64], z: float = 1.96) -> tuple[Floats, Floats]:
    """Wilson's interval of shares (B,) of counts (B,)."""
    middle = (share + z**2 / (2 * count)) / (1 + z**2 / count)
    half = z / (1 + z**2 / count) * np.sqrt(share * (1 - share) / count + z**2 / (4 * count**2))
    return middle - half, middle + half


# --- sites


@dataclass(frozen=True)
class SiteScores:
    """Scores of every method at every site.

    Parameters
    ----------
    score : "auroc", "accuracy" or "mse".
    sites : names, the largest first.
    counts : (S,) predictions a method made at each site, over all splits.
    values : method -> (S,) scores, NaN where a site never had what the score needs.
    """

    score: str
    sites: list[str]
    counts: NDArray[np.int64]
    values: dict[str, Floats]


def by_site(methods: Mapping[str, Sequence[Predicted]]) -> SiteScores | None:
    """Scores at each site, None where no sites are known.

    An AUROC compares only people of one site in one split, because scores of different models are on different
    scales: of all such pairs with different labels, the share in the right order.
    """
    known = {name: [part for part in parts if part.sites is not None] for name, parts in methods.items()}
    known = {name: parts for name, parts in known.items() if parts}
    if not known:
        return None
    first = next(iter(known.values()))
    names, counts = np.unique(np.concatenate([_sites(part) for part in first]), return_counts=True)
    order = np.argsort(-counts, kind="stable")
    score, of = _SCORES[_kind(first[0])]
    values = {name: np.array([of(parts, site) for site in names[order]]) for name, parts in known.items()}
    return SiteScores(score, names[order].tolist(), counts[order], values)


def _sites(part: Predicted) -> NDArray[np.str_]:
    assert part.sites is not None
    return part.sites


def _kind(part: Predicted) -> str:
    return "binary" if len(part.classes) == 2 else "classes" if part.classes else "numbers"


def _auroc(parts: Sequence[Predicted], site: str) -> float:
    """Share of pairs in order, over the splits; NaN without a pair."""
    right, pairs = 0.0, 0
    for part in parts:
        here = _sites(part) == site
        p, positive = part.outputs[here, 1], part.truth[here] == 1
        n, m = int(positive.sum()), int((~positive).sum())
        right += float(rankdata(p)[positive].sum()) - n * (n + 1) / 2
        pairs += n * m
    return right / pairs if pairs else NAN


def _accuracy(parts: Sequence[Predicted], site: str) -> float:
    return _mean([(part.outputs.argmax(1) == part.truth)[_sites(part) == site] for part in parts])


def _mse(parts: Sequence[Predicted], site: str) -> float:
    return _mean([((part.outputs[:, 0] - part.truth) ** 2)[_sites(part) == site] for part in parts])


def _mean(values: Sequence[NDArray[Any]]) -> float:
    joined = np.concatenate(values)
    return float(joined.mean()) if len(joined) else NAN


_SCORES = {"binary": ("auroc", _auroc), "classes": ("accuracy", _accuracy), "numbers": ("mse", _mse)}
