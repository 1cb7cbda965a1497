"""Dropout by words: right in distribution, the same wherever it is drawn, cheap."""

import numpy as np
import pytest
import torch
from scipy import stats

from rmixup.errors import DataError
from rmixup.models.dropout import check_probability, dropout, streams

WORD = torch.tensor(42)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_the_dropped_share_is_p_and_the_mean_stays(p: float) -> None:
    y = dropout(torch.ones(1 << 20), p, WORD).numpy()
    assert stats.binomtest(int((y == 0).sum()), y.size, round(p * 65536) / 65536).pvalue > 1e-3
    assert np.unique(y).tolist() == [0.0, pytest.approx(65536 / (65536 - round(p * 65536)))]


def test_masks_of_neighbouring_words_and_neighbouring_numbers_are_independent() -> None:
    rows = np.stack([dropout(torch.ones(4096), 0.3, torch.tensor(w)).numpy() > 0 for w in range(64)])
    between = np.corrcoef(rows)[np.triu_indices(64, 1)]
    along = np.corrcoef(rows.T[:128])[np.triu_indices(128, 1)]
    assert stats.kstest(between * np.sqrt(4096), "norm").pvalue > 1e-3
    assert stats.kstest(along * np.sqrt(64), "norm").pvalue > 1e-3


def test_a_shorter_batch_gets_the_beginning_of_a_longer_ones_mask() -> None:
    assert torch.equal(dropout(torch.ones(3, 7), 0.5, WORD), dropout(torch.ones(5, 7), 0.5, WORD)[:3])


def test_without_a_word_or_with_p_zero_nothing_happens() -> None:
    x = torch.randn(3, 4)
    assert dropout(x, 0.5, None) is x
    assert dropout(x, 0.0, WORD) is x


def test_the_gradient_passes_where_the_number_stays() -> None:
    x = torch.randn(100, requires_grad=True)
    y = dropout(x, 0.5, WORD)
    y.sum().backward()
    torch.testing.assert_close(x.grad, (y != 0) * 2.0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_the_dtype_stays(dtype: torch.dtype) -> None:
    y = dropout(torch.ones(64, dtype=dtype), 0.5, WORD)
    assert y.dtype == dtype
    assert torch.equal(y.float(), dropout(torch.ones(64), 0.5, WORD))


def test_a_stack_of_words_gives_each_its_own_mask() -> None:
    words, x = torch.arange(3), torch.ones(3, 5, 3)  # 15 numbers: not a multiple of the four in a word
    stacked = torch.func.vmap(lambda x, word: dropout(x, 0.5, word))(x, words)
    assert torch.equal(stacked, torch.stack([dropout(one, 0.5, word) for one, word in zip(x, words, strict=True)]))
    assert not torch.equal(stacked[0], stacked[1])


def test_streams_of_one_word_differ() -> None:
    drawn = streams(WORD, 8)
    assert len({int(one) for one in drawn if one is not None}) == 8


@pytest.mark.parametrize("p", [-0.1, 1.0, float("nan")])
def test_a_probability_out_of_range_is_refused(p: float) -> None:
    with pytest.raises(DataError, match=r"expected a dropout in \[0, 1\)"):
        check_probability(p)


@pytest.mark.gpu
def test_the_gpu_draws_the_same_masks() -> None:
    x = torch.ones(1000, 17)
    assert torch.equal(dropout(x.cuda(), 0.1, WORD.cuda()).cpu(), dropout(x, 0.1, WORD))
