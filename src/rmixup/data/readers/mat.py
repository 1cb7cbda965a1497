"""What CONN and DPABI leave behind in .mat files.

CONN: `resultsROI_Condition001.mat` (Z: sources × targets × subjects, Fisher's z),
`resultsROI_Subject001_Condition001.mat` (Z of one subject) and `ROI_Subject001_Condition001.mat` (data: one cell a
region, t × dimensions). DPABI: `ROISignals_<subject>.mat`, `ROICorrelation_<subject>.mat` and
`ROICorrelation_FisherZ_<subject>.mat`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rmixup.data.labels import shown
from rmixup.data.readers._files import Array, read_mat
from rmixup.data.readers._people import Found, Person, classify
from rmixup.data.readers._phenotype import find_table
from rmixup.errors import DataError, FormatError

DESCRIPTION = "CONN: ROI_Subject*_Condition*.mat, resultsROI_*.mat; DPABI: ROISignals_*.mat, ROICorrelation_*.mat"
OPTIONS = ("content", "condition")

_SERIES, _ONE_RESULT, _ALL_RESULTS = (
    re.compile(r"ROI_(?P<id>Subject\d+)_Condition(?P<condition>\d+)\.mat"),
    re.compile(r"resultsROI_(?P<id>Subject\d+)_Condition(?P<condition>\d+)\.mat"),
    re.compile(r"resultsROI_Condition(?P<condition>\d+)\.mat"),
)
_DPABI = {
    "series": re.compile(r"ROISignals_(?P<id>.+)\.mat"),
    "fisher-z": re.compile(r"ROICorrelation_FisherZ_(?P<id>.+)\.mat"),
    "matrices": re.compile(r"ROICorrelation_(?!FisherZ_)(?P<id>.+)\.mat"),
}
# CONN's first regions are tissue masks, and it stores its task regressors beside the regions.
_NO_NODES = ("Grey Matter", "White Matter", "CSF")
_REGRESSOR = "Effect of "


def recognises(path: Path) -> bool:
    """A folder with files named as CONN or DPABI name them, or one CONN result of all subjects."""
    if path.is_file():
        return bool(_ALL_RESULTS.fullmatch(path.name))
    names = [file.name for file in path.glob("*.mat")]
    patterns = (_SERIES, _ONE_RESULT, _ALL_RESULTS, *_DPABI.values())
    return any(pattern.fullmatch(name) for name in names for pattern in patterns)


def read(path: Path, *, labels: str | Path | None = None, content: str = "auto", condition: str | None = None) -> Found:
    """Find the people of a CONN or DPABI folder.

    `content` is "series", "matrices" or (DPABI) "fisher-z"; where a folder has several, series are taken.
    """
    folder = path if path.is_dir() else path.parent
    files = sorted(folder.glob("*.mat")) if path.is_dir() else [path]
    table = None if labels else find_table(folder)
    if any(pattern.fullmatch(file.name) for file in files for pattern in _DPABI.values()):
        return _dpabi(folder, files, content, table)
    return _conn(folder, files, content, condition, table)


# ------------------------------------------------------------------------------------------------ DPABI


def _dpabi(folder: Path, files: list[Path], content: str, table: Path | None) -> Found:
    kinds = [kind for kind in _DPABI if content in ("auto", kind)]
    for kind in kinds:
        people = _named(files, _DPABI[kind])
        if people:
            return Found("mat", tuple(people), _dpabi_stream(people, kind), tuple(people.values()), table_path=table)
    raise DataError(f"{folder}: has no DPABI files with {content}; it has {shown(file.name for file in files)}")


def _named(files: Sequence[Path], pattern: re.Pattern[str]) -> dict[str, Path]:
    return {match["id"]: file for file in files if (match := pattern.fullmatch(file.name))}


def _dpabi_stream(people: dict[str, Path], kind: str) -> Callable[[Collection[str]], Iterator[Person]]:
    content = "series" if kind == "series" else "matrices"
    names = {"series": "ROISignals", "matrices": "ROICorrelation", "fisher-z": "ROICorrelation_FisherZ"}

    def stream(wanted: Collection[str]) -> Iterator[Person]:
        for subject, file in people.items():
            if subject in wanted:
                values = _numbers(file, names[kind])
                values, form = classify(values, str(file), content)
                yield Person(subject, values, form, None, str(file))

    return stream


def _numbers(file: Path, name: str) -> Array:
    found = read_mat(file, (name,))
    if not isinstance(found.get(name), np.ndarray):
        raise FormatError(
            f"{file}: expected a variable {name!r} of numbers, found {shown(read_mat(file), 10) or 'none'}"
        )
    return np.asarray(found[name])


# ------------------------------------------------------------------------------------------------ CONN


def _conn(folder: Path, files: list[Path], content: str, condition: str | None, table: Path | None) -> Found:
    readers = {"series": (_SERIES, _conn_series), "matrices": (_ONE_RESULT, _conn_result)}
    for kind, (pattern, reader) in readers.items():
        chosen = [file for file in files if pattern.fullmatch(file.name)] if content in ("auto", kind) else []
        if chosen:
            people = _named(_of_condition(folder, chosen, pattern, condition), pattern)
            return Found("mat", tuple(people), _each(people, reader), tuple(people.values()), table_path=table)
    stacked = [file for file in files if _ALL_RESULTS.fullmatch(file.name)]
    if not stacked or content == "series":
        raise DataError(f"{folder}: has no CONN files with {content}; it has {shown(file.name for file in files)}")
    return _conn_stack(_of_condition(folder, stacked, _ALL_RESULTS, condition)[0], table)


def _of_condition(folder: Path, files: list[Path], pattern: re.Pattern[str], condition: str | None) -> list[Path]:
    numbers = {file: match["condition"] for file in files if (match := pattern.fullmatch(file.name))}
    present = sorted(set(numbers.values()))
    chosen = present[0] if condition is None and len(present) == 1 else (condition or "").zfill(3)
    if chosen not in present:
        raise DataError(
            f"{folder}: has conditions {shown(present)} (named in _list_conditions.txt); choose one with --condition"
        )
    return [file for file in files if numbers[file] == chosen]


def _each(
    people: dict[str, Path], reader: Callable[[Path, str], Person]
) -> Callable[[Collection[str]], Iterator[Person]]:
    return lambda wanted: (reader(file, subject) for subject, file in people.items() if subject in wanted)


def _conn_series(file: Path, subject: str) -> Person:
    found = read_mat(file, ("data", "names", "conditionweights"))
    names, data = _names(file, found.get("names")), found.get("data")
    if not isinstance(data, list) or len(data) < len(names):
        raise FormatError(
            f"{file}: expected CONN's cells 'data' and 'names', one entry a region; "
            "a file without data has them in the .matc file of Condition000, so import that condition"
        )
    keep = [k for k, name in enumerate(names) if not _is_no_node(name)]
    regions = [
        data[k] for k in keep if isinstance(data[k], np.ndarray) and data[k].ndim and data[k].dtype.kind in "fiub"
    ]
    if len({len(region) for region in regions if region.size}) != 1 or len(regions) < len(keep):
        raise FormatError(f"{file}: expected a series of numbers of one length for each region in 'data'")
    # A region of several dimensions has its mean first.
    series = np.column_stack([region.astype(np.float64).reshape(len(region), -1)[:, 0] for region in regions])
    frames = _in_condition(found.get("conditionweights"), len(series))
    return Person(subject, series[frames], "series", tuple(names[k] for k in keep), str(file))


def _in_condition(weights: Any, count: int) -> Array:
    """The frames that belong to the condition: where CONN's first weight is above 0."""
    given = weights[0] if isinstance(weights, list) and weights else None
    first = given.ravel() if isinstance(given, np.ndarray) and given.dtype.kind in "fiub" else np.zeros(0)
    return first > 0 if first.size == count and bool((first > 0).any()) else np.ones(count, dtype=bool)


