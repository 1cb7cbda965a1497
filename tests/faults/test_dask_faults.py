"""A study on a real Dask cluster whose scheduler is restarted, or whose network is cut between two namespaces."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import sgd_work
from commands import ENVIRONMENT, MAIN
from tally import Tally

from rmixup.study.project import Study
from rmixup.study.runner import run

pytest.importorskip("distributed")

# Quick to notice a peer that is silent.
QUICK = {
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "4s",
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": "14s",
    "DASK_DISTRIBUTED__COMM__RETRY__COUNT": "0",
    "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "4s",
    "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "10",
}
METHODS = '["none", {name = "mix", sleep = 0.1}]'
HERE, THERE, HERE_IP, THERE_IP = "rmixup-a", "rmixup-b", "10.213.77.1", "10.213.77.2"


class Processes:
    """Processes that are ended at the end, each in a namespace or in none."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack

    def start(self, *command: str, namespace: str = "", errors: int = subprocess.DEVNULL) -> subprocess.Popen[str]:
        before = ["ip", "netns", "exec", namespace] if namespace else []
        environment = {**ENVIRONMENT, **QUICK}
        process = subprocess.Popen(
            [*before, *command], env=environment, stdout=subprocess.DEVNULL, stderr=errors, text=True
        )
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        return process

    def scheduler(self, host: str, port: int, namespace: str = "") -> subprocess.Popen[str]:
        options = ["--host", host, "--port", str(port), "--no-dashboard", "--no-show"]
        return self.start(sys.executable, "-m", "distributed.cli.dask_scheduler", *options, namespace=namespace)

    def worker(self, address: str, folder: Path, namespace: str = "") -> subprocess.Popen[str]:
        options = ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", str(folder)]
        command = [sys.executable, "-m", "distributed.cli.dask_worker", address, *options]
        return self.start(*command, namespace=namespace)

    def resume(self, study: Study, address: str, namespace: str = "") -> subprocess.Popen[str]:
        command = [*MAIN, "study", "resume", str(study.folder), "--work", "sgd_work", "--dask", address, "--quiet"]
        return self.start(*command, namespace=namespace, errors=subprocess.PIPE)


@pytest.fixture
def processes() -> Iterator[Processes]:
    with ExitStack() as stack:
        yield Processes(stack)


def _wait_for_cells(study: Study, count: int, process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + 150
    while len(study.store.done()) < count:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.02)


def _expected(make_study: sgd_work.Make, **arguments: object) -> dict[str, str]:
    study = make_study("here", **arguments)
    assert run(study, sgd_work.work).complete
    return study.store.hashes()


@pytest.mark.fault(27)
@pytest.mark.timeout(600)
def test_a_scheduler_that_is_restarted_loses_nothing(
    make_study: sgd_work.Make, processes: Processes, tmp_path: Path, tally: Tally
) -> None:
    """The command stops with one line, all that was done stays, and it goes on with the next scheduler."""
    arguments = {"methods": METHODS, "repeats": 8}
    study, port = make_study(**arguments), 18786 + os.getpid() % 1000
    address = f"tcp://127.0.0.1:{port}"
    done: dict[str, str] = {}
    for attempt in range(tally.many(1, 3) + 1):
        scheduler = processes.scheduler("127.0.0.1", port)
        processes.worker(address, tmp_path / f"worker {attempt}")
        command = processes.resume(study, address)
        last = attempt == tally.many(1, 3)
        if not last:
            _wait_for_cells(study, len(done) + 3, command)
            scheduler.send_signal(signal.SIGKILL)
            scheduler.wait()
        with tally.attempt(f"scheduler {attempt}"):
            _, said = command.communicate(timeout=150)
            assert command.returncode == (0 if last else 2), said
            assert last or ("the Dask scheduler is gone" in said and said.count("rmixup: error") == 1), said
            assert "Traceback" not in said.partition("rmixup: error")[2]
            assert study.store.hashes().items() >= done.items()
            assert not list(study.store.claims.folder.glob("*"))
        done = study.store.hashes()
    with tally.attempt("all"):
        assert done == _expected(make_study, **arguments)


