"""The same numbers again: whatever the number of processes and workers, the order, the hash seed, the threads."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import ENVIRONMENT, process, write_spec
from tally import Tally

from rmixup import simulate
from rmixup.study.project import open_study

# Predicted probabilities of networks of this size after this many epochs, with another number of threads: sums in
# another order differ in their last digits, and training carries that on. Measured: below 1e-6; allowed is this.
ACROSS_THREADS = 1e-4


@pytest.fixture(scope="module")
def cohort(tmp_path_factory: pytest.TempPathFactory) -> Path:
    ds = simulate(n_subjects=60, n_nodes=40, n_frames=50, n_sites=2, seed=1)
    return ds.save(tmp_path_factory.mktemp("cohort") / "cohort")


def _run(folder: Path, cohort: Path, name: str, *options: object, seed: int = 0, repeats: int = 2) -> Any:
    """Run the study as a command and return its store."""
    spec = write_spec(
        folder / f"{name}.toml", cohort, repeats=repeats, epochs=4, methods='["none", "rmixup", "gmixup"]'
    )
    command = ["study", "run", spec, "--out", folder / name, "--quiet", *options]
    done = process(*command, environment={"PYTHONHASHSEED": str(seed)})
    assert done.returncode == 0, done.stderr
    return open_study(folder / name).store


@pytest.mark.fault(21)
@pytest.mark.timeout(600)
def test_processes_and_hash_seeds_change_nothing(cohort: Path, tmp_path: Path, tally: Tally) -> None:
    expected = _run(tmp_path, cohort, "one", "--processes", 0).hashes()
    assert len(expected) == 10
    others = [(2, 1)] if not tally.full else [(p, s) for p in (1, 2, 4) for s in (0, 1, 2)]
    for processes, seed in others:
        with tally.attempt(f"{processes} processes, PYTHONHASHSEED={seed}"):
            store = _run(tmp_path, cohort, f"{processes} {seed}", "--processes", processes, seed=seed)
            assert store.hashes() == expected


@pytest.mark.fault(21)
@pytest.mark.timeout(600)
def test_other_numbers_of_threads_stay_within_the_tolerance(cohort: Path, tmp_path: Path, tally: Tally) -> None:
    """And are told apart: a study is fixed to the number it began with."""
    one = _run(tmp_path, cohort, "threads 1", "--processes", 1, "--threads", 1, repeats=1)
    for threads in (2,) if not tally.full else (2, 3, 4):
        other = _run(tmp_path, cohort, f"threads {threads}", "--processes", 1, "--threads", threads, repeats=1)
        assert one.done() == other.done()
        for key in sorted(one.done()):
            with tally.attempt(f"{threads} threads, {key}"):
                a, b = (store.read(key).predictions for store in (one, other))
                columns = [name for name in a if str(name).startswith("p_")]
                assert columns
                gap = max(np.abs(np.asarray(a[c], float) - np.asarray(b[c], float)).max() for c in columns)
                assert gap <= ACROSS_THREADS


LOADED = """
import hashlib, json, sys
import torch
import rmixup
if __name__ == "__main__":
    ds = rmixup.simulate(n_subjects=40, n_nodes=6, n_frames=30, seed=1)
    data = [(torch.tensor(m.copy()), int(label)) for m, label in zip(ds.matrices, ds.y)]
    collate = rmixup.MixupCollate("rmixup", train=data, seed=0)
    told = []
    for workers in (0, 2):
        mixed = hashlib.sha256()
        for epoch in range(2):
            collate.set_epoch(epoch)
            loader = torch.utils.data.DataLoader(data, batch_size=8, num_workers=workers, collate_fn=collate)
            for one, two in loader:
                mixed.update(one.numpy().tobytes() + two.numpy().tobytes())
        told.append(mixed.hexdigest())
    splits = [part.subjects.tolist() for seed in range(5) for part in ds.split(seed=seed)]
    words = json.dumps([told, hashlib.sha256(json.dumps(splits).encode()).hexdigest(), ds.content_hash()])
    print("@" + words)
"""


@pytest.mark.fault(21)
def test_loaders_splits_and_hashes_do_not_follow_the_hash_seed(tmp_path: Path, tally: Tally) -> None:
    """With no worker and with two."""
    (tmp_path / "loaded.py").write_text(LOADED)
    found = []
    for seed in range(tally.many(2, 6)):
        environment = {**ENVIRONMENT, "PYTHONHASHSEED": str(seed)}
        done = subprocess.run(
            [sys.executable, str(tmp_path / "loaded.py")], env=environment, capture_output=True, text=True, check=False
        )
        with tally.attempt(f"PYTHONHASHSEED={seed}"):
            assert done.returncode == 0, done.stderr
            workers, splits, content = json.loads(done.stdout.rpartition("@")[2])
            found.append((*workers, splits, content))
            assert workers[0] == workers[1]
            assert found[-1] == found[0]
    assert hashlib.sha256(b"").hexdigest() not in found[0]
