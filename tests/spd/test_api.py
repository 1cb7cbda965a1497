"""The public functions: NumPy and torch, every metric, and what they refuse."""

import numpy as np
import pytest
import torch

from rmixup import spd
from rmixup.errors import DataError, NotSPDError
from rmixup.spd import api, kernel, product, repair, spectral

S = np.array([[2.0, 0.5], [0.5, 1.0]])
STACK = np.stack([S, np.eye(2), 2 * S])
CALLS = {
    "logm": spd.logm,
    "expm": spd.expm,
    "powm": lambda S: spd.powm(S, 0.3),
    "sqrtm": spd.sqrtm,
    "invsqrtm": spd.invsqrtm,
    "geodesic": lambda S: spd.geodesic(S, S, 0.5),
    "distance": lambda S: spd.distance(S, 2 * S),
    "mean": spd.mean,
    "spdness": spd.spdness,
    "regularize": lambda S: spd.regularize(S)[0],
    "unit_diagonal": spd.unit_diagonal,
    "heat_kernel": lambda S: spd.heat_kernel(S, S, 1.0),
    "kernel_ridge": lambda S: spd.kernel_ridge(S, [0, 1, 2]).predict(S),
    "geodesic_regression": lambda S: spd.geodesic_regression(S, np.arange(3)).predict(S),
}


@pytest.mark.parametrize("name", CALLS)
def test_numpy_gives_numpy_and_torch_gives_torch_with_equal_numbers(name):
    from_numpy, from_torch = CALLS[name](STACK), CALLS[name](torch.from_numpy(STACK))
    assert isinstance(from_numpy, np.ndarray)
    assert isinstance(from_torch, torch.Tensor)
    np.testing.assert_array_equal(from_numpy, from_torch.numpy())


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("broken", [STACK + 1j, STACK.astype(int), STACK[:, :1], STACK + np.array([[0, 1], [0, 0]])])
def test_every_function_refuses_what_the_door_refuses(name, broken):
    with pytest.raises(DataError):
        CALLS[name](broken)


@pytest.mark.parametrize("name", ["logm", "expm", "powm", "sqrtm", "invsqrtm", "geodesic", "unit_diagonal"])
def test_dtype_and_leading_shape_stay(name):
    wide = np.broadcast_to(STACK.astype(np.float32), (2, 3, 2, 2))
    result = CALLS[name](wide)
    assert result.shape == wide.shape
    assert result.dtype == np.float32


@pytest.mark.parametrize("function", [spd.logm, spd.expm])
def test_both_methods_agree(function, with_spectrum):
    matrix = with_spectrum(np.geomspace(0.1, 3, 70)).numpy()
    expected = function(matrix, method="spectral")
    for method in ("auto", "product"):
        for bounds in (None, (0.09, 3.1)):
            np.testing.assert_allclose(function(matrix, method=method, bounds=bounds), expected, atol=1e-11)


def test_auto_follows_the_table(monkeypatch):
    called = []
    monkeypatch.setattr(product, "expm", lambda L, bounds: called.append((L.shape[-1], bounds)) or L)
    first, unknown, bounds = api.PRODUCT_FROM["expm", "cpu", torch.float64], api.UNKNOWN_BOUNDS_FROM, (0.0, 1.0)
    for n in (first - 1, first):
        spd.expm(np.eye(n), bounds=bounds)
    for n in (unknown - 1, unknown):
        spd.expm(np.eye(n))
    spd.expm(torch.eye(unknown, dtype=torch.float64, requires_grad=True), bounds=bounds)
    assert called == [(first, bounds), (unknown, None)]


