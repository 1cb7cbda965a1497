"""From what a reader found to networks: people chosen, labels joined by id, what was asked for done, all recorded.

One person passes at a time, so that memory does not grow with their number; where the arrays go is the caller's
choice (`Sink`). May not be here: file formats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pandas as pd

from rmixup.data.labels import shown
from rmixup.data.networks import Networks
from rmixup.data.provenance import Provenance
from rmixup.data.readers._files import existing
from rmixup.data.readers._people import Found, Person, in_order
from rmixup.data.readers._phenotype import check_target, join, read_table, typed
from rmixup.data.readers._text import read_text
from rmixup.data.store import Writer
from rmixup.errors import DataError

Array = npt.NDArray[Any]

# In place of ids, --drop-subjects takes these.
UNDEFINED = "undefined"
SHORT = "short"
# A correlation of a series with itself; Fisher's z of it is infinite, and written as that, as NaN, as 0 or as a
# large number, never as 1.
_ONE = 0.01


@dataclass(frozen=True)
class Settings:
    """What was asked for, whatever the layout. Every field that changes the data is recorded.

    Attributes
    ----------
    target, groups, families : columns of the table
    task : "classification" or "regression", where the target's type does not say it
    labels, id_column : the table that is joined, and its column of subject ids
    where : conditions "COLUMN=VALUE" on the table; people who do not meet all of them are left out
    allow_missing : leave out people without a row in the table, instead of an error
    drop_unlabelled : leave out people whose target is missing, instead of an error
    drop_subjects : ids, "@file" with one id a line, "undefined" (a node does not vary), "short" (under `frames`)
    drop_nodes : names of nodes, or "@file"
    nodes : a file of node names, one a line, or a table with a column of them
    kind, regularize, frames, constant : as in `Networks.connectivity`
    from_fisher_z : turn Fisher's z back into correlations, with ones on the diagonal
    """

    target: str | Sequence[str] | None = None
    groups: str | None = None
    families: str | None = None
    task: str | None = None
    labels: str | Path | None = None
    id_column: str | None = None
    where: Sequence[str] = ()
    allow_missing: bool = False
    drop_unlabelled: bool = False
    drop_subjects: str | Sequence[str] = ()
    drop_nodes: str | Sequence[str] = ()
    nodes: str | Path | None = None
    kind: str | None = None
    regularize: str | None = None
    frames: int | None = None
    constant: str = "error"
    from_fisher_z: bool = False


class Sink(Protocol):
    """Where arrays go, one person at a time."""

    def add(self, subject: str, matrix: Array | None, series: Array | None, nodes: Sequence[str] | None) -> None:
        """Take one person's arrays."""

    def finish(self, people: Networks, nodes: Sequence[str] | None) -> Networks:
        """Join them with what is known of the people, one row for each array taken."""


class Memory:
    """A sink that keeps everything."""

    def __init__(self) -> None:
        self.matrices: list[Array] = []
        self.series: list[Array] = []

    def add(self, subject: str, matrix: Array | None, series: Array | None, nodes: Sequence[str] | None) -> None:
        """Take one person's arrays."""
        for array, kept in ((matrix, self.matrices), (series, self.series)):
            if array is not None:
                array.setflags(write=False)
                kept.append(array)

    def finish(self, people: Networks, nodes: Sequence[str] | None) -> Networks:
        """The networks."""
        matrices = np.stack(self.matrices) if self.matrices else None
        if matrices is not None:
            matrices.setflags(write=False)
        return Networks(matrices, nodes=nodes, series=self.series or None, **about(people))


class Folder:
    """A sink that writes a folder, which is not there before everything is."""

    def __init__(self, folder: Path, overwrite: bool, tell: Callable[[str], None]) -> None:
        self._folder, self._overwrite, self._tell = folder, overwrite, tell
        self._writer: Writer | None = None

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, *error: object) -> None:
        if self._writer is not None:
            self._writer.discard()

    def add(self, subject: str, matrix: Array | None, series: Array | None, nodes: Sequence[str] | None) -> None:
        """Write one person's arrays."""
        if self._writer is None:
            self._writer = Writer(self._folder, nodes, overwrite=self._overwrite)
        self._writer.add(subject, matrix, series)
        self._tell(subject)

    def finish(self, people: Networks, nodes: Sequence[str] | None) -> Networks:
        """Bring the folder to its place."""
        assert self._writer is not None
        known = about(people)
        known.pop("subjects")
        return self._writer.commit(**known)


def about(people: Networks) -> dict[str, Any]:
    """Everything that is known of people beside their arrays, as `Networks` takes it."""
    names = ("y", "subjects", "groups", "families", "target", "classes", "table", "provenance")
    return {name: getattr(people, name) for name in names}


