"""What a stack of runs trains on: all chance of an epoch drawn ahead as one table of integers, applied step by step.

A step of R runs is one row of the table, so it reaches the device in one copy and a CUDA graph can read it from one
fixed place. May not be here: models, losses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from rmixup import keys
from rmixup.augment import Augmentation
from rmixup.augment.base import Batch, Prepared
from rmixup.augment.labels import Labels
from rmixup.augment.plan import Integers, Plan
from rmixup.errors import DataError, LeakageError

# Columns of a group of B samples in a row: i, j, λ (its bits), words, run.
COLUMNS = 5


@dataclass(frozen=True, eq=False)
class Problem:
    """Networks and labels that runs take their rows from.

    Parameters
    ----------
    x : (N, n, n) float tensor
        Its dtype is the one that is trained in; float32 is what GPUs are fast at.
    labels : `rmixup.augment.labels.Labels` of N
    groups : (N,) values or None
        For the pair policies that need them.
    weights : (N,) float tensor or None
        Weights of the networks in the training loss; a mix has the mix of its parents' weights.
    cache : folder or None
        Where logarithms are kept on disk, and read from while training; None: in memory.
    """

    x: Tensor
    labels: Labels
    groups: Any = None
    weights: Tensor | None = None
    cache: str | Path | None = None

    def __post_init__(self) -> None:
        given = {"labels": self.labels, "groups": self.groups, "weights": self.weights}
        wrong = [
            f"{name} {len(value)}" for name, value in given.items() if value is not None and len(value) != len(self.x)
        ]
        if wrong:
            raise DataError(f"expected one entry for each of {len(self.x)} networks, got {', '.join(wrong)}")

    @property
    def n_outputs(self) -> int:
        """One a class, or one a target."""
        if self.labels.codes is not None:
            return self.labels.n_classes
        assert self.labels.numbers is not None
        return int(self.labels.numbers.shape[1])


@dataclass(frozen=True, eq=False)
class Run:
    """One run: which rows it trains, selects and is judged on, its method, its seed.

    Parameters
    ----------
    train, validation, test : integers
        Rows of the problem; none in two of them. `validation` and `test` may be empty.
    augment : Augmentation
    seed : int
        The initial parameters, the order of the networks, the plans and the dropout follow from it.
    learning_rate, weight_decay : float or None
        None: the protocol's.
    """

    train: Integers
    validation: Integers
    test: Integers
    augment: Augmentation
    seed: int = 0
    learning_rate: float | None = None
    weight_decay: float | None = None

    def __post_init__(self) -> None:
        for name in ("train", "validation", "test"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), np.int64).reshape(-1))
        rows = np.concatenate([self.train, self.validation, self.test])
        values, counts = np.unique(rows, return_counts=True)
        if (counts > 1).any():
            raise LeakageError(
                f"the training, validation and test rows of a run must be different networks, but {(counts > 1).sum()} "
                f"occur twice (first: row {values[counts > 1][0]})"
            )
        if not len(self.train):
            raise DataError("a run needs at least one training network, but its train is empty")


class Group(NamedTuple):
    """Runs of a stack that share one method: their places in the stack, their preparations, alone and joined."""

    places: list[int]
    single: list[Prepared]
    joined: Prepared
    weights: Tensor | None  # of the joined training sets


@dataclass(frozen=True, eq=False)
class Feed:
    """The batches of a stack; `order` says at which place of the made batch each run lies."""

    runs: Sequence[Run]
    groups: list[Group]
    device: torch.device
    order: Tensor = field(init=False)

    def __post_init__(self) -> None:
        places = [place for group in self.groups for place in group.places]
        object.__setattr__(self, "order", torch.from_numpy(np.argsort(places)).to(self.device))

    @property
    def size(self) -> int:
        """Training networks of each run."""
        return len(self.runs[0].train)

    @property
    def capturable(self) -> bool:
        """Whether `make` can be part of a CUDA graph."""
        return all(group.joined.method.capturable for group in self.groups)

    def width(self, batch_size: int) -> int:
        """Integers in the row of a step."""
        return len(self.runs) * (COLUMNS * batch_size + 1)

    def epoch(self, epoch: int, batch_size: int) -> list[Integers]:
        """Draw an epoch: the rows of its full steps (S, width), and that of the smaller last one where there is one."""
        full, rest = divmod(self.size, batch_size)
        orders = [keys.generator(run.seed, "order", epoch).permutation(self.size) for run in self.runs]
        tables = []
        if full:
            tables.append(np.stack([self._row(orders, epoch, step, batch_size, batch_size) for step in range(full)]))
        if rest:
            tables.append(self._row(orders, epoch, full, batch_size, rest)[None])
        return tables

    def make(self, row: Tensor) -> tuple[Tensor, Tensor, Tensor | None, Tensor]:
        """Make a step's batch from its row on the device.

        Returns
        -------
        x (R, B, n, n), labels (R, B) or (R, B, k), weights (R, B) or None, and a word a run for dropout (R,).
        """
        made = [self._make_group(group, batch) for group, batch in self._batches(row)]
        x, y, weights = (_join([one[k] for one in made], self.order) for k in range(3))
        assert x is not None
        assert y is not None
        return x, y, weights, row[-len(self.runs) :]

    def _make_group(self, group: Group, batch: Batch) -> tuple[Tensor, Tensor, Tensor | None]:
        x, y = group.joined.mix(batch)
        runs = len(group.places)
        weights = None
        if group.weights is not None:
            weights = torch.lerp(group.weights[batch.i], group.weights[batch.j], batch.lam).view(runs, -1)
        return x.view(runs, -1, *x.shape[1:]), y.view(runs, -1, *y.shape[1:]), weights

    def _batches(self, row: Tensor) -> list[tuple[Group, Batch]]:
        size = (len(row) // len(self.runs) - 1) // COLUMNS
        start, found = 0, []
        for group in self.groups:
            count = len(group.places) * size
            i, j, lam, words, run = row[start : start + COLUMNS * count].view(COLUMNS, count)
            found.append((group, Batch(i, j, lam.view(torch.float64).to(group.joined.y.dtype), words, run)))
            start += COLUMNS * count
        return found

    def _row(self, orders: list[Integers], epoch: int, step: int, batch_size: int, size: int) -> Integers:
        taken = slice(step * batch_size, step * batch_size + size)
        parts = []
        for group in self.groups:
            plans = [
                one.draw(orders[place][taken], (self.runs[place].seed, "augment", epoch, step))
                for place, one in zip(group.places, group.single, strict=True)
            ]
            plan = Plan.join(plans)
            parts += [plan.i, plan.j, plan.lam.view(np.int64), plan.words, plan.run]
        words = [np.uint64(keys.word(run.seed, "dropout", epoch, step)) for run in self.runs]
        return np.concatenate([*parts, np.array(words, np.uint64).view(np.int64)])


def feed(problem: Problem, runs: Sequence[Run], device: torch.device) -> Feed:
    """Prepare the methods of a stack's runs; the runs must have training sets of one size."""
    sizes = {len(run.train) for run in runs}
    if len(sizes) > 1:
        raise DataError(f"the runs of a stack need training sets of one size, but have {sorted(sizes)}")
    _refuse_outside(len(problem.x), runs)
    return Feed(list(runs), [_group(problem, runs, places, device) for places in _by_method(runs)], device)


