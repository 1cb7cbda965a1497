"""`NetworkClassifier`, `NetworkRegressor`: backbones and baselines as scikit-learn estimators on (N, n, n) arrays."""

from __future__ import annotations

import secrets
import sys
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from rmixup.augment import Augmentation, as_augmentation
from rmixup.augment.labels import Labels, encode, named
from rmixup.data.networks import Networks
from rmixup.data.splits import hold_out
from rmixup.errors import DataError, NotSPDError
from rmixup.models import Backbone
from rmixup.spd.door import enter
from rmixup.train import model as training
from rmixup.train.engine import Progress
from rmixup.train.feed import Problem, Run
from rmixup.train.protocol import Protocol

Array = npt.NDArray[Any]
LAST = "last epoch"


@dataclass(frozen=True, eq=False)
class _Given:
    """What was handed to fit, whether as arrays or as Networks."""

    x: Tensor
    y: Any
    pair_groups: Array | None
    units: Any  # who must not be divided
    families: Any
    sites: Any
    nodes: tuple[str, ...] | None


class NetworkEstimator(BaseEstimator):  # type: ignore[misc]
    """What the classifier and the regressor share.

    Parameters
    ----------
    backbone : str or class
        A name in `rmixup.models.BACKBONES`, a linear baseline ("linear", "tangent"), or a `Backbone` of one's own.
    augment : name, `rmixup.augment.Augmentation` or None
        How training networks are made; an object carries settings, such as `RMixup(regularizer="shrink=0.05")`.
        Baselines are fitted to the networks as they are.
    backbone_options : dict or None
        What the backbone's class takes, such as `{"layers": 1}`; `{"C": 0.1}` fixes a baseline's penalty.
    epochs, batch_size, optimizer, learning_rate, weight_decay, schedule, select : see `rmixup.train.protocol.Protocol`
        The defaults are the paper's protocol. `select` is the validation score that chooses the epoch; of equal epochs
        the first. Few held-out networks often tie in AUROC, which "auto" takes for two classes: then prefer "loss".
    validation_fraction : float in [0, 1)
        Share of the networks given to `fit` that is held out to choose the epoch (a baseline's penalty); nothing else
        is learned from them. The default leaves 70 % for training and 10 % for validation beside a test of 20 %.
        With 0 the last epoch is kept.
    patience : int or None
        Stop when the validation score has not got better for so many epochs.
    device : device or None
        None: a GPU where there is one.
    random_state : int, RandomState or None
        The same integer gives the same result. None: a fresh seed, which `seed_` records.
    verbose : int
        A line on standard error every so many epochs; 0: none.

    Attributes
    ----------
    model_ : `rmixup.train.model.Model` of the chosen epoch, plain values and tensors
    best_epoch_, n_iter_ : the epoch chosen, and how many there were
    selected_by_ : the score that chose it; "loss" where that is undefined, "last epoch" where nothing was held out
    history_ : dict of "train_loss", "validation_loss", "validation_score" -> (n_iter_,); empty for a baseline
    validation_rows_ : rows of X that were held out
    seed_ : int
    n_nodes_, node_names_ : the nodes of a network; names (None for arrays)
    """

    def __init__(
        self,
        backbone: str | type[Backbone] = "transformer",
        augment: str | Augmentation | None = "rmixup",
        *,
        backbone_options: dict[str, Any] | None = None,
        epochs: int = 200,
        batch_size: int = 16,
        optimizer: str = "adam",
        learning_rate: float = 1e-4,
        weight_decay: float = 1e-4,
        schedule: str = "constant",
        select: str = "auto",
        validation_fraction: float = 0.125,
        patience: int | None = None,
        device: Any = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.backbone = backbone
        self.augment = augment
        self.backbone_options = backbone_options
        self.epochs = epochs
        self.batch_size = batch_size
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.schedule = schedule
        self.select = select
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, groups: Any = None, sample_weight: Any = None) -> Self:
        """Train on networks.

        Parameters
        ----------
        X : (N, n, n) float array of symmetric networks, or `rmixup.Networks`
        y : (N,) labels, (N, k) numbers; None: those of the Networks
        groups : (N,) or None
            Networks of one group (person, site) lie together on one side of the validation split, and pair policies
            such as "same-group" read them. Of Networks, subjects and families stay together anyway.
        sample_weight : (N,) weights of at least 0, or None
            In the training loss; a mix has the mix of its parents' weights.
        """
        protocol = self._protocol()
        given = _read(X, y, groups)
        labels = self._labels(given.y, len(given.x))
        self.seed_ = self._seed()
        train, validation = self._hold_out(given, labels)
        nobody = np.empty(0, np.int64)
        run = Run(
            train, validation, nobody, as_augmentation("none" if self.augment is None else self.augment), self.seed_
        )
        fitted = self._fitted(self._problem(given, labels, sample_weight), run, protocol)
        outcome = fitted.outcome
        self.model_ = fitted.best
        self.history_ = outcome.curves
        self.n_iter_ = outcome.last.number
        self.best_epoch_ = outcome.best.number
        self.selected_by_ = outcome.selected_by if len(validation) else LAST
        self.validation_rows_ = validation
        self.n_nodes_ = given.x.shape[-1]
        self.node_names_ = given.nodes
        return self

    def _protocol(self) -> Protocol:
        """The settings, checked; all that is wrong with them is told before anything is computed."""
        problems = [
            f"{name} must be {expected}, but is {getattr(self, name)!r}"
            for name, (right, expected) in SETTINGS.items()
            if not right(getattr(self, name))
        ]
        try:
            training.known_backbone(self.backbone)
        except DataError as error:
            problems.append(str(error))
        try:
            protocol = Protocol(
                epochs=_whole(self.epochs),
                batch_size=_whole(self.batch_size),
                optimizer=self.optimizer,  # type: ignore[arg-type]
                learning_rate=self.learning_rate,
                weight_decay=self.weight_decay,
                schedule=self.schedule,  # type: ignore[arg-type]
                select=self.select,
            )
        except DataError as error:
            problems.append(str(error))
        if problems:
            raise DataError("; ".join(problems))
        return protocol

    def _seed(self) -> int:
        if self.random_state is None:
            return secrets.randbits(31)
        if _is_count(self.random_state):
            return int(self.random_state)
        return int(self.random_state.randint(np.iinfo(np.int32).max))

    def _hold_out(self, given: _Given, labels: Labels) -> tuple[Array, Array]:
        if not self.validation_fraction:
            return np.arange(len(labels)), np.empty(0, np.int64)
        y = labels.numbers if labels.codes is None else self.classes_[labels.codes]
        share = float(self.validation_fraction)
        try:
            return hold_out(y, given.units, given.sites, given.families, seed=self.seed_, share=share)
        except DataError as error:
            raise DataError(f"{error}: here, validation_fraction=0") from error

    def _problem(self, given: _Given, labels: Labels, sample_weight: Any) -> Problem:
        # Baselines are solved in double precision; backbones train in single.
        dtype = torch.float64 if training.is_baseline(self.backbone) else torch.float32
        weights = _weights(sample_weight, len(labels))
        return Problem(given.x.to(dtype), labels, given.pair_groups, weights)

    def _fitted(self, problem: Problem, run: Run, protocol: Protocol) -> training.Fit:
        self._refuse_singular(problem.x)
        try:
            return training.fit(
                problem,
                run,
                self.backbone,
                dict(self.backbone_options or {}),
                protocol,
                device=self.device,
                patience=self.patience,
                progress=self._say if self.verbose else None,
            )
        except NotSPDError as error:
            method = type(run.augment).__name__
            raise NotSPDError(f"{error}: here, augment={method}(regularizer='shrink=0.05')") from error

    def _say(self, now: Progress) -> None:
        if now.epoch % self.verbose == 0 or now.epoch == now.epochs:
            loss, score = float(now.train_loss[0]), float(now.validation_score[0])
            line = f"epoch {now.epoch}/{now.epochs}: training loss {loss:.4f}, validation score {score:.4f}"
            sys.stderr.write(f"{line}, {now.seconds:.0f} s\n")

    def _refuse_singular(self, x: Tensor) -> None:
        """The tangent space takes logarithms of every network, also of those that are predicted."""
        if self.backbone != "tangent":
            return
        bad = torch.linalg.cholesky_ex(x.double()).info.nonzero()[:, 0].tolist()
        if bad:
            raise NotSPDError(
                f"backbone 'tangent' needs positive definite networks, but {len(bad)} of {len(x)} are not (at "
                f"{named(bad)}): regularise them all alike first, with rmixup.spd.regularize(X, 'shrink', 0.05)"
            )

    def _outputs(self, X: Any) -> npt.NDArray[np.float64]:
        """What the model gives for new networks."""
        check_is_fitted(self)
        x = _matrices(self._in_order(X))
        if x.shape[-1] != self.n_nodes_:
            raise DataError(
                f"X must have networks of {self.n_nodes_} nodes, as in fit, but has {x.shape[-1]}: use the same atlas "
                "or gene set, in the same order"
            )
        self._refuse_singular(x)
        return self.model_.predict(x, self.device)

    def _in_order(self, X: Any) -> Any:
        """Networks with their nodes in the order of fit, where names are known on both sides."""
        if not isinstance(X, Networks) or self.node_names_ is None or tuple(X.nodes) == self.node_names_:
            return X
        missing = sorted(set(self.node_names_) - set(X.nodes.tolist()))
        if missing:
            raise DataError(
                f"X lacks {len(missing)} of the {len(self.node_names_)} nodes of fit (first: {missing[0]!r}): "
                "use the same atlas or gene set"
            )
        return X.select(nodes=list(self.node_names_))

    @abstractmethod
    def _labels(self, y: Any, count: int) -> Labels:
        """Read the labels of fit."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.two_d_array = False
        tags.non_deterministic = self.random_state is None
        return tags


def _documented(cls: type) -> type:
    """Put the common parameters and attributes into a class's own help."""
    common = str(NetworkEstimator.__doc__).partition("\n\n")[2]
    cls.__doc__ = str(cls.__doc__).replace("(Parameters and attributes: `NetworkEstimator`.)", common.strip())
    return cls


