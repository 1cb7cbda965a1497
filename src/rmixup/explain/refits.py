"""A model fitted anew on parts of the people, and with permuted labels: what tells a finding from an accident.

By default the parts are random halves, so that the two models of a pair share nobody: where there is nothing to
learn, their maps agree by accident only. May not be here: names, tables, files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rmixup import keys
from rmixup.augment import NoAugmentation, as_augmentation
from rmixup.augment.labels import Labels
from rmixup.data.splits import Split, kfold
from rmixup.errors import DataError
from rmixup.explain.attribution import attribute, contrast, loaded, weights
from rmixup.explain.maps import Floats, agreements, correlations, pack, shares, unit
from rmixup.train import engine
from rmixup.train.baselines import Baseline, Plane
from rmixup.train.feed import Problem, Run
from rmixup.train.losses import Scaler
from rmixup.train.model import Model, fit, is_baseline
from rmixup.train.predictor import Predictor
from rmixup.train.protocol import Protocol
from rmixup.train.scores import probabilities, score

# What a refit is judged by in the people it has not seen, and what guessing reaches.
SCORE = {"classification": "auroc", "regression": "r"}
CHANCE = {"auroc": 0.5, "r": 0.0}
_VALIDATION = 0.1
_TOLERANCE, _MOST_STEPS = 1e-8, 1000

# Told what is being done ("refits", "permutations"), how much of it is done, and of how much.
Listener = Callable[[str, float, float], None]


class Design(NamedTuple):
    """How often a model is fitted anew: `repeats` times on all folds but one, and all that with permuted labels."""

    folds: int = 2
    repeats: int = 3
    permutations: int = 0
    seed: int = 0

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The refits that are compared: those of one repeat.

        >>> Design(folds=2, repeats=3).pairs
        [(0, 1), (2, 3), (4, 5)]
        """
        each = [(a, b) for a in range(self.folds) for b in range(a + 1, self.folds)]
        return [(r * self.folds + a, r * self.folds + b) for r in range(self.repeats) for a, b in each]

    @property
    def shared(self) -> float:
        """The share of the people it learns from that a refit has in common with another of its repeat.

        >>> Design(folds=2).shared, Design(folds=5).shared
        (0.0, 0.75)
        """
        return (self.folds - 2) / (self.folds - 1)


class Maps(NamedTuple):
    """What refits say, one row each; K outputs, p edges.

    Attributes
    ----------
    signed : (R, K, p) slopes times the edges' standard deviation, or patterns; each map of length 1
    absolute : (R, K, p) shares of the absolute attributions in the people not seen
    pattern : (R, K, p) correlation of edge and output in the people not seen
    scores : (R,) AUROC or r in the people not seen
    residuals : (R,) how far attributions are from adding up
    steps : the most points of a path
    """

    signed: Floats
    absolute: Floats
    pattern: Floats
    scores: Floats
    residuals: Floats
    steps: int


class Null(NamedTuple):
    """The same of P permutations of the labels: signed (P, K, p) means over refits, scores and agreement (P,)."""

    signed: Floats
    scores: Floats
    agreement: Floats


@dataclass(frozen=True, eq=False)
class Cohort:
    """The people on whom models are fitted anew.

    Parameters
    ----------
    x : (N, n, n) float64 networks as the model takes them
    labels : Labels of N
    subjects, groups, families : (N,) text, the last two or None
    """

    x: Floats
    labels: Labels
    subjects: npt.NDArray[Any]
    groups: npt.NDArray[Any] | None = None
    families: npt.NDArray[Any] | None = None

    def parts(self, design: Design) -> list[Split]:
        """Each fold once as test, over and over; people and families whole."""
        y = self.labels.numbers if self.labels.codes is None else self.labels.codes.astype(str)
        assert y is not None
        return kfold(
            y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y,
            self.subjects,
            self.groups,
            self.families,
            # Other halves than those of a model that was trained with the same seed.
            seed=keys.word(design.seed, "explain") >> 33,
            n_folds=design.folds,
            repeats=design.repeats,
            validation=_VALIDATION,
        )

    def permuted(self, seed: int, permutation: int) -> Cohort:
        """Labels dealt anew among people: within their group where there are groups; scans of one person stay alike."""
        rng = keys.generator(seed, "explain", "permutation", permutation)
        names, first, person = np.unique(self.subjects, return_index=True, return_inverse=True)
        groups = np.zeros(len(names), np.int64) if self.groups is None else self.groups[first]
        order = np.arange(len(names))
        for group in np.unique(groups):
            own = np.flatnonzero(groups == group)
            order[own] = rng.permutation(own)
        # With one scan a person, the permuted label of a row is that of another row.
        return replace(self, labels=self.labels.take(first[order][person]))


