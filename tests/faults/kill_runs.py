"""Runs a study in children that are killed with SIGKILL: `kill_runs.py FOLDER random|calls TRIES`; prints a report.

Everything is loaded once and each child is a fork of this process, so that a hundred kills take seconds. Forking is
safe here: one thread, and none of the numeric libraries has started any; what is computed is computed in children.
"""

import contextlib
import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from forks import in_child, killed_before

from rmixup.study.project import Study, open_study
from rmixup.study.runner import run


def killed_within(study: Study, cells: int, seconds: float, function: Callable[[], object]) -> None:
    """The child is killed from outside, so long after so many cells are done: a slow machine is killed as far on."""
    child = os.fork()
    if child == 0:
        function()
        os._exit(0)
    while len(study.store.done()) < cells and os.waitpid(child, os.WNOHANG) == (0, 0):
        time.sleep(0.001)
    time.sleep(seconds)
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(child, 0)


def clear(study: Study) -> None:
    for name in ("cells", "claims", "failed"):
        shutil.rmtree(study.folder / name, ignore_errors=True)


def whole_run(study: Study) -> dict[str, str]:
    """The hashes of the study, run on from whatever is there."""
    work = import_module(study.work).work

    def live() -> dict[str, str]:
        assert run(study, work).complete
        return study.store.hashes()

    status, said = in_child(live)
    assert status == 0, said
    return dict(said)


def main() -> None:
    study = open_study(Path(sys.argv[1]))
    how, tries, rng = sys.argv[2], int(sys.argv[3]), random.Random(0)
    work = import_module(study.work).work
    expected = whole_run(study)
    clear(study)
    start = time.perf_counter()
    whole_run(study)
    each = (time.perf_counter() - start) / len(expected)
    found = {"tries": 0, "partial": 0, "left_over": 0, "lost": 0}
    calls = range(10**6) if tries == 0 else sorted(rng.sample(range(int(sys.argv[4])), tries))
    for call in calls:
        clear(study)
        if how == "random":
            cells = rng.randrange(len(expected))
            killed_within(study, cells, rng.random() * each, lambda: run(study, work))
        elif not killed_before(call, lambda: run(study, work)):
            break
        found["tries"] += 1
        found["partial"] += 0 < len(study.store.done()) < len(expected)
        found["left_over"] += bool(list(study.folder.rglob(".tmp-*")))
        found["lost"] += whole_run(study) != expected or bool(list(study.folder.rglob(".tmp-*")))
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
