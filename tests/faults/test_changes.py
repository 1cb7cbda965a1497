"""Data, spec, settings or environment that changed before a study is resumed: refused, the difference named."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import call, is_refusal, write_spec
from tally import Tally

import rmixup
from rmixup import Networks, simulate
from rmixup.study import project
from rmixup.study.project import open_study

COHORT = simulate(n_subjects=40, n_nodes=4, n_frames=20, seed=1)


def _touched(folder: Path, change: Callable[[Any, Any], object]) -> None:
    """The same people with other numbers, under the same name."""
    matrices, labels = np.array(COHORT.connectivity().matrices), np.array(COHORT.label_names())
    change(matrices, labels)
    shutil.rmtree(folder / "data")
    Networks(matrices, labels, COHORT.subjects).save(folder / "data")


def _one_edge(matrices: Any, labels: Any) -> None:
    matrices[3, 0, 1] = matrices[3, 1, 0] = np.nextafter(matrices[3, 0, 1], 1)


def _one_label(matrices: Any, labels: Any) -> None:
    other = int(np.flatnonzero(labels != labels[0])[0])
    labels[0], labels[other] = labels[other], labels[0]


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """One that is done but for a cell."""
    Networks(np.array(COHORT.connectivity().matrices), COHORT.label_names(), COHORT.subjects).save(tmp_path / "data")
    spec = write_spec(tmp_path / "s.toml", tmp_path / "data")
    assert call("study", "run", spec, "--out", tmp_path / "study", "--processes", "0")[0] == 0
    key = sorted(open_study(tmp_path / "study").store.done())[0]
    shutil.rmtree(tmp_path / "study" / "cells" / key)
    return tmp_path / "study"


def _resumed(study: Path, *words: str, tally: Tally, what: str) -> None:
    before = {path: path.read_bytes() for path in study.rglob("*") if path.is_file()}
    with tally.attempt(what):
        code, _, said = call("study", "resume", study, "--processes", "0")
        is_refusal(code, said, "refused to continue", "--allow", *words)
        assert {path: path.read_bytes() for path in study.rglob("*") if path.is_file()} == before


@pytest.mark.fault(22)
def test_changed_data_are_refused(study: Path, tally: Tally) -> None:
    """One bit of one edge, one label, one person less; and the very same data are not."""
    whole = open_study(study).data.sha256
    for change in (_one_edge, _one_label):
        _touched(study.parent, change)
        _resumed(study, "data content", whole[:12], tally=tally, what=change.__name__)
    _touched(study.parent, lambda matrices, labels: None)
    with tally.attempt("the same again"):
        assert call("study", "resume", study, "--processes", "0")[0] == 0


@pytest.mark.fault(22)
@pytest.mark.parametrize("name", ["rmixup", "python", "machine", "numpy", "scipy", "scikit-learn", "torch"])
def test_another_environment_is_refused(name: str, study: Path, monkeypatch: pytest.MonkeyPatch, tally: Tally) -> None:
    now = dict(project.environment())
    monkeypatch.setattr(project, "environment", lambda: now | {name: "0.0.0"})
    _resumed(study, name, now[name], "0.0.0", tally=tally, what=name)


@pytest.mark.fault(22)
def test_another_version_of_the_code_is_another_environment(
    study: Path, monkeypatch: pytest.MonkeyPatch, tally: Tally
) -> None:
    project.environment.cache_clear()
    monkeypatch.setattr(rmixup, "__version__", "99.0")
    try:
        _resumed(study, "environment.rmixup", "99.0", tally=tally, what="version")
    finally:
        project.environment.cache_clear()


@pytest.mark.fault(22)
def test_another_spec_is_refused_with_all_that_differs(study: Path, tally: Tally) -> None:
    spec = write_spec(study.parent / "other.toml", study.parent / "data", epochs=3, repeats=2)
    with tally.attempt("spec"):
        code, _, said = call("study", "run", spec, "--out", study, "--processes", "0")
        is_refusal(code, said, "protocol.epochs was 1 and is 3", "split.repeats was 1 and is 2")
    with tally.attempt("settings"):
        code, _, said = call("study", "run", study.parent / "s.toml", "--out", study, "--threads", "2")
        is_refusal(code, said, "settings.threads was 1 and is 2")
