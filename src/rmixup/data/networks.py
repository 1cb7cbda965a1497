"""`Networks`: symmetric matrices or the series behind them, labels, people, nodes and their history. Immutable."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rmixup.data.choosing import named, pick, positions, submatrices
from rmixup.data.door import (
    Target,
    agreed_size,
    demand,
    lengths,
    names_or_numbers,
    one_of,
    parse_coordinates,
    parse_frames,
    parse_matrices,
    parse_series,
    parse_target,
    refuse_repeats,
)
from rmixup.data.identity import digest
from rmixup.data.labels import Text, matching_hint, parse_labels, parse_names, shown
from rmixup.data.phenotype import by_id, column_values, rows_of
from rmixup.data.provenance import Provenance
from rmixup.data.rows import Index, Rows, freeze
from rmixup.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

    from rmixup.data.dataset import NetworksDataset

Array = npt.NDArray[Any]

EDGE = "–"  # between two node names in the name of an edge


class Networks:
    """A data set of N networks on the same n nodes.

    Parameters
    ----------
    matrices : (N, n, n) float array or None
        Symmetric matrices; float32 and float64 (memory maps too) are kept as they are, integers become float64.
        May be None where `series` are given. Values are not judged here: `rmixup.check` does that.
    y : (N,) text, booleans or integers (classes); (N,) or (N, k) floats (regression); or None
    subjects : (N,) text, optional
        Who each network is of. An id may occur more than once (several scans of one person): such rows stay on one
        side of every split.
    groups : (N,) text, optional
        The site, or another group that must not be taken for the label.
    nodes : (n,) text, optional
        Names of the nodes, all different.
    series : sequence of N arrays (t_i, n), or one array (N, t, n), optional
    target, classes : optional
        What `y` is called (one name, or one a column); the names of the classes in the order of their codes.
    families : (N,) text, optional
        Families stay on one side of every split.
    frames : (N,) integers, optional
        The number of frames behind each matrix; taken from `series` where they are given.
    coordinates : (n, 3) floats, optional
        Where the nodes lie.
    table : pandas.DataFrame, optional
        Anything known of the people, indexed by subject id; rows are matched by id.
    provenance : Provenance, optional

    Attributes
    ----------
    y : int64 codes with `classes`, or float64 numbers, or None; `task` says which.
    All arrays are read-only; a writeable one is copied when handed in (see `rmixup.data.rows.freeze`).

    >>> ds = Networks(np.stack([np.eye(3)] * 4), ["a", "b", "a", "b"], subjects=["s1", "s2", "s3", "s4"])
    >>> ds
    Networks(4 networks of 3 nodes, classification: a 2, b 2)
    >>> ds[ds.y == 1].subjects.tolist(), ds.classes
    (['s2', 's4'], ('a', 'b'))
    """

    y: Array | None
    classes: tuple[str, ...] | None
    task: str | None
    target: Target | None
    subjects: Text
    groups: Text | None
    families: Text | None
    nodes: Text
    coordinates: Array | None
    series: tuple[Array, ...] | None
    frames: npt.NDArray[np.int64] | None
    provenance: Provenance
    _rows: Rows | None
    _table: pd.DataFrame | None
    _hash: str | None

    def __init__(  # noqa: PLR0917 -- the order of a stack file's arrays
        self,
        matrices: Any = None,
        y: Any = None,
        subjects: Any = None,
        groups: Any = None,
        nodes: Any = None,
        series: Any = None,
        *,
        target: str | Sequence[str] | None = None,
        classes: Sequence[str] | None = None,
        families: Any = None,
        frames: Any = None,
        coordinates: Any = None,
        table: pd.DataFrame | None = None,
        provenance: Provenance | None = None,
    ) -> None:
        problems: list[str] = []
        stack = parse_matrices(matrices, problems)
        parts = parse_series(series, problems)
        if problems or (stack is None and parts is None):
            raise DataError("; ".join(problems) or "expected matrices (N, n, n) or series, got neither")
        count, n_nodes = agreed_size(stack, parts, problems)
        ids = names_or_numbers(subjects, count, "subjects", "subject", problems)
        node_names = names_or_numbers(nodes, n_nodes, "nodes", "node", problems)
        refuse_repeats(node_names, "nodes", problems)
        labels = parse_labels(y, classes, ids, problems)
        self.__dict__.update(
            _rows=None if stack is None else Rows(stack),
            y=None if labels.y is None else freeze(labels.y),
            classes=labels.classes,
            task=labels.task,
            target=parse_target(target, labels, problems),
            subjects=ids,
            groups=None if groups is None else parse_names(groups, count, "groups", problems),
            families=None if families is None else parse_names(families, count, "families", problems),
            nodes=node_names,
            coordinates=parse_coordinates(coordinates, n_nodes, problems),
            series=parts,
            frames=parse_frames(frames, parts, count, problems),
            provenance=Provenance() if provenance is None else provenance,
            _table=rows_of(table, ids, problems),
            _hash=None,
        )
        if problems:
            raise DataError("; ".join(problems))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Networks cannot be changed ({name}): use select, with_matrices, with_target or join")

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Pickling loses the read-only flags; they come back here."""
        for value in (*state.values(), *(state["series"] or ())):
            if isinstance(value, np.ndarray):
                value.setflags(write=False)
        self.__dict__.update(state)

    def _derive(self, **changes: Any) -> Networks:
        """These networks with some attributes replaced by checked ones."""
        other = object.__new__(Networks)
        other.__dict__.update(self.__dict__ | {"_hash": None} | changes)
        return other

    # ---- size and shape

    @property
    def matrices(self) -> Array | None:
        """(N, n, n), read-only, or None where only series are known. A selection is copied when first asked for."""
        return None if self._rows is None else self._rows.array()

    @property
    def has_matrices(self) -> bool:
        """Whether there are matrices, without bringing a selection of them into memory."""
        return self._rows is not None

    def __len__(self) -> int:
        return len(self.subjects)

    @property
    def n_nodes(self) -> int:
        """The number of nodes, n."""
        return len(self.nodes)

    @property
    def table(self) -> pd.DataFrame | None:
        """What is known of the people, one row a network in the order of the networks (a copy)."""
        return None if self._table is None else self._table.copy()

    def blocks(self, size: int | None = None) -> Iterator[tuple[int, Array]]:
        """(first row, matrices) block by block, so that memory stays small however many people there are."""
        if self._rows is None:
            raise DataError("these networks have no matrices yet: call connectivity() first")
        return self._rows.blocks(size)

    # ---- choosing

    def __getitem__(self, index: Any) -> Networks:
        """Networks by a slice, a mask (N,), positions, or one position."""
        return self._take(positions(index, len(self)))

    def __iter__(self) -> Iterator[Networks]:
        return (self[k] for k in range(len(self)))

    def _take(self, rows: Index) -> Networks:
        return self._derive(
            _rows=None if self._rows is None else self._rows.take(rows),
            series=None if self.series is None else tuple(self.series[k] for k in rows),
            _table=None if self._table is None else self._table.iloc[rows],
            **{name: pick(getattr(self, name), rows) for name in ("y", "subjects", "groups", "families", "frames")},
        )

    def select(self, subjects: Any = None, nodes: Any = None) -> Networks:
        """Networks of these subjects (ids, in this order, every scan of each) and nodes (names, mask, positions).

        >>> ds = Networks(np.stack([np.eye(3)] * 2), subjects=["s1", "s2"], nodes=["a", "b", "c"])
        >>> ds.select(subjects=["s2"], nodes=["c", "a"])
        Networks(1 network of 2 nodes, no labels)
        """
        chosen = self
        if subjects is not None:
            rows = named(subjects, self.subjects, "subjects")
            chosen = self._take(rows)._with_step("select", subjects=len(rows))
        return chosen if nodes is None else chosen._select_nodes(nodes)

    def _select_nodes(self, nodes: Any) -> Networks:
        by_name = np.asarray(nodes).dtype.kind in "UO"
        keep = named(nodes, self.nodes, "nodes") if by_name else positions(nodes, self.n_nodes)
        demand(np.unique(keep).size == keep.size, "each node can be selected once")
        return self._derive(
            _rows=None if self._rows is None else Rows(submatrices(self._rows, keep)),
            series=None if self.series is None else tuple(freeze(x[:, keep]) for x in self.series),
            nodes=pick(self.nodes, keep),
            coordinates=pick(self.coordinates, keep),
            provenance=self.provenance.then("select", nodes=[str(name) for name in self.nodes[keep]]),
        )

    # ---- replacing

    def _with_step(self, step: str | Mapping[str, Any], **parameters: Any) -> Networks:
        return self._derive(provenance=self.provenance.then(step, **parameters))

    def with_matrices(self, matrices: Any, step: str | Mapping[str, Any], **parameters: Any) -> Networks:
        """The same people with other matrices (N, n, n); `step` and its parameters go into the provenance."""
        problems: list[str] = []
        stack = parse_matrices(matrices, problems)
        expected = (len(self), self.n_nodes, self.n_nodes)
        if stack is not None and stack.shape != expected:
            problems.append(f"matrices must have shape {expected}, not {stack.shape}")
        if problems or stack is None:
            raise DataError("; ".join(problems) or "expected matrices, got None")
        return self._derive(_rows=Rows(stack), provenance=self.provenance.then(step, **parameters))

    def with_target(
        self,
        target: str | Sequence[str],
        classes: Sequence[str] | None = None,
        task: str | None = None,
        missing: str = "error",
    ) -> Networks:
        """The same networks with another column (or several) of `table` as labels.

        Text, booleans and integers are taken for classes, other numbers for regression; `task` ("classification",
        "regression") says it where that guess is wrong (an age in whole years). People whose label is missing are
        an error, or left out and recorded with missing="drop".

        >>> import pandas as pd
        >>> table = pd.DataFrame({"AGE": [9, 12], "SEX": ["f", "m"]}, index=["s1", "s2"])
        >>> ds = Networks(np.stack([np.eye(2)] * 2), subjects=["s1", "s2"], table=table)
        >>> ds.with_target("AGE", task="regression").y, ds.with_target("SEX").classes
        (array([ 9., 12.]), ('f', 'm'))
        """
        one_of(missing, ("error", "drop"), "missing")
        one_of(task, (None, "classification", "regression"), "task")
        names = (target,) if isinstance(target, str) else tuple(target)
        columns = self._columns(names)
        known = columns.notna().all(axis=1).to_numpy()
        if missing == "error" and not known.all():
            raise DataError(
                f"{int((~known).sum())} people have no {' or '.join(names)} "
                f'(subjects {shown(self.subjects[~known])}): fill it in, or leave them out with missing="drop"'
            )
        # Whole numbers beside missing values are floats in pandas: without the missing ones they are whole again.
        columns = columns[known].convert_dtypes(convert_floating=not known.all())
        kept = self if known.all() else self._take(np.flatnonzero(known))
        return kept._labelled(columns, target, classes, task, dropped=self.subjects[~known].tolist())

    def _columns(self, names: tuple[str, ...]) -> pd.DataFrame:
        if self._table is None:
            raise DataError(f"these networks have no table to take {names[0]!r} from: join one by subject id first")
        absent = [name for name in names if name not in self._table.columns]
        if absent:
            raise DataError(f"the table has no column {shown(absent)}; it has {shown(self._table.columns, 20)}")
        return self._table[list(names)]

    def _labelled(
        self,
        columns: pd.DataFrame,
        target: str | Sequence[str],
        classes: Sequence[str] | None,
        task: str | None,
        dropped: list[str],
    ) -> Networks:
        problems: list[str] = []
        labels = parse_labels(column_values(columns, task, problems), classes, self.subjects, problems)
        name = parse_target(target, labels, problems)
        if problems:
            raise DataError(f"column {shown(columns.columns)}: " + "; ".join(problems))
        return self._derive(
            y=None if labels.y is None else freeze(labels.y),
            classes=labels.classes,
            task=labels.task,
            target=name,
            provenance=self.provenance.then("with_target", target=name, dropped=dropped),
        )

    def join(
        self,
        table: pd.DataFrame,
        on: str | None = None,
        target: str | Sequence[str] | None = None,
        *,
        groups: str | None = None,
        families: str | None = None,
        missing: str = "error",
    ) -> Networks:
        """Add what a table says of these people, matched by subject id and never by position.

        Parameters
        ----------
        table : pandas.DataFrame
            One row a person.
        on : str, optional
            The column that holds the ids; the index, when left out.
        target, groups, families : str, optional
            Columns to take as labels (see `with_target`), groups and families.
        missing : "error" or "drop"
            What becomes of networks without a row in the table (or without a label). Rows without a network are
            ignored. Both are listed in the provenance.
        """
        one_of(missing, ("error", "drop"), "missing")
        indexed = by_id(table, on)
        known = np.isin(self.subjects, indexed.index.to_numpy(dtype=str))
        without = self.subjects[~known].tolist()
        if without and (missing == "error" or not known.any()):
            raise DataError(
                f"{len(without)} of {len(self)} networks have no row in the table (subjects {shown(without)})"
                + matching_hint(without, list(indexed.index))
                + ("" if not known.any() else '; complete the table, or leave them out with missing="drop"')
            )
        kept = self._take(np.flatnonzero(known)) if without else self
        extra = sorted(set(indexed.index) - set(self.subjects.tolist()))
        joined = kept._merge(indexed)._with_step("join", without_row=without, without_network=extra)
        joined = joined._derive(
            **{
                name: joined._text_column(column, name)
                for name, column in (("groups", groups), ("families", families))
                if column is not None
            }
        )
        return joined if target is None else joined.with_target(target, missing=missing)

    def _merge(self, table: pd.DataFrame) -> Networks:
        """The table's columns beside those already there; a column in both is taken from the new table."""
        rows = table.loc[self.subjects.tolist()]
        if self._table is not None:
            kept = self._table.drop(columns=[c for c in self._table.columns if c in rows.columns])
            rows = kept.assign(**{str(column): rows[column].array for column in rows.columns})
        return self._derive(_table=rows)

    def _text_column(self, column: str, what: str) -> Text | None:
        problems: list[str] = []
        names = parse_names(self._columns((column,))[column].to_numpy(dtype=object), len(self), what, problems)
        if problems:
            raise DataError(f"column {column}: " + "; ".join(problems))
        return names

    # ---- computing

    def connectivity(
        self,
        kind: str = "correlation",
        regularize: str | None = None,
        frames: int | None = None,
        constant: str = "error",
        dtype: npt.DTypeLike = np.float64,
    ) -> Networks:
        """New networks with matrices computed from the series, each from its own series alone.

        Parameters
        ----------
        kind : str
            See `rmixup.data.connectivity.KINDS`.
        regularize : str, optional
            "shrink=0.05", "floor=1e-6" on the matrices; "ledoit-wolf", "oas" on the covariance behind a correlation.
        frames : int, optional
            Use the first `frames` frames only; the series of the result are cut to them.
        constant : "error", "zero" or "nan"
            What becomes of nodes that do not vary.

        >>> import rmixup.keys as keys
        >>> series = keys.generator(0, "doc").normal(size=(2, 50, 3))
        >>> Networks(series=series).connectivity().matrices.shape
        (2, 3, 3)
        """
        from rmixup.data.connectivity import connectivity, regularized_kind

        if self.series is None:
            raise DataError("these networks have no series to compute connectivity from")
        kind_used, on_matrices = regularized_kind(kind, regularize)
        series = self._first_frames(frames)
        matrices = connectivity(
            series, kind_used, constant=constant, dtype=dtype, subjects=self.subjects, nodes=self.nodes
        )
        matrices.setflags(write=False)
        computed = self._derive(series=series, frames=lengths(series), _rows=Rows(matrices))
        computed = computed._with_step("connectivity", kind=kind_used, frames=frames, constant=constant)
        return computed if on_matrices is None else computed.regularize(on_matrices)

    def _first_frames(self, frames: int | None) -> tuple[Array, ...]:
        series = self.series or ()
        if frames is None:
            return series
        short = self.subjects[lengths(series) < frames]
        if len(short):
            raise DataError(
                f"{len(short)} of {len(self)} series are shorter than frames={frames} (subjects {shown(short)}): "
                "leave these people out, or ask for fewer frames"
            )
        return tuple(x[:frames] for x in series)

    def regularize(self, regularizer: str) -> Networks:
        """Regularised matrices, "shrink=0.05" or "floor=1e-6" (see `rmixup.spd.regularize`); it is recorded."""
        from rmixup.spd import regularize
        from rmixup.spd.repair import parse_regularizer

        how, amount = parse_regularizer(regularizer)
        matrices = np.empty((len(self), self.n_nodes, self.n_nodes))
        changed, smallest = 0, np.inf
        for start, block in self.blocks():
            matrices[start : start + len(block)], record = regularize(block.astype(np.float64), how, amount)
            changed, smallest = changed + record.changed, min(smallest, record.smallest_before)
        matrices.setflags(write=False)
        done = {"how": how, "amount": amount, "changed": changed, "smallest_before": smallest}
        return self.with_matrices(matrices, "regularize", **done)

    # ---- splitting

    def split(
        self, seed: int = 0, sizes: Sequence[float] = (0.7, 0.1, 0.2), stratify: str | None = "y+group"
    ) -> tuple[Networks, Networks, Networks]:
        """Train, validation and test: people and families whole on one side, see `rmixup.data.splits.split`."""
        from rmixup.data.splits import split

        return self._sides(split(**self._people(), seed=seed, sizes=sizes, stratify=stratify))

    def folds(
        self,
        n_folds: int = 5,
        repeats: int = 1,
        seed: int = 0,
        validation: float = 0.1,
        stratify: str | None = "y+group",
    ) -> list[tuple[Networks, Networks, Networks]]:
        """(train, validation, test) of each fold of each repeat, see `rmixup.data.splits.kfold`."""
        from rmixup.data.splits import kfold

        people = self._people()
        folds = kfold(**people, seed=seed, n_folds=n_folds, repeats=repeats, validation=validation, stratify=stratify)
        return [self._sides(fold) for fold in folds]

    def leave_group_out(
        self, seed: int = 0, validation: float = 0.1, stratify: str | None = "y+group"
    ) -> dict[str, tuple[Networks, Networks, Networks]]:
        """For each group (train, validation, test) with it as test, see `rmixup.data.splits.leave_group_out`."""
        from rmixup.data.splits import leave_group_out

        sides = leave_group_out(**self._people(), seed=seed, validation=validation, stratify=stratify)
        return {group: self._sides(split) for group, split in sides.items()}

    def _people(self) -> dict[str, Any]:
        """What a split depends on; classes by name, so that messages can name them."""
        y = self.label_names() if self.task == "classification" else self.y
        return {"y": y, "subjects": self.subjects, "groups": self.groups, "families": self.families}

    def _sides(self, split: tuple[Index, Index, Index]) -> tuple[Networks, Networks, Networks]:
        train, validation, test = (self._take(rows) for rows in split)
        return train, validation, test

    # ---- going elsewhere and coming back

    def to_numpy(self) -> dict[str, Array]:
        """The arrays of a stack file: `numpy.savez(path, **ds.to_numpy())` writes one.

        Keys, where known: matrices; series (N, t, n), or series_0 … of unequal length; y (class names or numbers);
        subjects, groups, families, nodes.
        """
        arrays = {
            "matrices": self.matrices,
            "y": self.label_names() if self.task == "classification" else self.y,
            "subjects": self.subjects,
            "groups": self.groups,
            "families": self.families,
            "nodes": self.nodes,
        }
        if self.series is not None and len(set(map(len, self.series))) == 1:
            arrays["series"] = np.stack(self.series)
        elif self.series is not None:
            arrays.update({f"series_{k}": x for k, x in enumerate(self.series)})
        return {name: np.asarray(array) for name, array in arrays.items() if array is not None}

    @classmethod
    def from_numpy(cls, arrays: Mapping[str, Any], **more: Any) -> Networks:
        """Networks from the arrays of a stack file, as `to_numpy` gives them; `more` goes to the constructor."""
        known = ("matrices", "y", "subjects", "groups", "families", "nodes", "series")
        given = {name: arrays[name] for name in known if name in arrays}
        numbered = [name for name in arrays if name.startswith("series_")]
        if numbered:
            given["series"] = [arrays[f"series_{k}"] for k in range(len(numbered))]
        return cls(**given, **more)

    def label_names(self) -> Text:
        """(N,) the name of each network's class."""
        if self.y is None or self.classes is None:
            raise DataError("these networks have no classes")
        return np.array(self.classes, dtype=np.str_)[self.y]

    def to_pandas(self, edges: bool = False) -> pd.DataFrame:
        """One row a network, indexed by subject: the table, label, group, family, frames, and with `edges` "a–b".

        Edges are the upper triangle; the diagonal is added where it is not all ones.
        """
        import pandas as pd

        frame = pd.DataFrame(index=self._index()) if self._table is None else self._table.copy()
        frame = frame.assign(**self._own_columns())
        return pd.concat([frame, self._edges()], axis=1) if edges else frame

    def _own_columns(self) -> dict[str, Array]:
        columns: dict[str, Array | None] = {"group": self.groups, "family": self.families, "frames": self.frames}
        if self.y is not None:
            names = ("label",) if self.target is None else self.target
            names = (names,) if isinstance(names, str) else names
            if self.y.ndim == 2 and len(names) != self.y.shape[1]:
                names = tuple(f"label_{k}" for k in range(self.y.shape[1]))
            values = self.label_names() if self.task == "classification" else self.y
            columns |= dict(zip(names, values.reshape(len(self), -1).T, strict=True))
        return {name: column for name, column in columns.items() if column is not None}

    def _index(self) -> pd.Index[Any]:
        import pandas as pd

        index: pd.Index[Any] = pd.Index(self.subjects.tolist(), name="subject", dtype=object)
        return index

    def _edges(self) -> pd.DataFrame:
        import pandas as pd

        if self.matrices is None:
            raise DataError("these networks have no matrices, so no edges: call connectivity() first")
        diagonal = np.diagonal(self.matrices, axis1=1, axis2=2)
        a, b = np.triu_indices(self.n_nodes, k=1 if bool((diagonal == 1).all()) else 0)
        names = [f"{self.nodes[i]}{EDGE}{self.nodes[j]}" for i, j in zip(a, b, strict=True)]
        return pd.DataFrame(self.matrices[:, a, b], columns=names, index=self._index())

    @classmethod
    def from_pandas(cls, frame: pd.DataFrame, nodes: Sequence[str], **more: Any) -> Networks:
        """Networks from a frame with columns "a–b", indexed by subject, as `to_pandas(edges=True)` gives it.

        The diagonal is 1 where the frame has no "a–a". The other columns become `table`.
        """
        n = len(nodes)
        has_diagonal = f"{nodes[0]}{EDGE}{nodes[0]}" in frame.columns
        a, b = np.triu_indices(n, k=0 if has_diagonal else 1)
        names = [f"{nodes[i]}{EDGE}{nodes[j]}" for i, j in zip(a.tolist(), b.tolist(), strict=True)]
        absent = [name for name in names if name not in frame.columns]
        if absent:
            raise DataError(f"the frame lacks {len(absent)} edge columns ({shown(absent)}); check the node names")
        matrices = np.tile(np.eye(n), (len(frame), 1, 1))
        matrices[:, a, b] = matrices[:, b, a] = frame[names].to_numpy(dtype=np.float64)
        rest = frame.drop(columns=names)
        return cls(matrices, subjects=frame.index.astype(str), nodes=nodes, table=rest, **more)

    def to_torch(self, dtype: str = "float32") -> NetworksDataset:
        """A torch Dataset of (matrix (n, n), label), for any DataLoader.

        >>> matrix, label = Networks(np.stack([np.eye(2)] * 3), [0, 1, 0]).to_torch()[1]
        >>> matrix.shape, label
        (torch.Size([2, 2]), tensor(1))
        """
        from rmixup.data.dataset import NetworksDataset

        return NetworksDataset(self, dtype)

    @classmethod
    def from_torch(cls, dataset: Any, **more: Any) -> Networks:
        """Networks from any sized torch Dataset of (matrix, label)."""
        pairs = [dataset[k] for k in range(len(dataset))]
        matrices = np.stack([np.asarray(matrix) for matrix, _ in pairs])
        return cls(matrices, np.stack([np.asarray(label) for _, label in pairs]), **more)

    def save(self, folder: str | Path, overwrite: bool = False) -> Path:
        """Write a folder that `rmixup.load` opens again, see `rmixup.data.store`."""
        from rmixup.data.store import save

        return save(self, folder, overwrite=overwrite)

    # ---- identity and looks

    def content_hash(self) -> str:
        """Sha256 of matrices, series, labels, people and nodes; the same in memory, from a map or from any file."""
        if self._hash is None:
            self.__dict__["_hash"] = digest(self, self._rows)
        assert self._hash is not None
        return self._hash

    def known_by(self, content_hash: str) -> Networks:
        """These networks with a content hash that the caller has just verified."""
        return self._derive(_hash=content_hash)

    def __repr__(self) -> str:
        what = "network" if len(self) == 1 else "networks"
        series = "" if self._rows is not None else ", series only"
        return f"Networks({len(self)} {what} of {self.n_nodes} nodes{series}, {self._describe_labels()})"

    def _describe_labels(self) -> str:
        if self.y is None:
            return "no labels"
        if self.classes is not None:
            counts = np.bincount(self.y, minlength=len(self.classes))
            return "classification: " + shown(f"{c} {k}" for c, k in zip(self.classes, counts, strict=True))
        if len(self.y) == 0 or self.y.ndim == 2:
            return f"regression: {1 if self.y.ndim == 1 else self.y.shape[1]} targets"
        return f"regression: {self.y.min():.4g} to {self.y.max():.4g}"

    def summary(self) -> dict[str, str]:
        """What is in it, in words: the rows of the table that Jupyter shows."""
        rows = {
            "networks": f"{len(self)} of {len(set(self.subjects.tolist()))} subjects",
            "nodes": f"{self.n_nodes} ({shown(self.nodes, 3)})",
            "matrices": "not computed" if self._rows is None else f"{self._rows.shape} {self._rows.dtype}",
            "labels": self._describe_labels(),
        }
        if self.frames is not None and len(self):
            rows["frames"] = f"{self.frames.min()} to {self.frames.max()}"
        if self.groups is not None:
            rows["groups"] = shown(f"{name} {k}" for name, k in zip(*np.unique(self.groups, return_counts=True)))  # noqa: B905
        if self.families is not None:
            rows["families"] = str(len(set(self.families.tolist())))
        rows["history"] = " → ".join(str(step["step"]) for step in self.provenance.steps) or "none"
        return rows

    def _repr_html_(self) -> str:
        from html import escape

        lines = "".join(f"<tr><th>{escape(k)}</th><td>{escape(v)}</td></tr>" for k, v in self.summary().items())
        return f"<table><caption>Networks</caption>{lines}</table>"
