"""BIDS derivatives: xcp_d and giga_connectome (.tsv, .h5), CIFTI (.ptseries.nii, .pconn.nii), fMRIPrep with an atlas.

File names say what a file is: `sub-01_ses-1_task-rest_atlas-Schaefer100_stat-mean_timeseries.tsv`. What differs between
the files of one subject must be chosen (`atlas`, `entity`), or the files taken together (`runs`).
"""

from __future__ import annotations

import logging
import re
import warnings
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rmixup.data.labels import shown
from rmixup.data.readers._files import (
    MAX_RATIO,
    Array,
    check_size,
    existing,
    h5_array,
    h5_datasets,
    need,
    open_h5,
)
from rmixup.data.readers._people import Found, Person, classify
from rmixup.data.readers._text import read_grid
from rmixup.errors import DataError, FormatError

DESCRIPTION = (
    "BIDS derivatives: sub-*/**/*_timeseries.tsv, *_relmat.tsv, *.ptseries.nii, *.pconn.nii, *.h5, *_bold.nii.gz"
)
OPTIONS = ("content", "atlas", "entity", "runs", "atlas_image", "confounds")

# What a file's name ends in -> what it holds. Older versions of xcp_d wrote conmat for relmat.
_ENDINGS = {
    "_timeseries.tsv": "series",
    ".ptseries.nii": "series",
    "_relmat.tsv": "matrices",
    "_conmat.tsv": "matrices",
    ".pconn.nii": "matrices",
}
_BOLD = ("_desc-preproc_bold.nii.gz", "_desc-denoised_bold.nii.gz")
_H5 = (".h5", ".hdf5")
_ENTITY = re.compile(r"([a-zA-Z]+)-([a-zA-Z0-9+.]+)")
# The same thing under the names that tools gave it over the years.
_SAME = {"seg": "atlas", "parcellation": "atlas", "measure": "stat", "meas": "stat", "statistic": "stat"}
RUNS = ("error", "each", "average", "concatenate")


@dataclass(frozen=True)
class Scan:
    """One file, or one dataset in an .h5 file, with the entities of its name."""

    file: Path
    entities: Mapping[str, str]
    content: str
    inside: str = ""

    @property
    def where(self) -> str:
        """The file, and the place in it."""
        return f"{self.file}, {self.inside}" if self.inside else str(self.file)


def recognises(path: Path) -> bool:
    """A folder (or an .h5 file) with names as BIDS derivatives have them."""
    if path.is_file():
        return path.name.endswith(_H5)
    found = any(_content(file.name) or file.name.endswith(_BOLD) for file in path.rglob("sub-*"))
    return found or any(file.name.endswith(_H5) for file in path.iterdir())


def read(
    path: Path,
    *,
    labels: str | Path | None = None,
    content: str = "auto",
    atlas: str | None = None,
    entity: str | Sequence[str] = (),
    runs: str = "error",
    atlas_image: str | Path | None = None,
    confounds: str = "simple",
) -> Found:
    """Find the scans of a folder of derivatives.

    `runs` says what becomes of several scans of a subject: "each" is a network of its own (a split keeps them
    together), "average" the mean of their matrices, "concatenate" their series, standardised, one after the other.
    """
    if runs not in RUNS:
        raise DataError(f"--runs must be one of {', '.join(RUNS)}, not {runs!r}")
    wanted = dict(_pair(text) for text in ([entity] if isinstance(entity, str) else entity))
    wanted |= {} if atlas is None else {"atlas": atlas}
    scans = _of_content(path, _scans(path, atlas_image is not None), content)
    scans = _with_entities(path, scans, wanted)
    people = _by_subject(path, scans, runs)
    reader = _Reader(atlas_image, confounds)

    def stream(chosen: Collection[str]) -> Iterator[Person]:
        for subject, own in people.items():
            if subject in chosen:
                yield from _together(subject, [reader.person(subject, scan) for scan in own], runs)

    ids = tuple(name for name, own in people.items() for _ in (own if runs == "each" else own[:1]))
    files = tuple(dict.fromkeys(scan.file for scan in scans))
    step = ("scans", {"entities": wanted, "content": scans[0].content, "runs": runs})
    return Found("bids", ids, stream, files, table_path=None if labels else _participants(path), steps=(step,))


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise DataError(f"--entity {text!r} must be KEY=VALUE, such as ses=01 or task=rest")
    return _SAME.get(key, key), value


def entities_of(name: str) -> dict[str, str]:
    """The entities of a BIDS name, older keys under their present names.

    >>> entities_of("sub-01_ses-1_seg-Gordon_meas-PearsonCorrelation_relmat.tsv")
    {'sub': '01', 'ses': '1', 'atlas': 'Gordon', 'stat': 'PearsonCorrelation'}
    """
    return {_SAME.get(key, key): value for key, value in _ENTITY.findall(name.split(".", maxsplit=1)[0])}


