"""Connectivity: parity with nilearn and scikit-learn, each person alone, bad series refused with names."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nilearn.connectome import ConnectivityMeasure
from sklearn.covariance import OAS, EmpiricalCovariance, LedoitWolf

from rmixup import DataError, keys
from rmixup.data import connectivity as module
from rmixup.data.connectivity import KINDS, connectivity, constant_nodes, regularized_kind

PEERS = {
    "correlation": (EmpiricalCovariance(store_precision=False), "correlation"),
    "covariance": (EmpiricalCovariance(store_precision=False), "covariance"),
    "ledoit-wolf": (LedoitWolf(store_precision=False), "correlation"),
    "oas": (OAS(store_precision=False), "correlation"),
    "partial": (LedoitWolf(store_precision=False), "partial correlation"),
}
TOLERANCE = 1e-8


def cohort(lengths: tuple[int, ...] = (12, 40, 25), n: int = 10, seed: int = 0) -> list[np.ndarray]:
    chance = keys.generator(seed, "series")
    mixing = chance.normal(size=(n, n))
    return [100 * chance.random() + chance.normal(size=(t, n)) @ mixing for t in lengths]


def peer(series: list[np.ndarray], kind: str) -> np.ndarray:
    estimator, name = PEERS[kind]
    matrices: np.ndarray = ConnectivityMeasure(estimator, kind=name, standardize=True).fit_transform(series)
    return matrices


def test_every_kind_has_a_peer() -> None:
    assert set(KINDS) == set(PEERS)


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 1000), n=st.integers(2, 12))
def test_parity_with_nilearn(kind: str, seed: int, n: int) -> None:
    series = cohort((5, 14, 9), n, seed)
    assert np.abs(connectivity(series, kind) - peer(series, kind)).max() < TOLERANCE * max(
        1, np.abs(peer(series, kind)).max()
    )


def test_correlation_is_numpys() -> None:
    for x, matrix in zip(cohort(), connectivity(cohort()), strict=True):
        assert np.abs(matrix - np.corrcoef(x.T)).max() < TOLERANCE


@pytest.mark.parametrize("kind", KINDS)
def test_each_person_alone_and_symmetric(kind: str) -> None:
    """What one gets does not depend on the others, nor on the threads: to the last bit."""
    series = cohort((12, 40, 25, 30, 18))
    together = connectivity(series, kind)
    for x, matrix in zip(series, together, strict=True):
        assert np.array_equal(connectivity([x], kind)[0], matrix)
    assert np.abs(together - together.transpose(0, 2, 1)).max() <= 1e-15 * np.abs(together).max()
    if kind != "covariance":
        assert (np.diagonal(together, axis1=1, axis2=2) == 1).all()
        assert (np.abs(together) <= 1).all()


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"covariance", "partial"}))
def test_units_do_not_matter(kind: str) -> None:
    (x,) = cohort((20,))
    scale = 10.0 ** np.arange(-150, 150, 30)
    assert np.abs(connectivity([x * scale], kind) - connectivity([x], kind)).max() < TOLERANCE


@pytest.mark.parametrize("kind", ["correlation", "ledoit-wolf", "oas"])
@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_squares_beyond_the_range_of_float64(kind: str, scale: float) -> None:
    (x,) = cohort((20,))
    assert np.abs(connectivity([x * scale], kind) - connectivity([x], kind)).max() < TOLERANCE


@pytest.mark.parametrize("kind", KINDS)
def test_threads_do_not_matter(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    series = cohort((12, 40, 25, 30, 18), n=30)
    found = []
    for threads in (1, 2, 5):
        monkeypatch.setattr(module, "_threads", lambda count, threads=threads: threads)
        found.append(connectivity(series, kind))
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])


def test_one_node_and_one_array() -> None:
    assert connectivity([np.arange(5.0)[:, None]], "ledoit-wolf").tolist() == [[[1.0]]]
    stacked = np.stack(cohort((20, 20)))
    assert np.array_equal(connectivity(stacked), connectivity(list(stacked)))


def test_float32_series_are_computed_in_float64() -> None:
    series = [x.astype(np.float32) for x in cohort()]
    exact = connectivity([x.astype(np.float64) for x in series])
    assert np.array_equal(connectivity(series), exact)
    small = connectivity(series, dtype=np.float32)
    assert small.dtype == np.float32
    assert np.abs(small - exact).max() < 1e-7


def test_the_input_is_not_changed() -> None:
    series = cohort()
    before = [x.copy() for x in series]
    for kind in KINDS:
        connectivity(series, kind)
    assert all(np.array_equal(a, b) for a, b in zip(series, before, strict=True))


# ---- nodes that do not vary


def with_constant() -> list[np.ndarray]:
    series = cohort()
    series[1][:, [2, 5]] = 0.1
    return series


def test_constant_nodes_are_named() -> None:
    with pytest.raises(DataError, match=r"1 of 3 series .* \(b: nodes r2, r5\)"):
        connectivity(with_constant(), subjects=list("abc"), nodes=[f"r{k}" for k in range(10)])
    with pytest.raises(DataError, match="number 1: nodes 2, 5"):
        connectivity(with_constant())


@pytest.mark.parametrize("kind", KINDS)
def test_constant_nodes_as_unconnected_or_undefined(kind: str) -> None:
    zero, nan = (connectivity(with_constant(), kind, constant=policy) for policy in ("zero", "nan"))
    apart = np.delete(np.arange(10), [2, 5])
    assert (zero[1][2, apart] == 0).all()
    assert zero[1][2, 2] == (0 if kind == "covariance" else 1)
    assert np.isnan(nan[1][[2, 5]]).all()
    assert np.isnan(nan[1][:, [2, 5]]).all()
    assert np.array_equal(nan[1][np.ix_(apart, apart)], zero[1][np.ix_(apart, apart)])
    assert np.array_equal(zero[[0, 2]], nan[[0, 2]])


def test_shrinkage_with_constant_nodes_is_nilearns() -> None:
    assert (
        np.abs(
            connectivity(with_constant(), "ledoit-wolf", constant="zero") - peer(with_constant(), "ledoit-wolf")
        ).max()
        < 1e-8
    )


def test_constant_up_to_rounding() -> None:
    x = np.full((50, 3), 0.1)
    x[::2, 1] += 1e-17
    x[::2, 2] += 1e-12
    assert constant_nodes(x).tolist() == [True, True, False]


@given(digits=st.integers(12, 20), level=st.sampled_from([0.0, 1e-160, 1e-30, 1.0, 1e200]), seed=st.integers(0, 20))
def test_two_frames_never_say_more_than_all(digits: int, level: float, seed: int) -> None:
    """The shortcut for series of which every node clearly varies agrees with the ranges."""
    chance = keys.generator(seed, "still")
    x = level * (1 + 10.0**-digits * chance.normal(size=(9, 6)))
    ranges = np.ptp(x, axis=0) <= module.CONSTANT_ROUNDINGS * np.finfo(float).eps * np.abs(x).max(axis=0)
    assert np.array_equal(constant_nodes(x), ranges)
    assert not module._surely_varies(x) or not ranges.any()


def test_the_shortcut_is_taken_by_ordinary_series_alone() -> None:
    x = cohort((20,))[0]
    assert module._surely_varies(x)
    assert module._surely_varies(x.astype(np.float32))
    assert not module._surely_varies(x * 1e-200)
    assert constant_nodes(x * 1e-200).tolist() == [False] * 10
    x[:, 3] = 7.0
    assert not module._surely_varies(x)
    assert constant_nodes(np.ones((4, 0))).tolist() == []


# ---- refused


@pytest.mark.parametrize(
    ("series", "words"),
    [
        ([], "got 0 series"),
        ([np.zeros(4)], r"shape \(t, n\)"),
        ([np.ones((2, 3))], "fewer than 3 frames"),
        ([np.ones((4, 3)), np.ones((4, 2))], "other than the first one's 3 nodes"),
        ([np.array([["a"] * 2] * 4)], "do not hold real numbers"),
        ([np.full((4, 3), np.inf)], "hold NaN or infinity"),
        ([np.ones((2, 3)), np.full((4, 3), np.nan)], "fewer than 3 frames .*; 1 of 2 series hold NaN"),
    ],
)
def test_bad_series(series: list[np.ndarray], words: str) -> None:
    with pytest.raises(DataError, match=words):
        connectivity(series)


def test_bad_options() -> None:
    with pytest.raises(DataError, match="no connectivity is named 'pearson'; there are: correlation"):
        connectivity(cohort(), "pearson")
    with pytest.raises(DataError, match="constant must be one of"):
        connectivity(cohort(), constant="drop")
    with pytest.raises(DataError, match="got 3 series and 2 names"):
        connectivity(cohort(), subjects=["a", "b"])


def test_a_covariance_that_cannot_be_inverted_names_the_person() -> None:
    flip = np.array([[1.0, 1.0], [-1.0, -1.0], [1.0, 1.0], [-1.0, -1.0]])  # two nodes alike: no shrinkage, rank one
    with pytest.raises(DataError, match=r"subject twin: .* cannot be inverted"):
        connectivity([flip], "partial", subjects=["twin"])


def test_regularizers_of_the_covariance_are_kinds() -> None:
    assert regularized_kind("correlation", None) == ("correlation", None)
    assert regularized_kind("ledoit-wolf", "ledoit-wolf") == ("ledoit-wolf", None)
    assert regularized_kind("covariance", "floor=1e-6") == ("covariance", "floor=1e-6")
    with pytest.raises(DataError, match="cannot be used"):
        regularized_kind("covariance", "oas")


@pytest.mark.real
@pytest.mark.parametrize("kind", ["correlation", "ledoit-wolf", "oas"])
def test_parity_on_abide(real_data: Path, kind: str) -> None:
    files = sorted((real_data / "abide" / "rois_ho").glob("*.1D"))[:40]
    series = [x for x in map(np.loadtxt, files) if not constant_nodes(x).any()]
    assert len(series) >= 5
    assert np.abs(connectivity(series, kind) - peer(series, kind)).max() < TOLERANCE


def test_a_person_without_any_variation_is_unconnected() -> None:
    for kind in ("correlation", "ledoit-wolf", "oas"):
        assert np.array_equal(connectivity([np.ones((5, 3))], kind, constant="zero")[0], np.eye(3))
