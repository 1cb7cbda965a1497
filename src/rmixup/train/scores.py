"""Scores of predictions, for a whole stack of runs at once and on its device, equal to scikit-learn's.

`SCORES` names them. A score takes predictions, targets and a mask with any leading shape of runs, and returns
one float64 number a run. Where a score has no value for a run (a class that no sample has, a target that never
varies) it is NaN, never a 0 or an error; `undefined` says why, in words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from rmixup.errors import DataError

_CALIBRATION_BINS = 15


def probabilities(logits: Tensor) -> Tensor:
    """Class probabilities in float64: (..., C) -> (..., C). In float32 confident predictions would tie at 1."""
    return logits.double().softmax(-1)


# ---- from predictions to counts -------------------------------------------------------------------------------


def _one_hot(p: Tensor, y: Tensor, mask: Tensor) -> Tensor:
    """Which class each sample has, (..., C, N); nothing where the mask is off."""
    hot = functional.one_hot(torch.where(mask, y, 0), p.shape[-1]).mT
    return hot.double() * mask[..., None, :]


def _mean(values: Tensor, mask: Tensor) -> Tensor:
    """Mean over the samples of the mask, NaN where there are none."""
    return torch.where(mask, values, 0).sum(-1) / mask.sum(-1)


def _of_classes(values: Tensor) -> Tensor:
    """One value a class (..., C) to one a run: of class 1 in a binary task, the mean over classes otherwise."""
    return values[..., 1] if values.shape[-1] == 2 else values.mean(-1)


def _confusion(p: Tensor, y: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Right predictions of each class, predictions of each class, samples of each class: each (..., C)."""
    true, predicted = _one_hot(p, y, mask), _one_hot(p, p.argmax(-1), mask)
    return (true * predicted).sum(-1), predicted.sum(-1), true.sum(-1)


def _recalls(p: Tensor, y: Tensor, mask: Tensor) -> Tensor:
    right, _, there = _confusion(p, y, mask)
    return right / there


# ---- classification: p (..., N, C) probabilities, y (..., N) class codes ---------------------------------------


def accuracy(p: Tensor, y: Tensor, mask: Tensor) -> Tensor:
    """Share of samples whose most probable class is theirs."""
    return _mean((p.argmax(-1) == y).double(), mask)


def balanced_accuracy(p: Tensor, y: Tensor, mask: Tensor) -> Tensor:
    """Mean over classes of the share of a class that is recognised."""
    return _recalls(p, y, mask).mean(-1)


def sensitivity(p: Tensor, y: Tensor, mask: Tensor) -> Tensor:
    """Share of class 1 that is recognised; over several classes the mean."""
    return _of_classes(_recalls(p, y, mask))


def specificity(p: Tensor, y: Tensor, mask: Tensor) -> Tensor:
    """Share of the samples outside class 1 that are predicted outside; over several classes the mean."""
    right, predicted, there = _confusion(p, y, mask)
    others = mask.sum(-1)[..., None] - there
    return _of_classes((others - (predicted - right)) / others)


def f1(p: Tensor, y: Tensor, mask: Tensor) -> Tensor:
    """Harmonic mean of precision and recall of class 1; over several classes the mean."""
    right, predicted, there = _confusion(p, y, mask)
    return _of_classes(torch.where(there > 0, 2 * right / (predicted + there), torch.nan))


def macro_precision(p: Tensor, y: Tensor, mask: Tensor) -> Tensor:
    """Mean over classes of the share of a class's predictions that are right; 0 for a class never predicted."""
    right, predicted, there = _confusion(p, y, mask)
    return torch.where(there > 0, right / predicted.clamp(min=1), torch.nan).mean(-1)


def _above(values: Tensor, thresholds: Tensor, side: str) -> Tensor:
    """How many values are > (side="right") or >= (side="left") each threshold; absent values are -inf."""
    ordered = values.sort(-1).values.contiguous()
    return values.shape[-1] - torch.searchsorted(ordered, thresholds.contiguous(), side=side).double()


def auroc(p: Tensor, y: Tensor, mask: Tensor) -> Tensor:
    """Area under the ROC curve, ties counted half; over several classes the mean of one against the rest."""
    true, scores = _one_hot(p, y, mask), p.mT.contiguous()
    negative = mask[..., None, :].double() - true
    negatives = torch.where(negative > 0, scores, -torch.inf)
    beaten = (
        negative.sum(-1, keepdim=True) - (_above(negatives, scores, "right") + _above(negatives, scores, "left")) / 2
    )
    return _of_classes((beaten * true).sum(-1) / (true.sum(-1) * negative.sum(-1)))


