"""The oracle: an input is read, or refused with one line; everything else is a finding.

Inputs are read in forked workers on a file system in memory. A worker that dies names the input that killed it; a
worker that does not answer is killed. What a reader may never do is watched by an audit hook: write anywhere, run
anything, connect, unpickle, open what lies outside the target's folder under a name that only an input can have given.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import importlib
import json
import mmap
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from targets import MEMORY, TARGETS, Target

from rmixup.errors import RMixupError

LIMIT = 1.0  # seconds for one input
_TRIES = 3  # a machine that is busy makes one try slow, not three
_STUCK = 15.0  # seconds without a sign of life, told by looks: a machine may stop this process and its workers
_PAUSE = 0.02  # seconds between two looks
_MEMORY = 2 << 30  # bytes that a reader may ask for beyond what the worker has
_PEAK = 256 << 20  # bytes by which one small input may raise the worker's peak
_WARM = 0.2  # the part of a worker's inputs after which its memory is measured for the first time
_LOOK = 1000  # inputs between two looks at the files around
CANARY = "canary"
# Imported once, before any worker is made: importing costs more than a thousand inputs.
_PRELOADED = (
    "pandas", "scipy.io", "h5py", "pyarrow.parquet", "nibabel", "nilearn.maskers", "nilearn.interfaces.fmriprep",
    "anndata", "torch", "rmixup.data.readers", "rmixup.study.work", "rmixup.study.runner", "rmixup.study.remote",
    "rmixup.train.cohort", "rmixup.train.folder", "rmixup.train.remote",
)  # fmt: skip

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES = frozenset(
    ("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.truncate", "os.symlink", "os.link", "os.chmod", "os.utime")
)
_NEVER = frozenset(
    ("os.system", "os.exec", "os.posix_spawn", "os.fork", "subprocess.Popen", "socket.connect", "socket.getaddrinfo",
     "pickle.find_class", "os.chdir", "urllib.Request")
)  # fmt: skip


@dataclass(frozen=True)
class Finding:
    """An input that was neither read nor refused in one line: what came instead, and where."""

    target: str
    kind: str  # escaped, hang, crash, memory, write
    what: str
    where: str
    content: bytes = field(repr=False)

    @property
    def signature(self) -> tuple[str, ...]:
        """What two findings of one cause share."""
        return self.target, self.kind, self.what.partition(":")[0], self.where


@dataclass
class Tally:
    """What came of a target's inputs."""

    inputs: int = 0
    accepted: int = 0
    refused: int = 0
    escaped: int = 0
    crashes: int = 0
    hangs: int = 0
    writes: int = 0
    slowest: float = 0.0
    seconds: float = 0.0
    growth: float = 0.0  # MiB from after the first fifth to the end, the worst worker's
    findings: list[Finding] = field(default_factory=list)


class _Hang(BaseException):
    """The limit has passed; no reader may catch this."""


class _Broken(BaseException):
    """A reader did what it may not do."""


class Watch:
    """The audit hook, which once set stays for the life of a process."""

    def __init__(self, folder: Path, writes: bool) -> None:
        self.folder, self.writes, self.on = str(folder) + os.sep, writes, False
        self.seen: list[str] = []
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.on:
            return
        if event == "open":
            path, mode, flags = arguments
            if isinstance(path, int) or path is None or os.fsdecode(path) == os.devnull:
                return
            writes = bool(flags & _WRITES) if isinstance(flags, int) else any(c in str(mode) for c in "wax+")
            if CANARY in os.fsdecode(path) or (writes and not self._may(path, -1)):
                self.seen.append(f"open {os.fsdecode(path)} {mode} {flags}")
        elif event in _NEVER or (event in _CHANGES and not self._may(arguments[0], arguments[-1])):
            self.seen.append(f"{event} {arguments!r:.200}")

    def _may(self, path: Any, beside: Any) -> bool:
        """Whether this place may be changed; `beside` is the handle of the folder that a name may be relative to."""
        if isinstance(path, int):
            path = f"/proc/self/fd/{path}"
        elif isinstance(beside, int) and beside >= 0:
            path = Path(f"/proc/self/fd/{beside}", os.fsdecode(path))
        return self.writes and os.path.realpath(os.fsdecode(path)).startswith(self.folder)


