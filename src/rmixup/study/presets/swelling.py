"""Study G: what a geometry does to the size of networks, and what each method's networks look like beside real ones.

Determinant, trace and condition number along the geodesics between random pairs of people; then, for the networks that
each method makes, their drift from their parents, their distance to the nearest real person, and whether a classifier
still tells the site that they come from.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from rmixup import keys
from rmixup.augment import Augmentation, Mixing, as_augmentation
from rmixup.augment.quality import drift, groups_told, nearest, sizes
from rmixup.spd.correlation import unit_diagonal
from rmixup.spd.metrics import METRICS, Position
from rmixup.spd.swelling import Geodesic, Profile, profile, swells
from rmixup.study.presets.cohort import Cohort, cohort
from rmixup.study.presets.findings import Findings

if TYPE_CHECKING:
    from rmixup.data.networks import Networks

PAIRS, QUICK_PAIRS = 100, 20
POSITIONS = np.linspace(0, 1, 21)
MADE, QUICK_MADE = 300, 60
# Geometries that the paper says swell.
SAID_TO_SWELL = ("euclid", "chol", "wasserstein")
# A group needs so many people, so that both halves, the classifier's and the mixed one, have a pair.
GROUP_MEMBERS = 4
# By the name they are shown under.
METHODS: dict[str, Augmentation] = {
    **{name: as_augmentation(name, per="pair") for name in ("vmixup", "dmixup", "gmixup", "rmixup", "tangent")},
    "rmixup, unit diagonal": as_augmentation("rmixup", per="pair", unit_diagonal=True),
    **{name: as_augmentation(name) for name in ("dropnode", "dropedge")},
}
REAL = "real people"
# A real network is its own parent.
OF_REAL = {
    "network": REAL, "positive_definite": 1.0, "swelling": 0.0, "log_det": 0.0, "diagonal": 0.0, "condition": 1.0,
    "nearest": 1.0,
}  # fmt: skip
Row = dict[str, Any]


def compute(
    ds: Networks, *, nodes: int | None = None, regularizer: str | None = None, quick: bool = False, seed: int = 0
) -> Findings:
    """Measure sizes along geodesics, and the quality of made networks.

    Parameters
    ----------
    ds : Networks, labelled or not, with groups (sites) or without
    nodes : how many nodes to draw; None: all
    regularizer : see `rmixup.study.presets.cohort.cohort`
    quick : a fifth of the pairs and of the made networks
    seed : of pairs, made networks and nodes

    Returns
    -------
    Findings with the tables "swelling" (a row a geometry), "path" (a row a geometry and position: medians and
    quartiles over pairs, for the figure) and "made" (a row a method).
    """
    import pandas as pd

    people = cohort(ds, nodes, regularizer, seed)
    pairs = _pairs(len(people.S), QUICK_PAIRS if quick else PAIRS, seed)
    A, B = (people.S[torch.from_numpy(side)] for side in pairs)
    paths = {name: profile(A, B, geodesic, POSITIONS) for name, geodesic in geodesics().items()}
    count = QUICK_MADE if quick else MADE
    made = _made(people, count, seed)
    sizes_along = _swelling(paths, people.S.shape[-1])
    tables = {
        "swelling": pd.DataFrame(sizes_along),
        "path": pd.DataFrame(_path(paths, people.S.shape[-1])),
        "made": pd.DataFrame(made),
    }
    facts = {**people.facts, "quick": quick, "pairs": len(A), "made": count}
    return Findings("swelling", tables, facts, (*people.sentences, *_sentences(sizes_along, made)))


def geodesics() -> dict[str, Geodesic]:
    """Every geometry's, and the log-Euclidean one rescaled to correlation matrices.

    >>> list(geodesics())[-1]
    'logeuclid, unit diagonal'
    """
    return {**{name: metric.geodesic for name, metric in METRICS.items()}, "logeuclid, unit diagonal": _rescaled}


def _rescaled(A: Tensor, B: Tensor, t: Position) -> Tensor:
    return unit_diagonal(METRICS["logeuclid"].geodesic(A, B, t))


def _pairs(people: int, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of different people; nobody is in two pairs while there are enough."""
    rng = keys.generator(seed, "pairs", people)
    rounds = [rng.permutation(people)[: people // 2 * 2].reshape(-1, 2) for _ in range(-(-count // (people // 2)))]
    chosen = np.concatenate(rounds)[:count]
    return chosen[:, 0], chosen[:, 1]


# --- along geodesics


def _swelling(paths: dict[str, Profile], nodes: int) -> list[Row]:
    middle = len(POSITIONS) // 2
    rows = []
    for name, along in paths.items():
        ends = np.maximum(along.log_det[0], along.log_det[-1])
        rows.append({
            "geometry": name,
            "said_to_swell": name in SAID_TO_SWELL,
            "swells": float(swells(along).mean()),
            "excess": float(np.median(along.log_det.max(0) - ends)),
            "log_det_above_line": float(np.median(_above_line(along.log_det)[middle])),
            "mean_diagonal": float(np.median(along.trace[middle]) / nodes),
            "condition_ratio": float(np.median(along.condition[middle] / along.condition[[0, -1]].max(0))),
        })  # fmt: skip
    return rows


def _above_line(log_det: np.ndarray) -> np.ndarray:
    """Log determinant (T, pairs) minus the straight line between its ends."""
    t = POSITIONS[:, None]
    return np.asarray(log_det - ((1 - t) * log_det[0] + t * log_det[-1]))


def _path(paths: dict[str, Profile], nodes: int) -> list[Row]:
    """Quartiles over pairs: a row a geometry, quantity and position."""
    rows = []
    for name, along in paths.items():
        for quantity, values in (("log_det", _above_line(along.log_det)), ("diagonal", along.trace / nodes)):
            for t, quartiles in zip(POSITIONS, np.quantile(values, [0.25, 0.5, 0.75], axis=1).T, strict=True):
                low, median, high = quartiles
                rows.append(
                    {"geometry": name, "quantity": quantity, "t": t, "low": low, "median": median, "high": high}
                )
    return rows


# --- made networks


def _made(people: Cohort, count: int, seed: int) -> list[Row]:
    """Quality of each method's networks; parents come from one half of the people, a site's classifier from the other.

    Where there are groups, partners are of the same group, so that a made network has one.
    """
    known, mixed, groups = _halves(people, seed)
    parents = people.S[torch.from_numpy(mixed)]
    own = None if groups is None else groups[mixed]
    told = None if groups is None else (people.S[torch.from_numpy(known)], groups[known])
    usual = np.median(nearest(parents, parents, apart=np.arange(len(mixed))))
    y = _labels(people.ds, mixed)
    rows: list[Row] = [{**OF_REAL, **_site(told, parents, own)}]
    for name, method in METHODS.items():
        paired = replace(method, pairs="same-group") if own is not None and isinstance(method, Mixing) else method
        prepared = paired.prepare(parents, y, own)
        first = keys.generator(seed, "made").integers(0, len(mixed), count)
        plan = prepared.draw(first, (seed, "made", name))
        made = prepared.apply(plan)[0]
        rows.append({
            "network": name,
            "positive_definite": float(np.isfinite(sizes(made).log_det).mean()),
            **{quantity: _median(values) for quantity, values in drift(made, parents, plan)._asdict().items()},
            "nearest": float(np.median(nearest(made, parents, np.stack([plan.i, plan.j], 1))) / usual),
            **_site(told, made, None if own is None else own[plan.i]),
        })  # fmt: skip
    return rows


def _median(values: np.ndarray) -> float:
    """The median, undefined unless every network is positive definite."""
    return float(np.median(values)) if np.isfinite(values).all() else float("nan")


def _halves(people: Cohort, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Rows of two halves, group by group, and the groups; groups of few people are left out."""
    rng = keys.generator(seed, "halves")
    groups = people.ds.groups
    if groups is None:
        order = rng.permutation(len(people.S))
        return order[: len(order) // 2], order[len(order) // 2 :], None
    sides: tuple[list[int], list[int]] = ([], [])
    for name in np.unique(groups):
        members = rng.permutation(np.flatnonzero(groups == name))
        if len(members) >= GROUP_MEMBERS:
            sides[0].extend(members[: len(members) // 2])
            sides[1].extend(members[len(members) // 2 :])
    if len(np.unique(groups[sides[0]])) < 2:
        return _halves(people._replace(ds=people.ds._derive(groups=None)), seed)
    return np.sort(sides[0]), np.sort(sides[1]), np.asarray(groups)


def _labels(ds: Networks, rows: np.ndarray) -> np.ndarray:
    """Labels for the methods that look at them; without any, gmixup's generators get a rising number."""
    return np.linspace(0, 1, len(rows)) if ds.y is None else np.asarray(ds.y[rows])


def _site(told: tuple[Tensor, Any] | None, networks: Tensor, groups: Any) -> Row:
    """The share of networks whose site the classifier tells, as the mean over sites; nothing without sites."""
    if told is None:
        return {}
    right = groups_told(*told, networks) == groups
    return {"site_told": float(np.mean([right[groups == name].mean() for name in np.unique(groups)]))}


# --- words


def _sentences(along: list[Row], made: list[Row]) -> list[str]:
    by_geometry = {row["geometry"]: row for row in along}
    shares = ", ".join(f"{name} {row['swells']:.0%}" for name, row in by_geometry.items())
    paper, unit = by_geometry["logeuclid"], by_geometry["logeuclid, unit diagonal"]
    return [
        f"The determinant exceeds both ends somewhere on the way for this share of pairs: {shares}.",
        *(
            f"Against the paper, {name} swells for {by_geometry[name]['swells']:.0%} of these pairs only: it can, but "
            "between these networks it mostly does not."
            for name in SAID_TO_SWELL
            if by_geometry[name]["swells"] < 0.5
        ),
        "The log-Euclidean geodesic does not swell because its mixes are smaller: their mean diagonal is "
        f"{paper['mean_diagonal']:.2f} halfway. Brought back to a unit diagonal, {unit['swells']:.0%} of pairs swell.",
        *_of_made({row["network"]: row for row in made}),
    ]


def _of_made(rows: dict[str, Row]) -> list[str]:
    real, straight, geodesic = rows[REAL], rows["vmixup"], rows["rmixup"]
    found = [
        f"From a log-Euclidean mix the nearest real person is {geodesic['nearest']:.2f} times as far as from a real "
        f"person, from a straight mix {straight['nearest']:.2f} times: "
        + (
            "mixes stand nearer to the middle of the cohort than people do."
            if max(geodesic["nearest"], straight["nearest"]) < 1
            else "mixes do not stand nearer to the middle of the cohort than people do."
        )
    ]
    if "site_told" in real:
        found.append(
            f"A linear classifier tells the site of {real['site_told']:.0%} of real people it has not seen (mean over "
            f"sites), of {straight['site_told']:.0%} of straight and {geodesic['site_told']:.0%} of log-Euclidean "
            "mixes made within a site."
        )
    return found
