"""A fitted model, and how one comes about: trained by the engine, or solved where it is a linear baseline.

A `Model` is plain values and tensors, so it can be pickled by those who pickle and written by `folder` for those who
do not. May not be here: files, data sets, metrics' names.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.func import functional_call

from rmixup import models
from rmixup.augment.labels import Task
from rmixup.augment.plan import Integers
from rmixup.errors import DataError
from rmixup.models import BACKBONES, Backbone
from rmixup.train import engine
from rmixup.train.baselines import BASELINES
from rmixup.train.engine import Epoch, Outcome, Progress
from rmixup.train.feed import Problem, Run
from rmixup.train.losses import Scaler
from rmixup.train.protocol import Protocol
from rmixup.train.scores import SCORES, probabilities
from rmixup.train.training import EVALUATED

Floats = npt.NDArray[np.float64]
# Whose features are matrix logarithms: every network must be positive definite, also when it predicts.
NEEDS_SPD = frozenset({"tangent"})


@dataclass(frozen=True, eq=False)
class Model:
    """What predicts.

    Parameters
    ----------
    backbone : name in `rmixup.models.BACKBONES` or `rmixup.train.baselines.BASELINES`, or a class
    options : dict
        What the class was made with.
    n_nodes, n_outputs : int
    task : "classification" or "regression"
    state : dict of name -> tensor, on the CPU
    scaler : Scaler or None
        Brings the outputs of a trained regression back to its targets' units.
    """

    backbone: str | type[Backbone]
    options: dict[str, Any]
    n_nodes: int
    n_outputs: int
    task: Task
    state: dict[str, Tensor]
    scaler: Scaler | None = None

    @torch.no_grad()
    def predict(self, x: Tensor, device: torch.device | str | None = None) -> Floats:
        """Class probabilities (N, C), or numbers (N, k), of networks (N, n, n)."""
        forward, where, dtype = self._forward(device)
        parts = [forward(part.to(device=where, dtype=dtype)) for part in torch.split(x, EVALUATED)]
        outputs = torch.cat(parts) if parts else torch.empty(0, self.n_outputs)
        if self.task == "classification":
            outputs = probabilities(outputs)
        elif self.scaler is not None:
            outputs = self.scaler.restore(outputs.cpu())
        return np.asarray(outputs.double().cpu().numpy())

    def _forward(self, device: torch.device | str | None) -> tuple[Callable[[Tensor], Tensor], torch.device, Any]:
        if is_baseline(self.backbone):
            baseline = BASELINES[str(self.backbone)](**self.options).load(self.state)
            return baseline.predict, torch.device("cpu"), torch.float64
        where = as_device(device)
        module = models.build(self.backbone, self.n_nodes, self.n_outputs, **self.options).to(where)
        state = {name: value.to(where) for name, value in self.state.items()}
        return lambda x: functional_call(module, state, (x,)), where, next(iter(state.values())).dtype


class Fit(NamedTuple):
    """A model at its best epoch, at its last one, and what the engine says of them."""

    best: Model
    last: Model
    outcome: Outcome


def is_baseline(backbone: str | type[Backbone]) -> bool:
    """Whether it is solved instead of trained."""
    return isinstance(backbone, str) and backbone in BASELINES


def known_backbone(backbone: str | type[Backbone]) -> str | type[Backbone]:
    """The backbone or baseline, or an error with all names.

    >>> known_backbone("linear")
    'linear'
    """
    if isinstance(backbone, str) and backbone not in {**BACKBONES, **BASELINES}:
        raise DataError(f"backbone must be one of {', '.join([*BACKBONES, *BASELINES])}, but is {backbone!r}")
    return backbone


def as_device(device: torch.device | str | None) -> torch.device:
    """The device asked for; None: a GPU where there is one."""
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(device)
    except RuntimeError as error:
        raise DataError(f"device must be 'cpu', 'cuda' or another that torch knows, but is {device!r}") from error
    if found.type == "cuda" and not torch.cuda.is_available():
        raise DataError(f"device is {device!r}, but torch sees no GPU here: use device='cpu', or leave it out")
    return found


def fit(
    problem: Problem,
    run: Run,
    backbone: str | type[Backbone],
    options: dict[str, Any],
    protocol: Protocol,
    *,
    device: torch.device | str | None = None,
    patience: int | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Fit:
    """Fit one model.

    Parameters
    ----------
    problem, run, protocol : see `rmixup.train.engine.fit`
    backbone, options : see `Model`
    device : device or None
        None: a GPU where there is one. Baselines are solved on the CPU.
    patience : int or None
        Stop when the validation score has not got better for so many epochs. Baselines have no epochs.
    progress : function of Progress, or None
    """
    if is_baseline(known_backbone(backbone)):
        return _solve(problem, run, str(backbone), options)
    if patience is not None and not len(run.validation):
        raise DataError("patience needs validation networks to judge the epochs by, but the run has none")
    started = time.perf_counter()
    training = engine.Maker(problem, backbone, options, protocol, as_device(device))([run])
    waiting = _Patience(patience, training.selected_by[0])
    for epoch in range(protocol.epochs):
        training.epoch()
        loss, score = training.now()
        if progress is not None:
            progress(Progress(1, epoch + 1, protocol.epochs, loss, score, time.perf_counter() - started))
        if waiting.over(float(score[0])):
            break
    last = {name: value[0].cpu() for name, value in training.stack.copy().items()}
    outcome = engine.outcomes(training, time.perf_counter() - started)[0]
    labels = problem.labels
    scaler = None if labels.numbers is None else Scaler.fit(torch.from_numpy(labels.numbers[run.train]))
    sizes = (problem.x.shape[-1], problem.n_outputs)
    best, final = (Model(backbone, options, *sizes, labels.task, s, scaler) for s in (outcome.state, last))
    return Fit(best, final, outcome)


class _Patience:
    """Counts epochs since the score was best."""

    def __init__(self, limit: int | None, score: str) -> None:
        self.limit, self.since, self.best = limit, 0, -np.inf
        self.sign = 1.0 if score in SCORES and SCORES[score].greater_is_better else -1.0

    def over(self, score: float) -> bool:
        """Take the score of an epoch; say whether to stop."""
        better = self.sign * score > self.best
        self.best, self.since = (self.sign * score, 0) if better else (self.best, self.since + 1)
        return self.limit is not None and self.since >= self.limit


def _solve(problem: Problem, run: Run, name: str, options: dict[str, Any]) -> Fit:
    """Fit a baseline; it has one state, which is its best and its last."""
    started = time.perf_counter()
    labels = problem.labels
    y = torch.from_numpy(labels.numbers if labels.codes is None else labels.codes)
    x, classes = problem.x.double(), labels.n_classes or None
    weights = None if problem.weights is None else problem.weights[run.train]
    validation = (x[run.validation], y[run.validation]) if len(run.validation) else None
    baseline = _made(name, options).fit(x[run.train], y[run.train], weights, validation, classes)
    model = Model(
        backbone=name,
        options={**options, "C": float(baseline.chosen_C)},
        n_nodes=x.shape[-1],
        n_outputs=problem.n_outputs,
        task=labels.task,
        state=baseline.state(),
    )
    epoch = Epoch(1, *(model.predict(x[rows]) for rows in (run.validation, run.test)))
    seconds = time.perf_counter() - started
    return Fit(model, model, Outcome(run, epoch, epoch, {}, "loss", None, model.state, seconds))


def _made(name: str, options: dict[str, Any]) -> Any:
    try:
        return BASELINES[name](**options)
    except TypeError as error:
        raise DataError(f"backbone {name!r} does not take the options {', '.join(options)} ({error})") from error


def rows_of(*sides: Any) -> tuple[Integers, ...]:
    """Row numbers as the engine takes them."""
    return tuple(np.asarray(side, np.int64) for side in sides)
