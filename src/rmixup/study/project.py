"""A study: its spec, the identity of its data, its settings, and where its results lie."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rmixup.errors import RMixupError, StoreError
from rmixup.study.cells import SCHEMA, Cell, DataIdentity, Stack, expand, stacks
from rmixup.study.files import seal, unseal, write
from rmixup.study.results import Outcome
from rmixup.study.spec import Spec
from rmixup.study.store import Store

# What a number may depend on beside the spec and the data.
_LIBRARIES = ("numpy", "scipy", "scikit-learn", "torch")
_FILE = "study.json"


@dataclass(frozen=True)
class Settings:
    """What is fixed for a study when it starts, because results may depend on it in the last digits."""

    stack: int = 1
    threads: int = 1
    device: str = "auto"


@cache
def environment() -> dict[str, str]:
    """Versions and machine type, as compared between the runs of one study."""
    import rmixup

    machine = f"{platform.system()} {platform.machine()}"
    versions = {name: version(name) for name in _LIBRARIES}
    return {"rmixup": rmixup.__version__, "python": platform.python_version(), "machine": machine, **versions}


class ChangedError(RMixupError, ValueError):
    """A study is to be continued with something else than it was begun with."""


@dataclass(frozen=True)
class Study:
    """A study on disk. Small, so that it can be sent to other processes and machines.

    Parameters
    ----------
    folder : where the results lie.
    spec : the whole comparison.
    data : the identity of the data.
    settings : fixed at the start.
    work : the name of what runs the cells.
    environment : versions and machine type at the start.
    allowed : changes that were let through on request, in order, each with old and new value.
    """

    folder: Path
    spec: Spec
    data: DataIdentity
    settings: Settings
    work: str
    environment: Mapping[str, str]
    allowed: tuple[Mapping[str, Any], ...] = ()

    @property
    def store(self) -> Store:
        """The results."""
        return Store(self.folder)

    @cached_property
    def cells(self) -> list[Cell]:
        """All cells, in the order of the spec."""
        return expand(self.spec, self.data)

    @cached_property
    def stacks(self) -> list[Stack]:
        """The cells in the groups they are trained in."""
        return stacks(self.cells, self.settings.stack)

    def __getstate__(self) -> dict[str, Any]:
        """Without the cells, which are cheaper to expand than to send."""
        return {name: value for name, value in self.__dict__.items() if name not in {"cells", "stacks"}}

    def __repr__(self) -> str:
        return f"Study({self.spec.name!r}, {len(self.cells)} cells in {self.folder})"

    def _repr_html_(self) -> str:
        from html import escape

        facts = {"study": self.spec.name, "folder": str(self.folder), "cells": str(len(self.cells)), "work": self.work}
        rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in facts.items())
        return f"<table>{rows}</table>"

    def save(self) -> None:
        """Write study.json."""
        body = {
            "schema": SCHEMA,
            "spec": self.spec.model_dump(),
            "data": asdict(self.data),
            "settings": asdict(self.settings),
            "work": self.work,
            "environment": dict(self.environment),
            "allowed": [dict(change) for change in self.allowed],
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        write(self.folder / _FILE, seal(body))


# Trains and tests the cells of one stack, and yields what came of each, in any order, as it comes.
Work = Callable[[Sequence[Cell], Study], Iterable[tuple[Cell, Outcome]]]


def open_study(folder: Path) -> Study:
    """Read a study as it was begun."""
    path = folder / _FILE
    if not path.is_file():
        raise StoreError(f"{path}: not found; expected a folder that `rmixup study run` wrote")
    _refuse_newer(path)
    body = unseal(path)
    try:
        return _study(folder.absolute(), body)
    except ValidationError as error:
        raise StoreError(f"{path}: its spec is not one that this version reads: {error.errors()[0]['msg']}") from error
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise StoreError(
            f"{path}: does not describe a study ({type(error).__name__}: {error}): begin it again"
        ) from error


def _study(folder: Path, body: Mapping[str, Any]) -> Study:
    data, settings, work = DataIdentity(**body["data"]), Settings(**body["settings"]), body["work"]
    numbers = (data.subjects, data.groups, settings.stack, settings.threads)
    if not all(type(number) is int for number in numbers) or settings.stack < 1 or settings.threads < 1:
        raise TypeError("expected whole numbers of subjects, groups, stack and threads")
    if not all(isinstance(text, str) for text in (data.sha256, settings.device, work)):
        raise TypeError("expected texts for the checksum of the data, the device and the work")
    return Study(
        folder=folder,
        spec=Spec.model_validate(body["spec"]),
        data=data,
        settings=settings,
        work=work,
        environment=dict(body["environment"]),
        allowed=tuple(dict(change) for change in body["allowed"]),
    )


def _refuse_newer(path: Path) -> None:
    """Said before the checksum is looked at: a newer form may be sealed in another way."""
    try:
        schema = json.loads(path.read_bytes())["schema"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return
    if isinstance(schema, int) and schema > SCHEMA:
        raise StoreError(f"{path}: written by a newer rmixup (schema {schema}, this one reads {SCHEMA}): update rmixup")


def begin(folder: Path, spec: Spec, data: DataIdentity, settings: Settings, work: str, *, allow: bool = False) -> Study:
    """Begin a study in a folder, or continue the one that is there if nothing differs.

    Cells that lie there already are kept, whatever they were begun with: their keys say what they are.
    """
    now = Study(folder.absolute(), spec, data, settings, work, environment())
    if (folder / _FILE).exists():
        return resume(open_study(folder), now, allow)
    now.save()
    return now


def resume(before: Study, now: Study, allow: bool = False) -> Study:
    """Continue a study. What differs is refused, all of it named; or, where allowed, written down in study.json."""
    changes = _differences(_facts(before), _facts(now))
    if changes and not allow:
        said = "; ".join(f"{name} was {old!r} and is {new!r}" for name, (old, new) in changes.items())
        raise ChangedError(f"{before.folder}: refused to continue, because {said}. Use --allow to continue regardless.")
    noted = [{name: {"was": old, "is": new} for name, (old, new) in changes.items()}] if changes else []
    continued = replace(now, allowed=(*before.allowed, *noted))
    continued.save()
    return continued


def _facts(study: Study) -> dict[str, Any]:
    """What must not change, flat, by dotted name. The data may have moved, its content must be the same."""
    spec = study.spec.model_dump(exclude={"name": True, "keep_weights": True, "data": {"path"}})
    parts = {
        **spec,
        "data content": study.data.sha256,
        "settings": asdict(study.settings),
        "work": study.work,
        "environment": study.environment,
    }
    return _flat(parts)


def _flat(value: Any, name: str = "") -> dict[str, Any]:
    if not isinstance(value, Mapping):
        return {name: list(value) if isinstance(value, tuple) else value}
    parts = [_flat(item, f"{name}.{key}" if name else str(key)) for key, item in value.items()]
    return {key: item for part in parts for key, item in part.items()}


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    names = [*before, *(name for name in now if name not in before)]
    return {name: (before.get(name), now.get(name)) for name in names if before.get(name) != now.get(name)}
