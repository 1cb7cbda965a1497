"""The estimators do what scikit-learn's users expect, on networks."""

import pickle
import subprocess
import sys

import joblib
import numpy as np
import pandas as pd
import pytest
from imblearn.pipeline import Pipeline as ImbalancedPipeline
from nilearn.connectome import ConnectivityMeasure
from pyriemann.estimation import Covariances, Shrinkage
from scipy.stats import loguniform, randint
from sklearn import config_context
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    RandomizedSearchCV,
    StratifiedKFold,
    cross_val_predict,
    cross_validate,
)
from sklearn.pipeline import make_pipeline

import rmixup
from rmixup import DataError, Networks, NotSPDError
from rmixup.augment import RMixup
from rmixup.models import Backbone
from rmixup.models.mlp import MLP
from rmixup.sklearn import MixupResampler, NetworkClassifier, NetworkRegressor
from rmixup.train.protocol import Protocol

# Backbone -> what it is made and trained with.
BACKBONES = {
    "transformer": {"backbone_options": {"layers": 1}, "learning_rate": 1e-3},
    "gcn": {"backbone_options": None},
    "mlp": {},
    "linear": {"backbone_options": None},
    "tangent": {"backbone_options": None},
}


def own_parameters(estimator):
    return {name: value for name, value in estimator.get_params().items() if hasattr(Protocol(), name)}


# ---- they learn


TRAIN, TEST = np.arange(30), np.arange(30, 40)


@pytest.mark.parametrize("backbone", BACKBONES)
def test_every_kind_of_model_learns_a_class(x, codes, classifier, backbone):
    told = classifier.set_params(backbone=backbone, epochs=25, **BACKBONES[backbone]).fit(x[TRAIN], codes[TRAIN])
    assert told.score(x[TEST], codes[TEST]) >= 0.9
    p = told.predict_proba(x[TEST])
    np.testing.assert_allclose(p.sum(1), 1)
    np.testing.assert_array_equal(told.predict(x[TEST]), told.classes_[p.argmax(1)])
    np.testing.assert_allclose(np.exp(told.predict_log_proba(x[TEST])), p)


@pytest.mark.parametrize("backbone", BACKBONES)
def test_every_kind_of_model_learns_a_number(x, ages, regressor, backbone):
    found = regressor.set_params(backbone=backbone, epochs=25, **BACKBONES[backbone]).fit(x[TRAIN], ages[TRAIN])
    assert found.score(x[TEST], ages[TEST]) > 0.5


def test_the_defaults_are_the_papers_protocol():
    protocol = Protocol()
    for cls in (NetworkClassifier, NetworkRegressor):
        assert own_parameters(cls()) == {name: getattr(protocol, name) for name in own_parameters(cls())}
        assert len(own_parameters(cls())) == 7
        assert (cls().backbone, cls().augment) == ("transformer", "rmixup")


# ---- parameters, copies, chance


def test_a_clone_has_the_parameters_and_nothing_learned(x, codes, classifier):
    classifier.set_params(augment=RMixup(alpha=0.4, regularizer="shrink=0.05")).fit(x, codes)
    copy = clone(classifier)
    assert copy.get_params() == classifier.get_params()
    assert not hasattr(copy, "model_")
    with pytest.raises(NotFittedError):
        copy.predict(x)
    np.testing.assert_array_equal(copy.fit(x, codes).predict_proba(x), classifier.predict_proba(x))
    with pytest.raises(ValueError, match="Invalid parameter 'layers'"):
        copy.set_params(layers=3)


def test_one_seed_is_one_result_and_another_is_another(x, codes, classifier):
    first = classifier.fit(x, codes).predict_proba(x)
    np.testing.assert_array_equal(classifier.fit(x, codes).predict_proba(x), first)
    other = clone(classifier).set_params(random_state=1).fit(x, codes)
    assert not np.array_equal(other.predict_proba(x), first)
    assert not np.array_equal(other.validation_rows_, classifier.validation_rows_)


