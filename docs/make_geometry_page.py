"""Measure what docs/method/which-geometry.md shows.

    python docs/make_geometry_page.py stability
    python docs/make_geometry_page.py cost                # on an otherwise idle machine
    RMIXUP_DATA=... python docs/make_geometry_page.py swelling

Writes docs/_data/*.csv and docs/_static/stability.svg. RMIXUP_DATA names a folder with `abide/rois_ho/*.1D` and
`abide/rois_cc200/*.1D` (series of the Preprocessed Connectomes Project); only averages over people are written.
"""

from __future__ import annotations

import csv
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.figure import Figure
from pyriemann.geometry.geodesic import geodesic_functions as textbook

from rmixup import keys
from rmixup.data.readers.simulate import simulate
from rmixup.report.swelling import STYLE
from rmixup.spd.correlation import CORRELATION_METRICS, unit_diagonal
from rmixup.spd.metrics import METRICS
from rmixup.spd.repair import regularize
from rmixup.spd.swelling import profile, swells

DOCS = Path(__file__).parent
NAMES = list(METRICS)
COLOURS = dict(zip(NAMES, ["#D55E00", "#B87A00", "#56B4E9", "#A5538A", "#009E73", "#0072B2"], strict=True))
NODES, PAIRS = 40, 20
CONDITIONS = range(1, 13)
POSITIONS = np.linspace(0, 1, 5)
Geodesic = Callable[[torch.Tensor, torch.Tensor, float], torch.Tensor]


def write(name: str, header: list[str], rows: Iterable[list[object]]) -> None:
    with (DOCS / "_data" / f"{name}.csv").open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *rows])


# --- stability


def with_condition(log10_condition: float, label: str) -> torch.Tensor:
    """Random SPD matrices (PAIRS, n, n) whose eigenvalues spread evenly in the logarithm up to 1."""
    rng = keys.generator(0, "stability", label, int(log10_condition))
    Q = np.linalg.qr(rng.normal(size=(PAIRS, NODES, NODES)))[0]
    return torch.from_numpy((Q * np.logspace(-log10_condition, 0, NODES)) @ Q.transpose(0, 2, 1)).mT.contiguous()


