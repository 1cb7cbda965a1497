"""Which drawings a report shows: each with its name, its caption, and words for those who do not see it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from rmixup.report import figures
from rmixup.report.answer import place
from rmixup.report.names import short
from rmixup.report.numbers import number, score
from rmixup.report.predictions import Floats, Predicted, SiteScores, by_site, calibration, read
from rmixup.report.swelling import BLUE, GREY, INK, ORANGE, PURPLE, VERMILLION
from rmixup.study.project import Study
from rmixup.study.samples import GEODESIC, STRAIGHT, Made
from rmixup.study.statistics import measure
from rmixup.study.tables import Setting, labels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Every setting has its numbers in the tables; more drawings than these would make the page too long to read.
SETTINGS_DRAWN = 6
METHODS_DRAWN = 12
_NAMED = 12
# Geometry -> label, colour, dash.
GEOMETRIES: dict[str, tuple[str, str, Any]] = {
    STRAIGHT: ("straight line", VERMILLION, "-"),
    "wasserstein": ("Wasserstein", PURPLE, (0, (5, 2))),
    "chol": ("Cholesky", ORANGE, (0, (2, 1.5))),
    GEODESIC: ("log-Euclidean geodesic", BLUE, "-"),
}


@dataclass(frozen=True)
class Picture:
    """A drawing: `name` is its file's and its id, `words` say what it shows, `caption` stands below it."""

    name: str
    figure: Figure
    words: str
    caption: str = ""


# --- scores


def of_splits(settings: Sequence[Setting]) -> Iterator[Picture]:
    """Scores and gains of every split, setting by setting."""
    for k, setting in enumerate(settings[:SETTINGS_DRAWN]):
        measured = measure(setting.score)
        means = [f"{short(row.method)} {score(row.mean, measured)}" for row in setting.rows]
        words = f"{setting.score} of every split with {place(setting)}. Means: {_few(means)}."
        yield Picture(f"splits-{k + 1}", figures.splits(setting), words, f"{place(setting)}: scores.")
        if setting.comparisons:
            told = [f"{short(one.method)} {number(one.gain, sign=True)}" for one in setting.comparisons]
            words = f"Gain over {short(setting.reference)} on every split with {place(setting)}. Means: {_few(told)}."
            yield Picture(f"gains-{k + 1}", figures.gains(setting), words, f"{place(setting)}: gains.")


def of_trends(settings: Sequence[Setting]) -> Iterator[Picture]:
    """Scores over training size and series length, where the study varies them."""
    kinds = {"train_size": ("length", "training size"), "length": ("train_size", "series length")}
    for along, (held, noun) in kinds.items():
        for k, group in enumerate(_families(settings, held)):
            measured = [setting for setting in group if getattr(setting, along) is not None]
            if len(measured) < 2:
                continue
            first = measured[0]
            words = f"Mean {first.score} of every method over {noun}, with {short(first.backbone)}."
            name = f"trend-{along.replace('_', '-')}-{k + 1}"
            yield Picture(
                name, figures.trend(measured, along), words, f"{short(first.backbone)}: {first.score} over {noun}."
            )


def _families(settings: Sequence[Setting], held: str) -> list[list[Setting]]:
    """Settings of one backbone that agree in what is held, in the order they come in."""
    families: dict[tuple[str, Any], list[Setting]] = {}
    for setting in settings:
        families.setdefault((setting.backbone, getattr(setting, held)), []).append(setting)
    return list(families.values())


def _few(words: Sequence[str]) -> str:
    more = [f"{len(words) - _NAMED} more"] if len(words) > _NAMED else []
    return ", ".join([*words[:_NAMED], *more])


# --- single cells


@dataclass(frozen=True)
class Runs:
    """What the finished cells of one setting kept, by method."""

    curves: dict[str, dict[str, Floats]]
    predictions: dict[str, list[Predicted]]
    binary: str
    sites: SiteScores | None


def runs(study: Study, setting: Setting, cells: pd.DataFrame) -> Runs:
    """Read curves and predictions of a setting's cells.

    Parameters
    ----------
    study : where they lie.
    setting : which ones.
    cells : from `rmixup.study.tables.cell_table`.
    """
    at_length = cells["length"].isna() if setting.length is None else cells["length"] == setting.length
    here = (cells["train_size"] == setting.train_size) & at_length & (cells["state"] == "done")
    mine = cells[here & (cells["baseline"] | (cells["backbone"] == setting.backbone))]
    names = labels(cells)[mine.index]
    curves: dict[str, dict[str, list[Sequence[float]]]] = {}
    predictions: dict[str, list[Predicted]] = {}
    for key, label in zip(mine["key"], names, strict=True):
        record = study.store.read(key)
        for name, curve in record.curves.items():
            curves.setdefault(label, {}).setdefault(name, []).append(curve)
        if predicted := read(record.predictions):
            predictions.setdefault(label, []).append(predicted)
    stacked = {label: {name: _stack(parts) for name, parts in found.items()} for label, found in curves.items()}
    first = next((parts[0] for parts in predictions.values()), None)
    binary = first.classes[1] if first is not None and len(first.classes) == 2 else ""
    return Runs(stacked, predictions, binary, by_site(predictions))


def _stack(parts: Sequence[Sequence[float]]) -> Floats:
    """(R, E) curves, NaN after the end of each."""
    table = np.full((len(parts), max(map(len, parts))), np.nan)
    for row, part in zip(table, parts, strict=True):
        row[: len(part)] = part
    return table


