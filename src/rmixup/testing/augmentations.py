"""`check_augmentation`."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from rmixup import keys
from rmixup.augment import Augmentation, Plan, Prepared, as_augmentation
from rmixup.errors import LeakageError
from rmixup.testing.common import close, correlations, global_chance, report

_TRAINING, _NODES = 12, 6
_KEY = (3, "check")


def check_augmentation(augmentation: str | Augmentation, symmetric: bool = True) -> None:
    """Check an augmentation: plans from keys, pure application, labels, no leak, joined runs.

    Parameters
    ----------
    augmentation : name in `rmixup.augment.METHODS`, or an `Augmentation`
        It is tried on small correlation matrices of full rank, with two classes, two groups and with numbers.
    symmetric : bool
        Whether its networks must be symmetric (some published masks are not).

    Raises
    ------
    AssertionError
        Names every rule broken.

    Examples
    --------
    >>> check_augmentation("rmixup")
    """
    method = as_augmentation(augmentation)
    report(_augmentation_problems(method, symmetric), f"augmentation {method.name}")


def _augmentation_problems(method: Augmentation, symmetric: bool) -> Iterator[str]:
    x64 = correlations(_TRAINING, _NODES).double()
    x64 = 0.5 * (x64 + x64.mT)
    codes = torch.arange(_TRAINING) % 2
    numbers = keys.generator(0, "check").standard_normal(_TRAINING)
    for y, kind in ((codes, "classes"), (torch.from_numpy(numbers), "numbers")):
        try:
            method.prepare(x64, y, groups=codes)
        except Exception as error:
            yield f"cannot be prepared with {kind}: {type(error).__name__}: {error}"
            continue
        for x in (x64, x64.float()):
            prepared = method.prepare(x, y, groups=codes)
            for rule in (_result_problems, _plan_problems, _purity_problems):
                for problem in rule(prepared, x, symmetric):
                    yield f"{problem} ({kind}, {str(x.dtype).removeprefix('torch.')})"
        yield from _leak_problems(method, x64, y, codes)


def _result_problems(prepared: Prepared, x: Tensor, symmetric: bool) -> Iterator[str]:
    for size in (1, 3, len(x)):
        made, labels = prepared.apply(prepared.draw(np.arange(size), _KEY))
        if made.shape != (size, *x.shape[1:]):
            yield f"expected networks of shape {(size, *x.shape[1:])}, got {tuple(made.shape)}"
        elif symmetric and not torch.equal(made, made.mT):
            yield "networks are not symmetric"
        if made.dtype != x.dtype or labels.dtype != x.dtype:
            yield f"expected the dtype {x.dtype}, got {made.dtype} and labels of {labels.dtype}"
        if not made.isfinite().all():
            yield "networks are not finite"
        if made.requires_grad:
            yield "networks carry gradients"
        if labels.ndim == 2 and not close(labels.sum(1), torch.ones(size, dtype=x.dtype)):
            yield "class probabilities do not sum to one"
        low, high = prepared.y.amin(0), prepared.y.amax(0)
        if not ((labels >= low - 1e-6) & (labels <= high + 1e-6)).all():
            yield "labels lie outside the range of the training labels"


def _plan_problems(prepared: Prepared, x: Tensor, symmetric: bool) -> Iterator[str]:
    everyone = np.arange(len(x))
    plan, again = prepared.draw(everyone, _KEY), prepared.draw(everyone, _KEY)
    if not _same_plan(plan, again):
        yield "the same key gives different plans"
    if _same_plan(plan, prepared.draw(everyone, (4, "check"))):
        yield "another key gives the same plan"
    if not _same_plan(prepared.draw(everyone[::-1], _KEY)[::-1], plan):
        yield "the order of a batch changes who is mixed with whom"
    if not np.array_equal(plan.i, everyone):
        yield "a plan's i are not the positions asked for"
    if not _same_plan(pickle.loads(pickle.dumps(prepared)).draw(everyone, _KEY), plan):  # noqa: S301 -- our own bytes
        yield "a pickled copy draws another plan"
    for outside in (-1, len(x)):
        try:
            prepared.draw([outside], _KEY)
        except LeakageError:
            continue
        yield f"position {outside}, outside the training set, is not refused with a LeakageError"


def _same_plan(a: Plan, b: Plan) -> bool:
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in ("i", "j", "lam", "words"))


def _purity_problems(prepared: Prepared, x: Tensor, symmetric: bool) -> Iterator[str]:
    given, plan = x.clone(), prepared.draw(np.arange(len(x)), _KEY)
    chance = global_chance()
    first = prepared.apply(plan)
    second = prepared.apply(plan)
    if not all(torch.equal(a, b) for a, b in zip(first, second, strict=True)):
        yield "applying a plan twice gives different results"
    if not torch.equal(x, given):
        yield "the networks handed in were changed"
    if chance != global_chance():
        yield "chance is drawn from a global generator instead of the plan's words"
    joined = Prepared.join([prepared, prepared]).apply(Plan.join([plan, plan]))
    if not all(close(two, torch.cat([one, one])) for two, one in zip(joined, first, strict=True)):
        yield "joined runs give other results than each alone"


def _leak_problems(method: Augmentation, x: Tensor, y: Tensor, groups: Tensor) -> Iterator[str]:
    """Other rows filled with NaN and their labels turned round must change nothing."""
    train, other = np.arange(2, _TRAINING), torch.arange(2)
    poisoned, turned = x.clone(), y.clone()
    poisoned[other] = torch.nan
    turned[other] = turned[other.flip(0)]
    results = []
    for networks, labels in ((x, y), (poisoned, turned)):
        prepared = method.prepare_many(networks, labels, groups, splits=[train])[0]
        results.append((*prepared.apply(prepared.draw(np.arange(len(train)), _KEY)), prepared.bank.values, prepared.y))
    if not all(torch.equal(a, b) for a, b in zip(*results, strict=True)):
        yield "networks outside the training rows have an influence"