def test_a_fresh_seed_is_recorded_and_repeats_the_result(x, codes, classifier):
    fresh = [clone(classifier).set_params(random_state=None).fit(x, codes) for _ in range(2)]
    assert fresh[0].seed_ != fresh[1].seed_
    again = clone(classifier).set_params(random_state=fresh[0].seed_).fit(x, codes)
    np.testing.assert_array_equal(again.predict_proba(x), fresh[0].predict_proba(x))


def test_a_moving_generator_gives_a_new_result_each_time_and_clones_repeat_it(x, codes, classifier):
    classifier.set_params(random_state=np.random.RandomState(0), epochs=1)
    copy = clone(classifier)
    seeds = [classifier.fit(x, codes).seed_ for _ in range(2)]
    assert seeds[0] != seeds[1]
    assert [copy.fit(x, codes).seed_ for _ in range(2)] == seeds


def test_chance_of_others_is_neither_read_nor_moved(x, codes, classifier):
    state = np.random.get_state()[1].copy()  # noqa: NPY002 -- the global generator is what is watched
    first = classifier.fit(x, codes).predict_proba(x)
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002
    np.random.standard_normal(3)  # noqa: NPY002
    np.testing.assert_array_equal(classifier.fit(x, codes).predict_proba(x), first)


# ---- what fit is given


@pytest.mark.parametrize(
    ("labels", "dtype"),
    [
        (["control", "autism"] * 20, "<U7"),
        (np.array(["b", "a"] * 20, dtype=object), object),
        (np.array([7, -2] * 20, dtype=np.int32), np.int32),
        (np.array([True, False] * 20), bool),
        (np.array([2.0, 1.0] * 20), float),
        (pd.Series(["control", "autism"] * 20, dtype="category", index=np.arange(40)[::-1]), object),
        (pd.Series(["control", "autism"] * 20, dtype="string"), object),
        (np.array(["c", "a", "b", "a"] * 10), "<U1"),
    ],
    ids=["text", "object", "whole", "bool", "whole floats", "categories", "pandas text", "three"],
)
def test_classes_are_what_they_were_called(x, classifier, labels, dtype):
    classifier.fit(x, labels)
    assert classifier.classes_.tolist() == sorted(set(labels))
    predicted = classifier.predict(x)
    assert predicted.dtype == classifier.classes_.dtype == dtype
    assert set(predicted) <= set(labels)
    assert classifier.predict_proba(x).shape == (40, len(set(labels)))


def test_the_order_of_classes_is_that_of_the_columns(x, codes, classifier):
    names = np.array(["patient", "control"])[codes]
    classifier.fit(x, names)
    by_code = clone(classifier).fit(x, 1 - codes)
    np.testing.assert_allclose(classifier.predict_proba(x), by_code.predict_proba(x))
    assert classifier.classes_.tolist() == ["control", "patient"]


def test_numbers_come_back_in_their_units_and_shape(x, ages, regressor):
    regressor.fit(x, ages)
    assert regressor.predict(x).shape == (40,)
    assert abs(regressor.predict(x).mean() - ages.mean()) < 5
    two = np.stack([ages, 1000 + ages], 1)
    assert regressor.fit(x, two).predict(x).shape == (40, 2)
    assert abs(regressor.predict(x)[:, 1].mean() - two[:, 1].mean()) < 5
    assert regressor.fit(x, two[:, :1]).predict(x).shape == (40, 1)
    whole = regressor.fit(x, ages.astype(int)).predict(x)
    assert not np.array_equal(whole, whole.round())


