"""The networks that the measuring studies (G, H, I) work on: nodes drawn, made positive definite, in float64."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

import rmixup
from rmixup import keys
from rmixup.errors import DataError
from rmixup.spd import regularize, spdness
from rmixup.spd.repair import parse_regularizer

if TYPE_CHECKING:
    from rmixup.data.networks import Networks

# What the paper does with eigenvalues that are not positive.
PUBLISHED_REGULARIZER = "floor=1e-6"


class Cohort(NamedTuple):
    """Positive definite networks S (N, n, n) float64, the data set they are of, what is known of it, what was done."""

    S: Tensor
    ds: Networks
    facts: dict[str, Any]
    sentences: list[str]


def cohort(ds: Networks, nodes: int | None, regularizer: str | None, seed: int) -> Cohort:
    """Draw nodes, compute correlations where there are series only, and regularise what is not positive definite.

    Parameters
    ----------
    ds : Networks
    nodes : how many nodes to draw; None: all
    regularizer : "shrink=0.05", "floor=1e-6", ..., or None: nothing where all networks are positive definite, else
        the paper's floor, said in the first sentence
    seed : of the drawn nodes
    """
    if nodes is not None and nodes < ds.n_nodes:
        chosen = keys.generator(seed, "nodes", ds.n_nodes, nodes).permutation(ds.n_nodes)[:nodes]
        ds = ds.select(nodes=np.sort(chosen))
    ds = ds if ds.has_matrices else ds.connectivity()
    S = torch.tensor(ds.matrices, dtype=torch.float64)
    if len(S) < 2 or not bool(S.isfinite().all()):
        raise DataError(
            f"the study needs at least two networks without gaps, but there are {len(S)}, some with undefined entries: "
            "run `rmixup check` on them, and import them again with --drop-subjects undefined"
        )
    spd = spdness(S)
    positive = bool((spd == 1).all())
    chosen_for_them = regularizer is None and not positive
    regularizer = PUBLISHED_REGULARIZER if chosen_for_them else regularizer
    sentences = []
    if regularizer is not None:
        S = regularize(S, *parse_regularizer(regularizer))[0]
        why = "as asked" if not chosen_for_them else "because not all of them are positive definite, as the paper does"
        sentences.append(f"The networks were regularised first ({regularizer}, {why}).")
    facts = {
        "data": ds.content_hash(),
        "networks": len(S),
        "nodes": ds.n_nodes,
        "shortest_series": None if ds.frames is None else int(ds.frames.min()),
        "mean_spdness": float(spd.mean()),
        "regularizer": regularizer,
        "seed": seed,
        "versions": {"rmixup": rmixup.__version__, "torch": torch.__version__, "numpy": np.__version__},
    }
    return Cohort(S, ds, facts, sentences)


def numbers(ds: Networks, study: str) -> Tensor:
    """The labels as one number a network (N,) float64; the two codes of a binary classification count as numbers."""
    if ds.y is None or ds.y.ndim != 1 or (ds.classes is not None and len(ds.classes) > 2):
        found = "no label" if ds.y is None else f"{ds.classes or ds.y.shape} as labels"
        raise DataError(
            f"the study {study} needs one number a network, such as an age, but the data set has {found}: choose a "
            "column with --target, and --task regression for whole numbers"
        )
    return torch.tensor(ds.y, dtype=torch.float64)
