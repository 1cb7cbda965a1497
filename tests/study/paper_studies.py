"""Finished studies of the paper for tests: real presets, store and statistics; the cells' results are drawn."""

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from rmixup import keys, simulate
from rmixup.study import work
from rmixup.study.cells import Cell
from rmixup.study.presets import find
from rmixup.study.presets.findings import Findings
from rmixup.study.presets.opening import Opened, for_measuring, opened
from rmixup.study.project import Settings, Study, begin
from rmixup.study.results import Failure, Result
from rmixup.study.spec import Data

# How far each method's scores lie above those of none, in the unit of the score.
SKILL = {"none": 0.0, "vmixup": 0.01, "cmixup": 0.0, "rmixup": 0.08, "dropedge": -0.1, "linear": 0.02, "tangent": 0.04}
STEPS = [
    {"method": name, "n": 8, "batch": 16, "seconds": seconds, "error": 1e-6}
    for name, seconds in (
        ("paper step", 0.1), ("pre-computed eigh step", 0.05), ("matrix_exp", 0.02), ("rmixup", 0.01), ("vmixup", 0.001)
    )
]  # fmt: skip


def cohort(folder: Path, **how: Any) -> Opened:
    """A small simulated cohort on disk, opened; 40 people, 8 nodes, 20 to 30 frames, so positive definite."""
    given = {"n_subjects": 40, "n_nodes": 8, "n_frames": (20, 30), "n_sites": 2, **how}
    simulate(**given).save(folder)
    return opened(Data(path=str(folder)))


def scored(cell: Cell, regression: bool) -> dict[str, float]:
    """Scores of a cell: alike for all methods on a split but for their skill and a little of their own."""
    name = cell.backbone.name if cell.is_baseline else cell.method.name
    split = keys.generator(0, "split", cell.repeat).normal(0.7, 0.03)
    value = split + SKILL.get(name, 0.0) + keys.generator(1, cell.key).normal(0, 0.003)
    scores = {"mse": 2 - value} if regression else {"auroc": value, "accuracy": value - 0.1}
    return {key: float(number) for key, number in scores.items()}


def curves(cell: Cell) -> dict[str, list[float]]:
    """Test losses that rise at the end for none, and hardly for others."""
    at = np.linspace(0, 1, 6)
    rise = (1.0 if cell.method.name == "none" else 0.05) + keys.generator(2, cell.key).normal(0, 0.01)
    test = 0.7 - 0.2 * at + rise * np.clip(at - 0.5, 0, None)
    return {"train_loss": list(0.7 - 0.6 * at), "validation_loss": list(test + 0.01), "test_loss": list(test)}


def result(cell: Cell, regression: bool) -> Result:
    """What the store keeps of a drawn cell."""
    sizes = {"train": round(28 * cell.train_size), "validation": 4, "test": 8}
    seconds = 2.0 + (cell.method.name == "rmixup") + 0.1 * cell.repeat
    return Result(scored(cell, regression), {"subject": ["s"], "truth": ["a"]}, sizes,
                  {} if cell.is_baseline else curves(cell), {"training": seconds})  # fmt: skip


def study_of(module: ModuleType, found: Opened, folder: Path, fail: str = "", **how: Any) -> Study:
    """A preset's study with every cell done, but for those of the method `fail`."""
    spec = module.spec_for(found, **how)
    study = begin(folder, spec, work.identify(spec.data), Settings(), "rmixup.study.work")
    for cell in study.cells:
        if cell.method.name == fail:
            study.store.fail(cell, Failure("divergence", "the training loss was not finite in epoch 3"))
        else:
            study.store.commit(cell, result(cell, found.ds.classes is None), 1.0, {"threads": "1", "host": "a"})
    return study


def findings_of(name: str, found: Opened, folder: Path, **how: Any) -> Findings:
    """What a preset finds in drawn results, or measures."""
    module = find(name)
    if hasattr(module, "compute"):
        ds, regularizer = for_measuring(found)
        return module.compute(ds, regularizer=regularizer, quick=True)
    study = study_of(module, found, folder, quick=True, **how)
    return module.finish(study, STEPS, "a machine") if name == "time" else module.finish(study)
