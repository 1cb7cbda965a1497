"""Kernel and geodesic regression in log coordinates, against scikit-learn, SciPy and their definitions."""

import math

import numpy as np
import pytest
import torch
from scipy import linalg
from sklearn.gaussian_process.kernels import RBF
from sklearn.kernel_ridge import KernelRidge as TheirRidge
from sklearn.linear_model import LinearRegression, Ridge

from rmixup import spd
from rmixup.errors import DataError
from rmixup.spd.kernel import geodesic_regression, geodesic_trend, heat_kernel, kernel_ridge, log_heat_kernel
from rmixup.spd.metrics import METRICS


def networks(count: int, n: int = 5, seed: int = 0) -> torch.Tensor:
    X = np.random.default_rng(seed).normal(size=(count, n, 3 * n))
    return torch.from_numpy(X @ X.transpose(0, 2, 1) / (3 * n))


def logs(S: torch.Tensor) -> np.ndarray:
    return np.stack([linalg.logm(matrix).real.ravel() for matrix in S.numpy()])


def test_kernel_is_the_gaussian_of_scikit_learn_on_logs() -> None:
    A, B, sigma = networks(7), networks(4, seed=1), 0.8
    wanted = RBF(length_scale=(2 * sigma) ** 0.5)(logs(A), logs(B))
    np.testing.assert_allclose(heat_kernel(A, B, sigma).numpy(), wanted, rtol=1e-8)
    normaliser = (4 * math.pi * sigma) ** (-15 / 2)
    np.testing.assert_allclose(heat_kernel(A, B, sigma, normalized=True).numpy(), normaliser * wanted, rtol=1e-8)


def test_kernel_integrates_to_one_and_solves_the_heat_equation_in_one_dimension() -> None:
    x = torch.linspace(-12, 12, 4001, dtype=torch.float64)
    S, origin = x.exp()[:, None, None], torch.ones(1, 1, 1, dtype=torch.float64)
    k, later = (heat_kernel(S, origin, sigma, normalized=True)[:, 0] for sigma in (0.5, 0.501))
    assert float(torch.trapezoid(k, x)) == pytest.approx(1, abs=1e-10)
    second = torch.gradient(torch.gradient(k, spacing=(x,))[0], spacing=(x,))[0]
    torch.testing.assert_close(((later - k) / 0.001)[5:-5], second[5:-5], atol=2e-3, rtol=0)


def test_the_logarithm_stays_finite_where_the_kernel_cannot() -> None:
    S = networks(3, n=60)
    for sigma in (1e-4, 1e3):
        assert bool(log_heat_kernel(S, S, sigma).isfinite().all())
    assert float(heat_kernel(S, S, 1e3, normalized=True).max()) == 0


def test_kernel_is_positive_definite_with_ones_on_its_diagonal() -> None:
    S = networks(30)
    K = heat_kernel(S, S, 1.0)
    assert float(torch.linalg.eigvalsh(K)[0]) > 0
    torch.testing.assert_close(K.diagonal(), torch.ones(30).double())


@pytest.mark.parametrize("outputs", [(), (3,)])
def test_kernel_ridge_is_scikit_learns(outputs: tuple[int, ...]) -> None:
    S, new = networks(25), networks(6, seed=2)
    y = torch.from_numpy(np.random.default_rng(3).normal(size=(25, *outputs)))
    ours = kernel_ridge(S, y, sigma=0.7, ridge=0.1)
    theirs = TheirRidge(kernel="rbf", gamma=1 / (4 * 0.7), alpha=0.1).fit(logs(S), y.numpy())
    np.testing.assert_allclose(ours.predict(new).numpy(), theirs.predict(logs(new)), rtol=1e-8, atol=1e-10)
    assert repr(ours) == "KernelRidge(25 networks, sigma=0.7)"


def test_kernel_ridge_without_ridge_returns_the_labels() -> None:
    S, y = networks(12), torch.arange(12.0)
    torch.testing.assert_close(kernel_ridge(S, y, ridge=0.0).predict(S), y.double(), rtol=1e-8, atol=1e-8)


