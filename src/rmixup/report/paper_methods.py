"""The figures of studies A and B: every method on every split beside the published figures, and its gain over none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmixup.report.paper_style import BACKBONES, PUBLISHED, called, colour, head, measured, rows, styled, unit_of
from rmixup.report.swelling import GREY, INK
from rmixup.study.presets.findings import LINEAR

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from rmixup.study.presets.findings import Findings

_LETTERS = "abcdefgh"


@styled
def draw_methods(findings: Findings) -> Figure:
    """A row a backbone: each score on every split, then the gain over no augmentation by the first score."""
    from matplotlib.figure import Figure

    table = findings.tables[findings.name]
    splits, comparisons = findings.tables["splits"], findings.tables["comparisons"]
    backbones, scores = list(dict.fromkeys(splits["backbone"])), list(dict.fromkeys(splits["score"]))
    panels = len(scores) + 1
    height = 0.95 + 0.27 * table["method"].nunique()
    figure = Figure(figsize=(1.4 + 3.4 * panels, height * len(backbones) + 0.3), layout="constrained")
    grid = figure.subplots(len(backbones), panels, squeeze=False)
    letters = iter(_LETTERS)
    for line, backbone in zip(grid, backbones, strict=True):
        own = table[table["backbone"].isin([backbone, LINEAR])]
        for axes, score in zip(line, scores, strict=False):
            part = splits[(splits["backbone"] == backbone) & (splits["score"] == score)]
            _draw_scores(axes, own, part, score)
            head(axes, next(letters), f"{BACKBONES.get(backbone, backbone)}: {measured(score)}")
        part = comparisons[(comparisons["backbone"] == backbone)]
        first = scores[0]
        _draw_gains(line[-1], own, part[part["score"] == first.removesuffix("_percent")])
        line[-1].set_xlabel(f"gain in {measured(first).removesuffix(' (%)')} ({unit_of(first)}), right is better")
        head(line[-1], next(letters), "Gain over none, split by split")
        for axes in line[1:]:
            axes.set_yticklabels([])
    _legend(figure, grid[0, 0])
    return figure


def _draw_scores(axes: Axes, table: pd.DataFrame, splits: pd.DataFrame, score: str) -> None:
    """Every split as a dot, the mean as a bar, the published mean and deviation below."""
    names = list(table["method"])
    places = rows(axes, [called(name) for name in names])
    for place, name in zip(places, names, strict=True):
        values = splits.loc[splits["method"] == name, "value"]
        axes.plot(values, [place] * len(values), "o", color=colour(name), ms=4, mew=0, alpha=0.55, zorder=2)
    axes.plot(table[score], places, "|", color=INK, ms=13, mew=2, zorder=3, label="mean (dots: splits)")
    if f"{score}_published" in table and table[f"{score}_published"].notna().any():
        axes.errorbar(
            table[f"{score}_published"].astype(float), places + 0.28, xerr=table[f"{score}_published_sd"].astype(float),
            fmt="D", color=PUBLISHED, ms=4, elinewidth=1.2, zorder=1, label="published, mean ± sd of five splits",
        )  # fmt: skip
    axes.set_xlabel(measured(score))


def _draw_gains(axes: Axes, table: pd.DataFrame, comparisons: pd.DataFrame) -> None:
    """The mean gain, its bootstrap interval over splits, and what the corrected test cannot exclude."""
    names = list(table["method"])
    places = dict(zip(names, rows(axes, [called(name) for name in names]), strict=True))
    axes.axvline(0, color=INK, lw=1)
    for one in comparisons.to_dict("records"):
        place, shade = places[one["method"]], colour(one["method"])
        axes.plot([-one["excluded_loss"], one["excluded_gain"]], [place] * 2, color=shade, lw=7, alpha=0.25)
        axes.plot([one["low"], one["high"]], [place] * 2, color=shade, lw=1.6)
        axes.plot(one["gain"], place, "o", color=shade, ms=5)


def _legend(figure: Figure, axes: Axes) -> None:
    from matplotlib.lines import Line2D

    handles, labels = axes.get_legend_handles_labels()
    handles += [Line2D([], [], color=GREY, lw=7, alpha=0.35), Line2D([], [], color=GREY, lw=1.6)]
    labels += ["gain: outside this can be excluded (corrected t)", "bootstrap interval over splits"]
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=8.5)
