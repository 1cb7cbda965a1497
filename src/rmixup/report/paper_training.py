"""The figures of studies F and J: what training and mixing cost, and losses over the epochs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmixup.report.paper_style import called, colour, head, rows, styled
from rmixup.report.swelling import BLUE, GREY, INK, ORANGE, VERMILLION

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from rmixup.study.presets.findings import Findings

STEPS = {
    "paper step": ("the paper's code", GREY),
    "pre-computed eigh step": ("its pre-computed logs", GREY),
    "matrix_exp": ("torch.linalg.matrix_exp", GREY),
    "rmixup": ("rmixup", BLUE),
    "vmixup": ("straight mix", VERMILLION),
}
CURVES = {
    "train_loss": ("training", BLUE),
    "validation_loss": ("validation", ORANGE),
    "test_loss": ("test", VERMILLION),
}


@styled
def draw_time(findings: Findings) -> Figure:
    """Study F: an epoch with each method, and one batch mixed in each way."""
    from matplotlib.figure import Figure

    table, runs, steps = (findings.tables[name] for name in ("time", "runs", "steps"))
    figure = Figure(figsize=(9.6 if len(steps) else 5.2, 3.4), layout="constrained")
    panels = figure.subplots(1, 2 if len(steps) else 1, squeeze=False)[0]
    _draw_epochs(panels[0], table[table["milliseconds_per_epoch"].notna()], runs)
    if len(steps):
        _draw_steps(panels[1], steps)
    return figure


def _draw_epochs(axes: Axes, table: pd.DataFrame, runs: pd.DataFrame) -> None:
    names = list(table["method"])
    places = rows(axes, [called(name) for name in names])
    axes.barh(places, table["milliseconds_per_epoch"].astype(float), height=0.62, alpha=0.75,
              color=[colour(name) for name in names])  # fmt: skip
    for place, name in zip(places, names, strict=True):
        own = 1000 * runs.loc[runs["method"] == name, "seconds_per_epoch"].astype(float)
        axes.plot(own, np.full(len(own), place), "o", color=INK, ms=3, mew=0)
    axes.set_xlabel("milliseconds an epoch (bar: median, dots: runs)")
    head(axes, "a", "Training")


def _draw_steps(axes: Axes, steps: pd.DataFrame) -> None:
    known = [STEPS[name] for name in steps["step"]]
    places = rows(axes, [label for label, _ in known])
    axes.barh(places, steps["milliseconds"], height=0.62, color=[shade for _, shade in known], alpha=0.75)
    for place, value in zip(places, steps["milliseconds"], strict=True):
        axes.annotate(
            f"{value:.3g} ms", (value, place), xytext=(4, 0), va="center", textcoords="offset points", fontsize=8.5
        )
    axes.set_xscale("log")
    axes.set_xlim(steps["milliseconds"].min() / 2.5, steps["milliseconds"].max() * 5)
    axes.set_xlabel("milliseconds a batch, logarithmic")
    head(axes, "b", f"Mixing {steps['batch'].iloc[0]} networks of {steps['nodes'].iloc[0]} nodes")


@styled
def draw_curves(findings: Findings) -> Figure:
    """Study J: losses over the epochs of each method on one scale, and the rise of each run's test loss."""
    from matplotlib.figure import Figure

    epochs, runs = findings.tables["epochs"], findings.tables["runs"]
    names = list(dict.fromkeys(epochs["method"]))
    figure = Figure(figsize=(1.0 + 2.7 * (len(names) + 1), 3.4), layout="constrained")
    panels = figure.subplots(1, len(names) + 1)
    top = 1.05 * float(epochs["high"].quantile(0.98))
    for axes, name, letter in zip(panels, names, "abcdef", strict=False):
        _draw_losses(axes, epochs[epochs["method"] == name])
        axes.set(xlabel="epoch", ylim=(min(0.0, float(epochs["low"].min())), top))
        head(axes, letter, called(name))
    panels[0].set_ylabel("loss")
    for axes in panels[1:-1]:
        axes.set_yticklabels([])
    _draw_rises(panels[-1], runs, names)
    head(panels[-1], "abcdef"[len(names)], "Rise of the test loss")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=8.5)
    return figure


def _draw_losses(axes: Axes, epochs: pd.DataFrame) -> None:
    for curve, (label, shade) in CURVES.items():
        own = epochs[epochs["curve"] == curve].sort_values("epoch")
        axes.fill_between(own["epoch"], own["low"], own["high"], color=shade, alpha=0.14, lw=0)
        axes.plot(own["epoch"], own["mean"], color=shade, lw=1.8, label=label)


def _draw_rises(axes: Axes, runs: pd.DataFrame, names: list[str]) -> None:
    """From the lowest test loss to the last; a line joins the runs of one split."""
    table = runs.pivot_table(index="split", columns="method", values="rise")[names]
    places = np.arange(len(names))
    for line in table.to_numpy():
        axes.plot(places, line, color=GREY, lw=0.7, alpha=0.6, zorder=1)
    for place, name in zip(places, names, strict=True):
        own = table[name].dropna()
        axes.plot(np.full(len(own), place), own, "o", color=colour(name), ms=4.5, mew=0, alpha=0.8)
        axes.plot(place, own.mean(), "_", color=INK, ms=18, mew=2)
    axes.set_xticks(places, [called(name) for name in names])
    axes.set(xlim=(-0.5, len(names) - 0.5), ylabel="last epoch minus lowest (bar: mean)")
    axes.set_ylim(bottom=-0.04 * max(float(table.max().max()), 1e-3))