def assemble(found: Found, settings: Settings, sink: Sink) -> Networks:
    """Read everybody who is wanted, do what was asked for, and hand each to the sink."""
    people = choose(found, settings)
    work = _Work(settings, found)
    kept = []
    for row, person in enumerate(in_order(found.stream(frozenset(people.subjects.tolist())))):
        arrays = work.on(person)
        if arrays is not None:
            sink.add(person.subject, *arrays, work.nodes)
            kept.append(row)
    work.refuse_undefined()
    if not kept:
        raise DataError("nobody is left: every subject was dropped; ask for less")
    rest = people[np.array(kept)]
    return sink.finish(_recorded(rest, found, settings, work), work.nodes)


# ------------------------------------------------------------------------------------------------ who


def choose(found: Found, settings: Settings) -> Networks:
    """Everybody who is wanted with their labels, as networks of no nodes yet."""
    table, path, raw = _table(found, settings)
    subjects = list(found.subjects)
    if table is not None:
        subjects = _with_row(subjects, table, path, settings)
        table = table.loc[_unique(subjects)]
    dropped = _ids(settings.drop_subjects, set(found.subjects), "subject") - {UNDEFINED, SHORT}
    subjects = [name for name in subjects if name not in dropped]
    target = settings.target or found.target
    if table is not None and target is not None:
        for name in _names(target):
            check_target(table, path, name, raw)
        subjects = _labelled(subjects, table, path, _names(target), settings)
    elif target is not None:
        raise DataError(f"target {target!r} was asked for, but there is no table of labels; name one with --labels")
    if not subjects:
        raise DataError(f"{path}: nobody is left after the conditions --where and --drop-subjects; ask for less")
    return _people(subjects, table, target, found, settings)


def _table(found: Found, settings: Settings) -> tuple[pd.DataFrame | None, Path, pd.DataFrame]:
    """The table joined to the subjects, its path, and the table as it was read."""
    if found.table is not None:
        return found.table, found.table_path or Path("table"), found.table.reset_index(drop=True)
    chosen = settings.labels or found.table_path
    if chosen is None:
        return None, Path("table"), pd.DataFrame()
    path = existing(Path(chosen))
    raw = read_table(path)
    return join(raw, path, _unique(found.subjects), settings.id_column), path, raw


def _with_row(subjects: list[str], table: pd.DataFrame, path: Path, settings: Settings) -> list[str]:
    without = [name for name in _unique(subjects) if name not in table.index]
    if without and not settings.allow_missing:
        raise DataError(
            f"{path}: {len(without)} of {len(_unique(subjects))} subjects have no row ({shown(without)}); "
            "complete the table, or leave them out with --allow-missing"
        )
    for condition in settings.where:
        table = table[_meets(table, path, condition)]
    known = set(table.index)
    return [name for name in subjects if name in known]


def _meets(table: pd.DataFrame, path: Path, condition: str) -> pd.Series[bool]:
    column, equals, value = condition.partition("=")
    if not equals or column not in table.columns:
        raise DataError(
            f"{path}: --where {condition!r} must be COLUMN=VALUE with one of the columns {shown(table.columns, 30)}"
        )
    met = table[column].astype(str) == value
    if not met.any():
        raise DataError(f"{path}: no row has {condition}; column {column!r} holds {shown(table[column].unique(), 10)}")
    return met


def _labelled(
    subjects: list[str], table: pd.DataFrame, path: Path, target: tuple[str, ...], settings: Settings
) -> list[str]:
    known = table[list(target)].notna().all(axis=1)
    without = [name for name in subjects if not known[name]]
    if without and not settings.drop_unlabelled:
        raise DataError(
            f"{path}, column {' or '.join(map(repr, target))}: {len(without)} subjects have no label "
            f"({shown(without)}); fill it in, or leave them out with --drop-unlabelled"
        )
    return [name for name in subjects if known[name]]


def _people(
    subjects: list[str],
    table: pd.DataFrame | None,
    target: str | Sequence[str] | None,
    found: Found,
    settings: Settings,
) -> Networks:
    rows = None if table is None else typed(table.loc[subjects])
    families = None if found.families is None else [found.families[name] for name in subjects]
    people = Networks(np.empty((len(subjects), 0, 0)), subjects=subjects, families=families, table=rows)
    asked = {"groups": settings.groups or found.groups, "families": settings.families}
    columns = {what: column for what, column in asked.items() if column is not None}
    if columns:
        people = people.join(_texts(rows, columns), **columns)
    return people if target is None else people.with_target(target, task=settings.task)


