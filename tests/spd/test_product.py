"""Matrix functions by products: against eigen-decompositions, over widths, sizes and bounds."""

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from rmixup import keys
from rmixup.errors import NotSPDError
from rmixup.spd import product, spectral
from rmixup.spd.door import symmetrize

EXP_ERROR = {torch.float32: 3e-6, torch.float64: 1e-12}


def _symmetric(w, seed=0):
    Q = np.linalg.qr(keys.generator(seed, "product").standard_normal((len(w), len(w))))[0]
    S = torch.from_numpy((Q * w) @ Q.T)
    return (S + S.mT) / 2


@pytest.mark.parametrize("scheme", product.SCHEMES, ids=lambda s: f"{s.products} products, width {s.width:g}")
def test_the_constants_give_the_error_that_stands_beside_them(scheme):
    y = np.linspace(-1, 1, 5001)
    Q = [y, y * y]
    Q.append(Q[1] * (Q[1] + scheme.first * y))
    for left, right in scheme.pairs:
        Q.append(np.prod([Q[-1] + sum(c * q for c, q in zip(half, Q, strict=False)) for half in (left, right)], axis=0))
    p = scheme.ends[0] + sum(e * q for e, q in zip(scheme.ends[1:], Q, strict=True))
    error = np.abs(p - np.exp((y - 1) * scheme.width / 2)).max()
    assert error <= 1.05 * scheme.error
    assert error >= 0.5 * scheme.error


@given(st.floats(0, 60), st.integers(1, 40), st.sampled_from([torch.float32, torch.float64]), st.floats(-20, 5))
def test_exponential_over_widths_sizes_and_dtypes(width, n, dtype, hi):
    w = hi - width * keys.generator(0, n).random(n)
    w[0] = hi
    L = _symmetric(w).to(dtype)
    exp = product.expm(L, (hi - width, hi))
    truth = spectral.expm(L.double())
    # A float32 matrix of norm r holds its own spectrum to r eps only; no algorithm gives its exponential better.
    own = 4 * torch.finfo(dtype).eps * (abs(hi) + width)
    assert torch.equal(exp, exp.mT)
    assert exp.dtype == dtype
    assert float((exp - truth).norm() / truth.norm()) < EXP_ERROR[dtype] + own
    # Positive semi-definite up to rounding.
    assert float(torch.linalg.eigvalsh(exp.double()).min()) > -(EXP_ERROR[dtype] + own) * math.exp(hi)


@pytest.mark.parametrize("n", [1, 3, 20, 21, 100, 150])
def test_unknown_bounds_cost_no_accuracy(n, relative):
    L = torch.stack([_symmetric(np.linspace(-8, 3, n)), _symmetric(np.linspace(-20, -5, n)), torch.eye(n).double()])
    truth = spectral.expm(L)
    assert relative(product.expm(L), truth) < 1e-12
    assert relative(product.expm(L.float()), truth) < 3e-6


def test_lanczos_encloses_what_matters():
    w = np.linspace(-8, 3, 200)
    lo, hi = product.spectrum(_symmetric(w)[None])
    assert -8.5 < float(lo) < -7.9
    assert 2.99 < float(hi) < 3.5


def test_blocks_give_the_product():
    A = torch.stack([_symmetric(np.linspace(-1, 1, 150)), _symmetric(np.linspace(0, 1, 150), seed=1)])
    out = torch.full_like(A, 2.0)
    product.symmetric_product(A, A, out=out, alpha=3.0, beta=0.5)
    torch.testing.assert_close(out, 3 * A @ A + 1.0)


def test_groups_and_leading_shapes_give_the_same_numbers(monkeypatch):
    L = torch.stack([_symmetric(np.linspace(-4, k, 12), seed=k) for k in range(1, 7)]).float().reshape(2, 3, 12, 12)
    whole = product.expm(L, (-4, 6)), product.expm(L), product.logm(whole_spd := product.expm(L, (-4, 6)), (0.01, 500))
    monkeypatch.setitem(product.GROUP_BYTES, "cpu", 1)
    parts = product.expm(L, (-4, 6)), product.expm(L), product.logm(whole_spd, (0.01, 500))
    for a, b in zip(whole, parts, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)
        assert a.shape == L.shape


def test_input_is_left_alone():
    L = _symmetric(np.linspace(-4, 1, 12))
    before = L.clone()
    product.expm(L, (-4, 1))
    product.logm(torch.linalg.matrix_exp(L), (0.01, 3))
    assert torch.equal(L, before)


def test_bounds_missed_by_a_little_degrade_gracefully(relative):
    L = _symmetric(np.linspace(-10.2, 2.2, 60)).float()
    truth = spectral.expm(L.double())
    assert relative(product.expm(L, (-10, 2)), truth) < 1e-4