@_documented
class NetworkClassifier(ClassifierMixin, NetworkEstimator):  # type: ignore[misc]
    """Tell classes of networks apart.

    (Parameters and attributes: `NetworkEstimator`.)
    classes_ : (C,) the classes, sorted

    >>> x, y = np.stack([np.eye(3) + k % 2 * 0.5 * np.eye(3)[::-1] for k in range(12)]), ["a", "b"] * 6
    >>> NetworkClassifier("linear", random_state=0).fit(x, y).predict(x[:2]).tolist()
    ['a', 'b']
    """

    def predict(self, X: Any) -> Array:
        """The most probable class (N,) of networks (N, n, n), in the dtype of the labels."""
        codes = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[codes])

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Class probabilities (N, C), columns as in `classes_`."""
        return self._outputs(X)

    def predict_log_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Logarithms of class probabilities (N, C)."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Accuracy on networks and their labels (None: those of the Networks)."""
        return float(super().score(X, _labels_of(X) if y is None else y, sample_weight))

    def _labels(self, y: Any, count: int) -> Labels:
        values = _one_each(y, count, "labels")
        if values.ndim != 1:
            raise DataError(f"y must have shape (N,), one class for each network, but has shape {values.shape}")
        if values.dtype.kind == "f" and not (values == np.rint(values)).all():
            raise DataError(
                "y must hold classes, but holds numbers that are not finite or not whole: use NetworkRegressor for "
                "numbers, and leave out networks without a label"
            )
        absent = [k for k, value in enumerate(values) if value is None or value != value]  # noqa: PLR0124 -- NaN
        if absent:
            raise DataError(f"every network needs a label, but {len(absent)} are missing (at {named(absent)})")
        try:
            self.classes_, codes = np.unique(values, return_inverse=True)
        except TypeError as error:
            raise DataError("y must hold labels of one kind, all text or all whole numbers, but mixes them") from error
        if len(self.classes_) < 2:
            raise DataError(f"y must hold at least two classes, but every network is {self.classes_.tolist()}")
        return Labels(codes.reshape(-1).astype(np.int64), None, len(self.classes_))


