"""Mutations: of any bytes, of text tables, of JSON trees, of the headers of arrays. All chance comes from `rng`."""

from __future__ import annotations

import io
import json
import struct
import zipfile
import zlib
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

Mutate = Callable[[Random, Sequence[bytes]], bytes]

# Where sizes, counts and signs go wrong.
NUMBERS = (0, 1, 2, 3, 4, 7, 8, 15, 16, 31, 64, 127, 128, 255, 256, 1000, 32767, 32768, 65535, 65536)
NUMBERS += (2**24, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40, 2**62, 2**63 - 1, 2**63, 2**64 - 1)
# Texts that have meant trouble: for readers of numbers, for places, for pages, for terminals.
TEXTS = (
    "", " ", "nan", "NaN", "n/a", "inf", "-inf", "1e999", "-1e308", "1e-400", "0x10", "1_000", "1,5", "٣", "½", "1e",
    "+", "-", ".", "None", "null", "true", "9" * 400, "-9999", "0", "1", "2", "sub-01", "s1", '"', '""', "'", "\\",
    "../canary/secret", "/etc/passwd", "..", "=cmd()", "<script>alert(1)</script>", "\x1b[2J", "\u202e", "\ufeff",
    "\0", "\r", "\n", "\t", ",", ";", "#", "%", "a" * 300, "\N{BRAIN}", "é", "\ud800", "{id}", "*", "%s", "{0}",
)  # fmt: skip
_TREES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 3, 10**6, 2**31, 2**63, 10**30, 0.5, -0.0, 1e308, float("nan"), float("inf"),
    "", "x", "../canary/secret", "a" * 300, "\x1b[2J\n", [], {}, [[]], [None], {"": None}, ["a", 1], [1, 2, 3],
)  # fmt: skip


def encoded(text: str) -> bytes:
    """Text as a careless tool would write it: a lone half of a pair too."""
    return text.encode("utf-8", "surrogatepass")


def raw(tokens: Sequence[bytes] = (), most: int = 4, unit: int = 1, tail: int = 0) -> Mutate:
    """Bytes: flips, numbers, cuts, copies, splices with another seed, words of a format.

    `unit` aligns the places of numbers; `tail` says how many bytes at the end are changed as often as all others,
    for formats that keep their description there.
    """
    words = (*tokens, *map(encoded, TEXTS[:-10]))

    def mutate(rng: Random, seeds: Sequence[bytes]) -> bytes:
        data = bytearray(rng.choice(seeds))
        if rng.random() < 0.005:
            return rng.randbytes(rng.choice((0, 1, 4, 40, 400)))
        for _ in range(rng.randint(1, most)):
            _once(rng, data, seeds, words, unit=unit, tail=tail)
        return bytes(data)

    return mutate


def _once(
    rng: Random, data: bytearray, seeds: Sequence[bytes], words: Sequence[bytes], *, unit: int, tail: int
) -> None:
    size = len(data)
    low = size - tail if tail and size > tail and rng.random() < 0.5 else 0
    # Half of all places lie in the first part, where formats keep their headers.
    at = rng.randrange(low, size + 1) if low or rng.random() < 0.5 else rng.randrange(min(size, 512) + 1)
    kind = rng.randrange(10)
    if kind == 0 and size:
        data[min(at, size - 1)] ^= 1 << rng.randrange(8)
    elif kind == 1 and size:
        data[min(at, size - 1)] = rng.randrange(256)
    elif kind in {2, 3}:
        width, order = rng.choice((1, 2, 4, 8)), rng.choice(("little", "big"))
        at -= at % unit
        data[at : at + width] = (rng.choice(NUMBERS) % 256**width).to_bytes(width, order)  # type: ignore[arg-type]
    elif kind == 4:
        del data[at : at + rng.choice((1, 2, 4, 8, 64, size))]
    elif kind == 5:
        piece = data[at : at + rng.choice((1, 4, 16, 64, 256))]
        data[at:at] = piece * rng.choice((1, 2, 9))
    elif kind == 6:
        word = rng.choice(words)
        data[at : at + (len(word) if rng.random() < 0.5 else 0)] = word
    elif kind == 7:
        other = rng.choice(seeds)
        begin = rng.randrange(len(other) + 1)
        data[at : at + rng.choice((0, 8, 64, size))] = other[begin : begin + rng.choice((4, 32, 256, len(other)))]
    elif kind == 8:
        data[at:at] = rng.randbytes(rng.choice((1, 2, 8, 32)))
    elif size:
        begin = rng.randrange(size)
        data[at : at + 16], data[begin : begin + 16] = data[begin : begin + 16], data[at : at + 16]


