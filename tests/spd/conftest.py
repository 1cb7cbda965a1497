"""Matrices with chosen spectra, for every test of the geometry."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from torch import Tensor

from rmixup import keys


def with_spectrum(w: Sequence[float] | np.ndarray, seed: int = 0) -> Tensor:
    """A symmetric float64 matrix (..., n, n) with eigenvalues w (..., n) and random eigenvectors."""
    w = np.asarray(w, dtype=np.float64)
    drawn = keys.generator(seed, "with_spectrum").standard_normal((*w.shape, w.shape[-1]))
    Q = np.linalg.qr(drawn)[0]
    S = (Q * w[..., None, :]) @ Q.swapaxes(-1, -2)
    return torch.from_numpy((S + S.swapaxes(-1, -2)) / 2)


def correlations(count: int, n: int, frames: int, seed: int = 0) -> Tensor:
    """Correlation matrices (count, n, n) of simulated series, float64; singular where frames <= n."""
    x = keys.generator(seed, "correlations").standard_normal((count, frames, n + 1))
    x = x[..., :n] + x[..., n:]
    x -= x.mean(1, keepdims=True)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return torch.from_numpy(x.swapaxes(-1, -2) @ x)


def relative(a: Tensor, b: Tensor) -> float:
    """The largest relative Frobenius distance of matrices a from b."""
    return float((torch.linalg.matrix_norm(a.double() - b) / torch.linalg.matrix_norm(b)).max())


@pytest.fixture(name="with_spectrum")
def _with_spectrum() -> Callable[..., Tensor]:
    return with_spectrum


@pytest.fixture(name="correlations")
def _correlations() -> Callable[..., Tensor]:
    return correlations


@pytest.fixture(name="relative")
def _relative() -> Callable[..., float]:
    return relative
