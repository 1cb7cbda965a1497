"""What predictions say beyond one score, against scikit-learn and against counting by hand."""

import numpy as np
import pytest
from sklearn.calibration import calibration_curve
from sklearn.metrics import roc_auc_score

from rmixup.report.predictions import Predicted, by_site, calibration, read


def binary(p, truth, sites=None):
    outputs = np.stack([1 - np.asarray(p), p], 1)
    return Predicted(np.asarray(truth, float), outputs, ("a", "b"), None if sites is None else np.asarray(sites))


def test_named_classes_become_codes_in_the_order_of_the_columns():
    found = read({"subject": ["x", "y"], "truth": ["sick", "well"], "p_well": [0.1, 0.8], "p_sick": [0.9, 0.2]})
    assert found.classes == ("well", "sick")
    assert found.truth.tolist() == [1, 0]
    assert found.outputs.tolist() == [[0.1, 0.9], [0.8, 0.2]]


def test_of_several_numbers_the_first_is_read():
    found = read({"truth_0": [1.0, 2.0], "truth_1": [5.0, 6.0], "predicted_0": [1.5, 2.5], "predicted_1": [0.0, 0.0]})
    assert (found.truth.tolist(), found.outputs.tolist(), found.classes) == ([1, 2], [[1.5], [2.5]], ())


@pytest.mark.parametrize("columns", [{}, {"truth": [1]}, {"p": [0.5]}, {"truth": ["c"], "p_a": [1.0], "p_b": [0.0]}])
def test_what_cannot_be_understood_is_nothing(columns):
    assert read(columns) is None


def test_calibration_is_that_of_scikit_learn_over_all_splits():
    rng = np.random.default_rng(0)
    p = rng.uniform(size=400)
    truth = rng.uniform(size=400) < p**2
    found = calibration([binary(p[:150], truth[:150]), binary(p[150:], truth[150:])])
    happened, predicted = calibration_curve(truth, p, n_bins=10, strategy="quantile")
    np.testing.assert_allclose(found.predicted, predicted)
    np.testing.assert_allclose(found.happened, happened)
    assert found.error == pytest.approx(np.abs(happened - predicted).mean())
    assert ((found.low <= found.happened) & (found.happened <= found.high)).all()


def test_wilsons_interval_is_the_published_one():
    found = calibration([binary([0.2] * 10, [1, 1] + [0] * 8)], bins=1)
    assert (found.low[0], found.high[0]) == (pytest.approx(0.0567, abs=1e-4), pytest.approx(0.5098, abs=1e-4))


def test_of_many_classes_the_confidence_in_the_chosen_one_is_looked_at():
    outputs = np.array([[0.6, 0.3, 0.1], [0.2, 0.1, 0.7]])
    found = calibration([Predicted(np.array([0.0, 0.0]), outputs, ("a", "b", "c"), None)], bins=2)
    assert (found.predicted.tolist(), found.happened.tolist()) == ([0.6, 0.7], [1.0, 0.0])


def test_the_auroc_of_a_site_pairs_people_of_one_split_only():
    # The second model's scale is another one: pooled, its people would all rank above the first's.
    one = binary([0.1, 0.2, 0.3, 0.4], [0, 1, 0, 1], ["A", "A", "A", "B"])
    two = binary([0.7, 0.9, 0.8], [0, 1, 1], ["A", "A", "A"])
    found = by_site({"rmixup": [one, two]})
    assert (found.score, found.sites, found.counts.tolist()) == ("auroc", ["A", "B"], [6, 1])
    assert found.values["rmixup"][0] == pytest.approx((1 + 2) / 4)
    assert np.isnan(found.values["rmixup"][1])


def test_the_auroc_of_one_split_is_scikit_learns_with_ties():
    rng = np.random.default_rng(1)
    p, truth = rng.integers(0, 5, 60) / 5, rng.integers(0, 2, 60)
    found = by_site({"none": [binary(p, truth, ["A"] * 60)]})
    assert found.values["none"][0] == pytest.approx(roc_auc_score(truth, p))


def test_numbers_have_squared_errors_and_classes_accuracies():
    sites = np.array(["A", "B"])
    numbers = Predicted(np.array([1.0, 2.0]), np.array([[1.5], [4.0]]), (), sites)
    assert by_site({"none": [numbers]}).values["none"].tolist() == [0.25, 4.0]
    outputs = np.array([[0.6, 0.3, 0.1], [0.2, 0.1, 0.7]])
    classes = Predicted(np.array([0.0, 0.0]), outputs, ("a", "b", "c"), sites)
    found = by_site({"none": [classes]})
    assert (found.score, found.values["none"].tolist()) == ("accuracy", [1.0, 0.0])
    assert by_site({"none": [binary([0.5], [1])]}) is None
