"""The names that a shell offers after Tab.

They are written down here, because asking their registries takes a second (torch); a test holds them against these.
"""

from __future__ import annotations

from collections.abc import Callable

AUGMENTATIONS = (
    "none", "vmixup", "dmixup", "dropnode", "dropedge", "gmixup", "cmixup", "rmixup", "tangent", "offlog",
)  # fmt: skip
BACKBONES = ("transformer", "gcn", "gin", "brainnetcnn", "spdnet", "mlp", "linear", "tangent")
KINDS = ("correlation", "covariance", "ledoit-wolf", "oas", "partial")
LAYOUTS = ("auto", "pcp", "bids", "mat", "arrays", "tables", "expression")
STUDIES = (
    "overall", "gcn", "sample-size", "length", "alpha", "time", "swelling", "kernel", "labels", "curves", "all",
)  # fmt: skip
BENCHES = ("all", "spd", "step", "engine", "data", "roofline", "peers", "scale", "study")
TASKS = ("classification", "regression")


def of(names: tuple[str, ...]) -> Callable[[str], list[str]]:
    """What to offer for what was typed so far.

    >>> of(KINDS)("co")
    ['correlation', 'covariance']
    """
    return lambda incomplete: [name for name in names if name.startswith(incomplete)]
