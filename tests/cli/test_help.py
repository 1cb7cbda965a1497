"""The command line as a person meets it: help that is grouped, short and shows examples; completion; silence."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shlex
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

import rmixup
from rmixup.cli import COMMANDS, PANELS, build, run

ROOT = typer.main.get_command(build())
LINES = 80
PATH = os.environ["PATH"]
RMIXUP = str(Path(sys.executable).parent / "rmixup")


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


def test_what_shows_progress_can_be_silent() -> None:
    slow = ["import", "fetch abide", "train", "demo", "paper", "report", "explain", "study run", "study resume"]
    there = [tuple(path.split()) for path in slow if tuple(path.split()) in LEAVES]
    assert len(there) >= 6
    for path in there:
        assert "--quiet" in {name for parameter in LEAVES[path].params for name in parameter.opts}, path


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
    done = subprocess.run([RMIXUP], env={**os.environ, **variables}, capture_output=True, text=True, check=False)
    assert offered in done.stdout
    assert "import" not in done.stdout


def test_shells_offer_the_names_that_there_are() -> None:
    from rmixup.augment import METHODS
    from rmixup.bench import BENCHES
    from rmixup.cli import completion
    from rmixup.data.connectivity import KINDS
    from rmixup.data.readers import READERS
    from rmixup.models import BACKBONES
    from rmixup.study.presets import PRESETS

    assert tuple(METHODS) == completion.AUGMENTATIONS
    assert (*BACKBONES, "linear", "tangent") == completion.BACKBONES
    assert tuple(KINDS) == completion.KINDS
    assert ("auto", *READERS) == completion.LAYOUTS
    assert (*PRESETS, "all") == completion.STUDIES
    assert ("all", *BENCHES) == completion.BENCHES


SMALL = """
data.path = "cohort"
split.repeats = 2
protocol.epochs = 1
grid.backbones = ["mlp"]
grid.methods = ["none"]
"""
BASH = """
eval "$({rmixup} --show-completion bash)"
COMP_WORDS=({typed}) COMP_CWORD={last}
_rmixup_completion rmixup
echo "${{COMPREPLY[*]}}"
"""


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("rmixup stu", "study"),
        ("rmixup study re", "resume"),
        ("rmixup train --augm", "--augment"),
        ("rmixup train --augment v", "vmixup"),
        ("rmixup paper s", "sample-size swelling"),
        ("rmixup import --kind co", "correlation covariance"),
    ],
)
def test_bash_itself_completes(typed: str, offered: str) -> None:
    script = BASH.format(rmixup=RMIXUP, typed=typed, last=len(typed.split()) - 1)
    # There is no shell above a test to be found out, so it is named.
    environment = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1", "PATH": f"{Path(RMIXUP).parent}:{PATH}"}
    done = subprocess.run(
        ["bash", "-c", script], env={**os.environ, **environment}, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == offered.split()


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


# ---- on a terminal and elsewhere


def on_terminal(*arguments: str, program: str = RMIXUP, **environment: str) -> str:
    """What a person sees who types this into a terminal."""
    mine, theirs = os.openpty()
    size = struct.pack("HHHH", 40, 120, 0, 0)
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, size)
    known = {k: v for k, v in os.environ.items() if k not in {"NO_COLOR", "FORCE_COLOR", "COLUMNS"}}
    env = {**known, "TERM": "xterm-256color", "OMP_NUM_THREADS": "1", **environment}
    with subprocess.Popen([program, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, env=env) as process:
        os.close(theirs)
        seen = []
        # The other end is closed with an error on Linux, with an empty read elsewhere.
        with suppress(OSError):
            while part := os.read(mine, 4096):
                seen.append(part)
        os.close(mine)
    assert process.returncode == 0, b"".join(seen)
    return b"".join(seen).decode()


def test_colours_and_progress_are_for_terminals(tmp_path: Path) -> None:
    rmixup.simulate(n_subjects=40, n_nodes=8, n_frames=20).save(tmp_path / "cohort")
    cohort, model = str(tmp_path / "cohort"), str(tmp_path / "model")
    seen = on_terminal("train", cohort, "--backbone", "mlp", "--epochs", "2", "--out", model)
    assert "\x1b[" in seen
    assert all(word in seen for word in ("preparing", "epoch 2/2", "Next: rmixup predict"))
    plain = subprocess.run([RMIXUP, "check", cohort], capture_output=True, text=True, check=True)
    assert "\x1b[" not in plain.stdout
    assert not plain.stderr, "progress is for terminals only"
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", on_terminal("check", cohort, NO_COLOR="1"))
    assert on_terminal("check", cohort, "--quiet") == ""


WAITING = """
import sys, time
from rmixup.cli.bars import waiting
with waiting("reading [1] file", quiet="quiet" in sys.argv) as now:
    time.sleep(float(sys.argv[1]))
    now("examining")
    time.sleep(float(sys.argv[1]))
"""


def test_what_takes_longer_than_a_moment_says_what_it_is_doing() -> None:
    seen = on_terminal("-c", WAITING, "0.7", program=sys.executable)
    assert seen.index("reading [1] file") < seen.index("examining")
    assert on_terminal("-c", WAITING, "0", program=sys.executable) == ""
    assert on_terminal("-c", WAITING, "0.7", "quiet", program=sys.executable) == ""
    piped = [sys.executable, "-c", WAITING, "0.7"]
    done = subprocess.run(piped, capture_output=True, text=True, check=True)
    assert done.stdout + done.stderr == ""


def test_every_command_that_writes_can_be_silent_and_speaks_to_machines() -> None:
    for path, command in LEAVES.items():
        known = {name for parameter in command.params for name in parameter.opts}
        assert "--json" in known or path == ("study", "new"), path
        # What only tells something has nothing left to say.
        assert "--quiet" in known or path in {("study", "status"), ("bench",)}, path


def test_a_small_study_from_the_first_command_to_the_last(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each command ends with what to do next, or says nothing, or one JSON object."""
    folder, results = str(tmp_path / "cohort"), str(tmp_path / "results")
    ds = rmixup.simulate(n_subjects=40, n_nodes=8, n_frames=20)
    np.savez(tmp_path / "stack.npz", matrices=ds.matrices, y=ds.y, subjects=ds.subjects)
    spec = tmp_path / "mine.toml"
    commands = [
        ["import", str(tmp_path / "stack.npz"), folder],
        ["check", folder],
        ["study", "new", str(spec)],
        ["study", "run", str(spec), "--out", results, "--processes", "0"],
        ["study", "status", results],
        ["study", "verify", results],
        ["study", "export", results],
        ["report", results],
    ]
    for command in commands:
        assert run(command) == 0, command
        said = capsys.readouterr()
        assert said.out.rstrip().splitlines()[-1].startswith("Next: "), command
        assert not said.err
        if command[1] == "new":
            spec.write_text(SMALL)
    # Figures take seconds; `report --json` is tested where reports are.
    again = [["import", *commands[0][1:], "--overwrite"], commands[1], commands[3], commands[5], commands[6]]
    for command in again:
        assert run([*command, "--quiet"]) == 0
        said = capsys.readouterr()
        assert said.out + said.err == "", command
        assert run([*command, "--quiet", "--json"]) == 0
        for line in capsys.readouterr().out.splitlines():
            json.loads(line)