# ---- fitting


@dataclass(frozen=True, eq=False)
class Refitter:
    """How a model was fitted, so that it can be again.

    Parameters
    ----------
    predictor : Predictor
    method : "weights", "pattern" or "integrated-gradients"
    device : device or None
    """

    predictor: Predictor
    method: str
    device: torch.device | str | None = None

    def maps(
        self, cohort: Cohort, parts: Sequence[Split], listen: Listener | None = None, name: str = "refits"
    ) -> Maps:
        """Fit on each part, and explain the outputs in the people who were left out."""
        fitted = self._solve(cohort, parts) if self.solved else self._train(cohort, parts, listen, name)
        found = []
        for k, (split, (model, predicted)) in enumerate(zip(parts, fitted, strict=True)):
            learned = cohort.x[_learners(split) if self.solved else split.train]
            told = attribute(model, cohort.x[split.test], learned.mean(0), self.method, self.device)
            found.append((told, learned.std(0), cohort.x[split.test], _score(cohort, split, predicted)))
            if listen is not None and self.solved:
                listen(name, k + 1, len(parts))
        pattern = np.stack([correlations(x, told.outputs) for told, _, x, _ in found])
        slopes = np.stack([told.slopes * pack(sd) for told, sd, _, _ in found])
        return Maps(
            signed=unit(pattern if self.method == "pattern" else slopes),
            absolute=np.stack([shares(told.absolute) for told, *_ in found]),
            pattern=pattern,
            scores=np.array([value for *_, value in found]),
            residuals=np.array([told.residual for told, *_ in found]),
            steps=max(told.steps for told, *_ in found),
        )

    @property
    def solved(self) -> bool:
        """Whether the model is solved, which is quick, and not trained."""
        return is_baseline(self.predictor.model.backbone)

    def _solve(self, cohort: Cohort, parts: Sequence[Split]) -> list[tuple[Model, Floats]]:
        """Baselines with the C that the model has; nobody is needed to choose one."""
        model = self.predictor.model
        problem = Problem(torch.from_numpy(cohort.x), cohort.labels)
        found = []
        for split in parts:
            run = Run(_learners(split), split.validation[:0], split.test, NoAugmentation())
            done = fit(problem, run, model.backbone, model.options, Protocol())
            found.append((done.best, done.outcome.best.test))
        return found

    def _train(
        self, cohort: Cohort, parts: Sequence[Split], listen: Listener | None, name: str
    ) -> list[tuple[Model, Floats]]:
        """Networks with the model's protocol and augmentation, each from initial parameters of its own.

        Maps of networks that begin alike agree by that alone.
        """
        model, how = self.predictor.model, training(self.predictor)
        problem = Problem(torch.from_numpy(cohort.x.astype(np.float32)), cohort.labels, cohort.groups)
        augment = as_augmentation(how.augment, **how.settings)
        runs = [Run(*split, augment, how.seed + 1 + k) for k, split in enumerate(parts)]
        done = [0.0]

        def tell(progress: engine.Progress) -> None:
            done[0] += progress.runs / progress.epochs
            assert listen is not None
            listen(name, done[0], len(runs))

        outcomes = engine.fit(
            problem, runs, model.backbone, options=model.options, protocol=how.protocol, device=self.device,
            progress=None if listen is None else tell,
        )  # fmt: skip
        numbers = cohort.labels.numbers
        scalers = [None if numbers is None else Scaler.fit(torch.from_numpy(numbers[run.train])) for run in runs]
        models = [replace(model, state=one.state, scaler=scaler) for one, scaler in zip(outcomes, scalers, strict=True)]
        return [(one, outcome.best.test) for one, outcome in zip(models, outcomes, strict=True)]

    # ---- permuted labels

    def null(self, cohort: Cohort, parts: Sequence[Split], design: Design, listen: Listener | None = None) -> Null:
        """Fit on the same parts with permuted labels, again and again."""
        quick = self.solved and self.method != "integrated-gradients"
        again = self._again(cohort, parts) if quick else self._anew(parts)
        signed, scores, agreement = [], [], []
        for k in range(design.permutations):
            maps, values = again(cohort.permuted(design.seed, k))
            signed.append(maps.mean(0))
            scores.append(values.mean())
            agreement.append(agreements(maps, design.pairs).mean())
            if listen is not None:
                listen("permutations", k + 1, design.permutations)
        return Null(np.stack(signed), np.array(scores), np.array(agreement))

    def _anew(self, parts: Sequence[Split]) -> Callable[[Cohort], tuple[Floats, Floats]]:
        def again(cohort: Cohort) -> tuple[Floats, Floats]:
            maps = self.maps(cohort, parts)
            return maps.signed, maps.scores

        return again

    def _again(self, cohort: Cohort, parts: Sequence[Split]) -> Callable[[Cohort], tuple[Floats, Floats]]:
        """The same for baselines, whose features do not depend on the labels: computed once a part."""
        models = [model for model, _ in self._solve(cohort, parts)]
        places = [
            _Place(loaded(model), cohort.x, split, self.method == "pattern")
            for model, split in zip(models, parts, strict=True)
        ]

        def again(other: Cohort) -> tuple[Floats, Floats]:
            found = [place.again(other) for place in places]
            return np.stack([maps for maps, _ in found]), np.array([value for _, value in found])

        return again


