"""Where stacks run: here, in processes of this machine, or (see `dask`) on a cluster. All run the same code.

An executor takes stacks while it has room, and reports what comes: `Done` for a cell, `Finished` for a stack, `Lost`
for a stack whose worker died. It neither reads nor writes the store, so a dying worker cannot tear anything.
"""

from __future__ import annotations

import contextlib
import os
import platform
import signal
import socket
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from queue import Empty, SimpleQueue
from typing import Any, Protocol

from threadpoolctl import threadpool_limits

from rmixup.errors import RMixupError
from rmixup.study.cells import Cell, Stack
from rmixup.study.project import Study, Work, environment
from rmixup.study.results import Failure, Outcome, judge

# Read by the numeric libraries when they are loaded, so set before a worker starts.
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Done:
    """What came of one cell."""

    stack: str
    cell: Cell
    outcome: Outcome
    seconds: float
    environment: dict[str, str]


@dataclass(frozen=True)
class Finished:
    """A stack has reported all its cells."""

    stack: str


@dataclass(frozen=True)
class Lost:
    """A stack's worker is gone."""

    stack: str
    why: str


Event = Done | Finished | Lost


class Executor(Protocol):
    """What the runner needs of a place to run."""

    def room(self) -> int:
        """How many more stacks may be submitted now."""

    def submit(self, stack: Stack) -> None:
        """Run a stack."""

    def events(self, timeout: float) -> Iterator[Event]:
        """What happened; waits at most so many seconds if nothing did."""

    def close(self) -> None:
        """Stop everything that runs."""


def run_stack(work: Work, stack: Stack, study: Study) -> Iterator[Event]:
    """Run one stack. An error of the work is a failure of the cells it leaves behind, not of the study."""
    here = _here(study)
    left = {cell.key: cell for cell in stack.cells}
    failure = Failure("no result", "the work ended without a result for this cell")
    since = time.perf_counter()
    try:
        for cell, outcome in work(stack.cells, study):
            del left[cell.key]
            now = time.perf_counter()
            yield Done(stack.key, cell, judge(outcome), now - since, here)
            since = time.perf_counter()
    except Exception as error:
        failure = Failure("exception", f"{type(error).__name__}: {error}")
    for cell in left.values():
        yield Done(stack.key, cell, failure, 0.0, here)
    yield Finished(stack.key)


def _here(study: Study) -> dict[str, str]:
    place = {"host": socket.gethostname(), "processor": platform.processor(), "threads": str(study.settings.threads)}
    return {**environment(), **place, "device": study.settings.device}


class InProcess:
    """One stack at a time in this process: for a GPU, whose stacks fill it, and for looking inside."""

    def __init__(self, work: Work, study: Study) -> None:
        self._run = partial(run_stack, work, study=study)
        self._threads = study.settings.threads
        self._waiting: deque[Stack] = deque()

    def room(self) -> int:
        """Nothing is taken ahead of time, so that others may take it."""
        return 1 - len(self._waiting)

    def submit(self, stack: Stack) -> None:
        """Put a stack next in line."""
        self._waiting.append(stack)

    def events(self, timeout: float) -> Iterator[Event]:
        """Run what waits."""
        if not self._waiting:
            time.sleep(timeout)
        while self._waiting:
            with threadpool_limits(self._threads):
                yield from self._run(self._waiting.popleft())

    def close(self) -> None:
        """Nothing runs outside of `events`."""
        self._waiting.clear()


class Processes:
    """Worker processes of this machine, started afresh (spawn); one that dies is replaced."""

    def __init__(self, work: Work, study: Study, count: int) -> None:
        self._start = partial(_Worker, work, study)
        self._count = count
        self._workers: list[_Worker] = []

    def room(self) -> int:
        """As many stacks as workers: none waits in line, so that another runner can take it."""
        return self._count - sum(worker.stack is not None for worker in self._workers)

    def submit(self, stack: Stack) -> None:
        """Give a stack to an idle worker, or to a new one."""
        worker = next((worker for worker in self._workers if worker.stack is None), None)
        if worker is None:
            worker = self._start()
            self._workers.append(worker)
        worker.give(stack)

    def events(self, timeout: float) -> Iterator[Event]:
        """Pass on what the workers send; a closed pipe is a dead worker."""
        if not self._workers:
            time.sleep(timeout)
            return
        ready = wait([worker.pipe for worker in self._workers], timeout)
        for worker in [worker for worker in self._workers if worker.pipe in ready]:
            yield from self._listen(worker)

    def _listen(self, worker: _Worker) -> Iterator[Event]:
        try:
            event: Event = worker.pipe.recv()
        except (EOFError, OSError):
            self._workers.remove(worker)
            if worker.stack is not None:
                yield Lost(worker.stack, worker.epitaph())
            return
        if isinstance(event, Finished):
            worker.stack = None
        yield event

    def close(self) -> None:
        """Stop all workers at once: what they have not reported is not lost, it was never done."""
        for worker in self._workers:
            worker.process.terminate()
        for worker in self._workers:
            worker.epitaph()
        self._workers.clear()


