"""The drawings of a report, each from plain numbers: scores and gains of every split, trends, curves, predictions.

Each drawing is one narrow panel, so that panels stand beside each other on a desk and below each other on a phone.
Colours and style are those of `swelling`, which `inline` translates for light and dark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec

import numpy as np

from rmixup.report.health import CLASS_COLOURS
from rmixup.report.inline import plain
from rmixup.report.names import short
from rmixup.report.numbers import number
from rmixup.report.predictions import Calibration, Floats, Predicted, SiteScores
from rmixup.report.swelling import BLUE, GREY, INK, ORANGE, PURPLE, STYLE, VERMILLION
from rmixup.study.statistics import measure
from rmixup.study.tables import Row, Setting

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

P = ParamSpec("P")
WIDTH = 3.6  # inches
_SITES = 24
_LABEL = 26  # letters of a name beside an axis
_POINTS = 600  # more than so many are drawn as pixels
# Curve -> label, colour, dash.
LOSSES: dict[str, tuple[str, str, Any]] = {
    "train_loss": ("training", BLUE, "-"),
    "validation_loss": ("validation", ORANGE, (0, (4, 2))),
    "test_loss": ("test", VERMILLION, "-"),
}
DASHES = ("-", (0, (5, 2)), (0, (2, 1.5)), (0, (6, 2, 1, 2)))


def styled(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """Draw in the style of this package."""

    @wraps(draw)
    def drawn(*args: P.args, **options: P.kwargs) -> Figure:
        import matplotlib as mpl

        with mpl.rc_context(STYLE):
            return draw(*args, **options)

    return drawn


def panel(height: float) -> tuple[Figure, Axes]:
    """An empty panel of so many inches."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


# --- splits


@styled
def splits(setting: Setting) -> Figure:
    """The score of every method on every split; a line joins what was measured on the same split."""
    figure, axes = _rows(setting.rows)
    factor = measure(setting.score).factor
    values = factor * np.array([row.values for row in setting.rows])
    places = np.arange(len(values))
    for split in values.T:
        axes.plot(split, places, color=GREY, lw=0.7, alpha=0.45, zorder=1)
    for place, own, row in zip(places, values, setting.rows, strict=True):
        colour = _colour(row.method, setting)
        axes.plot(own, np.full(len(own), place), "o", color=colour, ms=4, mew=0, alpha=0.75, zorder=2)
        axes.plot(factor * row.mean, place, "|", color=INK, ms=15, mew=2.2, zorder=3)
    axes.set_xlabel(f"{setting.score}{' (%)' if factor == 100 else ''}, bar: mean")
    return figure


@styled
def gains(setting: Setting) -> Figure:
    """What every method gained over the reference on every split, with the mean and what cannot be excluded."""
    figure, axes = _rows(setting.rows)
    axes.axvline(0, color=INK, lw=1)
    compared = {one.method: one for one in setting.comparisons}
    base = next(row for row in setting.rows if row.method == setting.reference)
    for place, row in enumerate(setting.rows):
        if row.method not in compared:
            continue
        one, colour = compared[row.method], _colour(row.method, setting)
        gain = one.measure.sign * one.measure.factor * (row.values - base.values)
        axes.plot([-one.excluded_loss, one.excluded_gain], [place, place], color=colour, lw=6, alpha=0.3, zorder=1)
        axes.plot(gain, np.full(len(gain), place), "o", color=colour, ms=4, mew=0, alpha=0.75, zorder=2)
        axes.plot(one.gain, place, "|", color=INK, ms=15, mew=2.2, zorder=3)
    unit = measure(setting.score).unit
    axes.set_xlabel(f"gain over {plain(setting.reference)}{f' ({unit})' if unit else ''}")
    return figure


