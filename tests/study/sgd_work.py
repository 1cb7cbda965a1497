"""A real, small work for the study machinery: linear models by scikit-learn, trained for a few epochs.

The method's options ask for trouble: `sleep` seconds; `fault` = "raise" | "diverge" | "die once" | "die".
"""

import hashlib
import os
import signal
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.metrics import accuracy_score, roc_auc_score

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
    rng = keys.generator(cell.seed, cell.key)
    names = [SUBJECT_NAMES[k] if k < len(SUBJECT_NAMES) else f"s{k}" for k in test]
    p, curve = _baseline(x, y, train, test) if cell.is_baseline else _sgd(cell, x, y, train, test, rng)
    if options.get("fault") == "diverge":
        p = np.full(len(p), np.nan)
    if options.get("fault") == "declare":
        return Failure("divergence", "loss was inf in epoch 2")
    return Result(
        scores={"auroc": roc_auc_score(y[test], np.nan_to_num(p)), "accuracy": accuracy_score(y[test], p > 0.5)},
        predictions={"subject": names, "truth": y[test], "p": p},
        sizes={"train": 36, "validation": 6, "test": 18},
        curves={"loss": curve} if curve else {},
        timings={"fit": 0.001},
        notes={"n_features": x.shape[1]},
        weights={"p": p} if study.spec.keep_weights else {},
    )


def _baseline(x: Floats, y: Floats, train: Floats, test: Floats) -> tuple[Floats, list[float]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return LogisticRegression().fit(x[train], y[train]).predict_proba(x[test])[:, 1], []


def _sgd(cell: Cell, x: Any, y: Any, train: Any, test: Any, rng: np.random.Generator) -> tuple[Floats, list[float]]:
    model = SGDClassifier(loss="log_loss", random_state=cell.seed)
    losses = []
    for _ in range(dict(cell.protocol)["epochs"]):
        partner, lam = rng.permutation(train), rng.random() if cell.method.name == "mix" else 0.0
        mixed = (1 - lam) * x[train] + lam * x[partner]
        model.partial_fit(mixed, y[train] if lam < 0.5 else y[partner], classes=[0, 1])
        losses.append(float(-np.log(model.predict_proba(x[train])[range(len(train)), y[train]]).mean()))
    return model.predict_proba(x[test])[:, 1], losses
