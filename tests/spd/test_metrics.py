"""Geodesics, distances and means: published identities on generated matrices, parity with independent libraries."""

import warnings
from typing import NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from pyriemann.geometry import distance as their_distance
from pyriemann.geometry import geodesic as their_geodesic
from pyriemann.geometry import mean as their_mean
from scipy import linalg

from rmixup.errors import NotSPDError
from rmixup.spd import metrics
from rmixup.spd.metrics import METRICS, Metric

with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
    # geomstats 2.8 uses an import hook that Python deprecates and a name that NumPy 2.4 dropped.
    warnings.simplefilter("ignore", (ImportWarning, DeprecationWarning))
    patch.setattr(np, "trapz", getattr(np, "trapezoid", None), raising=False)
    from geomstats.geometry import spd_matrices as theirs

EPS = torch.finfo(torch.float64).eps
ALL = sorted(METRICS)
FLAT = sorted(name for name, metric in METRICS.items() if metric.chart)
EQUIVARIANT = sorted(name for name, metric in METRICS.items() if not metric.node_order)
LOG_LINEAR = ["logchol", "logeuclid", "riemann"]


def spd(n: int, log10_condition: float, seed: int, repeated: bool = False) -> torch.Tensor:
    """A matrix with a given condition number, its eigenvalues spread evenly in the logarithm or in two groups."""
    generator = torch.Generator().manual_seed(seed)
    Q = torch.linalg.qr(torch.randn(n, n, generator=generator, dtype=torch.float64)).Q
    w = torch.logspace(-log10_condition, 0, n, dtype=torch.float64) if n > 1 else torch.ones(1, dtype=torch.float64)
    if repeated:
        w = torch.where(torch.arange(n) < n // 2, w[0], w[-1])
    return (Q * w) @ Q.T / 2 + ((Q * w) @ Q.T).T / 2


class Recipe(NamedTuple):
    """What a generated matrix is made from: a failing example prints this instead of its entries."""

    n: int
    log10_condition: float
    seed: int
    repeated: bool


@st.composite
def recipes(draw: st.DrawFn, count: int = 2, most: float = 12, sizes: tuple[int, int] = (1, 64)) -> list[Recipe]:
    n = draw(st.integers(*sizes))
    each = st.tuples(st.floats(0, most), st.integers(0, 2**31), st.booleans())
    return [Recipe(n, *made) for made in draw(st.lists(each, min_size=count, max_size=count))]


def build(made: list[Recipe]) -> list[torch.Tensor]:
    return [spd(*recipe) for recipe in made]


def condition(*some: torch.Tensor) -> float:
    return max(float(torch.linalg.cond(S)) for S in some)


def assert_near(got: torch.Tensor, wanted: torch.Tensor, tolerance: float) -> None:
    scale = float(torch.linalg.matrix_norm(wanted).max())
    assert float(torch.linalg.matrix_norm(got - wanted).max()) <= tolerance * max(scale, EPS)


positions = st.floats(0, 1)


@pytest.mark.parametrize("name", ALL)
@given(pair=recipes(), t=positions)
def test_geodesic_properties(name: str, pair: list[Recipe], t: float) -> None:
    A, B = build(pair)
    geodesic = METRICS[name].geodesic
    C = geodesic(A, B, t)
    # Rounding in the smallest eigenvalue is amplified at most by the condition number's root.
    tolerance = 1e-11 * condition(A, B) ** 0.5
    assert_near(geodesic(A, B, 0.0), A, tolerance)
    assert_near(geodesic(A, B, 1.0), B, tolerance)
    assert_near(geodesic(B, A, 1 - t), C, tolerance)
    assert torch.equal(C, C.mT)
    w = torch.linalg.eigvalsh(C)
    assert float(w[0]) > -len(w) * EPS * float(w[-1])


@pytest.mark.parametrize("name", ALL)
@given(pair=recipes(most=6), t=positions)
def test_mixes_of_matrices_above_rounding_are_positive_definite(name: str, pair: list[Recipe], t: float) -> None:
    C = METRICS[name].geodesic(*build(pair), t)
    assert int(torch.linalg.cholesky_ex(C).info) == 0


@pytest.mark.parametrize("name", EQUIVARIANT)
@given(pair=recipes(most=8), t=positions, seed=st.integers(0, 1000))
def test_renumbering_the_nodes_renumbers_the_result(name: str, pair: list[Recipe], t: float, seed: int) -> None:
    order = torch.randperm(pair[0].n, generator=torch.Generator().manual_seed(seed))
    A, B = (S[order][:, order] for S in build(pair))
    assert_near(METRICS[name].geodesic(A, B, t), METRICS[name].geodesic(*build(pair), t)[order][:, order], 1e-7)


def test_cholesky_geometries_can_be_worse_conditioned_than_both_ends() -> None:
    A, B = spd(31, 6, 1, repeated=True), spd(31, 6, 2, repeated=True)
    middle = {name: condition(METRICS[name].geodesic(A, B, 0.5)) for name in ALL}
    assert min(middle["chol"], middle["logchol"]) > 10 * condition(A, B)
    assert max(middle[name] for name in EQUIVARIANT) < 1.1 * condition(A, B)


def test_cholesky_geometries_are_known_to_depend_on_node_order() -> None:
    A, B = spd(6, 2, 1), spd(6, 2, 2)
    for name in set(ALL) - set(EQUIVARIANT):
        reordered = METRICS[name].geodesic(A.flip(0, 1), B.flip(0, 1), 0.5).flip(0, 1)
        assert not torch.allclose(reordered, METRICS[name].geodesic(A, B, 0.5), rtol=1e-3)


@pytest.mark.parametrize("name", LOG_LINEAR)
@given(pair=recipes(most=8), t=positions)
@example(pair=[Recipe(40, 6.2, 14698, repeated=True), Recipe(40, 4.3, 8529, repeated=False)], t=0.3)
def test_log_determinant_is_linear(name: str, pair: list[Recipe], t: float) -> None:
    A, B = build(pair)
    C = METRICS[name].geodesic(A, B, t)
    line = (1 - t) * A.logdet() + t * B.logdet()
    # A matrix rounded by E has a log-determinant moved by tr(E/C), at most n·ε·condition. That of the mix counts too:
    # Cholesky geometries can make it worse than those of both ends.
    assert float((C.logdet() - line).abs()) <= 10 * len(A) * EPS * condition(A, B, C)


@given(pair=recipes(most=8), t=positions)
def test_straight_line_never_has_less_determinant_than_the_log_euclidean(pair: list[Recipe], t: float) -> None:
    straight, curved = (METRICS[name].geodesic(*build(pair), t).logdet() for name in ("euclid", "logeuclid"))
    assert float(straight - curved) >= -1e-6 * pair[0].n


@pytest.mark.parametrize("name", FLAT)
@given(pair=recipes(most=3), t=positions)
def test_flat_geodesics_are_straight_in_their_chart(name: str, pair: list[Recipe], t: float) -> None:
    metric = METRICS[name]
    assert metric.chart is not None
    a, b = (metric.chart(S) for S in build(pair))
    got = metric.chart(metric.geodesic(*build(pair), t))
    assert float((got - ((1 - t) * a + t * b)).abs().max()) <= 1e-7 * max(1.0, float(a.abs().max()))


@pytest.mark.parametrize("name", ALL)
@given(three=recipes(count=3, most=6))
def test_distance_is_a_metric(name: str, three: list[Recipe]) -> None:
    A, B, C = build(three)
    distance = METRICS[name].distance
    ab, bc, ac = (float(distance(*pair)) for pair in ((A, B), (B, C), (A, C)))
    scale = max(ab, bc, ac, 1.0)
    assert ac <= ab + bc + 1e-9 * scale
    assert abs(float(distance(B, A)) - ab) <= 1e-8 * scale
    assert float(distance(A, A)) <= 1e-7
    assert ab >= 0


@pytest.mark.parametrize("name", ALL)
@given(pair=recipes(most=5, sizes=(1, 24)), t=positions)
def test_distance_grows_linearly_along_its_geodesic(name: str, pair: list[Recipe], t: float) -> None:
    metric = METRICS[name]
    whole = float(metric.distance(*build(pair)))
    part = float(metric.distance(build(pair)[0], metric.geodesic(*build(pair), t)))
    assert abs(part - t * whole) <= 1e-6 * max(whole, 1.0)


@pytest.mark.parametrize("name", ALL)
@given(pair=recipes(most=6, sizes=(1, 24)))
def test_mean_of_one_is_itself_and_of_two_the_midpoint(name: str, pair: list[Recipe]) -> None:
    metric = METRICS[name]
    A, B = build(pair)
    assert_near(metric.mean(A[None]), A, 1e-9)
    assert_near(metric.mean(torch.stack([A, A, A])), A, 1e-9)
    assert_near(metric.mean(torch.stack([A, B])), metric.geodesic(A, B, 0.5), 1e-7)
    assert_near(metric.mean(torch.stack([A, B]), torch.tensor([3.0, 1.0])), metric.geodesic(A, B, 0.25), 1e-7)


@given(pair=recipes(most=6, sizes=(2, 24)), seed=st.integers(0, 1000))
def test_riemann_is_invariant_under_congruence(pair: list[Recipe], seed: int) -> None:
    A, B = build(pair)
    X = spd(len(A), 1, seed) + torch.triu(torch.ones_like(A), 1)
    distance = METRICS["riemann"].distance
    moved = float(distance(X @ A @ X.T, X @ B @ X.T))
    assert abs(moved - float(distance(A, B))) <= 1e-5 * max(1.0, moved)


# pyRiemann 0.12 calls a deprecated name of array-api-extra.
@pytest.mark.filterwarnings("ignore:.*expand_dims:DeprecationWarning")
@pytest.mark.parametrize("name", ALL)
def test_parity_with_pyriemann(name: str) -> None:
    S = torch.stack([spd(12, c, seed) for seed, c in enumerate((1.0, 2.0, 3.0, 2.0, 1.0, 3.0))])
    A, B, t, weights = S[:3], S[3:], torch.tensor([0.1, 0.5, 0.8]).double(), torch.arange(1.0, 7.0).double()
    metric, X = METRICS[name], S.numpy()
    options = {"tol": 1e-13, "maxiter": 500} if metric.chart is None else {}
    for got, wanted in (
        (metric.geodesic(A, B, t), their_geodesic.geodesic(A.numpy(), B.numpy(), t.numpy(), metric=name)),
        (metric.distance(A, B), their_distance.distance(A.numpy(), B.numpy(), metric=name)),
        (metric.mean(S), _their_mean(name, X, None, options)),
        (metric.mean(S, weights), _their_mean(name, X, weights.numpy(), options)),
    ):
        np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-8, atol=1e-8 * np.abs(wanted).max())