def _rows(rows: Sequence[Row]) -> tuple[Figure, Axes]:
    """A panel with a line for each method, the first on top."""
    figure, axes = panel(0.9 + 0.29 * len(rows))
    axes.set_yticks(range(len(rows)), [plain(short(row.method, _LABEL)) for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x", color=GREY, alpha=0.25, lw=0.6)
    return figure, axes


def _colour(method: str, setting: Setting) -> str:
    """Reference, linear baseline, or augmentation."""
    if method == setting.reference:
        return GREY
    return PURPLE if method in setting.baselines else BLUE


@styled
def trend(settings: Sequence[Setting], along: str) -> Figure:
    """Mean score over training size or series length, one line a method, with its bootstrap interval.

    Parameters
    ----------
    settings : those of one backbone that differ in `along` alone.
    along : "train_size" or "length".
    """
    figure, axes = panel(3.1)
    factor = measure(settings[0].score).factor
    at = np.array([getattr(setting, along) for setting in settings], float) * (100 if along == "train_size" else 1)
    order = np.argsort(at)
    for k, method in enumerate(row.method for row in settings[0].rows):
        found = [next((row for row in setting.rows if row.method == method), None) for setting in settings]
        mean = np.array([factor * row.mean if row else np.nan for row in found])[order]
        ends = factor * np.array([row.interval if row else (np.nan, np.nan) for row in found])[order].T
        colour, dash = CLASS_COLOURS[k % 5], DASHES[k // 5 % len(DASHES)]
        axes.fill_between(at[order], *ends, color=colour, alpha=0.1, lw=0)
        axes.plot(at[order], mean, color=colour, ls=dash, marker="o", ms=3.5, lw=1.6, label=plain(method))
    axes.set_xlabel("share of the training data (%)" if along == "train_size" else "frames in each series")
    axes.set_ylabel(f"{settings[0].score}{' (%)' if factor == 100 else ''}")
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    return figure


# --- training


@styled
def curves(method: str, found: Mapping[str, Floats], top: float | None = None) -> Figure:
    """Losses of one method over the epochs: the mean over its runs, and where the middle 80 % of them lie.

    Parameters
    ----------
    method : name.
    found : curve -> (R, E), one row a run, NaN after its last epoch; those of `LOSSES` are drawn.
    top : upper end of the axis, so that methods can be compared.
    """
    from matplotlib.ticker import MaxNLocator

    figure, axes = panel(2.7)
    known = {name: how for name, how in LOSSES.items() if name in found}
    others = {name: (name, GREY, "-") for name in found if "loss" in name and name not in LOSSES}
    for name, (label, colour, dash) in {**known, **others}.items():
        values = found[name]
        epochs = np.arange(1, values.shape[1] + 1)
        low, high = np.nanquantile(values, [0.1, 0.9], axis=0)
        axes.fill_between(epochs, low, high, color=colour, alpha=0.15, lw=0)
        axes.plot(epochs, np.nanmean(values, axis=0), color=colour, ls=dash, lw=1.6, label=plain(label))
    axes.set(xlabel="epoch", ylabel="loss", ylim=(0, top))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_title(plain(method), loc="left", fontsize=10, fontweight="bold")
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    return figure


# --- predictions


@styled
def calibration(method: str, found: Calibration, binary: bool, name: str) -> Figure:
    """Predicted probability against what happened."""
    figure, axes = panel(2.9)
    axes.plot([0, 1], [0, 1], color=GREY, lw=1, ls=(0, (4, 3)))
    errors = np.clip(np.stack([found.happened - found.low, found.high - found.happened]), 0, None)
    axes.errorbar(found.predicted, found.happened, errors, fmt="o-", color=BLUE, ms=4.5, lw=1.4, elinewidth=1)
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
    axes.set_xlabel(f"predicted probability of {plain(name)}" if binary else "confidence in the predicted class")
    axes.set_ylabel("share that is so" if binary else "share that is right")
    _title(axes, method, f"error {number(found.error, 3)}")
    return figure


@styled
def regression(method: str, parts: Sequence[Predicted], ends: tuple[float, float]) -> Figure:
    """Predicted against true numbers, of all test parts; `ends` of both axes, so that methods can be compared."""
    figure, axes = panel(3.1)
    truth = np.concatenate([part.truth for part in parts])
    predicted = np.concatenate([part.outputs[:, 0] for part in parts])
    axes.plot(ends, ends, color=GREY, lw=1, ls=(0, (4, 3)))
    many = len(truth) > _POINTS
    axes.plot(truth, predicted, "o", color=BLUE, ms=3, mew=0, alpha=0.15 if many else 0.5, rasterized=many)
    axes.set(xlabel="true", ylabel="predicted", xlim=ends, ylim=ends)
    varied = truth.std() > 0 and predicted.std() > 0
    r = float(np.corrcoef(truth, predicted)[0, 1]) if varied else float("nan")
    _title(axes, method, f"r {number(r)}")
    return figure


@styled
def sites(found: SiteScores, setting: Setting) -> Figure:
    """Scores at each site: the reference, the other methods, and the linear baselines."""
    shown = found.sites[:_SITES]
    figure, axes = panel(1.2 + 0.22 * len(shown))
    factor = measure(found.score).factor
    styles = {"augmented": (BLUE, "o"), "linear baseline": (PURPLE, "D"), "reference": (INK, "|")}
    told = set()
    for method, values in found.values.items():
        linear, reference = method in setting.baselines, method == setting.reference
        kind = "reference" if reference else "linear baseline" if linear else "augmented"
        colour, mark = styles[kind]
        label = None if kind in told else plain(method) if reference else kind
        told.add(kind)
        axes.plot(
            factor * values[: len(shown)], range(len(shown)), mark, color=colour, label=label,
            ms=11 if reference else 4.5, mew=2.2 if reference else 0, alpha=1 if reference else 0.7,
            zorder=2 + reference,
        )  # fmt: skip
    axes.set_yticks(range(len(shown)), [plain(short(site, _LABEL)) for site in shown], fontsize=8)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="both", color=GREY, alpha=0.25, lw=0.6)
    axes.set_xlabel(f"{found.score}{' (%)' if factor == 100 else ''}")
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    return figure


# --- what was made


@styled
def heat_map(title: str, matrix: Floats, limit: float) -> Figure:
    """A network as a picture; `limit` is the value of the darkest colours."""
    figure, axes = panel(3.6)
    image = axes.imshow(matrix, cmap="RdBu_r", vmin=-limit, vmax=limit, interpolation="nearest")
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    bar = figure.colorbar(image, ax=axes, shrink=0.7, aspect=18, pad=0.02, ticks=[-limit, 0, limit])
    bar.outline.set_visible(False)
    bar.ax.set_yticklabels([number(-limit, 1), "0", number(limit, 1)])
    axes.set_title(plain(title), loc="left", fontsize=10, fontweight="bold")
    log_det, diagonal = np.linalg.slogdet(matrix)[1], np.diagonal(matrix).mean()
    axes.set_xlabel(f"log determinant {number(log_det, 1)}, mean diagonal {number(diagonal)}", fontsize=8.5)
    return figure


@styled
def spectra(found: Mapping[str, Floats], styles: Mapping[str, tuple[str, Any]]) -> Figure:
    """Eigenvalues of each network, the largest first, on a logarithmic axis."""
    figure, axes = panel(2.9)
    for name, values in found.items():
        colour, dash = styles[name]
        axes.plot(range(1, len(values) + 1), values, color=colour, ls=dash, lw=1.7, label=plain(name))
    axes.set(yscale="log", xlabel="eigenvalue, largest first", ylabel="size")
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=8)
    return figure


@styled
def swelling(t: Floats, log_det: Mapping[str, Floats], styles: Mapping[str, tuple[str, str, Any]]) -> Figure:
    """The determinant from one network to the other; `styles` maps a geometry to its label, colour and dash."""
    figure, axes = panel(2.9)
    ends = next(iter(log_det.values()))[[0, -1]]
    axes.axhspan(ends.min(), ends.max(), color=BLUE, alpha=0.09, lw=0)
    for name, values in log_det.items():
        label, colour, dash = styles[name]
        axes.plot(t, values, color=colour, ls=dash, lw=1.8, label=label)
    axes.plot([0, 1], ends, "o", color=INK, ms=5, zorder=5)
    axes.set(xlim=(-0.03, 1.03), xticks=[0, 0.5, 1], ylabel="log determinant")
    axes.set_xticklabels(["network A", "halfway", "network B"])
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=8)
    return figure


@styled
def diagonals(found: Mapping[str, Floats], styles: Mapping[str, tuple[str, str, Any]]) -> Figure:
    """The mean diagonal of networks halfway between many pairs."""
    figure, axes = panel(1.9)
    for place, (name, values) in enumerate(found.items()):
        jitter = 0.3 * (np.arange(len(values)) / max(1, len(values) - 1) - 0.5)
        axes.plot(values, place + jitter, "o", color=styles[name][1], ms=4, mew=0, alpha=0.6)
        axes.plot(values.mean(), place, "|", color=INK, ms=20, mew=2.2)
    axes.set_yticks(range(len(found)), [styles[name][0] for name in found])
    axes.set_ylim(len(found) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x", color=GREY, alpha=0.25, lw=0.6)
    axes.set_xlabel("mean diagonal of the mix")
    return figure


def _title(axes: Axes, left: str, right: str) -> None:
    axes.set_title(plain(left), loc="left", fontsize=10, fontweight="bold")
    axes.set_title(right, loc="right", fontsize=8.5, color=GREY)
