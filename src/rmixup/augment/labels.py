"""Labels as numbers that can be mixed: classes one-hot, targets as they are.

Column c of a mixed label is class c. May not be here: anything that looks at networks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from rmixup.augment.plan import Floats, Integers
from rmixup.errors import DataError

Task = Literal["classification", "regression"]
# More places than this are counted, not listed.
LISTED = 5


@dataclass(frozen=True, eq=False)
class Labels:
    """The labels of N networks.

    `codes` (N,) are class codes, with `n_classes`, for a classification; `numbers` (N, k) are the targets of a
    regression; the other is None. `flat` says that the targets came as (N,) and go out so.
    """

    codes: Integers | None
    numbers: Floats | None
    n_classes: int = 0
    flat: bool = False

    def __len__(self) -> int:
        return len(self.codes if self.codes is not None else self.numbers)  # type: ignore[arg-type]

    @property
    def task(self) -> Task:
        """Classes or numbers."""
        return "regression" if self.codes is None else "classification"

    def mixable(self) -> npt.NDArray[Any]:
        """The labels as they are mixed: one-hot rows (N, C), or targets (N,) or (N, k).

        >>> encode([0, 1]).mixable()
        array([[1., 0.],
               [0., 1.]])
        """
        if self.codes is not None:
            return np.eye(self.n_classes)[self.codes]
        assert self.numbers is not None
        return self.numbers[:, 0] if self.flat else self.numbers

    def take(self, rows: Integers) -> Labels:
        """The labels of some networks, with the same classes."""
        codes = None if self.codes is None else self.codes[rows]
        numbers = None if self.numbers is None else self.numbers[rows]
        return Labels(codes, numbers, self.n_classes, self.flat)


def encode(y: Any, task: Task | None = None, n_classes: int | None = None) -> Labels:
    """Read labels: integers, booleans and names are classes, other numbers are targets.

    Parameters
    ----------
    y : (N,) class codes 0..C-1 or names, or (N,) or (N, k) numbers
        Names, and integers below zero, become the codes of their sorted values. Rows of class probabilities count as
        numbers: they mix alike.
    task : "classification", "regression" or None
        None decides by the dtype; say "regression" for whole numbers such as ages.
    n_classes : int or None
        Columns of the mixed labels; None: one more than the largest code.

    >>> encode([2, 0]).n_classes, encode([0.5, 1.5]).task, encode(["b", "a"]).codes
    (3, 'regression', array([1, 0]))
    """
    values = _as_array(y)
    if task is None:
        task = "regression" if values.dtype.kind == "f" else "classification"
    return _as_classes(values, n_classes) if task == "classification" else _as_numbers(values)


def require_usable(labels: Labels) -> None:
    """A training set needs at least two classes, or targets that vary."""
    if labels.codes is not None and len(np.unique(labels.codes)) < 2:
        raise DataError(
            f"the training set has one class only (all {len(labels)} labels have code {labels.codes[0]}): nothing can "
            "be learned from it; check the labels, or the split"
        )
    if labels.numbers is not None and len(labels) > 1:
        constant = np.flatnonzero(np.ptp(labels.numbers, axis=0) == 0)
        if len(constant):
            raise DataError(
                f"a target must vary over the training set, but target {', '.join(map(str, constant))} has the same "
                f"value in all {len(labels)} networks; leave it out, or check the labels"
            )


def named(positions: Sequence[int] | Integers) -> str:
    """Name a few positions and count the rest.

    >>> named([1, 2, 3, 4, 5, 6, 7])
    '1, 2, 3, 4, 5 and 2 more'
    """
    text = ", ".join(str(k) for k in positions[:LISTED])
    return text if len(positions) <= LISTED else f"{text} and {len(positions) - LISTED} more"


def _as_array(y: Any) -> npt.NDArray[Any]:
    if y is None:
        raise DataError("labels are needed, but y is None: give y, or choose the data set's target first")
    values = np.asarray(y.detach().cpu() if hasattr(y, "detach") else y)
    if values.ndim not in (1, 2):
        raise DataError(f"y must have shape (N,) or (N, k), but has shape {values.shape}")
    return values


def _missing(values: npt.NDArray[Any]) -> Integers:
    """Where a label is NaN or None: the only values that differ from themselves."""
    bad = np.array([[v is None or v != v for v in np.atleast_1d(row)] for row in values])  # noqa: PLR0124
    return np.flatnonzero(bad.any(axis=1)) if bad.size else np.empty(0, np.int64)


def _as_classes(values: npt.NDArray[Any], n_classes: int | None) -> Labels:
    if values.ndim != 1:
        raise DataError(f"class labels must have shape (N,), but have shape {values.shape}")
    if values.dtype.kind in "fO":
        _refuse(_missing(values))
    whole = values.dtype.kind in "iu" or (values.dtype.kind == "f" and bool((values == np.rint(values)).all()))
    if whole and (not len(values) or values.min() >= 0):
        codes = values.astype(np.int64)
    else:
        codes = np.unique(values, return_inverse=True)[1].astype(np.int64).reshape(-1)
    largest = int(codes.max(initial=-1))
    if n_classes is not None and largest >= n_classes:
        raise DataError(f"class codes must lie in 0..{n_classes - 1} (n_classes={n_classes}), but {largest} occurs")
    return Labels(codes, None, largest + 1 if n_classes is None else n_classes)


def _as_numbers(values: npt.NDArray[Any]) -> Labels:
    if not values.size:
        raise DataError(
            f"a regression needs at least one network and one target, but y is empty (shape {values.shape}); check "
            "which networks and columns were chosen"
        )
    if values.dtype.kind == "O":
        _refuse(_missing(values))
    try:
        numbers = values.astype(np.float64)
    except (TypeError, ValueError):
        raise DataError(f"the targets of a regression must be numbers, but y has dtype {values.dtype}") from None
    _refuse(np.flatnonzero(~np.isfinite(numbers.reshape(len(numbers), -1)).all(axis=1)))
    return Labels(None, numbers.reshape(len(numbers), -1), flat=values.ndim == 1)


def _refuse(missing: Integers) -> None:
    if len(missing):
        raise DataError(
            f"every network needs a label, but {len(missing)} are missing or not finite (at {named(missing)}); leave "
            "these networks out, for example with ds[~np.isnan(ds.y)]"
        )
