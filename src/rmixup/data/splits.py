"""Which people train, validate and test: pure functions from labels and names to positions.

People and families are never divided. Every count is the floor or the ceiling of its exact share: of each class on
each side, and within a class of each group. A split follows from (seed, labels, names) alone, not from the order of
the rows, so every method of a comparison gets the same one.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rmixup import keys
from rmixup.data.labels import shown
from rmixup.errors import DataError, LeakageError

Array = npt.NDArray[Any]
Index = npt.NDArray[np.int64]
Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

STRATIFY = ("y+group", "y", None)
MIN_PER_CLASS = 3  # one for each side
# Numbers are stratified as classes of neighbouring values: at most so many, with at least so many people each.
MAX_BINS = 10
MIN_BIN = 10
_ROUNDING = 1e-9
_NEVER = -1.0


class Split(NamedTuple):
    """Positions, in order, of the people on each side."""

    train: Index
    validation: Index
    test: Index


def split(
    y: Array | None,
    subjects: Any,
    groups: Any = None,
    families: Any = None,
    *,
    seed: int = 0,
    sizes: Sequence[float] = (0.7, 0.1, 0.2),
    stratify: str | None = "y+group",
) -> Split:
    """Train, validation and test.

    Parameters
    ----------
    y : (N,) integer codes or names (classes), (N,) or (N, k) floats, or None
    subjects : (N,) text
        Rows of one subject stay together.
    groups, families : (N,) text, optional
        The site; who belongs together.
    sizes : three positive numbers that add up to 1
    stratify : "y+group", "y" or None
        What every side has its share of, as far as it is known: each class (numbers: each range of values), and
        within a class each group. A class must have at least three people; one with fewer than 1/size people may
        be absent from that side.

    >>> split(np.array([0, 1] * 10), np.arange(20).astype(str), seed=1)
    Split(train=array([...]), validation=array([...]), test=array([...]))
    """
    shares = _check_sizes(sizes)
    people = _People(y, subjects, groups, families, stratify)
    people.refuse_rare(MIN_PER_CLASS, "a split into three")
    sides = people.deal(shares, keys.generator(seed, "split"))
    return _as_split(people, [np.flatnonzero(sides == side) for side in range(3)])


def kfold(
    y: Array | None,
    subjects: Any,
    groups: Any = None,
    families: Any = None,
    *,
    seed: int = 0,
    n_folds: int = 5,
    repeats: int = 1,
    validation: float = 0.1,
    stratify: str | None = "y+group",
) -> list[Split]:
    """Each fold once as test, `repeats` times over; `validation` is the share of all people taken from the rest.

    >>> folds = kfold(np.array([0, 1] * 10), np.arange(20).astype(str), n_folds=4)
    >>> sorted(np.concatenate([fold.test for fold in folds]).tolist()) == list(range(20))
    True
    """
    if n_folds < 2 or repeats < 1:
        raise DataError(f"expected at least 2 folds and 1 repeat, got {n_folds} and {repeats}")
    if not 0 < validation < 1 - 1 / n_folds:
        raise DataError(f"validation must lie between 0 and {1 - 1 / n_folds:g} for {n_folds} folds, not {validation}")
    people = _People(y, subjects, groups, families, stratify)
    people.refuse_rare(n_folds, f"{n_folds} folds")
    splits = []
    for repeat in range(repeats):
        fold_of = people.deal(np.full(n_folds, 1 / n_folds), keys.generator(seed, "kfold", repeat))
        for fold in range(n_folds):
            chance = keys.generator(seed, "kfold", repeat, "validation", fold)
            splits.append(_with_validation(people, fold_of == fold, validation / (1 - 1 / n_folds), chance))
    return splits


def hold_out(
    y: Array | None,
    subjects: Any,
    groups: Any = None,
    families: Any = None,
    *,
    seed: int = 0,
    share: float = 0.125,
    stratify: str | None = "y+group",
) -> tuple[Index, Index]:
    """Train and validation, without a test: for an estimator whose test is somebody else's.

    The validation has at least one person (with relatives). The training keeps somebody of every class: who alone has
    a class is not held out.

    >>> train, validation = hold_out(np.array([0, 1] * 10), np.arange(20).astype(str), share=0.2)
    >>> len(train), len(validation)
    (16, 4)
    """
    if not 0 < share < 1:
        raise DataError(f"share must lie between 0 and 1, not {share}")
    people = _People(y, subjects, groups, families, stratify)
    held = people.deal(np.array([1 - share, share]), keys.generator(seed, "hold out")) == 1
    if people.lost(~held):
        held = people.given_back(held)
    if not held.any():
        held = people.spare()
    train, validation = np.flatnonzero(~held), np.flatnonzero(held)
    assert_disjoint({"train": train, "validation": validation}, people.unit)
    return train, validation


def leave_group_out(
    y: Array | None,
    subjects: Any,
    groups: Any,
    families: Any = None,
    *,
    seed: int = 0,
    validation: float = 0.1,
    stratify: str | None = "y+group",
) -> dict[str, Split]:
    """Each group once as test; `validation` is the share of the others that validates.

    Who is in the test group under one name and elsewhere under another (a travelling subject, a family at two sites)
    is left out of training and validation.

    >>> sides = leave_group_out(None, ["a", "b", "c", "d"], ["x", "x", "y", "y"], validation=0.5, stratify=None)
    >>> sides["x"].test
    array([0, 1])
    """
    if groups is None:
        raise DataError("leaving groups out needs groups: give the site of each person")
    if not 0 < validation < 1:
        raise DataError(f"validation must lie between 0 and 1, not {validation}")
    people = _People(y, subjects, groups, families, stratify)
    names = np.unique(people.groups)
    if len(names) < 2:
        raise DataError(f"leaving one group out needs at least two groups; there is {shown(names)}")
    return {
        str(name): _with_validation(
            people, people.groups == name, validation, keys.generator(seed, "leave_group_out", str(name))
        )
        for name in names
    }


def assert_disjoint(parts: dict[str, Index], subjects: Any, families: Any = None) -> None:
    """Refuse sides that share a row, a subject or a family, naming whom.

    >>> assert_disjoint({"train": np.array([0, 1]), "test": np.array([2])}, ["a", "b", "c"])
    """
    named = {"rows": np.arange(len(subjects)), "subjects": np.asarray(subjects)}
    if families is not None:
        named["families"] = np.asarray(families)
    for (left, rows), (right, others) in itertools.combinations(parts.items(), 2):
        for what, names in named.items():
            shared = np.intersect1d(names[rows], names[others])
            if len(shared):
                raise LeakageError(
                    f"{left} and {right} share {len(shared)} {what} ({shown(shared)}): what is learnt from one would "
                    "be tested on the same people; make the split with rmixup.data.splits"
                )


def _with_validation(
    people: _People, test: npt.NDArray[np.bool_], validation: float, chance: np.random.Generator
) -> Split:
    """The rest of the people without relatives in the test, dealt into train and validation."""
    related = np.isin(people.unit, people.unit[test])
    rest = np.flatnonzero(~related)
    if len(np.unique(people.unit[rest])) < 2:
        raise DataError(
            f"with {test.sum()} networks as test, fewer than two people without relatives there are left to train and "
            "to validate: their groups or families reach into each other"
        )
    sides = people.among(rest).deal(np.array([1 - validation, validation]), chance)
    return _as_split(people, [rest[sides == 0], rest[sides == 1], np.flatnonzero(test)])


def _as_split(people: _People, sides: list[Index]) -> Split:
    made = Split(*sides)
    empty = [name for name, rows in made._asdict().items() if not len(rows)]
    if empty:
        raise DataError(f"{len(people.unit)} networks are too few: {shown(empty)} would be empty")
    # What is drawn once and guarded once cannot leak by a later change here.
    assert_disjoint(made._asdict(), people.unit)
    return made


class _People:
    """Rows in an order that does not depend on how they came, the units that stay whole, and their strata."""

    def __init__(self, y: Array | None, subjects: Any, groups: Any, families: Any, stratify: str | None) -> None:
        names = np.asarray(subjects).astype(np.str_)
        count = len(names)
        given = {"y": y, "groups": groups, "families": families}
        wrong = [name for name, value in given.items() if value is not None and len(value) != count]
        if count == 0 or wrong:
            raise DataError(f"expected one entry for each of {count} subjects (at least one), not so: {shown(wrong)}")
        if stratify not in STRATIFY:
            raise DataError(f"stratify must be one of {', '.join(map(repr, STRATIFY))}, not {stratify!r}")
        self.names = names
        self.groups = np.zeros(count, dtype=np.int64) if groups is None else np.asarray(groups)
        self.unit = _units(names, families)
        self.label = _strata(y) if stratify and y is not None else np.zeros(count, dtype=np.int64)
        by_group = np.unique(self.groups, return_inverse=True)[1] if stratify == "y+group" else 0
        self.cell = np.unique(self.label * count + by_group, return_inverse=True)[1]
        self._label_names = None if y is None or np.asarray(y).dtype.kind == "f" else np.asarray(y)

    def among(self, rows: Index) -> _People:
        """These rows alone."""
        other = object.__new__(_People)
        taken = {name: value[rows] for name, value in vars(self).items() if value is not None}
        other.__dict__.update({"_label_names": None, **taken})
        return other

    def refuse_rare(self, least: int, purpose: str) -> None:
        """Every class needs a person for each side."""
        if self._label_names is None:
            return
        pairs = np.unique(np.stack([self.label, self.unit]), axis=1)[0]
        rare = [label for label in np.unique(pairs) if (pairs == label).sum() < least] if self.label.any() else []
        if rare:
            words = [f"{self._label_names[self.label == k][0]} has {(pairs == k).sum()}" for k in rare]
            raise DataError(
                f"{purpose} needs at least {least} people (or families) of each class, but class {shown(words)}: "
                "leave these classes out, or merge them"
            )

    def lost(self, rows: Index | npt.NDArray[np.bool_]) -> set[Any]:
        """The classes of which these rows have nobody."""
        if self._label_names is None:
            return set()
        return set(self._label_names.tolist()) - set(self._label_names[rows].tolist())

    def given_back(self, held: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Who is held out, without those, small units first, of whose class nobody would be left otherwise."""
        for unit in self._units_by_size():
            without = held & ~unit
            if len(self.lost(~without)) < len(self.lost(~held)):
                held = without
        return held

    def spare(self) -> npt.NDArray[np.bool_]:
        """The rows of the smallest unit that is not needed for any class."""
        for unit in self._units_by_size():
            if not unit.all() and not self.lost(~unit):
                return unit
        raise DataError(
            "nobody can be held out: without any one person, family or group, nobody would be left to train on, or "
            "nobody of some class; hold out nothing"
        )

    def _units_by_size(self) -> Iterator[npt.NDArray[np.bool_]]:
        """The rows of each unit, the smallest first."""
        units, sizes = np.unique(self.unit, return_counts=True)
        return (self.unit == unit for unit in units[np.argsort(sizes, kind="stable")])

    def deal(self, shares: Floats, chance: np.random.Generator) -> Index:
        """(N,) the side of each row: large units first, where most is missing; single rows then fill up exactly."""
        rows = np.argsort(self.names, kind="stable")
        rows = rows[_order(len(rows), chance)]
        sides = np.full(len(rows), -1)
        cells, cell = np.unique(self.cell, return_inverse=True)
        placed = np.zeros((len(cells), len(shares)))
        seen = np.zeros(len(cells))
        sizes = largest_remainder(shares * len(rows))
        for unit in self._large_units(rows):
            seen += np.bincount(cell[unit], minlength=len(cells))
            due = (seen[cell[unit], None] * shares - placed[cell[unit]]).mean(axis=0)
            side = _choose_side(due + seen.sum() * shares - placed.sum(axis=0), sizes, len(unit))
            sides[unit] = side
            sizes[side] -= len(unit)
            placed[:, side] += np.bincount(cell[unit], minlength=len(cells))
        wanted = np.bincount(cell)[:, None] * shares - placed
        self._fill(rows[sides[rows] < 0], sides, np.maximum(wanted, 0), sizes, chance)
        return sides

    def _large_units(self, rows: Index) -> list[Index]:
        """Rows of each unit of more than one, the largest first, else in the drawn order."""
        ordered: dict[int, list[int]] = {}
        for row in rows.tolist():
            ordered.setdefault(int(self.unit[row]), []).append(row)
        units = [np.array(members) for members in ordered.values() if len(members) > 1]
        return sorted(units, key=len, reverse=True)

    def _fill(self, rows: Index, sides: Index, wanted: Floats, sizes: Counts, chance: np.random.Generator) -> None:
        """Deal single rows so that sides are exact, then classes, then groups within a class."""
        if not len(rows):
            return
        cells = np.unique(self.cell)
        members = [rows[self.cell[rows] == cell] for cell in cells]
        label = np.array([self.label[self.cell == cell][0] for cell in cells])
        have = np.array([len(m) for m in members])
        labels = np.unique(label)
        by_label = np.array([wanted[label == k].sum(axis=0) for k in labels])
        totals = round_table(
            by_label, np.array([have[label == k].sum() for k in labels]), _room(sizes, len(rows)), chance
        )
        for k, total in zip(labels, totals, strict=True):
            chosen = np.flatnonzero(label == k)
            for cell, counts in zip(chosen, round_table(wanted[chosen], have[chosen], total, chance), strict=True):
                sides[members[cell]] = np.repeat(np.arange(len(counts)), counts)


