"""What an augmentation is: prepare once, draw plans, apply them.

`Augmentation` is the settings of a method (a frozen dataclass). `prepare` does every fitted thing on the training
networks and returns `Prepared`; `Prepared.draw` makes a plan from a key; `Prepared.apply` carries it out. A method
of one's own subclasses `Augmentation` or `Mixing` and defines `mix`; `rmixup.testing.check_augmentation` tells whether
it keeps the contract. May not be here: anything about one method.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from rmixup import keys
from rmixup.augment.bank import Bank, Source, matrices_of, matrix_bank, require_networks
from rmixup.augment.labels import Labels, Task, encode, require_usable
from rmixup.augment.pairs import Context, Partners, Policy, Shuffle, Uniform, as_policy
from rmixup.augment.plan import Floats, Integers, Plan
from rmixup.errors import DataError, LeakageError

Key = int | tuple[int | str, ...]
# Stored logs are rounded; the bounds of a bank are widened by this, far above what rounding does to an eigenvalue.
BOUNDS_MARGIN = 1e-3
WORDS = np.iinfo(np.int64)
# Networks compared at once when neighbours are searched.
NEIGHBOUR_ROWS = 64


class Batch(NamedTuple):
    """A plan on the device: what `mix` reads. i, j, words, run are int64 (B,); lam has the networks' dtype."""

    i: Tensor
    j: Tensor
    lam: Tensor
    words: Tensor
    run: Tensor


class Given(NamedTuple):
    """What was handed to `prepare`: networks, and labels and groups of the rows that are used.

    `lenient`: a raw batch, in which labels need not be fit for training.
    """

    x: Tensor
    used: Integers
    labels: Labels
    groups: Integers | None
    device: torch.device
    cache: str | Path | None = None
    lenient: bool = False

    def source(self, rows: Integers) -> Source:
        """The networks of some rows."""
        return Source(self.x, rows, self.device)


class Training(NamedTuple):
    """What `fit` may learn from: the networks, their labels, and the bank whose `rows` are theirs."""

    source: Source
    labels: Labels
    bank: Bank
    rows: Integers
    cache: str | Path | None


class Draws(NamedTuple):
    """The chance of one batch, for positions that come sorted."""

    j: Integers
    lam: Floats
    words: Integers


