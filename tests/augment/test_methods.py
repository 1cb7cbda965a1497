"""Every method's formula and promises, on generated networks in both dtypes."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pyriemann.geometry.geodesic import geodesic as peer_geodesic
from scipy import linalg, stats

from rmixup import keys, spd
from rmixup.augment import METHODS, Augmentation, Plan, RMixup, Tangent, as_augmentation
from rmixup.augment.masks import edge_uniforms
from rmixup.spd.metrics import METRICS

from .conftest import correlations

GEOMETRIC = [
    *[as_augmentation(name) for name in ("vmixup", "cmixup", "rmixup", "tangent", "offlog")],
    *[RMixup(metric=name) for name in METRICS if name != "logeuclid"],
    RMixup(unit_diagonal=True),
    Tangent(unit_diagonal=True),
]
UNIT = [
    aug
    for aug in [*GEOMETRIC, *[as_augmentation(name) for name in ("none", "dmixup", "dropnode", "dropedge", "gmixup")]]
    if aug.name not in ("rmixup", "tangent")
    or aug.parameters()["unit_diagonal"]
    or aug.parameters().get("metric") == "euclid"
]
DTYPES = [torch.float32, torch.float64]
TOLERANCE = {torch.float32: 2e-4, torch.float64: 1e-9}


def identify(value: object) -> str:
    if isinstance(value, Augmentation):
        return f"{value.name}-{value.parameters().get('metric', '')}-{value.parameters().get('unit_diagonal', '')}"
    return str(value)


def networks(size: int, nodes: int, seed: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.from_numpy(correlations(size, nodes, seed)).to(dtype)


# Each property runs for a dozen methods in two dtypes.
few = settings(max_examples=max(5, settings().max_examples // 8))
cases = st.tuples(st.integers(4, 9), st.integers(2, 9), st.integers(0, 10**6))
lambdas = st.floats(0, 1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("aug", GEOMETRIC, ids=identify)
@few
@given(case=cases, lam=lambdas)
def test_mixes_are_symmetric_positive_definite_and_exact_at_the_ends(
    aug: Augmentation, dtype: torch.dtype, case: tuple[int, int, int], lam: float
) -> None:
    size, nodes, seed = case
    x = networks(size, nodes, seed, dtype)
    prepared = aug.prepare(x, np.arange(size) / size)
    i, j = np.arange(size), np.roll(np.arange(size), 1)
    made, _ = prepared.apply(Plan(i, j, lam))
    assert made.dtype == dtype
    assert torch.equal(made, made.mT)
    assert torch.linalg.eigvalsh(made.double()).min() > 0
    for end, parent in ((0.0, i), (1.0, j)):
        torch.testing.assert_close(prepared.apply(Plan(i, j, end))[0], x[parent], rtol=0, atol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "aug", [aug for aug in GEOMETRIC if aug.parameters().get("metric") not in ("chol", "logchol")], ids=identify
)
@few
@given(case=cases, lam=lambdas)
def test_mixes_do_not_depend_on_the_order_of_the_nodes(
    aug: Augmentation, dtype: torch.dtype, case: tuple[int, int, int], lam: float
) -> None:
    size, nodes, seed = case
    x, order = networks(size, nodes, seed, dtype), keys.generator(seed, "order").permutation(nodes)
    plan = Plan(np.arange(size), np.roll(np.arange(size), 1), lam)
    moved = x[:, order][:, :, order]
    y = np.arange(size) / size
    expected = aug.prepare(x, y).apply(plan)[0][:, order][:, :, order]
    torch.testing.assert_close(aug.prepare(moved, y).apply(plan)[0], expected, rtol=0, atol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("aug", UNIT, ids=identify)
@few
@given(case=cases, seed=st.integers(0, 10**6))
def test_diagonals_are_one_where_promised(
    aug: Augmentation, dtype: torch.dtype, case: tuple[int, int, int], seed: int
) -> None:
    size, nodes, which = case
    made, _ = aug(networks(size, nodes, which, dtype), np.arange(size) / size, seed=seed)
    ones = torch.ones(size, nodes, dtype=dtype)
    torch.testing.assert_close(made.diagonal(dim1=1, dim2=2), ones, rtol=0, atol=8 * torch.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", METHODS)
@few
@given(case=cases, seed=st.integers(0, 10**6), order=st.randoms(use_true_random=False))
def test_labels_stay_in_the_hull_and_the_order_of_a_batch_does_not_matter(
    name: str, dtype: torch.dtype, case: tuple[int, int, int], seed: int, order: object
) -> None:
    size, nodes, which = case
    x, codes = networks(size, nodes, which, dtype), np.arange(size) % 2
    for y in (codes, np.linspace(-3, 9, size), np.stack([np.linspace(0, 1, size), np.arange(size) ** 2.0], 1)):
        prepared = as_augmentation(name).prepare(x, y)
        batch = list(range(size))
        order.shuffle(batch)  # type: ignore[attr-defined]
        whole, moved = prepared.draw(np.arange(size), seed), prepared.draw(batch, seed)
        assert np.array_equal(whole.j[batch], moved.j)
        made, labels = prepared.apply(moved)
        torch.testing.assert_close(made, prepared.apply(whole)[0][batch], rtol=0, atol=TOLERANCE[dtype])
        assert (labels >= prepared.y.amin(0) - 1e-5).all()
        assert (labels <= prepared.y.amax(0) + 1e-5).all()
        lam = torch.from_numpy(moved.lam).to(dtype).view(-1, *[1] * (labels.ndim - 1))
        expected = (1 - lam) * prepared.y[moved.i] + lam * prepared.y[moved.j]
        torch.testing.assert_close(labels, expected, rtol=1e-5, atol=1e-5)
    assert labels.dtype == dtype
    soft = as_augmentation(name).prepare(x, codes).apply(whole)[1]
    torch.testing.assert_close(soft.sum(1), torch.ones(size, dtype=dtype), rtol=0, atol=1e-6)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("lam", [0.0, 0.3, 1.0])
def test_rmixup_is_the_peers_geodesic(x: np.ndarray, metric: str, lam: float) -> None:
    plan = Plan([0, 5], [1, 7], lam)
    made = RMixup(metric=metric).prepare(x, np.arange(20.0)).apply(plan)[0].numpy()
    peer = {"logeuclid": "logeuclid", "riemann": "riemann", "euclid": "euclid", "wasserstein": "wasserstein",
            "chol": "chol", "logchol": "logchol"}[metric]  # fmt: skip
    np.testing.assert_allclose(made, peer_geodesic(x[plan.i], x[plan.j], lam, metric=peer), atol=1e-8)


def test_rmixup_is_the_formula_of_the_paper(x: np.ndarray) -> None:
    expected = linalg.expm(0.7 * linalg.logm(x[2]) + 0.3 * linalg.logm(x[9]))
    made = RMixup().prepare(x, np.arange(20.0)).apply(Plan([2], [9], 0.3))[0][0].numpy()
    np.testing.assert_allclose(made, expected, atol=1e-10)


def test_float32_networks_are_mixed_as_exactly_as_float32_allows(x: np.ndarray) -> None:
    plan = Plan(np.arange(20), np.roll(np.arange(20), 3), 0.4)
    exact = RMixup().prepare(x, np.arange(20.0)).apply(plan)[0]
    made = RMixup().prepare(x.astype(np.float32), np.arange(20.0)).apply(plan)[0]
    assert (made.double() - exact).abs().max() < 3e-6


@pytest.mark.parametrize("name", ["riemann", "logeuclid", "euclid"])
def test_tangent_mixes_at_the_training_mean(x: np.ndarray, name: str) -> None:
    prepared = Tangent(mean=name).prepare(x, np.arange(20.0))
    mean = spd.mean(x, name)
    root = linalg.sqrtm(mean)
    inverse = np.linalg.inv(root)
    logs = [linalg.logm(inverse @ x[k] @ inverse) for k in (3, 8)]
    expected = root @ linalg.expm(0.2 * logs[0] + 0.8 * logs[1]) @ root
    np.testing.assert_allclose(prepared.apply(Plan([3], [8], 0.8))[0][0].numpy(), expected, atol=1e-9)


@pytest.mark.parametrize("name", ["none", "dropnode", "dropedge"])
def test_who_is_not_mixed_is_his_own_partner_with_no_weight(x: np.ndarray, name: str) -> None:
    plan = METHODS[name]().prepare(x, np.arange(20.0)).draw(np.array([3, 8, 11]), 0)
    assert plan.i.tolist() == plan.j.tolist() == [3, 8, 11]
    assert plan.lam.tolist() == [0.0, 0.0, 0.0]


def test_offlog_is_the_geodesic_of_spd(x: np.ndarray) -> None:
    made = METHODS["offlog"]().prepare(x, np.arange(20.0)).apply(Plan([3], [8], 0.25))[0][0].numpy()
    np.testing.assert_allclose(made, spd.geodesic(x[3], x[8], 0.25, metric="offlog"), atol=1e-9)


def test_dmixup_takes_each_edge_from_one_parent_with_probability_lambda() -> None:
    x = np.stack([np.zeros((60, 60)), np.ones((60, 60))])
    made = METHODS["dmixup"]().prepare(x, [0, 1]).apply(Plan([0] * 8, [1] * 8, 0.3, words=np.arange(8)))[0].numpy()
    assert set(np.unique(made)) == {0.0, 1.0}
    edges = made[:, *np.triu_indices(60)]
    assert abs(edges.mean() - 0.3) < 4 * np.sqrt(0.21 / edges.size)
    assert len({row.tobytes() for row in edges}) == 8
    for end in (0, 1):
        ends = METHODS["dmixup"]().prepare(x, [0, 1]).apply(Plan([0], [1], end, words=[5]))[0]
        assert (ends == end).all()


def test_dropnode_drops_the_expected_number_of_nodes_and_keeps_diagonals() -> None:
    aug = METHODS["dropnode"](rate=0.25)
    made = aug(np.ones((40, 50, 50)), np.arange(40.0), seed=1)[0]
    assert (np.diagonal(made, axis1=1, axis2=2) == 1).all()
    dropped = made.sum(axis=2) == 1
    assert abs(dropped.mean() - 0.25) < 4 * np.sqrt(0.25 * 0.75 / dropped.size)
    kept = ~dropped
    expected = (kept[:, :, None] & kept[:, None, :]) | np.eye(50, dtype=bool)
    assert np.array_equal(made, expected)
    assert len({row.tobytes() for row in dropped}) == 40


def test_dropedge_drops_the_expected_number_of_edges() -> None:
    made = METHODS["dropedge"](rate=0.1)(np.ones((30, 40, 40)), np.arange(30.0), seed=2)[0]
    assert np.array_equal(made, made.swapaxes(1, 2))
    assert (np.diagonal(made, axis1=1, axis2=2) == 1).all()
    dropped = made[:, *np.triu_indices(40, 1)] == 0
    assert abs(dropped.mean() - 0.1) < 4 * np.sqrt(0.09 / dropped.size)


def test_nothing_dropped_at_rate_zero(x: np.ndarray, codes: np.ndarray) -> None:
    for name in ("dropnode", "dropedge"):
        assert np.array_equal(METHODS[name](rate=0.0)(x, codes)[0], x)


@few
@given(lam=lambdas)
def test_gmixup_has_the_mixed_mean_and_deviation_of_the_classes(lam: float) -> None:
    rng = keys.generator(4, "gmixup")
    y = np.arange(60) % 3
    x = _symmetric(rng.normal(0.1 * y[:, None], 0.02 * (1 + y[:, None]), (60, 6)))
    aug = METHODS["gmixup"]()
    prepared = aug.prepare(x, y)
    plan = Plan(np.full(4000, 1), np.full(4000, 2), lam, words=np.arange(4000))
    made = prepared.apply(plan)[0].numpy()
    assert np.array_equal(made, made.swapaxes(1, 2))
    mean = (1 - lam) * x[y == 1].mean(0) + lam * x[y == 2].mean(0)
    deviation = (1 - lam) * x[y == 1].std(0, ddof=1) + lam * x[y == 2].std(0, ddof=1)
    off = ~np.eye(4, dtype=bool)
    assert (np.abs(made.mean(0) - mean)[off] < 5 * deviation[off] / np.sqrt(4000)).all()
    np.testing.assert_allclose(made.std(0)[off], deviation[off], rtol=0.08)


def test_gmixup_estimates_each_deviation_from_its_own_class_however_small() -> None:
    x, y = correlations(6, 4), np.array([0, 0, 1, 1, 1, 1])
    deviation = METHODS["gmixup"]().prepare(x, y).fitted["deviation"].reshape(2, -1)
    rows, columns = np.tril_indices(4)
    for k in (0, 1):
        np.testing.assert_allclose(deviation[k], x[y == k].std(0, ddof=1)[rows, columns], atol=1e-12)


@pytest.mark.parametrize("metric", spd.METRICS)
def test_only_flat_geometries_never_wait_for_the_device(metric: str) -> None:
    assert RMixup(metric=metric).capturable is (metric not in ("riemann", "wasserstein"))


@pytest.mark.parametrize("lam", [0.0, 0.35, 1.0])
def test_gmixup_regression_is_the_conditional_normal(lam: float) -> None:
    rng = keys.generator(5, "gmixup")
    y = rng.normal(40, 12, 80)
    edges = 0.004 * (y[:, None] - 40) * np.linspace(-1, 1, 6) + rng.normal(0, 0.05, (80, 6))
    x = _symmetric(edges)
    made = (
        METHODS["gmixup"]().prepare(x, y).apply(Plan(np.full(6000, 3), np.full(6000, 4), lam, words=np.arange(6000)))[0]
    )
    target = (1 - lam) * y[3] + lam * y[4]
    rho = np.array([[stats.pearsonr(x[:, p, q], y)[0] if p != q else 0.0 for q in range(4)] for p in range(4)])
    sigma = x.std(0, ddof=1)
    mean = x.mean(0) + sigma / y.std(ddof=1) * rho * (target - y.mean())
    deviation = np.sqrt(1 - rho**2) * sigma
    off = ~np.eye(4, dtype=bool)
    assert (np.abs(made.numpy().mean(0) - mean)[off] < 5 * deviation[off] / np.sqrt(6000)).all()
    np.testing.assert_allclose(made.numpy().std(0)[off], deviation[off], rtol=0.06)


def test_gmixup_with_several_targets_is_the_least_squares_plane() -> None:
    rng = keys.generator(6, "gmixup")
    y = rng.normal(0, (1, 10), (70, 2))
    slopes = rng.normal(0, 0.02, (2, 6))
    x = _symmetric(y @ slopes + 0.1)
    made = METHODS["gmixup"]().prepare(x, y).apply(Plan([2, 3], [9, 1], [0.3, 0.8], words=[1, 2]))
    assert made[1].shape == (2, 2)
    off = np.triu_indices(4, 1)
    np.testing.assert_allclose(made[0].numpy()[:, *off], made[1].numpy() @ slopes + 0.1, atol=1e-9)


def test_gmixup_clips_correlations_and_nothing_else() -> None:
    x = _symmetric(keys.generator(7, "clip").normal(0, 0.6, (50, 6)).clip(-1, 1))
    plan = Plan(np.zeros(500, int), np.ones(500, int), 0.5, words=np.arange(500))
    correlated = METHODS["gmixup"]().prepare(x, np.arange(50) % 2).apply(plan)[0]
    assert correlated.abs().max() == 1
    assert METHODS["gmixup"]().prepare(3 * x, np.arange(50) % 2).apply(plan)[0].abs().max() > 3


def _symmetric(edges: np.ndarray) -> np.ndarray:
    """Four nodes from six edges, unit diagonal."""
    x = np.tile(np.eye(4), (len(edges), 1, 1))
    row, column = np.triu_indices(4, 1)
    x[:, row, column] = x[:, column, row] = edges
    return x


def test_masks_are_symmetric_and_each_edge_has_its_own_number() -> None:
    from rmixup.augment.bank import triangle

    u = edge_uniforms(torch.tensor([1, 2]), 5, triangle(5))
    assert torch.equal(u, u.mT)
    assert len(u[0].unique()) == 15
    assert not torch.equal(u[0], u[1])


@pytest.mark.parametrize("alpha", [0.2, 1.0, 3.0])
def test_lambda_is_beta(x: np.ndarray, alpha: float) -> None:
    prepared = as_augmentation("vmixup", alpha=alpha, per="pair").prepare(x, np.arange(20.0))
    lam = np.concatenate([prepared.draw(np.arange(20), (0, step)).lam for step in range(100)])
    assert stats.kstest(lam, stats.beta(alpha, alpha).cdf).pvalue > 1e-3
    batch = as_augmentation("vmixup", alpha=alpha).prepare(x, np.arange(20.0))
    drawn = [batch.draw(np.arange(20), (0, step)).lam for step in range(600)]
    assert all(len(set(lam)) == 1 for lam in drawn)
    assert stats.kstest([lam[0] for lam in drawn], stats.beta(alpha, alpha).cdf).pvalue > 1e-3


def test_the_raw_door_gives_back_what_came(x: np.ndarray, codes: np.ndarray) -> None:
    for name in METHODS:
        made, labels = as_augmentation(name)(x, codes, seed=3)
        assert isinstance(made, np.ndarray)
        assert isinstance(labels, np.ndarray)
        tensors = as_augmentation(name)(torch.from_numpy(x), torch.from_numpy(codes), seed=3)
        assert np.array_equal(tensors[0].numpy(), made)
        assert np.array_equal(tensors[1].numpy(), labels)
        again = as_augmentation(name)(x, codes, seed=4)[0]
        assert np.array_equal(made, again) == (name == "none")
    assert as_augmentation("vmixup")(x, codes, n_classes=5)[1].shape == (20, 5)
    with torch.enable_grad():
        tracked = torch.from_numpy(x).clone().requires_grad_()
        assert not as_augmentation("rmixup")(tracked, codes)[0].requires_grad


@pytest.mark.parametrize("name", METHODS)
def test_raw_batches_of_one_and_of_odd_size_work(x: np.ndarray, codes: np.ndarray, name: str) -> None:
    for size in (1, 3):
        made, labels = as_augmentation(name)(x[:size], codes[:size], seed=0, n_classes=2)
        assert made.shape == (size, 7, 7)
        assert labels.shape == (size, 2)
        assert np.isfinite(made).all()
    one, label = as_augmentation(name)(x[:1], [2.5], seed=0)
    assert label == 2.5
    if name not in ("dropnode", "dropedge"):
        np.testing.assert_allclose(one[0], x[0], atol=1e-9)
