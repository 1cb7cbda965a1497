"""`check_network_estimator`: ours keep the rules, and an estimator that breaks one is told which."""

import re

import numpy as np
import pytest

from rmixup.augment import RMixup
from rmixup.sklearn import NetworkClassifier, NetworkRegressor
from rmixup.testing import check_network_estimator
from rmixup.testing.estimators import RULES

QUICK = {
    "backbone": "mlp",
    "backbone_options": {"hidden": (8,)},
    "epochs": 3,
    "learning_rate": 1e-2,
    "device": "cpu",
    "random_state": 0,
}
LINEAR = {"backbone": "linear", "random_state": 0}


@pytest.mark.parametrize(
    "estimator",
    [
        NetworkClassifier(**QUICK),
        NetworkRegressor(**QUICK),
        NetworkClassifier(**QUICK | {"augment": RMixup(regularizer="shrink=0.05")}),
        NetworkRegressor("tangent", random_state=0),
    ],
    ids=["classifier", "regressor", "augmented", "baseline"],
)
def test_ours_keep_every_rule(estimator):
    check_network_estimator(estimator)


class Renaming(NetworkClassifier):
    """Changes a parameter in its constructor."""

    def __init__(self, backbone="linear", random_state=0):
        super().__init__(backbone.upper().lower() + "", random_state=random_state)
        self.random_state = random_state + 1


class Shifting(NetworkClassifier):
    """Predicts by the company that a network keeps."""

    def predict_proba(self, X):
        return super().predict_proba(X - X.mean(0) + np.eye(X.shape[1]))


class Forgiving(NetworkClassifier):
    """Takes NaN for zero."""

    def fit(self, X, y, sample_weight=None):
        X = np.nan_to_num(np.asarray(X, float), posinf=0)
        return super().fit((X + X.swapaxes(-1, -2)) / 2, y, sample_weight=sample_weight)


class Unweighted(NetworkClassifier):
    """Takes weights and forgets them."""

    def fit(self, X, y, sample_weight=None):
        return super().fit(X, y)


class Mistaken(NetworkClassifier):
    """Predicts the least probable class."""

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmin(1)]


class Greedy(NetworkClassifier):
    """Changes the networks handed in."""

    def predict_proba(self, X):
        result = super().predict_proba(X)
        X[0, 0, 1] = X[0, 1, 0] = 0.5
        return result


@pytest.mark.parametrize(
    ("cls", "rule"),
    [
        (Renaming, "parameters"),
        (Shifting, "predicting: a network's prediction depends on the others"),
        (Forgiving, "refusing: NaN in fit is not refused"),
        (Unweighted, "weights: sample_weight changes nothing"),
        (Mistaken, "labels: predict is not the most probable class"),
        (Greedy, "predicting: predicting changes the networks handed in"),
    ],
)
def test_what_breaks_a_rule_is_told(cls, rule, monkeypatch):
    name = rule.split(":")[0]
    monkeypatch.setattr("rmixup.testing.estimators.RULES", {name: RULES[name]})  # the others take their time
    with pytest.raises(AssertionError, match=re.escape(rule)):
        check_network_estimator(cls(**LINEAR))


def test_what_is_broken_on_purpose_is_excused_and_a_false_excuse_told(monkeypatch):
    monkeypatch.setattr("rmixup.testing.estimators.RULES", {"weights": RULES["weights"]})
    check_network_estimator(Unweighted(**LINEAR), {"weights": "has none"})
    with pytest.raises(AssertionError, match="weights: is expected to fail"):
        check_network_estimator(NetworkClassifier(**LINEAR), {"weights": "has none"})
    with pytest.raises(ValueError, match="the rules are weights"):
        check_network_estimator(NetworkClassifier(**LINEAR), {"weight": "has none"})
