"""Matrix functions by eigen-decomposition: against SciPy and NumPy, over spectra, and where devices fail."""

import numpy as np
import pytest
import scipy.linalg
import torch
from hypothesis import given
from hypothesis import strategies as st

from rmixup import keys
from rmixup.errors import DataError, NotSPDError
from rmixup.spd import spectral

FUNCTIONS = {
    "logm": (spectral.logm, scipy.linalg.logm),
    "expm": (spectral.expm, scipy.linalg.expm),
    "sqrtm": (spectral.sqrtm, scipy.linalg.sqrtm),
    "invsqrtm": (spectral.invsqrtm, lambda S: np.linalg.inv(scipy.linalg.sqrtm(S))),
    "powm": (lambda S: spectral.powm(S, 0.3), lambda S: scipy.linalg.fractional_matrix_power(S, 0.3)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("n", [1, 2, 5, 20])
def test_agrees_with_scipy(name, n, with_spectrum, relative):
    ours, theirs = FUNCTIONS[name]
    S = with_spectrum(np.geomspace(0.01, 3, n), seed=n)
    assert relative(ours(S), torch.from_numpy(np.real(theirs(S.numpy())))) < 1e-10


@given(st.integers(1, 64), st.floats(0, 12), st.booleans(), st.integers(0, 5))
def test_log_and_exp_invert_each_other_over_sizes_and_condition_numbers(n, digits, repeated, seed):
    rng = keys.generator(seed, n)
    w = 10.0 ** -(digits * rng.random(n))
    if repeated:
        w[:] = w[rng.integers(0, max(1, n // 4), n)]
    Q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    S = torch.from_numpy((Q * w) @ Q.T)
    S = (S + S.mT) / 2
    log = spectral.logm(S)
    assert torch.equal(log, log.mT)
    torch.testing.assert_close(spectral.expm(log), S, rtol=0, atol=1e-12 * float(w.max()))


@given(st.integers(2, 64), st.integers(0, 5))
def test_log_of_rank_deficient_correlations_with_floor_matches_numpy(n, seed):
    x = keys.generator(seed, n).standard_normal((max(2, n // 2), n))
    S = np.atleast_2d(np.corrcoef(x, rowvar=False))
    w, V = np.linalg.eigh(S)
    truth = (V * np.log(np.maximum(w, 1e-6))) @ V.T
    ours = spectral.logm(torch.from_numpy(S), floor=1e-6).numpy()
    assert np.linalg.norm(ours - truth) <= 1e-8 * np.linalg.norm(truth)


@pytest.mark.real
def test_log_of_real_half_length_correlations_with_floor(real_data):
    series = np.loadtxt(sorted((real_data / "abide" / "rois_cc200").glob("*.1D*"))[0])
    series = series[:, series.std(0) > 0]
    n = min(100, series.shape[1])
    S = np.corrcoef(series[: n // 2, :n], rowvar=False)
    w, V = np.linalg.eigh(S)
    truth = (V * np.log(np.maximum(w, 1e-6))) @ V.T
    ours = spectral.logm(torch.from_numpy(S), floor=1e-6).numpy()
    assert np.linalg.norm(ours - truth) <= 1e-8 * np.linalg.norm(truth)


def test_float32_input_is_decomposed_in_float64(with_spectrum, relative):
    S = with_spectrum(np.geomspace(1e-4, 10, 40)).float()
    log = spectral.logm(S)
    assert log.dtype == torch.float32
    assert relative(log, spectral.logm(S.double())) < 1e-7
    w, V = spectral.eigh(S)
    assert w.dtype == V.dtype == torch.float64


def test_leading_shapes_and_chunks_give_the_same_numbers(monkeypatch, with_spectrum):
    S = with_spectrum(np.linspace(0.5, 2, 6 * 4).reshape(2, 3, 4))
    whole, (w, V) = spectral.logm(S), spectral.eigh(S)
    monkeypatch.setattr(spectral, "CHUNK_BYTES", 1)
    assert torch.equal(spectral.logm(S), whole)
    assert torch.equal(spectral.eigh(S)[0], w)
    assert torch.equal(spectral.eigh(S)[1], V)
    assert w.shape == (2, 3, 4)


def test_empty_batches_stay_empty():
    S = torch.empty(0, 3, 3)
    assert spectral.logm(S).shape == S.shape
    assert spectral.eigh(S)[0].shape == (0, 3)


def test_singular_matrices_are_refused_with_their_index_and_what_to_do(correlations):
    S = torch.stack([torch.eye(12, dtype=torch.float64), correlations(1, 12, 8)[0]])[None]
    with pytest.raises(NotSPDError) as error:
        spectral.logm(S)
    text = str(error.value)
    assert "matrix (0, 1) has 5 of 12 eigenvalues" in text
    assert "fewer than n + 1 frames" in text
    assert "shrink" in text
    assert "floor" in text
    with pytest.raises(NotSPDError, match="positive"):
        spectral.invsqrtm(S)


def test_roots_take_singular_but_not_indefinite_matrices(with_spectrum):
    S = with_spectrum([0.0, 0.0, 1.0, 2.0])
    root = spectral.sqrtm(S)
    torch.testing.assert_close(root @ root, S, rtol=0, atol=1e-7)
    with pytest.raises(NotSPDError, match="non-negative"):
        spectral.sqrtm(with_spectrum([-0.1, 1.0]))


def test_power_zero_is_the_identity():
    S = torch.diag(torch.tensor([2.0, 3.0]))[None]
    assert torch.equal(spectral.powm(S, 0), torch.eye(2)[None])
    singular = torch.diag(torch.tensor([0.0, 3.0]))[None]
    assert torch.equal(spectral.powm(singular, 0), torch.eye(2)[None])


@pytest.mark.parametrize("smallest", [0.0, 1e-17])
def test_an_eigenvalue_below_rounding_is_none(smallest):
    singular = torch.diag(torch.tensor([smallest, 1.0, 2.0], dtype=torch.float64))
    for S in (singular, torch.stack([torch.eye(3, dtype=torch.float64), singular])):
        with pytest.raises(NotSPDError, match="1 of 3 eigenvalues that are not"):
            spectral.logm(S)


def test_how_far_a_decomposition_may_be_off_grows_with_the_nodes():
    S, V = torch.eye(64, dtype=torch.float64)[None], torch.eye(64, dtype=torch.float64)[None]
    w, allowed = torch.ones(1, 64, dtype=torch.float64), spectral.RESIDUAL_OVER_N_EPS * 64 * spectral.EPS
    assert not spectral._bad(S, w + 0.9 * allowed, V).any()
    assert spectral._bad(S, w + 1.1 * allowed, V).all()


def test_a_failed_or_wrong_decomposition_is_done_again_one_by_one(monkeypatch, with_spectrum):
    S = with_spectrum(np.linspace(0.5, 2, 12).reshape(3, 4))
    truth, honest = spectral.logm(S), torch.linalg.eigh

    def wrong(S):
        w, V = honest(S)
        return (w + 0.1, V) if S.ndim == 3 else (w, V)

    def failing(S):
        if S.ndim == 3:
            raise torch.linalg.LinAlgError("did not converge")
        return honest(S)

    for broken in (wrong, failing):
        monkeypatch.setattr(torch.linalg, "eigh", broken)
        torch.testing.assert_close(spectral.logm(S), truth, rtol=1e-12, atol=1e-12)


def test_what_cannot_be_decomposed_at_all_is_named():
    S = torch.eye(3).repeat(4, 1, 1)
    S[2, 0, 0] = torch.nan
    with pytest.raises(DataError, match="no eigen-decomposition could be computed for matrix 2,"):
        spectral.expm(S)


@pytest.mark.gpu
def test_the_gpu_gives_the_same_logs(correlations, relative):
    S = correlations(3, 60, 90)
    assert relative(spectral.logm(S.cuda()).cpu(), spectral.logm(S)) < 1e-10
