"""The figures of studies G, H and I: sizes along geodesics, losses at mixes, and whether mixes fit their labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rmixup.report.health import GREEN, SKY
from rmixup.report.paper_style import head, styled
from rmixup.report.swelling import BLUE, GREY, INK, ORANGE, PURPLE, VERMILLION

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from rmixup.study.presets.findings import Findings

# Geometry -> name in the legend, colour, line.
GEOMETRIES = {
    "euclid": ("straight line", VERMILLION, "-"),
    "wasserstein": ("Wasserstein", PURPLE, "-"),
    "logeuclid, unit diagonal": ("log-Euclidean, unit diagonal", SKY, "-"),
    "chol": ("Cholesky", ORANGE, "-"),
    "logchol": ("log-Cholesky", GREEN, "--"),
    "logeuclid": ("log-Euclidean (R-Mixup)", BLUE, "-"),
    "riemann": ("affine-invariant", INK, ":"),
}
MIXES = {
    "linear, scaled": ("straight, scaled to the\nlog-Euclidean diagonal", ORANGE, "s"),
    "log-Euclidean": ("log-Euclidean (R-Mixup)", BLUE, "o"),
    "log-Euclidean, unit diagonal": ("log-Euclidean,\nunit diagonal", SKY, "D"),
    "mean of all others": ("mean of all others\n(knows no label)", GREY, "X"),
}
# What a distance is called beside the axis.
DISTANCES = {
    "L1": "L1, as published",
    "L1, edges only": "L1, edges only",
    "1 - r over edges": "1 − r over edges",
    "euclid": "Frobenius",
    "chol": "Cholesky",
    "logchol": "log-Cholesky",
    "wasserstein": "Wasserstein",
    "logeuclid": "log-Euclidean",
    "riemann": "affine-invariant",
}


# --- G: swelling -------------------------------------------------------------------------------------------------


@styled
def draw_swelling(findings: Findings) -> Figure:
    """Study G: determinant and diagonal along geodesics, and what each method's networks look like."""
    from matplotlib.figure import Figure

    made = findings.tables["made"]
    sites = "site_told" in made
    figure = Figure(figsize=(12.6 if sites else 10.4, 3.7), layout="constrained")
    widths = [1.25, 1.25, 0.95, 0.95][: 4 if sites else 3]
    axes = figure.subplots(1, len(widths), width_ratios=widths)
    path = findings.tables["path"]
    _draw_path(axes[0], path[path["quantity"] == "log_det"])
    head(axes[0], "a", "The determinant between two people")
    axes[0].set_ylabel("log determinant above\nthe straight line between both ends")
    axes[0].set_yscale("symlog", linthresh=1)
    _draw_path(axes[1], path[path["quantity"] == "diagonal"])
    head(axes[1], "b", "The diagonal between two people")
    axes[1].set_ylabel("mean diagonal")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower left", ncols=4, frameon=False, fontsize=8.5)
    _draw_made(axes[2], made, "nearest", "c", "Nearest real person")
    axes[2].set_xlabel("distance, in that between\nneighbouring people")
    if sites:
        _draw_made(axes[3], made, "site_told", "d", "Site told by a classifier")
        axes[3].set_xlabel("share of networks\n(mean over sites)")
        axes[3].set_yticklabels([])
    return figure


def _draw_path(axes: Axes, path: pd.DataFrame) -> None:
    for name, (label, colour, line) in GEOMETRIES.items():
        along = path[path["geometry"] == name]
        axes.fill_between(along["t"], along["low"], along["high"], color=colour, alpha=0.13, lw=0)
        axes.plot(along["t"], along["median"], line, color=colour, lw=2, label=label)
    axes.set(xlim=(0, 1), xticks=[0, 0.5, 1], xticklabels=["A", "halfway", "B"])


def _draw_made(axes: Axes, made: pd.DataFrame, column: str, letter: str, title: str) -> None:
    places = np.arange(len(made))[::-1]
    real, others = made[column].to_numpy()[0], made[column].to_numpy()
    colours = {"real people": INK, "vmixup": VERMILLION, "rmixup": BLUE, "rmixup, unit diagonal": SKY}
    axes.axvline(real, color=GREY, lw=1, ls="--", zorder=0)
    axes.hlines(places, real, others, color=GREY, lw=1, zorder=1)
    axes.scatter(others, places, c=[colours.get(name, GREY) for name in made["network"]], s=38, zorder=2)
    axes.set_yticks(places, made["network"])
    axes.tick_params(axis="y", length=0)
    head(axes, letter, title)


# --- I: labels ---------------------------------------------------------------------------------------------------


