"""A reader of one's own: a folder with one edge list a subject (`sub-01.edges`: node, node, weight).

Run it: python reader.py
"""

from __future__ import annotations

import csv
import sys
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path

import numpy as np

import rmixup
from rmixup.data.readers import READERS, Found, Person
from rmixup.errors import FormatError

DESCRIPTION = "a folder with one edge list a subject: *.edges with node, node, weight"
OPTIONS = ("diagonal",)


def recognises(path: Path) -> bool:
    """A folder with edge lists."""
    return path.is_dir() and any(path.glob("*.edges"))


def read(path: Path, *, diagonal: float = 1.0) -> Found:
    """Say who is there; `stream` reads one subject at a time, so memory stays small.

    Parameters
    ----------
    diagonal : the value that edge lists leave out
    """
    files = {file.stem: file for file in sorted(path.glob("*.edges"))}
    nodes = sorted({name for file in files.values() for row in _rows(file) for name in row[:2]})

    def stream(wanted: Collection[str]) -> Iterator[Person]:
        for subject, file in files.items():
            if subject in wanted:
                yield Person(subject, _matrix(file, nodes, diagonal), "matrix", tuple(nodes), str(file))

    return Found("edges", tuple(files), stream, tuple(files.values()))


def _rows(file: Path) -> list[list[str]]:
    with file.open(newline="", encoding="utf-8") as text:
        rows = list(csv.reader(text, delimiter="\t"))
    for number, row in enumerate(rows, start=1):
        if len(row) != 3:
            raise FormatError(f"{file}: line {number} has {len(row)} values, expected 3: node, node, weight")
    return rows


def _matrix(file: Path, nodes: list[str], diagonal: float) -> np.ndarray:
    place = {name: k for k, name in enumerate(nodes)}
    matrix = np.diag(np.full(len(nodes), diagonal))
    for a, b, weight in _rows(file):
        matrix[place[a], place[b]] = matrix[place[b], place[a]] = float(weight)
    return matrix


# A reader is a module; `layout="edges"` or, where no other layout fits, recognition leads here.
READERS["edges"] = sys.modules[__name__]

if __name__ == "__main__":
    folder = Path(tempfile.mkdtemp())
    for subject, weight in (("sub-01", 0.2), ("sub-02", 0.4), ("sub-03", 0.3)):
        (folder / f"{subject}.edges").write_text(f"A\tB\t{weight}\nB\tC\t{weight / 2}\n", encoding="utf-8")
    (folder / "participants.tsv").write_text(
        "participant_id\tage\nsub-03\t31.5\nsub-01\t40.5\nsub-02\t27.0\n", encoding="utf-8"
    )
    ds = rmixup.load(folder, layout="edges", labels=folder / "participants.tsv", target="age")
    print(ds, "of nodes", *ds.nodes)
