"""Pair policies: who is mixed with whom. Any policy works with any geometry.

A policy (a frozen dataclass of settings) is fitted to the training labels or groups and becomes `Partners`, which
draws a training partner for each sample. Partners come from the whole training set, and nobody is his own partner
unless a policy says so. `PAIRS` lists the policies by name. May not be here: λ, matrices.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from rmixup.augment.labels import Labels, named
from rmixup.augment.names import lookup
from rmixup.augment.plan import Floats, Integers
from rmixup.errors import DataError


class Context(NamedTuple):
    """What a policy may know of the training set.

    `neighbours(k)` gives the (N, k) nearest other networks in the method's geometry. `lenient`: the rows are one raw
    batch, in which a class may have a single member; it is then mixed with itself instead of refused.
    """

    labels: Labels
    groups: Integers | None
    neighbours: Callable[[int], Integers]
    lenient: bool = False


class Partners(ABC):
    """A policy fitted to N training networks."""

    @abstractmethod
    def draw(self, i: Integers, rng: np.random.Generator) -> Integers:
        """A partner for each of the positions `i`, which come sorted."""

    @abstractmethod
    def effective(self) -> Floats:
        """For each network the effective number of partners, 1 / Σ p² (Kish)."""


class Policy(ABC):
    """Settings of a pair policy; `fit` turns them into `Partners`."""

    @abstractmethod
    def fit(self, context: Context) -> Partners:
        """Fit to a training set."""


@dataclass(frozen=True)
class Uniform(Policy):
    """Every other training network, equally likely.

    >>> Uniform()
    Uniform()
    """

    def fit(self, context: Context) -> Partners:
        """One block of all."""
        return _Blocks(np.zeros(len(context.labels), np.int64), inside=True)


@dataclass(frozen=True)
class Shuffle(Policy):
    """A random order of the batch itself, the published way: partners come from the batch only, oneself included."""

    def fit(self, context: Context) -> Partners:
        """Nothing to fit."""
        return _Shuffled(len(context.labels))


@dataclass(frozen=True)
class SameClass(Policy):
    """Another training network of the same class."""

    def fit(self, context: Context) -> Partners:
        """One block a class."""
        if context.labels.codes is None:
            raise DataError(
                "pairs='same-class' needs classes, but the labels are numbers; use pairs='label-kernel', or say "
                "task='classification' if the numbers are class codes"
            )
        return _same(context.labels.codes, "class", context)


@dataclass(frozen=True)
class SameGroup(Policy):
    """Another training network of the same group (site, scanner, platform)."""

    def fit(self, context: Context) -> Partners:
        """One block a group."""
        return _same(_groups(context, "same-group"), "group", context)


@dataclass(frozen=True)
class CrossGroup(Policy):
    """A training network of another group (site, scanner, platform)."""

    def fit(self, context: Context) -> Partners:
        """The complement of each group's block."""
        groups = _groups(context, "cross-group")
        if len(np.unique(groups)) < 2:
            if context.lenient:
                return _Blocks(groups, inside=True)
            raise DataError(
                "pairs='cross-group' needs at least two groups in the training set, but there is one; use "
                "pairs='uniform'"
            )
        return _Blocks(groups, inside=False)


@dataclass(frozen=True)
class LabelKernel(Policy):
    """Partners with near labels: p ∝ exp(-‖y_i - y_j‖² / 2h²). For classes: partners of the same class.

    Parameters
    ----------
    bandwidth : float or "auto"
        h, in the `units`. "auto" is Scott's rule on the training labels, N^(-1/(k + 4)) deviations for k targets.
    units : "deviation" or "raw"
        Whether labels are divided by their standard deviation over the training set first.
    itself : bool
        Whether a network can be its own partner, as in the published code.

    >>> LabelKernel(bandwidth=0.5)
    LabelKernel(bandwidth=0.5, units='deviation', itself=False)
    """

    bandwidth: float | Literal["auto"] = "auto"
    units: Literal["deviation", "raw"] = "deviation"
    itself: bool = False

    def __post_init__(self) -> None:
        if self.bandwidth != "auto" and not (isinstance(self.bandwidth, float | int) and 0 < self.bandwidth < np.inf):
            raise DataError(
                f"the bandwidth of a label kernel must be a positive number or 'auto', but is {self.bandwidth!r}"
            )
        if self.units not in ("deviation", "raw"):
            raise DataError(f"the units of a label kernel's bandwidth are 'deviation' or 'raw', not {self.units!r}")

    def fit(self, context: Context) -> Partners:
        """Scale the labels to bandwidths."""
        labels = context.labels
        if labels.numbers is None:
            return SameClass().fit(context)
        deviation = labels.numbers.std(axis=0)
        if len(labels) == 1 or not deviation.all():
            if context.lenient:
                return Uniform().fit(context)
            raise DataError("a label kernel needs at least two networks whose labels differ; use pairs='uniform'")
        h = len(labels) ** (-1 / (labels.numbers.shape[1] + 4)) if self.bandwidth == "auto" else float(self.bandwidth)
        unit = deviation if self.units == "deviation" or self.bandwidth == "auto" else np.ones_like(deviation)
        return _Kernel(labels.numbers / (h * unit), self.itself)


