"""SIGKILL at any moment loses nothing: a resumed study equals an uninterrupted one."""

import json
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


def _kill_runs(folder: Path, how: str, tries: int) -> dict[str, int]:
    command = [sys.executable, str(HERE / "kill_runs.py"), str(folder), how, str(tries)]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_twenty_kills_at_random_moments_lose_nothing(make_study: sgd_work.Make) -> None:
    found = _kill_runs(make_study().folder, "random", 20)
    assert found["lost"] == 0
    assert found["partial"] >= 10


def test_kills_between_writing_and_renaming_lose_nothing_and_left_overs_are_swept(make_study: sgd_work.Make) -> None:
    found = _kill_runs(make_study().folder, "renames", 20)
    assert found["lost"] == 0
    assert found["left_over"] == found["tries"]


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
