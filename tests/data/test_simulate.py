"""The simulated cohort: as the truth says, as hard as promised, as real networks look."""

import json

import numpy as np
import pytest
from scipy.linalg import expm, logm
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from rmixup.data import provenance
from rmixup.data.readers import simulate as simulation
from rmixup.data.readers.simulate import SYSTEMS, simulate, truth
from rmixup.errors import DataError

DIRECTIONS = ("logeuclid", "euclid")


def edges(matrices):
    return matrices[:, *np.triu_indices(matrices.shape[-1], 1)]


def unit_diagonal(x):
    scale = np.diag(x) ** -0.5
    return x * np.outer(scale, scale)


def cosine(a, b):
    off = ~np.eye(len(a), dtype=bool)
    return np.corrcoef(a[off], b[off])[0, 1]


def linear_auroc(ds):
    model = make_pipeline(StandardScaler(), LogisticRegression(C=1e-3))
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    return roc_auc_score(ds.y, cross_val_predict(model, edges(ds.matrices), ds.y, cv=folds, method="decision_function"))


def test_shapes_names_and_labels_are_as_asked():
    ds = simulate(n_subjects=30, n_nodes=14, n_frames=40, n_classes=3, n_sites=2)
    assert ds.matrices.shape == (30, 14, 14)
    assert [x.shape for x in ds.series] == [(40, 14)] * 30
    assert np.bincount(ds.y).tolist() == [10, 10, 10]
    assert ds.classes == ("class-1", "class-2", "class-3")
    assert sorted(set(ds.groups)) == ["site-1", "site-2"]
    assert ds.nodes[:3].tolist() == ["Visual-01", "Visual-02", "Somatomotor-01"]
    assert {name.rsplit("-", 1)[0] for name in ds.nodes} == set(SYSTEMS)
    assert ds.table.columns.tolist() == ["class", "site", "age", "sex", "mean_fd"]
    assert (ds.table["class"] == ds.label_names()).all()


def test_matrices_are_the_correlations_of_the_series():
    ds = simulate(n_subjects=5, n_nodes=8, n_frames=(20, 30))
    for series, matrix in zip(ds.series, ds.matrices, strict=True):
        np.testing.assert_allclose(matrix, np.corrcoef(series.T), atol=1e-12)


@pytest.mark.parametrize("changed", [{"seed": 1}, {"effect": 2.0}, {"site_effect": 0.0}, {"autocorrelation": 0.0}])
def test_same_arguments_same_data_and_each_argument_counts(changed):
    arguments = {"n_subjects": 70, "n_nodes": 8, "n_frames": 20}
    first, again, other = simulate(**arguments), simulate(**arguments), simulate(**arguments, **changed)
    np.testing.assert_array_equal(first.matrices, again.matrices)
    np.testing.assert_array_equal(first.y, again.y)
    assert not np.allclose(first.matrices, other.matrices)


def test_frames_of_unequal_length_lie_within_the_bounds():
    ds = simulate(n_subjects=40, n_nodes=5, n_frames=(10, 14))
    assert set(ds.frames.tolist()) == {10, 11, 12, 13, 14}


def test_one_site_means_no_groups():
    assert simulate(n_subjects=4, n_nodes=5, n_frames=10, n_sites=1).groups is None


@pytest.fixture
def nobody_differs(monkeypatch):
    """People who differ by their label and site alone."""
    monkeypatch.setattr(simulation, "EDGE_SPREAD", 0.0)
    monkeypatch.setattr(simulation, "SYSTEM_SPREAD", 0.0)


@pytest.mark.usefixtures("nobody_differs")
@pytest.mark.parametrize("task", ["classification", "regression"])
def test_a_log_euclidean_effect_is_added_to_the_log(task):
    ds = simulate(n_subjects=4, n_nodes=10, n_frames=40_000, task=task, effect=1.5, n_sites=2)
    known = truth(ds)
    for k in range(4):
        part = known.effects[ds.y[k]] if task == "classification" else ds.y[k] * known.effects[0]
        shift = known.site_shifts[int(ds.groups[k][-1]) - 1]
        expected = unit_diagonal(expm(logm(known.population) + part + shift))
        np.testing.assert_allclose(ds.matrices[k], expected, atol=0.04)


@pytest.mark.usefixtures("nobody_differs")
@pytest.mark.parametrize("task", ["classification", "regression"])
def test_a_euclidean_effect_is_added_to_the_correlation(task):
    ds = simulate(
        n_subjects=4, n_nodes=10, n_frames=40_000, task=task, effect=0.2, effect_direction="euclid", n_sites=1
    )
    known = truth(ds)
    for k in range(4):
        part = known.effects[ds.y[k]] if task == "classification" else ds.y[k] * known.effects[0]
        np.testing.assert_allclose(ds.matrices[k], known.population + part, atol=0.04)


def test_the_effect_is_found_where_it_was_put():
    log_euclidean = simulate(n_subjects=300, n_nodes=15, n_frames=600, effect=1.5, site_effect=0.0)
    logs = np.stack([logm(x) for x in log_euclidean.matrices])
    found = logs[log_euclidean.y == 1].mean(0) - logs[log_euclidean.y == 0].mean(0)
    assert cosine(found, np.subtract(*truth(log_euclidean).effects[::-1])) > 0.95

    euclidean = simulate(n_subjects=300, n_nodes=15, n_frames=600, effect=0.7, effect_direction="euclid")
    found = euclidean.matrices[euclidean.y == 1].mean(0) - euclidean.matrices[euclidean.y == 0].mean(0)
    assert cosine(found, np.subtract(*truth(euclidean).effects[::-1])) > 0.95


