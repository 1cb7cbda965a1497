"""Everything that rmixup writes to keep: how each is written in two versions, and how it is read."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rmixup import Networks, RMixup, simulate
from rmixup.data.store import open_folder
from rmixup.errors import StoreError
from rmixup.study.cells import DataIdentity
from rmixup.study.export import write_table
from rmixup.study.files import write
from rmixup.study.project import Settings as StudySettings
from rmixup.study.project import Study, environment, open_study
from rmixup.study.results import Failure, Result
from rmixup.study.spec import parse_spec, read_spec, template
from rmixup.train.cohort import Settings, train
from rmixup.train.folder import load_model, save_model
from rmixup.train.predictor import Predictions, Predictor, write_predictions


@dataclass(frozen=True)
class Artefact:
    """Something on disk.

    Parameters
    ----------
    place : its name below a folder
    put : writes version 0 or 1 at a place, over what is there
    get : which version is at a place, as a text; a StoreError, FormatError or FileNotFoundError where none is
    sealed : whether every bit of its files is under a checksum
    """

    place: str
    put: Callable[[Path, int], Any]
    get: Callable[[Path], object]
    sealed: bool = True


@cache
def networks(version: int) -> Networks:
    """Twelve small networks with everything that can be known of them."""
    import pandas as pd

    ds = simulate(n_subjects=12, n_nodes=4, n_frames=9, seed=version)
    table = pd.DataFrame({"AGE": np.arange(12.0) + version}, index=pd.Index(ds.subjects, name="subject", dtype=object))
    return ds.join(table)


@cache
def predictor(version: int) -> Predictor:
    """A linear model."""
    return train(simulate(n_subjects=40, n_nodes=4, seed=version), Settings("linear"))


def study(folder: Path, version: int = 0) -> Study:
    """A study of two cells; the versions differ in their settings."""
    text = 'data.path = "x"\nsplit.repeats = 2\ngrid.methods = ["none"]\ngrid.baselines = []'
    data = DataIdentity("0" * 64, subjects=10)
    return Study(folder, parse_spec(text), data, StudySettings(threads=1 + version), "sgd_work", environment())


def result(version: int) -> Result:
    """What a cell may come to."""
    return Result(
        scores={"auroc": 0.75 + version / 8, "r2": float("nan")},
        predictions={"subject": ["a", "../b"], "p": np.array([0.25, 0.1 + version])},
        sizes={"train": 7, "validation": 1, "test": 2},
        curves={"loss": [0.5, 0.25]},
        notes={"epoch": 3},
        weights={"w": np.arange(3.0)},
    )


def _put_cell(folder: Path, version: int) -> None:
    """A committed cell is never written over: only what is not there is done."""
    made = study(folder)
    made.store.sweep()
    made.store.commit(made.cells[0], result(0), 1.0, {})


def _get_cell(folder: Path) -> float:
    made = study(folder)
    if not made.store.done():
        raise StoreError("the cell is to be done")
    return made.store.read(made.cells[0].key).scores["auroc"]


def _put_failure(folder: Path, version: int) -> None:
    made = study(folder)
    made.store.sweep()
    made.store.fail(made.cells[0], Failure("divergence", f"version {version}"))


def _get_failure(folder: Path) -> str:
    made = study(folder)
    found = made.store.failures()
    if not found:
        raise StoreError("the failure is to be found again")
    return found[made.cells[0].key].message


def _get_model(place: Path) -> object:
    return sorted((name, value.tolist()) for name, value in load_model(place).model.state.items())


def put_cache(folder: Path, version: int) -> object:
    """Logarithms of one data set; the cache knows them by content, so versions lie side by side."""
    ds = simulate(n_subjects=12, n_nodes=4, seed=version)
    assert ds.matrices is not None
    prepared = RMixup().prepare(ds.matrices, ds.y, cache=folder)
    return float(prepared.bank.values.sum())


def _put_table(place: Path, version: int) -> None:
    import pandas as pd

    write_table(pd.DataFrame({"p": [version] * 400}), place)


def _put_predictions(place: Path, version: int) -> None:
    values = np.full((400, 2), version + 0.25)
    names = np.array([f"s{k}" for k in range(400)])
    write_predictions(Predictions(names, values, ("a", "b"), "diagnosis", []), place)


def _put_study(folder: Path, version: int) -> None:
    made = study(folder, version)
    folder.mkdir(exist_ok=True)
    made.store.sweep()
    made.save()


def _get_study(folder: Path) -> object:
    return open_study(folder).settings


ARTEFACTS: dict[str, Artefact] = {
    "data set": Artefact(
        "cohort",
        lambda place, version: networks(version).save(place, overwrite=True),
        lambda place: open_folder(place, verify=True).content_hash(),
    ),
    "model": Artefact(
        "model", lambda place, version: save_model(place, predictor(version), overwrite=True), _get_model
    ),
    "study.json": Artefact("study", _put_study, _get_study),
    "cell": Artefact("study", _put_cell, _get_cell),
    "failure": Artefact("study", _put_failure, _get_failure),
    "cache": Artefact("cache", put_cache, lambda folder: put_cache(folder, 0)),
    "predictions": Artefact("p.tsv", _put_predictions, Path.read_bytes, sealed=False),
    "export": Artefact("t.csv", _put_table, Path.read_bytes, sealed=False),
    "spec": Artefact(
        "s.toml",
        lambda place, version: write(place, template("s.toml", bool(version)).encode()),
        lambda place: read_spec(place).protocol.epochs,
        sealed=False,
    ),
}


def warm() -> None:
    """Make what the artefacts hold before anything is forked: training uses threads."""
    torch.set_num_threads(1)
    for version in (0, 1):
        networks(version), predictor(version)


__all__ = ["ARTEFACTS", "Artefact", "put_cache", "result", "study", "warm"]
