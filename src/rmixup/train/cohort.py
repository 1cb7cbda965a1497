"""One model on one data set: hold people out, train, score, and keep all that the model needs to predict.

May not be here: files, tables, the loop itself.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rmixup.augment import Augmentation, as_augmentation
from rmixup.augment.bank import STORAGE_EPS
from rmixup.augment.geodesic import Geodesic
from rmixup.augment.labels import Labels, encode
from rmixup.augment.paging import is_paged, tensor_of
from rmixup.data.doctor import Finding, Report, check, concerned
from rmixup.data.networks import Networks
from rmixup.data.splits import Split
from rmixup.errors import DataError, NotSPDError
from rmixup.models import Backbone
from rmixup.spd.spectral import EPS
from rmixup.train.engine import Outcome, Progress
from rmixup.train.feed import Problem, Run
from rmixup.train.model import Fit, Floats, fit, is_baseline, known_backbone
from rmixup.train.predictor import Predictor, given_names, plain, require_definite, singular
from rmixup.train.preparation import Form, history, lowest_eigenvalues, prepare
from rmixup.train.protocol import Protocol
from rmixup.train.scores import score, undefined

SIZES = (0.7, 0.1, 0.2)
# With cross-validation nobody needs to be held out as test any more: a tenth selects the epoch.
_FINAL_SIZES = (0.8, 0.1, 0.1)
REGULARIZE = "give --regularize shrink=0.05, or --regularize ledoit-wolf where there are series"
# More classes than this, all of them numbers, are more likely ages than diagnoses.
_MANY_CLASSES = 10

# Told which fit is in progress ("training", "fold 1 of 5", "final model") and how far it is.
Listener = Callable[[str, Progress], None]


@dataclass(frozen=True)
class Settings:
    """What to train and how; by default the paper's method, backbone and protocol.

    Parameters
    ----------
    backbone : name in `rmixup.models.BACKBONES` or `rmixup.train.baselines.BASELINES`, or a class
    options : dict
        What the backbone's class takes.
    augment : name in `rmixup.augment.METHODS`, or an `Augmentation`
        Of no meaning for baselines, which are solved.
    kind, regularize : see `rmixup.train.preparation.prepare`
    protocol : Protocol
    seed : int
        The split, the initial parameters, the order of the networks, the mixes and the dropout follow from it.
    device : device or None
        None: a GPU where there is one.
    scratch : folder or None
        Networks of a data set's folder that are large stay there while they are trained on, and their logarithms lie
        in a folder in here, which is removed afterwards. None: where temporary files go.
    """

    backbone: str | type[Backbone] = "transformer"
    options: dict[str, Any] = field(default_factory=dict)
    augment: str | Augmentation = "rmixup"
    kind: str | None = None
    regularize: str | None = None
    protocol: Protocol = field(default_factory=Protocol)
    seed: int = 0
    device: torch.device | str | None = None
    scratch: str | Path | None = None


def train(
    ds: Networks, settings: Settings | None = None, *, folds: int | None = None, listen: Listener | None = None
) -> Predictor:
    """Train one model, and score it on people it has not seen.

    Parameters
    ----------
    ds : Networks
        With labels; anything the doctor calls an error is refused.
    settings : Settings, optional
    folds : int, optional
        None: 70 % train, 10 % select the epoch, 20 % test. Else cross-validation gives the scores, and the model is
        trained on everybody, but for a tenth that selects the epoch.
    listen : function of a name and a Progress, optional

    Returns
    -------
    Predictor
        At its best epoch. Its `record` has `scores`, of the best and of the last epoch.

    >>> import rmixup
    >>> trained = train(rmixup.simulate(n_subjects=40, n_nodes=5), Settings("linear"))
    >>> trained
    Predictor(linear, classification of class, networks of 5 nodes)
    >>> sorted(trained.record["scores"]), trained.record["people"]
    (['test', 'validation'], {'train': 28, 'validation': 4, 'test': 8})
    """
    settings = settings or Settings()
    known_backbone(settings.backbone)
    job = _job(ds, settings, listen)
    if folds is None:
        split = job.split(SIZES)
        done = job.fit(split, "training")
        scores = _scores(done.outcome, job.problem.labels)
        return job.predictor(done, split, scores, {})
    outcomes = [job.fit(one, f"fold {k + 1} of {folds}").outcome for k, one in enumerate(job.folds(folds))]
    both = job.split(_FINAL_SIZES)
    split = Split(np.sort(np.concatenate([both.train, both.test])), both.validation, both.test[:0])
    done = job.fit(split, "final model")
    each = [_scores(outcome, job.problem.labels)["test"] for outcome in outcomes]
    scores = {"validation": _scores(done.outcome, job.problem.labels)["validation"], "cv": _summary(each)}
    return job.predictor(done, split, scores, {"folds": each})


@dataclass(frozen=True, eq=False)
class _Job:
    """A prepared data set and everything to fit on it."""

    ds: Networks
    prepared: Networks
    predictor_parts: dict[str, Any]
    problem: Problem
    augment: Augmentation
    settings: Settings
    listen: Listener | None

    def split(self, sizes: tuple[float, float, float]) -> Split:
        """Sides of everybody, people and families whole."""
        from rmixup.data.splits import split

        try:
            return split(**self.ds._people(), seed=self.settings.seed, sizes=sizes)
        except DataError as error:
            raise _with_hint(self.ds, error) from error

    def folds(self, count: int) -> list[Split]:
        """Each fold once as test."""
        from rmixup.data.splits import kfold

        try:
            return kfold(**self.ds._people(), seed=self.settings.seed, n_folds=count)
        except DataError as error:
            raise _with_hint(self.ds, error) from error

    def fit(self, split: Split, name: str) -> Fit:
        """Fit on one split."""
        settings, listen = self.settings, self.listen
        run = Run(split.train, split.validation, split.test, self.augment, settings.seed)
        tell = None if listen is None else lambda progress: listen(name, progress)
        try:
            with _logarithms_aside(self.problem, settings.scratch) as problem:
                return fit(
                    problem,
                    run,
                    settings.backbone,
                    settings.options,
                    settings.protocol,
                    device=settings.device,
                    progress=tell,
                )
        except NotSPDError as error:
            raise self._named(error) from error

    def _named(self, error: NotSPDError) -> NotSPDError:
        """The same error with the people it is about, where it is they."""
        # As near to none as the method can tell from what is stored.
        limit = max(STORAGE_EPS * torch.finfo(self.problem.x.dtype).eps, self.prepared.n_nodes * EPS)
        wrong = lowest_eigenvalues(self.prepared.matrices) <= limit
        who = f"augment {self.augment.name}"
        return NotSPDError(singular(self.prepared, wrong, who, REGULARIZE)) if wrong.any() else error

    def predictor(self, done: Fit, split: Split, scores: dict[str, Any], more: dict[str, Any]) -> Predictor:
        """The model at its best epoch with all that is known of it."""
        outcome, settings = done.outcome, self.settings
        solved = is_baseline(settings.backbone)
        record = {
            "data": {"hash": self.ds.content_hash(), "networks": len(self.ds), "groups": self.ds.groups is not None},
            "people": {name: len(rows) for name, rows in split._asdict().items()},
            "training": {
                "seed": settings.seed,
                **({} if solved else {"augment": self.augment.name, "settings": self.augment.parameters()}),
                **({} if solved else asdict(settings.protocol)),
            },
            "epochs": None if solved else {"best": outcome.best.number, "last": outcome.last.number},
            "selected_by": outcome.selected_by,
            "diverged": outcome.diverged,
            "scores": scores,
            **more,
        }
        return Predictor(done.best, record=record, **self.predictor_parts)


def _job(ds: Networks, settings: Settings, listen: Listener | None) -> _Job:
    """Check the data, prepare them, and state the problem."""
    if ds.y is None:
        raise DataError("there is nothing to predict yet: choose a column with --target (ds.with_target(...))")
    report = check(ds)
    _refuse_errors(report)
    prepared, preparation = prepare(ds, settings.kind, settings.regularize, _form(ds, report))
    require_definite(prepared, settings.backbone, REGULARIZE)
    parts = {
        "nodes": given_names(ds),
        "classes": ds.classes,
        "target": ds.target,
        "preparation": preparation,
    }
    problem = _problem(prepared, is_baseline(settings.backbone))
    augment = _augmentation(settings.augment, preparation.regularize)
    return _Job(ds, prepared, parts, problem, augment, settings, listen)


def _refuse_errors(report: Report) -> None:
    errors = [
        f"{one.code}: {one.message}{_whose(one)}; do: {one.remedy}"
        for one in report.findings
        if one.severity == "error"
    ]
    if errors:
        raise DataError(f"these data cannot be trained on (rmixup check tells more): {'; '.join(errors)}")


def _whose(finding: Finding) -> str:
    return f" ({concerned(finding)})" if finding.subjects or finding.nodes else ""


def _form(ds: Networks, report: Report) -> Form:
    """What the matrices are; a floor moves the diagonal of a correlation a little, so history goes first."""
    done = history(ds)
    if done.kind is not None or done.regularize is not None:
        return "covariance" if done.kind == "covariance" else "correlation"
    return "covariance" if ds.has_matrices and report.scan.scaled.any() else "correlation"


def _problem(ds: Networks, solved: bool) -> Problem:
    """Tensors and labels: baselines are solved in float64, all else is trained in float32."""
    assert ds.y is not None
    x = _tensor(ds.matrices, np.float64 if solved else np.float32)
    y = np.array(ds.y)  # torch wants it writeable
    labels = encode(y, "regression") if ds.classes is None else Labels(y, None, len(ds.classes))
    return Problem(x, labels, ds.groups)


def _tensor(matrices: Any, dtype: Any) -> torch.Tensor:
    """The matrices in memory; where they are too many for that and have the right type, in their file."""
    if matrices.dtype == dtype and is_paged(mapped := tensor_of(matrices)):
        return mapped
    return torch.from_numpy(np.array(matrices, dtype))


@contextmanager
def _logarithms_aside(problem: Problem, scratch: str | Path | None) -> Iterator[Problem]:
    """The problem with a folder for logarithms, where its networks are in theirs. A fold's go when it is fitted."""
    if not is_paged(problem.x):
        yield problem
        return
    with tempfile.TemporaryDirectory(prefix="rmixup-logarithms-", dir=scratch, ignore_cleanup_errors=True) as folder:
        yield replace(problem, cache=folder)