def average_precision(p: Tensor, y: Tensor, mask: Tensor) -> Tensor:
    """Mean over the samples of a class of the precision at their threshold; over several classes the mean."""
    true, scores = _one_hot(p, y, mask), p.mT.contiguous()
    hits = _above(torch.where(true > 0, scores, -torch.inf), scores, "left")
    all_above = _above(torch.where(mask[..., None, :], scores, -torch.inf), scores, "left")
    return _of_classes((true * hits / all_above.clamp(min=1)).sum(-1) / true.sum(-1))


def brier(p: Tensor, y: Tensor, mask: Tensor) -> Tensor:
    """Squared error of the probabilities: of class 1 in a binary task, summed over classes otherwise."""
    squares = (p - _one_hot(p, y, mask).mT).square().sum(-1)
    return _mean(squares / 2 if p.shape[-1] == 2 else squares, mask)


def log_loss(p: Tensor, y: Tensor, mask: Tensor) -> Tensor:
    """Minus the log of the probability of each sample's class, the probability clipped at the dtype's eps."""
    own = p.gather(-1, torch.where(mask, y, 0)[..., None])[..., 0]
    return _mean(-own.clamp(min=torch.finfo(p.dtype).eps).log(), mask)


def calibration_error(p: Tensor, y: Tensor, mask: Tensor) -> Tensor:
    """Expected calibration error: |confidence - accuracy| over 15 equal bins of confidence, weighted by their size."""
    confidence, predicted = p.max(-1)
    gap = torch.where(mask, (predicted == y).double() - confidence, 0)
    bins = (confidence * _CALIBRATION_BINS).ceil().long().clamp(1, _CALIBRATION_BINS) - 1
    sums = torch.zeros(*gap.shape[:-1], _CALIBRATION_BINS, dtype=p.dtype, device=p.device).scatter_add_(-1, bins, gap)
    return sums.abs().sum(-1) / mask.sum(-1)


# ---- regression: p and y (..., N, k); over several targets the mean -------------------------------------------


def _centred(values: Tensor, mask: Tensor) -> Tensor:
    """(..., N, k) -> (..., k, N), each target's mean removed and 0 where the mask is off."""
    values, there = values.mT, mask[..., None, :]
    return torch.where(there, values - _mean(values, there)[..., None], 0)


def _spread(centred: Tensor, values: Tensor) -> Tensor:
    """Sum of squares (..., k); 0 where it is the rounding error of a constant."""
    squares = centred.square().sum(-1)
    rounding = (values.mT.abs().amax(-1) * torch.finfo(values.dtype).eps * 10).square() * values.shape[-2]
    return torch.where(squares > rounding, squares, 0)


def mse(p: Tensor, y: Tensor, mask: Tensor) -> Tensor:
    """Mean squared error."""
    return _mean((p - y).square().mean(-1), mask)


def mae(p: Tensor, y: Tensor, mask: Tensor) -> Tensor:
    """Mean absolute error."""
    return _mean((p - y).abs().mean(-1), mask)


def pearson(p: Tensor, y: Tensor, mask: Tensor) -> Tensor:
    """Correlation of predictions and targets."""
    a, b = _centred(p, mask), _centred(y, mask)
    return ((a * b).sum(-1) / (_spread(a, p) * _spread(b, y)).sqrt()).clamp(-1, 1).mean(-1)


def r2(p: Tensor, y: Tensor, mask: Tensor) -> Tensor:
    """Share of the targets' variance that is explained; negative where the targets' mean would do better."""
    error = torch.where(mask[..., None, :], (p - y).mT, 0).square().sum(-1)
    spread = _spread(_centred(y, mask), y)
    return torch.where(spread > 0, 1 - error / spread, torch.nan).mean(-1)


# ---- the list and its one door --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Score:
    """A score: its function, the task it is for, whether more is better, and what it cannot do without.

    `needs` says, for people, what the samples must hold for the score to have a value.
    """

    function: Callable[[Tensor, Tensor, Tensor], Tensor]
    task: str
    greater_is_better: bool
    needs: str


SCORES: dict[str, Score] = {
    "auroc": Score(auroc, "classification", True, "every class"),
    "accuracy": Score(accuracy, "classification", True, "samples"),
    "balanced_accuracy": Score(balanced_accuracy, "classification", True, "every class"),
    "f1": Score(f1, "classification", True, "class 1"),
    "sensitivity": Score(sensitivity, "classification", True, "class 1"),
    "specificity": Score(specificity, "classification", True, "class 0"),
    "average_precision": Score(average_precision, "classification", True, "class 1"),
    "brier": Score(brier, "classification", False, "samples"),
    "log_loss": Score(log_loss, "classification", False, "samples"),
    "calibration_error": Score(calibration_error, "classification", False, "samples"),
    "macro_precision": Score(macro_precision, "classification", True, "every class"),
    "macro_recall": Score(balanced_accuracy, "classification", True, "every class"),
    "mse": Score(mse, "regression", False, "samples"),
    "mae": Score(mae, "regression", False, "samples"),
    "r": Score(pearson, "regression", True, "varying targets and predictions"),
    "r2": Score(r2, "regression", True, "varying targets"),
}