# ------------------------------------------------------------------------------------------------ which scans


def _scans(path: Path, images: bool) -> list[Scan]:
    if path.is_file():
        return _h5_scans(path)
    files = sorted(file for file in path.rglob("sub-*") if not file.is_dir())
    if images:
        return [Scan(file, entities_of(file.name), "series") for file in files if file.name.endswith(_BOLD)]
    scans = [Scan(file, entities_of(file.name), content) for file in files if (content := _content(file.name))]
    inside = [scan for file in sorted(path.iterdir()) if file.name.endswith(_H5) for scan in _h5_scans(file)]
    if not scans and not inside:
        raise DataError(
            f"{path}: has images (*_bold.nii.gz) but no series of regions; name a parcellation with --atlas-image FILE"
        )
    return scans + inside


def _content(name: str) -> str | None:
    """What a file holds by its name; fMRIPrep's confounds end as series of regions do."""
    if "_desc-confounds_" in name:
        return None
    return next((content for ending, content in _ENDINGS.items() if name.endswith(ending)), None)


def _h5_scans(file: Path) -> list[Scan]:
    """giga_connectome's file: sub-01[/ses-1]/…_timeseries and …_connectome."""
    with open_h5(file) as opened:
        names = [name for name, _ in h5_datasets(file, opened)]
    ends = {"_timeseries": "series", "_connectome": "matrices"}
    scans = [
        Scan(file, entities_of(name.replace("/", "_")), content, name)
        for name in names
        for ending, content in ends.items()
        if name.endswith(ending) and "sub-" in name
    ]
    if not scans:
        raise FormatError(
            f"{file}: expected giga_connectome's sub-…/…_timeseries or …_connectome, found {shown(names) or 'nothing'}"
        )
    return scans


def _of_content(path: Path, scans: list[Scan], content: str) -> list[Scan]:
    """Series where there are some, unless matrices are asked for: more can be done with series."""
    present = {scan.content for scan in scans}
    chosen = ("series" if "series" in present else "matrices") if content == "auto" else content
    if chosen not in present:
        raise DataError(f"{path}: has no {chosen}, only {shown(sorted(present))}; choose with --content")
    return [scan for scan in scans if scan.content == chosen]


def _with_entities(path: Path, scans: list[Scan], wanted: Mapping[str, str]) -> list[Scan]:
    for key, value in wanted.items():
        there = sorted({scan.entities[key] for scan in scans if key in scan.entities})
        scans = [scan for scan in scans if scan.entities.get(key) == value]
        if not scans:
            raise DataError(f"{path}: no scan has {key}-{value}; there are: {shown(there, 20) or 'none with ' + key}")
    atlases = sorted({scan.entities["atlas"] for scan in scans if "atlas" in scan.entities})
    if len(atlases) > 1:
        raise DataError(f"{path}: has several atlases ({shown(atlases, 20)}); choose one with --atlas {atlases[0]}")
    return scans


def _by_subject(path: Path, scans: list[Scan], runs: str) -> dict[str, list[Scan]]:
    people: dict[str, list[Scan]] = defaultdict(list)
    for scan in scans:
        people[f"sub-{scan.entities.get('sub', '')}"].append(scan)
    several = {name: own for name, own in people.items() if len(own) > 1}
    if several and runs == "error":
        name, own = next(iter(several.items()))
        keys = sorted({key for scan in own for key in scan.entities})
        differ = {key: sorted({scan.entities.get(key, "none") for scan in own}) for key in keys}
        choices = "; ".join(f"{key}: {shown(values)}" for key, values in differ.items() if len(values) > 1)
        raise DataError(
            f"{path}: {len(several)} subjects have several scans ({name} has {len(own)}, which differ in "
            f"{choices or 'kind'}); choose with --entity KEY=VALUE, or take them together with --runs each, average or "
            "concatenate"
        )
    return dict(people)


def _participants(path: Path) -> Path | None:
    """participants.tsv of the derivatives, or of the dataset they belong to."""
    start = path if path.is_dir() else path.parent
    places = [start, *list(start.resolve().parents)[:3]]
    return next((place / "participants.tsv" for place in places if (place / "participants.tsv").is_file()), None)


# ------------------------------------------------------------------------------------------------ their numbers