def _texts(rows: pd.DataFrame | None, columns: dict[str, str]) -> pd.DataFrame:
    """The columns that name groups, one row a subject."""
    if rows is None:
        raise DataError(f"{shown(columns.values())} was asked for, but there is no table; name one with --labels")
    absent = [column for column in columns.values() if column not in rows.columns]
    if absent:
        raise DataError(f"the table has no column {shown(absent)}; it has {shown(rows.columns, 30)}")
    return rows[~rows.index.duplicated()][list(dict.fromkeys(columns.values()))]


def _names(target: str | Sequence[str]) -> tuple[str, ...]:
    return (target,) if isinstance(target, str) else tuple(target)


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _ids(given: str | Sequence[str], known: set[str], what: str) -> set[str]:
    """The names in a list, a comma-separated text or "@file"; unknown ones are refused."""
    names = {name for text in ([given] if isinstance(given, str) else given) for name in _split(text)}
    unknown = sorted(names - known - {UNDEFINED, SHORT})
    if unknown:
        raise DataError(f"--drop-{what}s: there is no {what} {shown(unknown)}; the data have {shown(sorted(known), 3)}")
    return names


def _split(text: str) -> list[str]:
    if text.startswith("@"):
        lines = read_text(existing(Path(text[1:]))).splitlines()
        return [line.strip() for line in lines if line.strip()]
    return [name.strip() for name in text.split(",") if name.strip()]


# ------------------------------------------------------------------------------------------------ what is done


