"""Losses equal torch's and scikit-learn's, one a run, with weights."""

import numpy as np
import pytest
import torch
from sklearn.metrics import mean_squared_error
from sklearn.preprocessing import StandardScaler
from torch.nn import functional

from rmixup.train.losses import LOSSES, Scaler, soft_cross_entropy, squared_error, weighted_mean

RNG = np.random.default_rng(0)


def tensor(*shape: int) -> torch.Tensor:
    return torch.from_numpy(RNG.standard_normal(shape))


def test_soft_cross_entropy_is_torchs() -> None:
    logits, targets = tensor(3, 8, 4), tensor(3, 8, 4).softmax(-1)
    expected = torch.stack([functional.cross_entropy(a, b) for a, b in zip(logits, targets, strict=True)])
    torch.testing.assert_close(soft_cross_entropy(logits, targets), expected)


def test_squared_error_is_scikit_learns_with_weights() -> None:
    a, b, w = tensor(2, 8, 3), tensor(2, 8, 3), tensor(2, 8).abs()
    expected = [mean_squared_error(b[r], a[r], sample_weight=w[r]) for r in range(2)]
    np.testing.assert_allclose(squared_error(a, b, w), expected, rtol=1e-12)


@pytest.mark.parametrize("loss", LOSSES.values())
def test_samples_of_weight_zero_count_as_absent(loss) -> None:  # type: ignore[no-untyped-def]
    outputs, targets = tensor(6, 2), tensor(6, 2).softmax(-1)
    weights = torch.tensor([1.0, 1, 1, 1, 0, 0], dtype=torch.float64)
    torch.testing.assert_close(loss(outputs, targets, weights), loss(outputs[:4], targets[:4], None))


def test_no_weight_at_all_gives_zero_and_a_finite_gradient() -> None:
    values = torch.ones(3, requires_grad=True)
    weighted_mean(values, torch.zeros(3)).backward()
    assert values.grad is not None
    assert values.grad.tolist() == [0.0] * 3


def test_the_scaler_is_scikit_learns_for_each_run() -> None:
    y = tensor(3, 20, 2) * 5 + 100
    scaler = Scaler.fit(y)
    expected = np.stack([StandardScaler().fit_transform(one) for one in y.numpy()])
    np.testing.assert_allclose(scaler.standardise(y), expected, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(scaler.restore(scaler.standardise(y)), y)


def test_the_scaler_sees_only_what_the_mask_shows() -> None:
    y, mask = tensor(2, 10, 1), torch.arange(10) < torch.tensor([[7], [10]])
    short = Scaler.fit(y[0, :7])
    masked = Scaler.fit(y, mask)
    torch.testing.assert_close(masked.mean[0], short.mean)
    torch.testing.assert_close(masked.scale[0], short.scale)


@pytest.mark.parametrize("value", [0.0, 0.1, 1e6 + 0.1])
def test_a_target_that_never_varies_is_only_centred(value: float) -> None:
    y = torch.full((7, 1), value)
    scaler = Scaler.fit(y)
    assert scaler.scale.item() == 1
    torch.testing.assert_close(scaler.restore(scaler.standardise(y)), y)