def test_weights_count_in_the_training_loss(x, codes, classifier):
    settings = {"validation_fraction": 0, "augment": "none", "batch_size": 64, "epochs": 3}
    classifier.set_params(**settings, backbone_options={"hidden": (8,), "dropout": 0.0})
    weights = np.where(np.arange(40) < 30, 1.0, 0.0)
    few = clone(classifier).fit(x[:30], codes[:30])
    weighted = clone(classifier).fit(x, codes, sample_weight=weights)
    np.testing.assert_allclose(weighted.predict_proba(x), few.predict_proba(x), atol=1e-6)
    scaled = clone(classifier).fit(x, codes, sample_weight=7 * weights)
    np.testing.assert_allclose(scaled.predict_proba(x), few.predict_proba(x), atol=1e-6)
    whole = clone(classifier).fit(x, codes)
    assert np.abs(whole.predict_proba(x) - few.predict_proba(x)).max() > 1e-4


@pytest.mark.parametrize(("backbone", "options"), [("linear", {"C": 1e-3}), ("mlp", {"hidden": (8,)})])
def test_weight_moves_what_is_predicted(x, codes, classifier, backbone, options):
    classifier.set_params(backbone=backbone, backbone_options=options)
    shares = []
    for much in (0, 1):
        told = clone(classifier).fit(x, codes, sample_weight=np.where(codes == much, 50.0, 1.0))
        shares.append(told.predict_proba(x)[:, 1].mean())
    assert shares[1] > shares[0] + 0.05


# ---- who is held out


def test_nothing_but_the_choice_of_the_epoch_is_learned_from_the_held_out(x, codes, classifier):
    classifier.fit(x, codes)
    held = classifier.validation_rows_
    assert len(held) == 5
    spoilt = x.copy()
    spoilt[held] = x[held][:, ::-1, ::-1]
    other = clone(classifier).fit(spoilt, codes)
    np.testing.assert_array_equal(other.validation_rows_, held)
    np.testing.assert_array_equal(other.history_["train_loss"], classifier.history_["train_loss"])
    assert not np.array_equal(other.history_["validation_loss"], classifier.history_["validation_loss"])


def test_groups_are_not_divided(x, codes, classifier):
    groups = np.repeat(np.arange(10), 4)
    classifier.fit(x, codes, groups=groups)
    held = classifier.validation_rows_
    assert len(held)
    assert not set(groups[held]) & set(np.delete(groups, held))


def test_the_best_epoch_is_the_one_that_validation_chose(x, codes, classifier):
    classifier.set_params(select="loss").fit(x, codes)
    losses = classifier.history_["validation_loss"]
    assert len(losses) == classifier.n_iter_ == 12
    assert classifier.best_epoch_ == losses.argmin() + 1
    assert classifier.selected_by_ == "loss"
    classifier.set_params(select="auto").fit(x, codes)
    assert classifier.selected_by_ == "auroc"
    assert classifier.best_epoch_ == classifier.history_["validation_score"].argmax() + 1


def test_without_validation_the_last_epoch_is_kept(x, codes, classifier):
    classifier.set_params(validation_fraction=0).fit(x, codes)
    assert len(classifier.validation_rows_) == 0
    assert (classifier.best_epoch_, classifier.selected_by_) == (12, "last epoch")


def test_patience_stops_early(x, codes, classifier):
    classifier.set_params(epochs=500, patience=3, select="loss").fit(x, codes)
    assert classifier.n_iter_ < 500
    assert classifier.best_epoch_ == classifier.n_iter_ - 3
    with pytest.raises(DataError, match="patience needs validation networks"):
        classifier.set_params(validation_fraction=0).fit(x, codes)


def test_progress_is_told_only_when_asked_for(x, codes, classifier, capsys):
    classifier.fit(x, codes)
    assert capsys.readouterr() == ("", "")
    classifier.set_params(verbose=5).fit(x, codes)
    said = capsys.readouterr()
    assert said.out == ""
    assert [line.split(":")[0] for line in said.err.splitlines()] == ["epoch 5/12", "epoch 10/12", "epoch 12/12"]


# ---- scikit-learn's tools