class _Work:
    """What is done to each person's arrays, and what has to be told about it afterwards."""

    def __init__(self, settings: Settings, found: Found) -> None:
        self.settings = settings
        self.remedy = found.remedy
        self.kind = settings.kind or (found.kind if settings.regularize is None else found.kind or "correlation")
        self.drop = set(_split_all(settings.drop_subjects)) & {UNDEFINED, SHORT}
        self.nodes: tuple[str, ...] | None = None
        self.undefined: dict[str, list[str]] = {}
        self.short: dict[str, int] = {}
        self.dropped_nodes: list[str] = []
        self.computed = self.from_z = False
        self._keep: Array | None = None
        self._records: list[Any] = []

    def on(self, person: Person) -> tuple[Array | None, Array | None] | None:
        """(matrix, series) of a person, or None for one who is left out (or makes an error at the end)."""
        if self._keep is None:
            self._keep = self._chosen_nodes(person)
        if person.kind == "matrix":
            return self._on_matrix(person), None
        series = person.values[:, self._keep]
        if self.settings.frames is not None and len(series) < self.settings.frames:
            self.short[person.subject] = len(series)
            return None
        series = np.ascontiguousarray(series[: self.settings.frames])
        return self._on_series(person, series)

    def _chosen_nodes(self, person: Person) -> Array:
        n = person.values.shape[1]
        names = _node_names(self.settings.nodes, n) if self.settings.nodes else person.nodes
        drop = _split_all(self.settings.drop_nodes)
        names = names or (tuple(f"node-{k:0{len(str(n - 1))}d}" for k in range(n)) if drop else None)
        if names is None:
            return np.arange(n)
        if len(names) != n:
            raise DataError(f"{person.where}: has {len(names)} node names for {n} nodes; give one name a node")
        _ids(self.settings.drop_nodes, set(names), "node")
        keep = np.array([k for k, name in enumerate(names) if name not in set(drop)], dtype=np.int64)
        if keep.size == 0:
            raise DataError("--drop-nodes drops every node; drop fewer")
        self.dropped_nodes = [name for name in names if name in set(drop)]
        self.nodes = tuple(names[k] for k in keep)
        return keep

    def _on_matrix(self, person: Person) -> Array:
        if self.settings.kind or self.settings.frames or self.settings.regularize in ("ledoit-wolf", "oas"):
            raise DataError(
                f"{person.where}: holds a matrix; --kind, --frames, ledoit-wolf and oas need the series it came from"
            )
        matrix = person.values[np.ix_(self._keep, self._keep)]  # type: ignore[arg-type]
        if self.settings.from_fisher_z:
            matrix = _from_fisher_z(matrix, person)
            self.from_z = True
        return self._regularized(matrix, self.settings.regularize)

    def _on_series(self, person: Person, series: Array) -> tuple[Array | None, Array | None] | None:
        if self.settings.from_fisher_z:
            raise DataError(f"{person.where}: holds series; --from-fisher-z is for matrices")
        if self.kind is None:
            return None, series
        from rmixup.data.connectivity import connectivity, regularized_kind

        strict = self.settings.constant == "error"
        kind, on_matrices = regularized_kind(self.kind, self.settings.regularize)
        constant = "nan" if strict else self.settings.constant
        matrix = connectivity([series], kind, constant=constant, subjects=[person.subject])[0]
        self.computed = True
        undefined = np.flatnonzero(np.isnan(np.diagonal(matrix)))
        if strict and undefined.size:
            names = self.nodes or tuple(str(k) for k in range(series.shape[1]))
            self.undefined[person.subject] = [names[k] for k in undefined]
            return None
        return self._regularized(matrix, on_matrices), series

    def _regularized(self, matrix: Array, regularizer: str | None) -> Array:
        if regularizer is None:
            return matrix
        from rmixup import spd

        how, amount = spd.parse_regularizer(regularizer)
        changed, record = spd.regularize(matrix, how=how, amount=amount)
        self._records.append(record)
        return np.asarray(changed)

    def refuse_undefined(self) -> None:
        """Tell at once of everybody whose correlation is not defined, or who has too few frames."""
        problems = []
        if self.undefined and UNDEFINED not in self.drop:
            nodes = _unique(name for names in self.undefined.values() for name in names)
            problems.append(
                f"{len(self.undefined)} subjects have nodes that do not vary, so their correlations are not defined "
                f"(subjects {shown(self.undefined)}; nodes {shown(nodes)}): {self.remedy}"
            )
        if self.short and SHORT not in self.drop:
            some = shown(f"{name} has {t}" for name, t in self.short.items())
            problems.append(
                f"{len(self.short)} subjects have fewer than {self.settings.frames} frames ({some}): "
                "ask for fewer with --frames, or leave them out with --drop-subjects short"
            )
        if problems:
            raise DataError("; ".join(problems))

    def steps(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """What was done, for the provenance."""
        settings = self.settings
        left_out = sorted({*self.undefined, *self.short})
        if left_out:
            yield "drop_subjects", {"undefined": sorted(self.undefined), "short": sorted(self.short)}
        if self.dropped_nodes:
            yield "drop_nodes", {"nodes": self.dropped_nodes}
        if settings.frames is not None:
            yield "frames", {"first": settings.frames}
        if self.from_z:
            yield "from_fisher_z", {}
        if self.computed:
            how = {"kind": self.kind, "regularize": settings.regularize, "constant": settings.constant}
            yield "connectivity", how
        if self._records:
            yield "regularize", _summed(self._records)


def _split_all(given: str | Sequence[str]) -> list[str]:
    return [name for text in ([given] if isinstance(given, str) else given) for name in _split(text)]


def _summed(records: list[Any]) -> dict[str, Any]:
    first = records[0]
    return {
        "how": first.how,
        "amount": first.amount,
        "changed": sum(record.changed for record in records),
        "total": len(records),
        "smallest_before": min(record.smallest_before for record in records),
    }


def _from_fisher_z(matrix: Array, person: Person) -> Array:
    diagonal = np.diagonal(matrix)
    if bool((np.abs(diagonal - 1) < _ONE).all()):
        raise DataError(
            f"{person.where}: has ones on the diagonal, so these are correlations; leave --from-fisher-z out"
        )
    correlations = np.tanh(matrix)
    np.fill_diagonal(correlations, 1.0)
    return correlations


def _node_names(given: str | Path, count: int) -> tuple[str, ...]:
    """Node names from a file: one a line, or the column of a table that names regions."""
    path = existing(Path(given))
    if path.suffix.lower() in {".csv", ".tsv"}:
        table = read_table(path).astype(str)
        known = [name for name in table.columns if name.lower() in {"name", "label", "roi", "region", "node", "names"}]
        names = tuple(table[known[0] if known else table.columns[-1]])
    else:
        names = tuple(line.strip() for line in read_text(path).splitlines() if line.strip())
    if len(names) != count:
        raise DataError(f"{path}: has {len(names)} node names, the data have {count} nodes; give one name a node")
    return names


def _recorded(people: Networks, found: Found, settings: Settings, work: _Work) -> Networks:
    used = [settings.labels, settings.nodes, found.table_path]
    files = _unique(str(path) for path in (*found.files, *used) if path is not None and Path(path).is_file())
    history = Provenance().read_from(files).then("read", layout=found.layout)
    asked = {"where": list(settings.where), "drop_subjects": _split_all(settings.drop_subjects)}
    for step in (
        *found.steps,
        *((("choose", asked),) if any(asked.values()) else ()),
        *((step["step"], dict(step["parameters"])) for step in people.provenance.steps),
        *work.steps(),
    ):
        history = history.then(step[0], **step[1])
    return Networks(np.empty((len(people), 0, 0)), **(about(people) | {"provenance": history}))
