"""The figure of swelling: what happens to the determinant between two networks, and what their mixes look like."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = np.ndarray[Any, np.dtype[np.float64]]

# Okabe and Ito's colours, which people with any colour vision can tell apart.
VERMILLION, ORANGE, PURPLE, BLUE, INK, GREY = "#D55E00", "#B87A00", "#A5538A", "#0072B2", "#333333", "#8A8A8A"
# By geometry: the name beside its curve, its colour, where along the curve, and the offset in points from there.
# Geometries whose curves coincide are drawn once.
CURVES = {
    "euclid": ("straight line", VERMILLION, 0.5, (0, 4)),
    "wasserstein": ("Wasserstein", PURPLE, 0.72, (0, 4)),
    "chol": ("Cholesky", ORANGE, 0.7, (-6, 2)),
    "logeuclid": ("log-Euclidean (R-Mixup),\naffine-invariant and\nlog-Cholesky", BLUE, 0.42, (8, -6)),
}
# Any: matplotlib's stubs want each key as a literal, and the keys change with its version.
STYLE: Any = {
    "font.family": "sans-serif",
    "font.size": 9.0,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "text.color": INK,
    "figure.facecolor": "white",
    "svg.hashsalt": "rmixup",
}


def draw(t: Array, log_det: Mapping[str, Array], networks: Mapping[str, Array]) -> Figure:
    """Draw the determinant along geodesics beside networks.

    Parameters
    ----------
    t : (T,) positions from one network to the other
    log_det : by geometry, the (T,) logarithms of the determinant; needs those named in `CURVES`
    networks : (n, n) correlation matrices by the title each is shown under
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(10.5, 3.5), layout="constrained")
        widths = [1.45, *[1.0] * len(networks)]
        left, *others = figure.subplots(1, 1 + len(networks), width_ratios=widths)
        _draw_determinants(left, t, log_det)
        for axes, (title, matrix) in zip(others, networks.items(), strict=True):
            image = _draw_network(axes, title, matrix)
        bar = figure.colorbar(image, ax=others, shrink=0.62, aspect=22, pad=0.015, ticks=[-1, 0, 1])
        bar.outline.set_visible(False)
        bar.set_label("correlation", labelpad=0)
    return figure


def _draw_determinants(axes: Axes, t: Array, log_det: Mapping[str, Array]) -> None:
    ends = log_det["euclid"][[0, -1]]
    axes.axhspan(ends.min(), ends.max(), color=BLUE, alpha=0.09, lw=0)
    for name, (label, colour, position, offset) in CURVES.items():
        axes.plot(t, log_det[name], color=colour, lw=2.4, solid_capstyle="round")
        _label(axes, label, colour, (position, float(np.interp(position, t, log_det[name]))), offset)
    axes.plot([0, 1], ends, "o", color=INK, ms=6, zorder=5)
    axes.set(xlim=(-0.03, 1.03), xticks=[0, 0.5, 1], xticklabels=["network A", "halfway", "network B"])
    axes.set_ylabel("log determinant")
    axes.margins(y=0.12)
    axes.text(0.5, ends.min(), "shaded: between the two networks", fontsize=8, ha="center", va="top")
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title("Mixes between two networks swell,\nexcept along geodesics that keep the determinant", fontsize=9.5)


def _label(axes: Axes, text: str, colour: str, point: tuple[float, float], offset: tuple[int, int]) -> None:
    """Write a name beside its curve: on the side of the point that the offset points to."""
    side = {-1: "right", 0: "center", 1: "left"}[int(np.sign(offset[0]))]
    axes.annotate(
        text, point, xytext=offset, textcoords="offset points", ha=side, va="bottom" if offset[1] > 0 else "top",
        color=colour, fontsize=8.5, fontweight="bold",
    )  # fmt: skip


def _draw_network(axes: Axes, title: str, matrix: Array) -> Any:
    image = axes.imshow(matrix, cmap="RdBu_r", vmin=-1, vmax=1, interpolation="nearest")
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    axes.set_title(title, fontsize=9.5)
    log_det, diagonal = np.linalg.slogdet(matrix)[1], np.diagonal(matrix).mean()
    caption = f"log determinant {log_det:.1f}\nmean diagonal {diagonal:.2f}"
    axes.set_xlabel(caption.replace("-", "\N{MINUS SIGN}"), fontsize=8.5)
    return image


def write(figure: Figure, folder: Path, name: str = "swelling") -> tuple[Path, Path]:
    """Write NAME.svg and NAME.png into a folder, which is made if need be."""
    import matplotlib as mpl

    folder.mkdir(parents=True, exist_ok=True)
    svg, png = folder / f"{name}.svg", folder / f"{name}.png"
    with mpl.rc_context(STYLE):
        figure.savefig(svg, metadata={"Date": None})
        figure.savefig(png, dpi=160, metadata={"Software": None})
    return svg, png