def test_cross_validation_is_the_same_with_two_processes(x, codes, classifier):
    folds = StratifiedKFold(4)
    one, two = (
        cross_validate(classifier, x, codes, cv=folds, n_jobs=jobs, scoring=["roc_auc", "accuracy", "neg_log_loss"])
        for jobs in (1, 2)
    )
    for name in ("test_roc_auc", "test_accuracy", "test_neg_log_loss"):
        np.testing.assert_array_equal(one[name], two[name])
    assert one["test_roc_auc"].mean() > 0.9


def test_searches_take_groups_and_settings_of_every_kind(x, codes, classifier):
    groups = np.repeat(np.arange(8), 5)
    grid = {"augment": ["none", "vmixup", RMixup(alpha=0.4)], "backbone": ["mlp", MLP], "weight_decay": [0.0]}
    search = GridSearchCV(classifier.set_params(epochs=2), grid, cv=GroupKFold(2), error_score="raise", n_jobs=2)
    search.fit(x, codes, groups=groups)
    assert search.cv_results_["params"][0].keys() == grid.keys()
    np.testing.assert_allclose(search.cv_results_["mean_test_score"].reshape(3, 2).std(axis=1), 0)
    assert search.predict_proba(x).shape == (40, 2)
    drawn = {"learning_rate": loguniform(1e-4, 1e-2), "epochs": randint(1, 3), "batch_size": randint(4, 9)}
    search = RandomizedSearchCV(classifier, drawn, n_iter=3, cv=2, random_state=0, error_score="raise")
    assert set(search.fit(x, codes).best_params_) == set(drawn)


def test_groups_and_weights_are_routed(x, codes, classifier):
    groups, weights = np.repeat(np.arange(8), 5), np.linspace(0.1, 2, 40)
    with config_context(enable_metadata_routing=True):
        routed = (
            clone(classifier).set_fit_request(groups=True, sample_weight=True).set_score_request(sample_weight=True)
        )
        params = {"groups": groups, "sample_weight": weights}
        found = cross_validate(routed, x, codes, cv=GroupKFold(2), params=params, return_estimator=True)
    train = GroupKFold(2).split(x, codes, groups)
    for fitted, (rows, _) in zip(found["estimator"], train, strict=True):
        alone = clone(classifier).fit(x[rows], codes[rows], groups=groups[rows], sample_weight=weights[rows])
        np.testing.assert_array_equal(fitted.predict_proba(x), alone.predict_proba(x))


def test_it_follows_transformers_of_pyriemann(series, codes, classifier):
    channels_first = series.transpose(0, 2, 1)
    pipe = make_pipeline(Covariances("lwf"), Shrinkage(0.1), classifier)
    pipe.fit(channels_first, codes)
    networks = pipe[:-1].transform(channels_first)
    np.testing.assert_array_equal(
        pipe.predict_proba(channels_first), clone(classifier).fit(networks, codes).predict_proba(networks)
    )
    search = GridSearchCV(pipe.set_params(networkclassifier__epochs=2), {"shrinkage__shrinkage": [0.1, 0.5]}, cv=2)
    assert search.fit(channels_first, codes).best_score_ >= 0


@pytest.mark.parametrize("kind", ["correlation", "tangent"])
def test_it_follows_transformers_of_nilearn(series, codes, classifier, kind):
    pipe = make_pipeline(ConnectivityMeasure(kind=kind, standardize="zscore_sample"), classifier)
    # Tangent vectors as matrices are symmetric, not positive definite: their straight lines are the geodesics.
    pipe.set_params(networkclassifier__augment="rmixup" if kind == "correlation" else "vmixup")
    assert pipe.fit(list(series), codes).score(list(series), codes) > 0.9
    flat = make_pipeline(ConnectivityMeasure(standardize="zscore_sample", vectorize=True), classifier)
    with pytest.raises(DataError, match="nilearn's ConnectivityMeasure gives them without vectorize"):
        flat.fit(list(series), codes)