def _their_mean(name: str, X: np.ndarray, weights: np.ndarray | None, options: dict[str, float]) -> np.ndarray:
    with warnings.catch_warnings():
        # A tolerance near rounding, so that ours is compared with theirs and not with their stopping rule.
        warnings.filterwarnings("ignore", message="Convergence not reached")
        return their_mean.mean_functions[name](X, sample_weight=weights, **options)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("riemann", theirs.SPDAffineMetric),
        ("wasserstein", theirs.SPDBuresWassersteinMetric),
        ("logeuclid", theirs.SPDLogEuclideanMetric),
    ],
)
def test_parity_with_geomstats(name: str, kind: type) -> None:
    A, B = spd(5, 2, 1), spd(5, 3, 2)
    peer = kind(theirs.SPDMatrices(5, equip=False))
    wanted = peer.dist(A.numpy(), B.numpy())
    np.testing.assert_allclose(float(METRICS[name].distance(A, B)), wanted, rtol=1e-8)
    path = peer.geodesic(initial_point=A.numpy(), end_point=B.numpy())
    np.testing.assert_allclose(METRICS[name].geodesic(A, B, 0.3).numpy(), path(0.3).reshape(5, 5), rtol=1e-7, atol=1e-9)


def test_parity_with_scipy() -> None:
    A, B = spd(7, 2, 3), spd(7, 2, 4)
    a, b = A.numpy(), B.numpy()
    half = linalg.sqrtm(a)
    back = linalg.inv(half)
    wanted = {
        "logeuclid": linalg.expm(0.7 * linalg.logm(a) + 0.3 * linalg.logm(b)),
        "riemann": half @ linalg.fractional_matrix_power(back @ b @ back, 0.3) @ half,
        "wasserstein": 0.49 * a + 0.09 * b + 0.21 * (linalg.sqrtm(a @ b) + linalg.sqrtm(b @ a)),
    }
    for name, C in wanted.items():
        np.testing.assert_allclose(METRICS[name].geodesic(A, B, 0.3).numpy(), C, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", ALL)
def test_batches_positions_and_dtypes(name: str) -> None:
    A = torch.stack([spd(4, 1, seed) for seed in range(6)]).reshape(2, 3, 4, 4)
    B = spd(4, 2, 9)
    t = torch.linspace(0, 1, 3)
    metric = METRICS[name]
    batch = metric.geodesic(A, B, t)
    assert batch.shape == A.shape
    torch.testing.assert_close(batch[1, 2], metric.geodesic(A[1, 2], B, 1.0), rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(metric.geodesic(B, A[0, 0], t)[1], metric.geodesic(B, A[0, 0], 0.5))
    assert metric.distance(A, B).shape == (2, 3)
    means = metric.mean(A)
    assert means.shape == (2, 4, 4)
    torch.testing.assert_close(means[1], metric.mean(A[1]), rtol=1e-8, atol=1e-10)
    single = metric.geodesic(A.float(), B.float(), 0.5)
    assert single.dtype == metric.mean(A.float()).dtype == metric.distance(A.float(), B.float()).dtype == torch.float32
    torch.testing.assert_close(single.double(), metric.geodesic(A, B, 0.5), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("seed", [None, 1])
def test_gradients_also_at_repeated_eigenvalues(name: str, seed: int | None) -> None:
    eye = torch.eye(3, dtype=torch.float64)
    A, B = (2 * eye, 3 * eye) if seed is None else (spd(3, 1, seed), spd(3, 1, seed + 1))
    t = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    metric = METRICS[name]

    def mix(A: torch.Tensor, B: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return metric.geodesic((A + A.mT) / 2, (B + B.mT) / 2, t)

    def apart(A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        return metric.distance((A + A.mT) / 2, (B + B.mT) / 2)

    A, B = A.clone().requires_grad_(), B.clone().requires_grad_()
    assert torch.autograd.gradcheck(mix, (A, B, t))
    assert torch.autograd.gradcheck(apart, (A, B))


def test_gradient_of_one_pair_at_many_positions() -> None:
    A, B = (spd(3, 1, seed).requires_grad_() for seed in (1, 2))
    t = torch.tensor([0.2, 0.6], dtype=torch.float64, requires_grad=True)
    for name in ("riemann", "wasserstein"):
        assert torch.autograd.gradcheck(
            lambda A, B, t, name=name: METRICS[name].geodesic((A + A.mT) / 2, (B + B.mT) / 2, t), (A, B, t)
        )


@pytest.mark.parametrize("name", ALL)
def test_singular_matrices_are_taken_or_refused_as_announced(name: str) -> None:
    X = torch.randn(3, 6, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    S = X @ X.mT
    metric = METRICS[name]
    if metric.full_rank:
        with pytest.raises(NotSPDError, match="matrix 1"):
            metric.geodesic(torch.stack([torch.eye(6, dtype=torch.float64), S[0]]), spd(6, 1, 0), 0.5)
        with pytest.raises(NotSPDError):
            metric.mean(S)
        return
    C = metric.geodesic(S[0], S[1], 0.5)
    assert float(torch.linalg.eigvalsh(C)[0]) >= -1e-12
    assert_near(metric.geodesic(S[0], S[1], 1.0), S[1], 1e-12)
    assert_near(metric.geodesic(S[1], S[0], 0.5), C, 1e-12)
    assert torch.isfinite(metric.mean(S)).all()
    # The rounding of float32 makes such matrices indefinite by a little, which is no reason to refuse them.
    assert_near(metric.geodesic(S[0].float(), S[1].float(), 0.5).double(), C, 1e-5)


def test_wasserstein_refuses_what_is_not_positive_semidefinite() -> None:
    with pytest.raises(NotSPDError, match="matrix 1 has 1 of 2 eigenvalues"):
        METRICS["wasserstein"].geodesic(
            torch.stack([torch.eye(2), torch.diag(torch.tensor([1.0, -0.1]))]), torch.eye(2), 0.5
        )


def test_wasserstein_keeps_its_digits_where_the_textbook_formula_loses_them() -> None:
    A, B = spd(20, 12, 1), spd(20, 12, 2)
    exact = METRICS["wasserstein"].geodesic(A, B, 0.5)
    noisy = METRICS["wasserstein"].geodesic(A + 1e-16, B, 0.5)
    assert_near(noisy, exact, 1e-7)
    assert float(METRICS["wasserstein"].distance(A, A)) <= 1e-7


@pytest.mark.parametrize("name", ["riemann", "wasserstein"])
@given(some=recipes(count=5, most=6, sizes=(1, 16)))
def test_curved_means_solve_their_equation(name: str, some: list[Recipe]) -> None:
    M = METRICS[name].mean(torch.stack(build(some))).numpy()
    half = _function(M, np.sqrt)
    if name == "riemann":
        back = np.linalg.inv(half)
        logs = [_function(back @ X.numpy() @ back, np.log) for X in build(some)]
        assert np.linalg.norm(np.mean(logs, axis=0)) <= 1e-6 * max(1.0, np.linalg.norm(logs))
    else:
        again = np.mean([_function(half @ X.numpy() @ half, np.sqrt) for X in build(some)], axis=0)
        np.testing.assert_allclose(again, M, atol=1e-7 * np.abs(M).max())


def _function(S: np.ndarray, f: np.ufunc) -> np.ndarray:
    w, V = np.linalg.eigh((S + S.T) / 2)
    return (V * f(np.maximum(w, 1e-300))) @ V.T


def test_a_mean_that_does_not_converge_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "MAX_ITERATIONS", 1)
    with pytest.warns(RuntimeWarning, match="riemann mean has not converged after 1 iterations"):
        METRICS["riemann"].mean(torch.stack([spd(5, 4, 1), spd(5, 4, 2), spd(5, 4, 3)]))


def test_a_mean_stops_when_rounding_keeps_it_from_getting_closer(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = []
    monkeypatch.setattr(metrics, "_curvature", lambda logs: steps.append(1) or torch.full_like(logs[..., 0], 4.0))
    monkeypatch.setattr(metrics, "STEP_OVER_EPS", 0.0)
    METRICS["riemann"].mean(torch.stack([spd(6, 2, seed) for seed in range(4)]))
    assert len(steps) < metrics.MAX_ITERATIONS / 2


def test_the_registry_says_what_each_geometry_does() -> None:
    assert ALL == ["chol", "euclid", "logchol", "logeuclid", "riemann", "wasserstein"]
    assert all(isinstance(metric, Metric) for metric in METRICS.values())
    assert {name for name in ALL if METRICS[name].swells} == {"euclid", "chol", "wasserstein"}
    assert {name for name in ALL if not METRICS[name].full_rank} == {"euclid", "wasserstein"}
