"""What was made, measured: each number against its definition, network by network, in plain NumPy."""

import numpy as np
import pytest

from rmixup import keys, spd
from rmixup.augment import Plan, quality
from rmixup.augment.quality import (
    DISTANCES,
    MEAN,
    MIXES,
    Triples,
    drift,
    groups_told,
    label_distances,
    nearest,
    sizes,
    sorted_triples,
)
from rmixup.errors import DataError

LABELS = keys.generator(2, "labels").integers(20, 30, 20).astype(float)
CHUNKS = [quality.CHUNK_BYTES, 1, 3 * 8 * 7**2]  # all at once, one by one, three at once


@pytest.fixture(scope="module")
def covariances(x: np.ndarray) -> np.ndarray:
    scale = np.exp(keys.generator(3, "scale").normal(0, 0.5, (len(x), x.shape[-1])))
    return x * scale[:, :, None] * scale[:, None, :]


@pytest.fixture(params=CHUNKS, ids=["whole", "one by one", "by threes"])
def _chunked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quality, "CHUNK_BYTES", request.param)


@pytest.mark.usefixtures("_chunked")
def test_sizes_are_numpys(covariances: np.ndarray) -> None:
    found = sizes(covariances)
    np.testing.assert_allclose(found.log_det, np.linalg.slogdet(covariances)[1], rtol=1e-10)
    np.testing.assert_allclose(found.condition, np.linalg.cond(covariances), rtol=1e-10)
    np.testing.assert_allclose(found.trace, np.trace(covariances, axis1=1, axis2=2))
    np.testing.assert_allclose(found.diagonal, found.trace / covariances.shape[-1])


def test_singular_networks_have_no_determinant_and_tiny_ones_have() -> None:
    singular, tiny, whole = np.ones((3, 3)), 1e-30 * np.diag([1.0, 2.0, 4.0]), np.eye(3)
    found = sizes(np.stack([singular, tiny, whole]))
    np.testing.assert_allclose(found.log_det, [-np.inf, np.log(8) - 90 * np.log(10), 0])
    np.testing.assert_allclose(found.condition, [np.inf, 4, 1])
    rounding = 3 * np.finfo(float).eps
    edges = sizes(np.stack([np.diag([rounding * share, 1.0, 1.0]) for share in (0.9, 1.0, 1.1)]))
    assert np.isneginf(sizes(np.diag([0.9 * rounding, 1e-6, 1.0])[None]).log_det).all(), "the largest is what counts"
    assert np.isfinite(edges.log_det).tolist() == np.isfinite(edges.condition).tolist() == [False, False, True]


def test_drift_compares_with_the_parents_that_the_plan_names(covariances: np.ndarray) -> None:
    plan = Plan(i=[0, 3, 5], j=[1, 3, 2], lam=[0.3, 0.5, 1.0])
    made = covariances[10:13]
    found = drift(made, covariances, plan)
    for k, (i, j, lam) in enumerate(zip(plan.i, plan.j, plan.lam, strict=True)):
        ends = covariances[[i, j]]
        log_dets, own = np.linalg.slogdet(ends)[1], np.linalg.slogdet(made[k])[1]
        diagonals = np.trace(ends, axis1=1, axis2=2) / ends.shape[-1]
        weights = [1 - lam, lam]
        assert found.swelling[k] == pytest.approx(own - log_dets.max())
        assert found.log_det[k] == pytest.approx(own - log_dets @ weights)
        assert found.diagonal[k] == pytest.approx(np.trace(made[k]) / ends.shape[-1] - diagonals @ weights)
        assert found.condition[k] == pytest.approx(np.linalg.cond(made[k]) / np.linalg.cond(ends).max())


def test_drift_is_undefined_without_a_determinant_and_refuses_a_plan_of_another_length() -> None:
    parents, halfway = np.stack([np.ones((2, 2)), np.eye(2)]), Plan(i=[0], j=[0], lam=0.5)
    found = drift(parents[:1], parents, halfway)
    assert np.isnan([found.swelling, found.log_det, found.condition]).all()
    assert found.diagonal.tolist() == [0.0]
    with pytest.raises(DataError, match="there are 2 and 1"):
        drift(parents, parents, halfway)


@pytest.mark.usefixtures("_chunked")
@pytest.mark.parametrize("metric", ["euclid", "logeuclid", "riemann"])
@pytest.mark.parametrize("columns", [None, 1, 2])
def test_nearest_is_the_least_of_all_distances(covariances: np.ndarray, metric: str, columns: int | None) -> None:
    some, real = covariances[:5], covariances[2:12]
    every = spd.distance(some[:, None], real[None], metric)
    apart = None if columns is None else every.argsort(1)[:, :columns]
    expected = np.sort(every, axis=1)[:, columns or 0]
    given = apart[:, 0] if columns == 1 and apart is not None else apart
    np.testing.assert_allclose(nearest(some, real, given, metric), expected, atol=1e-6)


def test_nearest_is_euclidean_unless_told_otherwise(covariances: np.ndarray) -> None:
    assert (
        nearest(covariances[:2], covariances[2:]).tolist()
        == nearest(covariances[:2], covariances[2:], metric="euclid").tolist()
    )


