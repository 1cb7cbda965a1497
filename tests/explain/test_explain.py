"""What is planted is found, what is not there is not claimed, and order does not matter."""

import sys
from pathlib import Path

import numpy as np
import pytest

import rmixup
from rmixup.errors import DataError
from rmixup.explain import explain
from rmixup.explain.explaining import _cohort
from rmixup.explain.maps import agreements
from rmixup.explain.refits import Cohort, Design, Refitter
from rmixup.explain.result import LEVEL
from rmixup.train.protocol import Protocol

sys.path.insert(0, str(Path(__file__).parent))

from planted_cohorts import GCN, N_PEOPLE, fitted, with_edges


def pairs_of(rows):
    return [frozenset(pair) for pair in zip(rows["source"], rows["target"], strict=True)]


def test_planted_edges_are_the_top_ones_significant_and_stable(planted, told):
    edges = told.edges()
    first, rest = edges.head(len(planted)), edges.iloc[len(planted) :]
    signs = dict(zip(pairs_of(first), np.sign(first["signed"]), strict=True))
    assert signs == {edge: np.sign(size) for edge, size in planted.items()}
    assert (first["p_corrected"] <= LEVEL).all()
    assert (first["stability"] == 1).all()
    assert (first["same_sign"] == 1).all()
    assert (rest["p_corrected"] > LEVEL).mean() > 0.95
    assert rest["stability"].mean() < 0.3
    assert told.holds is True
    assert not told.cautions


def test_integrated_gradients_find_them_too(linear, cohort, planted):
    told = explain(linear, cohort, permutations=0, repeats=1, method="integrated-gradients")
    assert set(pairs_of(told.edges().head(3))) == set(planted)


def test_patterns_of_tangent_find_them_too(cohort, planted):
    told = explain(fitted(cohort, "tangent"), cohort, permutations=19, repeats=2)
    assert told.record["method"] == "pattern"
    assert set(pairs_of(told.edges().head(3))) == set(planted)
    assert told.holds is True


@pytest.mark.parametrize("seed", [0, 1])
def test_without_an_effect_the_null_says_so(seed):
    ds = with_edges({}, seed=seed)
    told = explain(fitted(ds), ds, permutations=19, repeats=1)
    assert told.holds is False
    assert any("explain noise" in caution for caution in told.cautions)
    assert told.prediction.p > LEVEL
    assert told.edges()["p_corrected"].min() > LEVEL
    assert abs(told.stability.chance) < 0.15


def test_p_values_without_an_effect_are_not_too_small():
    """Uncorrected p-values of edges are at most 0.1 in about a tenth of the edges of cohorts without an effect."""
    small = []
    for seed in range(4):
        ds = with_edges({}, seed=seed + 10, n_sites=1)
        told = explain(fitted(ds), ds, permutations=19, repeats=1)
        small.append((told.edges()["p"] <= 0.1).mean())
    assert 0.02 < np.mean(small) < 0.2


def test_networks_are_trained_anew_and_find_them(cohort, planted, mlp):
    heard = []
    told = explain(mlp, cohort, repeats=2, device="cpu", listen=lambda *one: heard.append(one))
    assert (told.record["refits"], told.record["method"]) == (4, "integrated-gradients")
    assert len(set(planted) & set(pairs_of(told.edges().head(6)))) >= 2
    assert told.record["residual"] < 0.03
    assert heard[-1][0] == "refits"
    assert heard[-1][1] == pytest.approx(heard[-1][2])
    assert told.prediction.p is None
    assert "p" not in told.edges()


def test_a_network_gets_a_null_when_asked(cohort):
    predictor = fitted(cohort, *GCN, Protocol(epochs=2, learning_rate=1e-2))
    told = explain(predictor, cohort, repeats=1, permutations=0, device="cpu")
    assert not told.p
    cohort_, _ = _cohort(predictor, cohort, np.array(cohort.matrices))
    design = Design(repeats=1, permutations=2)
    null = Refitter(predictor, "integrated-gradients", "cpu").null(cohort_, cohort_.parts(design), design)
    assert null.signed.shape == (2, 1, 105)
    assert np.isfinite(null.agreement).all()


# ---- order


