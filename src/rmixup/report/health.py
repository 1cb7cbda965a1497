"""The picture of a data set's health: spectra, SPD-ness, edges, frames, sites and labels, and what the doctor found."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rmixup.data.doctor import Report
from rmixup.data.doctor.finding import counted
from rmixup.data.doctor.scan import HISTOGRAM_EDGES
from rmixup.data.doctor.values import SPDNESS_TOLERANCE
from rmixup.data.networks import Networks
from rmixup.errors import DataError
from rmixup.report.swelling import BLUE, GREY, INK, ORANGE, PURPLE, STYLE, VERMILLION
from rmixup.study import files

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GREEN, SKY, YELLOW = "#009E73", "#56B4E9", "#F0E442"
# Colour and shape, so that either is enough.
SEVERITY_MARKS = {"error": (VERMILLION, "X"), "warning": (ORANGE, "^"), "info": (BLUE, "o")}
# Okabe and Ito's colours; more classes than these are drawn as counts without colours of their own.
CLASS_COLOURS = (BLUE, ORANGE, GREEN, VERMILLION, PURPLE, SKY, YELLOW, GREY)
SUFFIXES = (".png", ".svg", ".pdf")

_SITES_SHOWN = 24
_FINDINGS_SHOWN = 12
_SMALLEST_DRAWN = 1e-10


def draw(ds: Networks, report: Report) -> Figure:
    """Draw what `rmixup.check(ds)` measured.

    >>> from rmixup.data.doctor import check
    >>> from rmixup.data.readers.simulate import simulate
    >>> ds = simulate(n_subjects=20, n_nodes=8, n_frames=30)
    >>> len(draw(ds, check(ds)).axes)
    6
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(11.5, 6.6), layout="constrained")
        axes = figure.subplots(2, 3).ravel()
        _draw_spectra(axes[0], report)
        _draw_spdness(axes[1], report)
        _draw_edges(axes[2], report)
        _draw_labels(axes[3], ds)
        _draw_frames(axes[4], ds)
        _draw_findings(axes[5], report)
        for each in axes[:5]:
            each.spines[["top", "right"]].set_visible(False)
        figure.suptitle(report.verdict, x=0.01, ha="left", fontsize=12, fontweight="bold", color=INK)
    return figure


def write(figure: Figure, path: Path) -> Path:
    """Write the figure as PNG, SVG or PDF, whole or not at all."""
    import matplotlib as mpl

    if path.suffix.lower() not in SUFFIXES:
        raise DataError(f"{path}: a figure is written as {', '.join(SUFFIXES)}, not as {path.suffix or 'no suffix'!r}")
    buffer = io.BytesIO()
    kind = path.suffix.lower().removeprefix(".")
    date = {"png": "Software", "svg": "Date", "pdf": "CreationDate"}[kind]
    with mpl.rc_context(STYLE):
        figure.savefig(buffer, format=kind, dpi=160, metadata={date: None})
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write(path, buffer.getvalue())
    return path


# --- the numbers


def _draw_spectra(axes: Axes, report: Report) -> None:
    axes.set_title("Eigenvalues", loc="left")
    scan = report.scan
    values = scan.eigenvalues[scan.symmetric][:, ::-1]
    if not values.size:
        return _say(axes, "no matrix is finite and symmetric")
    low, middle, high = np.clip(np.quantile(values, [0.05, 0.5, 0.95], axis=0), _SMALLEST_DRAWN, None)
    order = np.arange(1, values.shape[1] + 1)
    axes.fill_between(order, low, high, color=BLUE, alpha=0.18, lw=0)
    axes.plot(order, middle, color=BLUE, lw=1.8)
    axes.axhline(SPDNESS_TOLERANCE, color=VERMILLION, lw=1, ls=(0, (4, 3)))
    axes.text(1, SPDNESS_TOLERANCE, " counts as positive above", color=VERMILLION, va="bottom", ha="left", fontsize=8)
    axes.set(yscale="log", xlabel="largest first", xlim=(0, values.shape[1] + 1))
    axes.set_ylim(bottom=_SMALLEST_DRAWN / 2)
    _note(axes, "median and the middle 90 % of networks")
    return None


def _draw_spdness(axes: Axes, report: Report) -> None:
    axes.set_title("SPD-ness", loc="left")
    scan = report.scan
    values = scan.eigenvalues[scan.symmetric]
    if not values.size:
        return _say(axes, "no matrix is finite and symmetric")
    share = 100 * (values > SPDNESS_TOLERANCE).mean(axis=1)
    axes.hist(share, bins=np.linspace(0, 100, 51).tolist(), color=BLUE)
    axes.set(xlabel="eigenvalues above 1e-6 in each network (%)", ylabel="networks", xlim=(0, 101))
    _note(axes, f"mean {share.mean():.1f} %, full in {(share == 100).sum()} of {len(share)}")
    return None


def _draw_edges(axes: Axes, report: Report) -> None:
    axes.set_title("Edges", loc="left")
    counts = report.scan.edge_counts
    if not counts.sum():
        return _say(axes, "no edge lies in [−1, 1]")
    middles = (HISTOGRAM_EDGES[1:] + HISTOGRAM_EDGES[:-1]) / 2
    axes.fill_between(middles, counts / counts.max(), step="mid", color=BLUE, lw=0)
    axes.axvline(0, color=GREY, lw=0.8)
    mean = float(counts @ middles / counts.sum())
    axes.set(xlabel="value", xlim=(-1, 1), ylim=(0, 1.08), xticks=[-1, -0.5, 0, 0.5, 1], yticks=[])
    axes.spines["left"].set_visible(False)
    _note(axes, f"mean {mean:.2f}".replace("-", "−"))
    return None


