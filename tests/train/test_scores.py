"""Scores equal scikit-learn's and torchmetrics', for stacks with masks and ties; what has no value says why."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import pearsonr
from sklearn import metrics
from torchmetrics.functional.classification import multiclass_calibration_error

from rmixup.errors import DataError
from rmixup.train.scores import SCORES, probabilities, score, undefined

Array = npt.NDArray[Any]


def one_against_rest(function: Callable[..., float], p: Array, y: Array) -> float:
    """Class 1 of a binary task; over several classes the mean of each against the rest."""
    classes = [1] if p.shape[1] == 2 else range(p.shape[1])
    return float(np.mean([function(y == c, p[:, c]) for c in classes]))


def labelled(function: Callable[..., float], **options: Any) -> Callable[[Array, Array], float]:
    def peer(p: Array, y: Array) -> float:
        average = "binary" if p.shape[1] == 2 else "macro"
        return function(y, p.argmax(1), **{"average": average, "zero_division": 0, **options})

    return peer


def specificity(p: Array, y: Array) -> float:
    tables = metrics.multilabel_confusion_matrix(y, p.argmax(1), labels=range(p.shape[1]))
    values = [table[0, 0] / table[0].sum() for table in tables]
    return float(values[1] if len(values) == 2 else np.mean(values))


def calibration(p: Array, y: Array) -> float:
    found = multiclass_calibration_error(torch.from_numpy(p), torch.from_numpy(y), p.shape[1], n_bins=15)
    return float(found)


CLASSIFICATION: dict[str, Callable[[Array, Array], float]] = {
    "auroc": lambda p, y: one_against_rest(metrics.roc_auc_score, p, y),
    "average_precision": lambda p, y: one_against_rest(metrics.average_precision_score, p, y),
    "accuracy": lambda p, y: metrics.accuracy_score(y, p.argmax(1)),
    "balanced_accuracy": lambda p, y: metrics.balanced_accuracy_score(y, p.argmax(1)),
    "f1": labelled(metrics.f1_score),
    "sensitivity": labelled(metrics.recall_score),
    "specificity": specificity,
    "brier": lambda p, y: metrics.brier_score_loss(y, p[:, 1] if p.shape[1] == 2 else p, labels=range(p.shape[1])),
    "log_loss": lambda p, y: metrics.log_loss(y, p, labels=range(p.shape[1])),
    "calibration_error": calibration,
    "macro_precision": labelled(metrics.precision_score, average="macro"),
    "macro_recall": labelled(metrics.recall_score, average="macro"),
}
REGRESSION: dict[str, Callable[[Array, Array], float]] = {
    "mse": lambda p, y: metrics.mean_squared_error(y, p),
    "mae": lambda p, y: metrics.mean_absolute_error(y, p),
    "r": lambda p, y: float(np.mean([pearsonr(p[:, k], y[:, k]).statistic for k in range(y.shape[1])])),
    "r2": lambda p, y: metrics.r2_score(y, p),
}


def stack(classes: int, tied: bool, seed: int = 0) -> tuple[Array, Array, Array]:
    """Probabilities, codes and mask of 3 runs whose test sets differ in size; every class in each."""
    rng = np.random.default_rng(seed)
    logits = rng.standard_normal((3, 60, classes))
    p = np.exp(np.round(logits) if tied else logits)
    y = np.concatenate([np.tile(np.arange(classes), (3, 2)), rng.integers(classes, size=(3, 60 - 2 * classes))], 1)
    return p / p.sum(-1, keepdims=True), y, np.arange(60) < np.array([[60], [31], [45]])


def test_every_score_has_a_peer() -> None:
    assert set(SCORES) == {*CLASSIFICATION, *REGRESSION}


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("name", CLASSIFICATION)
def test_classification_scores_equal_their_peers(name: str, classes: int, tied: bool) -> None:
    p, y, mask = stack(classes, tied)
    got = score(torch.from_numpy(p), torch.from_numpy(y), torch.from_numpy(mask), [name])[name]
    expected = [CLASSIFICATION[name](p[r, mask[r]], y[r, mask[r]]) for r in range(3)]
    # torchmetrics bins in single precision
    np.testing.assert_allclose(got, expected, rtol=1e-6 if name == "calibration_error" else 1e-10, atol=1e-8)


@pytest.mark.parametrize("targets", [1, 3])
@pytest.mark.parametrize("name", REGRESSION)
def test_regression_scores_equal_their_peers(name: str, targets: int) -> None:
    rng = np.random.default_rng(1)
    y = rng.standard_normal((3, 40, targets)) * 10 + 50
    p = y + rng.standard_normal(y.shape) * 5
    mask = np.arange(40) < np.array([[40], [20], [30]])
    got = score(torch.from_numpy(p), torch.from_numpy(y), torch.from_numpy(mask), [name])[name]
    np.testing.assert_allclose(got, [REGRESSION[name](p[r, mask[r]], y[r, mask[r]]) for r in range(3)], rtol=1e-10)


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=2, max_size=40))
def test_auroc_and_average_precision_with_any_ties(samples: list[tuple[int, bool]]) -> None:
    ranks, y = (np.array(values) for values in zip(*samples, strict=True))
    p = np.stack([1 - ranks / 4, ranks / 4], 1)
    got = score(torch.from_numpy(p), torch.from_numpy(y.astype(int)), names=["auroc", "average_precision"])
    if 0 < y.sum() < len(y):
        assert got["auroc"].item() == pytest.approx(metrics.roc_auc_score(y, ranks), abs=1e-12)
        assert got["average_precision"].item() == pytest.approx(metrics.average_precision_score(y, ranks), abs=1e-12)
    else:
        assert got["auroc"].isnan()


@pytest.mark.parametrize("name", SCORES)
def test_what_the_mask_hides_does_not_matter(name: str) -> None:
    p, y, mask = (torch.from_numpy(part) for part in stack(2, False))
    if SCORES[name].task == "regression":
        y = p.flip(-1) * 3
    expected = score(p, y, mask, [name])[name]
    hidden = ~mask[..., None]
    y = torch.where(hidden if y.ndim == 3 else ~mask, -7, y)
    assert torch.equal(score(p.masked_fill(hidden, torch.nan), y, mask, [name])[name], expected)


@pytest.mark.parametrize("name", SCORES)
def test_greater_is_better_is_told_right(name: str) -> None:
    if SCORES[name].task == "regression":
        y = torch.arange(12.0).view(6, 2)
        good, bad = y + 0.1 * y.sin(), -y
    else:
        y = torch.tensor([0, 1, 0, 1, 0, 1])
        good = torch.eye(2)[y] * 0.98 + 0.01
        bad = 1 - good
    better = score(good, y, names=[name])[name] > score(bad, y, names=[name])[name]
    assert bool(better) == SCORES[name].greater_is_better


# A constant whose mean, and so whose deviations, are off by a rounding.
ROUNDED = torch.full((10, 1), 0.1, dtype=torch.float64)


def test_a_run_without_a_class_is_undefined_by_name_and_the_others_are_not() -> None:
    p = torch.full((2, 4, 2), 0.5)
    y = torch.tensor([[0, 0, 0, 0], [0, 1, 0, 1]])
    values, reasons = score(p, y), undefined(p, y)
    needs_class_1 = {"auroc", "balanced_accuracy", "f1", "sensitivity", "average_precision", "macro_precision"}
    assert set(reasons) == {*needs_class_1, "macro_recall"}
    assert all(reason == ["no sample of class 1", None] for reason in reasons.values())
    assert all(values[name].isnan().tolist() == [name in reasons, False] for name in values)


@pytest.mark.parametrize(
    ("p", "y", "names", "reason"),
    [
        (torch.zeros(0, 2), torch.zeros(0, dtype=torch.int64), ["accuracy"], "no samples"),
        (torch.tensor([[torch.nan, 1]]), torch.tensor([1]), ["log_loss"], "predictions are not finite"),
        (torch.rand(10, 1), ROUNDED, ["r", "r2"], "targets do not vary"),
        (ROUNDED, torch.rand(10, 1), ["r"], "predictions do not vary"),
        (torch.rand(6, 3), torch.tensor([0, 0, 0, 0, 0, 0]), ["auroc"], "no sample of class 1, 2"),
        (torch.rand(3, 2), torch.tensor([1, 1, 1]), ["specificity"], "no sample of class 0"),
    ],
)
def test_reasons(p: torch.Tensor, y: torch.Tensor, names: list[str], reason: str) -> None:
    assert undefined(p, y, names=names) == {name: [reason] for name in names}


def test_probabilities_of_sure_predictions_do_not_tie() -> None:
    logits = torch.tensor([[0.0, 20.0], [0.0, 25.0]])
    p = probabilities(logits)
    assert p[0, 1] < p[1, 1] < 1
    torch.testing.assert_close(p.log().diff(dim=1), logits.double().diff(dim=1))


def test_wrong_names_and_shapes_are_refused() -> None:
    p = torch.rand(4, 2)
    with pytest.raises(DataError, match=r"scores of a classification among auroc, .*, got mse, nothing"):
        score(p, torch.tensor([0, 1, 0, 1]), names=["mse", "nothing"])
    with pytest.raises(DataError, match=r"targets of shape \(4,\), got \(3,\)"):
        score(p, torch.tensor([0, 1, 0]))


@pytest.mark.gpu
@pytest.mark.parametrize("classes", [2, 5])
def test_the_gpu_gives_the_same_scores(classes: int) -> None:
    parts = [torch.from_numpy(part) for part in stack(classes, True)]
    for name, value in score(*(part.cuda() for part in parts)).items():
        torch.testing.assert_close(value.cpu(), score(*parts, names=[name])[name])