@pytest.mark.parametrize("settings", [{}, {"ridge": 10.0}])
def test_groups_are_told_by_ridge_regression_on_edges(x: np.ndarray, settings: dict[str, float]) -> None:
    names = np.array(["north", "south", "west"])[np.arange(12) % 3]
    shift = 0.2 * (names == "west")[:, None, None]
    known, new = x[:12] * (1 - shift) + shift, x[12:]
    row, column = np.triu_indices(x.shape[-1], 1)
    edges, targets = known[:, row, column], (names[:, None] == np.unique(names)).astype(float)
    edges, offset = edges - edges.mean(0), edges.mean(0)
    penalty = settings.get("ridge", 0.01) * (edges**2).sum(1).mean()
    slope = np.linalg.solve(edges.T @ edges + penalty * np.eye(len(row)), edges.T @ (targets - targets.mean(0)))
    expected = ((new[:, row, column] - offset) @ slope + targets.mean(0)).argmax(1)
    told = groups_told(known, names, new, **settings)
    assert told.tolist() == np.unique(names)[expected].tolist()
    assert len(set(told.tolist())) > 1


def test_groups_are_told_by_edges_and_not_by_the_diagonal(x: np.ndarray) -> None:
    names = np.arange(len(x)) % 2
    loud = x + np.eye(x.shape[-1]) * names[:, None, None] * 5
    assert groups_told(loud, names, loud[::-1]).tolist() == groups_told(x, names, x[::-1]).tolist()


def test_triples_rise_and_are_of_four_people() -> None:
    triples = sorted_triples(LABELS, count=700, seed=1)  # more than are drawn at once
    low, middle, high = (LABELS[at] for at in triples[:3])
    assert all(len(part) == 700 for part in triples)
    assert ((low < middle) & (middle < high)).all()
    assert all(len(set(people)) == 4 for people in zip(*triples[:4], strict=True))
    np.testing.assert_allclose((1 - triples.lam) * low + triples.lam * high, middle)
    assert len(np.unique(triples.other)) == len(LABELS)


def test_triples_follow_from_their_seed() -> None:
    one, same, other = (sorted_triples(LABELS, count=50, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(one.low, same.low)
    assert np.array_equal(sorted_triples(LABELS, count=50).low, sorted_triples(LABELS, count=50, seed=0).low)
    assert len(sorted_triples(LABELS).lam) == 1000
    assert not np.array_equal(one.low, other.low)


@pytest.mark.parametrize(
    ("labels", "match"),
    [
        ([[1.0, 2.0, 3.0, 4.0]], "one number a person"),
        ([1.0, 2.0, np.nan, 4.0], "without gaps"),
        ([1.0, 2.0, 3.0], "there are 3 people with 3"),
        ([1.0, 2.0, 2.0, 1.0, 2.0], "there are 5 people with 2"),
    ],
)
def test_triples_need_labels_that_can_rise(labels: list[float], match: str) -> None:
    with pytest.raises(DataError, match=match):
        sorted_triples(labels)


def test_four_people_with_three_labels_are_enough() -> None:
    triples = sorted_triples([1.0, 2.0, 3.0, 3.0], count=20)
    assert set(triples.low) == {0}
    assert set(triples.middle) == {1}
    assert set(triples.high) == set(triples.other) == {2, 3}


def _edges(S: np.ndarray) -> np.ndarray:
    return S[np.triu_indices(len(S), 1)]


BY_HAND = {
    "L1": lambda A, B: np.abs(A - B).sum((1, 2)),
    "L1, edges only": lambda A, B: [2 * np.abs(_edges(a - b)).sum() for a, b in zip(A, B, strict=True)],
    "1 - r over edges": lambda A, B: [1 - np.corrcoef(_edges(a), _edges(b))[0, 1] for a, b in zip(A, B, strict=True)],
    **{name: lambda A, B, name=name: spd.distance(A, B, name) for name in spd.METRICS},
}


def _mixes(S: np.ndarray, triples: Triples, to: np.ndarray) -> dict[str, np.ndarray]:
    low, high, lam = S[triples.low], S[triples.high], triples.lam[:, None, None]
    straight, geodesic = (1 - lam) * low + lam * high, spd.geodesic(low, high, triples.lam)
    traces = np.trace(geodesic, axis1=1, axis2=2) / np.trace(straight, axis1=1, axis2=2)
    return {
        "linear": straight,
        "log-Euclidean": geodesic,
        "linear, scaled": straight * traces[:, None, None],
        "log-Euclidean, unit diagonal": spd.unit_diagonal(geodesic),
        MEAN: np.stack([np.delete(S, one, axis=0).mean(0) for one in to]),
    }


@pytest.mark.usefixtures("_chunked")
def test_label_distances_are_those_of_each_mix_by_hand(covariances: np.ndarray) -> None:
    triples = sorted_triples(LABELS, count=7, seed=3)
    for to in (triples.middle, triples.other):
        found = label_distances(covariances, triples, to)
        assert set(found) == {*MIXES, MEAN}
        for mix, made in _mixes(covariances, triples, to).items():
            assert set(found[mix]) == set(DISTANCES) == set(BY_HAND)
            for name, measure in BY_HAND.items():
                np.testing.assert_allclose(found[mix][name], measure(made, covariances[to]), rtol=1e-6, err_msg=name)


def test_distances_take_networks_of_either_precision(covariances: np.ndarray) -> None:
    triples = Triples(*np.array([[0], [1], [2], [3]]), lam=np.array([0.25]))
    single, double = (label_distances(S, triples, triples.middle) for S in (covariances.astype("f4"), covariances))
    assert single["linear"]["L1"].dtype == np.float64
    np.testing.assert_allclose(single["linear"]["riemann"], double["linear"]["riemann"], rtol=1e-4)
