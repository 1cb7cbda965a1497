"""`rmixup study`, from the outside: what it prints, what it writes, how it exits."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "study"))  # where `sgd_work` lies, for worker processes too

from rmixup.cli import run

SPEC = """
data.path = "data.npz"
split.repeats = 3
protocol.epochs = 3
grid.backbones = ["sgd"]
grid.methods = ["none", "mix"{more}]
"""
WORK = ["--work", "sgd_work", "--processes", "0"]


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    matrices = np.array([np.corrcoef(rng.normal(size=(5, 30))) for _ in y])
    np.savez(tmp_path / "data.npz", matrices=matrices, y=y)
    path = tmp_path / "spec.toml"
    path.write_text(SPEC.format(more=""))
    return path


def test_new_writes_a_spec_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.toml"
    assert run(["study", "new", str(path), "--quick"]) == 0
    assert 'methods = ["none", "rmixup"]' in path.read_text()
    assert run(["study", "new", str(path)]) == 2
    assert "exists already" in capsys.readouterr().err


def test_a_study_from_spec_to_export(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = spec.parent / "results"
    assert run(["study", "run", str(spec), "--out", str(out), *WORK]) == 0
    printed = capsys.readouterr().out
    assert "12 of 12 cells done, 0 failed" in printed
    assert "mix against none (auroc, 3 paired splits): " in printed
    assert "linear against none" in printed

    assert run(["study", "status", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["done"] == 12
    assert run(["study", "status", str(out)]) == 0
    assert "12 cells: 12 done, 0 running" in capsys.readouterr().out

    assert run(["study", "export", str(out), "--json"]) == 0
    files = json.loads(capsys.readouterr().out)["files"]
    assert all(Path(file).exists() for file in files)
    assert len(files) == 5


def test_verify_finds_damage_says_no_and_resume_heals_it(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = spec.parent / "results"
    run(["study", "run", str(spec), "--out", str(out), *WORK])
    assert run(["study", "verify", str(out)]) == 0
    next(out.glob("cells/*/predictions.tsv")).write_text("")
    capsys.readouterr()
    assert run(["study", "verify", str(out), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["ok"], found["checked"], len(found["damaged"])) == (False, 12, 1)
    next(out.glob("cells/*/predictions.tsv")).write_text("")
    assert run(["study", "verify", str(out)]) == 1
    assert "12 cells checked" not in capsys.readouterr().out
    assert run(["study", "resume", str(out), *WORK]) == 0
    assert "12 of 12 cells done" in capsys.readouterr().out
    assert run(["study", "verify", str(out)]) == 0


def test_events_are_json_lines_for_machines(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["study", "run", str(spec), "--out", str(spec.parent / "r"), "--json", *WORK]) == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [event["event"] for event in events] == ["start", *["cell"] * 12, "end"]
    assert events[-1]["done"] == 12


def test_failures_are_said_and_the_answer_is_no(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec.write_text(SPEC.format(more=', {name = "mix", fault = "raise"}'))
    out = spec.parent / "r"
    assert run(["study", "run", str(spec), "--out", str(out), *WORK]) == 1
    said = capsys.readouterr()
    assert "12 of 15 cells done, 3 failed" in said.out
    assert "failed: mix fault=raise" in said.err
    assert "ValueError: asked to" in said.err
    next(out.glob("cells/*/result.json")).write_text("")
    assert run(["study", "resume", str(out), "--retry-failed", *WORK]) == 1
    said = capsys.readouterr()
    assert "damaged, will be done again: " in said.err
    assert "12 of 15 cells done, 3 failed" in said.out


def test_a_lost_worker_is_said(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec.write_text(SPEC.format(more=', {name = "mix", fault = "die once"}'))
    arguments = ["--out", str(spec.parent / "r"), "--work", "sgd_work", "--processes", "1"]
    assert run(["study", "run", str(spec), *arguments]) == 0
    assert "SIGKILL" in capsys.readouterr().err


def test_a_changed_spec_is_refused_in_one_line_unless_allowed(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["study", "run", str(spec), "--out", str(spec.parent / "r"), *WORK]
    run(command)
    spec.write_text(spec.read_text().replace("epochs = 3", "epochs = 2"))
    capsys.readouterr()
    assert run(command) == 2
    said = capsys.readouterr().err
    assert "protocol.epochs was 3 and is 2" in said
    assert said.count("\n") == 1
    assert run([*command, "--allow"]) == 0


@pytest.mark.parametrize(
    ("work", "said"),
    [("no_such_module", "importable Python module"), ("json", "no identify and no work")],
)
def test_a_work_that_is_none_is_refused(spec: Path, work: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["study", "run", str(spec), "--out", str(spec.parent / "r"), "--work", work]) == 2
    assert said in capsys.readouterr().err


def test_a_folder_without_a_study_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("status", "verify", "resume", "export"):
        assert run(["study", command, str(tmp_path)]) == 2
        assert "study.json: not found" in capsys.readouterr().err


def test_progress_shows_on_a_terminal(spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert run(["study", "run", str(spec), "--out", str(spec.parent / "r"), *WORK]) == 0
