"""What people type wrongly: one line that says what to do, exit code 2, no traceback, and nothing done in vain."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import rmixup
from rmixup.cli import run

RMIXUP = str(Path(sys.executable).parent / "rmixup")


@pytest.fixture(scope="module")
def cohort(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "cohort"
    rmixup.simulate(n_subjects=40, n_nodes=8, n_frames=20).save(folder)
    return folder


@pytest.fixture
def here(tmp_path: Path, cohort: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder with a cohort, a file, and the beginning of a spec."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cohort").symlink_to(cohort)
    (tmp_path / "file").write_text("not a folder\n")
    (tmp_path / "spec.toml").write_text('data.path = "cohort"\nsplit.repeats = 3\ngrid.methods = ["none"]\n')
    return tmp_path


def refused(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> str:
    """The one line that says no."""
    code = run(arguments)
    said = capsys.readouterr()
    assert (code, said.out) == (2, ""), said
    assert said.err.startswith("rmixup: error: ")
    assert said.err.count("\n") == 1
    assert len(said.err) > len("rmixup: error: \n")
    assert "Traceback" not in said.err
    return said.err


# What is typed -> what the line must say.
WRONG = {
    # files that are not there, or something else
    "check nowhere": ["nowhere", "no such file", "check the path"],
    "train nowhere": ["nowhere", "check the path"],
    "import nowhere out": ["nowhere", "check the path"],
    "predict nowhere cohort": ["nowhere", "rmixup train --out nowhere"],
    "predict cohort cohort": ["cohort", "a data set, not a model"],
    "report nowhere": ["nowhere/study.json", "rmixup study run"],
    "study status cohort": ["cohort/study.json", "rmixup study run"],
    "study run nowhere.toml --out results": ["nowhere.toml", "`rmixup study new nowhere.toml` writes a spec"],
    "study pack nowhere.toml packed --out results": ["nowhere.toml", "rmixup study new"],
    # names
    "check cohort --target diagnosis": ["no column diagnosis", "it has class, site, age"],
    "train cohort --target diagnosis": ["no column diagnosis", "it has class, site, age"],
    "train cohort --groups scanner": ["no column scanner", "site"],
    "train cohort --augment rmixupp": ["'rmixupp'", "did you mean 'rmixup'?"],
    "train cohort --backbone transfomer": ["'transfomer'", "transformer, gcn"],
    "train cohort --kind corelation": ["'corelation'", "correlation, covariance"],
    "train cohort --device gpu": ["'gpu'", "'cpu', 'cuda'"],
    "paper overal --data simulated": ["'overal'", "overall"],
    "bench stepp": ["'stepp'", "step"],
    "fetch abid out": ["No such command 'abid'", "'abide'", "see rmixup fetch --help"],
    "chekc cohort": ["'chekc'", "'check'", "see rmixup --help"],
    # options
    "train cohort --epochs 0": ["--epochs", "greater than or equal to 1|>=1", "see rmixup train --help"],
    "train cohort --epochs many": ["--epochs", "integer|int", "see rmixup train --help"],
    "check cohort --jsno": ["--jsno", "--json", "see rmixup check --help"],
    "predict cohort": ["Missing argument", "see rmixup predict --help"],
    "study run spec.toml": ["Missing option '--out'", "see rmixup study run --help"],
    "study export results --format xls": ["--format", "'csv', 'parquet'"],
    # places that cannot be written
    "train cohort --out file": ["file: a folder is to be written, but a file is there; choose another --out"],
    "train cohort --out file/model": ["file/model: cannot be made, because", "choose another --out"],
    "predict cohort cohort --out file/p.tsv": ["file/p.tsv: cannot be made", "choose another --out"],
    "predict cohort cohort --out cohort": ["a file is to be written, but a folder is there"],
    "import cohort file/out": ["file/out: cannot be made", "choose another OUT"],
    "fetch abide file/out": ["file/out: cannot be made", "choose another OUT"],
    "check cohort --figure file/a.png": ["file/a.png: cannot be made", "choose another --figure"],
    "demo --out file": ["a file is there; choose another --out"],
    "paper all --data simulated --out file/x": ["file/x: cannot be made"],
    "paper all --data simulated --pack file": ["choose another --pack"],
    "study new file/spec.toml": ["file/spec.toml: cannot be made", "choose another SPEC"],
    "study new spec.toml": ["spec.toml: exists already"],
    "study run spec.toml --out file": ["a file is there; choose another --out"],
    "study pack spec.toml file --out results": ["a file is there; choose another FOLDER"],
}


@pytest.mark.parametrize("typed", WRONG)
def test_one_line_says_what_to_do(typed: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(path.name for path in here.iterdir())
    said = refused(capsys, typed.split())
    for words in WRONG[typed]:
        assert any(word in said for word in words.split("|")), said
    assert sorted(path.name for path in here.iterdir()) == before


@pytest.mark.parametrize("typed", ["train cohort --out file/model", "check cohort --figure file/x.png"])
def test_the_place_is_asked_for_before_the_work(typed: str, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*_: Any, **__: Any) -> None:
        raise AssertionError("the data were read before the place was looked at")

    monkeypatch.setattr("rmixup.data.readers.load", read)
    assert run(typed.split()) == 2


def test_a_folder_without_rights_is_named(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "theirs").mkdir()
    allowed = os.access
    # Not by chmod, which does not hold back root.
    monkeypatch.setattr("os.access", lambda path, mode: Path(path).name != "theirs" and allowed(path, mode))
    said = refused(capsys, ["train", "cohort", "--out", "theirs/model"])
    assert f"theirs/model: cannot be written, for want of rights in {here / 'theirs'}; choose another --out" in said


def test_a_defect_is_one_line_too_and_debug_shows_where(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("by\nzero")

    monkeypatch.setattr("rmixup.data.doctor.check", broken)
    said = refused(capsys, ["check", "cohort"])
    assert "unexpected ZeroDivisionError: by zero; this is a defect of rmixup" in said
    assert "--debug" in said
    with pytest.raises(ZeroDivisionError):
        run(["check", "cohort", "--debug"])


def test_what_the_system_says_begins_with_the_file(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked(path: Any, *_: Any, **__: Any) -> None:
        (path / "locked").read_text()

    monkeypatch.setattr("rmixup.data.readers.load", locked)
    assert "cohort/locked: no such file or directory; check the path" in refused(capsys, ["check", "cohort"])


def test_a_group_without_a_command_shows_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    for group in ("study", "fetch"):
        assert run([group]) == 0
        said = capsys.readouterr()
        assert f"Usage: rmixup {group}" in said.out
        assert not said.err


def test_a_reader_who_has_enough_is_no_error(here: Path) -> None:
    """`rmixup ... | head` closes the pipe: nobody is left to tell, and nothing is wrong."""
    done = subprocess.run(["bash", "-c", f"{RMIXUP} --help | true"], capture_output=True, text=True, check=False)
    assert done.stdout + done.stderr == ""


@pytest.mark.parametrize("pressed", [True, False])
def test_ctrl_c_is_told_also_where_an_import_made_another_error_of_it(
    pressed: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def importing(**_: object) -> None:
        with contextlib.suppress(KeyboardInterrupt):
            if pressed:
                signal.raise_signal(signal.SIGINT)
        raise RecursionError("maximum recursion depth exceeded")  # as Python says in the middle of `import torch`

    monkeypatch.setattr("rmixup.cli.build", lambda: importing)
    assert run(["check", "data"]) == (130 if pressed else 2)
    assert ("this is a defect" in capsys.readouterr().err) is not pressed
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
