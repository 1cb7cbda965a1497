"""Study D: how long must series be? SPD-ness over the first t frames, and performance over t.

For the SPD-ness series are cut, for the performance they are shortened by averaging blocks of frames, as in the paper:
cutting would throw the signal away with the rank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from rmixup import keys
from rmixup.errors import DataError
from rmixup.spd import spdness
from rmixup.study import material
from rmixup.study.presets.cohort import PUBLISHED_REGULARIZER
from rmixup.study.presets.findings import Findings
from rmixup.study.presets.published import SIZED_METHODS
from rmixup.study.presets.sample_size import along_sentences
from rmixup.study.presets.training import (
    Outcome,
    Row,
    build,
    compared,
    facts,
    mean_table,
    opening_sentences,
    split_table,
)

if TYPE_CHECKING:
    from rmixup.data.networks import Networks
    from rmixup.study.presets.opening import Opened
    from rmixup.study.project import Study
    from rmixup.study.spec import Data, Spec

NAME = "length"
LENGTHS, QUICK_LENGTHS = 8, 3
# Points of the curve of SPD-ness, and people it is the mean of.
POINTS, PEOPLE = 24, 200
_LEAST = 3
# Kinds whose rank is that of the series.
_PLAIN = ("correlation", "covariance")


def spec_for(found: Opened, *, quick: bool = False, repeats: int | None = None) -> Spec:
    """Four methods at lengths from a fraction of the shortest series to the whole of it."""
    needs_series(found.ds)
    assert found.ds.frames is not None
    longest = int(found.ds.frames.min())
    count = QUICK_LENGTHS if quick else LENGTHS
    lengths = np.unique(np.linspace(longest / count, longest, count).round().astype(int).clip(_LEAST))
    data = found.data.model_copy(update={"frames": None, "regularize": _regularizer(found.data, found.ds, lengths)})
    grid = {"methods": SIZED_METHODS, "lengths": lengths.tolist(), "shorten": "average"}
    return build(NAME, found._replace(data=data), grid, quick=quick, repeats=repeats)


def needs_series(ds: Networks) -> None:
    """Refuse networks that came as matrices."""
    if ds.series is None:
        raise DataError(
            "the study length needs series, but these data are matrices: import the series themselves "
            "(`rmixup import SERIES OUT`)"
        )


def _regularizer(data: Data, ds: Networks, lengths: Any) -> str | None:
    """A correlation of t frames has rank t - 1 at most, so short ones need the floor that long ones may not."""
    singular = int(lengths.min()) < ds.n_nodes + 1 and data.kind in _PLAIN
    return PUBLISHED_REGULARIZER if data.regularize is None and singular else data.regularize


def finish(study: Study) -> Findings:
    """Tables "length" (a row a length and method), "spdness" (a row a t), "comparisons" and "splits"."""
    import pandas as pd

    outcome = Outcome(study)
    curve = spdness_table(material.choose_nodes(outcome.ds, study.spec.data.nodes))
    tables = {
        NAME: pd.DataFrame(mean_table(outcome, ["length"])),
        "spdness": pd.DataFrame(curve),
        "comparisons": compared(outcome),
        "splits": split_table(outcome),
    }
    said = [*opening_sentences(outcome), *_of_spdness(curve), *along_sentences(outcome, "length")]
    return Findings(NAME, tables, facts(outcome), said)


def spdness_table(ds: Networks, people: int = PEOPLE, points: int = POINTS) -> list[Row]:
    """Mean SPD-ness of correlations of the first t frames, a row a t, with the bound that the rank sets.

    Only people whose series has t frames count at t. Regions that do not vary within t frames are left unconnected.
    """
    assert ds.series is not None
    rows = keys.generator(0, "spdness", len(ds)).permutation(len(ds))[:people]
    some = ds[np.sort(rows)]
    assert some.frames is not None
    n = some.n_nodes
    longest = int(some.frames.max())
    at = {*np.linspace(_LEAST, longest, points).round().astype(int).tolist(), *(t for t in (n, n + 1) if t <= longest)}
    found = []
    for t in sorted(at):
        long = some[some.frames >= t]
        S = long.connectivity("correlation", frames=t, constant="zero").matrices
        share = spdness(torch.tensor(S, dtype=torch.float64))
        found.append({
            "frames": t, "networks": len(long), "spdness": float(share.mean()),
            "positive_definite": float((share == 1).double().mean()), "bound": min(1.0, (t - 1) / n), "nodes": n,
        })  # fmt: skip
    return found


def _of_spdness(curve: list[Row]) -> list[str]:
    n = curve[0]["nodes"]
    full = [row["frames"] for row in curve if row["positive_definite"] == 1]
    below = [row for row in curve if row["frames"] <= n]
    said = []
    if below:
        held = all(row["positive_definite"] == 0 for row in below)
        said.append(
            f"Of {n} nodes, {'no network' if held else 'some network'} of t ≤ {n} frames is positive definite; "
            f"centring takes one rank, so t ≥ n + 1 = {n + 1} is needed, not t ≥ n."
        )
    said.append(
        f"From t = {full[0]} frames on all networks are positive definite."
        if full and full == [row["frames"] for row in curve if row["frames"] >= full[0]]
        else f"At no length up to t = {curve[-1]['frames']} frames are all networks positive definite."
        if not full
        else f"All networks are positive definite at some lengths only, from t = {full[0]} frames."
    )
    return said