def _units(names: Array, families: Any) -> Index:
    """(N,) the number of the unit of each row: rows are together that share a subject or a family, however far."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    count = len(names)
    links = [np.unique(names, return_inverse=True)[1]]
    if families is not None:
        links.append(np.unique(np.asarray(families).astype(np.str_), return_inverse=True)[1])
    # Rows, subjects and families are the points of one graph; a unit is a connected part of it.
    starts = np.cumsum([count, *(link.max() + 1 for link in links)])
    ends = np.concatenate([link + start for link, start in zip(links, starts, strict=False)])
    rows = np.tile(np.arange(count), len(links))
    graph = coo_array((np.ones(len(rows)), (rows, ends)), shape=(starts[-1], starts[-1]))
    unit: Index = connected_components(graph, directed=False)[1][:count].astype(np.int64)
    return unit


def _strata(y: Array) -> Index:
    """(N,) classes as they are; numbers cut into ranges with equally many people."""
    labels = np.asarray(y)
    if labels.dtype.kind != "f":
        return np.asarray(np.unique(labels, return_inverse=True)[1], dtype=np.int64)
    ranks = _ranks(labels.reshape(len(labels), -1)).mean(axis=1)
    bins = int(np.clip(len(labels) // MIN_BIN, 1, MAX_BINS))
    edges = np.quantile(ranks, np.arange(1, bins) / bins)
    return np.asarray(np.searchsorted(edges, ranks, side="right"), dtype=np.int64)


def _ranks(columns: Array) -> Floats:
    """Each column's values as ranks; equal values share one."""
    ranks = [np.searchsorted(np.sort(column), column) for column in columns.T]
    return np.array(ranks, dtype=np.float64).T


