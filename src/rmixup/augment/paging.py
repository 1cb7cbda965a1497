"""Arrays larger than memory: rows of mapped files are read as they are asked for, and leave no pages behind.

A mapped file that is read through its map stays resident until the system needs the memory, and each miss reads
megabytes around it. So tensors over large mapped files are remembered here by their address: `take` reads their rows
with plain reads instead, and `release` hands back the pages that were written. Small files are left to the system.
"""

from __future__ import annotations

import mmap
import os
import warnings
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

# Below, a file may as well stay in memory.
LARGE = 2**30

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
    found = torch.empty(len(rows), *tensor.shape[1:], dtype=tensor.dtype)
    room = found.numpy().reshape(len(rows), -1).view(np.uint8)
    with _opened(source) as file:
        for place, row in zip(room, rows.tolist(), strict=True):
            if not 0 <= row < len(tensor):
                raise IndexError(f"row {row} of {len(tensor)}")
            _read(file, place, source.offset + row * place.nbytes)
    return found


def release(tensor: Tensor) -> None:
    """Hand the pages of a large mapped file back; what was written to a shared map is on its way to the disk."""
    if is_paged(tensor) and hasattr(mmap, "MADV_DONTNEED"):
        source: Any = _maps[tensor.data_ptr()]
        source._mmap.madvise(mmap.MADV_DONTNEED)


def _is_whole(array: np.memmap[Any, Any]) -> bool:
    """Whether the array begins where its map of the file says; a slice of a map keeps the map's own offset."""
    return array.filename is not None and not isinstance(array.base, np.memmap)


@contextmanager
def _opened(source: np.memmap[Any, Any]) -> Iterator[int]:
    file = os.open(str(source.filename), os.O_RDONLY)
    try:
        if hasattr(os, "posix_fadvise"):
            # Rows lie anywhere: reading ahead would read what nobody asked for.
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
        yield file
    finally:
        os.close(file)


def _read(file: int, place: npt.NDArray[np.uint8], offset: int) -> None:
    done = 0
    while done < place.nbytes:
        got = os.preadv(file, [place.data[done:]], offset + done)
        if not got:
            raise OSError(f"the mapped file ends at {offset + done} bytes: was it cut while it was read?")
        done += got