def test_auto_log_leaves_ill_conditioned_matrices_to_the_spectral_way(monkeypatch, with_spectrum):
    monkeypatch.setitem(api.PRODUCT_FROM, ("logm", "cpu", torch.float64), 1)
    monkeypatch.setattr(api, "UNKNOWN_BOUNDS_FROM", 1)
    good, bad = with_spectrum(np.geomspace(0.1, 1, 5)), with_spectrum(np.geomspace(1e-11, 1, 5))
    assert torch.equal(spd.logm(bad), spectral.logm(bad))
    assert torch.equal(spd.logm(good, bounds=(0.05, 2.0)), product.logm(good, (0.05, 2.0)))
    with pytest.raises(NotSPDError):
        spd.logm(np.ones((3, 3)) - 0.1)


def test_floor_is_applied_and_shown():
    np.testing.assert_allclose(spd.logm(np.diag([1.0, 0.0]), floor=1e-6), np.diag([0, np.log(1e-6)]))


@pytest.mark.parametrize("metric", [*spd.METRICS, *spd.CORRELATION_METRICS])
def test_every_metric_takes_positions_as_numbers_and_arrays(metric):
    A = spd.unit_diagonal(STACK)
    B = np.eye(2)
    middle = spd.geodesic(A, B, np.array([0.0, 0.5, 1.0]), metric)
    np.testing.assert_allclose(middle[0], A[0], atol=1e-10)
    np.testing.assert_allclose(middle[1], spd.geodesic(A, B, 0.5, metric)[1], atol=1e-12)
    np.testing.assert_allclose(middle[2], B, atol=1e-10)
    assert spd.distance(A, B, metric).shape == (3,)
    np.testing.assert_allclose(spd.mean(A, metric, weights=[0, 1, 0]), A[1], atol=1e-8)


def test_torch_positions_and_integers():
    A = torch.from_numpy(STACK)
    torch.testing.assert_close(spd.geodesic(A, A[:1], torch.tensor(0)), A)
    torch.testing.assert_close(spd.geodesic(A, A[:1], torch.tensor([1])), A[:1].expand(3, 2, 2))


