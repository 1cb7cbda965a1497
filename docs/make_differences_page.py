"""Measure what docs/method/differences-from-the-paper.md shows.

    RMIXUP_DATA=... python docs/make_differences_page.py        # one minute on one core

Writes docs/_data/differences-*.csv. RMIXUP_DATA names a folder with `abide/`, as the Preprocessed Connectomes Project
distributes it (CC200 series and the phenotypes); only averages over people are written.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import rmixup
from rmixup import keys, spd
from rmixup.augment import Augmentation, CMixup, DMixup, DropEdge, DropNode, RMixup, VMixup
from rmixup.augment.quality import MIXES, sorted_triples

DOCS = Path(__file__).parent
BATCH, NODES, FRAMES, EPOCHS, TRIPLES = 16, 100, 100, 20, 1000
Array = np.ndarray[Any, np.dtype[Any]]
Row = tuple[str, ...]


def write(name: str, header: Row, rows: Iterable[Row]) -> None:
    rows = list(rows)  # measured before the file of the last time is emptied
    with (DOCS / "_data" / f"differences-{name}.csv").open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *rows])


def abide(**options: Any) -> rmixup.Networks:
    """The 1009 people of the literature; regions that do not vary in somebody are unconnected."""
    path = Path(os.environ["RMIXUP_DATA"]) / "abide"
    ds = rmixup.load(path, atlas="cc200", target="ASD", groups="SITE_ID")
    long = [subject for subject, frames in zip(ds.subjects, ds.frames, strict=True) if frames >= FRAMES]
    ds = ds.select(subjects=long)
    drawn = keys.generator(0, "differences", "nodes").permutation(ds.n_nodes)[: options.pop("nodes", NODES)]
    return ds.select(nodes=np.sort(drawn)).connectivity(constant="zero", **options)


def matrices(ds: rmixup.Networks) -> Array:
    assert ds.matrices is not None
    return np.asarray(ds.matrices, np.float64)


def percent(value: float) -> str:
    return f"{value:.0%}" if value == 0 or value >= 0.1 else f"{value:.1%}"


# --- the switches


def both(method: type[Augmentation], **settings: Any) -> tuple[Augmentation, Augmentation]:
    return method(published=True, **settings), method(**settings)


def made(method: Augmentation, x: Array, y: Array, epochs: int = 1) -> Iterable[tuple[Array, Any]]:
    """Batches of made networks with their plans."""
    prepared = method.prepare(x, y)
    for epoch in range(epochs):
        order = keys.generator(0, "order", epoch).permutation(len(x))
        for first in range(0, len(x) - BATCH + 1, BATCH):
            plan = prepared.draw(order[first : first + BATCH], (0, epoch, first))
            yield prepared.apply(plan)[0].numpy(), plan


def own_partners(method: Augmentation, x: Array, y: Array) -> str:
    """How often somebody is mixed with himself."""
    return percent(np.mean([(plan.i == plan.j).mean() for _, plan in made(method, x, y, EPOCHS)]))


def asymmetry(method: Augmentation, x: Array, y: Array) -> str:
    return percent(np.mean([norm(S - S.swapaxes(1, 2)).mean() / norm(S).mean() for S, _ in made(method, x, y)]))


def diagonal(method: Augmentation, x: Array, y: Array) -> str:
    return f"{np.mean([np.diagonal(S, axis1=1, axis2=2).mean() for S, _ in made(method, x, y)]):.2f}"


def masks(method: Augmentation, x: Array, y: Array) -> str:
    """Different sets of dropped nodes in a batch."""
    batches = [batch for batch, _ in made(method, np.ones_like(x), y)]
    return f"{np.mean([len({(S != 0).tobytes() for S in batch}) for batch in batches]):.0f}"


def unmixed(method: Augmentation, x: Array, y: Array) -> str:
    """Batches of 15 in which nothing is mixed."""
    prepared = method.prepare(x, y)
    return percent(np.mean([not prepared.draw(np.arange(15), (0, k)).lam.any() for k in range(100)]))


def norm(S: Array) -> Array:
    return np.linalg.norm(S, axis=(-2, -1))


def rounding(method: Augmentation, x: Array, y: Array) -> str:
    """How much the mixes change when the same networks come in float32."""
    plans = [plan for _, plan in made(method, x, y)]
    first, second = (method.prepare(x.astype(kind), y) for kind in (np.float64, np.float32))
    changes = [
        norm(first.apply(plan)[0].numpy() - second.apply(plan)[0].double().numpy()) / norm(first.apply(plan)[0].numpy())
        for plan in plans
    ]
    return f"{np.median(np.concatenate(changes)):.0e}"


def between_logs(x: Array) -> str:
    """The distance between the logarithms, float32 as published and float64 with a floor, relative to the latter."""
    w, V = np.linalg.eigh(x.astype(np.float32))
    w = np.where(w <= 0, np.float32(1e-8), w)
    published = (V * np.log(w)[:, None, :]) @ V.swapaxes(1, 2)
    floored = spd.logm(x, floor=1e-6)
    return percent(float(np.median(norm(published - floored) / norm(floored))))


def partners(method: Augmentation, x: Array, y: Array) -> str:
    return f"{np.median(method.prepare(x, y).effective_partners):.0f}"


def switches(x: Array, age: Array) -> Iterable[Row]:
    y = np.arange(len(x)) % 2
    floor = {"regularizer": "floor=1e-6"}

    def row(name: str, change: str, quantity: str, methods: tuple[Augmentation, Augmentation], measure: Any) -> Row:
        return (name, change, quantity, *(measure(method, x, y) for method in methods))

    yield row(
        "every mixing method",
        "partners are the batch in another order",
        "mixed with oneself",
        both(VMixup),
        own_partners,
    )
    yield (
        *row(
            "rmixup",
            "logarithms in the networks' own dtype; eigenvalues ≤ 0 become 1e-8",
            "mixes change when the same networks come in float32",
            (RMixup(published=True), RMixup(**floor)),
            rounding,
        ),
    )
    yield row("dmixup", "each entry has its own mask", "asymmetry of a made network", both(DMixup), asymmetry)
    yield row("dropedge", "each entry has its own mask, the diagonal too", "asymmetry", both(DropEdge), asymmetry)
    yield row("dropedge", "", "mean diagonal", both(DropEdge), diagonal)
    yield row(
        "dropnode", "one mask a batch, the diagonal too", "different masks in a batch of 16", both(DropNode), masks
    )
    yield row("dropnode", "", "mean diagonal", both(DropNode), diagonal)
    for unit, factor in (("years", 1.0), ("months", 12.0), ("days", 365.0)):
        change = "the bandwidth is 1 in raw label units, oneself is a partner" if unit == "years" else ""
        found = (partners(method, x, factor * age) for method in both(CMixup))
        yield ("cmixup", change, f"effective number of partners, age in {unit}", *found)
    yield (
        "cmixup",
        "batches of odd size are not mixed",
        "batches of 15 left alone",
        *(unmixed(m, x, age) for m in both(CMixup)),
    )


# --- the errata


def errata(ds: rmixup.Networks, whole: rmixup.Networks) -> Iterable[Row]:
    x = matrices(ds)
    people = f"ABIDE, {len(ds)} people, {ds.n_nodes} nodes"
    lowest = {}
    for frames in (NODES, NODES + 1):
        noise = keys.generator(0, "bound", frames).normal(size=(100, frames, NODES))
        lowest[frames] = np.mean([np.linalg.matrix_rank(np.corrcoef(one.T)) == NODES for one in noise])
    yield (
        "1",
        "t ≥ n frames make a correlation positive definite",
        "t ≥ n + 1: centring costs one",
        f"of 100 random correlations of {NODES} nodes {percent(lowest[NODES])} have full rank with {NODES} frames, "
        f"{percent(lowest[NODES + 1])} with {NODES + 1}; {people}, t = {FRAMES}: "
        f"mean SPD-ness {spd.spdness(x).mean():.3f}",
    )
    yield (
        "2",
        "dim Sym(n) = n(n − 1)/2",
        "n(n + 1)/2",
        f"the heat kernel's normaliser at n = {NODES}, σ = 1 is off by a factor of "
        f"10^{NODES / 2 * np.log10(4 * np.pi):.0f}; regression does not see a common factor",
    )
    order = keys.generator(0, "pairs").permutation(len(whole))
    a, b = (matrices(whole)[part] for part in np.split(order[: 2 * (len(whole) // 2)], 2))
    a, b = (spd.regularize(S, "shrink", 0.01)[0] for S in (a, b))
    logs, line = (np.linalg.slogdet(spd.geodesic(a, b, 0.5, metric=m))[1] for m in ("logeuclid", "euclid"))
    yield (
        "3",
        "the swelling bound compares with a determinant of logarithms",
        "det of the geodesic ≤ det((1−λ)S_i + λS_j)",
        f"holds for {percent((logs <= line).mean())} of {len(a)} pairs of ABIDE ({whole.n_nodes} nodes, all frames)",
    )
    shares = [
        np.diagonal(S, axis1=1, axis2=2).mean()
        for S, _ in made(RMixup(regularizer="floor=1e-6"), x, np.arange(len(x)) % 2)
    ]
    full = [
        np.diagonal(S, axis1=1, axis2=2).mean()
        for S, _ in made(RMixup(), spd.regularize(matrices(whole), "shrink", 0.01)[0], np.arange(len(whole)) % 2)
    ]
    yield (
        "5",
        "a mix of correlations is used as one",
        "its diagonal is below 1; `unit_diagonal=True` and `offlog` keep it",
        f"mean diagonal of mixes {np.mean(shares):.2f} ({people}, t = {FRAMES}), {np.mean(full):.2f} "
        f"({whole.n_nodes} nodes, all frames)",
    )
    yield (
        "6",
        "text: eigenvalues below 1e-6 become 1e-6; code: those ≤ 0 become 1e-8, in float32",
        "everything below the floor becomes the floor, in float64",
        f"the two logarithms differ by {between_logs(x)} of their norm ({people}, t = {FRAMES})",
    )
    counts = {name: int((ds.label_names() == name).sum()) for name in ds.classes or ()}
    yield (
        "7",
        "516 with autism, 493 controls",
        "493 with autism, 516 controls (ASD 1 means autism)",
        "counted in the phenotypes: " + ", ".join(f"ASD {name}: {count}" for name, count in counts.items()),
    )
    z = np.arctanh(np.clip(x, -0.999999, 0.999999) * (1 - np.eye(x.shape[-1])))
    yield (
        "8",
        "the field's file is taken for correlations",
        "it holds Fisher's z with a zero diagonal; `rmixup check` says so",
        f"{percent(float((np.linalg.eigvalsh(z) <= 0).mean()))} of the eigenvalues of such matrices are not positive "
        f"({people})",
    )


# --- study I and its controls


def label_distances(x: Array, age: Array) -> Iterable[str]:
    """The mean L1 distance of each mix to the network whose label it has."""
    triples = sorted_triples(age, TRIPLES)
    S = torch.from_numpy(x)
    lam = torch.from_numpy(triples.lam)[:, None, None]
    for mix in MIXES.values():
        some = zip(
            *(torch.split(part, 100) for part in (S[triples.low], S[triples.high], S[triples.middle], lam)), strict=True
        )
        yield f"{np.mean(np.concatenate([(mix(a, b, t) - c).abs().sum((1, 2)).numpy() for a, b, c, t in some])):.1f}"


def main() -> None:
    ds, whole = abide(frames=FRAMES), abide(nodes=50)
    table = ds.table
    assert table is not None
    age = table["AGE_AT_SCAN"].to_numpy(np.float64)
    write("switches", ("method", "published=True", "measured", "published", "default"), switches(matrices(ds), age))
    write("errata", ("", "the paper", "rmixup", "measured"), errata(ds, whole))
    floored = spd.regularize(matrices(ds), "floor", 1e-6)[0]
    simulated = rmixup.simulate(200, 60, 120, task="regression")
    assert simulated.y is not None
    definite = spd.regularize(matrices(whole), "floor", 1e-6)[0]
    rows = {
        f"ABIDE by age, {NODES} nodes, t = {FRAMES}, floored": label_distances(floored, age),
        "ABIDE by age, 50 nodes, all frames": label_distances(definite, age),
        "simulated score, 60 nodes, t = 120": label_distances(matrices(simulated), simulated.y),
    }
    write("labels", ("networks", *MIXES), ((name, *found) for name, found in rows.items()))


if __name__ == "__main__":
    main()