def _alarm(number: int, frame: object) -> None:
    raise _Hang


def judge(
    name: str, target: Target, folder: Path, content: bytes, watch: Watch | None = None
) -> tuple[str, Finding | None, float]:
    """("accepted" | "refused" | a finding's kind, the finding, seconds) of one input."""
    target.put(folder, content)
    took, verdict, finding = float("inf"), "hang", None
    for _ in range(_TRIES):
        verdict, finding, seconds = _once(name, target, folder, content, watch)
        took = min(took, seconds)
        if took <= LIMIT:
            return verdict, finding, took
    return "hang", Finding(name, "hang", f"took {took:.1f} s", finding.where if finding else "", content), took


def _once(
    name: str, target: Target, folder: Path, content: bytes, watch: Watch | None
) -> tuple[str, Finding | None, float]:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    verdict, what, where = "accepted", "", ""
    try:
        signal.setitimer(signal.ITIMER_REAL, 1.5 * LIMIT)
        if watch is not None:
            watch.on = True
        target.read(folder)
    except RMixupError as error:
        verdict = "refused"
        if len(str(error).splitlines()) != 1 or not str(error).isprintable():
            verdict, what, where = "escaped", f"not one line: {str(error)!r:.300}", _where(error)
    except _Hang as error:
        verdict, what, where = "hang", "took longer", _where(error)
    except BaseException as error:
        verdict, what, where = "escaped", f"{type(error).__name__}: {error!s:.300}", _where(error)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        if watch is not None:
            watch.on = False
    seconds = time.perf_counter() - start
    if watch is not None and watch.seen:
        verdict, what, where = "write", watch.seen[0], ""
        watch.seen.clear()
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
    if peak > _PEAK and verdict in {"accepted", "refused"}:
        verdict, what = "memory", f"{len(content)} bytes took {peak >> 20} MiB"
    found = None if verdict in {"accepted", "refused"} else Finding(name, verdict, what, where, content)
    return verdict, found, seconds


