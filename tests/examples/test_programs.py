"""The whole programs of examples/, run as a user would: small, on simulated people and on a folder of one's own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import torch
from safetensors.torch import load_file

import rmixup

FOLDER = Path(__file__).parents[2] / "examples"
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "100"}


def typed(folder: Path, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", str(FOLDER / program), *arguments]
    return subprocess.run(command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=False)


def test_every_program_is_tested_here() -> None:
    assert {path.name for path in FOLDER.glob("*.py")} == {"scikit_learn.py", "pytorch.py"}


def test_scikit_learn_predicts_everybody_once_by_models_that_never_saw_them(tmp_path: Path) -> None:
    done = typed(tmp_path, "scikit_learn.py", "--small")
    assert done.returncode == 0, done.stderr
    scores = pd.read_csv(tmp_path / "found" / "scores.csv", index_col="fold")
    assert list(scores.columns) == ["linear", "tangent", "mlp, none", "mlp, rmixup"]
    assert scores.shape == (3, 4)
    assert scores["tangent"].mean() > 0.6
    people = pd.read_csv(tmp_path / "found" / "predictions.csv")
    ds = rmixup.simulate(n_subjects=90, n_nodes=20, n_frames=60)
    fold_of = {}
    for model, told in people.groupby("model"):
        assert sorted(told["subject"]) == sorted(ds.subjects), model
        p = told.filter(like="p(")
        assert p.sum(axis=1).between(0.999, 1.001).all()
        fold_of[model] = told.set_index("subject")["fold"].sort_index()
    assert all(fold.equals(fold_of["linear"]) for fold in fold_of.values()), "every model has the same folds"
    sites = pd.Series(ds.groups, ds.subjects)
    assert (fold_of["linear"].groupby(sites).nunique() == 1).all(), "a site is left out whole"
    for model, mean in scores.mean().items():
        assert f"{mean:.3f}" in next(line for line in done.stdout.splitlines() if line.startswith(f"{model} "))
    assert "mlp, rmixup against mlp, none: " in done.stdout


def test_scikit_learn_takes_numbers_from_a_folder_and_refuses_what_is_not_there(tmp_path: Path) -> None:
    ds = rmixup.simulate(n_subjects=36, n_nodes=6, n_frames=30, n_sites=1, task="regression")
    ds.save(tmp_path / "cohort")
    done = typed(tmp_path, "scikit_learn.py", "cohort", "--target", "score", "--small", "--folds", "2")
    assert done.returncode == 0, done.stderr
    people = pd.read_csv(tmp_path / "found" / "predictions.csv")
    true = people[people["model"] == "tangent"].set_index("subject")["true"].loc[list(ds.subjects)]
    assert true.to_numpy() == pytest.approx(ds.y)
    assert "R² of 3 outer folds" in done.stdout
    done = typed(tmp_path, "scikit_learn.py", "cohort", "--target", "age at scan", "--small")
    assert done.returncode == 1
    assert done.stderr.startswith("scikit_learn.py: ")
    assert "no column age at scan" in done.stderr
    assert done.stderr.count("\n") == 1


def test_pytorch_keeps_the_weights_it_scored(tmp_path: Path) -> None:
    ds = rmixup.simulate(n_subjects=60, n_nodes=10, n_frames=30)
    ds.save(tmp_path / "cohort")
    arguments = ["cohort", "--target", "class", "--methods", "none", "rmixup", "--small", "--workers", "1"]
    done = typed(tmp_path, "pytorch.py", *arguments)
    assert done.returncode == 0, done.stderr
    out = tmp_path / "trained"
    scores = pd.read_csv(out / "scores.csv", index_col="split")
    assert list(scores.columns) == ["none", "rmixup", "tangent"]
    assert scores.index.tolist() == [0, 1]
    names = {f"{method}-split-{split}.safetensors" for method in ("none", "rmixup") for split in (0, 1)}
    assert {path.name for path in out.glob("*.safetensors")} == names
    weights = [load_file(out / f"{method}-split-0.safetensors") for method in ("none", "rmixup")]
    assert not torch.equal(weights[0]["own.weight"], weights[1]["own.weight"]), "the methods train differently"
    for name, score in scores.loc[0].items():
        assert f"{name} {score:.3f}" in done.stdout
    assert "rmixup against none: " in done.stdout


def test_pytorch_says_what_it_cannot_do(tmp_path: Path) -> None:
    rmixup.simulate(n_subjects=12, n_nodes=5, n_frames=20, task="regression").save(tmp_path / "cohort")
    done = typed(tmp_path, "pytorch.py", "cohort", "--small")
    assert done.returncode == 1
    assert "expected classes to tell apart, but the task is regression" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "trained").exists()