def table(tokens: Sequence[str] = ()) -> Mutate:
    """Text of rows and cells: cells replaced, rows and columns dropped, doubled, shuffled, other delimiters."""
    words = (*TEXTS, *tokens)
    bytewise = raw([encoded(word) for word in tokens])

    def mutate(rng: Random, seeds: Sequence[bytes]) -> bytes:
        seed = rng.choice(seeds)
        if rng.random() < 0.3:
            return bytewise(rng, seeds)
        text = seed.decode("utf-8", "surrogateescape")
        mark = next((mark for mark in "\t,; " if mark in text), ",")
        rows = [line.split(mark) for line in text.split("\n")]
        for _ in range(rng.randint(1, 4)):
            _row_or_cell(rng, rows, words)
        mark = rng.choice("\t,; |") if rng.random() < 0.1 else mark
        end = rng.choice(("\r\n", "\r", "\n\n", "\x0c")) if rng.random() < 0.1 else "\n"
        content = end.join(mark.join(row) for row in rows)
        return content.encode("utf-16", "replace") if rng.random() < 0.01 else _as_read(content)

    return mutate


def _as_read(content: str) -> bytes:
    """The bytes that the seed had, with what was put in."""
    try:
        return content.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return encoded(content)


def _row_or_cell(rng: Random, rows: list[list[str]], words: Sequence[str]) -> None:
    if not rows:
        rows.append([rng.choice(words)])
    k = 0 if rng.random() < 0.3 else rng.randrange(len(rows))
    row = rows[k]
    cell = rng.randrange(len(row)) if row else 0
    kind = rng.randrange(10)
    if kind <= 3 and row:
        row[cell] = rng.choice(words)
    elif kind == 4 and row:
        del row[cell]
    elif kind == 5:
        row.insert(cell, rng.choice(words))
    elif kind == 6:
        rows.insert(rng.randrange(len(rows) + 1), list(row))
    elif kind == 7:
        del rows[k]
    elif kind == 8:
        column = cell
        value = rng.choice(words)
        for one in rows[rng.randrange(2) :]:
            if column < len(one):
                one[column] = value
    else:
        rng.shuffle(rows if rng.random() < 0.5 else row)


def tree(rng: Random, value: Any, times: int = 3) -> Any:
    """A JSON value with a few of its nodes replaced, renamed, dropped, doubled or put elsewhere."""
    value = json.loads(json.dumps(value))
    for _ in range(rng.randint(1, times)):
        holders = list(_holders(value))
        if not holders:
            return rng.choice(_TREES)
        holder, key = rng.choice(holders)
        kind = rng.randrange(8)
        if kind <= 3:
            holder[key] = json.loads(json.dumps(rng.choice(_TREES)))
        elif kind == 4:
            del holder[key]
        elif kind == 5:
            other, place = rng.choice(holders)
            holder[key] = json.loads(json.dumps(other[place])) if _has(other, place) else None
        elif kind == 6 and isinstance(holder, dict):
            holder[rng.choice(TEXTS)] = holder.pop(key)
        elif isinstance(holder[key], int | float) and not isinstance(holder[key], bool):
            holder[key] = rng.choice((-1, 1)) * rng.choice(NUMBERS)
        elif isinstance(holder[key], str):
            holder[key] = rng.choice((rng.choice(TEXTS), holder[key] + "x", holder[key][:-1], holder[key].upper()))
    return value


def _has(holder: Any, key: Any) -> bool:
    return key in holder if isinstance(holder, dict) else key < len(holder)


def _holders(value: Any) -> Any:
    """(container, key) of every node below the top."""
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _holders(value[key])


def deep(levels: int = 100_000) -> bytes:
    """JSON nested so deep that a recursive reader falls over."""
    return b"[" * levels


# ------------------------------------------------------------------------------------------------ headers of arrays

_DESCR = (
    "<f8", "<f4", ">f8", "|O", "|V8", "<i8", "|b1", "<U3", "|S4", "<c16", "<m8[ns]", "<M8[D]", "<f2", "<f16", "|S0",
    "<U0", "<U99999999", "|V0", "|S2147483647", "<u1", "", "f", "zz", "<U1000000000000", "('<f8', (2,))",
)  # fmt: skip
_SHAPES = (
    "()", "(0,)", "(1,)", "(-1,)", "(2, 3)", "(4, 3, 3)", "(0, 3, 3)", "(4, 0, 3)", "(4, 4, 4, 4)", "(1" + ", 1" * 70
    + ")", "(9223372036854775807,)", "(4294967296, 4294967296)", "(99999999999999999999,)", "(True, 3)", "(2.0,)",
    "('a',)", "[4, 3, 3]", "4", "None", "(4, 3, 3, 0)", "(1e3,)", "(" * 300, "(4,)", "(3, 3)", "(12, 3)",
)  # fmt: skip


