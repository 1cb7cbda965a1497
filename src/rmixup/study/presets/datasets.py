"""Named data sets: how the public cohorts of the paper are read and prepared, and simulated ones of others' size.

`DATASETS` is a plain dict: a name and its fields of a spec's [data], which a spec may override one by one. `path` is
the folder with the files as their owners distribute them, or what `rmixup fetch` or `rmixup import` wrote. May not be
here: computation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rmixup.errors import DataError

if TYPE_CHECKING:
    from rmixup.data.networks import Networks


@dataclass(frozen=True)
class DataSet:
    """A named data set.

    Parameters
    ----------
    about : what it is, in a sentence
    fields : of a spec's [data]
    file : the file to read below the folder; the folder itself where it is None
    beside : options that name files beside it
    simulated : arguments of `rmixup.simulate`, where there is nothing to read; [data] options override them
    paper : the column of the paper's tables that it stands in, where it is the paper's own data
    """

    about: str
    fields: Mapping[str, Any]
    file: str | None = None
    beside: tuple[str, ...] = ()
    simulated: Mapping[str, Any] | None = None
    paper: str | None = None


# The cohort of the literature: everybody with 100 frames or more. 46 of its 1009 people have regions that do not
# vary; "zero" leaves these regions unconnected, so that nobody is lost, and is recorded.
_COHORT = {"constant": "zero", "least_frames": 100}
_ABIDE = {"layout": "auto", "groups": "SITE_ID", "options": {**_COHORT, "atlas": "cc200"}}
_WHOLE = {**_ABIDE, "kind": "ledoit-wolf"}
_NUMBERS = {**_WHOLE["options"], "task": "regression", "drop_unlabelled": True}  # type: ignore[dict-item]
# Rank 49 to 61 of 419: shrinkage is what makes them positive definite.
_UCLA = {"regularize": "shrink=0.1", "options": {"task": "regression", "drop_unlabelled": True}}
_SCORES = [f"LC{k}_BEHAV_COMPOSITE_SCORE" for k in (1, 2, 3)]
_TCGA_FILES = {"file": "mirna.tsv.gz", "beside": ("labels",)}
_TCGA = {
    "labels": "mirna_labels.csv",
    "networks_per_class": 10,
    "top_k": 50,
    "min_detect": 0.5,
    "drop_small_classes": True,
    "constant": "zero",
}

DATASETS: dict[str, DataSet] = {
    "abide-100": DataSet(
        "ABIDE as in the paper: 1009 people, CC200, the first 100 frames, 100 nodes drawn; t = n, so singular",
        {**_ABIDE, "target": "ASD", "nodes": 100, "frames": 100, "regularize": "floor=1e-6"},
        paper="abide",
    ),
    "abide-full": DataSet("ABIDE, 1009 people, CC200, all frames, Ledoit-Wolf; autism", {**_WHOLE, "target": "ASD"}),
    "abide-sex": DataSet("ABIDE, 1009 people, CC200, all frames, Ledoit-Wolf; sex", {**_WHOLE, "target": "SEX"}),
    "abide-age": DataSet(
        "ABIDE, CC200, all frames, Ledoit-Wolf; age (regression)",
        {**_WHOLE, "target": "AGE_AT_SCAN", "options": _NUMBERS},
    ),
    "abide-fiq": DataSet(
        "ABIDE, CC200, all frames, Ledoit-Wolf; full-scale IQ (regression; people without one are left out)",
        {**_WHOLE, "target": "FIQ", "options": _NUMBERS},
    ),
    "abide-ho": DataSet(
        "ABIDE, Harvard-Oxford atlas of 111 regions, all frames, Ledoit-Wolf; autism; for study D",
        {**_WHOLE, "target": "ASD", "options": {**_COHORT, "atlas": "ho"}},
    ),
    "ucla-age": DataSet("UCLA CNP, 419 regions, rank 49 to 61, shrunk; age (regression)", {**_UCLA, "target": "AGE"}),
    "ucla-scores": DataSet(
        "UCLA CNP, 419 regions, rank 49 to 61, shrunk; three behavioural composite scores at once (regression)",
        {**_UCLA, "target": _SCORES},
    ),
    "tcga-24": DataSet(
        "TCGA microRNA: 24 tumour types × 10 networks of 50 features; not the paper's own TCGA set",
        {"target": "cancer_type", "regularize": "shrink=0.05", "options": {**_TCGA, "per_network": 60}},
        **_TCGA_FILES,  # type: ignore[arg-type]
    ),
    "tcga-24-hard": DataSet(
        "the same with 14 samples a network; not the paper's own TCGA set",
        {"target": "cancer_type", "regularize": "shrink=0.05", "options": {**_TCGA, "per_network": 14}},
        **_TCGA_FILES,  # type: ignore[arg-type]
    ),
    "simulated": DataSet(
        "SIMULATED, 200 people of 40 nodes at 4 sites, two classes that differ; to see how things work",
        {},
        simulated={"n_subjects": 200, "n_nodes": 40, "n_frames": 120, "n_sites": 4, "seed": 0},
    ),
    "simulated-score": DataSet(
        "SIMULATED, the same size with a score to predict (regression)",
        {},
        simulated={"n_subjects": 200, "n_nodes": 40, "n_frames": 120, "n_sites": 4, "task": "regression", "seed": 0},
    ),
    "simulated-abcd-sex": DataSet(
        "SIMULATED, of the size of ABCD (7901 people, 360 nodes, 22 sites); it says nothing of ABCD; about 30 GB of "
        "memory, less with options.n_subjects",
        {},
        simulated={"n_subjects": 7901, "n_nodes": 360, "n_frames": (375, 750), "n_sites": 22, "seed": 0},
    ),
    "simulated-pnc": DataSet(
        "SIMULATED, of the size of PNC (503 people, 120 of 264 nodes, 120 frames, so singular); it says nothing of PNC",
        {"nodes": 120, "regularize": "floor=1e-6"},
        simulated={"n_subjects": 503, "n_nodes": 264, "n_frames": 120, "n_sites": 1, "seed": 0},
    ),
}


def find(name: str) -> DataSet:
    """A named data set, or an error with all names."""
    if name not in DATASETS:
        raise DataError(f"no data set is named {name!r}; there are: {', '.join(DATASETS)}")
    return DATASETS[name]


def filled(given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a [data] with those of its preset where it says nothing; options one by one.

    >>> filled({"preset": "abide-100", "path": "abide", "nodes": 50})["nodes"]
    50
    """
    preset = find(str(given["preset"]))
    options = {**preset.fields.get("options", {}), **given.get("options", {})}
    return {**preset.fields, **given, "options": options}


def simulated(name: str, options: Mapping[str, Any]) -> Networks:
    """The networks of a simulated data set."""
    preset = find(name)
    if preset.simulated is None:
        raise DataError(f"preset {name!r} needs `path` in [data]: the folder with its files")
    from rmixup.data.readers.simulate import simulate

    return simulate(**{**preset.simulated, **options})


def place(name: str | None, folder: Path, options: Mapping[str, Any]) -> tuple[Path, dict[str, Any]]:
    """What to read below a folder, and the reader's options with the files beside it."""
    preset = DATASETS.get(name or "", DataSet("", {}))
    found = {key: str(folder / value) if key in preset.beside else value for key, value in options.items()}
    return (folder if preset.file is None else folder / preset.file), found