class _Worker:
    """One worker process as the runner sees it."""

    def __init__(self, work: Work, study: Study) -> None:
        context = get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.stack: str | None = None
        self.process = context.Process(target=_serve, args=(theirs, work, study), name="rmixup worker", daemon=True)
        with _thread_variables(study.settings.threads):
            self.process.start()
        theirs.close()

    def give(self, stack: Stack) -> None:
        """Send a stack. A worker that is dead already shows it by its closed pipe."""
        self.stack = stack.key
        with contextlib.suppress(OSError):
            self.pipe.send(stack)

    def epitaph(self) -> str:
        """Wait for the end and say what it was."""
        self.process.join(10)
        if self.process.exitcode is None:
            self.process.kill()
            self.process.join()
        self.pipe.close()
        code = self.process.exitcode or 0
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        self.process.close()
        return f"the worker process ended with {how}; a SIGKILL is often the system running out of memory"


@contextlib.contextmanager
def _thread_variables(threads: int) -> Iterator[None]:
    """Set the thread count for processes started in the block."""
    before = {name: os.environ.get(name) for name in _THREAD_VARIABLES}
    os.environ.update(dict.fromkeys(_THREAD_VARIABLES, str(threads)))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _serve(pipe: Connection[Any, Any], work: Work, study: Study) -> None:  # pragma: no cover -- runs in a worker
    """The life of a worker: take a stack, send what comes, until the pipe or the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole terminal; the parent ends its workers
    threading.Thread(target=_die_with_parent, daemon=True).start()
    with contextlib.suppress(EOFError, OSError), threadpool_limits(study.settings.threads):
        while True:
            for event in run_stack(work, pipe.recv(), study):
                pipe.send(event)


def _die_with_parent() -> None:  # pragma: no cover -- runs in a worker
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


class DaskCluster:
    """The workers of a running Dask cluster. They need this package and the data, not the study's folder."""

    def __init__(self, work: Work, study: Study, address: str) -> None:
        try:
            distributed: Any = import_module("distributed")
        except ImportError as error:
            raise RMixupError("--dask needs the extra `dask`: pip install 'rmixup[dask]'") from error
        place = {"scheduler_file": address} if address.endswith(".json") else {"address": address}
        self._client = distributed.Client(**place, set_as_default=False)
        self._arguments = work, study
        self._running: dict[Any, str] = {}
        self._ended: SimpleQueue[Any] = SimpleQueue()

    def room(self) -> int:
        """Twice as many stacks as threads, so that none waits for the network."""
        try:
            threads = sum(self._client.nthreads().values())
        except OSError as error:
            raise RMixupError(f"the Dask scheduler is gone ({error}): start it, then `rmixup study resume`") from error
        return int(max(1, 2 * threads)) - len(self._running)

    def submit(self, stack: Stack) -> None:
        """Send a stack; never answered from an earlier run of it."""
        work, study = self._arguments
        future = self._client.submit(_run_on_cluster, work, stack, study, key=f"{stack.key}-{time.time_ns()}")
        self._running[future] = stack.key
        future.add_done_callback(self._ended.put)

    def events(self, timeout: float) -> Iterator[Event]:
        """Pass on the stacks that ended; Dask itself moves those of a dead worker to another one."""
        with contextlib.suppress(Empty):
            future = self._ended.get(timeout=timeout)
            yield from self._collect(future, self._running.pop(future))

    def _collect(self, future: Any, stack: str) -> Iterator[Event]:
        try:
            events: Sequence[Event] = future.result()
        except Exception as error:  # a killed worker, a restarted scheduler, a module that is missing there
            yield Lost(stack, f"Dask: {type(error).__name__}: {error}")
            return
        yield from events

    def close(self) -> None:
        """Take back what was submitted; the cluster is its owner's."""
        self._client.cancel(list(self._running))
        self._client.close()


def _run_on_cluster(work: Work, stack: Stack, study: Study) -> list[Event]:
    """`run_stack` with the study's thread count, whatever the worker was started with."""
    with threadpool_limits(study.settings.threads):
        return list(run_stack(work, stack, study))


def executor_for(work: Work, study: Study, processes: int = 1, dask: str | None = None) -> Executor:
    """The executor that options ask for: a Dask cluster, processes, or (0) this process."""
    if dask is not None:
        return DaskCluster(work, study, dask)
    return Processes(work, study, processes) if processes else InProcess(work, study)