@pytest.fixture
def wire() -> Iterator[Callable[[str], None]]:
    """Two namespaces joined by a wire, which can be set "down" and "up"."""

    def ip(*words: str, check: bool = True) -> int:
        return subprocess.run(["ip", *words], capture_output=True, check=check).returncode

    def end() -> None:
        for name in (HERE, THERE):
            ip("netns", "del", name, check=False)

    end()
    try:
        if ip("netns", "add", HERE, check=False):
            pytest.skip("this system does not let us make network namespaces")
    except FileNotFoundError:
        pytest.skip("needs `ip` to make network namespaces: apt-get install iproute2")
    try:
        ip("netns", "add", THERE)
        ip("link", "add", "veth-a", "netns", HERE, "type", "veth", "peer", "name", "veth-b", "netns", THERE)
        for name, link, address in ((HERE, "veth-a", HERE_IP), (THERE, "veth-b", THERE_IP)):
            ip("-n", name, "addr", "add", f"{address}/24", "dev", link)
            ip("-n", name, "link", "set", link, "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield lambda state: (ip("-n", HERE, "link", "set", "veth-a", state), None)[1]
    finally:
        end()


@pytest.mark.fault(27)
@pytest.mark.timeout(600)
def test_a_network_that_is_cut_between_two_machines_loses_nothing(
    make_study: sgd_work.Make, processes: Processes, wire: Callable[[str], None], tmp_path: Path, tally: Tally
) -> None:
    """One worker here, one there; the wire is cut while both work: those here do what is left."""
    arguments = {"methods": METHODS, "repeats": tally.many(6, 12)}
    study, address = make_study(**arguments), f"tcp://{HERE_IP}:8786"
    processes.scheduler(HERE_IP, 8786, HERE)
    processes.worker(address, tmp_path / "here worker", HERE)
    processes.worker(address, tmp_path / "there worker", THERE)
    command = processes.resume(study, address, HERE)
    _wait_for_cells(study, 4, command)
    wire("down")
    done = study.store.hashes()
    with tally.attempt("cut"):
        _, said = command.communicate(timeout=200)
        assert command.returncode == 0, said
        assert study.store.hashes().items() >= done.items()
        assert len(done) < len(study.cells), "the wire was cut too late"
        assert study.store.hashes() == _expected(make_study, **arguments)


@pytest.mark.fault(27)
@pytest.mark.timeout(600)
def test_a_network_that_comes_back_loses_nothing(
    make_study: sgd_work.Make, processes: Processes, wire: Callable[[str], None], tmp_path: Path, tally: Tally
) -> None:
    """All workers are there; the wire is cut for some seconds, and the command ends or is run again."""
    if not tally.full:
        pytest.skip("takes a minute: make faults")
    arguments = {"methods": METHODS, "repeats": 12}
    expected = _expected(make_study, **arguments)
    study, address = make_study(**arguments), f"tcp://{HERE_IP}:8786"
    processes.scheduler(HERE_IP, 8786, HERE)
    done: dict[str, str] = {}
    for seconds in (1.0, 8.0):
        processes.worker(address, tmp_path / f"worker {seconds}", THERE)
        command = processes.resume(study, address, HERE)
        _wait_for_cells(study, min(len(done) + 3, len(study.cells)), command)
        wire("down")
        time.sleep(seconds)
        wire("up")
        processes.worker(address, tmp_path / f"worker after {seconds}", THERE)
        with tally.attempt(f"{seconds} s"):
            _, said = command.communicate(timeout=200)
            assert command.returncode in {0, 2}, said
            assert study.store.hashes().items() >= done.items()
        done = study.store.hashes()
    with tally.attempt("all"):
        assert run(study, sgd_work.work).complete
        assert study.store.hashes() == expected
