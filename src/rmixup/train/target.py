"""Labels as a stack of runs learns them: losses, units, and the score by which an epoch is selected.

Numbers are standardised by each run's training set, and reported in their own units again. May not be here: models.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional

from rmixup.augment.labels import Labels
from rmixup.augment.plan import Integers
from rmixup.errors import DataError
from rmixup.train.losses import LOSSES, Scaler
from rmixup.train.rows import Rows, gather_rows
from rmixup.train.scores import SCORES, probabilities, score

# Rates the outputs (R, V, k) of one epoch, given their loss (R,): its score, and that with "more is better".
Selector = Callable[[Tensor, Rows, Tensor], tuple[Tensor, Tensor]]


def selection_score(select: str, labels: Labels) -> str:
    """The score that selects an epoch: its name, with "auto" decided by the task.

    >>> import numpy as np
    >>> selection_score("auto", Labels(np.array([0, 1]), None, 2))
    'auroc'
    """
    if select == "auto":
        if labels.codes is None:
            return "mse"
        return "auroc" if labels.n_classes == 2 else "macro_recall"
    known = ["loss", *(name for name, one in SCORES.items() if one.task == labels.task)]
    if select not in known:
        near = difflib.get_close_matches(select, known, n=1)
        raise DataError(
            f"select must be 'auto' or a score of a {labels.task} ({', '.join(known)}), but is {select!r}"
            + (f"; did you mean {near[0]!r}?" if near else "")
        )
    return select


class Target:
    """The labels of a stack's runs."""

    def __init__(self, labels: Labels, training: Sequence[Integers], device: torch.device, dtype: torch.dtype) -> None:
        self._labels = labels
        self._loss = LOSSES[labels.task]
        self.outputs = labels.n_classes if labels.numbers is None else labels.numbers.shape[1]
        self._scaler: Scaler | None = None
        if labels.numbers is not None:
            rows = gather_rows(labels, training, device, torch.float64)
            fitted = Scaler.fit(rows.labels, rows.mask)
            self._scaler = Scaler(fitted.mean.to(dtype), fitted.scale.to(dtype))

    def loss(self, outputs: Tensor, y: Tensor, weights: Tensor | None) -> Tensor:
        """The training loss (R,) of outputs (R, B, k) against soft labels or targets in their own units."""
        return self._loss(outputs, y if self._scaler is None else self._scaler.standardise(y), weights)

    def evaluate(self, outputs: Tensor, rows: Rows) -> Tensor:
        """The same loss (R,) against the true labels of rows; NaN for runs that have none."""
        y = rows.labels
        if self._scaler is None:
            y = functional.one_hot(y, self.outputs).to(outputs.dtype)
        loss = self.loss(outputs, y, rows.mask.to(outputs.dtype))
        # A loss of 0 would be taken for the best there is.
        return torch.where(rows.mask.any(-1), loss, torch.nan)

    def decode(self, outputs: Tensor) -> Tensor:
        """Class probabilities, or numbers in their own units, in float64."""
        return probabilities(outputs) if self._scaler is None else self._scaler.restore(outputs).double()

    def selection(self, select: str, rows: Rows) -> tuple[list[str], Selector]:
        """By what each run is selected, and the function that rates an epoch.

        Where a run's validation set leaves the score undefined (a class is missing), its loss selects instead.
        """
        name = selection_score(select, self._labels)
        if name == "loss":
            return ["loss"] * len(rows.counts), lambda outputs, rows, loss: (loss, -loss)
        sign = 1.0 if SCORES[name].greater_is_better else -1.0
        defined = self._defined(name, rows)

        def rate(outputs: Tensor, rows: Rows, loss: Tensor) -> tuple[Tensor, Tensor]:
            value = score(self.decode(outputs), rows.labels, rows.mask, [name])[name].to(loss.dtype)
            return torch.where(defined, value, loss), torch.where(defined, sign * value, -loss)

        return [name if one else "loss" for one in defined.tolist()], rate

    def _defined(self, name: str, rows: Rows) -> Tensor:
        """Whether a score has a value on these labels (R,), tried on made-up outputs that differ."""
        if not rows.width:
            return torch.zeros(len(rows.counts), dtype=torch.bool, device=rows.mask.device)
        # Squares differ from row to row also after a softmax over evenly spaced logits.
        trial = torch.linspace(0, 1, rows.mask.numel() * self.outputs, device=rows.mask.device).square()
        trial = trial.view(*rows.mask.shape, self.outputs)
        return score(self.decode(trial), rows.labels, rows.mask, [name])[name].isfinite()
