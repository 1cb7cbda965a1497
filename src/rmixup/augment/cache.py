"""Arrays remembered on disk by what they were computed from.

One folder an entry, named by a hash: `values.npy` (large, memory-mapped on reuse), `small.npz`, and `entry.json` with
the checksums, committed by one rename. An entry that does not match its checksums is computed again, with a warning.
Nothing is unpickled. May not be here: what the arrays mean.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rmixup.errors import StoreError
from rmixup.files import beside, sweep

Arrays = dict[str, npt.NDArray[Any]]
Build = Callable[[npt.NDArray[Any]], Arrays]
READ_BYTES = 2**24


class CacheWarning(RuntimeWarning):
    """A cache entry was damaged and has been computed again."""


def remember(
    folder: str | Path, key: str, shape: tuple[int, ...], dtype: Any, build: Build
) -> tuple[npt.NDArray[Any], Arrays]:
    """Return the entry `key` of a folder, computing it if it is missing or damaged.

    `build` fills an array of `shape` and `dtype` and returns small arrays to keep beside it. The large array comes
    back memory-mapped, copy on write.
    """
    entry = Path(folder) / key
    try:
        if entry.is_dir() and not _intact(entry):
            warnings.warn(f"cache entry {entry} is damaged; it is computed again", CacheWarning, stacklevel=2)
            shutil.rmtree(entry)
        if not entry.is_dir():
            _write(entry, shape, dtype, build)
        return _load(entry)
    except OSError as error:
        size = math.prod(shape) * np.dtype(dtype).itemsize
        raise StoreError(
            f"the cache folder {folder} cannot be used for {size} bytes ({error}); "
            "give another cache=, free disk space, or leave cache out to compute in memory"
        ) from error


def _load(entry: Path) -> tuple[npt.NDArray[Any], Arrays]:
    try:
        with np.load(entry / "small.npz", allow_pickle=False) as small:
            return np.load(entry / "values.npy", mmap_mode="c", allow_pickle=False), dict(small)
    except ValueError as error:  # its checksums fit, so somebody made it so
        raise StoreError(
            f"cache entry {entry}: expected arrays of numbers, but {error}; trust no cache from where this one is "
            "from: delete it"
        ) from None


def _write(entry: Path, shape: tuple[int, ...], dtype: Any, build: Build) -> None:
    entry.parent.mkdir(parents=True, exist_ok=True)
    sweep(entry)
    unfinished = beside(entry)
    unfinished.mkdir()
    try:
        values = np.lib.format.open_memmap(unfinished / "values.npy", mode="w+", dtype=dtype, shape=shape)
        _reserve(unfinished / "values.npy")
        small = build(values)
        values.flush()
        del values
        np.savez(unfinished / "small.npz", **small)  # type: ignore[arg-type]
        sums = {name: _sha256(unfinished / name) for name in ("values.npy", "small.npz")}
        (unfinished / "entry.json").write_text(json.dumps({"sha256": sums}))
        _rename(unfinished, entry)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _reserve(path: Path) -> None:
    """Take the space of a sparse file: a write through its map to a full disk would kill the process with SIGBUS."""
    if hasattr(os, "posix_fallocate"):
        with path.open("rb+") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)


def _rename(unfinished: Path, entry: Path) -> None:
    """Commit; where another process was faster, its entry is as good."""
    try:
        os.rename(unfinished, entry)  # noqa: PTH104 -- unlike Path.rename's wording, this is the one atomic step
    except OSError:
        if not entry.is_dir():
            raise


def _intact(entry: Path) -> bool:
    try:
        sums = json.loads((entry / "entry.json").read_text())["sha256"]
        return all(sums[name] == _sha256(entry / name) for name in ("values.npy", "small.npz"))
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _sha256(path: Path) -> str:
    return combined_sha256(lambda first: _block(path, first), range(0, path.stat().st_size, READ_BYTES))


def _block(path: Path, first: int) -> bytes:
    with path.open("rb") as file:
        file.seek(first)
        return file.read(READ_BYTES)


def combined_sha256(read: Callable[[Any], Any], places: Iterable[Any], begin: str = "") -> str:
    """The SHA-256 of the SHA-256s of blocks, which several threads read and hash at once.

    >>> combined_sha256(lambda k: b"ab"[k : k + 1], [0, 1]) == combined_sha256(lambda k: b"ba"[k : k + 1], [0, 1])
    False
    """
    whole = hashlib.sha256(begin.encode())
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        for digest in threads.map(lambda place: hashlib.sha256(read(place)).digest(), places):
            whole.update(digest)
    return whole.hexdigest()