@dataclass(frozen=True, kw_only=True)
class Augmentation(ABC):
    """Settings of a method. `capturable`: `mix` never waits for the device, so a CUDA graph can hold it."""

    name: ClassVar[str] = "augmentation"
    capturable: ClassVar[bool] = True

    def __call__(self, x: Any, y: Any, seed: int = 0, *, groups: Any = None, n_classes: int | None = None) -> Any:
        """Augment one raw batch, whose members are mixed with one another.

        Parameters
        ----------
        x : (B, n, n) NumPy array or tensor, float32 or float64
        y : (B,) class codes or numbers, or (B, k) numbers or class probabilities
        seed : int
        groups : (B,) or None
            For the policies same-group and cross-group.
        n_classes : int or None
            Columns of the mixed labels of classes; None: one more than the largest code in this batch.

        Returns
        -------
        x (B, n, n) and y, in the dtype of x, as NumPy or tensors as x came. A sample without a partner, such as the
        only one of its class under same-class pairs, comes back unmixed; with `prepare` this is an error.

        >>> import numpy as np
        >>> from rmixup.augment import VMixup
        >>> x2, y2 = VMixup()(np.stack([np.eye(2), 2 * np.eye(2)]), [0, 1], seed=0)
        >>> x2.shape, y2.shape
        ((2, 2, 2), (2, 2))
        """
        given = _read(x, y, groups, task=None, n_classes=n_classes)._replace(lenient=True)
        prepared = self._prepared(given, [given.used])[0]
        mixed, made = prepared.apply(prepared.draw(given.used, seed))
        return (mixed, made) if isinstance(x, Tensor) else (mixed.numpy(), made.numpy())

    def prepare(
        self,
        x: Any,
        y: Any = None,
        groups: Any = None,
        *,
        task: Task | None = None,
        n_classes: int | None = None,
        cache: str | Path | None = None,
        device: torch.device | str | None = None,
    ) -> Prepared:
        """Fit everything to the training networks, once.

        Parameters
        ----------
        x : `rmixup.Networks` (or anything with `matrices`, `y`, `groups`, `classes`), or an array (N, n, n)
            The training networks and nothing else.
        y, groups : (N,) or None
            Labels and groups where x is an array.
        task, n_classes : see `rmixup.augment.labels.encode`
        cache : folder or None
            Where logarithms are remembered, by a hash of the networks, the regulariser and the version.
        device : where to apply plans; None: where x is

        >>> import numpy as np
        >>> from rmixup.augment import VMixup
        >>> VMixup().prepare(np.stack([np.eye(2), 2 * np.eye(2)]), [0, 1])
        <Prepared vmixup: 2 networks of 2 nodes, classification, cpu>
        """
        given = _read(x, y, groups, task=task, n_classes=n_classes, device=device)._replace(cache=cache)
        return self._prepared(given, [given.used])[0]

    def prepare_many(
        self,
        x: Any,
        y: Any = None,
        groups: Any = None,
        *,
        splits: Sequence[Any],
        task: Task | None = None,
        n_classes: int | None = None,
        cache: str | Path | None = None,
        device: torch.device | str | None = None,
    ) -> list[Prepared]:
        """Prepare several runs (folds, seeds) that share one bank; `splits` gives each run's training rows.

        Only the rows named in some split are looked at. Each result equals `prepare` on its rows.
        """
        rows = [_training_rows(split) for split in splits]
        used = np.unique(np.concatenate(rows)) if rows else np.empty(0, np.int64)
        given = _read(x, y, groups, used, task=task, n_classes=n_classes, device=device)._replace(cache=cache)
        return self._prepared(given, rows)

    def parameters(self) -> dict[str, Any]:
        """The settings as plain values, for a run's identity.

        >>> from rmixup.augment import DropNode
        >>> DropNode(rate=0.2).parameters()
        {'rate': 0.2, 'published': False}
        """
        return {name: _plain(value) for name, value in vars(self).items()}

    # --- what a method may change --------------------------------------------------------------------------------

    @abstractmethod
    def mix(self, prepared: Prepared, batch: Batch) -> Tensor:
        """Make the networks (B, n, n): pure, without waiting for the device, of static shapes."""

    def policy(self) -> Policy:
        """Who may be a partner."""
        return Uniform()

    def draws(self, i: Integers, partners: Partners, rng: np.random.Generator) -> Draws:
        """Draw for sorted positions `i`. Here: everybody stays himself, with words for masks."""
        return Draws(i, np.zeros(len(i)), _words(rng, len(i)))

    def require(self, labels: Labels) -> None:
        """Refuse training labels that this method cannot use."""
        require_usable(labels)

    def bank(self, source: Source, cache: str | Path | None) -> Bank:
        """What to know of each network by itself. Here: the network."""
        return matrix_bank(source)

    def fit(self, training: Training) -> dict[str, Tensor]:
        """What is fitted across the training networks, as tensors."""
        return {}

    def run_bank(self, training: Training, fitted: dict[str, Tensor]) -> Bank | None:
        """A bank that depends on what was fitted, and so serves one run only; None: the shared one will do."""
        return None

    def distances(self, prepared: Prepared, some: Tensor) -> Tensor:
        """Distances (B, N) from some training networks to all, in this method's geometry. Here: entry by entry."""
        return prepared.bank.distances(prepared.rows[some], prepared.rows, symmetric=True)

    # -------------------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def _prepared(self, given: Given, splits: list[Integers]) -> list[Prepared]:
        everyone = given.source(given.used)
        require_networks(everyone)
        shared = self.bank(everyone, given.cache)
        return [self._one_run(given, rows, np.searchsorted(given.used, rows), shared) for rows in splits]

    def _one_run(self, given: Given, rows: Integers, at: Integers, shared: Bank) -> Prepared:
        """Fit one run, whose training rows stand at `at` in the shared bank."""
        labels = given.labels.take(at)
        if not given.lenient:
            self.require(labels)
        training = Training(given.source(rows), labels, shared, at, given.cache)
        fitted = self.fit(training)
        own = self.run_bank(training, fitted)
        device, dtype = given.device, given.x.dtype
        bank, at_run = (shared, at) if own is None else (own, np.arange(len(rows)))
        unpaired = Prepared(
            method=self,
            bank=bank,
            rows=torch.from_numpy(at_run).to(device),
            y=torch.from_numpy(labels.mixable()).to(device=device, dtype=dtype),
            fitted={name: value.to(device=device, dtype=dtype)[None] for name, value in fitted.items()},
            bounds=_widened(bank.bounds(at_run)),
            sizes=(len(rows),),
            task=labels.task,
            record={"method": self.name, "parameters": self.parameters(), **shared.record},
            partners=(),
        )
        groups = None if given.groups is None else given.groups[at]
        # Policies may ask for neighbours, so they are fitted last.
        context = Context(labels, groups, unpaired.neighbours, given.lenient)
        return replace(unpaired, partners=(self.policy().fit(context),))


