"""Keys name streams: same key, same numbers; and the numbers are as random as they should be."""

import numpy as np
import pytest
import torch
from scipy import stats

from rmixup import keys


def test_the_same_key_gives_the_same_numbers_and_another_key_others() -> None:
    assert np.array_equal(keys.generator(1, "a", 2).random(5), keys.generator(1, "a", 2).random(5))
    streams = [
        keys.word(1, "a", 2),
        keys.word(1, "a", 3),
        keys.word(2, "a", 2),
        keys.word(1, "a", "2"),
        keys.word(1),
    ]
    assert len(set(streams)) == len(streams)


def test_numpy_integers_name_the_same_stream_as_pythons() -> None:
    assert keys.word(np.int64(3), np.int32(4)) == keys.word(3, 4)


def test_labels_do_not_run_into_each_other() -> None:
    assert keys.word(0, "ab", "c") != keys.word(0, "a", "bc")


def test_bits_are_splitmix64() -> None:
    """The published test vector of SplitMix64 with seed 1234567."""
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    got = keys.bits(torch.tensor(1234567), 4).tolist()
    assert [value % 2**64 for value in got] == expected


@pytest.mark.parametrize("word", [0, 1, -1, 2**62])
def test_uniform_is_uniform_and_normal_is_normal(word: int) -> None:
    words = torch.tensor([word])
    assert stats.kstest(keys.uniform(words, 20000)[0].numpy(), "uniform").pvalue > 1e-3
    assert stats.kstest(keys.normal(words, 20000)[0].numpy(), "norm").pvalue > 1e-3


def test_neighbouring_words_are_unrelated() -> None:
    u = keys.uniform(torch.arange(200), 500).numpy()
    off = np.corrcoef(u)[~np.eye(200, dtype=bool)]
    assert np.abs(off).max() < 6 / np.sqrt(500)


def test_a_longer_expansion_begins_with_the_shorter() -> None:
    words = torch.tensor([3, 4])
    assert torch.equal(keys.uniform(words, 100)[:, :10], keys.uniform(words, 10))


@pytest.mark.gpu
def test_the_gpu_gives_the_same_numbers() -> None:
    words = torch.arange(-8, 8)
    assert torch.equal(keys.uniform(words.cuda(), 1000).cpu(), keys.uniform(words, 1000))
    torch.testing.assert_close(keys.normal(words.cuda(), 1000).cpu(), keys.normal(words, 1000), rtol=1e-5, atol=1e-6)


def test_short_bits_are_the_quarters_of_bits() -> None:
    word = torch.tensor([1234567])
    quarters = keys.bits(word, 2).numpy().astype("<i8").view("<i2")
    assert np.array_equal(keys.short_bits(word, 7).numpy(), quarters[:, :7])


@pytest.mark.parametrize("word", [0, -1, 2**40])
def test_short_bits_are_uniform_and_their_neighbours_independent(word: int) -> None:
    drawn = keys.short_bits(torch.tensor([word]), 1 << 18)[0].numpy().astype(np.int64) + (1 << 15)
    for lag in (1, 2, 3, 4, 1024):
        table, *_ = np.histogram2d(drawn[:-lag], drawn[lag:], bins=32, range=[[0, 1 << 16]] * 2)
        assert stats.chisquare(table.ravel()).pvalue > 1e-4
    for lane in range(4):
        counts = np.bincount(drawn[lane::4] % 256, minlength=256)  # the low bits are as good as the high ones
        assert stats.chisquare(counts).pvalue > 1e-4


def test_expanding_leaves_the_words_alone() -> None:
    words = torch.tensor([5, 6])
    keys.bits(words, 3)
    assert words.tolist() == [5, 6]