def short_series(label: str) -> torch.Tensor:
    """Correlations of n nodes from n/2 frames."""
    X = keys.generator(0, "short", label).normal(size=(PAIRS, NODES, NODES // 2))
    return torch.from_numpy(np.stack([np.corrcoef(x) for x in X]))


def cases() -> Iterable[tuple[str, torch.Tensor, torch.Tensor]]:
    for c in CONDITIONS:
        A, B = (with_condition(c, label) for label in "AB")
        yield f"1e{c}", (A + A.mT) / 2, (B + B.mT) / 2
    for how, amount in (("floor", 1e-6), ("shrink", 0.05)):
        A, B = (regularize(short_series(label), how, amount)[0] for label in "AB")
        yield f"t = n/2, {how} {amount:g}", A, B


def error(geodesic: Geodesic, A: torch.Tensor, B: torch.Tensor, exact: torch.Tensor) -> float:
    """The relative error of the midpoint in Frobenius norm; NaN where there is none that is finite."""
    try:
        got = geodesic(A.float(), B.float(), 0.5).double()
    except (RuntimeError, ValueError):
        return float("nan")
    return float((got - exact).norm() / exact.norm())


def cell(errors: np.ndarray) -> str:
    lost = float(np.isnan(errors).mean())
    if lost == 1:
        return "none"
    return f"{np.nanmedian(errors):.0e}" + (f" ({lost:.0%} none)" if lost else "")


def stability() -> None:
    tables: dict[str, dict[str, list[np.ndarray]]] = {"textbook": {}, "rmixup": {}}
    for case, A, B in cases():
        for name in NAMES:
            exact = METRICS[name].geodesic(A, B, 0.5)
            for kind, geodesic in (("textbook", textbook[name]), ("rmixup", METRICS[name].geodesic)):
                errors = [error(geodesic, a, b, c) for a, b, c in zip(A, B, exact, strict=True)]
                tables[kind].setdefault(case, []).append(np.array(errors))
    for kind, rows in tables.items():
        write(f"stability-{kind}", ["condition number", *NAMES], [[c, *map(cell, row)] for c, row in rows.items()])
    draw_stability(tables)


def draw_stability(tables: dict[str, dict[str, list[np.ndarray]]]) -> None:
    titles = {"textbook": "Textbook formulas in float32 (pyRiemann)", "rmixup": "rmixup, float32 in and out"}
    with mpl.rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="All-NaN slice")
        figure = Figure(figsize=(9.5, 3.6), layout="constrained")
        for axes, (kind, title) in zip(figure.subplots(1, 2, sharey=True), titles.items(), strict=True):
            for k, name in enumerate(NAMES):
                y = [np.nanmedian(tables[kind][f"1e{c}"][k]) for c in CONDITIONS]
                style = "o--" if name == "logchol" else "o-"  # it lies upon chol
                axes.plot([10.0**c for c in CONDITIONS], y, style, color=COLOURS[name], lw=2, ms=4, label=name)
            axes.set(xscale="log", yscale="log", xlabel="condition number of both networks", ylim=(1e-8, 3))
            axes.set_title(title, fontsize=9.5)
            axes.spines[["top", "right"]].set_visible(False)
        figure.axes[0].set_ylabel("relative error of the midpoint")
        figure.axes[0].legend(frameon=False, ncols=2, fontsize=8)
        figure.savefig(DOCS / "_static" / "stability.svg", metadata={"Date": None})


# --- cost


def cost() -> None:
    rows: list[list[object]] = []
    for n in (50, 100, 200):
        X = torch.from_numpy(keys.generator(0, "cost", n).normal(size=(16, n, 3 * n))).float()
        A = X @ X.mT / (3 * n)
        B = A.flip(0)
        logs = [METRICS["logeuclid"].chart(S).float() for S in (A, B)]  # type: ignore[misc]
        calls: dict[str, Callable[[], object]] = {
            name: lambda g=metric.geodesic, A=A, B=B: g(A, B, 0.5)
            for name, metric in (METRICS | CORRELATION_METRICS).items()
        }
        calls["logeuclid, logs cached"] = lambda logs=logs: METRICS["logeuclid"].inverse(sum(logs) / 2)  # type: ignore[misc]
        C = unit_diagonal(A)
        calls["offlog"] = lambda C=C: CORRELATION_METRICS["offlog"].geodesic(C, C.flip(0), 0.5)
        seconds = {name: best_of(call) for name, call in calls.items()}
        rows.append([n, *(f"{1e6 * s / 16:,.0f} µs ({s / seconds['euclid']:,.0f}×)" for s in seconds.values())])
    write("cost", ["nodes", *calls], rows)


def best_of(call: Callable[[], object], repeats: int = 5) -> float:
    call()
    durations = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        durations.append(time.perf_counter() - start)
    return min(durations)


# --- swelling


def rescaled(A: torch.Tensor, B: torch.Tensor, t: float) -> torch.Tensor:
    return unit_diagonal(METRICS["logeuclid"].geodesic(A, B, t))


def abide(folder: Path, atlas: str, long: bool, count: int) -> torch.Tensor:
    """Correlations of people in random order; either all have 20 more frames than nodes or none has."""
    found: list[np.ndarray] = []
    for file in keys.generator(0, "abide", atlas).permutation(
        sorted((folder / "abide" / f"rois_{atlas}").glob("*.1D"))
    ):
        series = np.loadtxt(file)
        frames, nodes = series.shape
        if (series.std(0) > 0).all() and (frames >= nodes + 20 if long else frames <= nodes):
            found.append(np.corrcoef(series.T))
        if len(found) == count:
            break
    return torch.from_numpy(np.stack(found))


def cohorts(folder: Path) -> Iterable[tuple[str, torch.Tensor]]:
    yield "simulated, n = 60, t = 120", torch.tensor(simulate(120, n_nodes=60, n_frames=120).matrices)
    yield "ABIDE Harvard-Oxford, n = 111, t ≥ 131", abide(folder, "ho", True, 120)
    yield "ABIDE CC200, n = 200, t ≤ 200, shrink 0.05", regularize(abide(folder, "cc200", False, 50), "shrink", 0.05)[0]


def swelling() -> None:
    geodesics: dict[str, Geodesic] = {name: m.geodesic for name, m in (METRICS | CORRELATION_METRICS).items()}
    geodesics["logeuclid, unit diagonal"] = rescaled
    rates, diagonals, conditions = [], [], []
    for name, S in cohorts(Path(os.environ["RMIXUP_DATA"])):
        order = keys.generator(0, "pairs", name).permutation(len(S))
        A, B = S[order[: len(S) // 2]], S[order[len(S) // 2 : 2 * (len(S) // 2)]]
        title = f"{name} ({len(A)} pairs)"
        paths = {kind: profile(A, B, geodesic, POSITIONS) for kind, geodesic in geodesics.items()}
        rates.append([title, *(f"{swells(along).mean():.0%}" for along in paths.values())])
        conditions.append([title, *(worse(along.condition) for along in paths.values())])
        diagonals.append([title, *(f"{np.mean(along.trace[2]) / S.shape[-1]:.2f}" for along in paths.values())])
    for table, rows in (("swelling", rates), ("diagonal", diagonals), ("condition", conditions)):
        write(table, ["networks", *geodesics], rows)


def worse(condition: np.ndarray) -> str:
    """The median over pairs of the midpoint's condition number, as a multiple of the worse parent's."""
    return f"{np.median(condition[2] / condition[[0, -1]].max(0)):.2f}"


if __name__ == "__main__":
    # pyRiemann 0.12 calls a deprecated name of array-api-extra.
    warnings.filterwarnings("ignore", message=".*expand_dims", category=DeprecationWarning)
    {"stability": stability, "cost": cost, "swelling": swelling}[sys.argv[1]]()
