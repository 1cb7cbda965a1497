"""The results of a study on disk: one folder a cell, committed by one rename, checked whenever it is read.

Layout below the study's folder, every name made of a cell's key, never of anything a user or a data set named:
`cells/<key>/` (predictions.tsv, curves.tsv, timings.json, environment.json, weights.safetensors, result.json with the
checksums of all), `failed/<key>.json`, `quarantine/<key>.<k>/`, `claims/`. Temporaries begin with `.tmp-` and are
never read. A failed cell is recorded, never averaged; a damaged one is moved aside and done again.
"""

from __future__ import annotations

import contextlib
import csv
import json
import math
import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rmixup.errors import StoreError
from rmixup.study.cells import SCHEMA, Cell
from rmixup.study.claims import Claims
from rmixup.study.files import (
    TEMPORARY,
    Table,
    canonical,
    digest,
    dump_table,
    is_left_over,
    load_table,
    place_folder,
    seal,
    unseal,
    write,
)
from rmixup.study.results import Failure, Result

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_KEY = re.compile(r"([0-9a-f]{24})(\.json)?")
# What may differ between two runs of one cell.
_VARYING = {"timings.json", "environment.json"}
_COMMIT = "result.json"
_NAMES = {"predictions.tsv", "curves.tsv", "timings.json", "environment.json", "weights.safetensors"}
# What comes of JSON that is well sealed and means something else.
_MISFITS = (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)

Told = TypeVar("Told")


@dataclass(frozen=True)
class Record:
    """A committed cell, its files checked against their checksums."""

    folder: Path
    body: Mapping[str, Any]

    @cached_property
    def cell(self) -> Cell:
        """What was run."""
        return Cell.from_json(self.body["cell"])

    @property
    def scores(self) -> dict[str, float]:
        """Score -> value; NaN where it is undefined."""
        return {name: math.nan if value is None else value for name, value in self.body["scores"].items()}

    @property
    def sizes(self) -> dict[str, int]:
        """Subjects in train, validation and test."""
        return dict(self.body["sizes"])

    @property
    def notes(self) -> dict[str, Any]:
        """What else the run recorded."""
        return dict(self.body["notes"])

    @property
    def predictions(self) -> Table:
        """Column -> one value a test subject."""
        return _told(self.folder / "predictions.tsv", load_table)

    @property
    def curves(self) -> Table:
        """Column -> one value an epoch; empty for models without epochs."""
        return _told(self.folder / "curves.tsv", load_table)

    @property
    def timings(self) -> dict[str, float]:
        """Name -> seconds."""
        return _told(self.folder / "timings.json", _mapping)

    @property
    def environment(self) -> dict[str, str]:
        """Where it was run."""
        return _told(self.folder / "environment.json", _mapping)

    def weights(self) -> dict[str, NDArray[np.generic]]:
        """Parameter -> array, where they were kept."""
        from safetensors import SafetensorError
        from safetensors.numpy import load

        place = self.folder / "weights.safetensors"
        try:
            return _told(place, load) if place.exists() else {}
        except SafetensorError as error:
            raise StoreError(f"{place}: is not a file of tensors ({error}): delete the cell to redo it") from error


@dataclass(frozen=True)
class Damage:
    """A cell that cannot be trusted: what is wrong with it, and where it was moved."""

    key: str
    problem: str
    moved_to: Path


