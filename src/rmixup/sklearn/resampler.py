"""`MixupResampler`: augmentation as imbalanced-learn resamples, in fit only."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from rmixup import keys
from rmixup.augment import Augmentation, Mixing, Plan, Prepared, as_augmentation
from rmixup.augment.labels import Task, encode
from rmixup.errors import DataError

Array = npt.NDArray[Any]
# Networks made at once, which bounds the memory.
APPLY_ROWS = 256


class MixupResampler(BaseEstimator):  # type: ignore[misc]
    """Add made networks to a training set.

    Parameters
    ----------
    method : name or `rmixup.augment.Augmentation`
        An object carries settings, such as `RMixup(regularizer="shrink=0.05")`. Each made network has its own λ.
    n_new : int
        How many to add. Every network is a first parent equally often.
    random_state : int, RandomState or None
    labels : "hard", "soft" or "weights"
        Of made networks of a classification. "hard": the class of the parent with the larger weight, in the dtype of y.
        "soft": probabilities (N + n_new, C), columns as in `classes_`. "weights": each made network stands twice, once
        with each parent's label, with λ and 1 - λ in `sample_weight_`. Numbers are mixed under "hard" and "soft".
    task : "classification", "regression" or None
        None: float labels are numbers, all others classes.

    Attributes
    ----------
    classes_ : array of the classes, sorted; absent for numbers.
    sample_weight_ : (N + made,) weights, all 1 unless labels="weights".
    plan_ : the `rmixup.augment.Plan` of the made networks: who was mixed with whom.

    >>> x, y = np.stack([k * np.eye(3) for k in (1.0, 2.0, 3.0, 4.0)]), ["a", "a", "b", "b"]
    >>> x2, y2 = MixupResampler("rmixup", n_new=6, random_state=0).fit_resample(x, y)
    >>> x2.shape, y2.shape
    ((10, 3, 3), (10,))
    """

    _estimator_type = "sampler"

    def __init__(
        self,
        method: str | Augmentation = "rmixup",
        n_new: int = 200,
        *,
        random_state: Any = None,
        labels: Literal["hard", "soft", "weights"] = "hard",
        task: Task | None = None,
    ) -> None:
        self.method = method
        self.n_new = n_new
        self.random_state = random_state
        self.labels = labels
        self.task = task

    def fit_resample(self, X: Any, y: Any, groups: Any = None) -> tuple[Array, Array]:
        """Return the networks (N, n, n) with the made ones after them, and their labels.

        Parameters
        ----------
        X : (N, n, n) float array
        y : (N,) classes or numbers, or (N, k) numbers
        groups : (N,) or None, for the policies same-group and cross-group
        """
        self._check()
        X, y = np.asarray(X), np.asarray(y)
        given = self._read(y)
        prepared = self._augmentation().prepare(X, given, groups, task=self.task, n_classes=self._n_classes())
        seed = self._seed()
        self.plan_ = prepared.draw(self._first_parents(len(X), seed), (seed, "plan"))
        made, mixed = _applied(prepared, self.plan_)
        return self._with_made(X, y, made, mixed)

    def _check(self) -> None:
        if isinstance(self.n_new, bool) or not isinstance(self.n_new, int | np.integer) or self.n_new < 0:
            raise DataError(f"n_new must be a whole number of networks to add, at least 0, but is {self.n_new!r}")
        if self.labels not in ("hard", "soft", "weights"):
            raise DataError(f"labels must be 'hard', 'soft' or 'weights', but is {self.labels!r}")

    def _augmentation(self) -> Augmentation:
        method = as_augmentation(self.method)
        if not isinstance(method, Mixing):
            return method
        # One λ for all made networks would be a single draw.
        return replace(method, per="pair")

    def _read(self, y: Array) -> Array:
        """Labels as the augmentation takes them: classes as codes."""
        self.__dict__.pop("classes_", None)
        if encode(y, self.task).task == "regression":
            return y
        self.classes_, codes = np.unique(y, return_inverse=True)
        return np.asarray(codes.reshape(-1))

    def _n_classes(self) -> int | None:
        return len(self.classes_) if hasattr(self, "classes_") else None

    def _seed(self) -> int:
        if isinstance(self.random_state, int | np.integer):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

    def _first_parents(self, size: int, seed: int) -> Array:
        """Every network equally often, the remainder at random."""
        rng = keys.generator(seed, "first parents")
        rounds = [rng.permutation(size) for _ in range(-(-int(self.n_new) // size))]
        return np.concatenate([np.empty(0, np.int64), *rounds])[: self.n_new]

    def _with_made(self, X: Array, y: Array, made: Array, mixed: Array) -> tuple[Array, Array]:
        plan = self.plan_
        self.sample_weight_ = np.ones(len(X) + len(made))
        if self.labels == "weights":
            self.sample_weight_ = np.concatenate([np.ones(len(X)), 1 - plan.lam, plan.lam])
            return np.concatenate([X, made, made]), np.concatenate([y, y[plan.i], y[plan.j]])
        if not hasattr(self, "classes_"):
            return np.concatenate([X, made]), np.concatenate([y, mixed])
        if self.labels == "soft":
            codes = np.searchsorted(self.classes_, y)
            return np.concatenate([X, made]), np.concatenate([np.eye(len(self.classes_))[codes], mixed])
        return np.concatenate([X, made]), np.concatenate([y, y[np.where(plan.lam > 0.5, plan.j, plan.i)]])


def _applied(prepared: Prepared, plan: Plan) -> tuple[Array, Array]:
    parts = [prepared.apply(plan[first : first + APPLY_ROWS]) for first in range(0, max(1, len(plan)), APPLY_ROWS)]
    return tuple(np.concatenate([part[k].numpy() for part in parts]) for k in (0, 1))  # type: ignore[return-value]
