"""`published=True`: what the published code does where that changes numbers."""

import numpy as np
import pytest
import torch

from rmixup import NotSPDError
from rmixup.augment import CMixup, DMixup, DropEdge, DropNode, LabelKernel, Plan, RMixup, VMixup

from .conftest import correlations


@pytest.mark.parametrize("method", [VMixup, RMixup, DMixup])
def test_published_partners_are_the_batch_in_another_order(method: type[VMixup], x: np.ndarray) -> None:
    prepared = method(published=True).prepare(x, np.arange(20.0))
    plan = prepared.draw([2, 3, 5, 7], 0)
    assert sorted(plan.j) == [2, 3, 5, 7]
    assert len(set(plan.lam)) == 1
    free = method().prepare(x, np.arange(20.0))
    assert any(set(free.draw([2, 3, 5, 7], key).j) - {2, 3, 5, 7} for key in range(5))
    kept = method(published=True, pairs=LabelKernel(0.5)).prepare(x, np.arange(20.0))
    assert any(set(kept.draw([2, 3, 5, 7], key).j) - {2, 3, 5, 7} for key in range(5))


def published_log(t: torch.Tensor) -> torch.Tensor:
    """What the published code computes."""
    s, u = torch.linalg.eigh(t)
    return u @ torch.diag_embed(torch.where(s <= 0, 1e-8, s).log()) @ u.mT


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_published_rmixup_takes_logarithms_as_they_come(dtype: torch.dtype) -> None:
    x = torch.from_numpy(correlations(6, 5)).to(dtype)
    x[0] = 1.0
    x[1, 0, 1] = x[1, 1, 0] = 3.0
    prepared = RMixup(published=True).prepare(x, np.arange(6.0))
    made = prepared.apply(Plan([1, 2, 3], [3, 3, 4], 0.4))[0]
    logs = published_log(x)
    expected = torch.linalg.matrix_exp(0.6 * logs[[1, 2, 3]] + 0.4 * logs[[3, 3, 4]])
    torch.testing.assert_close(made, expected, rtol=1e-4 if dtype == torch.float32 else 1e-9, atol=1e-5)
    assert prepared.record["regularizer"] == "published=1e-08"
    assert prepared.record["changed"] >= 1
    with pytest.raises(NotSPDError):
        RMixup().prepare(x, np.arange(6.0))


def test_published_dmixup_masks_every_entry_by_itself() -> None:
    x = np.stack([np.zeros((30, 30)), np.ones((30, 30))])
    made = DMixup(published=True).prepare(x, [0, 1]).apply(Plan([0], [1], 0.5, words=[3]))[0][0]
    assert not torch.equal(made, made.T)
    assert abs(made.mean() - 0.5) < 0.06


def test_published_dropedge_masks_every_entry_by_itself() -> None:
    made = DropEdge(rate=0.5, published=True)(np.ones((1, 30, 30)), [1.0])[0][0]
    assert not np.array_equal(made, made.T)
    assert 0 < np.diagonal(made).sum() < 30


def test_published_dropnode_has_one_mask_a_batch_and_drops_diagonals() -> None:
    x = np.ones((6, 20, 20))
    given = x.copy()
    made = DropNode(rate=0.4, published=True)(x, np.arange(6.0), seed=1)[0]
    assert (made == made[0]).all()
    kept = np.diagonal(made[0])
    assert np.array_equal(made[0], np.outer(kept, kept))
    assert 0 < kept.sum() < 20
    assert np.array_equal(x, given)
    assert len({row.tobytes() for row in DropNode(rate=0.4)(x, np.arange(6.0), seed=1)[0]}) > 1
    assert len(DropNode(published=True).prepare(x, np.arange(6.0)).draw([], 0)) == 0


def test_published_cmixup_counts_in_raw_units_and_skips_odd_batches(x: np.ndarray) -> None:
    y = 100.0 * np.arange(20)
    prepared = CMixup(published=True).prepare(x, y)
    assert prepared.draw([1, 2, 3], 0).lam.tolist() == [0, 0, 0]
    even = prepared.draw([1, 2, 3, 4], 0)
    assert even.lam[0] > 0
    assert even.j.tolist() == [1, 2, 3, 4], "a hundred units apart, everybody is his own only partner"
    assert CMixup().prepare(x, y).draw([1, 2, 3], 0).lam.min() > 0
    given = CMixup(published=True, pairs=LabelKernel(0.5)).prepare(x, y)
    assert (given.draw(np.arange(20), 0).j != np.arange(20)).all()