def _where(error: BaseException) -> str:
    """The last line of rmixup's own, and the last line of all."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "/rmixup/" in frame.filename]
    last = [f"{Path(frame.filename).name}:{frame.name}" for frame in (own[-1:] + frames[-1:])]
    return " > ".join(dict.fromkeys(last))


# ------------------------------------------------------------------------------------------------ many inputs


def inputs(name: str, seeds: list[bytes], seed: int, numbers: Iterable[int]) -> Iterator[bytes]:
    """The inputs of these numbers: each follows from the seed, the target and its own number alone."""
    for number in numbers:
        rng = Random(f"{seed}/{name}/{number}")
        yield rng.choice(seeds) if number < len(seeds) else TARGETS[name].mutate(rng, seeds)


def campaign(name: str, count: int, seed: int = 0, workers: int = 2, keep: int = 40) -> Tally:
    """So many inputs of one target, on so many workers."""
    jobs = [_Job(name, range(k, count, workers), seed, keep) for k in range(min(workers, count))]
    start = time.perf_counter()
    try:
        while not all([job.step() for job in jobs]):  # noqa: C419 -- every job takes its step
            time.sleep(_PAUSE)
    finally:
        for job in jobs:
            job.close()
    return _sum([job.tally for job in jobs], time.perf_counter() - start)


def replay(name: str, contents: list[bytes]) -> Tally:
    """Inputs that lie before one."""
    job = _Job(name, range(len(contents)), 0, len(contents), contents)
    try:
        while not job.step():
            time.sleep(_PAUSE)
    finally:
        job.close()
    return job.tally


def _sum(tallies: list[Tally], seconds: float) -> Tally:
    total = Tally(seconds=seconds)
    for one in tallies:
        for what in ("inputs", "accepted", "refused", "escaped", "crashes", "hangs", "writes", "findings"):
            setattr(total, what, getattr(total, what) + getattr(one, what))
        total.slowest, total.growth = max(total.slowest, one.slowest), max(total.growth, one.growth)
    return total


# What a worker tells while it lives: how far it is, what it counted.
_AT, _ACCEPTED, _REFUSED, _ESCAPED, _HANGS, _WRITTEN, _SLOWEST, _RSS, _GROWTH, _DONE = range(10)
_COUNTED = {"accepted": _ACCEPTED, "refused": _REFUSED, "hang": _HANGS, "write": _WRITTEN}


class _Job:
    """A worker and its successors: one that dies or hangs is replaced behind the input that it failed at."""

    def __init__(self, name: str, numbers: range, seed: int, keep: int, contents: list[bytes] | None = None) -> None:
        self.name, self.numbers, self.seed, self.keep, self.contents = name, numbers, seed, keep, contents
        self.tally, self._killed = Tally(), False
        self._told = np.frombuffer(mmap.mmap(-1, 8 * 16), dtype=np.float64)
        self._place = Path(tempfile.mkdtemp(prefix="rmixup-fuzz-", dir=MEMORY))
        self._seen, self._looks, self._child = -1.0, 0, 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for module in _PRELOADED:
                importlib.import_module(module)
        self._fork(0)

    def _fork(self, start: int) -> None:
        shutil.rmtree(self._place, ignore_errors=True)
        self._place.mkdir()
        self._told[:] = 0
        self._told[_AT] = start - 1
        self._seen, self._looks, self._killed = -1.0, 0, False
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads; the child starts none
            self._child = os.fork()
        if self._child == 0:
            _live(self, start)

    def step(self) -> bool:
        """Look after the worker; whether all inputs are done."""
        if not self._child:
            return True
        done, status = os.waitpid(self._child, os.WNOHANG)
        if not done:
            self._watch()
            return False
        self._child = 0
        self._collect()
        at = int(self._told[_AT])
        if self._told[_DONE]:
            return True
        if at < 0:
            raise RuntimeError(f"{self.name}: its valid files cannot be made: {(self._place / 'why').read_text()}")
        self._died(at, os.waitstatus_to_exitcode(status))
        if at + 1 < len(self.numbers):
            self._fork(at + 1)
        return not self._child

    def _watch(self) -> None:
        self._looks += 1
        if self._told[_AT] != self._seen:
            self._seen, self._looks = float(self._told[_AT]), 0
        elif self._looks > (_STUCK if self._seen >= 0 else 20 * _STUCK) / _PAUSE and not self._killed:
            os.kill(self._child, signal.SIGKILL)
            self._killed = True

    def _collect(self) -> None:
        tally, told = self.tally, self._told
        tally.accepted += int(told[_ACCEPTED])
        tally.refused += int(told[_REFUSED])
        tally.escaped += int(told[_ESCAPED])
        tally.hangs += int(told[_HANGS])
        tally.writes += int(told[_WRITTEN])
        tally.slowest = max(tally.slowest, float(told[_SLOWEST]))
        tally.growth = max(tally.growth, float(told[_GROWTH]) / 2**20)
        tally.inputs += sum(int(told[k]) for k in (_ACCEPTED, _REFUSED, _ESCAPED, _HANGS, _WRITTEN))
        for path in sorted(self._place.glob("finding-*.json")):
            told_of = json.loads(path.read_text())
            self.tally.findings.append(Finding(**told_of, content=path.with_suffix(".bin").read_bytes()))

    def _died(self, at: int, code: int) -> None:
        if (self._place / "why").exists():
            raise RuntimeError(f"{self.name}, input {at}: the harness fails: {(self._place / 'why').read_text()}")
        kind = "hang" if self._killed else "crash"
        self.tally.inputs += 1
        self.tally.hangs += kind == "hang"
        self.tally.crashes += kind == "crash"
        content = (self._place / "last").read_bytes()
        self.tally.findings.append(Finding(self.name, kind, f"exit code {code}", "", content))

    def close(self) -> None:
        """End the worker and remove its files."""
        if self._child:
            os.kill(self._child, signal.SIGKILL)
            os.waitpid(self._child, 0)
            self._child = 0
        shutil.rmtree(self._place, ignore_errors=True)


def _live(job: _Job, start: int) -> None:
    """The life of a worker. It never returns: what the parent opened is not the worker's to close."""
    try:
        _work(job, start)
        code = 0
    except BaseException:
        with contextlib.suppress(OSError):
            (job._place / "why").write_text(traceback.format_exc())
        code = 1
    os._exit(code)