@_documented
class NetworkRegressor(RegressorMixin, NetworkEstimator):  # type: ignore[misc]
    """Predict numbers, one or several, from networks.

    (Parameters and attributes: `NetworkEstimator`.)

    >>> x = np.stack([np.eye(3) + k / 20 * np.eye(3)[::-1] for k in range(12)])
    >>> NetworkRegressor("linear", random_state=0).fit(x, np.arange(12.0)).predict(x[:2]).round().tolist()
    [0.0, 1.0]
    """

    def predict(self, X: Any) -> npt.NDArray[np.float64]:
        """Numbers (N,), or (N, k) where fit was given (N, k), in the units of fit."""
        outputs = self._outputs(X)
        return outputs[:, 0] if self._flat else outputs

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """R² on networks and their numbers (None: those of the Networks)."""
        return float(super().score(X, _labels_of(X) if y is None else y, sample_weight))

    def _labels(self, y: Any, count: int) -> Labels:
        labels = encode(_one_each(y, count, "numbers"), "regression")
        self._flat = labels.flat
        return labels

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _read(X: Any, y: Any, groups: Any) -> _Given:
    """Networks or arrays; whoever must stay together does."""
    x = _matrices(X)
    given = None if groups is None else _one_each(groups, len(x), "groups")
    if not isinstance(X, Networks):
        everyone = np.arange(len(x)).astype(str) if given is None else given.astype(str)
        return _Given(x, y, given, everyone, None, None, None)
    families = X.families if given is None else given
    return _Given(
        x,
        _labels_of(X) if y is None else y,
        X.groups if given is None else given,
        X.subjects,
        families,
        X.groups,
        tuple(X.nodes.tolist()),
    )


