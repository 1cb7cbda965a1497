"""Cells: the single runs a spec expands to. A cell's key is the hash of all that determines its result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from rmixup.errors import DataError
from rmixup.study.files import canonical, short_hash
from rmixup.study.spec import BASELINES, Choice, Protocol, Spec

# Raised when the meaning of a cell or the form of its files changes; not with every version of the package.
SCHEMA = 1

# Nobody waits for more; a slip in a spec must not fill the memory.
MAX_CELLS = 1_000_000

Options = tuple[tuple[str, Any], ...]


_TABLES = ("preparation", "split", "protocol")
# Settings of the protocol that came after schema 1 began: left out where they are off, so that keys stay as they were.
_LATER = ("watch_test", "precision")
_PLAIN = ("data", "repeat", "fold", "train_size", "length", "shorten", "seed")


@dataclass(frozen=True)
class DataIdentity:
    """Which data: the SHA-256 of its content, and what the number of cells and the statistics need to know of it."""

    sha256: str
    subjects: int
    groups: int = 0


@dataclass(frozen=True)
class Pick:
    """A method or a backbone with its parameters."""

    name: str
    options: Options = ()

    def __str__(self) -> str:
        return " ".join([self.name, *(f"{name}={value}" for name, value in self.options)])


@dataclass(frozen=True)
class Cell:
    """One run: the data as prepared, one split of it, one method, one backbone, one seed.

    Options are sorted (name, value) pairs, so that a cell can be compared, hashed and sent to other machines.
    """

    data: str
    preparation: Options
    split: Options
    repeat: int
    fold: int
    method: Pick
    backbone: Pick
    protocol: Options
    train_size: float = 1.0
    length: int | None = None
    shorten: str | None = None
    seed: int = 0

    @cached_property
    def key(self) -> str:
        """24 hex digits that name the cell everywhere."""
        return short_hash({"schema": SCHEMA, **self.to_json()})

    @property
    def is_baseline(self) -> bool:
        """A linear model without augmentation, beside which all others stand."""
        return self.backbone.name in BASELINES

    @property
    def family(self) -> str:
        """What cells must share to be trained as one stack: everything but split, method and seed."""
        one = replace(self, split=(), repeat=0, fold=0, method=Pick("any"), seed=0)
        return canonical(one.to_json())

    def __str__(self) -> str:
        size = "" if self.train_size == 1 else f" train_size={self.train_size}"
        length = "" if self.length is None else f" length={self.length}"
        return f"{self.method} · {self.backbone}{size}{length} · split {self.repeat}.{self.fold} · seed {self.seed}"

    def to_json(self) -> dict[str, Any]:
        """Plain values, without the key."""
        return {
            **{name: getattr(self, name) for name in _PLAIN},
            **{name: dict(getattr(self, name)) for name in _TABLES},
            **{name: {"name": pick.name, "options": dict(pick.options)} for name, pick in self._picks().items()},
        }

    def _picks(self) -> dict[str, Pick]:
        return {"method": self.method, "backbone": self.backbone}

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> Cell:
        """Undo `to_json`."""
        options = {name: _options(values[name]) for name in _TABLES}
        picks = {name: Pick(values[name]["name"], _options(values[name]["options"])) for name in ("method", "backbone")}
        return Cell(**{**values, **options, **picks})


def _options(values: Mapping[str, Any]) -> Options:
    return tuple(sorted((name, _frozen(value)) for name, value in values.items()))


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list | tuple) else value


def expand(spec: Spec, data: DataIdentity) -> list[Cell]:
    """All cells of a study, in the order of the spec, each once.

    >>> from rmixup.study.spec import parse_spec
    >>> spec = parse_spec('data.path = "x"' + chr(10) + 'grid.methods = ["none", "rmixup"]')
    >>> cells = expand(spec, DataIdentity("0" * 64, subjects=100))
    >>> len(cells), str(cells[0])
    (20, 'none · transformer · split 0.0 · seed 0')
    """
    folds = _folds(spec, data)
    if not folds:
        raise DataError("leave-group-out needs groups, but the data has none: name their column in [data] groups")
    grid = spec.grid
    models = len(grid.methods) * len(grid.backbones) * len(grid.seeds) + len(grid.baselines)
    count = models * len(grid.train_sizes) * max(len(grid.lengths), 1) * spec.split.repeats * folds
    if count > MAX_CELLS:
        raise DataError(f"the spec asks for {count} cells, a study has at most {MAX_CELLS}: lower [split] repeats")
    cells = [
        replace(cell, data=data.sha256, preparation=_preparation(spec), repeat=repeat, fold=fold, split=_split(spec))
        for sized in _sizes(spec)
        for cell in [*_models(spec, sized), *_baselines(spec, sized)]
        for repeat in range(spec.split.repeats)
        for fold in range(folds)
    ]
    return list({cell.key: cell for cell in cells}.values())


def _sizes(spec: Spec) -> Iterable[Cell]:
    """Empty cells of each training size and series length."""
    blank = Cell("", (), (), 0, 0, Pick(""), Pick(""), ())
    for train_size in spec.grid.train_sizes:
        if not spec.grid.lengths:
            yield replace(blank, train_size=train_size)
        for length in spec.grid.lengths:
            yield replace(blank, train_size=train_size, length=length, shorten=spec.grid.shorten)


def _models(spec: Spec, sized: Cell) -> Iterable[Cell]:
    off = {name for name in _LATER if getattr(spec.protocol, name) == Protocol.model_fields[name].default}
    protocol = _options(spec.protocol.model_dump(exclude=off))
    for backbone in map(_pick, spec.grid.backbones):
        for method in map(_pick, spec.grid.methods):
            for seed in spec.grid.seeds:
                yield replace(sized, method=method, backbone=backbone, seed=seed, protocol=protocol)


def _baselines(spec: Spec, sized: Cell) -> Iterable[Cell]:
    """Deterministic, so one seed is enough, and without a protocol of training."""
    return (replace(sized, method=Pick("none"), backbone=Pick(name)) for name in spec.grid.baselines)


def _pick(choice: Choice) -> Pick:
    return Pick(choice.name, _options(choice.options))


def _preparation(spec: Spec) -> Options:
    """Where the data lies does not matter, what is made of it does."""
    return _options(spec.data.model_dump(include={"target", "groups", "nodes", "frames", "kind", "regularize"}))


def _split(spec: Spec) -> Options:
    """What a split depends on: the number of repeats is no part of it, so more can be added later."""
    kept = {"holdout": {"sizes"}, "kfold": {"sizes", "folds"}, "leave-group-out": {"sizes"}}[spec.split.scheme]
    return _options(spec.split.model_dump(include={"scheme", "stratify", "seed", *kept}))


def _folds(spec: Spec, data: DataIdentity) -> int:
    return {"holdout": 1, "kfold": spec.split.folds, "leave-group-out": data.groups}[spec.split.scheme]


@dataclass(frozen=True)
class Stack:
    """Cells that are trained together."""

    cells: tuple[Cell, ...]

    @cached_property
    def key(self) -> str:
        """Names the stack by its cells."""
        return short_hash([cell.key for cell in self.cells])


def stacks(cells: Sequence[Cell], size: int) -> list[Stack]:
    """Group cells that can be trained together, by at most `size`.

    The make-up follows from the set of cells alone, neither from their order nor from what is left to do: a stack of
    which some cells are done is run as a whole, and only what is missing is kept.
    """
    families: dict[str, list[Cell]] = {}
    for cell in cells:
        families.setdefault(cell.family, []).append(cell)
    ordered = [sorted(members, key=lambda cell: cell.key) for _, members in sorted(families.items())]
    return [Stack(tuple(members[k : k + size])) for members in ordered for k in range(0, len(members), size)]