def _work(job: _Job, start: int) -> None:
    import torch

    torch.set_num_threads(1)  # a pool of threads does not survive a fork
    gc.freeze()  # what was there before the fork need not be looked through
    faulthandler.disable()  # that a worker dies is told by its parent
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, _alarm)
    folder, canary, empty = job._place / "in", job._place / CANARY, job._place / "empty"
    for path in (folder, canary, empty):
        path.mkdir()
    (canary / "secret").write_bytes(b"not to be opened")
    os.chdir(empty)
    with Path(os.devnull).open("w") as null:
        os.dup2(null.fileno(), 1)
        os.dup2(null.fileno(), 2)
    target, told = TARGETS[job.name], job._told
    seeds = target.lay(folder)
    target.put(folder, seeds[0])
    target.read(folder)  # what is imported late is imported now, and a valid file is read
    _limit_memory()
    watch = Watch(folder.resolve(), target.writes)
    around = _around(job._place)
    numbers = job.numbers[start:]
    contents = iter(job.contents[start:]) if job.contents is not None else inputs(job.name, seeds, job.seed, numbers)
    found: dict[tuple[str, ...], int] = {}
    for done, content in enumerate(contents):
        (job._place / "last").write_bytes(content)
        told[_AT] = start + done
        verdict, finding, seconds = judge(job.name, target, folder, content, watch)
        told[
            {"accepted": _ACCEPTED, "refused": _REFUSED, "hang": _HANGS, "write": _WRITTEN}.get(verdict, _ESCAPED)
        ] += 1
        told[_SLOWEST] = max(told[_SLOWEST], seconds)
        if done % _LOOK == _LOOK - 1 and _around(job._place) != around:
            finding = finding or Finding(job.name, "write", f"files around changed within {_LOOK} inputs", "", content)
            around = _around(job._place)
        if finding is not None and found.get(finding.signature, 0) < 2 and len(found) < job.keep:
            found[finding.signature] = found.get(finding.signature, 0) + 1
            _keep(job._place, len(list(job._place.glob("finding-*.json"))), finding)
        if done + 1 in {int(_WARM * len(numbers)) + 1, len(numbers)}:
            _measure(told)
    told[_DONE] = 1


def _limit_memory() -> None:
    held = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE") if _proc() else 0
    if held:
        resource.setrlimit(resource.RLIMIT_AS, (held + _MEMORY, held + _MEMORY))


def _measure(told: Any) -> None:
    """The worker's memory, first after the warm-up and last at the end."""
    gc.collect()
    held = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if _proc() else 0
    if told[_RSS]:
        told[_GROWTH] = held - told[_RSS]
    told[_RSS] = told[_RSS] or held


def _proc() -> bool:
    return Path("/proc/self/statm").exists()


def _around(place: Path) -> dict[str, tuple[int, int]]:
    """Every file that no input may change: what lies around the target's folder."""
    files = [path for name in (CANARY, "empty") for path in (place / name).rglob("*")]
    return {str(path): (path.lstat().st_size, path.lstat().st_mtime_ns) for path in [*files, place / "empty"]}


def _keep(place: Path, number: int, finding: Finding) -> None:
    told = {name: getattr(finding, name) for name in ("target", "kind", "what", "where")}
    (place / f"finding-{number}.bin").write_bytes(finding.content)
    (place / f"finding-{number}.json").write_text(json.dumps(told))


def minimised(finding: Finding, tries: int = 400) -> bytes:
    """The shortest part of an input found in so many tries that leads to the same."""
    best = finding.content
    same: Callable[[bytes], bool] = lambda content: any(  # noqa: E731
        one.signature == finding.signature for one in replay(finding.target, [content]).findings
    )
    step = max(len(best) // 2, 1)
    while step and tries > 0:
        at = 0
        while at < len(best) and tries > 0:
            shorter = best[:at] + best[at + step :]
            tries -= 1
            if shorter and same(shorter):
                best = shorter
            else:
                at += step
        step //= 2
    return best
