"""What every reader hands over: who is in a source, and their arrays one at a time, so that memory stays small.

May not be here: file formats, labels, repair.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from rmixup.data.labels import shown
from rmixup.errors import DataError, FormatError

Array = npt.NDArray[Any]
Kind = Literal["series", "matrix"]

# How far a matrix in a text file may be from symmetric: its numbers are rounded.
_SYMMETRY = 1e-4


@dataclass(frozen=True)
class Person:
    """One subject's array: series (t, n) or a matrix (n, n), and the names of the nodes where the file has them."""

    subject: str
    values: Array
    kind: Kind
    nodes: tuple[str, ...] | None
    where: str


@dataclass(frozen=True)
class Found:
    """What a reader found before it reads anything large.

    Attributes
    ----------
    layout : str
        The reader's name.
    subjects : tuple of str
        Everybody there is, in the order of `stream`.
    stream : function
        Takes the subjects that are wanted, yields a Person for each.
    files : tuple of Path
        What is read, for the provenance.
    table, table_path
        What is known about people (index: subject), where a reader makes it itself; else None.
    target, groups
        The columns that are used when none is asked for.
    families : mapping of subject to family, or None
        Subjects that may not be separated by a split.
    kind : str or None
        The connectivity that series of this source are turned into when none is asked for.
    remedy : str
        What helps when correlations of this source are not defined.
    steps : tuple of (name, parameters)
        What the reader decided, for the provenance.
    """

    layout: str
    subjects: tuple[str, ...]
    stream: Callable[[Collection[str]], Iterator[Person]]
    files: tuple[Path, ...]
    table: pd.DataFrame | None = None
    table_path: Path | None = None
    target: str | None = None
    groups: str | None = None
    families: Mapping[str, str] | None = None
    kind: str | None = None
    remedy: str = "leave them out with --drop-subjects undefined, or the nodes with --drop-nodes"
    steps: tuple[tuple[str, dict[str, Any]], ...] = field(default=())


def classify(values: Array, where: str, content: str = "auto", transpose: bool = False) -> tuple[Array, Kind]:
    """Say whether a 2-D array is one person's series (t, n) or matrix (n, n)."""
    if values.ndim != 2 or 0 in values.shape:
        raise FormatError(f"{where}: expected a table of numbers, found an array of shape {values.shape}")
    if values.dtype.kind not in "fiub":
        raise FormatError(f"{where}: expected real numbers, found {values.dtype}")
    values = values if values.dtype in (np.float32, np.float64) else values.astype(np.float64)
    square = values.shape[0] == values.shape[1]
    if content == "matrices" and not square:
        raise FormatError(f"{where}: expected a square matrix, found {_by(values)} numbers; is it a series?")
    if content == "matrices" or (content == "auto" and square and _symmetric(values)):
        return values, "matrix"
    if content == "auto" and square:
        raise FormatError(
            f"{where}: {_by(values)} numbers that are not symmetric could be a series or a damaged matrix; "
            "say which with --content series or --content matrices"
        )
    return (values.T if transpose else values), "series"


def _symmetric(values: Array) -> bool:
    # A defined diagonal need not be: Fisher's z of 1 is infinite.
    rest = np.where(np.isfinite(values), values, 0.0)
    same_gaps = bool((np.isfinite(values) == np.isfinite(values.T)).all())
    return same_gaps and bool(np.abs(rest - rest.T).max() <= _SYMMETRY * max(1.0, float(np.abs(rest).max())))


def _by(values: Array) -> str:
    return "×".join(map(str, values.shape))


def in_order(people: Iterator[Person]) -> Iterator[Person]:
    """Pass people on, refusing the first who has other nodes than the first person had."""
    first: Person | None = None
    for person in people:
        if first is None:
            first = person
        elif person.values.shape[1] != first.values.shape[1] or person.kind != first.kind:
            raise _different(first, person)
        elif person.nodes and first.nodes and person.nodes != first.nodes:
            raise _renamed(first, person)
        yield person


