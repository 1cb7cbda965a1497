"""What the figures of the paper's studies share: style, names and colours of methods, panels. May not be here: data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any

import numpy as np

from rmixup.report.health import GREEN, SKY
from rmixup.report.swelling import BLUE, GREY, INK, ORANGE, PURPLE, STYLE, VERMILLION

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from rmixup.study.presets.findings import Findings

# Method -> how the paper writes it, colour, line.
METHODS: dict[str, tuple[str, str, Any]] = {
    "none": ("none", INK, "-"),
    "vmixup": ("V-Mixup", VERMILLION, "-"),
    "dmixup": ("D-Mixup", GREY, "-"),
    "dropnode": ("DropNode", GREY, "-"),
    "dropedge": ("DropEdge", GREY, "-"),
    "gmixup": ("G-Mixup", GREY, "-"),
    "cmixup": ("C-Mixup", ORANGE, "-"),
    "rmixup": ("R-Mixup", BLUE, "-"),
    "linear": ("linear", PURPLE, (0, (5, 2))),
    "tangent": ("tangent space", GREEN, (0, (2, 1.5))),
}
BACKBONES = {"transformer": "Transformer", "gcn": "GCN", "gin": "GIN"}
SCORES = {"auroc": "AUROC", "mse": "mean squared error", "macro_precision": "macro precision",
          "macro_recall": "macro recall", "accuracy": "accuracy"}  # fmt: skip
PUBLISHED = SKY


def styled(draw: Callable[[Findings], Figure]) -> Callable[[Findings], Figure]:
    """Draw in the style of every figure."""

    @wraps(draw)
    def drawn(findings: Findings) -> Figure:
        import matplotlib as mpl

        with mpl.rc_context(STYLE):
            return draw(findings)

    return drawn


def head(axes: Axes, letter: str, text: str) -> None:
    """A panel's letter and title, and no frame but its axes."""
    axes.set_title(f"{letter}  {text}", fontsize=9.5, loc="left")
    axes.spines[["top", "right"]].set_visible(False)


def called(method: str) -> str:
    """A method as a figure writes it.

    >>> called("rmixup"), called("rmixup alpha=0.5")
    ('R-Mixup', 'R-Mixup, α = 0.5')
    """
    name, _, options = method.partition(" ")
    label = METHODS.get(name, (name,))[0]
    return f"{label}, {options.replace('alpha=', 'α = ')}" if options else label


def colour(method: str) -> str:
    """Its colour; grey for what is not in front."""
    return METHODS.get(method.partition(" ")[0], ("", GREY, "-"))[1]


def measured(column: str) -> str:
    """A score's column as an axis writes it.

    >>> measured("auroc_percent"), measured("mse")
    ('AUROC (%)', 'mean squared error')
    """
    bare = column.removesuffix("_percent")
    return SCORES.get(bare, bare) + (" (%)" if bare != column else "")


def rows(axes: Axes, labels: Sequence[str]) -> np.ndarray:
    """A line for each label, the first on top; returns their places."""
    places = np.arange(len(labels))
    axes.set_yticks(places, labels)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=GREY, alpha=0.25, lw=0.6)
    axes.set_axisbelow(True)
    return places


def unit_of(column: str) -> str:
    """What a difference of scores is told in."""
    return "points" if column.endswith("_percent") else "in its unit"
