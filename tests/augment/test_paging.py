"""Rows of mapped files larger than memory: the same numbers, and no pages left behind."""

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


@pytest.fixture
def mapped(tmp_path: Path, networks: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> np.memmap:
    monkeypatch.setattr(paging, "LARGE", 0)
    np.save(tmp_path / "x.npy", networks)
    return np.load(tmp_path / "x.npy", mmap_mode="r")


def test_rows_are_read_from_the_file_in_any_order(mapped: np.memmap, networks: np.ndarray) -> None:
    tensor = paging.tensor_of(mapped)
    rows = torch.tensor([7, 0, 29, 7])
    assert paging.is_paged(tensor)
    assert np.array_equal(paging.take(tensor, rows).numpy(), networks[rows.numpy()])
    paging.release(tensor)
    assert np.array_equal(tensor.numpy(), networks)


def test_double_precision_is_read_as_such(tmp_path: Path, mapped: np.memmap) -> None:
    """`mapped` has every file count as large."""
    np.save(tmp_path / "double.npy", mapped.astype(np.float64) / 3.0)
    tensor = paging.tensor_of(double := np.load(tmp_path / "double.npy", mmap_mode="r"))
    assert paging.is_paged(tensor)
    found = paging.take(tensor, torch.tensor([3, 1]))
    assert found.dtype == torch.float64
    assert np.array_equal(found.numpy(), double[[3, 1]])


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
