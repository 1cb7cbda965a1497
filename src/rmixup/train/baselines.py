"""The baselines that no comparison may lack: logistic or ridge regression on edges and in tangent space.

They are fitted, not trained: `fit(x, y)` on the training networks alone (standardisation and the tangent space's
reference included), then `predict(x)` gives logits or numbers as a backbone's outputs are. `BASELINES` names them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple, Self

import torch
from torch import Tensor
from torch.nn import functional

from rmixup.errors import DataError
from rmixup.models.backbone import edges
from rmixup.spd import spectral
from rmixup.spd.metrics import METRICS
from rmixup.spd.repair import parse_regularizer, regularize
from rmixup.train.losses import soft_cross_entropy, squared_error, weighted_mean

# Strengths of the penalty that are tried on validation data, in units of scikit-learn's C and 1/alpha.
GRID = tuple(10.0**power for power in range(-6, 3))
_GRADIENT_TOLERANCE = 1e-9
_STEPS = 2000
_CONSTANT = 1e-12  # a deviation below is rounding


class Plane(NamedTuple):
    """A linear model of standardised features: slopes (p, outputs), intercept (outputs,)."""

    slopes: Tensor
    intercept: Tensor

    def __call__(self, z: Tensor) -> Tensor:
        """Outputs (N, outputs) of features (N, p)."""
        return z @ self.slopes + self.intercept


class Baseline(ABC):
    """Features of networks, standardised, then a linear model with an L2 penalty.

    Parameters
    ----------
    C : float, optional
        Inverse strength of the penalty, as scikit-learn's LogisticRegression counts it (Ridge's alpha is 1/C).
        None takes the value of `GRID` with the smallest loss on the validation data, or 1 where there are none.

    Attributes
    ----------
    chosen_C : float, after fitting
    plane : Plane, after fitting
        The linear model of standardised features.
    """

    def __init__(self, C: float | None = None) -> None:
        if C is not None and not C > 0:
            raise DataError(f"expected C > 0, got {C}")
        self.C = C

    @abstractmethod
    def _learn_features(self, x: Tensor) -> None:
        """Fit what the features need, on the training networks (N, n, n)."""

    @abstractmethod
    def _features(self, x: Tensor) -> Tensor:
        """Features (N, p) of networks (N, n, n), both float64."""

    @abstractmethod
    def _n_features(self, n_nodes: int) -> int:
        """The p of features (N, p)."""

    def fit(
        self,
        x: Tensor,
        y: Tensor,
        weights: Tensor | None = None,
        validation: tuple[Tensor, Tensor] | None = None,
        n_outputs: int | None = None,
    ) -> Self:
        """Fit on training networks.

        Parameters
        ----------
        x : (N, n, n)
        y : (N,) integer class codes, or floating targets (N,) or (N, k)
            The dtype says which task it is.
        weights : (N,) sample weights, optional
        validation : (networks, labels), optional
            For the choice of C; nothing else is learned from them.
        n_outputs : int, optional
            Number of classes, where the training labels may lack some.
        """
        self._learn_features(x.double())
        raw = self._features(x.double())
        self._mean = raw.mean(0)
        deviation = raw.std(0, correction=0)
        self._scale = torch.where(deviation > _CONSTANT, deviation, 1)
        self._classifies = not y.is_floating_point()
        targets = self._targets(y, n_outputs or (int(y.max()) + 1 if self._classifies else 0))
        weights = torch.ones_like(raw[:, 0]) if weights is None else weights.double()
        self._choose(self._standardised(raw), targets, weights, validation)
        return self

    def predict(self, x: Tensor) -> Tensor:
        """Logits (N, C) or numbers (N, k), float64, of networks (N, n, n)."""
        return self.plane(self._standardised(self._features(x.double())))

    def state(self) -> dict[str, Tensor]:
        """Everything that was fitted, as tensors by name, as `load` takes it."""
        fitted = {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}
        return {**fitted, **self.plane._asdict()}

    def shapes(self, n_nodes: int, n_outputs: int) -> dict[str, tuple[int, ...]]:
        """The shape of each tensor of `state`."""
        p = self._n_features(n_nodes)
        return {"_mean": (p,), "_scale": (p,), "slopes": (p, n_outputs), "intercept": (n_outputs,)}

    def load(self, state: dict[str, Tensor]) -> Self:
        """Take over what another of this class and these options has fitted; there is no fitting then."""
        self.plane = Plane(*(state[name] for name in Plane._fields))
        vars(self).update({name: value for name, value in state.items() if name not in Plane._fields})
        return self

    def _standardised(self, raw: Tensor) -> Tensor:
        return (raw - self._mean) / self._scale

    def _targets(self, y: Tensor, classes: int) -> Tensor:
        """One-hot classes, or numbers in columns; float64."""
        if not self._classifies:
            return y.double().reshape(len(y), -1)
        if classes < 2:
            raise DataError("expected at least two classes, got one: there is nothing to tell apart")
        return functional.one_hot(y.long(), classes).double()

    def _choose(self, z: Tensor, targets: Tensor, weights: Tensor, validation: tuple[Tensor, Tensor] | None) -> None:
        """Fit for one C, or for all of the grid and keep the best on the validation data."""
        solve, loss = (_logistic, soft_cross_entropy) if self._classifies else (_ridge, squared_error)
        basis, coordinates = _span(z)

        def plane(C: float) -> Plane:
            slopes, intercept = solve(coordinates, targets, weights, C)
            return Plane(basis @ slopes, intercept)

        if self.C is not None or validation is None:
            self.chosen_C = 1.0 if self.C is None else self.C
            self.plane = plane(self.chosen_C)
            return
        held_out = self._standardised(self._features(validation[0].double()))
        answers = self._targets(validation[1], targets.shape[1])
        planes = {C: plane(C) for C in GRID}
        self.chosen_C = min(planes, key=lambda C: float(loss(planes[C](held_out), answers)))
        self.plane = planes[self.chosen_C]


class Linear(Baseline):
    """Logistic or ridge regression on the edges above the diagonal; the option is that of `Baseline`.

    Examples
    --------
    >>> import torch
    >>> x = torch.eye(3).repeat(4, 1, 1)
    >>> x[2:, 0, 1] = x[2:, 1, 0] = 0.5
    >>> Linear().fit(x, torch.tensor([0, 0, 1, 1])).predict(x).argmax(-1).tolist()
    [0, 0, 1, 1]
    """

    def _learn_features(self, x: Tensor) -> None:
        """Edges need nothing."""

    def _features(self, x: Tensor) -> Tensor:
        return edges(x)

    def _n_features(self, n_nodes: int) -> int:
        return n_nodes * (n_nodes - 1) // 2


class Tangent(Baseline):
    """The same on the tangent space at the mean G of the training networks: entries of log(G^-½ S G^-½).

    The usual factor √2 off the diagonal is left out: standardising removes it. Networks must be positive definite.

    Parameters
    ----------
    C : float, optional
        See `Baseline`.
    metric : name in `rmixup.spd.METRICS`
        Of the mean G.
    regularizer : "shrink=0.05", "floor=1e-6", ..., or None
        Makes the networks positive definite first.

    Examples
    --------
    >>> import torch
    >>> x = torch.eye(3).repeat(4, 1, 1)
    >>> x[2:, 0, 1] = x[2:, 1, 0] = 0.5
    >>> Tangent().fit(x, torch.tensor([0.0, 0.0, 1.0, 1.0])).predict(x).shape
    torch.Size([4, 1])
    """

    def __init__(self, C: float | None = None, *, metric: str = "logeuclid", regularizer: str | None = None) -> None:
        super().__init__(C)
        if metric not in METRICS:
            raise DataError(f"expected metric to be one of {', '.join(METRICS)}, got {metric!r}")
        self.metric = metric
        self.regularizer = None if regularizer is None else parse_regularizer(regularizer)

    def _learn_features(self, x: Tensor) -> None:
        self._whitening = spectral.invsqrtm(METRICS[self.metric].mean(self._regular(x)))

    def _features(self, x: Tensor) -> Tensor:
        white = self._whitening @ self._regular(x) @ self._whitening
        log = spectral.logm((white + white.mT) / 2)  # symmetric but for rounding, which an ill-conditioned G amplifies
        return torch.cat([log.diagonal(dim1=-2, dim2=-1), edges(log)], -1)

    def _regular(self, x: Tensor) -> Tensor:
        return x if self.regularizer is None else regularize(x, *self.regularizer)[0]

    def _n_features(self, n_nodes: int) -> int:
        return n_nodes * (n_nodes + 1) // 2

    def shapes(self, n_nodes: int, n_outputs: int) -> dict[str, tuple[int, ...]]:
        """The shape of each tensor of `state`."""
        return {**super().shapes(n_nodes, n_outputs), "_whitening": (n_nodes, n_nodes)}


BASELINES: dict[str, type[Baseline]] = {"linear": Linear, "tangent": Tangent}


def _span(z: Tensor) -> tuple[Tensor, Tensor]:
    """Orthonormal basis (p, r) and coordinates (N, r) of features (N, p), r = min(N, p).

    The best slopes lie in the span of the samples, where a few hundred unknowns replace tens of thousands.
    """
    if z.shape[1] <= z.shape[0]:
        return torch.eye(z.shape[1], dtype=z.dtype, device=z.device), z
    basis, triangle = torch.linalg.qr(z.mT)
    return basis, triangle.mT


def _logistic(z: Tensor, targets: Tensor, weights: Tensor, C: float) -> tuple[Tensor, Tensor]:
    """Minimise C Σ weighted cross-entropy + ½‖slopes‖², the intercept free: scikit-learn's objective.

    Two classes share one slope vector, of which each gets half; so the penalty is scikit-learn's there, too.
    """
    classes = targets.shape[1]
    parameters = z.new_zeros(z.shape[1] + 1, 1 if classes == 2 else classes, requires_grad=True)
    strength = 0.5 / (C * weights.sum())
    optimizer = torch.optim.LBFGS(
        [parameters],
        max_iter=_STEPS,
        history_size=20,
        tolerance_grad=_GRADIENT_TOLERANCE,
        tolerance_change=0,
        line_search_fn="strong_wolfe",
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        logits = _both(z @ parameters[:-1] + parameters[-1])
        loss = soft_cross_entropy(logits, targets, weights) + strength * parameters[:-1].square().sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    with torch.enable_grad():
        optimizer.step(closure)  # type: ignore[no-untyped-call]
    slopes = _both(parameters.detach())
    return slopes[:-1], slopes[-1]


def _both(one: Tensor) -> Tensor:
    """A column that separates two classes becomes one for each; more columns stay."""
    return torch.cat([-one, one], -1) / 2 if one.shape[-1] == 1 else one


def _ridge(z: Tensor, targets: Tensor, weights: Tensor, C: float) -> tuple[Tensor, Tensor]:
    """Minimise Σ weighted squares + ‖slopes‖² / C, the intercept free."""
    centre, level = weighted_mean(z.mT, weights), weighted_mean(targets.mT, weights)
    z, targets = z - centre, targets - level
    gram = z.mT @ (z * weights[:, None]) + torch.eye(z.shape[1], dtype=z.dtype, device=z.device) / C
    slopes = torch.linalg.solve(gram, z.mT @ (targets * weights[:, None]))
    return slopes, level - centre @ slopes
