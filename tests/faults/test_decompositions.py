"""Eigen-decompositions that fail, or that return what is not orthonormal, under a training and a study."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from commands import call, is_refusal, write_spec
from tally import Tally, few

from rmixup import simulate
from rmixup.study.project import open_study
from rmixup.train.folder import load_model

HONEST = torch.linalg.eigh
Eigh = Callable[[torch.Tensor], Any]


def fails(S: torch.Tensor) -> Any:
    raise torch.linalg.LinAlgError("did not converge")


def not_orthonormal(S: torch.Tensor) -> Any:
    w, V = HONEST(S)
    return w, V * 1.01


def wrong_values(S: torch.Tensor) -> Any:
    w, V = HONEST(S)
    return w + 1e-6, V


def unsorted(S: torch.Tensor) -> Any:
    """Vectors that belong to other values."""
    w, V = HONEST(S)
    return w.flip(-1), V


def undefined(S: torch.Tensor) -> Any:
    w, V = HONEST(S)
    return w, torch.full_like(V, torch.nan)


FAULTY: list[Eigh] = [fails, not_orthonormal, wrong_values, unsorted, undefined]


def in_batches(faulty: Eigh) -> Eigh:
    """As GPUs do it: wrong for many at once, right for one."""
    return lambda S: faulty(S) if S.ndim == 3 else HONEST(S)


def _train(folder: Path, name: str) -> tuple[int, str, Any]:
    options = ["--backbone", "mlp", "--epochs", "2", "--out", folder / name, "--quiet"]
    code, _, said = call("train", folder / "cohort", *options)
    return code, said, None if code else load_model(folder / name).model.state


@pytest.mark.fault(20)
def test_what_fails_for_many_is_done_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tally: Tally) -> None:
    """The model is the very same."""
    simulate(n_subjects=40, n_nodes=5, n_frames=30, seed=1).save(tmp_path / "cohort")
    _, _, truth = _train(tmp_path, "honest")
    for faulty in few(FAULTY, 2):
        monkeypatch.setattr(torch.linalg, "eigh", in_batches(faulty))
        with tally.attempt(faulty.__name__):
            code, said, state = _train(tmp_path, faulty.__name__)
            assert code == 0, said
            assert all(torch.allclose(truth[name], state[name], rtol=0, atol=1e-6) for name in truth)


@pytest.mark.fault(20)
@pytest.mark.parametrize("faulty", few(FAULTY, 2), ids=lambda one: one.__name__)
def test_what_fails_always_is_told_with_its_place(
    faulty: Eigh, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tally: Tally
) -> None:
    """One line where one model is trained; where many are, the cells that need it fail and the others go on."""
    simulate(n_subjects=40, n_nodes=5, n_frames=30, seed=1).save(tmp_path / "cohort")
    spec = write_spec(tmp_path / "s.toml", tmp_path / "cohort")
    monkeypatch.setattr(torch.linalg, "eigh", faulty)
    with tally.attempt("train"):
        code, said, _ = _train(tmp_path, "m")
        is_refusal(code, said, "no eigen-decomposition could be computed for", "matrix 0", "matrix 4", "more")
        assert not (tmp_path / "m").exists()
    with tally.attempt("study"):
        assert call("study", "run", spec, "--out", tmp_path / "study", "--processes", "0")[0] == 1
        study = open_study(tmp_path / "study")
        failed = {
            cell.method.name for cell in study.cells if cell.key in study.store.failures() and not cell.is_baseline
        }
        assert failed == {"rmixup"}
        assert all("no eigen-decomposition" in one.message for one in study.store.failures().values())
        assert len(study.store.done()) + len(study.store.failures()) == len(study.cells)
    monkeypatch.undo()
    with tally.attempt("again"):
        assert call("study", "resume", tmp_path / "study", "--processes", "0", "--retry-failed")[0] == 0
