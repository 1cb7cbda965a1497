"""The command line as a person meets it: help that is grouped, short and shows examples; completion; silence."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

import rmixup
from rmixup.cli import COMMANDS, PANELS, build, run

ROOT = typer.main.get_command(build())
LINES = 80


def walk(path: tuple[str, ...], command: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    inner = getattr(command, "commands", {})
    if not inner:
        yield path, command
    for name, one in inner.items():
        yield from walk((*path, name), one)


LEAVES = dict(walk((), ROOT))
EVERY = pytest.mark.parametrize("path", LEAVES, ids=" ".join)


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    def show(*arguments: str, columns: int = 100) -> str:
        monkeypatch.setenv("COLUMNS", str(columns))
        assert run([*arguments, "--help"]) == 0
        return capsys.readouterr().out

    return show


def examples(command: Any) -> list[str]:
    return [line.replace(r"\[", "[") for line in (command.epilog or "").splitlines() if line.startswith("rmixup ")]


def test_commands_stand_in_their_panels_and_every_command_is_there(shown: Any) -> None:
    text = shown()
    places = [text.index(f"─ {panel} ─") for panel in PANELS]
    assert places == sorted(places)
    grouped = [name for names in PANELS.values() for name in names]
    assert set(COMMANDS) <= set(grouped)
    for name in COMMANDS:
        assert re.search(rf"^│ {name} +\w", text, re.MULTILINE), name
    assert "rmixup demo" in text
    assert len(text.splitlines()) <= 50


@EVERY
def test_help_is_short_has_examples_and_loses_no_word(path: tuple[str, ...], shown: Any) -> None:
    assert len(shown(*path).splitlines()) < LINES
    text = shown(*path, columns=400)
    assert examples(LEAVES[path])
    for example in examples(LEAVES[path]):
        assert example in text
    # What stands in brackets is easily taken for a colour and lost.
    for parameter in LEAVES[path].params:
        if not parameter.hidden:
            assert " ".join((parameter.help or "").split()) in text
    for paragraph in (LEAVES[path].help or "").split("\n\n"):
        assert paragraph.replace(r"\[", "[") in text


@EVERY
def test_examples_name_options_that_there_are(path: tuple[str, ...]) -> None:
    for example in examples(LEAVES[path]):
        words = shlex.split(example)[1:]
        assert tuple(words[: len(path)]) == path
        known = {name for parameter in LEAVES[path].params for name in parameter.opts + parameter.secondary_opts}
        assert {word for word in words if re.fullmatch(r"--?[a-z].*", word)} <= known


def test_nothing_typed_is_the_help_and_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 0
    said = capsys.readouterr()
    assert "Usage: rmixup" in said.out
    assert not said.err


@pytest.mark.parametrize(
    ("shell", "typed", "offered"), [("bash", "stu", "study"), ("zsh", "stu", "study"), ("fish", "stu", "study")]
)
def test_shells_complete(shell: str, typed: str, offered: str) -> None:
    variables = {
        "_RMIXUP_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": f"rmixup {typed}",
        "COMP_CWORD": "1",
        "_TYPER_COMPLETE_ARGS": f"rmixup {typed}",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    command = [str(Path(sys.executable).parent / "rmixup")]
    done = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, check=False)
    assert offered in done.stdout
    assert "import" not in done.stdout


def test_training_can_be_silent_and_otherwise_says_what_is_next(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rmixup.simulate(n_subjects=40, n_nodes=8, n_frames=20).save(tmp_path / "cohort")
    train = ["train", str(tmp_path / "cohort"), "--backbone", "linear", "--out", str(tmp_path / "model")]
    assert run([*train, "--quiet"]) == 0
    said = capsys.readouterr()
    assert said.out + said.err == ""
    assert run([*train, "--overwrite"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("Next: rmixup predict ")
    assert run(["check", str(tmp_path / "cohort")]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("Next: rmixup train ")
    predict = ["predict", str(tmp_path / "model"), str(tmp_path / "cohort"), "--out", str(tmp_path / "p.tsv")]
    assert run(predict) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("Next: ")
