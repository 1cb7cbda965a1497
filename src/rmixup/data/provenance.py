"""Where a data set came from and what was done to it: sources with checksums, then steps in order."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

_READ = 1 << 20


@dataclass(frozen=True)
class Provenance:
    """The history of a data set; every transformation returns a longer one.

    Attributes
    ----------
    sources : tuple of dict with `path`, `sha256`, `size`
        The files that were read.
    steps : tuple of dict with `step`, `parameters`
        What was done, in order.

    >>> Provenance().then("select", subjects=12).steps
    ({'step': 'select', 'parameters': {'subjects': 12}},)
    """

    sources: tuple[Mapping[str, Any], ...] = ()
    steps: tuple[Mapping[str, Any], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "sources", tuple(_plain(dict(source)) for source in self.sources))
        object.__setattr__(self, "steps", tuple(_plain(dict(step)) for step in self.steps))

    def then(self, step: str | Mapping[str, Any], **parameters: Any) -> Provenance:
        """The same history with one step more: a name with its parameters, or {"step", "parameters"}."""
        added = {"step": step, "parameters": parameters} if isinstance(step, str) else step
        return Provenance(self.sources, (*self.steps, added))

    def read_from(self, paths: Iterable[str | Path]) -> Provenance:
        """The same history with these files as further sources, their checksums taken now."""
        return Provenance((*self.sources, *map(describe_file, paths)), self.steps)

    def to_json(self) -> dict[str, list[dict[str, Any]]]:
        """A plain object for dataset.json."""
        return {"sources": [dict(s) for s in self.sources], "steps": [dict(s) for s in self.steps]}


def describe_file(path: str | Path) -> dict[str, Any]:
    """`path`, `sha256` and `size` of a file."""
    path = Path(path)
    return {"path": str(path), "sha256": sha256_of(path), "size": path.stat().st_size}


def sha256_of(path: Path) -> str:
    """The checksum of a file, read in pieces."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_READ):
            digest.update(piece)
    return digest.hexdigest()


def _plain(entry: dict[str, Any]) -> dict[str, Any]:
    """A deep copy made of JSON's types, so that what is kept cannot be changed from outside and can be written."""
    copy: dict[str, Any] = json.loads(json.dumps(entry, default=_as_json))
    return copy


def _as_json(value: object) -> object:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    return list(value) if isinstance(value, set | frozenset | range) else str(value)