def _refuse_outside(count: int, runs: Sequence[Run]) -> None:
    """A row below zero would silently be another network, perhaps one of another side."""
    for place, run in enumerate(runs):
        rows = np.concatenate([run.train, run.validation, run.test])
        outside = rows[(rows < 0) | (rows >= count)]
        if len(outside):
            raise DataError(f"the rows of a run must lie in 0..{count - 1}, but run {place} has {outside[0]}")


def _group(problem: Problem, runs: Sequence[Run], places: list[int], device: torch.device) -> Group:
    labels, rows = problem.labels, [runs[place].train for place in places]
    single = runs[places[0]].augment.prepare_many(
        problem.x,
        labels.numbers if labels.codes is None else labels.codes,
        problem.groups,
        splits=rows,
        task=labels.task,
        n_classes=labels.n_classes or None,
        cache=problem.cache,
        device=device,
    )
    weights = None
    if problem.weights is not None:
        weights = problem.weights[torch.from_numpy(np.concatenate(rows))].to(device=device, dtype=problem.x.dtype)
    return Group(places, single, Prepared.join(single), weights)


def _by_method(runs: Sequence[Run]) -> list[list[int]]:
    """The places of runs with the same method and settings."""
    found: dict[Augmentation, list[int]] = {}
    for place, run in enumerate(runs):
        found.setdefault(run.augment, []).append(place)
    return list(found.values())


def _join(parts: Sequence[Tensor | None], order: Tensor) -> Tensor | None:
    """Bring the groups' runs into the stack's order."""
    tensors = [part for part in parts if part is not None]
    if not tensors:
        return None
    return tensors[0] if len(tensors) == 1 else torch.cat(tensors).index_select(0, order)