def score(
    predictions: Tensor, targets: Tensor, mask: Tensor | None = None, names: Iterable[str] | None = None
) -> dict[str, Tensor]:
    """Compute scores of any number of runs, without leaving the device.

    Parameters
    ----------
    predictions : (..., N, C) class probabilities, or (..., N, k) numbers in original units
    targets : (..., N) integer class codes, or (..., N, k) floating targets
        Their dtype says which task it is.
    mask : (..., N) bool, optional
        Which samples are there: test sets of a stack may differ in size.
    names : of `SCORES`, optional
        All of the task by default.

    Returns
    -------
    dict of name -> (...) float64, NaN where undefined or where a prediction is not finite.

    Examples
    --------
    >>> import torch
    >>> p = torch.tensor([[0.9, 0.1], [0.4, 0.6], [0.3, 0.7]])
    >>> score(p, torch.tensor([0, 1, 0]), names=["accuracy", "auroc"])
    {'accuracy': tensor(0.6667, dtype=torch.float64), 'auroc': tensor(0.5000, dtype=torch.float64)}
    """
    p, y, mask = _entered(predictions, targets, mask)
    finite = (p.isfinite().all(-1) | ~mask).all(-1)
    safe = torch.where(p.isfinite(), p, 0)
    return {name: torch.where(finite, SCORES[name].function(safe, y, mask), torch.nan) for name in _chosen(names, y)}


def undefined(
    predictions: Tensor, targets: Tensor, mask: Tensor | None = None, names: Iterable[str] | None = None
) -> dict[str, list[str | None]]:
    """Say why scores are NaN: name -> one reason a run (in the order of the flattened runs), None where defined.

    Only names that are undefined in some run are listed. Waits for the device, so not for every epoch.

    >>> import torch
    >>> undefined(torch.tensor([[0.9, 0.1], [0.4, 0.6]]), torch.tensor([0, 0]), names=["accuracy", "auroc"])
    {'auroc': ['no sample of class 1']}
    """
    p, y, mask = _entered(predictions, targets, mask)
    values = score(p, y, mask, names)
    leading = p.ndim - 2
    runs = list(zip(*(part[None].flatten(0, leading) for part in (p, y, mask)), strict=True))
    reasons = {}
    for name, value in values.items():
        missing = value.reshape(-1).isnan().tolist()
        if any(missing):
            reasons[name] = [
                _reason(SCORES[name], *run) if gone else None for gone, run in zip(missing, runs, strict=True)
            ]
    return reasons


def _entered(predictions: Tensor, targets: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Predictions and floating targets in float64, and a mask that is always there."""
    classes = not targets.is_floating_point()
    expected = predictions.shape[:-1] if classes else predictions.shape
    if targets.shape != expected:
        raise DataError(f"expected targets of shape {tuple(expected)}, got {tuple(targets.shape)}")
    if mask is None:
        mask = torch.ones(predictions.shape[:-1], dtype=torch.bool, device=predictions.device)
    return predictions.double(), targets.long() if classes else targets.double(), mask


def _chosen(names: Iterable[str] | None, y: Tensor) -> list[str]:
    task = "regression" if y.is_floating_point() else "classification"
    known = [name for name, one in SCORES.items() if one.task == task]
    chosen = known if names is None else list(names)
    unknown = [name for name in chosen if name not in known]
    if unknown:
        raise DataError(f"expected scores of a {task} among {', '.join(known)}, got {', '.join(unknown)}")
    return chosen


def _reason(one: Score, p: Tensor, y: Tensor, mask: Tensor) -> str:
    """Why a score of one run has no value."""
    p, y = p[mask], y[mask]
    if not len(y):
        return "no samples"
    if not p.isfinite().all():
        return "predictions are not finite"
    if one.task == "regression":
        return "targets do not vary" if _constant(y) else "predictions do not vary"
    absent = [str(c) for c in range(p.shape[-1]) if not (y == c).any()]
    return f"no sample of class {', '.join(absent)}"


def _constant(y: Tensor) -> bool:
    return bool((_spread(_centred(y, torch.ones_like(y[:, 0], dtype=torch.bool)), y) == 0).any())
