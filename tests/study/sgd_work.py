"""A real, small work for the study machinery: ridge and logistic regressions, in NumPy so that workers start at once.

The method's options ask for trouble: `sleep` seconds; `fault` = "raise" | "diverge" | "die once" | "die".
"""

import hashlib
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rmixup import keys
from rmixup.study.cells import Cell, DataIdentity
from rmixup.study.project import Study
from rmixup.study.results import Failure, Outcome, Result
from rmixup.study.spec import Data

Make = Callable[..., Study]
Floats = NDArray[np.float64]
SUBJECT_NAMES = ["../x", "=cmd()", "<script>alert(1)</script>", "a\tb\nc", "\u202eabc", "x" * 300, "\N{BRAIN}", '"']


@cache
def load(path: str) -> tuple[Floats, NDArray[np.int64]]:
    with np.load(path, allow_pickle=False) as file:
        rows, columns = np.triu_indices(file["matrices"].shape[1], 1)
        return file["matrices"][:, rows, columns], file["y"]


def identify(data: Data) -> DataIdentity:
    load.cache_clear()
    x, y = load(str(data.path))
    return DataIdentity(hashlib.sha256(x.tobytes() + y.tobytes()).hexdigest(), len(y))


def work(group: Sequence[Cell], study: Study) -> Iterator[tuple[Cell, Outcome]]:
    for cell in group:
        options = dict(cell.method.options)
        time.sleep(options.get("sleep", 0))
        _fault(str(options.get("fault", "")), study)
        yield cell, _run(cell, study, options)


def _fault(kind: str, study: Study) -> None:
    if kind == "raise":
        raise ValueError("asked to")
    marker = study.folder / "died"
    if kind == "die" or (kind == "die once" and not marker.exists()):
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)


def _run(cell: Cell, study: Study, options: dict[str, Any]) -> Outcome:
    x, y = load(str(study.spec.data.path))
    order = keys.generator(0, "split", cell.repeat).permutation(len(y))
    train, _, test = np.split(order, [36, 42])
    names = [SUBJECT_NAMES[k % len(SUBJECT_NAMES)] for k in test]
    p, curve = _baseline(x, y, train, test) if cell.is_baseline else _sgd(cell, x, y, train, test)
    if options.get("fault") == "diverge":
        p = np.full(len(p), np.nan)
    if options.get("fault") == "declare":
        return Failure("divergence", "loss was inf in epoch 2")
    return Result(
        scores={"auroc": _auroc(y[test], p), "accuracy": float(((p > 0.5) == y[test]).mean())},
        predictions={"subject": names, "truth": y[test], "p": p},
        sizes={"train": 36, "validation": 6, "test": 18},
        curves={"loss": curve} if curve else {},
        timings={"fit": 0.001},
        notes={"n_features": x.shape[1]},
        weights={"p": p} if study.spec.keep_weights else {},
    )


def _auroc(y: Any, p: Floats) -> float:
    """The share of pairs of the two classes that are in order."""
    above = p[y == 1][:, None] - p[y == 0]
    return float(((above > 0) + 0.5 * (above == 0)).mean())


def _baseline(x: Any, y: Any, train: Any, test: Any) -> tuple[Floats, list[float]]:
    gram = x[train].T @ x[train] + np.eye(x.shape[1])
    return 0.5 + x[test] @ np.linalg.solve(gram, x[train].T @ (y[train] - 0.5)), []


def _sgd(cell: Cell, x: Any, y: Any, train: Any, test: Any) -> tuple[Floats, list[float]]:
    rng = keys.generator(cell.seed, cell.key)
    weights, losses = rng.normal(0, 0.1, x.shape[1]), []
    for _ in range(dict(cell.protocol)["epochs"]):
        partner, lam = rng.permutation(train), rng.random() if cell.method.name == "mix" else 0.0
        mixed, label = (1 - lam) * x[train] + lam * x[partner], (1 - lam) * y[train] + lam * y[partner]
        p = _sigmoid(mixed @ weights)
        weights -= mixed.T @ (p - label) / len(train)
        losses.append(float(-np.log(np.where(y[train] == 1, p, 1 - p)).mean()))
    return _sigmoid(x[test] @ weights), losses


def _sigmoid(z: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-z)))
