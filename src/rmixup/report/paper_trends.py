"""The figures of studies C, D and E: performance over training size, series length and α, and what of it is a gain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmixup.report.paper_style import METHODS, PUBLISHED, called, colour, head, measured, styled, unit_of
from rmixup.report.swelling import BLUE, GREY, INK

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from rmixup.study.presets.findings import Findings

_GAINING = ("vmixup", "cmixup", "rmixup")


@styled
def draw_sample_size(findings: Findings) -> Figure:
    """Study C: scores and gains over the share of the training data."""
    table, comparisons = findings.tables["sample-size"], findings.tables["comparisons"]
    shares = table.assign(at=100 * table["train_size"])
    figure, (left, right) = _figure([1.25, 1])
    score = _score(findings)
    _draw_means(left, shares, score)
    _draw_published(left, shares, score)
    head(left, "a", "Performance over the size of the training set")
    _draw_gains(right, comparisons.assign(at=100 * comparisons["train_size"]), score)
    head(right, "b", "Gain over none")
    for axes in (left, right):
        axes.set_xlabel("share of the training data (%)")
    _legend(figure, left)
    return figure


@styled
def draw_length(findings: Findings) -> Figure:
    """Study D: SPD-ness, scores and gains over the length of the series."""
    table, comparisons = findings.tables["length"], findings.tables["comparisons"]
    figure, (first, second, third) = _figure([1, 1.25, 1], 12.6)
    score = _score(findings)
    _draw_spdness(first, findings.tables["spdness"])
    _draw_means(second, table.assign(at=table["length"]), score)
    head(second, "b", "Performance, series averaged to t frames")
    _draw_gains(third, comparisons.assign(at=comparisons["length"]), score)
    head(third, "c", "Gain over none")
    for axes in (second, third):
        axes.set_xlabel("t, frames in each series")
    _legend(figure, second)
    return figure


@styled
def draw_alpha(findings: Findings) -> Figure:
    """Study E: the score for each α beside none, and each α against α = 1."""
    table, versus = findings.tables["alpha"], findings.tables["alphas"]
    figure, (left, right) = _figure([1.25, 1])
    score = _score(findings)
    none, own = table[table["method"] == "none"], table[table["alpha"].notna()].sort_values("alpha")
    at = own["alpha"].astype(float)
    left.axhspan(float(none[f"{score}_low"].iloc[0]), float(none[f"{score}_high"].iloc[0]), color=INK, alpha=0.08, lw=0)
    left.axhline(float(none[score].iloc[0]), color=INK, lw=1.4, label="none")
    left.fill_between(at, own[f"{score}_low"], own[f"{score}_high"], color=BLUE, alpha=0.15, lw=0)
    left.plot(at, own[score], "o-", color=BLUE, ms=4.5, lw=1.8, label="R-Mixup")
    for name, rows in table[table["alpha"].isna() & (table["method"] != "none")].groupby("method"):
        left.axhline(float(rows[score].iloc[0]), color=colour(str(name)), ls=METHODS[str(name)][2], lw=1.4,
                     label=called(str(name)))  # fmt: skip
    left.set(xlabel="α", ylabel=measured(score))
    head(left, "a", "Performance over α")
    _band(right, _with_usual(versus), BLUE, None)
    right.plot(1.0, 0, "o", color=BLUE, ms=6, mfc="white", zorder=5)
    right.axhline(0, color=INK, lw=1, zorder=0)
    right.set(xlabel="α", ylabel=f"gain over α = 1 ({unit_of(score)})")
    head(right, "b", "Against α = 1")
    _legend(figure, left)
    return figure


def _with_usual(versus: pd.DataFrame) -> pd.DataFrame:
    """The gains over α = 1 in the order of α, and that α itself, which gains nothing over itself."""
    import pandas as pd

    usual = pd.DataFrame({"at": [1.0], "gain": [0.0], "low": [0.0], "high": [0.0]})
    others = versus.assign(at=versus["alpha"].astype(float))[["at", "gain", "low", "high"]]
    return pd.concat([others, usual], ignore_index=True).sort_values("at")


# ---- panels


def _figure(widths: list[float], width: float = 9.4) -> tuple[Figure, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, 3.7), layout="constrained")
    return figure, figure.subplots(1, len(widths), width_ratios=widths)


def _score(findings: Findings) -> str:
    """The column of the score that counts: the first of the splits."""
    return str(findings.tables["splits"]["score"].iloc[0])


def _draw_means(axes: Axes, table: pd.DataFrame, score: str) -> None:
    """The mean of every method, with the bootstrap interval of the two in front."""
    for name in dict.fromkeys(table["method"]):
        own = table[table["method"] == name].sort_values("at")
        dash = METHODS.get(name, ("", "", "-"))[2]
        front = name == "rmixup"
        if front or name == "none":
            low, high = own[f"{score}_low"], own[f"{score}_high"]
            axes.fill_between(own["at"], low, high, color=colour(name), alpha=0.12, lw=0)
        axes.plot(own["at"], own[score], marker="o", ms=3.6, color=colour(name), ls=dash, label=called(name),
                  lw=2.2 if front else 1.5, zorder=4 if front else 3)  # fmt: skip
    axes.set_ylabel(measured(score))


def _draw_published(axes: Axes, table: pd.DataFrame, score: str) -> None:
    column = f"{score}_published"
    if column in table:
        own = table[(table["method"] == "rmixup") & table[column].notna()]
        axes.plot(own["at"], own[column].astype(float), "D", color=PUBLISHED, ms=4, label="R-Mixup, published")


def _draw_gains(axes: Axes, comparisons: pd.DataFrame, score: str) -> None:
    """The gain of each mixup over none, with its bootstrap interval."""
    own = comparisons[comparisons["score"] == score.removesuffix("_percent")]
    axes.axhline(0, color=INK, lw=1, zorder=0)
    for name in _GAINING:
        part = own[own["method"] == name].sort_values("at")
        if len(part):
            _band(axes, part, colour(name), called(name))
    axes.set_ylabel(f"gain ({unit_of(score)}), up is better")


def _band(axes: Axes, part: pd.DataFrame, shade: str, label: str | None) -> None:
    axes.fill_between(part["at"], part["low"], part["high"], color=shade, alpha=0.14, lw=0)
    axes.plot(part["at"], part["gain"], "o-", color=shade, ms=3.6, lw=1.7, label=label)


def _draw_spdness(axes: Axes, table: pd.DataFrame) -> None:
    n = int(table["nodes"].iloc[0])
    axes.plot(table["frames"], table["bound"], color=GREY, lw=1.2, ls=(0, (4, 3)), label="bound: (t − 1)/n")
    axes.plot(table["frames"], table["spdness"], "o-", color=BLUE, ms=3.6, lw=1.8, label="SPD-ness")
    axes.plot(table["frames"], table["positive_definite"], "s-", color="#B87A00", ms=3.2, lw=1.4,
              label="networks that are SPD")  # fmt: skip
    axes.axvline(n + 1, color=INK, lw=1, ls=":")
    axes.annotate(f"n + 1 = {n + 1}", (n + 1, 0.03), xytext=(4, 0), textcoords="offset points", fontsize=8.5)
    axes.set(xlabel="t, the first frames of each series", ylabel="share", ylim=(-0.03, 1.05))
    axes.legend(frameon=False, fontsize=8, loc="center right")
    head(axes, "a", "SPD-ness, series cut to t frames")


def _legend(figure: Figure, axes: Axes) -> None:
    from matplotlib.patches import Patch

    handles, labels = axes.get_legend_handles_labels()
    handles, labels = [*handles, Patch(color=GREY, alpha=0.3, lw=0)], [*labels, "95 % interval over splits"]
    figure.legend(handles, labels, loc="outside lower center", ncols=8, frameon=False, fontsize=8.5)
