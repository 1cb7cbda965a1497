"""No command but `fetch` asks the network for anything, nor do the processes that it starts."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from commands import ENVIRONMENT, HERE, write_spec
from tally import Tally

from rmixup import simulate
from rmixup.cli import COMMANDS

NAMESPACE = ["unshare", "--net", "--"]


def _commands(folder: Path, full: bool) -> list[list[str]]:
    cohort = simulate(n_subjects=40, n_nodes=6, n_frames=30, seed=1).save(folder / "cohort")
    (folder / "source").mkdir()
    for name, series in zip(("s1", "s2"), (simulate(n_nodes=4, n_frames=9).series or ())[:2], strict=True):
        (folder / "source" / f"{name}.csv").write_text("\n".join(",".join(map(str, row)) for row in series.tolist()))
    spec, study = write_spec(folder / "s.toml", cohort), folder / "study"
    many: list[list[object]] = [
        ["import", folder / "source", folder / "imported"],
        ["check", cohort, "--figure", folder / "health.png"],
        ["train", cohort, "--backbone", "mlp", "--epochs", "1", "--out", folder / "model"],
        ["predict", folder / "model", cohort, "-o", folder / "p.tsv"],
        ["study", "new", folder / "new.toml"],
        ["study", "run", spec, "--out", study, "--processes", "1"],
        ["study", "resume", study],
        ["study", "status", study],
        ["study", "verify", study],
        ["study", "export", study],
        ["study", "pack", spec, folder / "packed", "--out", folder / "packed study"],
        ["report", study],
    ]
    if "explain" in COMMANDS:
        many.append(["explain", folder / "model", cohort, "--out", folder / "explained"])
    if full:
        many += [
            ["demo", "--quick", "--out", folder / "demo"],
            ["paper", "swelling", "--data", cohort, "--quick", "--out", folder / "paper"],
            ["bench", "spd", "--quick"],
        ]
    return [[str(word) for word in command] for command in many]


def _run(folder: Path, commands: list[list[str]], before: list[str]) -> tuple[list[int], str]:
    """Exit codes, and what was logged of the network."""
    site = folder / "site"
    site.mkdir(exist_ok=True)
    (site / "sitecustomize.py").write_text((HERE / "offline.py").read_text())
    log = folder / "log"
    log.write_text("")
    (folder / "commands.json").write_text(json.dumps(commands))
    path = os.pathsep.join([str(site), ENVIRONMENT["PYTHONPATH"]])
    environment = {**ENVIRONMENT, "PYTHONPATH": path, "RMIXUP_WATCH": str(log), "HOME": str(folder)}
    command = [*before, sys.executable, str(HERE / "offline.py"), str(log), str(folder / "commands.json")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert "@" in done.stdout, done.stderr
    return json.loads(done.stdout.rpartition("@")[2]), log.read_text()


@pytest.mark.fault(28)
@pytest.mark.timeout(600)
@pytest.mark.parametrize("where", ["here", "a namespace without a network"])
def test_commands_do_without_a_network(where: str, tmp_path: Path, tally: Tally) -> None:
    before = [] if where == "here" else NAMESPACE
    allowed = subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False).returncode == 0
    if before and not allowed:
        pytest.skip("this system does not let us make a network namespace")
    if allowed and not before and not tally.full:
        pytest.skip("the same commands run in a namespace beside: make faults does both")
    commands = _commands(tmp_path, tally.full)
    codes, log = _run(tmp_path, commands, before)
    for command, code in zip(commands, codes, strict=True):
        with tally.attempt(" ".join(command[:2])):
            # 1: an explanation of a model that learned nothing says so.
            assert code in ({0, 1} if command[0] == "explain" else {0})
    with tally.attempt("log"):
        assert log == ""
    covered = {command[0] for command in commands} | {"fetch"}
    assert covered == set(COMMANDS) or not tally.full
    assert covered | {"demo", "paper", "bench"} == set(COMMANDS), "a command is new: run it here"


@pytest.mark.fault(28)
def test_fetch_alone_asks(tmp_path: Path, tally: Tally) -> None:
    if not tally.full:
        pytest.skip("takes half a minute: make faults")
    with tally.attempt("fetch"):
        codes, log = _run(
            tmp_path, [["fetch", "abide", str(tmp_path / "abide"), "--cache", str(tmp_path / "cache")]], []
        )
        assert codes == [2]
        assert "socket." in log or "urllib." in log


@pytest.mark.fault(28)
@pytest.mark.parametrize(
    "code",
    [
        "import socket; socket.create_connection(('192.0.2.1', 80))",
        "import socket; socket.getaddrinfo('example.org', 80)",
        "import urllib.request; urllib.request.urlopen('https://example.org')",
        "import multiprocessing, socket; "
        "multiprocessing.get_context('spawn').Process(target=socket.gethostbyname, args='a').start()",
    ],
)
def test_the_watch_notices(code: str, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text((HERE / "offline.py").read_text())
    (tmp_path / "code.py").write_text(f"if __name__ == '__main__':\n    {code}\n")
    environment = {**ENVIRONMENT, "PYTHONPATH": str(tmp_path), "RMIXUP_WATCH": str(tmp_path / "log")}
    subprocess.run([sys.executable, str(tmp_path / "code.py")], env=environment, capture_output=True, check=False)
    assert (tmp_path / "log").read_text()
