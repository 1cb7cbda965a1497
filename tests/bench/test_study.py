"""The bench of the runner: what is divided by what, and that the study it lists is whole."""

import json
from pathlib import Path

import pytest

from rmixup.bench import COLUMNS, study
from rmixup.study.project import open_study


def test_the_ratio_is_training_and_runner_over_training() -> None:
    rows = study.rows(quick=True)
    trained, ran, listed, command = rows
    assert trained["method"] == "train 4 cells"
    assert ran["ratio"] == pytest.approx(1 + ran["seconds"] / trained["seconds"])
    assert 0 < ran["seconds"] < trained["seconds"]
    assert listed["method"] == "status of 200 cells"
    assert 0 < listed["seconds"] < command["seconds"]
    assert all(key in COLUMNS for row in rows for key in row)


def test_the_listed_study_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[dict[str, int]] = []
    real = study.subprocess.run

    def heard(*arguments: object, **named: object) -> object:
        done = real(*arguments, **named)  # type: ignore[call-overload]
        said.append(json.loads(done.stdout))
        return done

    monkeypatch.setattr(study.subprocess, "run", heard)
    study._listing(tmp_path / "many", 2, 1)
    assert [(one["total"], one["done"]) for one in said] == [(16, 16)]
    assert len(open_study(tmp_path / "many").store.hashes()) == 16
