"""An array of matrices of which some rows are chosen: nothing is copied before it is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Index = npt.NDArray[np.int64]

# One block of matrices: large enough for BLAS, small beside any machine's memory.
_BLOCK_BYTES = 32 << 20


class Rows:
    """Chosen rows of a read-only array (N, ...) that may be a memory map.

    >>> rows = Rows(np.arange(12.0).reshape(4, 3)).take(np.array([2, 0]))
    >>> rows.array()
    array([[6., 7., 8.],
           [0., 1., 2.]])
    """

    def __init__(self, base: Array, rows: Index | None = None) -> None:
        self._base = base
        self._rows = rows
        self._taken: Array | None = None

    def __len__(self) -> int:
        return len(self._base) if self._rows is None else len(self._rows)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of `array()`, which need not exist yet."""
        return (len(self), *self._base.shape[1:])

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the numbers."""
        return self._base.dtype

    def take(self, index: Index) -> Rows:
        """Rows of these rows."""
        return Rows(self._base, index if self._rows is None else self._rows[index])

    def array(self) -> Array:
        """All chosen rows, read-only: a view where they lie in a row, else a copy made once."""
        if self._taken is None:
            self._taken = self._base if self._rows is None else _pick(self._base, self._rows)
        return self._taken

    def blocks(self, size: int | None = None) -> Iterator[tuple[int, Array]]:
        """(first row, block) in order; pages of a memory map are given back after each block."""
        size = size or self._block_length()
        for start in range(0, len(self), size):
            yield start, self._block(start, start + size)
            _forget(self._base)

    def _block(self, start: int, stop: int) -> Array:
        if self._taken is not None:
            return self._taken[start:stop]
        if self._rows is None:
            return self._base[start:stop]
        return _pick(self._base, self._rows[start:stop])

    def _block_length(self) -> int:
        one = self.dtype.itemsize * int(np.prod(self.shape[1:]))
        return max(1, _BLOCK_BYTES // max(one, 1))


def freeze(array: Array) -> Array:
    """The array, no longer writeable through what is returned; a writeable array is copied first.

    Who hands over a large array for good calls `array.setflags(write=False)` and spares the copy.
    """
    if array.flags.writeable:
        array = array.copy()
        array.setflags(write=False)
    return array


def _pick(base: Array, rows: Index) -> Array:
    if len(rows) and rows[-1] - rows[0] == len(rows) - 1 and bool((np.diff(rows) == 1).all()):
        # All of a map stays that map: slices of it are not read row by row from their file.
        return base if len(rows) == len(base) else base[int(rows[0]) : int(rows[-1]) + 1]
    picked = np.asarray(base)[rows]
    picked.setflags(write=False)
    return picked


def _forget(base: Array) -> None:
    """Let the system take back the pages of a memory map: one pass over a large file stays small in memory."""
    mapped = getattr(base, "_mmap", None)
    if mapped is not None and hasattr(mapped, "madvise"):
        import mmap

        mapped.madvise(mmap.MADV_DONTNEED)