def test_few_products_are_chosen():
    assert [product.choose(w)[0].products + product.choose(w)[1] for w in (0, 3, 10, 18, 24, 40)] == [3, 3, 4, 4, 5, 6]
    assert product.choose(10)[0].error < 1e-7


@given(st.integers(1, 40), st.floats(0, 8), st.integers(0, 3))
def test_logarithm_over_sizes_and_condition_numbers(n, digits, seed):
    w = 10.0 ** -(digits * keys.generator(seed, n).random(n))
    w[0], w[-1] = 10.0**-digits, 1.0
    S = _symmetric(w, seed)
    truth = _symmetric(np.log(w), seed)
    # What rounding S itself does to the log of its smallest eigenvalue bounds every algorithm.
    own = 10.0 ** (digits - 15)
    for bounds in ((10.0**-digits, 1.0), None):
        log = product.logm(S, bounds)
        assert torch.equal(log, log.mT)
        assert float((log - truth).norm()) < 1e-11 * max(1.0, float(truth.norm())) + own


def test_logarithm_to_1e_9_at_a_condition_of_1e8(relative):
    w = np.geomspace(1e-7, 10, 120)
    log = product.logm(_symmetric(w), (1e-7, 10.0))
    assert relative(log, _symmetric(np.log(w))) < 1e-9


def test_logarithm_of_correlations(correlations, relative):
    S = correlations(3, 80, 100)
    w = torch.linalg.eigvalsh(S)
    for bounds in ((float(w.min()), float(w.max())), None):
        assert relative(product.logm(S, bounds), spectral.logm(S)) < 1e-11
    log32 = product.logm(S.float())
    assert log32.dtype == torch.float32
    assert relative(log32, spectral.logm(S.float().double())) < 1e-6


def test_bounds_enclose_every_matrix_of_a_batch():
    S = torch.stack([_symmetric(np.geomspace(1e-3, 1, 6)), _symmetric(np.linspace(0.5, 40, 6)), torch.eye(6).double()])
    lo, hi = product.positive_bounds(S, S.shape[:-2])
    assert 0 < lo <= 1e-3
    assert 40 <= hi < 80
    assert lo > 1e-4


def test_unfactorable_matrices_are_refused_by_index():
    S = torch.eye(3).repeat(2, 2, 1, 1)
    S[1, 0, 0, 0] = -1
    with pytest.raises(NotSPDError, match=r"matrix \(1, 0\)\. A correlation"):
        product.logm(S)


def test_empty_batches_stay_empty():
    empty = torch.empty(0, 3, 3)
    assert product.expm(empty).shape == product.logm(empty).shape == empty.shape


@pytest.mark.parametrize("function", [product.expm, product.logm])
def test_gradients_go_the_spectral_way(function):
    S = _symmetric([0.5, 1.0, 1.0]).requires_grad_()
    spectral_ = getattr(spectral, function.__name__)
    (ours,) = torch.autograd.grad(function(S).sum(), S)
    (theirs,) = torch.autograd.grad(spectral_(S).sum(), S)
    assert torch.equal(ours, theirs)


@pytest.mark.gpu
@pytest.mark.parametrize("n", [50, 360])
def test_a_cuda_graph_takes_the_exponential_and_its_error_is_small(n, correlations, relative):
    logs = spectral.logm(correlations(16, n, 2 * n)).cuda()
    w = torch.linalg.eigvalsh(logs)
    bounds = float(w.min()), float(w.max())
    static = torch.zeros_like(logs, dtype=torch.float32)
    product.expm(static, bounds)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = product.expm(static, bounds)
    static.copy_(logs)
    graph.replay()
    assert relative(result, spectral.expm(logs)) < 1e-5


class Halves(NamedTuple):
    """What the kernel's factors are, in plain torch: two float16 numbers whose sum, unscaled, is the matrix."""

    parts: Tensor
    scale: float

    def holding(self, norm: float) -> "Halves":
        return Halves(self.parts, 2.0 ** math.floor(math.log2(2.0**14 / norm)))

    def matrix(self) -> Tensor:
        return self.parts.double().sum(0) / self.scale


class Output(NamedTuple):
    into: Any
    product: float = 1.0
    terms: Sequence[float] = ()
    identity: float = 0.0
    result: bool = False


