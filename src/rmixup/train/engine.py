"""The engine: one training loop for R runs of one backbone at once.

`fit` trains any number of runs, stack by stack. Inside an epoch nothing waits for the device: the epoch's chance goes
there as one table, steps and evaluations are CUDA graphs where there is a GPU, losses and scores stay there too. A
run's result depends on its own settings, not on its stack. May not be here: files, metrics, methods.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rmixup import models
from rmixup.errors import DataError
from rmixup.models import Backbone
from rmixup.train.feed import Problem, Run
from rmixup.train.protocol import Protocol
from rmixup.train.training import Training

Floats = npt.NDArray[np.float64]
# Share of a GPU's free memory that a stack may take.
MEMORY_SHARE = 0.6


class Progress(NamedTuple):
    """What a progress callback is told after each epoch of a stack."""

    runs: int
    epoch: int
    epochs: int
    train_loss: Floats
    validation_score: Floats
    seconds: float


@dataclass(frozen=True, eq=False)
class Epoch:
    """The outputs of a run at one epoch: class probabilities (rows, C), or targets in their own units (rows, k)."""

    number: int
    validation: Floats
    test: Floats


@dataclass(frozen=True, eq=False)
class Outcome:
    """What came of one run.

    `best` is the epoch with the best validation score, `last` the last one. `curves` maps "train_loss",
    "validation_loss", "validation_score" and, where watched, "test_loss" to one number an epoch. `diverged` is the
    first epoch whose training loss was not finite, or None. `state` are the best epoch's parameters.
    """

    run: Run
    best: Epoch
    last: Epoch
    curves: dict[str, Floats]
    selected_by: str
    diverged: int | None
    state: dict[str, Tensor]
    seconds: float


def fit(
    problem: Problem,
    runs: Sequence[Run],
    backbone: str | type[Backbone] = "transformer",
    *,
    options: dict[str, Any] | None = None,
    protocol: Protocol | None = None,
    device: torch.device | str | None = None,
    stack: int | str = "auto",
    progress: Callable[[Progress], None] | None = None,
) -> list[Outcome]:
    """Train runs and return their outcomes, in the order of `runs`.

    Parameters
    ----------
    problem : Problem
    runs : sequence of Run
    backbone, options : see `rmixup.models.build`
    protocol : Protocol
        None: the paper's.
    device : device or None
        None: a GPU where there is one.
    stack : int or "auto"
        Runs trained at once. "auto" follows the free memory of a GPU and is 1 on a CPU, where processes serve better.
        A stack that does not fit is halved, with a warning; results do not depend on it.
    progress : function of Progress, or None
    """
    protocol = protocol or Protocol()
    device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    make = Maker(problem, backbone, options or {}, protocol, device)
    outcomes: dict[int, Outcome] = {}
    for places in _same_size(runs):
        size = make.stack_size([runs[p] for p in places]) if stack == "auto" else _checked(stack)
        for done, found in _in_stacks(make, [runs[p] for p in places], size, progress):
            outcomes |= {places[k]: outcome for k, outcome in zip(done, found, strict=True)}
    return [outcomes[k] for k in range(len(runs))]


@dataclass(frozen=True, eq=False)
class Maker:
    """Builds the training of a stack."""

    problem: Problem
    backbone: str | type[Backbone]
    options: dict[str, Any]
    protocol: Protocol
    device: torch.device

    def __call__(self, runs: Sequence[Run]) -> Training:
        """Models, data and optimiser of some runs, on the device."""
        nodes, outputs = self.problem.x.shape[-1], self.problem.n_outputs
        built = [models.build(self.backbone, nodes, outputs, run.seed, **self.options) for run in runs]
        return Training(self.problem, runs, built, self.protocol, self.device)

    def stack_size(self, runs: Sequence[Run]) -> int:
        """How many runs fit the device, from the memory that one takes."""
        if self.device.type != "cuda" or not models.find(self.backbone).stackable:
            return 1
        free, _ = torch.cuda.mem_get_info(self.device)
        before = torch.cuda.memory_allocated(self.device)
        torch.cuda.reset_peak_memory_stats(self.device)
        one = self(runs[:1])
        shared = torch.cuda.memory_allocated(self.device) - before
        one.rehearse()
        peak = torch.cuda.max_memory_allocated(self.device) - before
        del one
        torch.cuda.empty_cache()
        # The networks and their logarithms are there once; all else is there once a run.
        return int(np.clip((MEMORY_SHARE * free - shared) / max(peak - shared, 1), 1, len(runs)))


def _checked(stack: int | str) -> int:
    if not isinstance(stack, int) or stack < 1:
        raise DataError(f"stack must be a whole number of at least 1, or 'auto', but is {stack!r}")
    return stack


def _same_size(runs: Sequence[Run]) -> list[list[int]]:
    """Places of the runs whose training sets have one size: only those can share steps."""
    found: dict[int, list[int]] = {}
    for place, run in enumerate(runs):
        found.setdefault(len(run.train), []).append(place)
    return list(found.values())


def _in_stacks(
    make: Maker, runs: Sequence[Run], size: int, progress: Callable[[Progress], None] | None
) -> Iterator[tuple[list[int], list[Outcome]]]:
    start = 0
    while start < len(runs):
        places = list(range(start, min(start + size, len(runs))))
        try:
            outcomes = _train(make, [runs[p] for p in places], progress)
        except torch.cuda.OutOfMemoryError:
            if len(places) == 1:
                raise
            outcomes = None
        if outcomes is None:  # outside the except, whose traceback holds on to the memory
            size = len(places) // 2
            torch.cuda.empty_cache()
            warnings.warn(f"{len(places)} runs at once do not fit the GPU's memory: going on with {size}", stacklevel=3)
            continue
        yield places, outcomes
        start += len(places)


def _train(make: Maker, runs: Sequence[Run], progress: Callable[[Progress], None] | None) -> list[Outcome]:
    started = time.perf_counter()
    training = make(runs)
    for epoch in range(make.protocol.epochs):
        training.epoch()
        if progress is not None:
            loss, score = training.now()
            progress(Progress(len(runs), epoch + 1, make.protocol.epochs, loss, score, time.perf_counter() - started))
    return outcomes(training, time.perf_counter() - started)


def outcomes(training: Training, seconds: float) -> list[Outcome]:
    """Judge the runs of a finished training at their last and at their best epoch."""
    curves = training.curves()
    last = training.outputs()
    chosen = training.choose()
    best = training.outputs()
    found = []
    for r, run in enumerate(training.runs):
        own = {name: values[:, r] for name, values in curves.items()}
        broken = np.flatnonzero(~np.isfinite(own["train_loss"]))
        found.append(
            Outcome(
                run=run,
                best=Epoch(int(chosen[r]), *best[r]),
                last=Epoch(training.done, *last[r]),
                curves=own,
                selected_by=training.selected_by[r],
                diverged=int(broken[0]) + 1 if len(broken) else None,
                state=training.stack.state(r),
                seconds=seconds / len(training.runs),
            )
        )
    return found
