"""Unit diagonals and the off-log geometry, against its definition and geomstats."""

import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rmixup.errors import DataError, NotSPDError
from rmixup.spd import correlation
from rmixup.spd.correlation import CORRELATION_METRICS, offexp, offlog, unit_diagonal

with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
    # geomstats 2.8 uses an import hook that Python deprecates and a name that NumPy 2.4 dropped.
    warnings.simplefilter("ignore", (ImportWarning, DeprecationWarning))
    patch.setattr(np, "trapz", getattr(np, "trapezoid", None), raising=False)
    from geomstats.geometry import full_rank_correlation_matrices as theirs

OFFLOG = CORRELATION_METRICS["offlog"]
sizes, seeds, positions = st.integers(1, 40), st.integers(0, 10_000), st.floats(0, 1)


def correlations(n: int, seed: int, frames: int | None = None, count: int = 2) -> torch.Tensor:
    """Correlations of factor-driven series, as long as asked (twice the nodes if not): (count, n, n)."""
    generator = torch.Generator().manual_seed(seed)
    frames = frames or 2 * n + 2
    shared = torch.randn(count, n, 3, generator=generator) @ torch.randn(count, 3, frames, generator=generator)
    X = (shared + torch.randn(count, n, frames, generator=generator)).double()
    X = X - X.mean(-1, keepdim=True)
    return unit_diagonal(X @ X.mT)


@given(n=sizes, seed=seeds, t=positions)
def test_mixes_are_correlation_matrices(n: int, seed: int, t: float) -> None:
    A, B = correlations(n, seed)
    C = OFFLOG.geodesic(A, B, t)
    assert float((C.diagonal() - 1).abs().max()) <= 1e-8
    assert torch.equal(C, C.T)
    assert float(torch.linalg.eigvalsh(C)[0]) > 0
    torch.testing.assert_close(OFFLOG.geodesic(B, A, 1 - t), C, rtol=1e-8, atol=1e-9)
    torch.testing.assert_close(OFFLOG.geodesic(A, B, 0.0), A, rtol=1e-8, atol=1e-9)
    torch.testing.assert_close(OFFLOG.geodesic(A, B, 1.0), B, rtol=1e-8, atol=1e-9)


def test_singular_correlations_are_refused_as_announced() -> None:
    assert OFFLOG.full_rank
    with pytest.raises(NotSPDError, match="matrix 0"):
        OFFLOG.mean(correlations(10, 0, frames=5))


@given(n=sizes, seed=seeds)
def test_offexp_inverts_offlog_from_either_side(n: int, seed: int) -> None:
    C = correlations(n, seed)[0]
    torch.testing.assert_close(offexp(offlog(C)), C, rtol=1e-9, atol=1e-10)
    H = torch.randn(n, n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) / n**0.5
    H = (H + H.T) / 2
    back = offlog(offexp(H))
    torch.testing.assert_close(back + torch.diag(H.diagonal()), H, rtol=1e-8, atol=1e-9)


def test_the_diagonal_before_rescaling_is_already_one() -> None:
    hollow = offlog(correlations(30, 0, frames=31))
    exact = torch.linalg.matrix_exp(hollow + torch.diag_embed(correlation._diagonal(hollow)))
    assert float((exact.diagonal(dim1=-2, dim2=-1) - 1).abs().max()) <= 1e-8


