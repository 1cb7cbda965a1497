"""Slopes against finite differences, attributions against the output that they must add up to."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from rmixup.errors import DataError
from rmixup.explain.attribution import attribute, method_of
from rmixup.explain.maps import pack, square
from rmixup.train.protocol import Protocol

sys.path.insert(0, str(Path(__file__).parent))

from planted_cohorts import GCN, MLP, PLANTED, fitted, with_edges


def log_odds(predictor, x):
    """(N,) from the probabilities that the model gives, not from what the explanation computes."""
    p = predictor.model.predict(torch.tensor(np.array(x)))
    return np.log(p[:, 1]) - np.log(p[:, 0])


def differences(predictor, at, size=1e-5):
    """(p,) the slope of the log odds with each edge, by central differences."""
    n = len(at)
    step = size * square(np.eye(n * (n + 1) // 2), n)
    return (log_odds(predictor, at + step) - log_odds(predictor, at - step)) / (2 * size)


def test_slopes_of_a_linear_model_are_its_weights(linear, cohort):
    x = np.array(cohort.matrices)
    found = attribute(linear.model, x, x.mean(0))
    off = ~np.eye(len(x[0]), dtype=bool)[np.triu_indices(len(x[0]))]
    slopes, scale = (linear.model.state[name].numpy() for name in ("slopes", "_scale"))
    weights = (slopes[:, 1] - slopes[:, 0]) / scale
    np.testing.assert_allclose(found.slopes[0, off], weights, rtol=1e-12)
    assert not found.slopes[0, ~off].any()
    np.testing.assert_allclose(found.slopes[0], differences(linear, x[0]), atol=1e-6 * np.abs(weights).max())


def test_integrated_gradients_of_a_linear_model_are_its_weights(linear, cohort):
    x = np.array(cohort.matrices[:10])
    by_weights = attribute(linear.model, x, x.mean(0))
    by_paths = attribute(linear.model, x, x.mean(0), "integrated-gradients")
    np.testing.assert_allclose(by_paths.slopes, by_weights.slopes, atol=1e-10)
    np.testing.assert_allclose(by_paths.absolute, by_weights.absolute, atol=1e-10)


def test_weights_of_tangent_are_its_slopes_at_the_reference(cohort):
    predictor = fitted(cohort, "tangent")
    whitening = predictor.model.state["_whitening"].numpy()
    reference = np.linalg.inv(whitening @ whitening)
    x = np.array(cohort.matrices)
    slopes = attribute(predictor.model, x, x.mean(0), "weights").slopes[0]
    expected = differences(predictor, reference)
    np.testing.assert_allclose(slopes, expected, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("backbone", "options"), [MLP, GCN, ("transformer", {}), ("tangent", {})], ids=lambda v: v if type(v) is str else ""
)
def test_attributions_of_each_person_add_up(cohort, backbone, options):
    predictor = fitted(cohort, backbone, options, Protocol(epochs=2, learning_rate=1e-2))
    x, start = np.array(cohort.matrices), np.array(cohort.matrices).mean(0)
    for person in x[:2]:
        found = attribute(predictor.model, person[None], start, "integrated-gradients")
        total = found.slopes[0] @ (pack(person) - pack(start))
        gained = log_odds(predictor, person[None]) - log_odds(predictor, start[None])
        assert total == pytest.approx(gained[0], rel=0.03, abs=1e-3)
    together = attribute(predictor.model, x[:30], start, "integrated-gradients")
    assert together.residual < 0.03
    assert np.abs(together.slopes).max() > 0


def test_attributions_of_numbers_add_up_in_their_units():
    ds = with_edges({(0, 7): 0.1}, task="regression")
    predictor = fitted(ds, *MLP)
    x, start = np.array(ds.matrices[:5]), np.array(ds.matrices).mean(0)
    found = attribute(predictor.model, x, start)
    raw = [predictor.model.predict(torch.tensor(one)) for one in (x, start[None])]
    total = (pack(x) - pack(start)) @ found.slopes.T
    assert found.residual < 0.03
    # The mean slope times each person's way is not each person's attribution, but its mean is right to first order.
    assert np.corrcoef(total[:, 0], (raw[0] - raw[1])[:, 0])[0, 1] > 0.9
    np.testing.assert_allclose(found.outputs, raw[0], rtol=1e-5)


def test_classes_are_explained_against_their_mean():
    ds = with_edges({edge: size / 2 for edge, size in PLANTED.items()}, n_classes=3)
    x = np.array(ds.matrices)
    found = attribute(fitted(ds).model, x, x.mean(0))
    assert found.slopes.shape == (3, 105)
    np.testing.assert_allclose(found.slopes.sum(0), 0, atol=1e-12)
    np.testing.assert_allclose(found.outputs.sum(1), 0, atol=1e-12)
    assert found.residual < 1e-9


def test_a_method_that_does_not_fit_is_refused(mlp, linear):
    assert (method_of(mlp.model), method_of(linear.model)) == ("integrated-gradients", "weights")
    with pytest.raises(DataError, match="'mlp' is not linear: take method 'integrated-gradients'"):
        method_of(mlp.model, "weights")
    with pytest.raises(DataError, match="method must be one of auto, weights, pattern, integrated-gradients"):
        method_of(linear.model, "saliency")


def test_reports_can_use_the_result_without_torch():
    code = "import sys, rmixup.report.explanation, rmixup.explain.files; sys.exit('torch' in sys.modules)"
    import subprocess

    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