def test_the_order_of_the_nodes_does_not_matter(linear, cohort, mlp):
    turned = cohort.select(nodes=cohort.nodes[::-1].tolist())
    for predictor in (linear, mlp):
        one, other = (explain(predictor, ds, repeats=0, permutations=0, device="cpu") for ds in (cohort, turned))
        np.testing.assert_allclose(other.this_model, one.this_model, rtol=1e-5)
        assert other.nodes == one.nodes


def test_a_model_of_nodes_in_another_order_is_explained_alike(cohort):
    order = np.random.default_rng(0).permutation(cohort.n_nodes)
    turned = cohort.select(nodes=order)
    one, other = (explain(fitted(ds), ds, permutations=19, repeats=1) for ds in (cohort, turned))
    table, again = (dict(zip(pairs_of(e.edges()), e.edges().to_dict("records"), strict=True)) for e in (one, other))
    assert set(table) == set(again)
    for pair, row in table.items():
        for name in ("importance", "signed", "pattern", "p"):
            assert again[pair][name] == pytest.approx(row[name], rel=1e-3, abs=1e-7), (pair, name)
    nodes = dict(zip(other.node_table()["node"], other.node_table()["importance"], strict=True))
    for name, own in zip(one.node_table()["node"], one.node_table()["importance"], strict=True):
        assert nodes[name] == pytest.approx(own, rel=1e-4)


def test_one_seed_gives_one_explanation(linear, cohort):
    one, same, other = (explain(linear, cohort, repeats=1, permutations=0, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(same.signed, one.signed)
    assert np.abs(other.signed - one.signed).max() > 1e-6


# ---- sums


def test_sums_over_nodes_systems_and_pairs_add_up(told):
    edges, nodes, systems, pairs = told.edges(), told.node_table(), told.system_table(), told.pair_table()
    for table in (edges, nodes, systems, pairs):
        assert table["importance"].sum() == pytest.approx(1)
    for table in (nodes, systems, pairs):
        assert table["signed"].sum() == pytest.approx(edges["signed"].sum())
    own = nodes.groupby("system")["importance"].sum()
    for row in systems.to_dict("records"):
        assert row["importance"] == pytest.approx(own[row["system"]])
    between = edges.groupby(edges.apply(lambda row: frozenset((row["source_system"], row["target_system"])), axis=1))
    sums, counts = between["importance"].sum(), between.size()
    for row in pairs.to_dict("records"):
        key = frozenset((row["system_a"], row["system_b"]))
        assert row["importance"] == pytest.approx(sums[key])
        assert row["edges"] == counts[key]
    assert (pairs["per_edge"] * pairs["edges"]).sum() == pytest.approx(pairs["edges"].sum())
    for name in told.nodes[:3]:
        touching = edges[(edges["source"] == name) | (edges["target"] == name)]["importance"].sum()
        assert nodes.set_index("node")["importance"][name] == pytest.approx(touching / 2)


# ---- refits and permutations


@pytest.mark.parametrize("backbone", ["linear", "tangent"])
@pytest.mark.parametrize("method", ["weights", "pattern"])
def test_the_quick_null_is_the_plain_one(cohort, backbone, method):
    predictor = fitted(cohort, backbone)
    people, _ = _cohort(predictor, cohort, np.array(cohort.matrices))
    parts, refitter = people.parts(Design(repeats=1)), Refitter(predictor, method)
    permuted = people.permuted(0, 0)
    quick, scores = refitter._again(people, parts)(permuted)
    plain, expected = refitter._anew(parts)(permuted)
    assert agreements(np.stack([quick[0], plain[0]]), [(0, 1)])[0] > 1 - 1e-8
    np.testing.assert_allclose(scores, expected, atol=1e-12)


def test_the_quick_null_of_three_classes_is_the_plain_one():
    ds = with_edges({}, n_classes=3)
    predictor = fitted(ds)
    people, _ = _cohort(predictor, ds, np.array(ds.matrices))
    parts, refitter = people.parts(Design(repeats=1))[:1], Refitter(predictor, "weights")
    permuted = people.permuted(0, 0)
    (quick, score), (plain, expected) = refitter._again(people, parts)(permuted), refitter._anew(parts)(permuted)
    np.testing.assert_allclose(quick, plain, atol=1e-5)
    assert score == pytest.approx(expected, abs=1e-9)


def test_halves_share_nobody_and_families_stay_whole(cohort, linear):
    people, _ = _cohort(linear, cohort, np.array(cohort.matrices))
    families = np.array([f"f{k // 2}" for k in range(N_PEOPLE)])
    people = Cohort(people.x, people.labels, people.subjects, None, families)
    design = Design(repeats=2)
    parts = people.parts(design)
    for a, b in design.pairs:
        own, other = (set(np.concatenate([parts[k].train, parts[k].validation])) for k in (a, b))
        assert not own & other
        assert own | other == set(range(N_PEOPLE))
        assert not {families[k] for k in own} & {families[k] for k in other}


def test_labels_are_permuted_within_sites_and_scans_of_one_person_stay_alike(cohort, linear):
    people, _ = _cohort(linear, cohort, np.array(cohort.matrices))
    subjects = np.array([f"s{k // 2}" for k in range(N_PEOPLE)])
    groups = np.where(np.arange(N_PEOPLE) < 40, "a", "b")
    labels = people.labels.take(np.arange(N_PEOPLE) // 2 * 2)
    people = Cohort(people.x, labels, subjects, groups)
    other = people.permuted(0, 3).labels.codes
    assert (other[::2] == other[1::2]).all()
    assert not (other == labels.codes).all()
    for site in ("a", "b"):
        assert other[groups == site].sum() == labels.codes[groups == site].sum()


# ---- what cannot be done


def test_without_labels_the_model_is_explained_alone(linear, cohort):
    bare = rmixup.Networks(cohort.matrices, subjects=cohort.subjects, nodes=cohort.nodes)
    told = explain(linear, bare)
    assert told.holds is None
    assert "explained alone" in told.cautions[0]
    assert "stability" not in told.edges()
    np.testing.assert_allclose(told.signed, told.this_model)


def test_models_keep_their_record_when_refitted_on_other_people(linear):
    others = with_edges({}, seed=3)
    told = explain(linear, others, permutations=0)
    assert told.holds is False
    assert told.record["agreement_with_this_model"] < 0.5


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"folds": 1}, "folds must be at least 2, but is 1"),
        ({"repeats": -1}, "repeats must be at least 0"),
        ({"permutations": 5}, "permutations must be 0 or at least 19"),
        ({"repeats": 0, "permutations": 19}, "permutations need refits"),
    ],
)
def test_designs_that_say_nothing_are_refused(linear, cohort, options, words):
    with pytest.raises(DataError, match=words):
        explain(linear, cohort, **options)


