"""Trials: runs told in plain values, and what came of them in plain values.

The door for who holds arrays and names: studies, and machines that have torch and NumPy only. May not be here: files,
data sets, splits.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rmixup import models
from rmixup.augment import Augmentation, as_augmentation
from rmixup.augment.plan import Integers
from rmixup.errors import DataError, RMixupError
from rmixup.train import engine, model
from rmixup.train.baselines import BASELINES
from rmixup.train.engine import Epoch, Outcome
from rmixup.train.feed import Problem, Run
from rmixup.train.protocol import Protocol
from rmixup.train.scores import score, undefined

Floats = npt.NDArray[np.float64]
# After the name of a score: its value at the last epoch instead of the chosen one.
LAST = "_last"
# A backbone of so many nodes is built to see whether it takes its options.
_NODES = 8


@dataclass(frozen=True, eq=False)
class Trial:
    """One run in plain values.

    Parameters
    ----------
    train, validation, test : rows of the problem
    method : name in `rmixup.augment.METHODS`
    backbone : name in `rmixup.models.BACKBONES` or `rmixup.train.baselines.BASELINES`
    method_options, backbone_options, protocol : what these take; the paper's where left out
    seed : int
    """

    train: Integers
    validation: Integers
    test: Integers
    method: str = "none"
    backbone: str = "transformer"
    method_options: Mapping[str, Any] = field(default_factory=dict)
    backbone_options: Mapping[str, Any] = field(default_factory=dict)
    protocol: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0

    @property
    def family(self) -> str:
        """What trials share that the engine trains at once."""
        return json.dumps([self.backbone, dict(self.backbone_options), dict(self.protocol)], sort_keys=True)


@dataclass(frozen=True, eq=False)
class Tried:
    """What came of a trial.

    Attributes
    ----------
    scores : every score of the task on the test rows at the chosen epoch and, with `_last` after its name, at the last
    undefined : score -> why it is NaN
    predictions : (tests, C) class probabilities, or (tests, k) numbers, at the chosen epoch
    curves : name -> one number an epoch
    epoch, epochs : the chosen epoch and the last one
    selected_by : the score that chose
    diverged : the first epoch whose training loss was not finite, or None
    state : parameter -> array, at the chosen epoch
    seconds : of training
    """

    scores: dict[str, float]
    undefined: dict[str, str]
    predictions: Floats
    curves: dict[str, list[float]]
    epoch: int
    epochs: int
    selected_by: str
    diverged: int | None
    state: dict[str, npt.NDArray[Any]]
    seconds: float

    def to_plain(self) -> tuple[dict[str, Any], Floats]:
        """JSON values (NaN as None) and the predictions; without the state, which studies keep where it was made."""
        kept = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in {"predictions", "state"}}
        kept["scores"] = {name: _or_none(value) for name, value in self.scores.items()}
        kept["curves"] = {name: list(map(_or_none, curve)) for name, curve in self.curves.items()}
        return kept, self.predictions

    @classmethod
    def from_plain(cls, values: Mapping[str, Any], predictions: Floats) -> Tried:
        """Undo `to_plain`; what it cannot have given is a TypeError."""
        scores = {name: _or_nan(value) for name, value in values["scores"].items()}
        curves = {name: list(map(_or_nan, curve)) for name, curve in values["curves"].items()}
        undefined = dict(values["undefined"])
        kept = {"scores": scores, "curves": curves, "undefined": undefined, "predictions": predictions, "state": {}}
        tried = cls(**{**values, **kept})
        whole = (tried.epoch, tried.epochs, 0 if tried.diverged is None else tried.diverged)
        texts = (tried.selected_by, *undefined.values())
        numbers = (tried.seconds, *scores.values(), *itertools.chain(*curves.values()))
        if not _all(whole, int) or not _all(texts, str) or not _all(numbers, int | float) or predictions.ndim != 2:
            raise TypeError("expected epochs, scores and curves as numbers, and a row of predictions a network")
        return tried


def _all(values: Iterable[object], kind: Any) -> bool:
    return all(isinstance(value, kind) and not isinstance(value, bool) for value in values)


def check(method: str, options: Mapping[str, Any]) -> Augmentation:
    """The method that a name and options stand for, or an error in one line.

    >>> check("dropnode", {"rate": 0.2})
    DropNode(rate=0.2, published=False)
    """
    known = as_augmentation(method)
    taken = [one.name for one in fields(known)]
    unknown = sorted(set(options) - set(taken))
    if unknown:
        raise DataError(f"method {method!r} has no option {', '.join(unknown)}; it has: {', '.join(taken)}")
    return as_augmentation(method, **options)


def check_backbone(backbone: str, options: Mapping[str, Any]) -> None:
    """Refuse a backbone that is not there or does not take these options."""
    model.known_backbone(backbone)
    try:
        BASELINES[backbone](**options) if backbone in BASELINES else models.build(backbone, _NODES, 2, **options)
    except TypeError as error:
        raise DataError(f"backbone {backbone!r} does not take these options ({error})") from error


def run(
    problem: Problem, trials: Sequence[Trial], device: torch.device | str | None = None, stack: int | str = "auto"
) -> Iterator[tuple[int, Tried | RMixupError]]:
    """Run trials and yield (place, what came of it) as it comes; one that is refused yields its error.

    Parameters
    ----------
    problem : Problem
    trials : sequence of Trial
    device : device or None
        None: a GPU where there is one.
    stack : int or "auto"
        See `rmixup.train.engine.fit`; on a CPU trials are run one by one.

    >>> from rmixup.augment.labels import encode
    >>> x = torch.eye(3).repeat(12, 1, 1)
    >>> rows = np.split(np.arange(12), [6, 8])
    >>> trial = Trial(*rows, backbone="mlp", protocol={"epochs": 2})
    >>> [(place, tried)] = run(Problem(x, encode([0, 1] * 6)), [trial], "cpu")
    >>> place, tried.predictions.shape
    (0, (4, 2))
    """
    where = model.as_device(device)
    places: dict[str, list[int]] = {}
    for place, trial in enumerate(trials):
        alone = where.type == "cpu" or model.is_baseline(trial.backbone)
        places.setdefault(str(place) if alone else trial.family, []).append(place)
    for together in places.values():
        yield from zip(together, _run(problem, [trials[place] for place in together], where, stack), strict=True)


def _run(
    problem: Problem, trials: Sequence[Trial], device: torch.device, stack: int | str
) -> Sequence[Tried | RMixupError]:
    """Trials of one family; where they are refused together, each method by itself, so that one fails alone."""
    try:
        return _fit(problem, trials, device, stack)
    except RMixupError as error:
        if len(trials) == 1:
            return [error]
    found: list[Tried | RMixupError | None] = [None] * len(trials)
    for _, part in itertools.groupby(
        sorted(range(len(trials)), key=lambda k: _named(trials[k])), lambda k: _named(trials[k])
    ):
        own = list(part)
        halves = [own] if len(own) < len(trials) else [[k] for k in own]
        for half in halves:
            for place, one in zip(half, _run(problem, [trials[k] for k in half], device, stack), strict=True):
                found[place] = one
    return [one for one in found if one is not None]


def _named(trial: Trial) -> str:
    return json.dumps([trial.method, dict(trial.method_options)], sort_keys=True)


def _fit(problem: Problem, trials: Sequence[Trial], device: torch.device, stack: int | str) -> list[Tried]:
    first = trials[0]
    protocol, options = Protocol(**first.protocol), dict(first.backbone_options)
    runs = [Run(t.train, t.validation, t.test, check(t.method, t.method_options), t.seed, None, None) for t in trials]
    if model.is_baseline(model.known_backbone(first.backbone)):
        found = [model.fit(problem, run, first.backbone, options, protocol).outcome for run in runs]
    else:
        found = engine.fit(
            problem, runs, first.backbone, options=options, protocol=protocol, device=device, stack=stack
        )
    return [_tried(problem, outcome) for outcome in found]


def _tried(problem: Problem, outcome: Outcome) -> Tried:
    scores, why = _scores(problem, outcome.run.test, outcome.best)
    last, last_why = _scores(problem, outcome.run.test, outcome.last)
    return Tried(
        scores={**scores, **{name + LAST: value for name, value in last.items()}},
        undefined={**why, **{name + LAST: reason for name, reason in last_why.items()}},
        predictions=outcome.best.test,
        curves={name: [float(value) for value in curve] for name, curve in outcome.curves.items()},
        epoch=outcome.best.number,
        epochs=outcome.last.number,
        selected_by=outcome.selected_by,
        diverged=outcome.diverged,
        state={name: value.numpy() for name, value in outcome.state.items()},
        seconds=outcome.seconds,
    )


def _scores(problem: Problem, rows: Integers, epoch: Epoch) -> tuple[dict[str, float], dict[str, str]]:
    """Every score of an epoch on the test rows, and why some are undefined."""
    predictions, labels = torch.from_numpy(epoch.test), problem.labels.take(rows)
    targets: Tensor = torch.from_numpy(labels.numbers if labels.codes is None else labels.codes)
    values = {name: float(value) for name, value in score(predictions, targets).items()}
    reasons = undefined(predictions, targets) if any(value != value for value in values.values()) else {}  # noqa: PLR0124
    return values, {name: str(reason[0]) for name, reason in reasons.items()}


def _or_none(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value