REFUSED = {
    "no metric is named 'rieman' .did you mean 'riemann'": lambda: spd.geodesic(S, S, 0.5, "rieman"),
    "method must be one of auto, spectral, product": lambda: spd.expm(S, method="fast"),
    "floor must be a positive number, but is 0": lambda: spd.logm(S, floor=0),
    "products cannot apply a floor": lambda: spd.logm(S, floor=1e-6, method="product"),
    "bounds must be finite numbers .lo, hi. with lo <= hi": lambda: spd.expm(S, bounds=(1.0, 0.0)),
    "with 0 < lo <= hi": lambda: spd.logm(S, bounds=(0.0, 1.0)),
    "power p must be a finite number": lambda: spd.powm(S, float("nan")),
    "t must be a number or broadcast": lambda: spd.geodesic(STACK, STACK, [0.1, 0.2]),
    "t must be finite": lambda: spd.geodesic(S, S, np.nan),
    "t must be real floating": lambda: spd.geodesic(S, S, "half"),
    "weights must have shape": lambda: spd.mean(STACK, weights=[1.0]),
    "weights must be non-negative": lambda: spd.mean(STACK, weights=[1.0, -1.0, 1.0]),
    "a mean needs matrices along axis -3": lambda: spd.mean(S),
    "every diagonal entry must be positive": lambda: spd.unit_diagonal(np.diag([1.0, 0.0])),
    "sigma must be a positive number": lambda: spd.heat_kernel(STACK, STACK, 0),
    "A must hold networks along its first axis": lambda: spd.heat_kernel(S, STACK, 1.0),
    "y must have one row for each of 3 networks": lambda: spd.kernel_ridge(STACK, [1.0, 2.0]),
    "y must have one row for each of 3 networks, but has shape .3, 1, 1": lambda: spd.kernel_ridge(
        STACK, np.ones((3, 1, 1))
    ),
    "floor must be a positive number, but is inf": lambda: spd.logm(S, floor=np.inf),
    "floor must be a positive number, but is nan": lambda: spd.logm(S, floor=np.nan),
    "lo <= hi, but are .-inf, 0.0": lambda: spd.expm(S, bounds=(-np.inf, 0.0)),
    "lo <= hi, but are .0.0, inf": lambda: spd.expm(S, bounds=(0.0, np.inf)),
    "lo <= hi, but are .nan, 1.0": lambda: spd.expm(S, bounds=(np.nan, 1.0)),
    "0 < lo <= hi, but are .2.0, 1.0": lambda: spd.logm(S, bounds=(2.0, 1.0)),
    "power p must be a finite number, but is inf": lambda: spd.powm(S, np.inf),
    "sigma must be a positive number, but is inf": lambda: spd.heat_kernel(STACK, STACK, np.inf),
    "B must hold networks along its first axis": lambda: spd.heat_kernel(STACK, S, 1.0),
    "S must hold networks along its first axis": lambda: spd.kernel_ridge(S, [1.0, 2.0]),
    "S must hold networks along its first axis, shape .N, n, n., but has .2, 2.": lambda: spd.geodesic_regression(
        STACK, np.arange(3)
    ).predict(S),
    "N >= 1, not .0, 2, 2": lambda: spd.mean(np.zeros((0, 2, 2))),
    "weights must be non-negative and not all zero": lambda: spd.mean(STACK, weights=[0.0, 0.0, 0.0]),
    "weights must be non-negative and not all.zero": lambda: spd.mean(  # one of two means has none
        np.stack([STACK, STACK]), weights=np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    ),
    "weights must have shape .2, 3., one a matrix, but have .2,": lambda: spd.mean(
        np.stack([STACK, STACK]), weights=[1.0, 2.0]
    ),
    "every diagonal entry must be positive, but the smallest is -1": lambda: spd.unit_diagonal(np.diag([1.0, -1.0])),
    "no metric is named 'zzzz'; there are: euclid": lambda: spd.mean(STACK, "zzzz"),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_cannot_be_is_refused_in_words(message):
    with pytest.raises(DataError, match=message):
        REFUSED[message]()


def test_empty_batches_stay_empty():
    empty = np.zeros((0, 3, 3))
    assert spd.expm(empty).shape == spd.logm(empty).shape == spd.unit_diagonal(empty).shape == (0, 3, 3)


def test_settings_reach_the_functions_behind():
    tensors, y = torch.from_numpy(STACK), torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64)
    np.testing.assert_array_equal(spd.spdness(np.diag([1.0, 1e-3, 1e-7]), tol=1e-2), 1 / 3)
    np.testing.assert_array_equal(spd.spdness(np.diag([1.0, 1e-3, 1e-7])), 2 / 3)
    for how, amount in (("floor", 1.5), ("shrink", 0.5), ("shrink", None)):
        made, what = spd.regularize(STACK, how, amount)
        expected, record = repair.regularize(tensors, how, amount)
        np.testing.assert_array_equal(made, expected)
        assert what == record
    assert spd.regularize(STACK)[1].how == "shrink"
    for normalized in (True, False):
        found = spd.heat_kernel(STACK, STACK[:1], 0.7, normalized)
        np.testing.assert_array_equal(found, kernel.heat_kernel(tensors, tensors[:1], 0.7, normalized))
    for settings in ({"sigma": 0.5, "ridge": 0.3}, {"ridge": 2.0}, {"sigma": 3.0}, {}):
        found = spd.kernel_ridge(STACK, y, **settings).predict(STACK)
        np.testing.assert_array_equal(found, kernel.kernel_ridge(tensors, y, **settings).predict(tensors))
    for settings in ({"ridge": 3.0}, {}):
        found = spd.geodesic_regression(STACK, y, **settings).predict(STACK)
        np.testing.assert_array_equal(found, kernel.geodesic_regression(tensors, y, **settings).predict(tensors))