@given(n=st.integers(2, 24), seed=seeds)
def test_nodes_can_be_renumbered(n: int, seed: int) -> None:
    A, B = correlations(n, seed)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    renumbered = OFFLOG.geodesic(A[order][:, order], B[order][:, order], 0.3)
    torch.testing.assert_close(renumbered, OFFLOG.geodesic(A, B, 0.3)[order][:, order], rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("n", [4, 7])
def test_parity_with_geomstats(n: int) -> None:
    A, B = correlations(n, 5)
    peer = theirs.OffLogMetric(theirs.FullRankCorrelationMatrices(n, equip=False), alpha=1.0, beta=0.0, gamma=1e-30)
    np.testing.assert_allclose(
        OFFLOG.geodesic(A, B, 0.3).numpy(), np.squeeze(peer.geodesic(A.numpy(), B.numpy())(0.3)), rtol=1e-8, atol=1e-8
    )
    # At n = 4 the term in gamma may not vanish in geomstats, so the distance is compared with its definition.
    logs = [np.linalg.multi_dot([V, np.diag(np.log(w)), V.T]) for w, V in map(np.linalg.eigh, (A.numpy(), B.numpy()))]
    H = logs[0] - logs[1]
    np.testing.assert_allclose(float(OFFLOG.distance(A, B)), np.linalg.norm(H - np.diag(np.diag(H))), rtol=1e-8)


@given(n=st.integers(2, 20), seed=seeds)
def test_mean_of_two_is_the_midpoint_and_distances_add_up(n: int, seed: int) -> None:
    A, B, C = correlations(n, seed, count=3)
    middle = OFFLOG.geodesic(A, B, 0.5)
    torch.testing.assert_close(OFFLOG.mean(torch.stack([A, B])), middle, rtol=1e-8, atol=1e-9)
    assert float(OFFLOG.distance(A, C)) <= float(OFFLOG.distance(A, B) + OFFLOG.distance(B, C)) + 1e-9
    torch.testing.assert_close(OFFLOG.distance(A, middle), OFFLOG.distance(A, B) / 2, rtol=1e-7, atol=1e-8)


def test_the_determinant_swells_through_the_identity() -> None:
    A, B = torch.eye(2).double() + 0.5 * torch.eye(2).flip(0), torch.eye(2).double() - 0.5 * torch.eye(2).flip(0)
    torch.testing.assert_close(OFFLOG.geodesic(A, B, 0.5), torch.eye(2).double())
    assert OFFLOG.swells


def test_batches_and_single_precision() -> None:
    A = correlations(6, 1, count=4).reshape(2, 2, 6, 6)
    C = OFFLOG.geodesic(A, A.flip(0), torch.tensor([0.1, 0.9]))
    torch.testing.assert_close(C[0, 1], OFFLOG.geodesic(A[0, 1], A[1, 1], 0.9), rtol=1e-6, atol=1e-7)
    single = OFFLOG.geodesic(A.float(), A.flip(0).float(), torch.tensor([0.1, 0.9]))
    assert single.dtype == torch.float32
    assert float((single.diagonal(dim1=-2, dim2=-1) - 1).abs().max()) == 0
    torch.testing.assert_close(single.double(), C, rtol=1e-4, atol=1e-5)


def test_gradients() -> None:
    H = torch.randn(4, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda H: offexp((H + H.mT) / 2), H, atol=1e-6)
    zero = torch.zeros(3, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda H: offexp((H + H.mT) / 2), zero, atol=1e-6)


def test_what_does_not_converge_is_refused_by_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(correlation, "MAX_ITERATIONS", 2)
    uneven = torch.tensor([[0.0, 5.0, 1.0], [5.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    H = torch.stack([torch.zeros(3, 3), uneven])
    with pytest.raises(DataError, match="in 2 iterations: the diagonal of matrix 1 is off by"):
        offexp(H)
    # A node that is linked to nobody has arrived at once; it does not speak for the others.
    alone = torch.zeros(4, 4)
    alone[:3, :3] = uneven
    with pytest.raises(DataError, match="the diagonal of the matrix is off by"):
        offexp(alone)


def test_unit_diagonal_is_the_correlation_of_a_covariance() -> None:
    X = np.random.default_rng(0).normal(size=(5, 40)) * np.arange(1, 6)[:, None]
    got = unit_diagonal(torch.from_numpy(np.cov(X)))
    np.testing.assert_allclose(got.numpy(), np.corrcoef(X), rtol=1e-12, atol=1e-14)
    assert torch.equal(got.diagonal(), torch.ones(5).double())
    assert torch.equal(got, got.T)
