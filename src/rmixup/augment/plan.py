"""Plans: which networks are mixed, and how much, as plain arrays on the host.

A plan is all the chance there is in an augmentation. Applying it is a pure function, so a plan can be stored, looked
at, drawn ahead, and joined with the plans of other runs. May not be here: how a plan is drawn (that is a method's and
its pair policy's), what is done with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rmixup.errors import DataError

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Plan:
    """One batch: sample k mixes training networks i[k] and j[k], the latter with weight lam[k].

    Parameters
    ----------
    i, j : (B,) integers
        Positions in the training set (of a joined plan: in the training sets laid end to end).
    lam : number or (B,) numbers in [0, 1]
        λ, the weight of j.
    words : (B,) int64
        One word of chance a sample, from which masks and noise are made on the device.
    run : (B,) integers
        Which of the joined runs a sample belongs to; zeros for one run.
    sizes : tuple of int
        Networks in each run's training set; empty where the plan was made by hand.

    >>> plan = Plan(i=[0, 1], j=[2, 2], lam=0.25)
    >>> len(plan), plan.lam
    (2, array([0.25, 0.25]))
    """

    i: Integers
    j: Integers
    lam: Floats
    words: Integers = None  # type: ignore[assignment]
    run: Integers = None  # type: ignore[assignment]
    sizes: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        size = np.asarray(self.i).size
        for name, kind in (
            ("i", np.int64),
            ("j", np.int64),
            ("lam", np.float64),
            ("words", np.int64),
            ("run", np.int64),
        ):
            given: Any = getattr(self, name)
            array = np.zeros(size, kind) if given is None else np.asarray(given, kind)
            if array.ndim > 1 or array.size not in (1, size):
                raise DataError(
                    f"a plan's {name} must have one value a sample, {size} here, but has shape {array.shape}"
                )
            object.__setattr__(self, name, array if array.shape == (size,) else np.full(size, array, kind))
        if not ((self.lam >= 0) & (self.lam <= 1)).all():
            raise DataError("a plan's lam must lie in [0, 1] (it is the weight of j); some values do not")

    def __len__(self) -> int:
        return len(self.i)

    def __getitem__(self, part: slice) -> Plan:
        """Some samples of the plan.

        >>> Plan(i=[0, 1], j=[2, 2], lam=0.25)[1:].i
        array([1])
        """
        return Plan(self.i[part], self.j[part], self.lam[part], self.words[part], self.run[part], self.sizes)

    @classmethod
    def join(cls, plans: Sequence[Plan]) -> Plan:
        """Lay the plans of several runs end to end, for `Prepared.join` of the same runs in the same order.

        >>> one = Plan(i=[0], j=[1], lam=0.5, sizes=(10,))
        >>> both = Plan.join([one, one])
        >>> both.i, both.run
        (array([ 0, 10]), array([0, 1]))
        """
        if not all(plan.sizes for plan in plans):
            raise DataError("only plans that know their training set's size can be joined: draw them, or set sizes=")
        before = np.cumsum([0, *(sum(plan.sizes) for plan in plans)])
        runs = np.cumsum([0, *(len(plan.sizes) for plan in plans)])
        return cls(
            i=np.concatenate([plan.i + start for plan, start in zip(plans, before, strict=False)]),
            j=np.concatenate([plan.j + start for plan, start in zip(plans, before, strict=False)]),
            lam=np.concatenate([plan.lam for plan in plans]),
            words=np.concatenate([plan.words for plan in plans]),
            run=np.concatenate([plan.run + first for plan, first in zip(plans, runs, strict=False)]),
            sizes=tuple(size for plan in plans for size in plan.sizes),
        )