def test_numbers_in_tensors_keep_their_precision():
    y = np.array([1 / 3, 2 / 3, 4 / 7])
    for fit in (spd.kernel_ridge, spd.geodesic_regression):
        np.testing.assert_array_equal(fit(STACK, torch.from_numpy(y)).predict(STACK), fit(STACK, y).predict(STACK))


def test_one_tensor_among_two_arguments_gives_a_tensor():
    assert isinstance(spd.heat_kernel(STACK, torch.from_numpy(STACK), 1.0), torch.Tensor)
    assert isinstance(spd.heat_kernel(torch.from_numpy(STACK), STACK, 1.0), torch.Tensor)
    assert isinstance(spd.geodesic_trend(torch.from_numpy(STACK), [1.0, 2.0, 4.0]).at([1.0]), torch.Tensor)


def test_weights_are_shares_of_one_mean_or_of_many():
    batch, weights = np.stack([STACK, 3 * STACK]), np.array([[1.0, 2.0, 1.0], [0.0, 1.0, 5.0]])
    for metric in ("euclid", "logeuclid"):
        both = spd.mean(batch, metric, weights)
        for k in range(2):
            np.testing.assert_allclose(both[k], spd.mean(batch[k], metric, 10 * weights[k]))
        np.testing.assert_allclose(spd.mean(batch, metric, weights[1])[1], both[1])
    np.testing.assert_allclose(spd.mean(batch[0], "euclid", weights[0]), np.tensordot(weights[0] / 4, STACK, 1))


def test_logarithms_are_of_the_log_euclidean_geometry_unless_told_otherwise():
    for ours, named in (
        (spd.geodesic(S, STACK, 0.3), spd.geodesic(S, STACK, 0.3, "logeuclid")),
        (spd.distance(S, STACK), spd.distance(S, STACK, "logeuclid")),
        (spd.mean(STACK), spd.mean(STACK, "logeuclid")),
    ):
        np.testing.assert_array_equal(ours, named)


def test_bounds_may_be_one_number():
    one = 2.0 * np.eye(70)
    np.testing.assert_allclose(spd.expm(one, bounds=(2.0, 2.0), method="product"), np.exp(2.0) * np.eye(70))
    np.testing.assert_allclose(spd.logm(one, bounds=(2.0, 2.0), method="product"), np.log(2.0) * np.eye(70), atol=1e-12)


def test_products_can_be_asked_for_where_auto_would_not_take_them(with_spectrum):
    ill = with_spectrum(np.geomspace(1e-11, 1, 5))
    assert torch.equal(spd.logm(ill, method="product"), product.logm(ill, api._bounds_for_products(ill)))
    assert torch.equal(spd.logm(ill, method="product", bounds=(1e-12, 2.0)), product.logm(ill, (1e-12, 2.0)))
    single = with_spectrum(np.linspace(-1, 1, 5)).float()
    assert torch.equal(spd.expm(single, method="product"), product.expm(single))
    asking = single.clone().requires_grad_()
    with torch.no_grad():
        assert torch.equal(spd.expm(asking, method="product"), product.expm(single))


def test_products_take_any_leading_shape():
    batch = np.stack([STACK, 3 * STACK])
    np.testing.assert_allclose(spd.logm(batch, method="product"), spd.logm(batch, method="spectral"), atol=1e-12)


def test_positions_broadcast_with_the_leading_shape():
    A, B = np.stack([STACK, 2 * STACK]), np.eye(2)
    t = np.array([[0.25], [0.75]])
    made = spd.geodesic(A, B, t, "euclid")
    np.testing.assert_allclose(made, (1 - t[..., None, None]) * A + t[..., None, None] * B)
    with pytest.raises(DataError, match=r"broadcast with \(2, 3\), but has shape \(4,\)"):
        spd.geodesic(A, B, np.linspace(0, 1, 4))


def test_trends_take_one_label():
    with pytest.raises(DataError, match=r"y of shape \(N,\), but y has shape \(3, 1\)"):
        spd.geodesic_trend(STACK, np.ones((3, 1)))