@dataclass(frozen=True)
class Nearest(Policy):
    """One of the k nearest other training networks, in the distance of the method's geometry."""

    k: int = 10

    def __post_init__(self) -> None:
        if not (isinstance(self.k, int) and self.k >= 1):
            raise DataError(f"the number of neighbours must be a whole number of at least 1, but is {self.k!r}")

    def fit(self, context: Context) -> Partners:
        """Find the neighbours once."""
        others = len(context.labels) - 1
        if context.lenient and others == 0:
            return Uniform().fit(context)
        if self.k > others and not context.lenient:
            raise DataError(
                f"{self.k} neighbours were asked for, but each training network has {others} others; lower k"
            )
        return _Listed(context.neighbours(min(self.k, others)))


PAIRS: dict[str, type[Policy]] = {
    "uniform": Uniform,
    "same-class": SameClass,
    "label-kernel": LabelKernel,
    "same-group": SameGroup,
    "cross-group": CrossGroup,
    "nearest": Nearest,
    "shuffle": Shuffle,
}


def as_policy(pairs: str | Policy) -> Policy:
    """A policy by its name, or the policy itself.

    >>> as_policy("same-class")
    SameClass()
    """
    return pairs if isinstance(pairs, Policy) else lookup(pairs, PAIRS, "pair policy")()


def _groups(context: Context, name: str) -> Integers:
    if context.groups is None:
        raise DataError(f"pairs={name!r} needs groups (site, scanner, ...): give groups= to prepare, one a network")
    return context.groups


def _same(codes: Integers, what: str, context: Context) -> Partners:
    values, inverse, counts = np.unique(codes, return_inverse=True, return_counts=True)
    alone = np.flatnonzero(counts[inverse.reshape(-1)] == 1)
    if len(alone) and not context.lenient:
        raise DataError(
            f"each {what} needs at least two training networks to mix within it, but {len(alone)} of {len(values)} "
            f"have one member only (the networks at {named(alone)}); join them with another {what}, leave them out, or "
            "use pairs='uniform'"
        )
    return _Blocks(codes, inside=True)


class _Blocks(Partners):
    """Uniform over one's own block without oneself, or over everything outside it. A lone member gets himself."""

    def __init__(self, codes: Integers, inside: bool) -> None:
        self.order = np.argsort(codes, kind="stable")
        counts = np.unique(codes, return_counts=True)[1]
        ends = np.cumsum(counts)
        block = np.unique(codes, return_inverse=True)[1].reshape(-1)
        self.start, self.count = (ends - counts)[block], counts[block]
        self.place = np.empty(len(codes), np.int64)
        self.place[self.order] = np.arange(len(codes))
        self.inside = inside

    def draw(self, i: Integers, rng: np.random.Generator) -> Integers:
        start, count, place = self.start[i], self.count[i], self.place[i]
        if not self.inside:
            drawn = rng.integers(0, len(self.order) - count)
            return np.asarray(self.order[drawn + np.where(drawn >= start, count, 0)])
        drawn = start + rng.integers(0, np.maximum(count - 1, 1))
        return np.asarray(self.order[np.where(count == 1, place, drawn + (drawn >= place))])

    def effective(self) -> Floats:
        n = self.count - 1 if self.inside else len(self.order) - self.count
        return np.asarray(np.maximum(n, 1), np.float64)


class _Shuffled(Partners):
    def __init__(self, size: int) -> None:
        self.size = size

    def draw(self, i: Integers, rng: np.random.Generator) -> Integers:
        return rng.permutation(i)

    def effective(self) -> Floats:
        return np.full(self.size, float(self.size))


class _Kernel(Partners):
    """Labels (N, k) in units of the bandwidth; weights are computed row by row, in log space."""

    def __init__(self, scaled: Floats, itself: bool) -> None:
        self.scaled, self.itself = scaled, itself

    def weights(self, i: Integers) -> Floats:
        """Probabilities (len(i), N). The nearest label has weight 1 before normalising, so none is 0 / 0."""
        log_p = -0.5 * ((self.scaled[i, None] - self.scaled[None]) ** 2).sum(-1)
        if not self.itself:
            log_p[np.arange(len(i)), i] = -np.inf
        p = np.exp(log_p - log_p.max(axis=1, keepdims=True))
        return np.asarray(p / p.sum(axis=1, keepdims=True))

    def draw(self, i: Integers, rng: np.random.Generator) -> Integers:
        below = np.cumsum(self.weights(i), axis=1)
        drawn = rng.random(len(i))[:, None] * below[:, -1:]
        return np.asarray((below <= drawn).sum(axis=1), np.int64)

    def effective(self) -> Floats:
        return np.array([1 / (self.weights(np.array([k])) ** 2).sum() for k in range(len(self.scaled))])


class _Listed(Partners):
    def __init__(self, table: Integers) -> None:
        self.table = table

    def draw(self, i: Integers, rng: np.random.Generator) -> Integers:
        drawn: Any = self.table[i, rng.integers(0, self.table.shape[1], len(i))]
        return np.asarray(drawn, np.int64)

    def effective(self) -> Floats:
        return np.full(len(self.table), float(self.table.shape[1]))
