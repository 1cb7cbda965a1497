"""Training on a data set's folder: networks too many for memory stay in their file."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from rmixup.augment import paging
from rmixup.data.readers import load
from rmixup.data.store import Writer
from rmixup.train import cohort
from rmixup.train.protocol import Protocol

PEOPLE, NODES = 4000, 70


def grown(work: str, folder: Path, large: int) -> int:
    command = [sys.executable, str(Path(__file__).parents[1] / "faults" / "large_cohort.py"), work, str(folder)]
    done = subprocess.run([*command, *map(str, (PEOPLE, NODES, large))], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return int(done.stdout.rpartition("@")[2])


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the peak of memory is known on Linux only")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("work", ["train", "mix"])
def test_memory_grows_little_with_people_whose_networks_stay_in_their_file(work: str, tmp_path: Path) -> None:
    """`rmixup train`, and `prepare(cache=)` with its draws, hold blocks of networks and of logarithms.

    In memory, training takes four times the networks' size, mixing twice. What blocks take varies by a fifth of that.
    """
    size = PEOPLE * NODES * NODES * 4 * 3 // 4  # of those people that the other cohort does not have
    paged, held = grown(work, tmp_path / "paged", 2**20), grown(work, tmp_path / "held", 2**30)
    assert held > 1.5 * size, "networks in memory should have been seen: this measures nothing"
    assert paged < held / 2, f"{paged >> 20} MiB, {held >> 20} MiB in memory, for {size >> 20} MiB of networks"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    chance = np.random.default_rng(0)
    with Writer(tmp_path / "cohort") as writer:
        for k in range(40):
            matrix = np.corrcoef(chance.normal(size=(6, 30)) + k % 2).astype(np.float32)
            writer.add(f"s{k}", matrix=(matrix + matrix.T) / 2)
        writer.commit(y=["ab"[k % 2] for k in range(40)])
    return tmp_path / "cohort"


def test_networks_in_their_file_train_the_same_model(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = folder.parent / "scratch"
    scratch.mkdir()
    seen = []

    def trained() -> dict[str, torch.Tensor]:
        settings = cohort.Settings("gcn", protocol=Protocol(epochs=2), device="cpu", scratch=scratch)
        return cohort.train(load(folder), settings, folds=2).model.state

    def fit(problem, *given, **more):
        seen.append((paging.is_paged(problem.x), problem.cache))
        return real(problem, *given, **more)

    real = cohort.fit
    monkeypatch.setattr(cohort, "fit", fit)
    held = trained()
    assert seen == [(False, None)] * 3
    with paging.larger_than_memory():
        in_file = trained()
    assert [paged for paged, _ in seen[3:]] == [True] * 3
    assert {Path(cache).parent for _, cache in seen[3:]} == {scratch}
    assert not list(scratch.iterdir())
    assert held.keys() == in_file.keys()
    assert all(torch.equal(held[name], in_file[name]) for name in held)


def test_other_types_and_selections_are_copied(folder: Path) -> None:
    """What is in a file is single precision and everybody; else there is no file to stay in."""
    ds = load(folder)
    with paging.larger_than_memory():
        assert paging.is_paged(cohort._problem(ds, solved=False).x)
        assert paging.is_paged(cohort._problem(ds[np.arange(40)], solved=False).x)
        assert not paging.is_paged(cohort._problem(ds, solved=True).x)
        assert not paging.is_paged(cohort._problem(ds[np.arange(1, 40)], solved=False).x)
