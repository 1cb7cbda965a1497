"""What the cells of a study are run on: the data as loaded, as prepared for a cell, and the split of a cell.

Each is made once per process and kept while it is needed. Everything is a pure function of the spec's [data] and of
one cell; a network is computed from its own series alone, so nothing here can leak.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from rmixup import keys
from rmixup.augment.labels import encode
from rmixup.data.connectivity import check_series, regularized_kind
from rmixup.data.labels import shown
from rmixup.data.networks import Networks
from rmixup.data.readers import load
from rmixup.data.splits import Split, kfold, leave_group_out, split
from rmixup.data.store import MANIFEST
from rmixup.data.symmetry import refuse_undefined, symmetrised
from rmixup.errors import DataError
from rmixup.study.cells import Cell, Options
from rmixup.study.files import canonical
from rmixup.study.presets.datasets import place, simulated
from rmixup.study.spec import Data
from rmixup.train.feed import Problem

Array = npt.NDArray[Any]
Index = npt.NDArray[np.int64]
# Options of [data] that say what is made of the data once it is loaded.
_AFTER_READING = ("constant", "task", "least_frames", "drop_unlabelled")
# Networks as a cell needs them: few at once, because each is as large as the data.
_KEPT = 2


@dataclass(frozen=True, eq=False)
class Material:
    """Networks ready for training: the problem of the engine, and who they are."""

    problem: Problem
    subjects: Array
    groups: Array | None
    classes: tuple[str, ...] | None
    steps: tuple[Mapping[str, Any], ...]


def loaded(data: Data) -> Networks:
    """The networks or series that a spec names, with labels, before anything is computed from them."""
    return _loaded(data.model_dump_json())


def opened(data: Data) -> Networks:
    """The same, labelled or not: for what only measures networks."""
    # Of what is computed later reading does not depend, so two specs of one source read it once.
    later = {"nodes": None, "frames": None, "kind": "correlation", "regularize": None}
    return _opened(data.model_copy(update=later).model_dump_json())


def _loaded(text: str) -> Networks:
    data = Data.model_validate_json(text)
    ds = opened(data)
    if ds.y is None:
        raise DataError(f"{data.path}: no labels; name what is to be predicted as `target` in [data]")
    return ds


@lru_cache(maxsize=1)
def _opened(text: str) -> Networks:
    data = Data.model_validate_json(text)
    options = dict(data.options)
    after = {name: options.pop(name) for name in _AFTER_READING if name in options}
    ds = _read(data, options, after)
    return _long_enough(ds, after["least_frames"]) if "least_frames" in after else ds


def _read(data: Data, options: dict[str, Any], after: dict[str, Any]) -> Networks:
    if data.path is None:
        return _labelled(simulated(str(data.preset), options), data, after)
    folder = Path(data.path)
    if folder.name == MANIFEST or (folder / MANIFEST).is_file():
        return _labelled(load(folder, groups=data.groups, verify=True), data, after)
    path, options = place(data.preset, folder, options)
    reading = {name: after[name] for name in ("task", "drop_unlabelled", "constant") if name in after}
    return load(path, data.target, data.groups, data.layout, **options, **reading)


def _labelled(ds: Networks, data: Data, after: Mapping[str, Any]) -> Networks:
    """A folder that rmixup wrote keeps its table, so that any column of it can be the target."""
    if data.target is None or (data.target == ds.target and "task" not in after):
        return ds
    missing = "drop" if after.get("drop_unlabelled") else "error"
    return ds.with_target(data.target, task=after.get("task"), missing=missing)


def _long_enough(ds: Networks, least: Any) -> Networks:
    """Leave out people with shorter series, and record whom."""
    if not isinstance(least, int):
        raise DataError(f"least_frames: expected a whole number of frames, got {least!r}")
    if ds.frames is None:
        raise DataError("least_frames needs series, or the number of frames of each network")
    keep = ds.frames >= least
    return ds[keep]._with_step("drop_subjects", short=ds.subjects[~keep].tolist())


def examine(data: Data) -> None:
    """Refuse data that no cell could be computed from, before any is begun: all that is wrong, and whose it is.

    Series are computed with when a cell asks for them; what connectivity refuses is asked here at full length.
    """
    ds = _chosen(data.model_dump_json())
    refuse_undefined(ds)
    if ds.series is not None:
        check_series(ds.series, ds.subjects.tolist(), ds.nodes, str(data.options.get("constant", "error")))


def identity(data: Data, anew: bool = True) -> str:
    """SHA-256 of what was loaded and of the options that say how it is used; read anew, for files may change."""
    if anew:
        forget()
    ds = loaded(data)
    told = canonical({"content": ds.content_hash(), "options": _uses(data)})
    return hashlib.sha256(told.encode()).hexdigest()


def _uses(data: Data) -> dict[str, Any]:
    """Paths are left out: where a table lies does not matter, what it said is in the content."""
    return {name: value for name, value in data.options.items() if name in _AFTER_READING}


def forget() -> None:
    """Drop everything that is kept."""
    for kept in (_opened, _chosen, _material, _splits):
        kept.cache_clear()


def material(data: Data, cell: Cell) -> Material:
    """The networks of a cell, as its preparation and length want them."""
    return _material(data.model_dump_json(), cell.length, cell.shorten)


@lru_cache(maxsize=_KEPT)
def _material(text: str, length: int | None, shorten: str | None) -> Material:
    data = Data.model_validate_json(text)
    ds = networks(_chosen(text), data, length, shorten)
    matrices = ds.matrices
    assert matrices is not None
    x = torch.from_numpy(np.array(matrices, dtype=np.float32))
    labels = encode(ds.y, ds.task, None if ds.classes is None else len(ds.classes))  # type: ignore[arg-type]
    steps = ds.provenance.steps
    return Material(Problem(x, labels, ds.groups), ds.subjects, ds.groups, ds.classes, steps)


@lru_cache(maxsize=1)
def _chosen(text: str) -> Networks:
    """The data with the nodes of the spec."""
    data = Data.model_validate_json(text)
    return choose_nodes(_loaded(text), data.nodes)


def choose_nodes(ds: Networks, nodes: int | list[str] | None) -> Networks:
    """Named nodes, or so many drawn from the key ("nodes", n); in the order of the data.

    >>> ds = Networks(np.stack([np.eye(5)] * 2))
    >>> choose_nodes(ds, 3).n_nodes
    3
    """
    if nodes is None or nodes == ds.n_nodes:
        return ds
    if not isinstance(nodes, int):
        return ds.select(nodes=list(nodes))
    if not 2 <= nodes <= ds.n_nodes:
        raise DataError(f"nodes = {nodes} must lie between 2 and the {ds.n_nodes} nodes of the data")
    return ds.select(nodes=np.sort(keys.generator(0, "nodes", nodes).permutation(ds.n_nodes)[:nodes]))


def networks(ds: Networks, data: Data, length: int | None, shorten: str | None) -> Networks:
    """Matrices as a cell wants them: series cut or averaged, connectivity, regulariser."""
    if ds.series is None:
        return _given(ds, data, length)
    if length is not None:
        ds = shortened(ds, length, shorten or "average")
    frames = data.frames if length is None else None
    constant = str(data.options.get("constant", "error"))
    return ds.connectivity(data.kind, data.regularize, frames, constant)


def _given(ds: Networks, data: Data, length: int | None) -> Networks:
    """Networks that came as matrices; what needs series is refused."""
    asked = {"lengths": length, "frames": data.frames, "kind": data.kind if data.kind != "correlation" else None}
    needs = [name for name, value in asked.items() if value is not None]
    _, on_matrices = regularized_kind("correlation", data.regularize)
    if data.regularize is not None and on_matrices is None:
        needs.append(f"regularize = {data.regularize!r}")
    if needs:
        raise DataError(f"{shown(needs)} need series, but these data are matrices: leave them out, or load series")
    ds = symmetrised(ds)
    return ds if on_matrices is None else ds.regularize(on_matrices)


def shortened(ds: Networks, length: int, shorten: str) -> Networks:
    """Series of so many frames: the first ones, or means of blocks of neighbouring frames of nearly equal size.

    >>> ds = Networks(series=[np.arange(12.0).reshape(6, 2)])
    >>> shortened(ds, 3, "average").series[0].tolist()
    [[1.0, 2.0], [5.0, 6.0], [9.0, 10.0]]
    """
    assert ds.series is not None
    short = [str(name) for name, x in zip(ds.subjects, ds.series, strict=True) if len(x) < length]
    if short:
        raise DataError(
            f"{len(short)} of {len(ds)} series have fewer than {length} frames (subjects {shown(short)}): "
            f"ask for shorter lengths, or leave these people out with options.least_frames = {length}"
        )
    series = tuple(x[:length] if shorten == "first" else block_means(x, length) for x in ds.series)
    for x in series:
        x.setflags(write=False)
    return ds._derive(series=series, frames=np.full(len(ds), length), _rows=None)._with_step(
        "shorten", frames=length, how=shorten
    )


def block_means(x: Array, length: int) -> Array:
    """(t, n) to (length, n), each row the mean of a block of frames.

    >>> block_means(np.arange(5.0)[:, None], 2)[:, 0].tolist()
    [1.0, 3.5]
    """
    # As np.array_split divides: the first blocks have one frame more where t is no multiple.
    sizes = np.full(length, len(x) // length)
    sizes[: len(x) % length] += 1
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    return np.asarray(np.add.reduceat(x.astype(np.float64), starts, axis=0) / sizes[:, None])


# ---- splits


def rows(data: Data, cell: Cell) -> Split:
    """Train, validation and test rows of a cell: the same for every method; smaller training sets lie in larger."""
    text = data.model_dump_json()
    sides = _splits(text, cell.split, cell.repeat)[cell.fold]
    if cell.train_size == 1:
        return sides
    ds = _loaded(text)
    order = nested_order(ds.y if ds.task == "classification" else None, sides.train, (cell.repeat, cell.fold))
    kept = max(1, round(cell.train_size * len(order)))
    return sides._replace(train=np.sort(order[:kept]))


@lru_cache(maxsize=256)
def _splits(text: str, options: Options, repeat: int) -> list[Split]:
    """All folds of one repeat. Repeat r of a hold-out is that of `Networks.split(seed=seed + r)`."""
    ds, how = _loaded(text), dict(options)
    people = ds._people()
    stratify = None if how["stratify"] == "none" else how["stratify"]
    seed, sizes = int(how["seed"]), tuple(how["sizes"])
    if how["scheme"] == "holdout":
        return [split(**people, seed=seed + repeat, sizes=sizes, stratify=stratify)]
    if how["scheme"] == "kfold":
        n = int(how["folds"])
        made = kfold(**people, seed=seed, n_folds=n, repeats=repeat + 1, validation=sizes[1], stratify=stratify)
        return made[n * repeat :]
    return list(leave_group_out(**people, seed=seed + repeat, validation=sizes[1], stratify=stratify).values())


def nested_order(classes: Array | None, train: Index, key: tuple[int, int]) -> Index:
    """Training rows in an order whose every beginning has its share of each class.

    >>> y = np.array([0, 0, 0, 0, 1, 1])
    >>> y[nested_order(y, np.arange(6), (0, 0))][:3].tolist()
    [0, 1, 0]
    """
    shuffled = keys.generator(key[0], "train size", key[1]).permutation(np.sort(train))
    if classes is None:
        return shuffled
    own = classes[shuffled]
    place = np.empty(len(shuffled))
    for one in np.unique(own):
        members = np.flatnonzero(own == one)
        place[members] = (np.arange(len(members)) + 0.5) / len(members)
    return shuffled[np.argsort(place, kind="stable")]
