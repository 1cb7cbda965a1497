"""Draw the figures of docs/method/what-a-geodesic-does.md, and say the numbers that its text quotes.

    python docs/make_concept_figures.py

All of it from `rmixup.simulate`, so anybody gets the same figures. Writes docs/_static/concept-*.svg.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.figure import Figure

from rmixup import spd
from rmixup.data.networks import Networks
from rmixup.data.readers.simulate import simulate, truth
from rmixup.report.swelling import BLUE, GREY, INK, ORANGE, STYLE, VERMILLION

STATIC = Path(__file__).parent / "_static"
LINE, GEODESIC = VERMILLION, BLUE
Array = np.ndarray[Any, np.dtype[np.float64]]


def save(figure: Figure, name: str) -> None:
    with mpl.rc_context(STYLE):
        figure.savefig(STATIC / f"concept-{name}.svg", metadata={"Date": None})


def bare(axes: Any) -> None:
    axes.spines[["top", "right"]].set_visible(False)


def cohort(**settings: Any) -> Networks:
    return simulate(**{"n_subjects": 80, "n_nodes": 60, "n_frames": 120, **settings})


def matrices(ds: Networks) -> Array:
    assert ds.matrices is not None
    return np.array(ds.matrices, np.float64)


# --- two regions: ellipses


def ellipse(S: Array) -> Array:
    """The outline (2, 200) of one standard deviation."""
    angle = np.linspace(0, 2 * np.pi, 200)
    return np.linalg.cholesky(S) @ np.stack([np.cos(angle), np.sin(angle)])


def draw_two_regions() -> None:
    """Two people, two regions: r = +0.9 and r = -0.9."""
    ends = [np.array([[1.0, r], [r, 1.0]]) for r in (0.9, -0.9)]
    positions = np.linspace(0, 1, 5)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9.5, 4.1), layout="constrained")
        rows = figure.subplots(2, 5, sharex=True, sharey=True)
        for axes, metric, colour, title in zip(
            rows, ("euclid", "logeuclid"), (LINE, GEODESIC), ("straight line", "log-Euclidean\ngeodesic"), strict=True
        ):
            for axis, t in zip(axes, positions, strict=True):
                S = spd.geodesic(*ends, float(t), metric=metric)
                axis.fill(*ellipse(S), color=INK if t in (0, 1) else colour, alpha=0.25, lw=0)
                axis.plot(*ellipse(S), color=INK if t in (0, 1) else colour, lw=2)
                axis.set(aspect="equal", xlim=(-1.15, 1.15), ylim=(-1.15, 1.15), xticks=[], yticks=[])
                axis.spines[:].set_color("#DDDDDD")
                area = np.pi * np.sqrt(np.linalg.det(S))
                axis.set_xlabel(f"area {area:.2f}, r {S[0, 1] / S[0, 0]:+.2f}".replace("-", "\N{MINUS SIGN}"))
            axes[0].set_ylabel(title, color=colour, fontweight="bold")
        for axis, t in zip(rows[0], ("person A", "¼", "halfway", "¾", "person B"), strict=True):
            axis.set_title(t, fontsize=9.5)
    save(figure, "two-regions")


# --- a whole network: matrices and spectra


def draw_networks() -> None:
    a, b = matrices(cohort(n_subjects=2, n_sites=1))
    halfway = {
        "person A": a,
        "straight line": spd.geodesic(a, b, 0.5, metric="euclid"),
        "geodesic": spd.geodesic(a, b, 0.5),
        "person B": b,
    }
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(11.5, 3.0), layout="constrained")
        *panels, spectra = figure.subplots(1, 5, width_ratios=[1, 1, 1, 1, 1.5])
        for axes, (title, S) in zip(panels, halfway.items(), strict=True):
            image = axes.imshow(S, cmap="RdBu_r", vmin=-1, vmax=1, interpolation="nearest")
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set_visible(False)
            axes.set_title(title if title.startswith("person") else f"halfway,\n{title}", fontsize=9.5)
            axes.set_xlabel(f"mean diagonal {np.diagonal(S).mean():.2f}", fontsize=8.5)
        bar = figure.colorbar(image, ax=panels, shrink=0.5, aspect=18, pad=0.02, ticks=[-1, 0, 1])
        bar.outline.set_visible(False)
        for title, S in halfway.items():
            colour = {"straight line": LINE, "geodesic": GEODESIC}.get(title, GREY)
            width = 1.4 if title.startswith("person") else 2.2
            spectra.plot(np.arange(1, 61), np.linalg.eigvalsh(S)[::-1], color=colour, lw=width)
        spectra.set(yscale="log", xlabel="eigenvalue, largest first", xticks=[1, 20, 40, 60])
        spectra.set_title("spectra", fontsize=9.5)
        spectra.text(60, 0.62, "straight line", color=LINE, fontweight="bold", fontsize=8.5, ha="right")
        spectra.text(30, 0.12, "geodesic", color=GEODESIC, fontweight="bold", fontsize=8.5, ha="right")
        spectra.text(48, 0.022, "both people", color=GREY, fontsize=8.5, ha="right")
        bare(spectra)
    save(figure, "networks")


# --- labels


Chart = Callable[[Array], Array]
WORLDS: dict[str, tuple[str, Chart]] = {
    "logeuclid": ("the label acts on the logarithm", spd.logm),
    "euclid": ("the label acts on the correlations", np.asarray),
}


def on_the_way(ends: tuple[Array, Array], t: Array, metric: str, chart: Chart, direction: Array) -> Array:
    """Where mixes lie between their parents (0 and 1) along a direction in coordinates, over all pairs."""

    def along(S: Array) -> float:
        return float((chart(S).mean(0) * direction).sum())

    lies = np.array([along(spd.geodesic(*ends, float(s), metric=metric)) for s in t])
    start, stop = map(along, ends)
    return np.asarray((lies - start) / (stop - start))


def draw_labels() -> None:
    """Where mixes of people of two classes lie along the direction in which the label acts."""
    t = np.linspace(0, 1, 21)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9.5, 3.5), layout="constrained")
        for axes, (world, (title, chart)) in zip(figure.subplots(1, 2, sharey=True), WORLDS.items(), strict=True):
            ds = cohort(n_subjects=160, n_sites=1, effect=0.8, effect_direction=world)
            x, effects = matrices(ds), truth(ds).effects
            ends = (x[ds.y == 0][:60], x[ds.y == 1][:60])
            axes.plot([0, 1], [0, 1], color=GREY, lw=1, ls=(0, (4, 3)))
            for metric, name, colour in (("euclid", "straight line", LINE), ("logeuclid", "geodesic", GEODESIC)):
                lies = on_the_way(ends, t, metric, chart, effects[1] - effects[0])
                axes.plot(t, lies, color=colour, lw=2.4, label=name)
                print(f"{title}: {name} is off the label by at most {np.abs(lies - t).max():.2f}")
            axes.set(xlabel="label of the mix (λ)", xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
            axes.set_title(title, fontsize=9.5)
            bare(axes)
        figure.axes[0].set_ylabel("where the mix lies:\n0 = class 1, 1 = class 2")
        figure.axes[0].legend(frameon=False, loc="upper left")
    save(figure, "labels")


# --- short series


def draw_short_series() -> None:
    """What the logarithm makes of spectra when series become short."""
    n = 60
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9.5, 3.4), layout="constrained")
        left, right = figure.subplots(1, 2)
        for frames, colour in ((240, INK), (61, ORANGE), (30, VERMILLION)):
            S = matrices(cohort(n_subjects=40, n_frames=frames, n_sites=1))
            w = np.linalg.eigvalsh(S).mean(0)[::-1]
            left.plot(np.arange(1, n + 1), np.maximum(w, 1e-9), color=colour, lw=2.2, label=f"t = {frames}")
            for how, amount, style in (("floor", 1e-6, "-"), ("shrink", 0.05, "--")):
                R = spd.regularize(S, how, amount)[0]
                logs = np.log(np.linalg.eigvalsh(R))[:, ::-1]
                # A correlation of t centred frames has rank t - 1 at most.
                # A correlation of t centred frames has rank t - 1 at most.
                invented = (logs[:, np.arange(n) >= frames - 1] ** 2).sum() / (logs**2).sum()
                print(f"t = {frames}, {how} {amount:g}: {invented:.0%} of ‖log S‖² lie in eigenvalues without data")
                right.plot(np.arange(1, n + 1), logs.mean(0), style, color=colour, lw=2)
        left.set(yscale="log", ylim=(1e-7, 60), xlabel="eigenvalue, largest first", ylabel="eigenvalue of S")
        left.set_title(f"{n} regions: spectra of correlations", fontsize=9.5)
        left.axhline(1e-6, color=GREY, lw=1, ls=(0, (4, 3)))
        left.text(1, 1.4e-6, "floor 1e-6", fontsize=8, color=GREY)
        left.legend(frameon=False, loc="upper right", fontsize=8.5)
        right.set(xlabel="eigenvalue, largest first", ylabel="eigenvalue of log S")
        right.set_title("what the logarithm sees: floor (solid), shrinkage (dashed)", fontsize=9.5)
        for axes in (left, right):
            bare(axes)
            axes.set_xticks([1, 20, 40, 60])
    save(figure, "short-series")


def say_swelling() -> None:
    """Numbers of the text, over pairs of the same cohort."""
    S = matrices(cohort())
    a, b = S[:40], S[40:]
    off = ~np.eye(S.shape[-1], dtype=bool)
    for metric in ("euclid", "logeuclid", "offlog"):
        mixed = spd.geodesic(a, b, 0.5, metric=metric)
        size = np.linalg.slogdet(mixed)[1] - np.maximum(np.linalg.slogdet(a)[1], np.linalg.slogdet(b)[1])
        diagonal = np.diagonal(mixed, axis1=1, axis2=2).mean()
        edges = np.abs(mixed[:, off]).mean() / ((np.abs(a[:, off]).mean() + np.abs(b[:, off]).mean()) / 2)
        print(
            f"{metric}: beyond both parents {np.mean(size > 0):.0%}, log det {size.mean():+.1f} against the larger, "
            f"mean diagonal {diagonal:.2f}, edges {edges:.2f} of the parents'"
        )


if __name__ == "__main__":
    torch.set_num_threads(1)
    for draw in (draw_two_regions, draw_networks, draw_labels, draw_short_series, say_swelling):
        draw()
