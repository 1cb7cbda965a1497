"""Study I: is a mix the network that its label promises? With the controls that the paper's measurement lacks.

Three people are sorted by label; the outer two are mixed with the weight that gives the middle label, and the mix is
compared with the middle person. Whatever is closer to a person of any label as well says nothing about labels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rmixup.augment.quality import DISTANCES, MEAN, MIXES, label_distances, sorted_triples
from rmixup.study.presets.cohort import cohort, numbers
from rmixup.study.presets.findings import Findings
from rmixup.study.statistics import ALPHA, bootstrap_interval, corrected_t, effect_size

if TYPE_CHECKING:
    from rmixup.data.networks import Networks

TRIPLES, QUICK_TRIPLES = 1000, 100
REFERENCE, METHOD, SCALED, UNIT = MIXES
MIDDLE, ANYBODY = "the middle person", "any other person"
PUBLISHED = "L1"
By = dict[str, dict[str, dict[str, np.ndarray]]]
Row = dict[str, Any]


def compute(
    ds: Networks, *, nodes: int | None = None, regularizer: str | None = None, quick: bool = False, seed: int = 0
) -> Findings:
    """Measure label correctness over sorted triples.

    Parameters
    ----------
    ds : Networks with one number a person as label
    nodes : how many nodes to draw; None: all
    regularizer : see `rmixup.study.presets.cohort.cohort`
    quick : a tenth of the triples
    seed : of triples and nodes

    Returns
    -------
    Findings with the tables "labels" (a row a distance, compared person and mix: mean distance, deviation, and the
    difference to the straight line with its interval, paired t test and effect size) and "contrast" (a row a distance:
    how much closer the log-Euclidean mix is to the middle person than to anybody).
    """
    import pandas as pd

    people = cohort(ds, nodes, regularizer, seed)
    triples = sorted_triples(numbers(people.ds, "labels"), QUICK_TRIPLES if quick else TRIPLES, seed)
    found: By = {
        MIDDLE: label_distances(people.S, triples, triples.middle),
        ANYBODY: label_distances(people.S, triples, triples.other),
    }
    distances, contrast = _distances(found), _contrast(found)
    tables = {"labels": pd.DataFrame(distances), "contrast": pd.DataFrame(contrast)}
    facts = {**people.facts, "quick": quick, "triples": len(triples.lam), "target": people.ds.target}
    return Findings("labels", tables, facts, (*people.sentences, *_sentences(distances, contrast)))


def _distances(found: By) -> list[Row]:
    return [
        {"distance": name, "to": to, "mix": mix, **_against(found[to][mix][name], found[to][REFERENCE][name])}
        for name in DISTANCES
        for to in found
        for mix in (*MIXES, MEAN)
    ]


def _against(own: np.ndarray, reference: np.ndarray) -> dict[str, float]:
    difference = own - reference
    low, high = bootstrap_interval(difference / reference.mean())
    return {
        "mean": own.mean(),
        "deviation": own.std(ddof=1),
        "ratio": own.mean() / reference.mean(),
        "ratio_low": 1 + low,
        "ratio_high": 1 + high,
        "p": corrected_t(difference, 0.0).p,
        "effect": effect_size(difference),
        "closer": float((difference < 0).mean()),
    }


def _contrast(found: By) -> list[Row]:
    """Whether the log-Euclidean mix gains more on the middle person than on anybody: what can be owed to the label."""
    rows = []
    for name in DISTANCES:
        gains = {to: mixes[REFERENCE][name] - mixes[METHOD][name] for to, mixes in found.items()}
        more = gains[MIDDLE] - gains[ANYBODY]
        scale = found[MIDDLE][REFERENCE][name].mean()
        low, high = bootstrap_interval(100 * more / scale)
        rows.append({
            "distance": name,
            "gain_middle_percent": 100 * gains[MIDDLE].mean() / scale,
            "gain_anybody_percent": 100 * gains[ANYBODY].mean() / scale,
            "difference_percent": 100 * more.mean() / scale,
            "low": low,
            "high": high,
            "p": corrected_t(more, 0.0).p,
            "effect": effect_size(more),
        })  # fmt: skip
    return rows


def _sentences(distances: list[Row], contrast: list[Row]) -> list[str]:
    """What was found, in the order of the argument: the published figure, its controls, the verdict."""
    to_middle = {(row["distance"], row["mix"]): row for row in distances if row["to"] == MIDDLE}
    l1 = {mix: to_middle[PUBLISHED, mix] for mix in (*MIXES, MEAN)}
    straight, geodesic, mean = l1[REFERENCE], l1[METHOD], l1[MEAN]["mean"]
    return [
        f"By the paper's measure (L1 over all entries) the log-Euclidean mix lies at {geodesic['mean']:.4g} from the "
        f"middle person, the straight one at {straight['mean']:.4g}: {_percent(1 - geodesic['ratio'])} (paired t test, "
        f"p {_p(geodesic['p'])}, effect {geodesic['effect']:+.2f}).",
        f"The straight mix scaled to the same mean diagonal lies at {l1[SCALED]['mean']:.4g}; the log-Euclidean mix "
        f"brought back to a unit diagonal at {l1[UNIT]['mean']:.4g}.",
        f"The mean of all other networks, which knows no label, lies at {mean:.4g}, "
        + ("closer than either." if mean < min(straight["mean"], geodesic["mean"]) else "not closer than both."),
        _by_distance({name: to_middle[name, METHOD] for name in DISTANCES}),
        _verdict(next(row for row in contrast if row["distance"] == PUBLISHED)),
    ]


def _percent(gain: float) -> str:
    return f"{abs(100 * gain):.1f} % {'closer' if gain > 0 else 'further away'}"


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"= {value:.2g}"


def _by_distance(of_method: dict[str, Row]) -> str:
    clear = {name: row["ratio"] for name, row in of_method.items() if row["p"] <= ALPHA}
    closer = ", ".join(f"{name} ({_percent(1 - ratio)})" for name, ratio in clear.items() if ratio < 1)
    further = ", ".join(f"{name} ({_percent(1 - ratio)})" for name, ratio in clear.items() if ratio >= 1)
    return (
        f"The log-Euclidean mix is closer to the middle person than the straight one by {closer or 'no distance'}, and "
        f"further away by {further or 'none'}"
        + (": the answer depends on the distance." if closer and further else ".")
    )


def _verdict(l1: Row) -> str:
    found = (
        f"By L1, the log-Euclidean mix gains {l1['gain_middle_percent']:.2f} % over the straight one on the person "
        f"whose label it has, and {l1['gain_anybody_percent']:.2f} % on a person of any label (difference "
        f"{l1['difference_percent']:+.2f} points, 95 % interval {l1['low']:+.2f} to {l1['high']:+.2f}, "
        f"p {_p(l1['p'])}): "
    )
    if not l1["p"] <= ALPHA:
        return f"{found}no evidence that the gain has to do with labels, against the paper's reading."
    if l1["difference_percent"] > 0:
        return f"{found}a part of the gain belongs to the label, as the paper says."
    return f"{found}the gain is larger on people of any label, against the paper's reading."
