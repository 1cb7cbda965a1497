"""How a run is trained: the settings that do not depend on the data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Literal, get_args

from rmixup.errors import DataError

Optimizer = Literal["adam", "adamw"]
Schedule = Literal["constant", "cosine"]
Precision = Literal["fp32", "tf32", "bf16"]


@dataclass(frozen=True)
class Protocol:
    """The paper's protocol by default.

    Parameters
    ----------
    epochs, batch_size : int
        The last batch of an epoch is smaller where the training set is no multiple; none is dropped.
    learning_rate, weight_decay : float
        A run may have its own (see `Run`). With "adam", weight decay is an L2 penalty, as in the paper; with "adamw"
        it is decoupled.
    schedule : {"constant", "cosine"}
        "cosine" falls from the learning rate to zero over all steps.
    select : str
        The validation score by which the best epoch is chosen, one of `SCORES`, or "loss"; "auto" is AUROC for two
        classes, macro recall for more, MSE for numbers.
    precision : {"fp32", "tf32", "bf16"}
        Lower precision only where it is asked for.
    watch_test : bool
        Whether the test loss is recorded each epoch. It never selects anything.

    >>> Protocol().learning_rate
    0.0001
    """

    epochs: int = 200
    batch_size: int = 16
    optimizer: Optimizer = "adam"
    learning_rate: float = 1e-4
    weight_decay: float = 1e-4
    schedule: Schedule = "constant"
    select: str = "auto"
    precision: Precision = "fp32"
    watch_test: bool = False

    def __post_init__(self) -> None:
        problems = [
            f"{name} must be a whole number of at least 1, but is {value!r}"
            for name in ("epochs", "batch_size")
            if not isinstance(value := getattr(self, name), int) or value < 1
        ]
        problems += [
            f"{name} must be a number of at least 0, but is {value!r}"
            for name in ("learning_rate", "weight_decay")
            if not (isinstance(value := getattr(self, name), Real) and 0 <= float(value) < math.inf)
        ]
        choices = {"optimizer": Optimizer, "schedule": Schedule, "precision": Precision}
        problems += [
            f"{name} must be one of {', '.join(get_args(choice))}, but is {getattr(self, name)!r}"
            for name, choice in choices.items()
            if getattr(self, name) not in get_args(choice)
        ]
        if problems:
            raise DataError("; ".join(problems))


def rate(schedule: Schedule, step: int, steps: int) -> float:
    """The share of the learning rate that step 0, 1, …, steps - 1 uses.

    >>> rate("constant", 5, 10), rate("cosine", 0, 10), rate("cosine", 5, 10)
    (1.0, 1.0, 0.5...)
    """
    return 1.0 if schedule == "constant" else 0.5 * (1 + math.cos(math.pi * step / steps))