def npy_header(rng: Random, content: bytes) -> bytes:
    """A .npy file with another header, the data as they are; or any change of bytes."""
    if rng.random() < 0.3 or content[:6] != b"\x93NUMPY":
        return raw(most=2)(rng, [content])
    length = int.from_bytes(content[8:10], "little")
    data = content[10 + length :]
    descr = rng.choice(_DESCR)
    quoted = repr(descr) if rng.random() < 0.9 else "[('a', '<f8'), ('b', '|O')]"
    text = (
        f"{{'descr': {quoted}, 'fortran_order': {rng.choice(('False', 'True', '0', 'None'))}, "
        f"'shape': {rng.choice(_SHAPES)}, }}"
    )
    old = content[10 : 10 + length].decode("latin-1").rstrip()
    choice = rng.randrange(5)
    if choice == 0:
        text = old.replace("(", rng.choice(("(0, ", "(-", "((", "[", "(10**9, ")), 1)
    elif choice == 1:
        text = old.replace("<f8", descr)
    elif choice == 2:
        text = old[: rng.randrange(len(old) + 1)] + rng.choice(("", "#", "\\", "'", "\0", "x", "}" * 50))
    elif choice == 3:
        text = old[: old.find("'shape': ")] + f"'shape': {rng.choice(_SHAPES)}, }}"
    version = rng.choice((1, 1, 1, 2, 3, 0, 4, 255))
    head = text.encode("utf-8", "replace") + b"\n"
    size = rng.choice(NUMBERS[:20]) if rng.random() < 0.05 else len(head)
    prefix = struct.pack("<H", size % 65536) if version == 1 else struct.pack("<I", size)
    return b"\x93NUMPY" + bytes((version, 0)) + prefix + head + data


_MEMBERS = (
    "matrices.npy", "series.npy", "series_0.npy", "series_1.npy", "subjects.npy", "y.npy", "nodes.npy", "groups.npy",
    "families.npy", "x.npy", "../x.npy", "/x.npy", "x.txt", ".npy", "", "series_.npy", "series_٣.npy", "series_²0.npy",
    "series_99999.npy", "series_00.npy", "a" * 300 + ".npy", "\N{BRAIN}.npy", "frames.npy", "classes.npy",
)  # fmt: skip


def npz(rng: Random, seeds: Sequence[bytes]) -> bytes:
    """An archive with other members, other arrays in them; or any change of its bytes."""
    seed = rng.choice(seeds)
    if rng.random() < 0.3:
        return raw([b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06", b"PK\x06\x06"], tail=400)(rng, [seed])
    with zipfile.ZipFile(io.BytesIO(seed)) as archive:
        members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    for _ in range(rng.randint(1, 3)):
        k = rng.randrange(len(members))
        name, content = members[k]
        kind = rng.randrange(8)
        if kind <= 3:
            members[k] = name, npy_header(rng, content)
        elif kind == 4:
            members[k] = rng.choice(_MEMBERS), content
        elif kind == 5:
            members[k] = name, rng.choice(members)[1]
        elif kind == 6 and len(members) > 1:
            del members[k]
        else:
            members.append((rng.choice(_MEMBERS), content))
    return zipped(members, rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)))


def zipped(members: Sequence[tuple[str, bytes]], how: int = zipfile.ZIP_STORED) -> bytes:
    """An archive of these members; two may have one name."""
    import warnings

    stream = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of two members with one name
        with zipfile.ZipFile(stream, "w", how) as archive:
            for name, content in members:
                archive.writestr(zipfile.ZipInfo(name), content, how)
    return stream.getvalue()


def mat5(rng: Random, seeds: Sequence[bytes]) -> bytes:
    """A MATLAB file with its tags changed, its variables packed or not."""
    changed = raw(unit=4, most=3)(rng, seeds)
    if rng.random() < 0.6 or len(changed) < 136:
        return changed
    # One variable, changed, then compressed as MATLAB does: the checksum is right, what is inside is not.
    body = zlib.compress(changed[128:], 1)
    return changed[:128] + struct.pack("<II", 15, len(body)) + body


def safetensors(rng: Random, content: bytes) -> bytes:
    """Weights with another header, or any change of bytes."""
    if rng.random() < 0.3 or len(content) < 8:
        return raw(most=2)(rng, [content])
    length = int.from_bytes(content[:8], "little")
    header = tree(rng, json.loads(content[8 : 8 + length]))
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + content[8 + length :]