def _order(count: int, chance: np.random.Generator) -> Index:
    """A random order, through uniform numbers: NumPy may change how it shuffles, and splits must stay."""
    return np.argsort(chance.random(count), kind="stable")


def _choose_side(due: Floats, sizes: Counts, length: int) -> int:
    """The side to which most is due, among those with room for the unit (or the most room)."""
    over = np.maximum(length - sizes, 0)
    fitting = np.flatnonzero(over == over.min())
    return int(fitting[np.argmax(due[fitting])])


def _room(sizes: Counts, count: int) -> Counts:
    """What each side can still take; a side that large units overfilled takes nothing, and others less."""
    room = np.maximum(sizes, 0)
    return room if room.sum() == count else largest_remainder(room * (count / room.sum()))


def largest_remainder(exact: Floats) -> Counts:
    """Whole numbers with the same total, each the floor or the ceiling of its exact value.

    >>> largest_remainder(np.array([7.7, 1.1, 2.2]))
    array([8, 1, 2])
    """
    counts = np.floor(exact + _ROUNDING).astype(np.int64)
    short = round(float(exact.sum())) - int(counts.sum())
    counts[np.argsort(-(exact - counts), kind="stable")[:short]] += 1
    return counts


def round_table(exact: Floats, rows: Counts, columns: Counts, chance: np.random.Generator) -> Counts:
    """A table of whole numbers with these row and column sums, each the floor or ceiling of its exact value.

    Such a table exists wherever the sums are roundings of the exact table's own. Where large families make that
    impossible, the exact table is first fitted to the sums. Which entries are rounded up is left to chance, with
    preference for large fractions, so that no class or site is always short on the same side.

    >>> half = np.array([[0.5, 0.5], [0.5, 0.5]])
    >>> round_table(half, np.array([1, 1]), np.array([1, 1]), keys.generator(0)).sum(axis=0)
    array([1, 1])
    """
    table = _round(exact, rows, columns, chance)
    if table is None:
        table = _round(_fit(exact, rows, columns), rows, columns, chance)
    assert table is not None, "a table that has whole sums can always be rounded"
    return table