class _Reader:
    """Reads scans of every kind; holds the masker, which is costly to make."""

    def __init__(self, atlas_image: str | Path | None, confounds: str) -> None:
        self._image = None if atlas_image is None else existing(Path(atlas_image))
        self._confounds = confounds
        self._masker: Any = None

    def person(self, subject: str, scan: Scan) -> Person:
        values, nodes = self._values(scan)
        values, kind = classify(values, scan.where, scan.content)
        return Person(subject, values, kind, nodes, scan.where)

    def _values(self, scan: Scan) -> tuple[Array, tuple[str, ...] | None]:
        if scan.inside:
            with open_h5(scan.file) as opened:
                return h5_array(scan.file, opened[scan.inside]), None
        if scan.file.name.endswith(_BOLD):
            return self._extract(existing(scan.file)), self._regions()
        if scan.file.name.endswith(".nii"):
            return _cifti(existing(scan.file))
        grid = read_grid(existing(scan.file))
        return grid.values, grid.columns

    def _extract(self, image: Path) -> Array:
        """Mean series of the atlas's regions, cleaned of the confounds that fMRIPrep wrote beside the image."""
        assert self._image is not None
        maskers, fmriprep = need("nilearn.maskers", image), need("nilearn.interfaces.fmriprep", image)
        if self._masker is None:
            self._masker = maskers.NiftiLabelsMasker(str(self._image), resampling_target="data", standardize=None)
        _opened(image, "NIfTI")
        try:
            confounds, kept = (
                fmriprep.load_confounds_strategy(str(image), denoise_strategy=self._confounds)
                if self._confounds != "none"
                else (None, None)
            )
            return np.asarray(self._masker.fit_transform(str(image), confounds=confounds, sample_mask=kept))
        except Exception as error:  # nibabel, nilearn and pandas raise many kinds on damaged files
            raise FormatError(
                f"{image}: its series cannot be taken with {self._image} and confounds {self._confounds!r} "
                f"({' '.join(str(error).split())[:300]}); choose with --confounds, or none"
            ) from None

    def _regions(self) -> tuple[str, ...]:
        names = self._masker.region_names_ or {}
        ids = self._masker.region_ids_
        return tuple(str(names.get(key, ids[key])) for key in sorted(key for key in ids if key != "background"))


def _opened(file: Path, what: str) -> Any:
    """An image; refused when it declares more than its file can hold, before memory is taken for its numbers."""
    nibabel = need("nibabel", file)
    try:
        with warnings.catch_warnings(), _unlogged("nibabel.global"):  # what is wrong is said once, by us
            warnings.filterwarnings("error", message="Dataobj shape")  # other than CIFTI's own header says
            image = nibabel.load(str(file))
        header = getattr(image, "nifti_header", image.header)  # CIFTI has one of its own inside a NIfTI's
        shape, dtype = tuple(map(int, header.get_data_shape())), header.get_data_dtype()
    except Exception as error:
        raise _unreadable(file, what, error) from None
    check_size(str(file), shape, dtype, file.stat().st_size * (MAX_RATIO if file.suffix == ".gz" else 1))
    return image


@contextmanager
def _unlogged(name: str) -> Iterator[None]:
    logger = logging.getLogger(name)
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def _unreadable(file: Path, what: str, error: Exception) -> FormatError:
    """nibabel raises errors of many kinds on a damaged file, some of them long."""
    return FormatError(f"{file}: cannot be read as {what} ({' '.join(str(error).split())[:200]}); copy it again")


def _cifti(file: Path) -> tuple[Array, tuple[str, ...] | None]:
    nibabel = need("nibabel", file)
    image = _opened(file, "CIFTI")
    try:
        values = np.asarray(image.get_fdata())
        axes = [image.header.get_axis(k) for k in range(values.ndim)]
    except Exception as error:
        raise _unreadable(file, "CIFTI", error) from None
    parcels = [axis for axis in axes if isinstance(axis, nibabel.cifti2.ParcelsAxis)]
    if not parcels:
        raise FormatError(f"{file}: has no parcels (is it a dense file?); parcellate it first")
    return values, tuple(map(str, parcels[-1].name))


def _together(subject: str, people: list[Person], runs: str) -> list[Person]:
    """Several scans as one person, or each by itself."""
    if len(people) == 1 or runs == "each":
        return people
    first = people[0]
    if {person.values.shape[1] for person in people} != {first.values.shape[1]}:
        raise DataError(f"{first.where}: the scans of {subject} have different nodes; choose with --atlas or --entity")
    if runs == "average" and first.kind == "matrix":
        values = np.mean([person.values for person in people], axis=0)
    elif runs == "concatenate" and first.kind == "series":
        values = np.concatenate([_standardised(person.values) for person in people])
    else:
        raise DataError(
            f"{first.where}: --runs {runs} does not go with {first.kind}; --runs concatenate is for series, average "
            "for matrices (--content matrices)"
        )
    return [Person(subject, values, first.kind, first.nodes, first.where)]


def _standardised(series: Array) -> Array:
    """Each node with mean 0 and deviation 1 within the run, so that no run outweighs another; constants become 0."""
    centred = series - series.mean(axis=0)
    deviation = centred.std(axis=0)
    return np.asarray(centred / np.where(deviation > 0, deviation, 1.0))
