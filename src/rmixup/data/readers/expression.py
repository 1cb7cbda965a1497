"""Gene expression: a table of samples × features becomes networks, each the correlation over a group of samples.

Features are chosen without labels. Samples are grouped within a class, each patient's together; a patient's samples
never lie in two groups (or pools) of a class, and networks that share a patient across classes form one family, so
that no split separates them. Bootstrapped networks are drawn within pools, and a pool is a family.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from rmixup import keys
from rmixup.data.labels import shown
from rmixup.data.npy import BOMB_BYTES, BOMB_RATIO
from rmixup.data.readers._files import check_h5, existing, need
from rmixup.data.readers._people import Found, Person
from rmixup.data.readers._phenotype import is_table, join, read_table
from rmixup.data.readers._text import sniff_delimiter
from rmixup.errors import DataError, FormatError

DESCRIPTION = "samples × features .tsv|.csv(.gz), .parquet or .h5ad with a table of classes (--labels, --target)"
OPTIONS = (
    "transpose",
    "top_k",
    "rank_by",
    "min_detect",
    "per_network",
    "networks_per_class",
    "bootstrap",
    "pools",
    "patient_column",
    "drop_small_classes",
    "sample_where",
    "seed",
)

RANKS = ("variance", "variation")
PATIENT_COLUMNS = ("patient", "patient_id", "case_id", "donor", "donor_id", "individual")
MIN_SAMPLES = 3
_ROWS = 512  # samples read at a time
# A header of a million features is shorter.
_LONGEST_LINE = 32 << 20
_ENDINGS = (".tsv.gz", ".csv.gz", ".txt.gz", ".parquet", ".h5ad")


@dataclass(frozen=True)
class Table:
    """What one pass over the samples tells: their ids, and of each feature the moments and how often it is there."""

    samples: tuple[str, ...]
    features: tuple[str, ...]
    variance: npt.NDArray[np.float64]
    mean: npt.NDArray[np.float64]
    detected: npt.NDArray[np.float64]


@dataclass(frozen=True)
class Group:
    """The samples of one network, and the pool they were drawn from."""

    name: str
    label: str
    samples: tuple[str, ...]
    pool: str


def recognises(path: Path) -> bool:
    """One file that is a table of samples × features."""
    return path.is_file() and path.name.endswith((*_ENDINGS, ".tsv", ".csv")) and not is_table(path)


def read(
    path: Path,
    *,
    labels: str | Path | None = None,
    id_column: str | None = None,
    target: str | Sequence[str] | None = None,
    transpose: bool = False,
    top_k: int = 50,
    rank_by: str = "variance",
    min_detect: float = 0.0,
    per_network: int = 30,
    networks_per_class: int | None = None,
    bootstrap: bool = False,
    pools: int = 10,
    patient_column: str | None = None,
    drop_small_classes: bool = False,
    sample_where: str | Sequence[str] = (),
    seed: int = 0,
) -> Found:
    """Choose features and group samples; the numbers of a network are read when it is its turn.

    Parameters
    ----------
    top_k, rank_by : how many features, the largest in "variance" or in "variation" (deviation over mean)
    min_detect : the share of samples in which a feature must be above 0 to be chosen
    per_network, networks_per_class : samples in a network; networks of each class (as many as there are samples for)
    bootstrap, pools : draw each network with replacement from one of so many pools of its class
    patient_column : whose a sample is; a column with a usual name is found
    drop_small_classes : leave out classes with too few samples, instead of an error
    sample_where : "COLUMN=VALUE", samples to use
    """
    if not isinstance(target, str):
        raise DataError(
            f"{path}: networks of samples are made class by class; name the column of classes with --target"
        )
    if top_k < 2 or per_network < MIN_SAMPLES or pools < 1 or rank_by not in RANKS or not 0 <= min_detect <= 1:
        raise DataError(
            f"expected top_k >= 2, per_network >= 3, pools >= 1, min_detect in [0, 1] and rank_by "
            f"{' or '.join(RANKS)}; got {top_k}, {per_network}, {pools}, {min_detect} and {rank_by!r}"
        )
    source = _Source(path, transpose)
    table = source.scan()
    chosen = _features(path, table, top_k, rank_by, min_detect)
    people, labels_path = _labels(source, table, labels, id_column, target)
    people = _conditions(people, labels_path, sample_where)
    patients = _patients(people, patient_column, labels_path)
    grouping = Grouping(per_network, networks_per_class, pools if bootstrap else None, seed)
    groups = grouping.of(people[target].astype(str), patients, labels_path, drop_small_classes)
    values = source.take(chosen)

    def stream(wanted: Collection[str]) -> Iterator[Person]:
        for group in groups:
            if group.name in wanted:
                series = values.loc[list(group.samples)].to_numpy(dtype=np.float64)
                yield Person(group.name, series, "series", chosen, f"{path}, network {group.name}")

    features = {"names": list(chosen), "top_k": top_k, "rank_by": rank_by, "min_detect": min_detect}
    return Found(
        layout="expression",
        subjects=tuple(group.name for group in groups),
        stream=stream,
        files=(path, *(() if labels_path == path else (labels_path,))),
        table=_about(groups, target),
        table_path=labels_path,
        target=target,
        families=families_of(groups, patients),
        kind="correlation",
        remedy="choose features that are detected more often with --min-detect, take more samples with --per-network, "
        "or leave out features (--drop-nodes) or networks (--drop-subjects undefined)",
        steps=(("features", features), ("group samples", asdict(grouping) | {"patient_column": patients.name})),
    )


def _about(groups: Sequence[Group], target: str) -> pd.DataFrame:
    columns = {
        target: [group.label for group in groups],
        "pool": [group.pool for group in groups],
        "samples": [" ".join(group.samples) for group in groups],
    }
    return pd.DataFrame(columns, index=pd.Index([group.name for group in groups], name="subject"))


# ------------------------------------------------------------------------------------------------ features


def _features(path: Path, table: Table, top_k: int, rank_by: str, min_detect: float) -> tuple[str, ...]:
    """The names of the top features, best first, equal ones in the order of the table."""
    eligible = table.detected >= min_detect
    if eligible.sum() < top_k:
        raise DataError(
            f"{path}: {int(eligible.sum())} of {len(eligible)} features are above 0 in {min_detect:.0%} of the "
            f"samples, expected {top_k} or more; lower --min-detect or --top-k"
        )
    spread = table.variance
    if rank_by == "variation":
        spread = np.sqrt(table.variance) / np.where(table.mean > 0, table.mean, np.inf)
    order = np.argsort(-np.where(eligible, spread, -1.0), kind="stable")
    return tuple(table.features[k] for k in order[:top_k])


# ------------------------------------------------------------------------------------------------ labels


def _labels(
    source: _Source, table: Table, labels: str | Path | None, id_column: str | None, target: str
) -> tuple[pd.DataFrame, Path]:
    """The samples' rows in the table of labels (for .h5ad: in the file's own), those without a class left out."""
    rows, where = source.observations(), source.path
    if labels is not None:
        where = existing(Path(labels))
        raw = read_table(where)
        ids = set(raw.astype(str).to_numpy().ravel())
        if ids & set(table.features) and not ids & set(table.samples):
            raise DataError(f"{source.path}: the samples stand in the columns, not in the rows; change --transpose")
        rows = join(raw, where, table.samples, id_column)
    if rows is None:
        raise DataError(f"{source.path}: name the table with the samples' classes with --labels")
    if target not in rows.columns:
        raise DataError(f"{where}: no column is named {target!r}; there are: {shown(rows.columns, 30)}")
    return rows[rows[target].notna()], where


def _conditions(rows: pd.DataFrame, path: Path, conditions: str | Sequence[str]) -> pd.DataFrame:
    for condition in [conditions] if isinstance(conditions, str) else conditions:
        column, equals, value = condition.partition("=")
        if not equals or column not in rows.columns or not (rows[column].astype(str) == value).any():
            raise DataError(
                f"{path}: --sample-where {condition!r} must be COLUMN=VALUE, of columns {shown(rows.columns, 30)}, and "
                "true of some samples"
            )
        rows = rows[rows[column].astype(str) == value]
    return rows


def _patients(rows: pd.DataFrame, column: str | None, path: Path) -> pd.Series[Any]:
    """Whose each sample is; every sample its own patient where nothing says so."""
    if column is not None and column not in rows.columns:
        raise DataError(f"{path}: no column is named {column!r}; there are: {shown(rows.columns, 30)}")
    found = column or next((name for name in rows.columns if name.lower() in PATIENT_COLUMNS), None)
    if found is None:
        return pd.Series(rows.index, index=rows.index)
    return rows[found].fillna(pd.Series(rows.index, index=rows.index)).astype(str)


# ------------------------------------------------------------------------------------------------ groups


@dataclass(frozen=True)
class Grouping:
    """How the samples of a class become networks; `pools` is None for groups that share no sample."""

    per_network: int
    networks_per_class: int | None
    pools: int | None
    seed: int

    def of(self, classes: pd.Series[Any], patients: pd.Series[Any], path: Path, drop_small: bool) -> list[Group]:
        """The groups of all classes, class after class."""
        make = self._disjoint if self.pools is None else self._bootstrapped
        groups = {
            label: make(label, self._by_patient(label, classes.index[classes == label], patients))
            for label in sorted(classes.unique())
        }
        wanted = self.networks_per_class or 1
        small = [label for label, own in groups.items() if len(own) < wanted]
        if len(small) == len(groups) or (small and not drop_small):
            raise DataError(
                f"{path}: {len(small)} of {len(groups)} classes have too few samples for {wanted} networks of "
                f"{self.per_network} ({shown(small)}); use fewer with --per-network or --networks-per-class, or leave "
                "these classes out with --drop-small-classes"
            )
        return [group for label, own in groups.items() if label not in small for group in own]

    def _by_patient(self, label: str, samples: pd.Index[str], patients: pd.Series[Any]) -> list[list[str]]:
        """The samples of each patient, patients in an order that the seed decides."""
        own: dict[str, list[str]] = {}
        for sample in sorted(samples):
            own.setdefault(patients[sample], []).append(sample)
        names = sorted(own)
        order = keys.generator(self.seed, "expression", label).permutation(len(names))
        return [own[names[k]] for k in order]

    def _disjoint(self, label: str, own: list[list[str]]) -> list[Group]:
        """Groups of exactly so many samples, filled patient by patient; who does not fit into one is left out."""
        groups: list[Group] = []
        current: list[str] = []
        for samples in own:
            if len(current) + len(samples) <= self.per_network:
                current = current + samples
            if len(current) == self.per_network:
                name = f"{label}-{len(groups):03d}"
                groups.append(Group(name, label, tuple(current), name))
                current = []
            if len(groups) == self.networks_per_class:
                break
        return groups

    def _bootstrapped(self, label: str, own: list[list[str]]) -> list[Group]:
        """Networks drawn with replacement from pools of patients, the pools in turn."""
        assert self.pools is not None
        members = [[sample for samples in own[k :: self.pools] for sample in samples] for k in range(self.pools)]
        if min(map(len, members)) < MIN_SAMPLES:
            return []
        groups = []
        for k in range(self.networks_per_class or self.pools):
            pool, name = members[k % self.pools], f"{label}-pool-{k % self.pools:02d}"
            picks = keys.generator(self.seed, "bootstrap", label, k).integers(len(pool), size=self.per_network)
            groups.append(Group(f"{label}-{k:03d}", label, tuple(pool[p] for p in picks), name))
        return groups


def families_of(groups: Sequence[Group], patients: pd.Series[Any]) -> dict[str, str]:
    """The family of each network: networks that share a pool or a patient belong together, through others too.

    >>> a, b, c = Group("a", "x", ("s1",), "a"), Group("b", "y", ("s2",), "b"), Group("c", "y", ("s3",), "c")
    >>> families_of([a, b, c], pd.Series({"s1": "p1", "s2": "p1", "s3": "p2"}))
    {'a': 'a', 'b': 'a', 'c': 'c'}
    """
    root = {group.name: group.name for group in groups}

    def find(name: str) -> str:
        while root[name] != name:
            name = root[name]
        return name

    holder: dict[tuple[str, str], str] = {}
    for group in groups:
        shared = {("pool", group.pool), *(("patient", patients[sample]) for sample in group.samples)}
        for mark in sorted(shared):
            first, second = sorted((find(holder.setdefault(mark, group.name)), find(group.name)))
            root[second] = first
    return {group.name: find(group.name) for group in groups}


# ------------------------------------------------------------------------------------------------ the table's numbers


class _Source:
    """A table of samples × features of any kind, read a block of samples at a time."""

    def __init__(self, path: Path, transpose: bool) -> None:
        self.path = path
        self.transpose = transpose
        self._kind = path.suffix.lower() if path.suffix.lower() in {".parquet", ".h5ad"} else "text"

    def scan(self) -> Table:
        """One pass: ids, and each feature's mean, variance and share of samples above 0."""
        samples: list[str] = []
        features: tuple[str, ...] = ()
        total = square = positive = shift = np.zeros(0)
        for names, ids, values in self._blocks():
            if not features:
                features, shift = names, values.mean(axis=0)
                total, square, positive = np.zeros((3, len(names)))
            samples += ids
            moved = values - shift
            total, square = total + moved.sum(axis=0), square + (moved**2).sum(axis=0)
            positive = positive + (values > 0).sum(axis=0)
        n = len(samples)
        if n < MIN_SAMPLES or len(set(samples)) < n:
            raise FormatError(
                f"{self.path}: expected three samples or more with different ids, found {n}; correct the table"
            )
        variance = np.maximum(square - total**2 / n, 0.0) / (n - 1)
        return Table(tuple(samples), features, variance, shift + total / n, positive / n)

    def take(self, features: Sequence[str]) -> pd.DataFrame:
        """The chosen features of all samples."""
        blocks = []
        for names, ids, values in self._blocks():
            places = {name: k for k, name in enumerate(names)}
            blocks.append(pd.DataFrame(values[:, [places[f] for f in features]], index=ids, columns=list(features)))
        return pd.concat(blocks)

    def observations(self) -> pd.DataFrame | None:
        """What an .h5ad file itself says of its samples."""
        if self._kind != ".h5ad":
            return None
        opened = self._anndata()
        rows: pd.DataFrame = opened.obs.copy()
        opened.file.close()
        text = rows.astype(object).map(lambda cell: cell if cell != cell else str(cell))  # noqa: PLR0124 -- NaN
        return text.set_axis(rows.index.astype(str), axis=0)

    def _blocks(self) -> Iterator[tuple[tuple[str, ...], list[str], npt.NDArray[np.float64]]]:
        """(features, samples, values) of block after block."""
        readers = {"text": self._text, ".parquet": self._parquet, ".h5ad": self._h5ad}
        frames = readers[self._kind]()
        row = 2
        for frame in [pd.concat(frames).T] if self.transpose else frames:
            yield _named(frame), [str(name) for name in frame.index], self._numbers(frame, row)
            row += len(frame)

    def _numbers(self, frame: pd.DataFrame, row: int) -> npt.NDArray[np.float64]:
        try:
            values = frame.to_numpy(dtype=np.float64)
        except (ValueError, TypeError):
            raise self._not_numbers(frame, row) from None
        if not np.isfinite(values).all():
            i, j = np.argwhere(~np.isfinite(values))[0]
            raise FormatError(
                f"{self.path}: sample {frame.index[i]}, feature {frame.columns[j]!r}: expected a number, found "
                "nothing; fill it in, or leave the feature out"
            )
        return values

    def _not_numbers(self, frame: pd.DataFrame, row: int) -> FormatError:
        for column in frame.columns:
            bad = pd.to_numeric(frame[column], errors="coerce").isna() & frame[column].notna()
            if bad.any():
                k = int(np.flatnonzero(bad)[0])
                return FormatError(
                    f"{self.path}: line {row + k}, column {column!r}: expected a number, found "
                    f"{frame[column].iloc[k]!r}; is it samples × features? (--transpose where samples are columns)"
                )
        return FormatError(f"{self.path}: expected a table of numbers; export it again")

    def _text(self) -> Iterator[pd.DataFrame]:
        try:
            with self._open() as file:
                first = file.readline(_LONGEST_LINE)
                if len(first) == _LONGEST_LINE:
                    raise FormatError(f"{self.path}: its first line is longer than any table's; export it again")
                if not first.strip():
                    raise FormatError(f"{self.path}: the file is empty; copy or export it again")
                file.seek(0)
                separator = sniff_delimiter(first) or r"\s+"
                yield from pd.read_csv(file, sep=separator, index_col=0, chunksize=_ROWS, float_precision="round_trip")
        except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
            line = str(error).strip().split("\n")[0].removeprefix("Error tokenizing data. C error: ")
            raise FormatError(f"{self.path}: cannot be read as a table ({line}); export it again") from None
        except (gzip.BadGzipFile, EOFError, zlib.error):
            raise FormatError(f"{self.path}: the compressed file is cut off or damaged; copy it again") from None

    def _open(self) -> io.TextIOWrapper:
        file = _Unpacked(self.path) if self.path.suffix == ".gz" else self.path.open("rb")
        return io.TextIOWrapper(file, encoding="utf-8-sig")

    def _parquet(self) -> Iterator[pd.DataFrame]:
        parquet = need("pyarrow.parquet", self.path)
        try:
            with parquet.ParquetFile(self.path) as file:
                for batch in file.iter_batches(batch_size=_ROWS):
                    frame = batch.to_pandas()
                    yield frame.set_index(frame.columns[0]) if isinstance(frame.index, pd.RangeIndex) else frame
        except Exception as error:  # what the file says of itself is believed by pandas, which then raises anything
            raise FormatError(f"{self.path}: cannot be read as Parquet ({error}); write it again") from None

    def _anndata(self) -> Any:
        anndata = need("anndata", self.path)
        check_h5(self.path)
        try:
            return anndata.read_h5ad(self.path, backed="r")
        except Exception as error:  # anndata and h5py raise many kinds on a damaged file
            raise FormatError(f"{self.path}: cannot be read as .h5ad ({' '.join(str(error).split())[:200]})") from None

    def _h5ad(self) -> Iterator[pd.DataFrame]:
        opened = self._anndata()
        try:
            if opened.X is None or tuple(opened.X.shape) != (opened.n_obs, opened.n_vars):
                raise FormatError(f"{self.path}: X does not have a row a sample and a column a feature; write it again")
            for values, start, stop in opened.chunked_X(_ROWS):
                if hasattr(values, "toarray"):
                    values.check_format(full_check=True)  # SciPy's compiled code believes every index
                dense = values.toarray() if hasattr(values, "toarray") else np.asarray(values)
                yield pd.DataFrame(dense, index=opened.obs_names[start:stop], columns=opened.var_names)
        except FormatError:
            raise
        except Exception as error:  # as above: X itself is read here
            raise FormatError(f"{self.path}: its X cannot be read ({error}); write the file again") from None
        finally:
            opened.file.close()


class _Unpacked(gzip.GzipFile):
    """A compressed table, read no further than measured data go."""

    def read1(self, size: int = -1) -> bytes:
        """The next bytes."""
        data, taken = super().read1(size), self.tell()
        if taken > BOMB_BYTES and taken > BOMB_RATIO * Path(str(self.name)).stat().st_size:
            raise FormatError(
                f"{self.name}: unpacks to more than {BOMB_RATIO} times its size, which no measured data do; save it "
                "uncompressed if it is genuine"
            )
        return data


def _named(frame: pd.DataFrame) -> tuple[str, ...]:
    """Feature names; those without one are numbered, repeated ones get their number behind (pandas: 'name.1')."""
    names = [str(name).strip() for name in frame.columns]
    seen: dict[str, int] = {}
    unique = []
    for k, name in enumerate(names):
        base = f"feature-{k + 1}" if not name or name.startswith("Unnamed: ") else name
        seen[base] = seen.get(base, 0) + 1
        unique.append(base if seen[base] == 1 else f"{base}.{seen[base] - 1}")
    return tuple(unique)