@styled
def draw_labels(findings: Findings) -> Figure:
    """Study I: each mix's distance to the middle person and to anybody, relative to the straight mix."""
    from matplotlib.figure import Figure

    table, contrast = findings.tables["labels"], findings.tables["contrast"]
    figure = Figure(figsize=(11.2, 4.5), layout="constrained")
    left, middle, right = figure.subplots(1, 3, width_ratios=[1.3, 1.3, 1], sharey=True)
    places = np.arange(len(DISTANCES))[::-1]
    for axes, to, letter, title in (
        (left, "the middle person", "a", "To the person whose label the mix has"),
        (middle, "any other person", "b", "To a person of any label (control)"),
    ):
        _draw_ratios(axes, table[table["to"] == to], places)
        head(axes, letter, title)
        axes.set_xlabel("mean distance, as a share of the straight mix's")
    left.set_yticks(places, list(DISTANCES.values()))
    limits = np.array([axes.get_xlim() for axes in (left, middle)])
    for axes in (left, middle):
        axes.set_xlim(limits[:, 0].min(), limits[:, 1].max())
    _draw_contrast(right, contrast, places)
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False, fontsize=8.5)
    return figure


def _draw_ratios(axes: Axes, table: pd.DataFrame, places: np.ndarray) -> None:
    axes.axvline(1, color=VERMILLION, lw=1.4, zorder=0, label="straight mix")
    offsets = np.linspace(0.24, -0.24, len(MIXES))
    for offset, (name, (label, colour, marker)) in zip(offsets, MIXES.items(), strict=True):
        rows = table[table["mix"] == name].set_index("distance").loc[list(DISTANCES)]
        axes.hlines(places + offset, rows["ratio_low"], rows["ratio_high"], color=colour, lw=1.6)
        axes.plot(rows["ratio"], places + offset, marker, color=colour, ms=5, label=label)
    for place in places[:-1]:
        axes.axhline(place - 0.5, color=GREY, lw=0.4, alpha=0.5, zorder=0)
    axes.tick_params(axis="y", length=0)


def _draw_contrast(axes: Axes, contrast: pd.DataFrame, places: np.ndarray) -> None:
    rows = contrast.set_index("distance").loc[list(DISTANCES)]
    axes.axvline(0, color=GREY, lw=1, ls="--", zorder=0)
    axes.hlines(places, rows["low"], rows["high"], color=INK, lw=1.6)
    axes.plot(rows["difference_percent"], places, "o", color=INK, ms=5)
    for place in places[:-1]:
        axes.axhline(place - 0.5, color=GREY, lw=0.4, alpha=0.5, zorder=0)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("gain on the middle person minus\nthat on anybody (points, 95 % interval)")
    head(axes, "c", "What the label can have to do with it")


# --- H: kernel ---------------------------------------------------------------------------------------------------


@styled
def draw_kernel(findings: Findings) -> Figure:
    """Study H: the loss at log-Euclidean and at straight mixes, by estimator, coordinates and who was fitted."""
    from matplotlib.figure import Figure

    table = findings.tables["kernel"]
    panels = [
        ("a", "the mixed people", "logarithms", "Fitted to the mixed people,\nlog coordinates (the theorem)"),
        ("b", "the mixed people", "matrix entries", "Fitted to the mixed people,\nmatrix entries (its mirror)"),
        ("c", "other people", "logarithms", "Fitted to other people,\nlog coordinates"),
        ("d", "other people", "matrix entries", "Fitted to other people,\nmatrix entries"),
    ]
    names = list(dict.fromkeys(table["estimator"]))
    places = {name: place for place, name in enumerate(reversed(names))}
    figure = Figure(figsize=(12.4, 3.6), layout="constrained")
    all_axes = figure.subplots(1, len(panels), sharey=True)
    for axes, (letter, fitted_to, coordinates, title) in zip(all_axes, panels, strict=True):
        rows = table[(table["fitted_to"] == fitted_to) & (table["coordinates"] == coordinates)]
        _draw_losses(axes, rows, places)
        head(axes, letter, title)
    all_axes[0].set_yticks(list(places.values()), list(places))
    figure.supxlabel("mean squared error, in the labels' variance", fontsize=9)
    figure.legend(
        *all_axes[0].get_legend_handles_labels(), loc="outside lower left", ncols=2, frameon=False, fontsize=8.5
    )
    return figure


def _draw_losses(axes: Axes, rows: pd.DataFrame, places: dict[str, int]) -> None:
    at = [places[name] for name in rows["estimator"]]
    axes.hlines(at, rows["geodesic"], rows["straight"], color=GREY, lw=1.2, zorder=1)
    kinds: dict[str, Any] = {"straight": ("straight mixes", VERMILLION), "geodesic": ("log-Euclidean mixes", BLUE)}
    for column, (label, colour) in kinds.items():
        axes.scatter(rows[column], at, color=colour, s=36, zorder=2, label=label)
    axes.set_xlim(left=-0.02)
    axes.tick_params(axis="y", length=0)
