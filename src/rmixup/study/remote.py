"""Cells taken to a machine that has torch and NumPy only, and their results brought back.

`pack` writes what is still to be done of a study as a folder; `python -m rmixup.train.remote` runs it there; `take`
commits what came back. May not be here: training.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from rmixup.augment.labels import Labels
from rmixup.errors import RMixupError, StoreError
from rmixup.study.cells import Cell
from rmixup.study.material import material
from rmixup.study.project import Study
from rmixup.study.results import Failure, judge
from rmixup.study.work import as_trial, outcome
from rmixup.train.remote import TRIALS, Files, dump_problem, dump_trials, read_results, tried_of
from rmixup.train.trial import Trial, Tried


@dataclass(frozen=True)
class Taken:
    """How many results were committed, how many cells failed, and how many lines were of no cell that was missing."""

    done: int
    failed: int
    passed_over: int


def pack(study: Study, folder: Path) -> int:
    """Write networks and trials of the cells that have no result, and return how many cells that is.

    Parameters
    ----------
    study : opened on a machine that has the data
    folder : new, or packed before: what is there already is kept, and its networks serve this study too. The networks
        in it are as identifiable as the data they came from
    """
    if study.spec.keep_weights:
        raise StoreError("keep_weights: weights stay where they are trained; run this study in one place")
    waiting = [cell for cell in study.cells if not (study.store.has(cell.key) or study.store.has_failed(cell.key))]
    new = _place(folder)
    try:
        dump_trials(folder / TRIALS, _write_networks(study, folder, waiting))
    except BaseException:
        if new:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    return len(waiting)


def _place(folder: Path) -> bool:
    """Make the folder, or see that it is one of ours; says whether it is new."""
    if (folder / TRIALS).is_file():
        return False
    try:
        folder.mkdir(parents=True)
    except FileExistsError as error:
        raise StoreError(f"{folder}: exists already and is no packed study; choose another name") from error
    return True


def _write_networks(study: Study, folder: Path, waiting: list[Cell]) -> list[tuple[Files, dict[str, Trial]]]:
    """The files of each way the data are prepared."""
    alike: dict[tuple[int | None, str | None], list[Cell]] = {}
    for cell in waiting:
        alike.setdefault((cell.length, cell.shorten), []).append(cell)
    return [
        (
            dump_problem(folder, material(study.spec.data, cells[0]).problem),
            {cell.key: as_trial(study.spec.data, cell) for cell in cells},
        )
        for cells in alike.values()
    ]


def take(study: Study, results: Path) -> Taken:
    """Commit results that came back; each is recorded with the machine it was made on."""
    if not results.is_file():
        raise StoreError(f"{results}: not found; expected the file that `python -m rmixup.train.remote` wrote")
    missing = {cell.key: cell for cell in study.cells if not study.store.has(cell.key)}
    done = failed = passed_over = 0
    for line in read_results(results):
        cell = missing.pop(line["key"], None)
        if cell is None:
            passed_over += 1
            continue
        made = material(study.spec.data, cell)
        tried, trial = tried_of(line), as_trial(study.spec.data, cell)
        _require_fitting(results, cell, tried, (len(trial.test), _outputs(made.problem.labels)))
        found = outcome(trial, tried, made, keep_weights=False)
        found = judge(found)
        if isinstance(found, Failure):
            study.store.fail(cell, found)
            failed += 1
        else:
            study.store.commit(cell, found, line["seconds"], line["environment"])
            done += 1
    return Taken(done, failed, passed_over)


def _outputs(labels: Labels) -> int:
    """How many numbers a model gives for each network."""
    return labels.n_classes if labels.numbers is None else int(labels.numbers.shape[1])


def _require_fitting(results: Path, cell: Cell, tried: Tried | RMixupError, shape: tuple[int, int]) -> None:
    if isinstance(tried, Tried) and tried.predictions.shape != shape:
        raise StoreError(
            f"{results}: the result of {cell.key} has predictions of shape {tried.predictions.shape}, expected "
            f"{shape}: were these trials packed from this study?"
        )