def _matrices(X: Any) -> Tensor:
    """Symmetric finite matrices (N, n, n), float32 or float64."""
    if isinstance(X, list | tuple) and X and isinstance(X[0], Networks):
        raise DataError(
            "X is a list of Networks, as scikit-learn's splitters make it: give them arrays, X=ds.matrices, y=ds.y and "
            "groups=ds.groups"
        )
    if isinstance(X, Networks):
        if X.matrices is None:
            raise DataError("the Networks have series but no matrices yet: choose a connectivity, ds.connectivity(...)")
        X = X.matrices
    if not isinstance(X, Tensor):
        X = np.asarray(X)
        X = X.astype(np.float64) if X.dtype.kind in "iub" else X
    if X.ndim != 3 or X.shape[-1] != X.shape[-2] or X.shape[-1] < 2:
        raise DataError(
            f"X must be networks of shape (N, n, n) with n >= 2, but has shape {tuple(X.shape)}: edges in a row must "
            "be turned into matrices first (nilearn's ConnectivityMeasure gives them without vectorize)"
        )
    if not len(X):
        raise DataError("X must hold at least one network, but is empty")
    return enter(X=X).tensors[0].detach().cpu()


def _labels_of(X: Any) -> Any:
    """The labels of Networks, classes by their names."""
    if not isinstance(X, Networks) or X.y is None:
        raise DataError("labels are needed, but y is None: give y, or Networks with a target")
    return X.y if X.classes is None else np.array(X.classes)[X.y]


def _one_each(values: Any, count: int, what: str) -> Array:
    if values is None:
        raise DataError("labels are needed, but y is None: give y, or Networks with a target")
    array = np.asarray(values)
    if array.shape[:1] != (count,):
        raise DataError(f"X has {count} networks, but there are {what} of shape {array.shape}: give one for each")
    return array


def _weights(sample_weight: Any, count: int) -> Tensor | None:
    if sample_weight is None:
        return None
    weights = _one_each(sample_weight, count, "sample weights").astype(np.float64)
    if weights.ndim != 1 or not (np.isfinite(weights) & (weights >= 0)).all() or not weights.any():
        raise DataError("sample_weight must hold one finite weight of at least 0 for each network, not all of them 0")
    return torch.from_numpy(weights)


def _is_count(value: Any, least: int = 0) -> bool:
    return isinstance(value, int | np.integer) and int(value) >= least


def _is_share(value: Any) -> bool:
    return isinstance(value, Real) and 0 <= float(value) < 1


def _is_backbone(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, type) and issubclass(value, Backbone))


# Settings that no part below checks: what they may be, as a question and in words.
SETTINGS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "backbone": (_is_backbone, "a name or a subclass of rmixup.models.Backbone"),
    "backbone_options": (lambda value: value is None or isinstance(value, dict), "a dict or None"),
    "validation_fraction": (_is_share, "a share in [0, 1)"),
    "patience": (lambda value: value is None or _is_count(value, 1), "a whole number of epochs, at least 1, or None"),
    "random_state": (
        lambda value: value is None or isinstance(value, np.random.RandomState) or _is_count(value),
        "a whole number of at least 0, a numpy.random.RandomState or None",
    ),
    "verbose": (_is_count, "a whole number of epochs, at least 0"),
}


def _whole(value: Any) -> Any:
    """NumPy's whole numbers, as searches draw them, are Python's."""
    return int(value) if isinstance(value, np.integer) else value
