"""The pictures of an explanation, and the folder that holds them with its tables.

A picture travels without the page it came from, so each says what it shows, of which model, and whether the null and
the refits bear it out. What is not significant is drawn pale; the sign of an edge is its direction as well as its
colour. Never imports torch.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rmixup.errors import StoreError
from rmixup.explain.files import check_place, files_of
from rmixup.explain.maps import node_sums
from rmixup.explain.result import LEVEL, Explanation
from rmixup.files import place_folder
from rmixup.report.figures import styled
from rmixup.report.inline import plain, save
from rmixup.report.names import short
from rmixup.report.numbers import number
from rmixup.report.swelling import BLUE, GREY, INK, VERMILLION

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KINDS = ("svg", "png")
SCORES = {"auroc": "AUROC", "r": "r"}
# Rows of a picture; the tables hold all.
ROWS = 20
_LABEL = 24  # letters of a node's name
_SYSTEM_LABEL = 20
# More systems than these have no room for numbers.
_NUMBERED = 14
_PALE = 0.3
_DIRECTED = 0.5  # a pair of systems has a sign where this share of its importance does not cancel
_WIDTH = 6.8  # inches
_LARGEST_NODE, _LONGEST_BRAIN = 90.0, 9.6
WITHOUT_NILEARN = "The brain was not drawn: that needs nilearn (pip install 'rmixup[neuro]')."


def write(told: Explanation, folder: Path, overwrite: bool = False) -> tuple[list[Path], list[str]]:
    """Write tables and pictures as one folder, whole or not at all; returns its files and what is missing, in words.

    Parameters
    ----------
    told : Explanation
    folder : a place that is free; an explanation that is there is replaced only with `overwrite`, else never.
    """
    check_place(folder, overwrite)
    missing = [WITHOUT_NILEARN] if told.coordinates is not None and find_spec("nilearn") is None else []
    drawn = {name: draw(told) for name, draw in pictures(told).items()}
    images = {f"{name}.{kind}": save(figure, kind) for name, figure in drawn.items() for kind in KINDS}
    folder.absolute().parent.mkdir(parents=True, exist_ok=True)
    contents = {**files_of(told), **images}
    if not place_folder(contents, folder, overwrite):
        raise StoreError(f"{folder}: something was put there meanwhile; choose another name")
    return [folder / name for name in contents], missing


def pictures(told: Explanation) -> dict[str, Callable[[Explanation], Figure]]:
    """Name -> drawing, of those that can be drawn."""
    found: dict[str, Callable[[Explanation], Figure]] = {"top_edges": top_edges, "nodes": nodes}
    if told.systems is not None:
        found["systems"] = systems
    if told.coordinates is not None and find_spec("nilearn") is not None:
        found["connectome"] = connectome
    return found


# ---- bars


@styled
def top_edges(told: Explanation) -> Figure:
    """The strongest edges: to the right where a stronger edge raises the output, and in how many refits each is one."""
    table = told.edges().head(min(ROWS, told.top))
    one = len(told.outputs) == 1
    figure, axes = _panel(len(table))
    values = 100 * table["signed" if one else "importance"].to_numpy()
    labels = [f"{_name(a)}  –  {_name(b)}" for a, b in zip(table["source"], table["target"], strict=True)]
    colours = np.where(values >= 0, VERMILLION, BLUE) if one else np.full(len(values), BLUE)
    _bars(axes, values, labels, colours, table)
    if "stability" in table:
        _beside(axes, [f"{round(100 * share)} %" for share in table["stability"]], "among the top\nin refits")
    axes.axvline(0, color=INK, lw=0.8)
    what = "share of the map (%)"
    axes.set_xlabel(f"← lowers     {what}     raises →" if one and (values < 0).any() else what)
    return _titled(figure, axes, "Edges", told)


@styled
def nodes(told: Explanation) -> Figure:
    """The most important nodes; the line is what each would have if all were alike."""
    table = told.node_table().head(ROWS)
    figure, axes = _panel(len(table))
    labels = [_name(name) for name in table["node"]]
    _bars(axes, 100 * table["importance"].to_numpy(), labels, np.full(len(table), BLUE), table)
    if "system" in table:
        _beside(axes, [plain(short(name, _SYSTEM_LABEL)) for name in table["system"]], "system")
    axes.axvline(100 / len(told.nodes), color=INK, lw=1, ls=(0, (4, 3)))
    axes.set_xlabel("share of the map (%), dashed: all nodes alike")
    return _titled(figure, axes, "Nodes", told)


def _panel(rows: int) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH, 1.5 + 0.235 * rows), layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.grid(axis="x", color=GREY, alpha=0.25, lw=0.6)
    axes.set_axisbelow(True)
    return figure, axes


def _bars(axes: Axes, values: Any, labels: list[str], colours: Any, table: pd.DataFrame) -> None:
    """A bar a row, the first on top; pale where the null reaches as much."""
    sure = (table["p_corrected"] <= LEVEL).to_numpy() if "p_corrected" in table else np.ones(len(table), bool)
    for place, (value, colour, is_sure) in enumerate(zip(values, colours, sure, strict=True)):
        axes.barh(place, value, color=colour, alpha=1 if is_sure else _PALE, height=0.74)
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)


def _beside(axes: Axes, words: list[str], head: str) -> None:
    """A column of words at the right end of the rows."""
    for place, text in enumerate(words):
        axes.annotate(
            text, (1.02, place), xycoords=("axes fraction", "data"), va="center", fontsize=8, color=GREY,
        )  # fmt: skip
    axes.annotate(head, (1.02, -0.75), xycoords=("axes fraction", "data"), va="bottom", fontsize=8, color=GREY)


# ---- systems


@styled
def systems(told: Explanation) -> Figure:
    """How important the edges between two systems are, where 1 is the average edge; in the order of the nodes."""
    from matplotlib.figure import Figure

    table = told.pair_table()
    assert table is not None
    assert told.systems is not None
    names = list(dict.fromkeys(told.systems))
    at = {name: k for k, name in enumerate(names)}
    full = np.full((len(names), len(names)), np.nan)
    side = 2.4 + 0.42 * min(len(names), 22)
    figure = Figure(figsize=(max(side + 0.8, 4.6), side), layout="constrained")
    axes = figure.subplots()
    for row in table.to_dict("records"):
        a, b = sorted((at[row["system_a"]], at[row["system_b"]]))
        full[b, a] = row["per_edge"]
    limit = max(2.0, float(np.nanmax(full)))
    image = axes.imshow(full, cmap="Blues", vmin=0, vmax=limit, interpolation="nearest")
    if len(names) <= _NUMBERED:
        for row in table.to_dict("records"):
            a, b = sorted((at[row["system_a"]], at[row["system_b"]]))
            dark = full[b, a] > 0.6 * limit
            sure = row.get("p_corrected", 1.0) <= LEVEL
            axes.text(
                a, b, _told(row, len(told.outputs) == 1, sure), ha="center", va="center", fontsize=7.5,
                color="white" if dark else INK, fontweight="bold" if sure else "normal",
            )  # fmt: skip
    labels = [plain(short(name, _SYSTEM_LABEL)) for name in names]
    size = 8.5 if len(names) <= _NUMBERED else 6.5
    axes.set_xticks(range(len(names)), labels, rotation=45, ha="right", rotation_mode="anchor", fontsize=size)
    axes.set_yticks(range(len(names)), labels, fontsize=size)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    bar = figure.colorbar(image, ax=axes, shrink=0.6, aspect=18, pad=0.02)
    bar.outline.set_visible(False)
    bar.set_label("importance of an edge (1: the average edge)", fontsize=8)
    return _titled(figure, axes, "Pairs of systems", told)


def _told(row: dict[Any, Any], one: bool, sure: bool) -> str:
    """The number of a cell: its sign where most of it goes one way, a star where the null does not reach it."""
    directed = one and abs(row["signed"]) >= _DIRECTED * row["importance"] > 0
    sign = ("+" if row["signed"] > 0 else "−") if directed else ""
    return f"{sign}{number(row['per_edge'], 1)}{'*' if sure else ''}"


# ---- the brain


@styled
def connectome(told: Explanation) -> Figure:
    """The top edges in a glass brain, by nilearn, which takes coordinates for millimetres in MNI space."""
    from matplotlib.figure import Figure

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nilearn's imports warn of what is not ours
        from nilearn import plotting

        one = len(told.outputs) == 1
        values = told.signed[0] if one else told.importance
        full = 100 * told.matrix(np.where(told.is_top, values, 0.0))
        sizes = node_sums(told.importance, len(told.nodes))
        figure = Figure(figsize=(_LONGEST_BRAIN, 4.0))
        limit = float(np.abs(full).max())
        plotting.plot_connectome(
            full, told.coordinates, node_size=_LARGEST_NODE * sizes / sizes.max(), node_color=INK,
            edge_cmap="RdBu_r" if one else "Blues", edge_vmin=-limit if one else 0, edge_vmax=limit,
            figure=figure, axes=(0.02, 0.02, 0.96, 0.8), colorbar=True, alpha=0.35,
        )  # fmt: skip
    words, colour = _trust(told)
    figure.text(0.02, 0.97, f"The {told.top} strongest edges: {_of(told)}", fontsize=10, fontweight="bold", va="top")
    figure.text(0.02, 0.91, words, fontsize=8.5, color=colour, va="top")
    figure.text(0.98, 0.91, "colour: share of the map (%)", fontsize=8.5, color=GREY, va="top", ha="right")
    return figure


# ---- words


def _titled(figure: Figure, axes: Axes, what: str, told: Explanation) -> Figure:
    words, colour = _trust(told)
    figure.suptitle(f"{what}: {_of(told)}", x=0.01, ha="left", fontsize=10, fontweight="bold")
    pale = "pale: not significant (corrected p > 0.05)" if "edges" in told.p else ""
    note = "*, bold: significant (corrected p ≤ 0.05); sign: most edges push one way" if "systems" in what else pale
    figure.supxlabel("\n".join(filter(None, [words, note])), x=0.01, ha="left", fontsize=8.5, color=colour)
    return figure


def _of(told: Explanation) -> str:
    """Which model, and which way."""
    model = told.record["model"]
    classes = model["classes"]
    target = model["target"]
    what = plain(target) if isinstance(target, str) else "the label" if target is None else "the targets"
    if classes is None:
        return f"what {plain(model['backbone'])} predicts {what} by"
    if len(classes) == 2:
        second = plain(short(classes[1], _LABEL))
        which = f"{what} = {second}" if isinstance(target, str) else second
        return f"what drives {plain(model['backbone'])} towards {which}"
    return f"what {plain(model['backbone'])} tells {len(classes)} classes by"


def _trust(told: Explanation) -> tuple[str, str]:
    """How far the picture can be trusted, in one line, and its colour."""
    if told.stability is None or told.prediction is None:
        return "One model, explained alone: nothing is known of stability or chance", VERMILLION
    agreement = f"maps of {told.record['refits']} refits agree by {number(told.stability.agreement)}"
    skill = f"they predict others with {SCORES[told.prediction.score]} {number(told.prediction.mean)}"
    if not told.holds:
        return f"No better than chance, do not interpret: {agreement}, {skill}", VERMILLION
    return f"{agreement[0].upper()}{agreement[1:]}; {skill}; both above chance", GREY


def _name(name: str) -> str:
    return plain(short(name, _LABEL))
