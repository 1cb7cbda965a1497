"""Gradients against finite differences, at equal, nearly equal and distant eigenvalues."""

from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rmixup import spd
from rmixup.spd import spectral
from rmixup.spd.door import symmetrize

SPECTRA = {
    "identity": [1.0, 1.0, 1.0, 1.0],
    "repeated": [0.5, 2.0, 2.0, 2.0],
    "nearly repeated": [0.5, 2.0, 2.0 + 1e-9, 2.0 + 1e-5],
    "distant": [0.05, 0.3, 1.0, 4.0],
}
FUNCTIONS = {
    "logm": spectral.logm,
    "floored logm": partial(spectral.logm, floor=0.1),
    "expm": spectral.expm,
    "square root": spectral.sqrtm,
    "inverse root": spectral.invsqrtm,
    "power": partial(spectral.powm, p=1.7),
    "zeroth power": partial(spectral.powm, p=0),
}


def _gradcheck(function, *inputs):
    inputs = [x.clone().requires_grad_() for x in inputs]
    return torch.autograd.gradcheck(lambda *xs: function(*map(symmetrize, xs)), inputs, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("spectrum", SPECTRA)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name, spectrum, with_spectrum):
    assert _gradcheck(FUNCTIONS[name], with_spectrum(SPECTRA[spectrum])[None])


@pytest.mark.parametrize("metric", ["euclid", "chol", "logchol", "wasserstein", "riemann", "logeuclid"])
@pytest.mark.parametrize("spectrum", ["identity", "repeated", "distant"])
def test_geodesics(metric, spectrum, with_spectrum):
    A, B = with_spectrum(SPECTRA[spectrum]), with_spectrum([0.5, 0.5, 1.0, 2.0], seed=1)
    assert _gradcheck(lambda A, B: spd.geodesic(A, B, 0.3, metric), A, B)


def test_chunks_do_not_change_the_gradient(monkeypatch, with_spectrum):
    S = with_spectrum(np.linspace(0.5, 2, 12).reshape(3, 4)).requires_grad_()
    (whole,) = torch.autograd.grad(spectral.logm(S).square().sum(), S)
    monkeypatch.setattr(spectral, "CHUNK_BYTES", 1)
    (parts,) = torch.autograd.grad(spectral.logm(S).square().sum(), S)
    torch.testing.assert_close(whole, parts)


def test_gradient_of_float32_comes_in_float32():
    S = torch.eye(3).requires_grad_()
    spectral.logm(S).trace().backward()
    torch.testing.assert_close(S.grad, torch.eye(3))


@given(st.floats(1e-3, 1e3), st.floats(0, 1e-3), st.floats(-2, 3))
def test_divided_differences_lose_no_digits_near_equal_eigenvalues(b, gap, p):
    a = b * (1 + gap)
    middle = np.float64((a + b) / 2)
    pair = torch.tensor([a], dtype=torch.float64), torch.tensor([b], dtype=torch.float64)
    # The mean value theorem with its next term: f'(m) + f'''(m) (a - b)²/24.
    square = (a - b) ** 2 / 24
    log = 1 / middle + 2 / middle**3 * square
    power = p * middle ** (p - 1) * (1 + (p - 1) * (p - 2) / middle**2 * square)
    np.testing.assert_allclose(float(spectral._log_slope(*pair)), log, rtol=1e-11)
    np.testing.assert_allclose(float(spectral._power_slope(*pair, p)), power, rtol=1e-11, atol=1e-300)
    pair = torch.log(pair[0]), torch.log(pair[1])
    step = float(pair[0] - pair[1])
    exact = a if step == 0 else float(pair[1].exp()) * np.expm1(step) / step
    np.testing.assert_allclose(float(spectral._exp_slope(*pair)), exact, rtol=1e-11)


def test_gradients_are_as_exact_as_their_matrices() -> None:
    """d tr log S / dS is the inverse of S, and d tr exp S / dS the exponential."""
    S = torch.diag(torch.tensor([0.5, 1.0, 3.0])).double() + 0.1
    for function, expected in ((spectral.logm, torch.linalg.inv), (spectral.expm, torch.linalg.matrix_exp)):
        asking = S.clone().requires_grad_()
        (grad,) = torch.autograd.grad(function(asking).diagonal().sum(), asking)
        torch.testing.assert_close(grad, expected(S), rtol=1e-12, atol=1e-13)