def test_it_stands_at_the_end_of_an_imbalanced_pipeline(x, codes, classifier):
    pipe = ImbalancedPipeline([
        ("more", MixupResampler(n_new=20, random_state=0)),
        ("model", classifier.set_params(augment=None)),
    ])  # fmt: skip
    assert pipe.fit(x, codes).predict_proba(x).shape == (40, 2)
    assert len(pipe["model"].history_["train_loss"]) == 12


def test_its_probabilities_can_be_calibrated_and_predicted_across_folds(x, codes, classifier):
    calibrated = CalibratedClassifierCV(classifier, cv=3).fit(x, codes)
    assert calibrated.score(x, codes) > 0.8
    across = cross_val_predict(classifier, x, codes, cv=3, method="predict_proba")
    assert ((across.argmax(1) == codes).mean()) > 0.8


# ---- keeping


@pytest.mark.parametrize("cls", [NetworkClassifier, NetworkRegressor])
def test_a_pickled_estimator_predicts_the_same_in_another_process(x, codes, classifier, cls, tmp_path):
    fitted = cls(**classifier.get_params()).fit(x, codes)
    joblib.dump((fitted, x), tmp_path / "fitted")
    program = "import sys, joblib, numpy; f, x = joblib.load(sys.argv[1]); numpy.save(sys.argv[2], f.predict(x))"
    subprocess.run([sys.executable, "-W", "error", "-c", program, tmp_path / "fitted", tmp_path / "p.npy"], check=True)
    np.testing.assert_array_equal(np.load(tmp_path / "p.npy"), fitted.predict(x))


def test_a_pickle_keeps_no_training_networks(x, codes, classifier):
    many = np.tile(x, (20, 1, 1))
    few, more = (
        len(pickle.dumps(clone(classifier).set_params(epochs=1, validation_fraction=0).fit(networks, labels)))
        for networks, labels in ((x, codes), (many, np.tile(codes, 20)))
    )
    assert few == more < 10_000


class Own(Backbone):
    """A backbone of one's own: the sum of all edges."""

    def __init__(self, n_nodes, n_outputs):
        super().__init__(n_nodes, n_outputs)
        self.head = MLP(n_nodes, n_outputs, hidden=(2,))

    def forward(self, x, word=None):
        return self.head(x, word)


def test_a_class_of_ones_own_is_a_backbone(x, codes, classifier):
    classifier.set_params(backbone=Own, backbone_options=None).fit(x, codes)
    assert clone(classifier).backbone is Own
    assert classifier.predict_proba(x).shape == (40, 2)


def test_its_representation_is_what_differs_from_the_defaults(classifier):
    assert repr(NetworkClassifier()) == "NetworkClassifier()"
    assert repr(NetworkRegressor("gcn", RMixup(alpha=0.4))).startswith("NetworkRegressor(augment=RMixup(alpha=0.4")
    assert "NetworkClassifier" in classifier._repr_html_()


def test_scikit_learn_knows_what_it_is(x, classifier, regressor):
    assert is_classifier(classifier)
    assert is_regressor(regressor)
    tags = classifier.__sklearn_tags__()
    assert tags.input_tags.three_d_array
    assert not tags.input_tags.two_d_array
    assert tags.classifier_tags.multi_class
    assert regressor.__sklearn_tags__().target_tags.multi_output
    assert clone(classifier).set_params(random_state=None).__sklearn_tags__().non_deterministic


# ---- Networks instead of arrays


@pytest.fixture
def ds(x, codes):
    names = np.array(["control", "patient"])[codes]
    people = [f"s{k // 2}" for k in range(40)]
    return Networks(x, names, subjects=[f"s{k}" for k in range(40)], nodes=list("abcde"), families=people)


