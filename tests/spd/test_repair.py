"""Rank, SPD-ness and regularisers: what they return and what they say they did."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rmixup.errors import DataError
from rmixup.spd.repair import Regularizer, checked_regularizer, parse_regularizer, rank_bound, regularize, spdness


def from_frames(n: int, frames: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.corrcoef(np.random.default_rng(seed).normal(size=(n, frames))))


@given(n=st.integers(2, 30), t=st.integers(3, 60), seed=st.integers(0, 1000))
def test_centring_costs_one_frame(n: int, t: int, seed: int) -> None:
    S = from_frames(n, t, seed)
    assert int(torch.linalg.matrix_rank(S, hermitian=True)) == rank_bound(n, t)
    assert float(spdness(S, tol=1e-10)) == pytest.approx(rank_bound(n, t) / n)


def test_rank_bound_at_its_edges() -> None:
    assert [rank_bound(100, t) for t in (0, 1, 100, 101, 500)] == [0, 0, 99, 100, 100]


def test_spdness_of_a_batch() -> None:
    S = torch.stack([torch.eye(4), torch.diag(torch.tensor([1.0, 1e-3, 1e-7, -1.0]))])
    assert spdness(S).tolist() == [1.0, 0.5]
    assert spdness(S, tol=1e-2).tolist() == [1.0, 0.25]
    assert spdness(S.reshape(2, 1, 4, 4)).shape == (2, 1)


@given(n=st.integers(1, 40), seed=st.integers(0, 1000), amount=st.floats(1e-4, 1))
def test_shrinking_moves_every_eigenvalue_towards_their_mean(n: int, seed: int, amount: float) -> None:
    S = from_frames(max(n, 2), n // 2 + 3, seed)
    got, record = regularize(S, "shrink", amount)
    w, before = torch.linalg.eigvalsh(got), torch.linalg.eigvalsh(S)
    torch.testing.assert_close(w, (1 - amount) * before + amount * before.mean(), rtol=1e-10, atol=1e-12)
    assert (record.how, record.amount, record.changed, record.total) == ("shrink", amount, 1, 1)
    assert record.smallest_before == pytest.approx(float(before[0]), abs=1e-12)


def test_shrink_keeps_a_unit_diagonal() -> None:
    got, _ = regularize(from_frames(8, 5), "shrink", 0.3)
    torch.testing.assert_close(got.diagonal(), torch.ones(8).double())


@given(n=st.integers(2, 40), seed=st.integers(0, 1000), floor=st.floats(1e-8, 0.5))
def test_a_floor_raises_only_what_lies_below_it(n: int, seed: int, floor: float) -> None:
    S = from_frames(n, n // 2 + 3, seed)
    got, record = regularize(S, "floor", floor)
    before = torch.linalg.eigvalsh(S)
    torch.testing.assert_close(torch.linalg.eigvalsh(got), before.clamp(min=floor), rtol=1e-8, atol=1e-12)
    assert record.changed == int(before[0] < floor)


def test_matrices_above_the_floor_stay_as_they_are_to_the_bit() -> None:
    S = torch.stack([from_frames(6, 60), from_frames(6, 4)])
    got, record = regularize(S, "floor")
    assert torch.equal(got[0], S[0])
    assert not torch.equal(got[1], S[1])
    assert (record.changed, record.total, record.amount) == (1, 2, 1e-6)
    assert str(record).startswith("floor=1e-06 changed 1 of 2 matrices (smallest eigenvalue before: ")


def test_dtype_stays_and_empty_batches_pass() -> None:
    for how in ("shrink", "floor"):
        assert regularize(torch.eye(3), how)[0].dtype == torch.float32
        got, record = regularize(torch.zeros(0, 3, 3), how)
        assert got.shape == (0, 3, 3)
        assert (record.changed, record.total) == (0, 0)
        assert np.isnan(record.smallest_before)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("shrink=0.05", ("shrink", 0.05)),
        (" floor = 1e-6 ", ("floor", 1e-6)),
        ("shrink", ("shrink", 0.05)),
        ("shrink=1", ("shrink", 1.0)),
        ("floor=7", ("floor", 7.0)),
        ("floor", ("floor", 1e-6)),
    ],
)
def test_text_is_read(text: str, wanted: tuple[str, float]) -> None:
    assert parse_regularizer(text) == Regularizer(*wanted)


@given(amount=st.floats(1e-12, 1), how=st.sampled_from(["shrink", "floor"]))
def test_written_regularisers_read_back(amount: float, how: str) -> None:
    written = str(checked_regularizer(how, amount))
    assert parse_regularizer(written) == (how, amount)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ledoit-wolf", "'shrink' or 'floor'.*but came 'ledoit-wolf'.*connectivity"),
        ("shrink=much", "must be a number.*'shrink=much'"),
        ("shrink=1.5", "above 0 and at most 1, but is 1.5"),
        ("shrink=0", "above 0"),
        ("floor=-1", "above 0"),
        ("floor=inf", "above 0"),
        ("floor=nan", "above 0"),
    ],
)
def test_nonsense_is_refused(text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        parse_regularizer(text)


def test_batches_are_counted_whole_and_each_matrix_has_its_own_mean() -> None:
    S = torch.stack([torch.eye(3), 4 * torch.eye(3)]).repeat(2, 1, 1, 1).double()
    S[1, 1, 0, 0] = -2.0
    shrunk, record = regularize(S, "shrink", 0.5)
    torch.testing.assert_close(shrunk[1, 1].diagonal(), torch.tensor([0.0, 3.0, 3.0]).double())
    torch.testing.assert_close(shrunk[0], S[0])
    assert (record.changed, record.total, record.smallest_before) == (4, 4, -2.0)
    floored, record = regularize(S, "floor", 1.0)
    torch.testing.assert_close(floored[1, 1].diagonal(), torch.tensor([1.0, 4.0, 4.0]).double())
    assert torch.equal(floored[0], S[0])
    assert (record.changed, record.total, record.smallest_before) == (1, 4, -2.0)


def test_an_eigenvalue_at_the_tolerance_is_not_above_it() -> None:
    S = torch.diag(torch.tensor([0.25, 0.5, 1.0]))
    assert float(spdness(S, tol=0.25)) == pytest.approx(2 / 3)
    assert regularize(S, "floor", 0.25)[1].changed == 0