@dataclass(frozen=True, kw_only=True)
class Mixing(Augmentation):
    """Augmentations that mix two networks and their labels.

    Parameters
    ----------
    alpha : float
        λ ~ Beta(alpha, alpha).
    pairs : name or `Policy`
        Who is mixed with whom; see `rmixup.augment.pairs`.
    per : "batch" or "pair"
        One λ a batch, as in the paper, or one a pair.
    published : bool
        Do as the published code does where that changes numbers: partners are a random order of the batch itself.
    """

    alpha: float = 1.0
    pairs: str | Policy = "uniform"
    per: Literal["batch", "pair"] = "batch"
    published: bool = False

    def __post_init__(self) -> None:
        if not (isinstance(self.alpha, float | int) and 0 < self.alpha < np.inf):
            raise DataError(f"alpha must be a positive number (λ ~ Beta(alpha, alpha)), but is {self.alpha!r}")
        if self.per not in ("batch", "pair"):
            raise DataError(f"per must be 'batch' (one λ a batch) or 'pair' (one λ a pair), but is {self.per!r}")
        as_policy(self.pairs)

    def policy(self) -> Policy:
        """The pair policy; published uniform pairs are the batch in a random order."""
        policy = as_policy(self.pairs)
        return Shuffle() if self.published and policy == Uniform() else policy

    def draws(self, i: Integers, partners: Partners, rng: np.random.Generator) -> Draws:
        """Draw λ, then partners, then words."""
        lam = rng.beta(self.alpha, self.alpha, None if self.per == "batch" else len(i))
        return Draws(partners.draw(i, rng), np.broadcast_to(lam, i.shape), _words(rng, len(i)))