class Products:
    """The kernel's arithmetic and its rules for memory, without a GPU."""

    def __init__(self, batch: int, n: int, device: torch.device, split: bool) -> None:
        self.batch, self.n, self.split = batch, n, split

    def halves(self) -> Halves:
        return Halves(torch.full((1 + self.split, self.batch, self.n, self.n), torch.nan, dtype=torch.float16), 1.0)

    def term(self) -> Tensor:
        return torch.full((self.batch, self.n, self.n), torch.nan)

    def begin(self, L: Tensor, factor: float, shift: float, halves: Halves, term: Tensor) -> None:
        term.copy_(factor * L + shift * torch.eye(self.n))
        self.put(halves, term)

    def product(self, X: Halves, Y: Halves, outputs: Sequence[Output], terms: Sequence[Tensor] = ()) -> None:
        read = [t.clone() for t in terms]
        XY = (X.matrix() @ Y.matrix()).float()
        for out in outputs:
            value = out.product * XY + out.identity * torch.eye(self.n)
            for t, weight in zip(read, out.terms, strict=False):
                value += weight * t
            if isinstance(out.into, Halves):
                assert out.into.parts is not X.parts
                assert out.into.parts is not Y.parts
                self.put(out.into, value)
            else:
                out.into.copy_(value)

    def put(self, halves: Halves, value: Tensor) -> None:
        scaled = value * halves.scale
        halves.parts[0] = scaled.half()
        if self.split:
            halves.parts[1] = (scaled - halves.parts[0].float()).half()
        assert halves.parts.isfinite().all(), "beyond the range of float16"


WIDTHS = (0.5, 3.0, 5.0, 11.9, 17.0, 30.0, 70.0)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(("precision", "bound"), [("highest", 1e-5), ("high", 1e-3)])
def test_the_order_of_the_fused_products_gives_the_exponential(width, precision, bound, relative, monkeypatch):
    monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: precision)
    monkeypatch.setattr(product, "fused", SimpleNamespace(Products=Products, Output=Output))
    L = _symmetric(np.linspace(0.3 - width, 0.3, 12))[None]
    scheme, squarings = product.choose(width)
    out = torch.empty(1, 12, 12)
    product._expm_fused(L.float(), 0.3, scheme, squarings, out)
    assert relative(out, spectral.expm(L)) < bound


@pytest.mark.parametrize("scheme", product.SCHEMES, ids=lambda scheme: f"width {scheme.width:g}")
def test_factors_stay_within_the_sizes_they_are_scaled_by(scheme):
    A = torch.diag(torch.linspace(-product.ROOM, product.ROOM, 401, dtype=torch.float64))
    Q = [A, A @ A]
    factors = [*Q, Q[1] + scheme.first * A]
    Q.append(Q[1] @ factors[-1])
    for pair in scheme.pairs:
        factors += [Q[-1] + sum(c * q for c, q in zip(one, Q, strict=False)) for one in pair]
        Q.append(factors[-2] @ factors[-1])
    largest = [float(torch.linalg.matrix_norm(factor, 2)) for factor in factors]
    np.testing.assert_allclose(product._sizes(scheme), largest, rtol=1e-3)


@pytest.mark.gpu
@pytest.mark.parametrize("n", [5, 64, 65, 100, 130, 360])
@pytest.mark.parametrize("width", WIDTHS)
def test_the_fused_kernel_is_near_the_exponential(n, width, relative):
    assert product.fused is not None
    chance = keys.generator(0, "fused", n)
    V = torch.linalg.qr(torch.from_numpy(chance.normal(size=(3, n, n)))).Q
    w = torch.from_numpy(chance.uniform(0.3 - width, 0.3, size=(3, n, 1)))
    L = symmetrize((V * w.mT) @ V.mT)
    ours = product.expm(L.float().cuda(), (0.3 - width, 0.3))
    assert torch.equal(ours, ours.mT)
    assert relative(ours.cpu(), spectral.expm(L)) < 1e-5


@pytest.mark.gpu
@pytest.mark.parametrize("n", [65, 360])
def test_less_than_float32_where_it_is_asked_for(n, correlations, relative):
    logs = spectral.logm(correlations(16, n, 2 * n))
    w = torch.linalg.eigvalsh(logs)
    torch.set_float32_matmul_precision("high")
    try:
        ours = product.expm(logs.float().cuda(), (float(w.min()), float(w.max())))
    finally:
        torch.set_float32_matmul_precision("highest")
    assert 1e-5 < relative(ours.cpu(), spectral.expm(logs)) < 1e-3


@pytest.mark.gpu
def test_logs_by_products_on_the_gpu(correlations, relative):
    S = correlations(8, 360, 432)
    w = torch.linalg.eigvalsh(S)
    assert relative(product.logm(S.cuda(), (float(w.min()), float(w.max()))).cpu(), spectral.logm(S)) < 1e-9
    assert relative(product.logm(S.cuda()).cpu(), spectral.logm(S)) < 1e-9