def _augmentation(augment: str | Augmentation, regularize: str | None) -> Augmentation:
    """The method; where the matrices have a floor, it floors them again.

    Stored in float32, eigenvalues at a small floor could not be told from none; flooring twice changes nothing else.
    """
    method = as_augmentation(augment)
    floored = regularize is not None and regularize.startswith("floor")
    if floored and isinstance(method, Geodesic) and method.regularizer is None:
        return replace(method, regularizer=regularize)
    return method


def _with_hint(ds: Networks, error: DataError) -> DataError:
    """Ages taken for classes make splits fail: say so."""
    names = ds.classes or ()
    numbers = len(names) > _MANY_CLASSES and all(name.removeprefix("-").isdecimal() for name in names)
    hint = f"; if {ds.target} is a number to predict, not a class: --task regression" if numbers else ""
    return DataError(f"{error}{hint}")


# ---- scores


def _scores(outcome: Outcome, labels: Labels) -> dict[str, Any]:
    """Of validation and test: the scores of the best and of the last epoch, and why some are undefined."""
    found: dict[str, Any] = {}
    for side in ("validation", "test"):
        rows = getattr(outcome.run, side)
        if len(rows):
            epochs = {"best": outcome.best, "last": outcome.last}
            values = {name: _judged(getattr(epoch, side), labels, rows) for name, epoch in epochs.items()}
            found[side] = {name: value for name, (value, _) in values.items()}
            found[side]["undefined"] = values["best"][1]
    return found


def _judged(predicted: Floats, labels: Labels, rows: Any) -> tuple[dict[str, float | None], dict[str, str]]:
    truth = labels.take(rows)
    answers = torch.from_numpy(truth.numbers if truth.codes is None else truth.codes)
    outputs = torch.from_numpy(predicted)
    reasons = {name: str(why[0]) for name, why in undefined(outputs, answers).items()}
    return plain(score(outputs, answers)), reasons


def _summary(folds: list[dict[str, Any]]) -> dict[str, Any]:
    """Mean and standard deviation over the folds in which a score is defined, and how many these are."""
    found: dict[str, Any] = {}
    for epoch in ("best", "last"):
        found[epoch] = {}
        for name in folds[0][epoch]:
            values = [fold[epoch][name] for fold in folds if fold[epoch][name] is not None]
            found[epoch][name] = {
                "mean": float(np.mean(values)) if values else None,
                "sd": float(np.std(values, ddof=1)) if len(values) > 1 else None,
                "folds": len(values),
            }
    return found