def of_curves(found: Runs, name: str) -> Iterator[Picture]:
    """Losses over the epochs, one panel a method, all on one scale."""
    drawn = {m: c for m, c in found.curves.items() if any("loss" in curve for curve in c)}
    tops = [np.nanquantile(v, 0.98) for c in drawn.values() for n, v in c.items() if "loss" in n and v.size]
    for k, (method, curves) in enumerate(list(drawn.items())[:METHODS_DRAWN]):
        ends = [
            f"{figures.LOSSES.get(curve, (short(curve),))[0]} {number(float(np.nanmean(v[:, -1])), 3)}"
            for curve, v in curves.items()
            if "loss" in curve
        ]
        epochs = max(values.shape[1] for values in curves.values())
        words = f"Losses of {short(method)} over {epochs} epochs; at the end: {_few(ends)}."
        yield Picture(f"{name}-{k + 1}", figures.curves(method, curves, 1.08 * float(max(tops))), words)


def of_predictions(found: Runs, name: str) -> Iterator[Picture]:
    """Calibration, or predicted against true numbers, one panel a method."""
    ends = _ends(found.predictions)
    for k, (method, parts) in enumerate(list(found.predictions.items())[:METHODS_DRAWN]):
        if not parts[0].classes:
            words = f"Predicted against true values of {short(method)}, {sum(len(p.truth) for p in parts)} predictions."
            yield Picture(f"{name}-{k + 1}", figures.regression(method, parts, ends), words)
            continue
        told = calibration(parts)
        words = (
            f"Calibration of {short(method)}: mean distance between predicted probability and what happened "
            f"{number(told.error, 3)}, {told.counts.sum()} predictions."
        )
        drawn = figures.calibration(method, told, binary=bool(found.binary), name=found.binary)
        yield Picture(f"{name}-{k + 1}", drawn, words)


def _ends(predictions: Mapping[str, Sequence[Predicted]]) -> tuple[float, float]:
    """The smallest and the largest number, true or predicted, of all methods, with a little room."""
    every = [part for parts in predictions.values() for part in parts]
    if not every:
        return 0.0, 1.0
    values = np.concatenate([values for part in every for values in (part.truth, part.outputs[:, 0])])
    room = 0.03 * float(np.ptp(values)) or 0.5
    return float(values.min()) - room, float(values.max()) + room


def of_sites(found: SiteScores, setting: Setting, name: str) -> Picture:
    """Scores at each site."""
    words = f"{found.score} of every method at {len(found.sites)} sites; the table below has the numbers."
    return Picture(name, figures.sites(found, setting), words)


# --- what was made


def of_mixes(made: Made) -> Iterator[Picture]:
    """Two networks, what lies halfway between them, spectra, determinants, diagonals."""
    a, b = made.ends
    told_as = [f" ({short(label, 20)})" if label else "" for label in made.labels]
    networks = {
        f"Network A{told_as[0]}": a,
        f"Network B{told_as[1]}": b,
        "Halfway, straight line": made.middles[STRAIGHT],
        "Halfway, geodesic": made.middles[GEODESIC],
    }
    limit = 1.0 if np.abs(made.ends).max() <= 1 + 1e-6 else float(np.quantile(np.abs(made.ends), 0.99))
    for k, (title, matrix) in enumerate(networks.items()):
        n, log_det, diagonal = len(matrix), float(np.linalg.slogdet(matrix)[1]), float(np.diagonal(matrix).mean())
        sizes = f"mean diagonal {number(diagonal)}, log determinant {number(log_det, 1)}"
        words = f"{title}: heat map of {n} by {n} nodes, {sizes}."
        yield Picture(f"network-{k + 1}", figures.heat_map(title, matrix, limit), words)
    yield _spectra(networks)
    middle = {name: float(values[len(values) // 2]) for name, values in made.log_det.items()}
    told = ", ".join(f"{GEOMETRIES[name][0]} {number(value, 1)}" for name, value in middle.items())
    words = f"Log determinant from network A to network B; halfway: {told}."
    caption = "Swelling: the shaded band lies between the two networks."
    yield Picture("swelling", figures.swelling(made.t, made.log_det, GEOMETRIES), words, caption)
    means = ", ".join(f"{GEOMETRIES[name][0]} {number(float(v.mean()))}" for name, v in made.diagonals.items())
    words = f"Mean diagonal of networks halfway between pairs: {means}."
    caption = f"{len(made.diagonals[STRAIGHT])} pairs; a correlation matrix has a diagonal of 1."
    yield Picture("diagonal", figures.diagonals(made.diagonals, GEOMETRIES), words, caption)


def _spectra(networks: Mapping[str, Floats]) -> Picture:
    styles = dict(zip(networks, [(GREY, "-"), (INK, (0, (4, 2))), (VERMILLION, "-"), (BLUE, "-")], strict=True))
    values = {name: np.clip(np.linalg.eigvalsh(matrix)[::-1], 1e-8, None) for name, matrix in networks.items()}
    told = ", ".join(f"{name} {number(v[0], 1)} to {v[-1]:.1e}" for name, v in values.items())
    return Picture(
        "spectra", figures.spectra(values, styles), f"Eigenvalues, from the largest to the smallest: {told}."
    )
