"""Arrays larger than memory: rows of mapped files are read as they are asked for, and leave no pages behind.

A mapped file that is read through its map stays resident until the system needs the memory, and each miss reads
megabytes around it. So tensors over large mapped files are remembered here by their address: `take` reads their rows
with plain reads instead, and `release` hands back the pages that were written. Small files are left to the system.

Rows are read side by side, because a disk that waits for each request gives a third of its speed. Files that memory
cannot hold are read past the page cache, into huge pages: a request into thousands of small pages, be they the cache's,
took three times as long as one into a few large ones.
"""

from __future__ import annotations

import errno
import mmap
import os
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

# Below, a file may as well stay in memory.
LARGE = 2**30
# A file larger than this share of memory will not stay in the page cache from one epoch to the next.
CACHED = 0.5
# Rows read at once: more than disks have lanes, fewer than threads cost. Each reader has bytes enough to be worth it.
READERS = 8
READER_BYTES = 2**17
# What is read past the page cache begins and ends at a page, in pieces of a huge page.
PAGE, PIECE = 2**12, 2**21

Bytes = npt.NDArray[np.uint8]
Reader = Callable[[int, Bytes, int], None]

_local = threading.local()
_maps: weakref.WeakValueDictionary[int, np.memmap[Any, Any]] = weakref.WeakValueDictionary()


def tensor_of(array: npt.NDArray[Any]) -> Tensor:
    """A tensor that shares an array's memory, read-only ones included; a large mapped file is remembered.

    >>> tensor_of(np.ones(2, np.float32))
    tensor([1., 1.])
    """
    with warnings.catch_warnings():
        # torch warns that writing to read-only memory is undefined: nothing here writes to its input.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable", category=UserWarning)
        tensor = torch.from_numpy(array)
    if isinstance(array, np.memmap) and array.nbytes >= LARGE and array.flags.c_contiguous and _is_whole(array):
        if not hasattr(os, "preadv"):  # Windows reads through the map, and keeps what it read while memory lasts
            return tensor
        _maps[tensor.data_ptr()] = array
    return tensor


def is_paged(tensor: Tensor) -> bool:
    """Whether a tensor's rows come from a large mapped file.

    >>> is_paged(torch.ones(2))
    False
    """
    return tensor.device.type == "cpu" and tensor.data_ptr() in _maps


def take(tensor: Tensor, rows: Tensor) -> Tensor:
    """The rows (B, ...) of a tensor (N, ...), as index_select gives them.

    >>> take(torch.arange(6).view(3, 2), torch.tensor([2, 0]))
    tensor([[4, 5],
            [0, 1]])
    """
    if not is_paged(tensor):
        return tensor.index_select(0, rows)
    source = _maps[tensor.data_ptr()]
    # NumPy's large arrays lie on huge pages; torch's cost a fault every 4 kB, as long again as reading.
    found = torch.from_numpy(np.empty((len(rows), *tensor.shape[1:]), source.dtype))
    room = found.numpy().view(np.uint8).reshape(len(rows), source.nbytes // len(source))
    for row in rows.tolist():
        if not 0 <= row < len(tensor):
            raise IndexError(f"row {row} of {len(tensor)}")
    offsets = [source.offset + row * room.shape[1] for row in rows.tolist()]
    _read_rows(str(source.filename), room, offsets, direct=source.nbytes > CACHED * _memory())
    return found


def read_whole(path: str) -> None:
    """Read a file from end to end past the page cache, as fast as the disk gives it: a measure for other reading."""
    with _opened(path, direct=True) as file:
        room = _piece()
        for offset in range(0, os.fstat(file).st_size, PIECE):
            os.preadv(file, [room.data], offset)


@contextmanager
def larger_than_memory() -> Iterator[None]:
    """Treat files that are mapped in here, and rows that are taken, as those of files that memory cannot hold."""
    global LARGE, CACHED
    before = LARGE, CACHED
    LARGE, CACHED = 0, 0.0
    try:
        yield
    finally:
        LARGE, CACHED = before


def release(tensor: Tensor) -> None:
    """Hand the pages of a large mapped file back; what was written to a shared map is on its way to the disk."""
    if is_paged(tensor) and hasattr(mmap, "MADV_DONTNEED"):
        source: Any = _maps[tensor.data_ptr()]
        source._mmap.madvise(mmap.MADV_DONTNEED)


def _is_whole(array: np.memmap[Any, Any]) -> bool:
    """Whether the array begins where its map of the file says; a slice of a map keeps the map's own offset."""
    return array.filename is not None and not isinstance(array.base, np.memmap)


@cache
def _memory() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _read_rows(path: str, room: Bytes, offsets: Sequence[int], direct: bool) -> None:
    """Fill rows of bytes from places in a file."""
    readers = max(1, min(READERS, len(offsets), room.nbytes // READER_BYTES))
    read: Reader = _read_directly if direct else _read
    with _opened(path, direct) as file:

        def fill(first: int) -> None:
            for place, offset in zip(room[first::readers], offsets[first::readers], strict=True):
                read(file, place, offset)

        if readers == 1:
            fill(0)
            return
        tasks = [_readers().submit(fill, first) for first in range(readers)]
        wait(tasks)  # all of them, before the file is closed
    for task in tasks:
        task.result()


@cache
def _readers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(READERS, thread_name_prefix="rmixup-reader")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_readers.cache_clear)  # threads stay behind in the parent


@contextmanager
def _opened(path: str, direct: bool) -> Iterator[int]:
    file = _open_directly(path) if direct else os.open(path, os.O_RDONLY)
    try:
        if hasattr(os, "posix_fadvise"):
            # Rows lie anywhere: reading ahead would read what nobody asked for.
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
        yield file
    finally:
        os.close(file)


def _open_directly(path: str) -> int:
    """Past the page cache, where the file system can do that."""
    try:
        return os.open(path, os.O_RDONLY | getattr(os, "O_DIRECT", 0))
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return os.open(path, os.O_RDONLY)


def _read(file: int, place: Bytes, offset: int) -> None:
    done = 0
    while done < place.nbytes:
        got = os.preadv(file, [place.data[done:]], offset + done)
        _require(got, offset + done)
        done += got


def _read_directly(file: int, place: Bytes, offset: int) -> None:
    """Read the pages around a place past the page cache, and copy the place out of them."""
    piece = _piece()
    done = 0
    while done < place.nbytes:
        before = (offset + done) % PAGE
        wanted = min(PIECE, -(-(before + place.nbytes - done) // PAGE) * PAGE)
        got = min(os.preadv(file, [piece[:wanted].data], offset + done - before) - before, place.nbytes - done)
        _require(got, offset + done)
        place[done : done + got] = piece[before : before + got]
        done += got


def _require(got: int, at: int) -> None:
    if got <= 0:
        raise OSError(f"the mapped file ends at {at} bytes: was it cut while it was read?")


def _piece() -> Bytes:
    """This thread's huge page."""
    if not hasattr(_local, "piece"):
        whole = mmap.mmap(-1, 2 * PIECE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        with suppress(AttributeError, OSError):  # systems without huge pages
            whole.madvise(mmap.MADV_HUGEPAGE)
        room = np.frombuffer(whole, np.uint8)
        first = -room.ctypes.data % PIECE
        _local.piece = room[first : first + PIECE]
    piece: Bytes = _local.piece
    return piece