def test_classes_lie_the_effect_apart_and_site_shifts_have_their_size():
    known = truth(simulate(n_subjects=12, n_nodes=9, n_frames=12, n_classes=4, n_sites=3, effect=2.5, site_effect=0.4))
    apart = [np.linalg.norm(known.effects[i] - known.effects[j]) for i in range(4) for j in range(i)]
    assert np.mean(apart) == pytest.approx(2.5)
    np.testing.assert_allclose(known.effects.sum(0), 0, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(known.site_shifts, axis=(1, 2)), 0.4)
    assert not np.diagonal(known.effects, axis1=1, axis2=2).any()
    score = truth(simulate(n_subjects=12, n_nodes=9, n_frames=12, task="regression", effect=2.5))
    assert np.linalg.norm(score.effects[0]) == pytest.approx(2.5)


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_euclidean_truth_is_positive_definite_to_its_limits(task):
    ds = simulate(n_subjects=10, n_nodes=12, n_frames=10, task=task, effect=0.3, effect_direction="euclid", n_classes=3)
    known = truth(ds)
    signs = (1,) if task == "classification" else (-simulation.SCORE_LIMIT, simulation.SCORE_LIMIT)
    corners = [known.share * known.population + sign * effect for effect in known.effects for sign in signs]
    assert 0 < known.share < 1
    assert np.linalg.eigvalsh(np.stack(corners)).min() > -1e-12


def test_truth_survives_selection_and_json_and_is_refused_elsewhere():
    ds = simulate(n_subjects=12, n_nodes=6, n_frames=(9, 12))
    steps = json.loads(json.dumps(ds.provenance.to_json()))["steps"]
    part = ds[:3]._derive(provenance=provenance.Provenance(steps=steps))
    np.testing.assert_array_equal(truth(part).effects, truth(ds).effects)
    with pytest.raises(DataError, match="simulated data only"):
        truth(ds._derive(provenance=provenance.Provenance()))


def test_series_have_the_autocorrelation_asked_for():
    ds = simulate(n_subjects=20, n_nodes=10, n_frames=3000, autocorrelation=0.6)
    lagged = [np.corrcoef(x[1:, k], x[:-1, k])[0, 1] for x in ds.series for k in range(10)]
    assert np.mean(lagged) == pytest.approx(0.6, abs=0.01)
    white = simulate(n_subjects=20, n_nodes=10, n_frames=3000, autocorrelation=0.0)
    spread = [np.mean([x[:3].std() for x in cohort.series]) for cohort in (ds, white)]
    assert spread[0] == pytest.approx(spread[1], rel=0.1)  # stationary from the first frame


def test_defaults_give_a_task_with_room():
    scores = [linear_auroc(simulate(seed=seed)) for seed in range(3)]
    assert 0.75 <= np.mean(scores) <= 0.85
    assert linear_auroc(simulate(effect=0.0)) < 0.6
    assert linear_auroc(simulate(effect=2.0)) > 0.93


def test_a_site_effect_can_be_seen_and_left_out():
    shifted, level = (simulate(site_effect=size, effect=0.0, n_sites=2) for size in (2.0, 0.0))
    assert linear_auroc(shifted._derive(y=(shifted.groups == "site-1").astype(int))) > 0.9
    assert linear_auroc(level._derive(y=(level.groups == "site-1").astype(int))) < 0.65


def test_networks_look_like_those_of_abide():
    """Reference: 154 people of ABIDE with 196 frames, 60 regions drawn from CC200, mean over people."""
    ds = simulate(n_frames=196)
    share = np.linalg.eigvalsh(ds.matrices)[:, ::-1].mean(0) / 60
    reference = [0.296, 0.112, 0.075, 0.0585, 0.048, 0.0226, 0.0090, 0.0025]
    np.testing.assert_allclose(share[[0, 1, 2, 3, 4, 9, 19, 39]], reference, rtol=0.2)
    e = edges(ds.matrices)
    np.testing.assert_allclose(
        np.quantile(e, [0.05, 0.25, 0.5, 0.75, 0.95]), [-0.09, 0.11, 0.25, 0.41, 0.62], atol=0.06
    )
    assert e.std(0).mean() == pytest.approx(0.177, abs=0.02)  # between people
    assert e.mean(1).std() == pytest.approx(0.093, abs=0.02)  # of a person's mean


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"task": "ranking"}, "task in"),
        ({"effect_direction": "riemann"}, "effect_direction in"),
        ({"n_nodes": 2}, "n_nodes >= 3, not 2"),
        ({"n_frames": 2}, "n_frames"),
        ({"n_frames": (30, 20)}, r"low <= high, not \(30, 20\)"),
        ({"n_classes": 1}, "n_classes >= 2"),
        ({"n_subjects": 1}, "n_subjects >= 2"),
        ({"n_sites": 0}, "1 <= n_sites"),
        ({"effect": -1.0}, "effect >= 0"),
        ({"effect": float("nan")}, "effect >= 0"),
        ({"site_effect": -1.0}, "site_effect >= 0"),
        ({"autocorrelation": 1.0}, "autocorrelation < 1"),
        ({"systems": ()}, "one system or more, not 0"),
        ({"effect": 50.0, "effect_direction": "euclid"}, "less than .* along 'euclid'"),
    ],
)
def test_arguments_that_cannot_be_are_named(arguments, message):
    with pytest.raises(DataError, match=message):
        simulate(**arguments)


def test_all_problems_are_named_together():
    with pytest.raises(DataError, match=r"n_nodes >= 3.*n_classes >= 2"):
        simulate(n_nodes=1, n_classes=1)
