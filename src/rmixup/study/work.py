"""The work of a study: trains and tests its cells on real networks.

`identify` says which data it is, `check` whether all names and options are right, `refuse` whether the numbers are
defined, `work` runs a stack. The numeric part is `rmixup.train.trial`, which needs torch and NumPy only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rmixup.augment import METHODS
from rmixup.errors import FormatError, RMixupError
from rmixup.models import BACKBONES
from rmixup.study.cells import Cell, DataIdentity
from rmixup.study.material import Material, examine, identity, loaded, material, rows
from rmixup.study.project import Study
from rmixup.study.results import Failure, Outcome, Result
from rmixup.study.spec import Choice, Data, Spec, check_names
from rmixup.train import trial
from rmixup.train.baselines import BASELINES
from rmixup.train.protocol import Protocol
from rmixup.train.trial import Trial, Tried


def identify(data: Data, anew: bool = True) -> DataIdentity:
    """The identity of the data a spec names; reads it anew, unless it was read just now."""
    sha256 = identity(data, anew)
    ds = loaded(data)
    groups = 0 if ds.groups is None else len(set(ds.groups.tolist()))
    return DataIdentity(sha256, len(ds), groups)


def check(spec: Spec) -> None:
    """Refuse, all at once, methods and backbones that are not there and options they do not take."""
    check_names(spec, METHODS, {**BACKBONES, **BASELINES})
    problems = [*_problems(spec.grid.methods, trial.check), *_problems(spec.grid.backbones, trial.check_backbone)]
    problems += _problem(Protocol, **spec.protocol.model_dump())
    if problems:
        raise FormatError(f"{spec.name}: {'; '.join(problems)}")


def refuse(data: Data) -> None:
    """Refuse, all at once, data that no cell could be computed from."""
    examine(data)


def _problems(choices: Sequence[Choice], checker: Any) -> list[str]:
    return [said for choice in choices for said in _problem(checker, choice.name, choice.options)]


def _problem(checker: Any, *arguments: Any, **named: Any) -> list[str]:
    try:
        checker(*arguments, **named)
    except (RMixupError, TypeError, ValueError) as error:
        return [" ".join(str(error).split())]
    return []


def work(cells: Sequence[Cell], study: Study) -> Iterator[tuple[Cell, Outcome]]:
    """Train and test cells that form a stack; yields what came of each as it comes."""
    data = study.spec.data
    made = material(data, cells[0])
    trials = [as_trial(data, cell) for cell in cells]
    device = None if study.settings.device == "auto" else study.settings.device
    for place, tried in trial.run(made.problem, trials, device):
        yield cells[place], outcome(trials[place], tried, made, study.spec.keep_weights)


def as_trial(data: Data, cell: Cell) -> Trial:
    """A cell in the engine's terms."""
    train, validation, test = rows(data, cell)
    floor = _floor(cell)
    method, backbone = dict(cell.method.options), dict(cell.backbone.options)
    if "regularizer" in vars(METHODS[cell.method.name]()):
        method = floor | method
    return Trial(
        train=train,
        validation=validation,
        test=test,
        method=cell.method.name,
        backbone=cell.backbone.name,
        method_options=method,
        backbone_options=floor | backbone if cell.backbone.name == "tangent" else backbone,
        protocol=dict(cell.protocol),
        seed=cell.seed,
    )


def _floor(cell: Cell) -> dict[str, Any]:
    """The floor put on the data, for who takes logarithms.

    It is below what float32 keeps beside large eigenvalues, so it is put again in float64; twice is the same as once.
    """
    given = dict(cell.preparation).get("regularize")
    return {"regularizer": given} if isinstance(given, str) and given.startswith("floor") else {}


def outcome(tried_for: Trial, tried: Tried | RMixupError, made: Material, keep_weights: bool) -> Outcome:
    """What the store keeps of a trial."""
    if isinstance(tried, RMixupError):
        return Failure("refused", " ".join(str(tried).split()))
    if tried.diverged is not None:
        return Failure("divergence", f"the training loss was not finite in epoch {tried.diverged}")
    return Result(
        scores=tried.scores,
        predictions=predictions(made, tried_for, tried),
        sizes={part: len(getattr(tried_for, part)) for part in ("train", "validation", "test")},
        curves=tried.curves,
        timings={"training": tried.seconds},
        notes={
            "epoch": tried.epoch,
            "epochs": tried.epochs,
            "selected_by": tried.selected_by,
            "undefined": tried.undefined,
            "preparation": _told(made),
        },
        weights=tried.state if keep_weights else {},
    )


def _told(made: Material) -> list[dict[str, Any]]:
    """What was done to the data that changes numbers; who was left out stays with the data."""
    told = ("connectivity", "regularize", "shorten", "symmetrise")
    return [{"step": step["step"], **step["parameters"]} for step in made.steps if step["step"] in told]


def predictions(made: Material, tried_for: Trial, tried: Tried) -> dict[str, list[Any]]:
    """A row a test network: subject, group, truth, and the probability of each class, or the numbers."""
    at, labels = tried_for.test, made.problem.labels
    who: dict[str, list[Any]] = {"subject": made.subjects[at].tolist()}
    if made.groups is not None:
        who["group"] = made.groups[at].tolist()
    values = tried.predictions.T.tolist()
    if labels.codes is not None:
        names = made.classes or tuple(str(code) for code in range(labels.n_classes))
        truth = [names[code] for code in labels.codes[at]]
        return {**who, "truth": truth, **{f"p_{name}": p for name, p in zip(names, values, strict=True)}}
    assert labels.numbers is not None
    numbers = labels.numbers[at].T.tolist()
    ends = [""] if len(numbers) == 1 else [f"_{k}" for k in range(len(numbers))]
    told = {f"truth{end}": column for end, column in zip(ends, numbers, strict=True)}
    return {**who, **told, **{f"predicted{end}": column for end, column in zip(ends, values, strict=True)}}
