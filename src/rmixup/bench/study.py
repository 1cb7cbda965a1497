"""What a study costs beside its training: the runner a cell, and the status of a study of many cells.

The runner is timed with its cells' outcomes at hand, because in the noise of a training its cost would be lost; `ratio`
is training and runner over training. May not be here: the engine's own speed (see `engine`).
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import torch

from rmixup.study import work
from rmixup.study.cells import Cell, DataIdentity
from rmixup.study.project import Settings, Study, begin, open_study
from rmixup.study.results import Outcome, Result
from rmixup.study.runner import run
from rmixup.study.spec import Spec, parse_spec
from rmixup.study.status import status

Row = dict[str, Any]
T = TypeVar("T")

# Four methods on ten splits, of few epochs: training is short, so the runner's share is large.
REPEATS, QUICK_REPEATS = 10, 1
MANY, QUICK_MANY = 1250, 25
ROUNDS, QUICK_ROUNDS = 5, 1
# Commits wait for the disk, not for each other.
_WRITERS = 16
_TRAINED = """
data.preset = "simulated"
split.repeats = {repeats}
protocol.epochs = 2
grid.methods = ["none", "vmixup", "cmixup", "rmixup"]
grid.baselines = []
"""
_LISTED = """
data.path = "nowhere"
split.repeats = {repeats}
grid.methods = ["none", "vmixup", "dmixup", "dropnode", "dropedge", "gmixup", "cmixup", "rmixup"]
grid.baselines = []
"""


def rows(quick: bool = False) -> list[Row]:
    """Time both in a folder for temporary files, with one thread as cells have."""
    threads, rounds = torch.get_num_threads(), QUICK_ROUNDS if quick else ROUNDS
    torch.set_num_threads(1)
    try:
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            return [
                *_overhead(place, QUICK_REPEATS if quick else REPEATS, rounds),
                *_listing(place / "many", QUICK_MANY if quick else MANY, rounds),
            ]
    finally:
        torch.set_num_threads(threads)


def _overhead(place: Path, repeats: int, rounds: int) -> list[Row]:
    spec = parse_spec(_TRAINED.format(repeats=repeats))
    identity = work.identify(spec.data)
    first = _begun(place / "trained", spec, identity)
    list(work.work(first.cells[:1], first))  # libraries set themselves up
    outcomes, *trained = _timed(lambda: {cell: one for k in first.cells for cell, one in work.work([k], first)})

    def at_hand(cells: Sequence[Cell], study: Study) -> Iterator[tuple[Cell, Outcome]]:
        return ((cell, outcomes[cell]) for cell in cells)

    studies = [_begun(place / f"run-{k}", spec, identity) for k in range(rounds)]
    seconds, cpu = _least(lambda study: run(study, at_hand), studies)
    of = f"{len(first.cells)} cells"
    return [
        {"method": f"train {of}", "seconds": trained[0], "cpu_seconds": trained[1], "ratio": 1.0},
        {"method": f"run {of}, trained before", "seconds": seconds, "cpu_seconds": cpu,
         "ratio": (trained[0] + seconds) / trained[0]},
    ]  # fmt: skip


def _listing(place: Path, repeats: int, rounds: int) -> list[Row]:
    """A study whose every cell is committed, listed in this process and by the command."""
    study = _begun(place, parse_spec(_LISTED.format(repeats=repeats)), DataIdentity("0" * 64, subjects=100))
    result = Result({"auroc": 0.5}, {"subject": ["a"], "p": [0.5]}, sizes={"test": 1}, curves={"train_loss": [0.1]})
    with ThreadPoolExecutor(_WRITERS) as writers:
        list(writers.map(lambda cell: study.store.commit(cell, result, 1.0, {}), study.cells))
    command = [sys.executable, "-c", "import sys; from rmixup.cli import run; sys.exit(run(sys.argv[1:]))"]
    command += ["study", "status", str(place), "--json"]
    seconds, cpu = _least(lambda one: status(open_study(one)), [place] * rounds)
    whole, _ = _least(lambda one: subprocess.run(one, check=True, capture_output=True), [command] * rounds)
    of = f"{len(study.cells)} cells"
    return [
        {"method": f"status of {of}", "seconds": seconds, "cpu_seconds": cpu},
        {"method": f"rmixup study status of {of}, start included", "seconds": whole},
    ]


def _begun(place: Path, spec: Spec, identity: DataIdentity) -> Study:
    return begin(place, spec, identity, Settings(device="cpu"), "rmixup.study.work")


def _timed(call: Callable[[], T]) -> tuple[T, float, float]:
    """What a call returns, its seconds, and those of all threads."""
    start, cpu = time.perf_counter(), time.process_time()
    found = call()
    return found, time.perf_counter() - start, time.process_time() - cpu


def _least(call: Callable[[T], object], given: Sequence[T]) -> tuple[float, float]:
    """The shortest of several calls: what else the machine does can only add."""
    times = [_timed(lambda one=one: call(one))[1:] for one in given]  # type: ignore[misc]
    return min(times)
