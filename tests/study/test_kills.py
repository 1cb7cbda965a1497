"""A study that is stopped from outside ends in order; what SIGKILL leaves is resumed (see also tests/faults)."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import sgd_work

from rmixup.study.runner import run

HERE = Path(__file__).parent
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(HERE), "OMP_NUM_THREADS": "1"}
MAIN = [sys.executable, "-c", "from rmixup.cli import main; main()"]


def _wait_for_cells(folder: Path, cells: int) -> None:
    deadline = time.monotonic() + 60
    while sum(1 for _ in folder.glob("cells/*/result.json")) < cells:
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("sent", "code", "processes"), [(signal.SIGKILL, -9, 2), (signal.SIGINT, 130, 1), (signal.SIGTERM, 143, 1)]
)
def test_a_command_that_is_stopped_leaves_no_workers_and_no_half_cells(
    make_study: sgd_work.Make, sent: signal.Signals, code: int, processes: int
) -> None:
    methods = '["none", {name = "mix", sleep = 0.02}]'
    study = make_study(methods=methods, stack=1, repeats=5)
    command = [*MAIN, "study", "resume", str(study.folder), "--work", "sgd_work", "--json"]
    command += ["--processes", str(processes)]
    process = subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    _wait_for_cells(study.folder, 3)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    process.send_signal(sent)
    _, said = process.communicate(timeout=30)
    assert process.returncode == code
    assert "Traceback" not in said
    assert len(children) >= processes
    _wait_until_gone(children)
    if sent != signal.SIGKILL:
        assert not list(study.folder.rglob(".tmp-*"))
        assert not list(study.store.claims.folder.iterdir())
    assert study.store.verify() == []
    done = study.store.hashes()
    assert run(study, sgd_work.work).complete
    whole = make_study("whole", methods=methods, stack=1, repeats=5)
    run(whole, sgd_work.work)
    assert study.store.hashes() == whole.store.hashes()
    assert done.items() <= whole.store.hashes().items()


def _wait_until_gone(pids: list[str]) -> None:
    deadline = time.monotonic() + 20
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.02)
