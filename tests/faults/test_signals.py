"""Ctrl-C and SIGTERM while a real command works: 130 and 143, nothing half, and the next run goes on."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import ENVIRONMENT, MAIN, call, write_spec
from tally import Tally

from rmixup import simulate
from rmixup.study.project import open_study

EXPECTED = {signal.SIGINT: 130, signal.SIGTERM: 143}


def _stopped(arguments: list[object], sent: signal.Signals, ready: Callable[[int], bool]) -> tuple[int, str]:
    """Start a command, send it a signal once it is ready, and wait: the exit code a shell shows, and what was said."""
    command = [*MAIN, *map(str, arguments)]
    with subprocess.Popen(
        command, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as one:
        deadline = time.monotonic() + 150
        while not ready(one.pid):
            assert one.poll() is None, f"ended before it was stopped: {one.communicate()}"
            assert time.monotonic() < deadline
            time.sleep(0.01)
        one.send_signal(sent)
        _, said = one.communicate(timeout=120)
    # A process that a signal ended is 128 + its number to a shell.
    return one.returncode if one.returncode >= 0 else 128 - one.returncode, said


def _worked(pid: int) -> float:
    """Seconds that a process has had of the processor."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.fixture(scope="module")
def cohort(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return simulate(n_subjects=40, n_nodes=20, n_frames=60, seed=1).save(tmp_path_factory.mktemp("cohort") / "cohort")


@pytest.mark.fault(23)
@pytest.mark.parametrize("sent", EXPECTED, ids=lambda sent: sent.name)
def test_a_study_that_is_stopped_goes_on(sent: signal.Signals, cohort: Path, tmp_path: Path, tally: Tally) -> None:
    spec = write_spec(tmp_path / "s.toml", cohort, repeats=4, epochs=25)
    study = tmp_path / "study"
    arguments = ["study", "run", spec, "--out", study, "--processes", "1"]

    def some_done(pid: int) -> bool:
        return len(list(study.glob("cells/*/result.json"))) >= 2

    with tally.attempt(sent.name):
        code, said = _stopped(list(arguments), sent, some_done)
        assert (code, said) == (EXPECTED[sent], "")
        assert not list(study.rglob(".tmp-*"))
        assert not list((study / "claims").iterdir())
        assert open_study(study).store.verify() == []
    done = open_study(study).store.hashes()
    with tally.attempt(f"{sent.name}, resumed"):
        assert len(done) < len(open_study(study).cells)
        assert call("study", "resume", study, "--processes", "0")[0] == 0
        assert open_study(study).store.hashes().items() >= done.items()


@pytest.mark.fault(23)
@pytest.mark.parametrize("sent", EXPECTED, ids=lambda sent: sent.name)
def test_training_that_is_stopped_leaves_no_model(
    sent: signal.Signals, cohort: Path, tmp_path: Path, tally: Tally
) -> None:
    """An older model stays whole."""
    model = tmp_path / "model"
    assert call("train", cohort, "--backbone", "linear", "--out", model)[0] == 0
    before = {path.name: path.read_bytes() for path in model.iterdir()}
    arguments = ["train", cohort, "--epochs", "100000", "--out", model, "--overwrite"]
    for seconds in (2.0, 3.0, 4.0, 5.0, 6.0) if tally.full else (4.0,):
        with tally.attempt(f"{sent.name} after {seconds} s of the processor"):
            code, said = _stopped(list(arguments), sent, lambda pid, seconds=seconds: _worked(pid) > seconds)
            assert code == EXPECTED[sent]
            assert "Traceback" not in said, said
            assert {path.name: path.read_bytes() for path in model.iterdir()} == before
            assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.fault(23)
@pytest.mark.parametrize("sent", EXPECTED, ids=lambda sent: sent.name)
def test_an_import_that_is_stopped_leaves_nothing_that_is_taken_for_data(
    sent: signal.Signals, tmp_path: Path, tally: Tally
) -> None:
    """What SIGTERM leaves is hidden, and the next import of that name sweeps it."""
    source, out = tmp_path / "source", tmp_path / "out"
    source.mkdir()
    os.mkfifo(source / "s2.csv")  # reading it waits for ever
    (source / "s1.csv").write_text("1,0\n0,1\n")
    (source / "participants.tsv").write_text("participant_id\tx\ns1\ta\ns2\tb\n")

    def begun(pid: int) -> bool:
        return any(path.name.startswith(".out.") for path in tmp_path.iterdir())

    with tally.attempt(sent.name):
        code, said = _stopped(["import", source, out, "--content", "matrices"], sent, begun)
        assert code == EXPECTED[sent]
        assert "Traceback" not in said, said
        assert not out.exists()
    (source / "s2.csv").unlink()
    (source / "s2.csv").write_text("1,0.5\n0.5,1\n")
    with tally.attempt(f"{sent.name}, again"):
        code, _, said = call("import", source, out, "--content", "matrices")
        assert code == 0, said
        assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "source"]