def test_networks_bring_labels_names_and_families(ds, x, codes, classifier):
    classifier.set_params(validation_fraction=0.25).fit(ds)
    assert classifier.classes_.tolist() == ["control", "patient"]
    assert classifier.node_names_ == tuple("abcde")
    assert classifier.score(ds) > 0.8
    held = classifier.validation_rows_
    assert len(held)
    assert set(held // 2).isdisjoint(np.delete(np.arange(40), held) // 2)
    np.testing.assert_array_equal(classifier.predict_proba(ds), classifier.predict_proba(ds.matrices))


def test_nodes_are_put_in_the_order_of_fit_by_name(ds, classifier):
    classifier.fit(ds)
    turned = ds.select(nodes=list("edcba"))
    np.testing.assert_array_equal(classifier.predict_proba(turned), classifier.predict_proba(ds))
    with pytest.raises(DataError, match=r"X lacks 1 of the 5 nodes of fit \(first: 'c'\)"):
        classifier.predict(ds.select(nodes=list("abde")))


def test_networks_without_matrices_or_labels_say_what_to_do(ds, series, classifier):
    with pytest.raises(DataError, match=r"choose a connectivity, ds\.connectivity"):
        classifier.fit(Networks(series=series, y=ds.y))
    with pytest.raises(DataError, match="y is None: give y, or Networks with a target"):
        classifier.fit(Networks(ds.matrices))
    with pytest.raises(DataError, match=r"give them arrays, X=ds\.matrices"):
        cross_validate(classifier, ds, ds.y, cv=2, error_score="raise")


# ---- refusals


def broken(x, how):
    x = x.copy()
    if how == "nan":
        x[3, 1, 2] = np.nan
    elif how == "asymmetric":
        x[3, 1, 2] += 0.1
    return x


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: broken(x, "nan"), "X must be finite: matrix 3 has nan"),
        (lambda x: broken(x, "asymmetric"), "X must be symmetric: matrix 3"),
        (lambda x: x.reshape(len(x), -1), r"X must be networks of shape \(N, n, n\).*\(40, 25\)"),
        (lambda x: x[:, :, :4], r"X must be networks of shape \(N, n, n\)"),
        (lambda x: x[:0], "X must hold at least one network"),
        (lambda x: x[:39], "X has 39 networks, but there are labels of shape"),
        (lambda x: x.astype(complex), "real floating point"),
        (lambda x: x.astype(str), "real floating point"),
    ],
)
def test_networks_that_are_none_are_refused(x, codes, classifier, change, message):
    with pytest.raises(DataError, match=message):
        classifier.fit(change(x), codes)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["a"] * 40, r"at least two classes, but every network is \['a'\]"),
        ([0.5, 1.0] * 20, "use NetworkRegressor for numbers"),
        ([0.0, np.nan] * 20, "use NetworkRegressor for numbers"),
        (np.array(["a", None] * 20, dtype=object), "20 are missing"),
        (np.array(["a", 1] * 20, dtype=object), "of one kind"),
        (np.eye(2)[[0, 1] * 20], r"shape \(N,\), one class for each network"),
        (["a"] + ["b"] * 39, None),
    ],
)
def test_labels_that_are_no_classes_are_refused(x, classifier, labels, message):
    if message is None:  # one person of a class: stays in the training
        assert 0 not in classifier.fit(x, labels).validation_rows_
        return
    with pytest.raises(DataError, match=message):
        classifier.fit(x, labels)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["young", "old"] * 20, "must be numbers"),
        ([1.0, np.inf] * 20, "20 are missing or not finite"),
        ([3.0] * 40, "must vary"),
    ],
)
def test_targets_that_are_no_numbers_are_refused(x, regressor, labels, message):
    with pytest.raises(DataError, match=message):
        regressor.fit(x, labels)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"backbone": "resnet"}, "backbone must be one of transformer"),
        ({"augment": "rmix"}, "did you mean 'rmixup'"),
        ({"epochs": 0, "learning_rate": -1.0}, "epochs must be .*; learning_rate must be"),
        ({"epochs": 2.5}, "epochs must be a whole number"),
        ({"optimizer": "sgd"}, "optimizer must be one of adam, adamw"),
        ({"select": "roc"}, "roc"),
        ({"validation_fraction": 1.0}, r"validation_fraction must be a share in \[0, 1\)"),
        ({"validation_fraction": "some"}, r"validation_fraction must be a share in \[0, 1\)"),
        ({"patience": 0}, "patience must be a whole number"),
        ({"device": "gpu"}, "device must be 'cpu'"),
        ({"backbone_options": {"depth": 3}}, "depth"),
        ({"learning_rate": "0.1"}, "learning_rate must be a number"),
        ({"learning_rate": None}, "learning_rate must be a number"),
        ({"verbose": -1}, "verbose must be"),
        ({"backbone": None}, "backbone must be a name or a subclass"),
        ({"patience": -1, "epochs": 0, "backbone": "resnet"}, "patience must be .*; backbone must be .*; epochs must"),
        ({"random_state": "seed"}, "random_state must be"),
        ({"random_state": -1}, "random_state must be"),
        ({"backbone_options": ["a"]}, "backbone_options must be"),
    ],
)
def test_wrong_settings_are_refused_in_fit_with_what_is_allowed(x, codes, classifier, settings, message):
    with pytest.raises(DataError, match=message):
        classifier.set_params(**settings).fit(x, codes)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sample_weight": np.full(40, -1.0)}, "sample_weight must hold one finite weight"),
        ({"sample_weight": np.zeros(40)}, "not all of them 0"),
        ({"sample_weight": np.ones(3)}, r"sample weights of shape \(3,\)"),
        ({"groups": np.zeros(40)}, "nobody can be held out"),
        ({"groups": np.zeros(3)}, r"groups of shape \(3,\)"),
    ],
)
def test_what_comes_beside_the_networks_is_checked(x, codes, classifier, settings, message):
    with pytest.raises(DataError, match=message):
        classifier.fit(x, codes, **settings)


