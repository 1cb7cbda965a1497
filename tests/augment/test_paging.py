"""Rows of mapped files larger than memory: the same numbers, and no pages left behind."""

import errno
import os
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

from rmixup.augment import METHODS, paging
from rmixup.augment.labels import encode
from rmixup.train import engine
from rmixup.train.feed import Problem, Run
from rmixup.train.protocol import Protocol


@pytest.fixture
def networks() -> np.ndarray:
    series = np.random.default_rng(0).normal(size=(30, 20, 5))
    return np.stack([np.corrcoef(one.T) for one in series]).astype(np.float32)


@pytest.fixture(params=["page cache", "past it"])
def mapped(
    request: pytest.FixtureRequest, tmp_path: Path, networks: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> np.memmap:
    """A file that counts as large, and as one that memory can hold or cannot."""
    np.save(tmp_path / "x.npy", networks)
    monkeypatch.setattr(paging, "READER_BYTES", 1)  # several readers also for these few bytes
    monkeypatch.setattr(paging, "LARGE", 0)
    monkeypatch.setattr(paging, "CACHED", np.inf if request.param == "page cache" else 0.0)
    return np.load(tmp_path / "x.npy", mmap_mode="r")


def test_rows_are_read_from_the_file_in_any_order(mapped: np.memmap, networks: np.ndarray) -> None:
    tensor = paging.tensor_of(mapped)
    rows = torch.tensor([7, 0, 29, 7])
    assert paging.is_paged(tensor)
    assert np.array_equal(paging.take(tensor, rows).numpy(), networks[rows.numpy()])
    paging.release(tensor)
    assert np.array_equal(tensor.numpy(), networks)
    assert paging.take(tensor, rows[:0]).shape == (0, 5, 5)


def test_double_precision_is_read_as_such(tmp_path: Path, mapped: np.memmap) -> None:
    """`mapped` has every file count as large."""
    np.save(tmp_path / "double.npy", mapped.astype(np.float64) / 3.0)
    tensor = paging.tensor_of(double := np.load(tmp_path / "double.npy", mmap_mode="r"))
    assert paging.is_paged(tensor)
    found = paging.take(tensor, torch.tensor([3, 1]))
    assert found.dtype == torch.float64
    assert np.array_equal(found.numpy(), double[[3, 1]])


def test_reads_that_bring_less_than_was_asked_for_go_on(
    mapped: np.memmap, networks: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = os.preadv
    monkeypatch.setattr(os, "preadv", lambda file, into, offset: whole(file, [into[0][:30]], offset))
    monkeypatch.setattr(paging, "CACHED", np.inf)  # past the cache only whole pages are read
    found = paging.take(paging.tensor_of(mapped), torch.tensor([7, 0]))
    assert np.array_equal(found.numpy(), networks[[7, 0]])


@pytest.mark.parametrize("readers", [1, 3, 8])
def test_rows_longer_than_a_piece_by_any_number_of_readers(
    readers: int, tmp_path: Path, mapped: np.memmap, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paging, "PIECE", 2 * paging.PAGE)
    monkeypatch.setattr(paging, "READERS", readers)
    monkeypatch.setattr(paging, "_local", threading.local())
    long = np.random.default_rng(1).random((9, 7001), np.float32)
    np.save(tmp_path / "long.npy", long)
    tensor = paging.tensor_of(np.load(tmp_path / "long.npy", mmap_mode="r"))
    rows = np.array([8, 0, 3, 3, 1])
    assert np.array_equal(paging.take(tensor, torch.from_numpy(rows)).numpy(), long[rows])


def test_no_pages_of_what_memory_cannot_hold_stay_in_the_cache(mapped: np.memmap, networks: np.ndarray) -> None:
    opened = []

    def note(path: str, flags: int) -> int:
        opened.append(flags)
        return real(path, flags)

    real = os.open
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", note)
        paging.take(paging.tensor_of(mapped), torch.tensor([1, 2]))
    direct = getattr(os, "O_DIRECT", 0)
    assert [flags & direct for flags in opened] == [direct if paging.CACHED == 0 else 0]


def test_a_file_system_that_cannot_pass_by_the_cache_is_read_through_it(
    mapped: np.memmap, networks: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open

    def refuse(path: str, flags: int) -> int:
        if flags & getattr(os, "O_DIRECT", 0):
            raise OSError(errno.EINVAL, "Invalid argument")
        return real(path, flags)

    tensor = paging.tensor_of(mapped)
    monkeypatch.setattr(os, "open", refuse)
    assert np.array_equal(paging.take(tensor, torch.tensor([29, 0])).numpy(), networks[[29, 0]])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_has_readers_of_its_own(mapped: np.memmap, networks: np.ndarray) -> None:
    """As workers of a DataLoader are; the parent's threads do not exist there."""
    tensor = paging.tensor_of(mapped)
    paging.take(tensor, torch.tensor([1, 2]))
    child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(paging.take(tensor, torch.tensor([3, 4])).numpy(), networks[3:5]) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_what_counts_as_larger_than_memory_is_restored(networks: np.ndarray, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", networks)
    small = np.load(tmp_path / "x.npy", mmap_mode="r")
    with paging.larger_than_memory():
        assert paging.is_paged(paging.tensor_of(small))
    assert (paging.LARGE, paging.CACHED) == (2**30, 0.5)


@pytest.mark.parametrize("row", [30, -1])
def test_a_row_outside_is_refused(mapped: np.memmap, row: int) -> None:
    with pytest.raises(IndexError, match=f"row {row} of 30"):
        paging.take(paging.tensor_of(mapped), torch.tensor([row]))


def test_only_large_whole_maps_are_paged(mapped: np.memmap, networks: np.ndarray, monkeypatch) -> None:
    assert not paging.is_paged(paging.tensor_of(networks))
    assert not paging.is_paged(paging.tensor_of(mapped[3:]))
    monkeypatch.setattr(paging, "LARGE", 2**30)
    fresh = np.load(mapped.filename, mmap_mode="r")
    assert not paging.is_paged(paging.tensor_of(fresh))


def test_a_map_that_is_gone_is_forgotten(mapped: np.memmap) -> None:
    copy = np.load(mapped.filename, mmap_mode="r")
    address = paging.tensor_of(copy).data_ptr()
    assert address in paging._maps
    del copy
    assert address not in paging._maps


def test_a_file_cut_while_it_is_read_says_so(mapped: np.memmap) -> None:
    tensor = paging.tensor_of(mapped)
    with open(mapped.filename, "rb+") as file:  # noqa: PTH123 -- the map's own name
        file.truncate(200)
    with pytest.raises(OSError, match="ends at"):
        paging.take(tensor, torch.tensor([20]))


def test_what_is_written_through_a_released_map_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paging, "LARGE", 0)
    values = np.lib.format.open_memmap(tmp_path / "w.npy", mode="w+", dtype=np.float32, shape=(4, 2048))
    tensor = paging.tensor_of(values)
    tensor[1] = 3.0
    paging.release(tensor)
    assert (np.load(tmp_path / "w.npy")[1] == 3).all()


@pytest.mark.parametrize("method", ["vmixup", "rmixup", "tangent"])
def test_training_from_files_equals_training_from_memory(
    method: str, mapped: np.memmap, networks: np.ndarray, tmp_path: Path
) -> None:
    order = np.random.default_rng(1).permutation(30)
    run = Run(order[:18], order[18:24], order[24:], METHODS[method](), 3)
    protocol = Protocol(epochs=2)

    def trained(x: torch.Tensor, cache: Path | None) -> engine.Outcome:
        problem = Problem(x, encode([0, 1] * 15), cache=cache)
        return engine.fit(problem, [run], "mlp", options={"hidden": (8,)}, protocol=protocol, device="cpu")[0]

    from_memory = trained(torch.from_numpy(networks), None)
    from_files = trained(paging.tensor_of(mapped), tmp_path / "cache")
    assert np.array_equal(from_files.best.test, from_memory.best.test)
    assert np.array_equal(from_files.curves["train_loss"], from_memory.curves["train_loss"])
