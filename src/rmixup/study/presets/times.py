"""Study F: what an augmentation costs in training time, and R-Mixup's step as the paper does it and as we do.

Runs are timed one by one: a stack or several processes would share the time between methods.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rmixup.study import material
from rmixup.study.presets.findings import Findings
from rmixup.study.presets.training import METHOD, METHODS, REFERENCE, Outcome, Row, build, facts, missing_sentences

if TYPE_CHECKING:
    from rmixup.study.presets.opening import Opened
    from rmixup.study.project import Study
    from rmixup.study.spec import Spec

NAME = "time"
# Every epoch costs the same, so few of them tell; a median over repeats leaves the first run's start-up out.
EPOCHS, QUICK_EPOCHS = 20, 5
REPEATS = 3
# Steps as `rmixup bench spd` names them -> what they are.
STEPS = {
    "paper step": "as the paper's code: three eigen-decompositions",
    "pre-computed eigh step": "logs cached, one eigen-decomposition",
    "matrix_exp": "logs cached, torch.linalg.matrix_exp",
    "rmixup": "logs cached, matrix products (rmixup)",
    "vmixup": "straight mix, no geometry",
}


def spec_for(found: Opened, *, quick: bool = False, repeats: int | None = None) -> Spec:
    """Eight methods with the Transformer, few epochs; all else is the paper's protocol."""
    epochs = QUICK_EPOCHS if quick else EPOCHS
    return build(
        NAME, found, {"methods": METHODS}, quick=quick, repeats=repeats or (None if quick else REPEATS), epochs=epochs
    )


def finish(study: Study, steps: Sequence[Row] = (), machine: str = "") -> Findings:
    """Tables "time" (a row a method), "steps" (a row a way to mix a batch) and "runs" (a row a run).

    Parameters
    ----------
    study : the timed runs
    steps : rows of the bench "spd" for one number of nodes and batch 16, measured where this is called
    machine : what that is
    """
    import pandas as pd

    outcome = Outcome(study)
    runs = _runs(study)
    table = _times(runs)
    stepped = _steps(steps)
    tables = {NAME: pd.DataFrame(table), "steps": pd.DataFrame(stepped), "runs": pd.DataFrame(runs)}
    said = [*missing_sentences(outcome), *_of_runs(table, outcome), *_of_steps(stepped)]
    return Findings(NAME, tables, {**facts(outcome), "timed_on": _hosts(study), "steps_on": machine}, said)


def _runs(study: Study) -> list[Row]:
    rows: list[Row] = []
    for cell in study.cells:
        if not study.store.has(cell.key):
            continue
        record = study.store.read(cell.key)
        epochs = None if cell.is_baseline else study.spec.protocol.epochs
        seconds = record.timings["training"]
        rows.append({
            "method": cell.backbone.name if cell.is_baseline else cell.method.name, "split": cell.repeat,
            "epochs": epochs, "seconds": seconds, "seconds_per_epoch": None if epochs is None else seconds / epochs,
        })  # fmt: skip
    return rows


def _times(runs: Sequence[Row]) -> list[Row]:
    """Medians; `ratio` is to training without augmentation, undefined for linear models, which have no epochs."""
    names = list(dict.fromkeys(row["method"] for row in runs))
    seconds = {name: float(np.median([row["seconds"] for row in runs if row["method"] == name])) for name in names}
    epochs = {row["method"]: row["epochs"] for row in runs}
    base = seconds.get(REFERENCE)
    return [
        {
            "method": name,
            "seconds": seconds[name],
            "milliseconds_per_epoch": None if epochs[name] is None else 1000 * seconds[name] / epochs[name],
            "ratio": None if epochs[name] is None or base is None else seconds[name] / base,
        }
        for name in names
    ]


def _steps(steps: Sequence[Row]) -> list[Row]:
    found = {row["method"]: row for row in steps if row["method"] in STEPS}
    if not found:
        return []
    paper = found["paper step"]["seconds"]
    return [
        {
            "step": name,
            "what": what,
            "nodes": found[name]["n"],
            "batch": found[name]["batch"],
            "milliseconds": 1000 * found[name]["seconds"],
            "times_faster_than_paper": paper / found[name]["seconds"],
            "error": found[name]["error"],
        }
        for name, what in STEPS.items()
    ]


def _hosts(study: Study) -> list[dict[str, Any]]:
    """Where runs were timed: processor, device and threads, without the machine's name."""
    kept = ("processor", "machine", "device", "threads")
    found = [study.store.read(key).environment for key in sorted(study.store.done())]
    return [dict(one) for one in dict.fromkeys(tuple((k, env[k]) for k in kept if k in env) for env in found)]


# ---- words


def _of_runs(table: Sequence[Row], outcome: Outcome) -> list[str]:
    rows = {row["method"]: row for row in table}
    if REFERENCE not in rows or METHOD not in rows:
        return []
    nodes = material.choose_nodes(outcome.ds, outcome.study.spec.data.nodes).n_nodes
    own, base = rows[METHOD], rows[REFERENCE]
    slowest = max((row for row in table if row["ratio"] is not None), key=lambda row: row["ratio"])
    return [
        f"{len(outcome.ds)} networks of {nodes} nodes, {outcome.study.spec.split.repeats} runs a method, timed one by "
        f"one: an epoch takes {base['milliseconds_per_epoch']:.0f} ms without augmentation and "
        f"{own['milliseconds_per_epoch']:.0f} ms with {METHOD} ({own['ratio']:.2f} times; logarithms, taken once, "
        "included).",
        f"The slowest method is {slowest['method']} ({slowest['ratio']:.2f} times no augmentation).",
    ]


def _of_steps(steps: Sequence[Row]) -> list[str]:
    rows = {row["step"]: row for row in steps}
    if not rows:
        return []
    cached, ours = rows["pre-computed eigh step"], rows["rmixup"]
    return [
        f"Mixing a batch of {ours['batch']} networks of {ours['nodes']} nodes takes "
        f"{rows['paper step']['milliseconds']:.3g} ms as the paper's code does it, {cached['milliseconds']:.3g} ms "
        f"with its pre-computed logs ({cached['times_faster_than_paper']:.1f} times faster; the paper says 2.5 for "
        f"a whole training), and {ours['milliseconds']:.3g} ms here ({ours['times_faster_than_paper']:.1f} times); "
        f"a straight mix takes {rows['vmixup']['milliseconds']:.3g} ms."
    ]