def test_the_default_time_is_a_quarter_of_the_median_squared_distance() -> None:
    S = networks(9)
    pairs = METRICS["logeuclid"].distance(S[:, None], S[None])[tuple(torch.triu_indices(9, 9, 1))]
    assert kernel_ridge(S, torch.ones(9)).sigma == pytest.approx(float(pairs.square().median()) / 4)


def test_duplicates_are_refused_with_advice() -> None:
    S = torch.stack([networks(1)[0]] * 3)
    with pytest.raises(DataError, match="median distance is 0"):
        kernel_ridge(S, torch.ones(3))
    with pytest.raises(DataError, match="singular at sigma=1 with ridge=0"):
        kernel_ridge(S, torch.ones(3), sigma=1.0, ridge=0.0)


@pytest.mark.parametrize("outputs", [(), (2,)])
@pytest.mark.parametrize(("count", "ridge"), [(40, 0.0), (40, 2.0), (8, 0.0), (8, 0.5)])
def test_geodesic_regression_is_linear_regression_on_logs(count: int, ridge: float, outputs: tuple[int, ...]) -> None:
    S, new = networks(count), networks(6, seed=2)
    y = torch.from_numpy(np.random.default_rng(3).normal(size=(count, *outputs)))
    peer = Ridge(alpha=ridge, solver="svd") if ridge else LinearRegression()
    peer.fit(logs(S), y.numpy())
    fit = geodesic_regression(S, y, ridge)
    np.testing.assert_allclose(fit.predict(new).numpy(), peer.predict(logs(new)), rtol=1e-7, atol=1e-8)
    assert repr(fit) == "GeodesicRegression(n=5)"


def test_geodesic_regression_is_linear_along_geodesics_and_passes_through_few_labels() -> None:
    S, y = networks(8), torch.arange(8.0).double()
    fit = geodesic_regression(S, y)
    torch.testing.assert_close(fit.predict(S), y, rtol=1e-8, atol=1e-8)
    mixed = METRICS["logeuclid"].geodesic(S[:4], S[4:], 0.3)
    torch.testing.assert_close(fit.predict(mixed), 0.7 * y[:4] + 0.3 * y[4:], rtol=1e-8, atol=1e-8)


def test_trend_recovers_a_geodesic() -> None:
    A, B = networks(2)
    y = torch.tensor([0.0, 0.2, 0.5, 1.0]).double()
    fit = geodesic_trend(METRICS["logeuclid"].geodesic(A, B, y), y)
    wanted = METRICS["logeuclid"].geodesic(A, B, 0.8)
    torch.testing.assert_close(fit.at(torch.tensor(0.8)), wanted, rtol=1e-6, atol=1e-7)
    assert fit.at(torch.tensor([[0.1, 0.2]])).shape == (1, 2, 5, 5)
    assert repr(fit) == "GeodesicTrend(n=5)"


def test_trend_is_least_squares_on_logs() -> None:
    S, y = networks(10), torch.from_numpy(np.random.default_rng(4).normal(size=10))
    fit = geodesic_trend(S, y)
    peer = LinearRegression().fit(y.numpy()[:, None], logs(S))
    at = torch.tensor([-1.0, 0.4]).double()
    np.testing.assert_allclose(logs(fit.at(at)), peer.predict(at.numpy()[:, None]), rtol=1e-7, atol=1e-8)


def test_a_trend_over_a_constant_label_is_refused() -> None:
    with pytest.raises(DataError, match="all 3 are equal"):
        geodesic_trend(networks(3), torch.ones(3))


def test_the_public_trend_takes_numpy_and_one_label_only() -> None:
    S, y = networks(6).numpy(), np.arange(6)
    got = spd.geodesic_trend(S, y).at([0.5, 2.0])
    assert isinstance(got, np.ndarray)
    np.testing.assert_allclose(got, geodesic_trend(torch.from_numpy(S), torch.from_numpy(y)).at(torch.tensor([0.5, 2])))
    with pytest.raises(DataError, match=r"one label.*\(6, 2\)"):
        spd.geodesic_trend(S, np.ones((6, 2)))
