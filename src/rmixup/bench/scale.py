"""A cohort that may be larger than memory: prepared and trained on from disk, at a sixteenth, a quarter and all of it.

Rows say seconds, those of all threads (`cpu_seconds`), the peak of resident memory and what was read from disk a
second. `ratio` of "disk ..." and "read ..." rows is the rate over that of reading the same file from end to end, past
the page cache; of the others it is the cost of a person over that in the smallest cohort, so 1 where cost is linear in
people. Files leave the page cache before they are timed, and all sizes are read as files are that memory cannot hold.
May not be here: backbones that take longer than what is measured.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

from rmixup import keys
from rmixup.augment import as_augmentation
from rmixup.augment.bank import Bank
from rmixup.augment.labels import encode
from rmixup.augment.paging import larger_than_memory, read_whole, tensor_of
from rmixup.bench.spd import networks
from rmixup.errors import DataError
from rmixup.models import build
from rmixup.train.feed import Problem, Run
from rmixup.train.protocol import Protocol
from rmixup.train.training import Training

Row = dict[str, Any]
T = TypeVar("T")

PEOPLE, NODES, QUICK_PEOPLE, QUICK_NODES = 3200, 100, 320, 20
FEWEST = 160
BACKBONE = "gcn"
# A person's network is a mix of two of these, so that a cohort is written as fast as the disk takes it.
PARENTS = 32
# Of all people: the rest selects the epoch.
TRAINED = 0.9


def rows(
    quick: bool = False,
    people: int | None = None,
    nodes: int | None = None,
    folder: str | Path | None = None,
    augment: str = "rmixup",
) -> list[Row]:
    """Write a cohort into a folder, measure, remove it.

    Parameters
    ----------
    quick : bool
    people, nodes : int
        The largest cohort. On disk it takes 4 nodes² bytes a person, and half of that again for the logarithms.
    folder : path
        On the disk that is to be measured; None: where temporary files go.
    augment : name in `rmixup.augment.METHODS`
        "vmixup" reads the networks themselves; most others their logarithms.
    """
    people = people or (QUICK_PEOPLE if quick else PEOPLE)
    nodes = nodes or (QUICK_NODES if quick else NODES)
    if people < FEWEST:
        raise DataError(f"a cohort of at least {FEWEST} people is needed to compare sizes, but people is {people}")
    as_augmentation(augment)
    with _place(folder, 6 * people * nodes**2) as place, larger_than_memory():
        store = place / "networks.npy"
        _write(store, people, nodes)
        for _ in _measured(store, people // 16, nodes, augment, place / "cache"):
            pass  # libraries set themselves up
        sizes = [people // 16, people // 4, people]
        found = [row for size in sizes for row in _measured(store, size, nodes, augment, place / "cache")]
    return _with_ratios(found)


@contextmanager
def _place(folder: str | Path | None, needed: int) -> Iterator[Path]:
    """An own folder with room enough, removed in the end."""
    if folder is not None:
        Path(folder).mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix="rmixup-scale-", dir=folder))
    try:
        free = shutil.disk_usage(place).free
        if free < needed:
            raise DataError(f"{place.parent} has {free} bytes free, but the cohort takes {needed}: fewer --people")
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _write(store: Path, people: int, nodes: int) -> None:
    """Networks (people, nodes, nodes), float32: mixes of two of a few correlation matrices, no two alike."""
    parents = networks(PARENTS, nodes).float()
    chance = keys.generator(0, "bench", "scale", people, nodes)
    header = {"descr": "<f4", "fortran_order": False, "shape": (people, nodes, nodes)}
    with store.open("wb") as file:
        np.lib.format.write_array_header_2_0(file, header)
        for _ in range(people):
            one, other = chance.integers(PARENTS, size=2)
            file.write(torch.lerp(parents[one], parents[other], float(chance.random())).numpy().data)
        file.flush()
        os.fsync(file.fileno())


def _measured(store: Path, people: int, nodes: int, augment: str, cache: Path) -> Iterator[Row]:
    """One size, from the first look at the networks to the end of an epoch."""
    x = tensor_of(_opened(store, people, nodes))
    train, validation = np.split(keys.generator(0, "bench", "scale").permutation(people), [int(TRAINED * people)])
    run = Run(train, validation, train[:0], as_augmentation(augment), 0)
    problem = Problem(x, encode(np.arange(people) % 2), cache=cache)
    protocol = Protocol(epochs=1)

    def row(method: str, taken: dict[str, Any], read: int | None = None) -> Row:
        rate = None if read is None else read / taken["seconds"] / 1e9
        shape = {"n": nodes, "people": people, "batch": protocol.batch_size}
        return {"method": method, **shape, **taken, "read_gb_s": rate}

    def prepare() -> Training:
        return Training(problem, [run], [build(BACKBONE, nodes, 2, 0)], protocol, torch.device("cpu"))

    _forget(store)
    training, taken = _watched(prepare)
    yield row(f"prepare {augment}", taken)
    bank = training.feed.groups[0].joined.bank
    kept = [store] if bank.places is not None or not cache.exists() else sorted(cache.rglob("values.npy"))
    yield from _reading(bank, training, kept[0], row)
    _forget(store, *kept)
    yield row(f"epoch {augment}, {BACKBONE}", _watched(training.epoch)[1])
    shutil.rmtree(cache, ignore_errors=True)


def _reading(bank: Bank, training: Training, file: Path, row: Callable[..., Row]) -> Iterator[Row]:
    """What an epoch reads, in its order, without anything done to it; and the same file from end to end."""
    size = training.protocol.batch_size
    tables = training.feed.epoch(0, size)
    pairs = [training.feed._batches(torch.from_numpy(step))[0][1] for table in tables for step in table]
    prepared = training.feed.groups[0].joined
    batches = [prepared.rows[torch.cat([batch.i, batch.j])] for batch in pairs]
    total = sum(map(len, batches)) * bank.values[0].nbytes
    _forget(file)
    yield row("disk, end to end", _watched(lambda: read_whole(str(file)))[1], file.stat().st_size)
    _forget(file)
    yield row("read an epoch's networks", _watched(lambda: _read_all(bank, batches))[1], total)


def _read_all(bank: Bank, batches: list[torch.Tensor]) -> None:
    for rows in batches:
        bank._take(rows)


def _with_ratios(found: list[Row]) -> list[Row]:
    """See the module's text for what `ratio` is."""
    first = {row["method"]: row["seconds"] / row["people"] for row in reversed(found)}
    disk = {row["people"]: row["read_gb_s"] for row in found if row["method"].startswith("disk")}
    for row in found:
        rate = row["read_gb_s"]
        own = row["seconds"] / row["people"]
        row["ratio"] = own / first[row["method"]] if rate is None else rate / disk[row["people"]]
    return found


def _opened(store: Path, people: int, nodes: int) -> np.memmap[Any, Any]:
    """The first people of a store as a map of their own."""
    whole = np.load(store, mmap_mode="r")
    return np.memmap(store, whole.dtype, "r", whole.offset, (people, nodes, nodes))


def _forget(*files: Path) -> None:
    """Put files out of the page cache, where the system knows how."""
    if not hasattr(os, "posix_fadvise"):
        return
    for path in files:
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _watched(call: Callable[[], T]) -> tuple[T, dict[str, Any]]:
    """What a call gives, its seconds, and the peak of this process's resident memory in it, in GB (Linux)."""
    peak = Path("/proc/self/clear_refs")
    if peak.exists():
        peak.write_text("5")  # begin anew
    start, busy = time.perf_counter(), time.process_time()
    result = call()
    seconds, busy = time.perf_counter() - start, time.process_time() - busy
    return result, {
        "seconds": seconds,
        "cpu_seconds": busy,
        "resident_gb": _peak() if peak.exists() else None,
    }


def _peak() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024 / 1e9