class Store:
    """The cells of one study folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cells = folder / "cells"
        self.failed = folder / "failed"
        self.quarantine = folder / "quarantine"
        self.claims = Claims(folder / "claims")

    def has(self, key: str) -> bool:
        """Whether a cell is committed."""
        return (self.cells / key / _COMMIT).is_file()

    def has_failed(self, key: str) -> bool:
        """Whether a cell is recorded as failed."""
        return (self.failed / f"{key}.json").is_file()

    def done(self) -> set[str]:
        """Keys of the committed cells."""
        return _keys(self.cells)

    def commit(self, cell: Cell, result: Result, seconds: float, environment: Mapping[str, str]) -> bool:
        """Put a result in place, all of it or nothing; False where another runner was quicker."""
        files = _files(result, {**result.timings, "seconds": seconds}, environment)
        files[_COMMIT] = seal(_body(cell, result, files))
        placed = place_folder(files, self.cells / cell.key)
        (self.failed / f"{cell.key}.json").unlink(missing_ok=True)
        return placed

    def fail(self, cell: Cell, failure: Failure) -> None:
        """Record that a cell has no result, and why."""
        self.failed.mkdir(parents=True, exist_ok=True)
        body = {"schema": SCHEMA, "cell": cell.to_json(), "reason": failure.reason, "message": failure.message}
        write(self.failed / f"{cell.key}.json", seal(body))

    def failures(self) -> dict[str, Failure]:
        """Key -> why, of the cells that failed and were not done since. A damaged record counts as none."""
        found: dict[str, Failure] = {}
        for key in sorted(_keys(self.failed) - self.done()):
            try:
                body = unseal(self.failed / f"{key}.json")
                found[key] = Failure(_text(body["reason"]), _text(body["message"]))
            except (StoreError, FileNotFoundError, *_MISFITS):
                continue
        return found

    def forget_failures(self) -> None:
        """Let failed cells be tried again."""
        for key in _keys(self.failed):
            (self.failed / f"{key}.json").unlink(missing_ok=True)

    def read(self, key: str) -> Record:
        """A committed cell. Every file is checked first; a damaged cell is a StoreError, never a number."""
        folder = self.cells / key
        try:
            body = unseal(folder / _COMMIT)
        except FileNotFoundError as error:
            raise StoreError(
                f"{folder}: expected {_COMMIT}, but it is missing: delete the folder to redo it"
            ) from error
        try:
            return self._checked(key, Record(folder, body))
        except _MISFITS as error:
            raise StoreError(
                f"{folder}: {_COMMIT} does not describe a cell ({type(error).__name__}: {error}): "
                "delete the folder to redo it"
            ) from error

    @staticmethod
    def _checked(key: str, record: Record) -> Record:
        """The record, when all that it says has the form that it was written in."""
        folder, body = record.folder, record.body
        if body["key"] != key:
            raise StoreError(f"{folder}: holds the cell {body['key']}: delete the folder to redo it")
        for name, expected in body["files"].items():
            if name not in _NAMES:
                raise StoreError(f"{folder}: {_COMMIT} lists {name!r}, which no cell has: delete the folder to redo it")
            _check_file(folder / name, expected)
        _text(body["result"])
        told = (*record.scores.values(), *record.sizes.values())
        if not all(map(_is_number, told)) or not isinstance(record.notes, dict) or not record.cell.key:
            raise TypeError("scores and sizes must be numbers")
        return record

    def hashes(self) -> dict[str, str]:
        """Key -> hash of all that must come out the same when a cell is run again."""
        return {key: self.read(key).body["result"] for key in sorted(self.done())}

    def verify(self) -> list[Damage]:
        """Check every cell and every record of a failure; move the damaged aside, so that they are done again."""
        damages = []
        for key in sorted(self.done()):
            try:
                self.read(key)
            except (StoreError, KeyError, TypeError) as error:
                damages.append(Damage(key, str(error), self._set_aside(self.cells / key, key)))
        for key in sorted(_keys(self.failed)):
            try:
                unseal(self.failed / f"{key}.json")
            except StoreError as error:
                damages.append(Damage(key, str(error), self._set_aside(self.failed / f"{key}.json", key)))
        return damages

    def _set_aside(self, path: Path, key: str) -> Path:
        """Move something into quarantine; another runner may have done so a moment ago."""
        self.quarantine.mkdir(exist_ok=True)
        place = next(p for k in count() if not (p := self.quarantine / f"{key}.{k}").exists())
        with contextlib.suppress(FileNotFoundError):
            path.rename(place)
        return place

    def sweep(self) -> list[Path]:
        """Remove what dead runners left half written."""
        folders = [self.folder, self.cells, self.failed, self.claims.folder]
        found = [path for folder in folders if folder.is_dir() for path in folder.glob(f"{TEMPORARY}*")]
        left = [path for path in found if is_left_over(path)]
        for path in left:
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        return left


def _told(path: Path, read: Callable[[bytes], Told]) -> Told:
    """What a file of a cell says. Its checksum is right, so who wrote it wrote it so: it need not be rmixup."""
    try:
        return read(path.read_bytes())
    except (*_MISFITS, csv.Error) as error:
        raise StoreError(
            f"{path}: expected a file as rmixup wrote it ({type(error).__name__}: {error}): delete the cell to redo it"
        ) from error


def _mapping(content: bytes) -> dict[str, Any]:
    return dict(json.loads(content))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a text, got {value!r:.60}")
    return value


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _keys(folder: Path) -> set[str]:
    """Names below a folder that are keys of cells."""
    if not folder.is_dir():
        return set()
    with os.scandir(folder) as entries:
        return {match[1] for entry in entries if (match := _KEY.fullmatch(entry.name))}


def _files(result: Result, timings: Mapping[str, float], environment: Mapping[str, str]) -> dict[str, bytes]:
    """The files of a cell, but for the one that commits them."""
    files = {
        "predictions.tsv": dump_table(result.predictions),
        "curves.tsv": dump_table(result.curves),
        "timings.json": json.dumps(timings, indent=1, sort_keys=True).encode(),
        "environment.json": json.dumps(environment, indent=1, sort_keys=True).encode(),
    }
    if result.weights:
        from safetensors.numpy import save

        files["weights.safetensors"] = save(dict(result.weights))
    return files


def _body(cell: Cell, result: Result, files: Mapping[str, bytes]) -> dict[str, Any]:
    """What result.json says."""
    sums = {name: {"sha256": digest(content), "size": len(content)} for name, content in files.items()}
    facts = {
        "scores": {name: float(value) if math.isfinite(value) else None for name, value in result.scores.items()},
        "sizes": dict(result.sizes),
        "notes": dict(result.notes),
    }
    fixed = {name: entry["sha256"] for name, entry in sums.items() if name not in _VARYING}
    outcome = digest(canonical({"key": cell.key, **facts, "files": fixed}).encode())
    return {"schema": SCHEMA, "key": cell.key, "cell": cell.to_json(), **facts, "files": sums, "result": outcome}


def _check_file(path: Path, expected: Mapping[str, Any]) -> None:
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise StoreError(f"{path}: listed in {_COMMIT}, but missing: run `rmixup study verify`") from error
    if len(content) != expected["size"] or digest(content) != expected["sha256"]:
        raise StoreError(f"{path}: its checksum is not the one in {_COMMIT}: run `rmixup study verify`")
