"""Commands of rmixup, in this process or in one of their own, and what a refusal must look like."""

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from rmixup.cli import run

HERE = Path(__file__).parent
MAIN = [sys.executable, "-c", "from rmixup.cli import main; main()"]
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parent / "study")]),
    "OMP_NUM_THREADS": "1",
    "MPLBACKEND": "Agg",
}


def call(*arguments: object) -> tuple[int, str, str]:
    """Run a command in this process: exit code, standard output, standard error."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run([str(one) for one in arguments])
    return code, out.getvalue(), err.getvalue()


def process(*arguments: object, **more: Any) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own; `environment` is put over the usual one."""
    environment = {**ENVIRONMENT, **more.pop("environment", {})}
    command = [*more.pop("before", []), *MAIN, *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, **more)


def is_refusal(code: int, said: str, *words: str) -> None:
    """Exit code 2 and one line on standard error that holds all these words."""
    assert code == 2, f"exit code {code}: {said}"
    assert said.startswith("rmixup: error: "), said
    assert said.count("\n") == 1, said
    assert "Traceback" not in said
    assert "this is a defect" not in said, said
    missing = [word for word in words if word not in said]
    assert not missing, f"{missing} not in: {said}"


SPEC = """
data.path = {path!r}
split.repeats = {repeats}
protocol.epochs = {epochs}
grid.methods = {methods}
grid.backbones = [{{name = "mlp", hidden = [4]}}]
"""


def write_spec(
    path: Path,
    data: Path,
    *,
    repeats: int = 1,
    epochs: int = 1,
    methods: str = '["none", "rmixup"]',
    more: str = "",
) -> Path:
    """A spec of a small study."""
    path.write_text(more + SPEC.format(path=str(data), repeats=repeats, epochs=epochs, methods=methods))
    return path