# --- the people


def _draw_labels(axes: Axes, ds: Networks) -> None:
    axes.set_title("Labels" if ds.groups is None else "Labels at each site", loc="left")
    if ds.y is None:
        return _say(axes, "no labels")
    if ds.groups is None and ds.classes is not None:
        names, counts = np.array(ds.classes), np.bincount(ds.y, minlength=len(ds.classes))
        axes.barh(range(len(names)), counts, color=BLUE, height=0.8)
        axes.set(xlabel="networks")
    else:
        names = _draw_sites(axes, ds, np.full(len(ds), "all") if ds.groups is None else ds.groups)
    axes.set_yticks(range(len(names)), names.tolist(), fontsize=9 if len(names) <= 12 else 6.5)
    axes.tick_params(axis="y", length=0)
    axes.invert_yaxis()
    return None


def _draw_sites(axes: Axes, ds: Networks, sites: Any) -> Any:
    """Draw the labels of each site, the largest first; returns their names."""
    assert ds.y is not None
    names, sizes = np.unique(sites, return_counts=True)
    names = names[np.argsort(-sizes, kind="stable")][:_SITES_SHOWN]
    if ds.classes is None:
        _draw_numbers(axes, ds.y.reshape(len(ds), -1)[:, 0], sites, names)
    else:
        _draw_classes(axes, ds.y, ds.classes, sites, names)
    if len(sizes) > _SITES_SHOWN:
        _note(axes, f"the {_SITES_SHOWN} largest of {len(sizes)}")
    return names


def _draw_classes(axes: Axes, y: Any, classes: tuple[str, ...], sites: Any, names: Any) -> None:
    coloured = len(classes) <= len(CLASS_COLOURS)
    left = np.zeros(len(names))
    for code, name in enumerate(classes):
        counts = np.array([(y[sites == site] == code).sum() for site in names])
        colour = CLASS_COLOURS[code] if coloured else (BLUE, SKY)[code % 2]
        axes.barh(range(len(names)), counts, left=left, color=colour, label=name, height=0.8)
        left += counts
    axes.set(xlabel="networks" if coloured else f"networks, {len(classes)} classes", xlim=(0, left.max() * 1.02))
    if coloured:
        axes.legend(frameon=False, fontsize=8, loc="lower right", handlelength=1, borderaxespad=0)


def _draw_numbers(axes: Axes, y: Any, sites: Any, names: Any) -> None:
    quantiles = np.array([np.quantile(y[sites == site], [0.05, 0.25, 0.5, 0.75, 0.95]) for site in names]).T
    rows = range(len(names))
    axes.hlines(rows, quantiles[0], quantiles[4], color=BLUE, lw=1.5)
    axes.hlines(rows, quantiles[1], quantiles[3], color=BLUE, lw=6)
    axes.plot(quantiles[2], rows, "o", color="white", mec=BLUE, ms=7)
    axes.set(xlabel="label: median, middle 50 % and 90 %", ylim=(-0.6, len(names) - 0.4))


def _draw_frames(axes: Axes, ds: Networks) -> None:
    axes.set_title("Frames behind each network", loc="left")
    if ds.frames is None:
        return _say(axes, "not known")
    needed = ds.n_nodes + 1
    low, high = min(ds.frames.min(), needed), max(ds.frames.max(), needed)
    axes.hist(ds.frames, bins=np.linspace(low - 0.5, high + 0.5, 41).tolist(), color=BLUE)
    axes.axvline(needed, color=VERMILLION, lw=1, ls=(0, (4, 3)))
    axes.set(xlabel="frames (t)", ylabel="networks")
    axes.margins(y=0.22)
    on_left = needed > (low + high) / 2
    axes.annotate(
        f"n + 1 = {needed}", (needed, 0.98), xycoords=("data", "axes fraction"), xytext=(-4 if on_left else 4, 0),
        textcoords="offset points", ha="right" if on_left else "left", va="top", color=VERMILLION, fontsize=8,
    )  # fmt: skip
    return None


def _draw_findings(axes: Axes, report: Report) -> None:
    axes.set_axis_off()
    axes.set(xlim=(0, 1), ylim=(0, 1))
    axes.set_title("Findings", loc="left")
    if not report.findings:
        axes.text(0, 0.93, "nothing found", color=GREEN, fontsize=10, va="top")
    for row, finding in enumerate(report.findings[:_FINDINGS_SHOWN]):
        height = 0.93 - 0.08 * row
        colour, mark = SEVERITY_MARKS[finding.severity]
        axes.plot(0.015, height, mark, color=colour, ms=6.5, clip_on=False)
        axes.text(0.05, height, finding.code, va="center", fontsize=9)
        whom = counted(len(finding.subjects), "subject") if finding.subjects else ""
        axes.text(1, height, whom, va="center", ha="right", fontsize=8.5, color=GREY)
    if len(report.findings) > _FINDINGS_SHOWN:
        axes.text(0.05, 0, f"and {len(report.findings) - _FINDINGS_SHOWN} more", fontsize=8.5, color=GREY)


def _note(axes: Axes, words: str) -> None:
    """A few words at the right end of a panel's title."""
    axes.set_title(words, loc="right", fontsize=8.5, color=GREY)


def _say(axes: Axes, words: str) -> None:
    """An empty panel says why it is empty."""
    axes.text(0.5, 0.5, words, transform=axes.transAxes, ha="center", va="center", color=GREY)
    axes.set(xticks=[], yticks=[])