def _round(exact: Floats, rows: Counts, columns: Counts, chance: np.random.Generator) -> Counts | None:
    """Start from the floors and raise entries along augmenting paths until the sums are met; None if they cannot be."""
    table = np.floor(exact + _ROUNDING).astype(np.int64)
    fraction = np.maximum(exact - table, 0.0)
    # Efraimidis & Spirakis: sorting u^(1/w) draws without replacement with weights w.
    drawn = chance.random(table.shape) ** (1 / np.maximum(fraction, _ROUNDING))
    preference = np.where(fraction > _ROUNDING, drawn, _NEVER)
    raised = np.zeros(table.shape, dtype=bool)
    free = columns - table.sum(axis=0)
    missing = rows - table.sum(axis=1)
    if (free < 0).any() or (missing < 0).any():
        return None
    short = np.repeat(np.arange(len(rows)), missing)
    for row in short[_order(len(short), chance)].tolist():
        if not _raise(row, preference, raised, free, set()):
            return None
    return table + raised


def _raise(row: int, preference: Floats, raised: npt.NDArray[np.bool_], free: Counts, tried: set[int]) -> bool:
    """Raise one entry of a row; where its column is full, move another row's raised entry elsewhere."""
    for column in np.argsort(-preference[row], kind="stable").tolist():
        if preference[row, column] == _NEVER or raised[row, column] or column in tried:
            continue
        tried.add(column)
        if free[column] > 0:
            free[column] -= 1
        else:
            movable = np.flatnonzero(raised[:, column]).tolist()
            moved = next((other for other in movable if _raise(other, preference, raised, free, tried)), None)
            if moved is None:
                continue
            raised[moved, column] = False
        raised[row, column] = True
        return True
    return False


def _fit(exact: Floats, rows: Counts, columns: Counts) -> Floats:
    """The table nearest in proportions with these sums (iterative proportional fitting)."""
    table = np.maximum(exact, 1e-3) * (rows[:, None] > 0) * (columns > 0)
    for _ in range(1000):
        table *= (columns / np.maximum(table.sum(axis=0), 1e-300))[None, :]
        table *= (rows / np.maximum(table.sum(axis=1), 1e-300))[:, None]
        if np.abs(table.sum(axis=0) - columns).max() < _ROUNDING / 10:
            break
    return table


def _check_sizes(sizes: Sequence[float]) -> Floats:
    shares = np.asarray(sizes, dtype=np.float64)
    if shares.shape != (3,) or not bool((shares > 0).all()) or abs(float(shares.sum()) - 1) > 1e-6:
        raise DataError(f"sizes must be three positive numbers that add up to 1, such as (0.7, 0.1, 0.2), not {sizes}")
    return np.asarray(shares / shares.sum())
