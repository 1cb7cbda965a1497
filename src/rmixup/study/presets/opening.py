"""The data of a study of the paper, opened once and made fit for its methods before the spec is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from rmixup.data.connectivity import regularized_kind
from rmixup.errors import DataError
from rmixup.spd import spdness
from rmixup.study import material
from rmixup.study.presets.cohort import PUBLISHED_REGULARIZER

if TYPE_CHECKING:
    from rmixup.data.networks import Networks
    from rmixup.study.spec import Data


class Opened(NamedTuple):
    """What a spec will say of the data, and the data: their nodes chosen, nothing computed from them yet."""

    data: Data
    ds: Networks


def opened(data: Data) -> Opened:
    """Open the data, labelled or not."""
    return Opened(data, material.choose_nodes(material.opened(data), data.nodes))


def with_labels(found: Opened) -> Opened:
    """The same, or an error that says how to name a label."""
    if found.ds.y is None:
        raise DataError("the networks have no label to predict: name a column of their table with --target")
    return found


def regularised(found: Opened) -> Opened:
    """The paper's floor where it is needed and nothing else was asked for: R-Mixup takes logarithms.

    Where all networks are positive definite as they are, nothing is changed. What is done is in the spec, so in every
    cell's identity.
    """
    if found.data.regularize is not None:
        return found
    prepared = material.networks(found.ds, found.data, None, None)
    for _, block in prepared.blocks():
        if not np.isfinite(block).all():
            raise DataError(
                "some networks have undefined entries: run `rmixup check` on them, and import them again with "
                "--drop-subjects undefined"
            )
        if bool((spdness(torch.tensor(block, dtype=torch.float64)) < 1).any()):
            return found._replace(data=found.data.model_copy(update={"regularize": PUBLISHED_REGULARIZER}))
    return found


def for_measuring(found: Opened) -> tuple[Networks, str | None]:
    """Networks as a cell would get them but for what is done to the matrices, and that, for studies G, H and I."""
    kind, on_matrices = regularized_kind(found.data.kind, found.data.regularize)
    bare = found.data.model_copy(update={"kind": kind, "regularize": None})
    return material.networks(found.ds, bare, None, None), on_matrices
