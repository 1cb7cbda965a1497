"""A study on a real Dask scheduler with two real workers, one of which is killed in the middle."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import sgd_work

from rmixup.errors import RMixupError
from rmixup.study import executors
from rmixup.study.executors import DaskCluster, executor_for
from rmixup.study.project import Study
from rmixup.study.runner import run

dask = pytest.importorskip("dask")
pytest.importorskip("distributed")

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parent), "OMP_NUM_THREADS": "1"}
# Quick to notice a dead worker; no dashboards.
SETTINGS = {"DASK_DISTRIBUTED__COMM__RETRY__COUNT": "0", "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "20s"}


def _start(stack: ExitStack, *arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "distributed.cli." + arguments[0], *arguments[1:]]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, env={**ENVIRONMENT, **SETTINGS}, **quiet)  # type: ignore[call-overload]
    stack.callback(process.wait)
    stack.callback(process.kill)
    return process


@dataclass
class Cluster:
    """A scheduler and two workers of one thread each."""

    place: Path
    scheduler: subprocess.Popen[bytes]
    workers: list[subprocess.Popen[bytes]]

    def executor(self, study: Study) -> DaskCluster:
        """Connect once both workers are there."""
        while not self.place.exists():
            time.sleep(0.05)
        executor = executor_for(sgd_work.work, study, dask=str(self.place))
        assert isinstance(executor, DaskCluster)
        executor._client.wait_for_workers(2, timeout=60)
        return executor


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A cluster of real processes."""
    place = tmp_path / "scheduler.json"
    with ExitStack() as stack:
        scheduler = _start(stack, "dask_scheduler", "--scheduler-file", str(place), "--port", "0", "--no-dashboard")
        worker = ["dask_worker", "--scheduler-file", str(place), "--nthreads", "1", "--no-nanny", "--no-dashboard"]
        workers = [_start(stack, *worker, "--local-directory", str(tmp_path / str(k))) for k in range(2)]
        yield Cluster(place, scheduler, workers)


def _hashes_in_one_go(make_study: sgd_work.Make, **arguments: Any) -> dict[str, str]:
    study = make_study("here", **arguments)
    assert run(study, sgd_work.work).complete
    return study.store.hashes()


def test_a_worker_killed_in_the_middle_changes_nothing(make_study: sgd_work.Make, cluster: Cluster) -> None:
    arguments = {"methods": '["none", {name = "mix", sleep = 0.05}]', "repeats": 8}
    study = make_study(**arguments)
    killed: list[int] = []

    def listen(event: dict[str, Any]) -> None:
        if event["event"] == "cell" and event["settled"] >= 6 and not killed:
            killed.append(event["settled"])
            cluster.workers[0].send_signal(signal.SIGKILL)

    assert run(study, sgd_work.work, cluster.executor(study), listen).complete
    assert killed[0] < len(study.cells)
    assert cluster.workers[0].wait() == -signal.SIGKILL
    assert study.store.hashes() == _hashes_in_one_go(make_study, **arguments)
    assert {study.store.read(key).environment["threads"] for key in study.store.done()} == {"1"}


@pytest.mark.parametrize("after", [0, 6])
def test_a_scheduler_that_is_gone_stops_the_run_and_loses_nothing(
    make_study: sgd_work.Make, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    arguments = {"methods": '["none", {name = "mix", sleep = 0.05}]', "repeats": 8}
    study = make_study(**arguments)
    monkeypatch.setitem(dask.config.config["distributed"]["comm"]["timeouts"], "connect", "1s")

    def listen(event: dict[str, Any]) -> None:
        if event.get("settled", 0) >= after and cluster.scheduler.poll() is None:
            cluster.scheduler.kill()
            cluster.scheduler.wait()

    with pytest.raises(RMixupError, match="the Dask scheduler is gone"):
        run(study, sgd_work.work, cluster.executor(study), listen)
    done = study.store.hashes()
    assert after <= len(done) < len(study.cells)
    assert not list(study.store.claims.folder.glob("*"))
    assert run(study, sgd_work.work).complete
    assert study.store.hashes() == _hashes_in_one_go(make_study, **arguments)


def test_a_stack_that_dask_gives_up_is_reported_lost(make_study: sgd_work.Make) -> None:
    class GivenUp:
        """What Dask hands back for a task whose workers were killed, as far as it is looked at."""

        def result(self) -> None:
            raise ConnectionError("killed 3 workers")

    (event,) = executors.DaskCluster._collect(object(), GivenUp(), "s")  # type: ignore[arg-type]
    assert event == executors.Lost("s", "Dask: ConnectionError: killed 3 workers")


def test_without_dask_the_extra_is_named(make_study: sgd_work.Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(RMixupError, match=r"pip install 'rmixup\[dask\]'"):
        DaskCluster(sgd_work.work, make_study(), "tcp://127.0.0.1:1")
