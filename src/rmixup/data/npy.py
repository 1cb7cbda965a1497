"""Arrays on disk as .npy: opened without trust, written row by row when their number is not yet known."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tokenize
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from rmixup.errors import FormatError

Array = npt.NDArray[Any]

_MAGIC = b"\x93NUMPY"
# A header of numbers is about 100 bytes; NumPy itself evaluates no more than this.
MAX_HEADER = 10_000
# Beyond this size what shrank a hundredfold is a bomb, not a measurement.
BOMB_BYTES = 1 << 30
BOMB_RATIO = 100
# As many as every NumPy can have.
_MAX_DIMENSIONS = 32
# The header is written last, when the number of rows is known, into this much room.
_HEADER_ROOM = 128


def open_array(path: str | Path, memory_map: bool = True) -> Array:
    """A .npy file of numbers or text as a read-only array, memory-mapped unless asked otherwise.

    Nothing is unpickled and nothing is allocated before the header was found to be short and to agree with the size
    of the file; otherwise FormatError names the file.
    """
    path = Path(path)
    with path.open("rb") as file:
        shape, fortran, dtype, offset = _read_header(file, path)
    expected = offset + dtype.itemsize * _count(shape)
    if path.stat().st_size != expected:
        raise FormatError(
            f"{path}: the header promises {shape} of {dtype}, {expected} bytes, but the file has "
            f"{path.stat().st_size}: it is truncated or damaged; copy or write it again"
        )
    order: Any = "F" if fortran else "C"
    if _count(shape) == 0 or not memory_map or dtype.kind == "U":
        array = np.fromfile(path, dtype=dtype, offset=offset, count=_count(shape)).reshape(shape, order=order)
        check_text(array, str(path))
        array.setflags(write=False)
        return array
    return np.memmap(path, dtype=dtype, mode="r", offset=offset, shape=shape, order=order)


def check_text(array: Array, where: str) -> None:
    """Refuse text with numbers in it that are no letters: Python ends some programs that ask for them."""
    if array.dtype.kind != "U" or array.size == 0:
        return
    letters = np.ascontiguousarray(array).reshape(-1).view(np.dtype(np.uint32).newbyteorder(array.dtype.byteorder))
    if int(letters.max()) > sys.maxunicode:
        raise FormatError(
            f"{where}: holds text that is damaged (no letter has the number {letters.max()}); save it again"
        )


def _count(shape: tuple[int, ...]) -> int:
    """Python's integers: a hostile shape must not overflow."""
    count = 1
    for length in shape:
        count *= length
    return count


def _read_header(file: io.BufferedReader, path: Path) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    start = file.read(12)
    if not start:
        raise FormatError(f"{path}: the file is empty; expected a NumPy array (.npy)")
    if start[:6] != _MAGIC or len(start) < 12 or start[6] not in {1, 2, 3}:
        raise FormatError(f"{path}: this is not a NumPy array (.npy)")
    prefix = 10 if start[6] == 1 else 12
    length = int.from_bytes(start[8:prefix], "little")
    if length > MAX_HEADER:
        raise FormatError(
            f"{path}: the header claims {length} bytes, more than {MAX_HEADER}; the file is not safe to read"
        )
    file.seek(0)
    head = io.BytesIO(file.read(prefix + length))
    read = np.lib.format.read_array_header_1_0 if start[6] == 1 else np.lib.format.read_array_header_2_0
    try:
        np.lib.format.read_magic(head)
        shape, fortran, dtype = read(head)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError, tokenize.TokenError) as error:
        raise FormatError(f"{path}: the header of the array is damaged ({error}); write the file again") from error
    if dtype.hasobject or dtype.names is not None or dtype.subdtype is not None:
        raise FormatError(f"{path}: holds Python objects or records ({dtype}); save it as plain numbers or text")
    if dtype.itemsize == 0:
        raise FormatError(f"{path}: holds texts or records of no length ({dtype}); write the file again")
    if len(shape) > _MAX_DIMENSIONS or any(type(length) is not int or length < 0 for length in shape):
        raise FormatError(f"{path}: the header of the array is damaged (shape {shape}); write the file again")
    return shape, fortran, dtype, prefix + length


class RowsFile:
    """A .npy file that grows by rows (..., *shape); its header is filled in on `close`."""

    def __init__(self, path: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.shape = shape
        self.dtype = dtype.newbyteorder("<")
        self.count = 0
        self._file = path.open("wb")
        self._file.write(self._header())

    def __enter__(self) -> RowsFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.abandon()

    def append(self, rows: Array) -> None:
        """Add rows (k, *shape)."""
        self._file.write(np.ascontiguousarray(rows, dtype=self.dtype).data)
        self.count += len(rows)

    def close(self) -> None:
        """Fill in the header and bring everything to the disk."""
        self._file.seek(0)
        self._file.write(self._header())
        sync(self._file)
        self._file.close()

    def abandon(self) -> None:
        """Close a file that is thrown away: that its last bytes cannot be written does not matter any more."""
        with contextlib.suppress(OSError):
            self._file.close()

    def _header(self) -> bytes:
        text = repr({"descr": self.dtype.str, "fortran_order": False, "shape": (self.count, *self.shape)}).encode()
        start = _MAGIC + b"\x01\x00" + (_HEADER_ROOM - 10).to_bytes(2, "little")
        return start + text.ljust(_HEADER_ROOM - 11) + b"\n"


def sync(file: Any) -> None:
    """Bring a file's content to the disk."""
    file.flush()
    os.fsync(file.fileno())