class _Given(Baseline):
    """The linear model alone, on features that are standardised already."""

    def _learn_features(self, x: Tensor) -> None:
        """Nothing to learn."""

    def _features(self, x: Tensor) -> Tensor:
        return x

    def _standardised(self, raw: Tensor) -> Tensor:
        return raw

    def _n_features(self, n_nodes: int) -> int:
        return n_nodes


class _Place:
    """A part of the people with the features of a baseline, to be fitted to any labels."""

    def __init__(self, baseline: Baseline, x: Floats, split: Split, by_pattern: bool) -> None:
        self.baseline, self.split = baseline, split
        every = torch.from_numpy(x)
        z = baseline._standardised(baseline._features(every[_learners(split)]))
        # The best slopes lie in the span of the people: a few hundred unknowns, found once for all labels.
        self.basis, triangle = torch.linalg.qr(z.mT)
        self.train = triangle.mT
        self.test = baseline._standardised(baseline._features(every[split.test])) @ self.basis
        self.deviation = pack(x[_learners(split)].std(0))
        self.held_out = x[split.test] if by_pattern else None

    def again(self, cohort: Cohort) -> tuple[Floats, float]:
        """The map (K, p) of length 1 and the score in the people left out."""
        labels = cohort.labels
        y = torch.from_numpy(labels.numbers if labels.codes is None else labels.codes)
        plane = _plane(self.train, y[_learners(self.split)], labels.n_classes, self.baseline.C)
        outputs = plane(self.test)
        predicted = probabilities(outputs) if labels.codes is not None else outputs
        return unit(self._map(plane, outputs, labels.task)), _score(cohort, self.split, predicted.numpy())

    def _map(self, plane: Plane, outputs: Tensor, task: str) -> Floats:
        if self.held_out is not None:
            return correlations(self.held_out, contrast(outputs, task).numpy())
        return weights(self.baseline, self.basis @ plane.slopes, task) * self.deviation


def _plane(z: Tensor, y: Tensor, classes: int, C: float | None) -> Plane:
    """The linear model of features; of classes by scikit-learn's Newton steps, tens of times quicker than ours."""
    if not classes or not bool((torch.bincount(y, minlength=classes) > 0).all()):
        return _Given(C).fit(z, y, n_outputs=classes or None).plane
    from sklearn.linear_model import LogisticRegression

    solver = "newton-cholesky" if classes == 2 else "newton-cg"
    solved = LogisticRegression(C=C or 1.0, solver=solver, tol=_TOLERANCE, max_iter=_MOST_STEPS)
    solved.fit(z.numpy(), y.numpy())
    slopes, intercept = torch.from_numpy(solved.coef_.T), torch.from_numpy(solved.intercept_)
    if classes > 2:
        return Plane(slopes, intercept)
    return Plane(torch.cat([-slopes, slopes], 1) / 2, torch.cat([-intercept, intercept]) / 2)


class Training(NamedTuple):
    """How a network was trained."""

    augment: str
    settings: dict[str, Any]
    protocol: Protocol
    seed: int


def training(predictor: Predictor) -> Training:
    """Read the training out of a model's record."""
    record = predictor.record.get("training", {})
    try:
        rest = {name: value for name, value in record.items() if name not in {"seed", "augment", "settings"}}
        return Training(record["augment"], dict(record["settings"]), Protocol(**rest), int(record["seed"]))
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"the model does not say how it was trained ({error}), so it cannot be fitted anew: explain it alone, "
            "with 0 repeats"
        ) from error


def _learners(split: Split) -> npt.NDArray[np.int64]:
    """Who is learned from where nobody validates."""
    return np.sort(np.concatenate([split.train, split.validation]))


def _score(cohort: Cohort, split: Split, predicted: Floats) -> float:
    """The score in the people left out; where it is undefined (one prediction for all, no one of a class), chance."""
    labels = cohort.labels.take(split.test)
    answers = torch.from_numpy(labels.numbers if labels.codes is None else labels.codes)
    name = SCORE[labels.task]
    value = float(score(torch.from_numpy(predicted), answers, names=[name])[name])
    return value if np.isfinite(value) else CHANCE[name]