def _different(first: Person, other: Person) -> FormatError:
    if other.kind == first.kind == "series" and other.values.shape[0] == first.values.shape[0]:
        hint = "if time runs along the rows of the files, add --transpose"
    else:
        hint = "two atlases, or series and matrices, are mixed: choose one with --pattern or --atlas"
    return FormatError(
        f"{other.where}: {_what(other)} for subject {other.subject}, expected {first.values.shape[1]} nodes as a "
        f"{first.kind} as in {first.where}; {hint}"
    )


def _what(person: Person) -> str:
    return f"a {person.kind} of {_by(person.values)} numbers ({person.values.shape[1]} nodes)"


def _renamed(first: Person, other: Person) -> FormatError:
    assert first.nodes is not None
    assert other.nodes is not None
    place, was, now = next((k, a, b) for k, (a, b) in enumerate(zip(first.nodes, other.nodes, strict=True)) if a != b)
    kind = "in another order" if sorted(first.nodes) == sorted(other.nodes) else "other"
    return FormatError(
        f"{other.where}: subject {other.subject} has {kind} nodes: column {place + 1} is {now!r}, expected {was!r} as "
        f"in {first.where}; write all files with the same columns"
    )


def by_subject(files: Sequence[Path], root: Path, pattern: str | None) -> dict[str, Path]:
    """Each file's subject, from its path: `{id}` in the pattern, else the part of the names that differs."""
    names = [file.relative_to(root).as_posix() for file in files]
    if pattern and "{id}" in pattern:
        ids = [_id_in(name, pattern) for name in names]
    else:
        ids = _differing([name.rsplit("/", 1)[-1].split(".", maxsplit=1)[0] for name in names])
    refuse_twice(ids, files)
    return dict(zip(ids, files, strict=True))


def refuse_twice(ids: Sequence[str], files: Sequence[Path]) -> None:
    """One file a subject, or an error that names those with more."""
    twice = [name for name, count in Counter(ids).items() if count > 1]
    if twice:
        example = [file.name for name, file in zip(ids, files, strict=True) if name == twice[0]]
        raise DataError(
            f"{files[0].parent}: {len(twice)} subjects have several files ({twice[0]}: {shown(example, 3)}); choose "
            "one kind of file with --pattern, such as --pattern '{id}_timeseries.csv'"
        )


def matching(root: Path, pattern: str) -> list[Path]:
    """The files whose path below root fits the pattern: `{id}` stands for a subject, `*` for anything in one name."""
    glob = pattern.replace("{id}", "*")
    if ".." in Path(pattern).parts or Path(pattern).is_absolute():
        raise DataError(
            f"--pattern {pattern!r} leads outside {root}; give a path below it, such as '{{id}}/series.csv'"
        )
    return sorted(file for file in root.glob(glob) if file.is_file() or file.is_symlink())


def _id_in(name: str, pattern: str) -> str:
    parts = re.split(r"(\{id\}|\*)", pattern)
    kinds = {"{id}": "(?P<id>[^/]+)", "*": "[^/]*"}
    seen = pattern.split("{id}")
    if len(seen) > 2:
        raise DataError(f"--pattern {pattern!r} has {{id}} more than once; write the other place as *")
    match = re.fullmatch("".join(kinds.get(part, re.escape(part)) for part in parts), name)
    if match is None:
        raise DataError(f"{name}: does not fit --pattern {pattern!r}")
    return match["id"]


def _differing(stems: list[str]) -> list[str]:
    """Names without the last parts that they all share: a_ts, b_ts -> a, b."""
    parts = [stem.split("_") for stem in stems]
    while len(parts) > 1 and min(map(len, parts)) > 1 and len({part[-1] for part in parts}) == 1:
        parts = [part[:-1] for part in parts]
    return ["_".join(part) for part in parts]