def _conn_result(file: Path, subject: str) -> Person:
    z, nodes = _square(file)
    return Person(subject, z, "matrix", nodes, str(file))


def _conn_stack(file: Path, table: Path | None) -> Found:
    z, nodes = _square(file)
    z = z[:, :, None] if z.ndim == 2 else z
    subjects = [f"Subject{k + 1:03d}" for k in range(z.shape[2])]

    def stream(wanted: Collection[str]) -> Iterator[Person]:
        for k, name in enumerate(subjects):
            if name in wanted:
                yield Person(name, np.ascontiguousarray(z[:, :, k]), "matrix", nodes, f"{file}, {name}")

    return Found("mat", tuple(subjects), stream, (file,), table_path=table)


def _square(file: Path) -> tuple[Array, tuple[str, ...]]:
    """Z between regions that are sources and targets both, and their names."""
    found = read_mat(file, ("Z", "names", "names2"))
    z = found.get("Z")
    if not isinstance(z, np.ndarray) or z.ndim not in (2, 3) or z.dtype.kind not in "fiub":
        raise FormatError(
            f"{file}: expected CONN's 'Z' (sources × targets × subjects), found {shown(found) or 'nothing'}"
        )
    sources = _names(file, found.get("names"))
    targets = _names(file, found.get("names2", found.get("names")))
    both = [name for name in sources if name in targets and not _is_no_node(name)]
    rows, columns = [sources.index(name) for name in both], [targets.index(name) for name in both]
    if z.shape[:2] != (len(sources), len(targets)) or not both:
        raise FormatError(f"{file}: Z has shape {z.shape} for {len(sources)} sources and {len(targets)} targets")
    return np.asarray(z, dtype=np.float64)[np.ix_(rows, columns)], tuple(both)


def _names(file: Path, names: Any) -> list[str]:
    if isinstance(names, list) and all(isinstance(name, str) for name in names):
        return names
    raise FormatError(f"{file}: expected CONN's cell 'names' with one text a region, found {type(names).__name__}")


def _is_no_node(name: str) -> bool:
    return name in _NO_NODES or name.startswith(_REGRESSOR)
