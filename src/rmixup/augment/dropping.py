"""What DropNode and DropEdge share: a rate, and samples that stay themselves with their labels."""

from __future__ import annotations

from dataclasses import dataclass

from rmixup.augment.base import Augmentation
from rmixup.errors import DataError


@dataclass(frozen=True, kw_only=True)
class Dropping(Augmentation):
    """Augmentations that take something away from each network.

    Parameters
    ----------
    rate : float in [0, 1)
        The probability π with which a node or an edge is dropped.
    published : bool
        Do as published where that changes numbers.
    """

    rate: float = 0.1
    published: bool = False

    def __post_init__(self) -> None:
        if not (isinstance(self.rate, float | int) and 0 <= self.rate < 1):
            raise DataError(f"rate must be a probability in [0, 1), the share that is dropped, but is {self.rate!r}")