@dataclass(frozen=True, eq=False, repr=False)
class Prepared:
    """A method fitted to training networks; of one run, or of several joined.

    `rows` (N,) leads from positions in the training set to rows of `bank`, `y` holds the mixable labels by position,
    `fitted` what was fitted, with one leading row a run. `bounds` enclose the spectrum of every mix of coordinates.
    `record` says what was done, in plain values.
    """

    method: Augmentation
    bank: Bank
    rows: Tensor
    y: Tensor
    fitted: dict[str, Tensor]
    bounds: tuple[float, float] | None
    sizes: tuple[int, ...]
    task: Task
    record: dict[str, Any]
    partners: tuple[Partners, ...]

    def __len__(self) -> int:
        return sum(self.sizes)

    def __repr__(self) -> str:
        runs = f"{len(self.sizes)} runs, " if len(self.sizes) > 1 else ""
        what = f"{runs}{len(self)} networks of {self.nodes} nodes, {self.task}, {self.device}"
        return f"<Prepared {self.method.name}: {what}>"

    @property
    def nodes(self) -> int:
        """Nodes of each network."""
        return self.bank.nodes

    @property
    def device(self) -> torch.device:
        """Where plans are applied."""
        return self.y.device

    @property
    def effective_partners(self) -> Floats:
        """For each training network the effective number of partners it can get, 1 / Σ p²."""
        return np.concatenate([partners.effective() for partners in self.partners])

    def draw(self, indices: Any, key: Key) -> Plan:
        """Draw the plan of one batch from its key alone.

        Parameters
        ----------
        indices : integers (B,)
            Positions in the training set, in any order; the same ones in another order give the same plan reordered.
        key : int, or tuple (seed, *labels)
            For example (seed, "augment", epoch, step).
        """
        if len(self.sizes) > 1:
            raise DataError("plans are drawn run by run: draw from each prepared run and join them with Plan.join")
        positions = self._positions(indices)
        order = np.argsort(positions, kind="stable")
        rng = keys.generator(*(key if isinstance(key, tuple) else (key,)))  # type: ignore[arg-type]
        drawn = self.method.draws(positions[order], self.partners[0], rng)
        back = np.argsort(order, kind="stable")
        return Plan(positions, drawn.j[back], drawn.lam[back], drawn.words[back], sizes=self.sizes)

    def apply(self, plan: Plan) -> tuple[Tensor, Tensor]:
        """Carry out a plan: networks (B, n, n) and labels (B,), (B, C) or (B, k), in the networks' dtype.

        Nothing is drawn and nothing is changed: the same plan gives the same result.
        """
        return self.mix(self.upload(plan))

    def upload(self, plan: Plan) -> Batch:
        """Check that a plan belongs to these training networks and bring it to the device."""
        if plan.sizes and plan.sizes != self.sizes:
            raise LeakageError(
                f"the plan was drawn for training sets of {plan.sizes} networks, but these have {self.sizes}: draw "
                "from the same prepared runs, in the same order"
            )
        self._positions(plan.i), self._positions(plan.j)
        on = {"device": self.device, "non_blocking": True}
        i, j, words, run = (torch.from_numpy(array).to(**on) for array in (plan.i, plan.j, plan.words, plan.run))  # type: ignore[call-overload]
        lam = torch.from_numpy(plan.lam).to(self.y.dtype).to(**on)  # type: ignore[call-overload]
        return Batch(i, j, lam, words, run)

    @torch.no_grad()
    def mix(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """`apply` for a batch that is on the device already; nothing here waits for the device."""
        return self.method.mix(self, batch), self.mixed_labels(batch)

    def mixed_labels(self, batch: Batch) -> Tensor:
        """(1 - λ) y_i + λ y_j."""
        weight = batch.lam if self.y.ndim == 1 else batch.lam[:, None]
        return torch.lerp(self.y.index_select(0, batch.i), self.y.index_select(0, batch.j), weight)

    def between(self, batch: Batch) -> Tensor:
        """The straight line in the bank's coordinates: (1 - λ) of i and λ of j, (B, n, n)."""
        return self.bank.between(self.rows.index_select(0, batch.i), self.rows.index_select(0, batch.j), batch.lam)

    def first(self, batch: Batch) -> Tensor:
        """The bank's rows of i."""
        return self.bank.rows(self.rows.index_select(0, batch.i))

    def second(self, batch: Batch) -> Tensor:
        """The bank's rows of j."""
        return self.bank.rows(self.rows.index_select(0, batch.j))

    @classmethod
    def join(cls, runs: Sequence[Prepared]) -> Prepared:
        """Several prepared runs of one method as one, so that their plans are applied in one call.

        `Prepared.join(runs).apply(Plan.join(plans))` is the results of the runs end to end. Runs from `prepare_many`
        share their bank; other banks are copied together.
        """
        one = runs[0]
        if len({(run.method.name, run.task, run.nodes, run.y.shape[1:], run.y.dtype) for run in runs}) > 1:
            raise DataError("only runs of one method, on networks and labels of one kind and dtype, can be joined")
        bank, starts = _joined_banks([run.bank for run in runs])
        bounds = [run.bounds for run in runs if run.bounds is not None]
        return replace(
            one,
            bank=bank,
            rows=torch.cat([run.rows + start for run, start in zip(runs, starts, strict=True)]),
            y=torch.cat([run.y for run in runs]),
            fitted={name: torch.cat([run.fitted[name] for run in runs]) for name in one.fitted},
            bounds=(min(low for low, _ in bounds), max(high for _, high in bounds)) if bounds else None,
            sizes=tuple(size for run in runs for size in run.sizes),
            partners=tuple(partners for run in runs for partners in run.partners),
        )

    @torch.no_grad()
    def neighbours(self, k: int) -> Integers:
        """The (N, k) nearest other training networks of each, in the method's geometry."""
        found = []
        for first in range(0, len(self), NEIGHBOUR_ROWS):
            some = torch.arange(first, min(first + NEIGHBOUR_ROWS, len(self)), device=self.device)
            far = self.method.distances(self, some)
            far[torch.arange(len(some), device=self.device), some] = torch.inf
            found.append(far.topk(k, largest=False).indices.cpu())
        return np.asarray(torch.cat(found).numpy(), np.int64)

    def _positions(self, indices: Any) -> Integers:
        """Positions that are in the training set, or an error: anything else would mix across the split."""
        given = np.asarray(indices)
        if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
            raise DataError(
                "indices must be whole numbers (B,), positions in the training set, but came "
                f"{given.dtype} of shape {given.shape}"
            )
        outside = given[(given < 0) | (given >= len(self))]
        if outside.size:
            raise LeakageError(
                f"indices are positions in the training set, 0..{len(self) - 1}, but {outside.size} lie outside "
                f"(first: {outside[0]}); networks of another split cannot be mixed in: index the training set"
                " that was prepared"
            )
        return given.astype(np.int64)


def _joined_banks(banks: Sequence[Bank]) -> tuple[Bank, list[int]]:
    """One bank, and where each one's rows begin in it."""
    if all(bank is banks[0] for bank in banks):
        return banks[0], [0] * len(banks)
    starts = [0, *np.cumsum([len(bank) for bank in banks]).tolist()][:-1]
    return replace(banks[0], values=torch.cat([bank.values for bank in banks]), low=None, high=None), starts


def _words(rng: np.random.Generator, size: int) -> Integers:
    return rng.integers(WORDS.min, WORDS.max, size, endpoint=True)


def _widened(bounds: tuple[float, float] | None) -> tuple[float, float] | None:
    return None if bounds is None else (bounds[0] - BOUNDS_MARGIN, bounds[1] + BOUNDS_MARGIN)


def _read(
    x: Any,
    y: Any,
    groups: Any,
    used: Integers | None = None,
    *,
    task: Task | None,
    n_classes: int | None,
    device: torch.device | str | None = None,
) -> Given:
    """Read a data set or arrays; labels and groups of the used rows only."""
    if hasattr(x, "matrices"):
        if x.matrices is None:
            raise DataError("the data set has series but no matrices yet: choose a connectivity, ds.connectivity(...)")
        y = x.y if y is None else y
        groups = getattr(x, "groups", None) if groups is None else groups
        classes = getattr(x, "classes", None)
        task = task or getattr(x, "task", None)
        n_classes = n_classes or (len(classes) if classes else None)
        x = x.matrices
    matrices = matrices_of(x)
    used = np.arange(len(matrices)) if used is None else used
    if not len(used) or used[0] < 0 or used[-1] >= len(matrices):
        raise DataError(f"the training rows of the splits must lie in 0..{len(matrices) - 1}, at least one")
    labels = encode(_of_used(y, used, len(matrices)), task, n_classes)
    where = matrices.device if device is None else torch.device(device)
    return Given(matrices, used, labels, _groups(groups, used, len(matrices)), where)


def _of_used(y: Any, used: Integers, size: int) -> Any:
    if y is None:
        return None
    values = np.asarray(y.detach().cpu() if isinstance(y, Tensor) else y)
    if values.shape[:1] != (size,):
        raise DataError(f"x and y must have one length, but x has {size} networks and y has shape {values.shape}")
    return values[used]


def _groups(groups: Any, used: Integers, size: int) -> Integers | None:
    if groups is None:
        return None
    values = np.asarray(groups)
    if values.shape != (size,):
        raise DataError(f"groups must have one value for each of the {size} networks, but have shape {values.shape}")
    return np.unique(values[used], return_inverse=True)[1].reshape(-1).astype(np.int64)


def _training_rows(split: Any) -> Integers:
    rows = np.asarray(split)
    if rows.ndim != 1 or rows.dtype.kind not in "iu" or not rows.size or len(np.unique(rows)) < len(rows):
        raise DataError(
            "each of the splits must be the row numbers of a training set: different integers, at least one"
        )
    return rows.astype(np.int64)


def _plain(value: Any) -> Any:
    return {"policy": type(value).__name__, **asdict(value)} if isinstance(value, Policy) else value  # type: ignore[call-overload]
