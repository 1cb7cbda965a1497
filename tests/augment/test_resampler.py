"""The imbalanced-learn door."""

import numpy as np
import pytest
from imblearn.pipeline import Pipeline
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import cross_val_score
from sklearn.preprocessing import FunctionTransformer

import rmixup
from rmixup import DataError
from rmixup.augment import METHODS, RMixup
from rmixup.sklearn import MixupResampler


def flatten(x: np.ndarray) -> np.ndarray:
    return x.reshape(len(x), -1)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("task", ["classes", "numbers"])
def test_networks_and_labels_are_added(x: np.ndarray, name: str, task: str) -> None:
    y = np.array(["a", "b"] * 10) if task == "classes" else np.linspace(0, 1, 20)
    sampler = rmixup.MixupResampler(name, n_new=50, random_state=0)
    made, labels = sampler.fit_resample(x, y)
    assert np.array_equal(made[:20], x)
    assert np.array_equal(labels[:20], y)
    assert made.shape == (70, 7, 7)
    assert labels.dtype == y.dtype
    again = clone(sampler).fit_resample(x, y)
    assert np.array_equal(made, again[0])
    assert np.array_equal(labels, again[1])
    other = clone(sampler).set_params(random_state=1).fit_resample(x, y)[0]
    assert not np.array_equal(made, other)
    counts = np.bincount(sampler.plan_.i, minlength=20)
    assert set(counts) == {2, 3}


def test_each_made_network_is_the_geodesic_of_its_plan(x: np.ndarray, codes: np.ndarray) -> None:
    sampler = MixupResampler("rmixup", n_new=300, random_state=0)
    made, labels = sampler.fit_resample(x, codes)
    plan = sampler.plan_
    assert len(set(plan.lam)) == 300
    np.testing.assert_allclose(made[20:], rmixup.spd.geodesic(x[plan.i], x[plan.j], plan.lam), atol=1e-9)
    assert np.array_equal(labels[20:], codes[np.where(plan.lam > 0.5, plan.j, plan.i)])
    assert (sampler.sample_weight_ == 1).all()


def test_soft_labels_are_probabilities(x: np.ndarray) -> None:
    y = np.array(["c", "a", "b", "a"] * 5)
    sampler = MixupResampler("vmixup", n_new=30, random_state=0, labels="soft")
    made, labels = sampler.fit_resample(x, y)
    assert labels.shape == (50, 3)
    assert sampler.classes_.tolist() == ["a", "b", "c"]
    assert labels[:4].tolist() == [[0, 0, 1], [1, 0, 0], [0, 1, 0], [1, 0, 0]]
    np.testing.assert_allclose(labels.sum(1), 1)
    hard = MixupResampler("vmixup", n_new=30, random_state=0).fit_resample(x, y)
    assert np.array_equal(hard[0], made)
    clear = labels[20:].max(1) > 0.5 + 1e-9
    assert np.array_equal(sampler.classes_[labels[20:].argmax(1)][clear], hard[1][20:][clear])


def test_weights_repeat_each_made_network_for_both_parents(x: np.ndarray, codes: np.ndarray) -> None:
    sampler = MixupResampler("vmixup", n_new=30, random_state=0, labels="weights")
    made, labels = sampler.fit_resample(x, codes)
    assert made.shape == (80, 7, 7)
    assert np.array_equal(made[20:50], made[50:])
    np.testing.assert_allclose(sampler.sample_weight_[20:50] + sampler.sample_weight_[50:], 1)
    soft = MixupResampler("vmixup", n_new=30, random_state=0, labels="soft").fit_resample(x, codes)[1][20:]
    weight, one = sampler.sample_weight_, labels == 1
    np.testing.assert_allclose(weight[20:50] * one[20:50] + weight[50:] * one[50:], soft[:, 1])
    LogisticRegression().fit(flatten(made), labels, sample_weight=weight)


def test_numbers_are_mixed(x: np.ndarray, numbers: np.ndarray) -> None:
    sampler = MixupResampler("vmixup", n_new=10, random_state=np.random.RandomState(3))
    _, labels = sampler.fit_resample(x, numbers)
    plan = sampler.plan_
    np.testing.assert_allclose(labels[20:], (1 - plan.lam) * numbers[plan.i] + plan.lam * numbers[plan.j])
    assert not hasattr(sampler, "classes_")
    ages = MixupResampler("vmixup", n_new=10, random_state=0, task="regression").fit_resample(x, np.arange(20))
    assert ages[1][20:] != pytest.approx(np.rint(ages[1][20:]))


def test_it_acts_in_fit_only_inside_a_pipeline(x: np.ndarray, codes: np.ndarray) -> None:
    seen = []

    def note(networks: np.ndarray) -> np.ndarray:
        seen.append(len(networks))
        return flatten(networks)

    pipe = Pipeline([
        ("mix", MixupResampler(RMixup(regularizer="shrink=0.05"), n_new=40, random_state=0)),
        ("flat", FunctionTransformer(note)),
        ("fit", LogisticRegression()),
    ])  # fmt: skip
    pipe.fit(x, codes)
    assert pipe.predict(x).shape == (20,)
    assert seen == [60, 20]
    scores = cross_val_score(clone(pipe).set_params(mix__n_new=12), x, codes, cv=4)
    assert np.isfinite(scores).all()
    assert seen[2:] == [27, 5] * 4
    Pipeline([("mix", MixupResampler(n_new=5)), ("flat", FunctionTransformer(flatten)), ("fit", Ridge())]).fit(
        x, np.linspace(0, 1, 20)
    )


def test_groups_reach_the_policy(x: np.ndarray, codes: np.ndarray) -> None:
    sampler = MixupResampler(RMixup(pairs="cross-group"), n_new=40, random_state=0)
    sampler.fit_resample(x, codes, groups=codes)
    assert (codes[sampler.plan_.i] != codes[sampler.plan_.j]).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_new": -1}, "n_new must be a whole number"),
        ({"n_new": 2.5}, "n_new must be a whole number"),
        ({"n_new": True}, "n_new must be a whole number"),
        ({"labels": "both"}, "labels must be"),
        ({"method": "rmix"}, "did you mean 'rmixup'"),
    ],
)
def test_wrong_settings_are_refused_in_fit(
    x: np.ndarray, codes: np.ndarray, settings: dict[str, object], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        MixupResampler(**settings).fit_resample(x, codes)  # type: ignore[arg-type]


def test_nothing_new_is_allowed(x: np.ndarray, codes: np.ndarray) -> None:
    made, labels = MixupResampler(n_new=0).fit_resample(x, codes)
    assert np.array_equal(made, x)
    assert np.array_equal(labels, codes)