def test_singular_networks_are_told_with_the_setting_that_helps(x, codes, classifier):
    flat = np.ones_like(x)
    with pytest.raises(NotSPDError, match=r"augment=RMixup\(regularizer='shrink=0.05'\)"):
        classifier.fit(flat, codes)
    classifier.set_params(augment=RMixup(regularizer="shrink=0.05")).fit(flat, codes)
    tangent = clone(classifier).set_params(backbone="tangent", backbone_options=None)
    with pytest.raises(NotSPDError, match=r"rmixup\.spd\.regularize\(X, 'shrink', 0\.05\)"):
        tangent.fit(flat, codes)
    with pytest.raises(NotSPDError, match="1 of 40 are not"):
        tangent.fit(x, codes).predict(np.concatenate([flat[:1], x[1:]]))


def test_prediction_needs_a_fit_and_the_same_nodes(x, codes, classifier, regressor):
    for method in ("predict", "predict_proba", "predict_log_proba"):
        with pytest.raises(NotFittedError):
            getattr(classifier, method)(x)
    with pytest.raises(NotFittedError):
        regressor.predict(x)
    with pytest.raises(DataError, match="X must have networks of 5 nodes, as in fit, but has 4"):
        classifier.fit(x, codes).predict(x[:, :4, :4])


def test_whole_numbers_and_half_precision_are_read_as_they_mean(x, codes, classifier):
    binary = (np.abs(x) > 0.3).astype(int)
    classifier.set_params(augment="none").fit(binary, codes)
    np.testing.assert_array_equal(classifier.predict_proba(binary), classifier.predict_proba(binary.astype(float)))


@pytest.mark.parametrize("cls", [rmixup.NetworkClassifier, rmixup.NetworkRegressor])
def test_help_tells_every_parameter(cls):
    assert all(name in cls.__doc__ for name in cls().get_params())
    assert "NetworkEstimator`.)" not in cls.__doc__
