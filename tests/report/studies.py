"""Studies for tests of the report: real spec, store and statistics; the cells' results are drawn, not trained."""

from pathlib import Path
from typing import Any

import numpy as np

from rmixup import keys
from rmixup.study.cells import Cell, DataIdentity
from rmixup.study.project import Settings, Study, begin
from rmixup.study.results import Failure, Result
from rmixup.study.spec import parse_spec

# What a class, a site or a subject may be called by those who do not wish the reader well, or who do not think.
HOSTILE = [
    "<script>alert(1)</script>",
    "=cmd|' /C calc'!A0",
    "\u202egnp.exe",
    "x" * 300,
    "\N{BRAIN}\u0000a\tb\nc",
    '"><img src=x onerror=alert(1)>',
    "$\\frac{$",
    "]]> & {{ 7 * 7 }}",
]
SPEC = """
name = {name!r}
[data]
path = {path!r}
[split]
repeats = {repeats}
[protocol]
epochs = 30
[grid]
backbones = {backbones}
methods = {methods}
train_sizes = {train_sizes}
"""
# How much better than chance each method scores.
SKILL = {"none": 1.0, "rmixup": 1.0, "vmixup": 1.0, "linear": 1.2, "tangent": 1.1}


def make(
    folder: Path,
    *,
    path: str = "data.npz",
    name: str = "My cohort",
    methods: str = '["none", "vmixup", "rmixup"]',
    backbones: str = '["transformer"]',
    train_sizes: str = "[1.0]",
    repeats: int = 5,
    regression: bool = False,
    classes: tuple[str, ...] = ("control", "patient"),
    sites: tuple[str, ...] = ("NYU", "UCLA", "Leuven"),
    skill: dict[str, float] | None = None,
    fail: str = "",
    skip: str = "",
) -> Study:
    """A study whose cells are done, but for those of the method `fail`, which failed, and `skip`, which is to come."""
    settings = {"path": path, "name": name, "methods": methods, "backbones": backbones, "train_sizes": train_sizes}
    spec = parse_spec(SPEC.format(**settings, repeats=repeats))
    study = begin(folder, spec, DataIdentity("ab" * 32, 150, len(sites)), Settings(), "elsewhere")
    for cell in study.cells:
        if cell.method.name == fail:
            study.store.fail(cell, Failure("divergence", "the training loss was not finite in epoch 3 <b>"))
        elif cell.method.name != skip:
            result = _result(cell, SKILL | (skill or {}), regression, classes, sites)
            study.store.commit(cell, result, 1.5, {"host": "a"})
    return study


def _result(cell: Cell, skills: dict[str, float], regression: bool, classes: tuple[str, ...], sites: Any) -> Result:
    name = cell.backbone.name if cell.is_baseline else cell.method.name
    skill = skills[name] * (0.4 + 0.6 * cell.train_size)
    n = 60
    people = keys.generator(0, "people", cell.repeat)
    y, noise, where = people.integers(0, 2, n), people.normal(size=n), people.integers(0, len(sites), n)
    own = keys.generator(1, cell.key)
    logit = skill * (y - 0.5) * 2 + noise + 0.3 * own.normal(size=n)
    who = {"subject": [HOSTILE[k % len(HOSTILE)] for k in range(n)], "group": [sites[k] for k in where]}
    curves = {} if cell.is_baseline else _curves(own)
    sizes = {"train": 105, "validation": 15, "test": n}
    if regression:
        truth = 40 + 10 * noise
        predicted = truth + own.normal(size=n) * 10 / skill
        scores = {"mse": float(((predicted - truth) ** 2).mean())}
        return Result(scores, {**who, "truth": truth, "predicted": predicted}, sizes, curves)
    if len(classes) > 2:
        return _many(own, skill, classes=classes, who=who, sizes=sizes, curves=curves)
    p = 1 / (1 + np.exp(-logit))
    scores = {"auroc": float((p[y == 1][:, None] > p[y == 0]).mean()), "accuracy": float(((p > 0.5) == y).mean())}
    columns = {"truth": [classes[k] for k in y], f"p_{classes[0]}": 1 - p, f"p_{classes[1]}": p}
    return Result(scores, {**who, **columns}, sizes, curves)


def _many(own: Any, skill: float, *, classes: Any, who: Any, sizes: Any, curves: Any) -> Result:
    """More than two classes: probabilities, and what is right more often than not."""
    n = len(who["subject"])
    truth = own.integers(0, len(classes), n)
    logits = own.normal(size=(n, len(classes))) + 2 * skill * np.eye(len(classes))[truth]
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    hits = p.argmax(1) == truth
    columns = {f"p_{name}": p[:, k] for k, name in enumerate(classes)}
    scores = {"accuracy": float(hits.mean()), "macro_recall": float(hits.mean()), "macro_precision": float(hits.mean())}
    return Result(scores, {**who, "truth": [classes[k] for k in truth], **columns}, sizes, curves)


def _curves(own: np.random.Generator) -> dict[str, list[float]]:
    at = np.arange(30) / 30
    wobble = own.normal(0, 0.01, 30)
    return {
        "train_loss": list(0.7 * np.exp(-2 * at) + wobble),
        "validation_loss": list(0.7 - 0.2 * at + 0.3 * at**2 + wobble),
        "validation_score": list(0.5 + 0.2 * at),
        "test_loss": list(0.7 - 0.18 * at + 0.35 * at**2 + wobble),
    }