def test_more_folds_share_people_and_say_so(linear, cohort):
    told = explain(linear, cohort, folds=5, repeats=1, permutations=0)
    assert told.stability.shared == 0.75
    assert told.stability.chance is None
    assert any("share 75 %" in caution for caution in told.cautions)


def test_other_nodes_are_refused_by_name(linear, cohort):
    other = rmixup.Networks(cohort.matrices, cohort.y, cohort.subjects, nodes=[f"x{k}" for k in range(cohort.n_nodes)])
    with pytest.raises(DataError, match="other nodes than the model"):
        explain(linear, other)


@pytest.mark.real
@pytest.mark.timeout(900)
def test_autism_on_harvard_oxford(real_data):
    """A linear model of ABIDE: refits on halves predict beyond chance, and agree beyond permuted labels."""
    from rmixup.data.readers import load

    ds = load(real_data / "abide", atlas="ho", where=["in_1009=1"], target="ASD", groups="SITE_ID")
    whole = np.array([np.isfinite(x).all() and (np.ptp(x, axis=0) > 0).all() for x in ds.series])
    people = ds[whole & (ds.subjects != "UM_1_0050286")].connectivity()  # the same numbers as UM_1_0050279
    told = explain(fitted(people, options={"C": 1e-4}), people, repeats=1, permutations=19)
    assert told.holds is True
    assert 0.6 < told.prediction.mean < 0.8
    assert told.record["agreement_with_this_model"] > 0.5
    assert len(told.edges()) == 111 * 110 // 2
