"""MATLAB's files of version 5 to 7, read without trusting them: numbers, text and cells; all else is passed over.

SciPy's reader is compiled and ends the process on some damaged files (`make fuzz` finds them within seconds), so this
one is plain Python over the bytes: no length is believed before it is compared with what is there. May not be here:
what the variables mean.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from rmixup.data.npy import BOMB_BYTES, BOMB_RATIO
from rmixup.errors import FormatError

_HEADER = 128
_MATRIX, _COMPRESSED = 14, 15
_NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_TEXT = {1: "latin-1", 2: "latin-1", 3: "utf-16", 4: "utf-16", 16: "utf-8", 17: "utf-16", 18: "utf-32"}
_CELL, _CHAR, _NUMERIC = 1, 4, range(6, 16)
_COMPLEX, _LOGICAL = 0x08, 0x02
# Cells in cells: CONN has two levels.
_DEPTH = 16
# Flags, shape and name come first, within so many bytes.
_PEEK = 1024


def read_mat5(path: Path, wanted: tuple[str, ...] | None) -> dict[str, Any]:
    """Variable -> array in MATLAB's shape, text, list (a cell, column by column), or None for what is passed over."""
    data = path.read_bytes()
    order = {b"IM": "<", b"MI": ">"}.get(data[126:128])
    if order is None:
        raise FormatError(f"{path}: cannot be read as a MATLAB file (its header is not one); save it again as v7")
    try:
        return dict(_Reader(order, wanted).variables(memoryview(data)[_HEADER:]))
    except (_DamageError, struct.error, zlib.error, ValueError, OverflowError) as error:
        raise FormatError(f"{path}: cannot be read as a MATLAB file ({error}); save it again as v7") from None


class _DamageError(Exception):
    """What a length, a shape or a kind says cannot be."""


class _Reader:
    def __init__(self, order: str, wanted: tuple[str, ...] | None) -> None:
        self.order = order
        self.wanted = wanted

    def variables(self, data: memoryview) -> Iterator[tuple[str, Any]]:
        """The variables of a file, without its header."""
        while len(data) >= 8:
            kind, body, data = self._element(data, padded=False)
            if kind == _COMPRESSED:
                kind, body = self._unpacked(body)
            elif kind == _MATRIX:
                data = data[-len(body) % 8 :]
            if kind != _MATRIX:
                raise _DamageError(f"an element of kind {kind} stands where a variable was expected")
            name = self._name(body)
            if name and (self.wanted is None or name in self.wanted):
                yield name, self._value(body, 0)

    def _element(self, data: memoryview, padded: bool = True) -> tuple[int, memoryview, memoryview]:
        """(kind, content, what follows) of the element that the bytes begin with."""
        kind, size = struct.unpack_from(self.order + "II", data)
        if kind >> 16:  # up to four bytes stand in the tag itself
            kind, size, begin, end = kind & 0xFFFF, kind >> 16, 4, 8
            if size > 4:
                raise _DamageError(f"a short element claims {size} bytes")
        else:
            begin = 8
            end = begin + (size + -size % 8 if padded else size)
        if begin + size > len(data):
            raise _DamageError(f"an element claims {size} bytes, {len(data) - begin} are there")
        return kind, data[begin : begin + size], data[end:]

    def _unpacked(self, packed: memoryview) -> tuple[int, memoryview]:
        """The element in a compressed one; of a variable that nobody wants, its beginning only."""
        unpacker = zlib.decompressobj()
        head = unpacker.decompress(packed, _PEEK)
        kind, size = struct.unpack_from(self.order + "II", head)
        if size > BOMB_BYTES and size > BOMB_RATIO * len(packed):
            raise _DamageError(f"{len(packed)} bytes claim to unpack to {size}, which no measured data do")
        more = self.wanted is None or self._name(memoryview(head)[8:]) in self.wanted
        whole = head + (unpacker.decompress(unpacker.unconsumed_tail, size) if more else b"")
        if more and len(whole) < 8 + size:
            raise _DamageError(f"a variable claims {size} bytes, {len(whole) - 8} are there")
        return kind, memoryview(whole)[8 : 8 + size]

    def _name(self, body: memoryview) -> str:
        return str(self._start(body)[2]) if len(body) else ""

    def _start(self, body: memoryview) -> tuple[int, tuple[int, ...], str, memoryview]:
        """(flags and class, shape, name, the rest) of a variable."""
        _, flags, body = self._element(body)
        _, shape, body = self._element(body)
        _, name, body = self._element(body)
        (flag,) = struct.unpack_from(self.order + "I", flags)
        sizes = struct.unpack(f"{self.order}{len(shape) // 4}i", shape[: len(shape) // 4 * 4])
        if min(sizes, default=-1) < 0 or len(sizes) > 32:
            raise _DamageError(f"a variable claims the shape {sizes[:8]}")
        return flag, sizes, bytes(name).decode("latin-1"), body

    def _value(self, body: memoryview, depth: int) -> Any:
        if not len(body):
            return np.zeros((0, 0))
        flags, shape, _, rest = self._start(body)
        kind = flags & 0xFF
        if kind == _CELL:
            return self._cell(shape, rest, depth)
        if kind == _CHAR:
            return self._text(shape, rest)
        if kind in _NUMERIC:
            return self._numbers(flags >> 8, shape, rest)
        return None

    def _numbers(self, flags: int, shape: tuple[int, ...], rest: memoryview) -> Any:
        values, rest = self._flat(shape, rest)
        if flags & _COMPLEX:
            values = values + 1j * self._flat(shape, rest)[0]
        return values.astype(bool if flags & _LOGICAL else values.dtype.newbyteorder("=")).reshape(shape, order="F")

    def _flat(self, shape: tuple[int, ...], rest: memoryview) -> tuple[Any, memoryview]:
        kind, content, rest = self._element(rest)
        if kind not in _NUMBERS:
            raise _DamageError(f"numbers of kind {kind}, which there is not")
        values = np.frombuffer(content, np.dtype(self.order + _NUMBERS[kind]))
        if values.size != math.prod(shape):
            raise _DamageError(f"{values.size} numbers for the shape {shape[:8]}")
        return values, rest

    def _text(self, shape: tuple[int, ...], rest: memoryview) -> str | list[str]:
        """A line, or the lines of a matrix of letters."""
        if math.prod(shape) == 0:
            return ""
        kind, content, _ = self._element(rest)
        coding = _TEXT.get(kind, "latin-1")
        ends = {"<": "-le", ">": "-be"}[self.order] if coding in {"utf-16", "utf-32"} else ""
        letters = bytes(content).decode(coding + ends, "replace")
        rows = shape[0] if len(letters) == math.prod(shape) else 1
        lines = [letters[k::rows].strip() for k in range(rows)]
        return lines[0] if rows == 1 else lines

    def _cell(self, shape: tuple[int, ...], rest: memoryview, depth: int) -> list[Any]:
        count = math.prod(shape)
        if count * 8 > len(rest) or depth > _DEPTH:
            raise _DamageError(f"a cell claims {count} entries in {len(rest)} bytes, {depth} levels deep")
        values = []
        for _ in range(count):
            kind, body, rest = self._element(rest)
            if kind != _MATRIX:
                raise _DamageError(f"an element of kind {kind} stands in a cell")
            values.append(self._value(body, depth + 1))
        return values
