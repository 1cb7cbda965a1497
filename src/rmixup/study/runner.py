"""Runs what is missing of a study: claims a stack, has it run, commits its cells one by one, until all are settled.

May be killed at any moment, and several may work on one study: every step is either not done or done.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from rmixup.study.cells import Stack
from rmixup.study.executors import Done, Event, Executor, Finished, InProcess, Lost
from rmixup.study.project import Study, Work
from rmixup.study.results import Failure, Outcome
from rmixup.study.store import Store

# How often a stack is given to another worker after the one that had it died.
ATTEMPTS = 3
# How long to wait for news before looking whether other runners have finished, died or left something.
_POLL_SECONDS = 0.5

Listener = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Summary:
    """How a study stands after a run: numbers of cells, and seconds this run took."""

    total: int
    done: int
    failed: int
    seconds: float

    @property
    def complete(self) -> bool:
        """Every cell has a result."""
        return self.done == self.total


@dataclass
class _Run:
    """One pass over a study."""

    study: Study
    executor: Executor
    tell: Listener
    store: Store
    settled: set[str]
    start: float = field(default_factory=time.perf_counter)
    ran: int = 0
    open: dict[str, Stack] = field(default_factory=dict)
    wanted: dict[str, set[str]] = field(default_factory=dict)
    attempts: dict[str, int] = field(default_factory=dict)


def run(
    study: Study,
    work: Work,
    executor: Executor | None = None,
    listener: Listener | None = None,
    retry_failed: bool = False,
) -> Summary:
    """Run all cells that have no result yet, and return how the study stands.

    Damaged cells are moved aside and done again. Cells that failed are left alone, unless `retry_failed`.

    Parameters
    ----------
    study : from `begin`.
    work : runs a stack.
    executor : where; in this process by default. It is closed at the end.
    listener : is told each event as a dict of plain values with an `event` key.
    """
    start = time.perf_counter()
    executor = executor or InProcess(work, study)
    tell = listener or (lambda event: None)
    try:
        settled = _prepare(study, tell, retry_failed)
        store = study.store
        with store.claims.beating():
            try:
                _loop(_Run(study, executor, tell, store, settled))
            finally:
                store.claims.release_all()
    finally:
        executor.close()
    summary = _summarize(study, time.perf_counter() - start)
    tell({"event": "end", **vars(summary)})
    return summary


def _prepare(study: Study, tell: Listener, retry_failed: bool) -> set[str]:
    """Clean up, check what is there, and return the cells that need nothing more."""
    study.store.sweep()
    if retry_failed:
        study.store.forget_failures()
    for damage in study.store.verify():
        tell({"event": "quarantine", "key": damage.key, "problem": damage.problem, "moved_to": str(damage.moved_to)})
    wanted = {cell.key for cell in study.cells}
    done, failed = study.store.done() & wanted, set(study.store.failures()) & wanted
    tell({"event": "start", "total": len(wanted), "done": len(done), "failed": len(failed)})
    return done | failed


def _summarize(study: Study, seconds: float) -> Summary:
    wanted = {cell.key for cell in study.cells}
    store = study.store
    return Summary(len(wanted), len(store.done() & wanted), len(set(store.failures()) & wanted), seconds)


def _loop(run: _Run) -> None:
    """Keep the executor busy until every cell is settled, by this runner or by another."""
    waiting = [stack for stack in run.study.stacks if _missing(run, stack)]
    while waiting or run.open:
        waiting = _fill(run, waiting)
        for event in run.executor.events(_POLL_SECONDS):
            _take_in(run, event)


def _fill(run: _Run, waiting: list[Stack]) -> list[Stack]:
    """Submit what can be claimed, and return what is still to be settled, in the same order."""
    later: list[Stack] = []
    for position, stack in enumerate(waiting):
        if run.executor.room() <= 0:
            return later + waiting[position:]
        if not _missing(run, stack):
            continue
        if not _submit(run, stack):
            later.append(stack)
    return later


def _submit(run: _Run, stack: Stack) -> bool:
    """Claim a stack and have it run; what was missing before the claim may be done by now."""
    if not run.store.claims.take(stack.key, [cell.key for cell in stack.cells]):
        return False
    missing = _missing(run, stack)
    if not missing:
        run.store.claims.release(stack.key)
        return True
    run.open[stack.key] = stack
    run.wanted[stack.key] = missing
    run.executor.submit(stack)
    return True


def _missing(run: _Run, stack: Stack) -> set[str]:
    """Cells of a stack that neither this runner nor another has settled."""
    unknown = {cell.key for cell in stack.cells} - run.settled
    found = {key for key in unknown if run.store.has(key) or run.store.has_failed(key)}
    run.settled |= found
    return unknown - found


def _take_in(run: _Run, event: Event) -> None:
    if isinstance(event, Done):
        _settle(run, event)
    elif isinstance(event, Finished):
        _close(run, event.stack)
    else:
        _retry(run, event)


def _settle(run: _Run, done: Done) -> None:
    """Commit a cell, or its failure. A cell that was done before its stack was run again is left as it is."""
    cell, outcome = done.cell, done.outcome
    if cell.key not in run.wanted[done.stack]:
        return
    if not isinstance(outcome, Failure):
        try:
            run.store.commit(cell, outcome, done.seconds, done.environment)
        except (ValueError, TypeError) as error:
            outcome = Failure("invalid result", str(error))
    if isinstance(outcome, Failure):
        run.store.fail(cell, outcome)
    run.wanted[done.stack].discard(cell.key)
    run.settled.add(cell.key)
    run.ran += 1
    run.tell({"event": "cell", "key": cell.key, "cell": str(cell), **_told(outcome), **_progress(run, done.seconds)})


def _told(outcome: Outcome) -> dict[str, str]:
    if isinstance(outcome, Failure):
        return {"state": "failed", "reason": outcome.reason, "message": outcome.message}
    return {"state": "done"}


def _progress(run: _Run, seconds: float) -> dict[str, float]:
    """How far the study is, and how long it will take at the pace of this run."""
    total = len(run.study.cells)
    pace = (time.perf_counter() - run.start) / run.ran
    left = pace * (total - len(run.settled))
    return {"seconds": seconds, "settled": len(run.settled), "total": total, "seconds_left": left}


def _close(run: _Run, stack: str) -> None:
    del run.open[stack], run.wanted[stack]
    run.store.claims.release(stack)


def _retry(run: _Run, lost: Lost) -> None:
    """Run a stack again whose worker died, but not for ever: it may be what kills them."""
    run.attempts[lost.stack] = run.attempts.get(lost.stack, 1) + 1
    run.tell({"event": "lost", "stack": lost.stack, "why": lost.why, "attempt": run.attempts[lost.stack]})
    stack = run.open[lost.stack]
    if run.attempts[lost.stack] <= ATTEMPTS:
        run.executor.submit(stack)
        return
    failure = Failure("worker died", f"{ATTEMPTS} times; the last time {lost.why}")
    for cell in stack.cells:
        _settle(run, Done(lost.stack, cell, failure, 0.0, {}))
    _close(run, lost.stack)


@contextlib.contextmanager
def ending_on_sigterm() -> Iterator[None]:
    """Turn SIGTERM into an orderly end with exit code 143, as Ctrl-C ends with 130."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
