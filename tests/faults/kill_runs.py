"""Runs a study in children that are killed with SIGKILL: `kill_runs.py FOLDER random|renames TRIES`; prints a report.

Everything is loaded once and each child is a fork of this process, so that a hundred kills take seconds. Forking is
safe here: one thread, and none of the numeric libraries has started any.
"""

import json
import os
import random
import shutil
import signal
import sys
import time
from itertools import count
from pathlib import Path

import sgd_work

from rmixup.study.project import Study, open_study
from rmixup.study.runner import run


def kill_at_random(study: Study, rng: random.Random, whole: float) -> None:
    """The child is killed from outside, some time within a whole run."""
    child = os.fork()
    if child == 0:
        run(study, sgd_work.work)
        os._exit(0)
    time.sleep(rng.random() * whole)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def kill_at_rename(study: Study, k: int) -> bool:
    """The child kills itself in place of its k-th rename: all is written, nothing is in place. False: it had fewer."""
    child = os.fork()
    if child == 0:
        calls, rename = count(), Path.rename

        def die_or_rename(self: Path, target: Path) -> Path:
            if next(calls) == k:
                os.kill(os.getpid(), signal.SIGKILL)
            return rename(self, target)

        Path.rename = die_or_rename  # type: ignore[assignment, method-assign]
        run(study, sgd_work.work)
        os._exit(0)
    return os.waitpid(child, 0)[1] != 0


def clear(study: Study) -> None:
    for name in ("cells", "claims", "failed"):
        shutil.rmtree(study.folder / name, ignore_errors=True)


def timed_run(study: Study) -> float:
    """Seconds of a whole run, everything being loaded."""
    clear(study)
    start = time.perf_counter()
    run(study, sgd_work.work)
    return time.perf_counter() - start


def main() -> None:
    study = open_study(Path(sys.argv[1]))
    tries, rng = int(sys.argv[3]), random.Random(0)
    run(study, sgd_work.work)
    expected = study.store.hashes()
    whole = timed_run(study)
    partial = left_over = lost = 0
    for k in range(tries):
        clear(study)
        if sys.argv[2] == "random":
            kill_at_random(study, rng, whole)
        else:
            kill_at_rename(study, k)
        partial += 0 < len(study.store.done()) < len(expected)
        left_over += bool(list(study.folder.rglob(".tmp-*")))
        run(study, sgd_work.work)
        lost += study.store.hashes() != expected or bool(list(study.folder.rglob(".tmp-*")))
    report = json.dumps({"tries": tries, "partial": partial, "left_over": left_over, "lost": lost})
    sys.stdout.write(report)


if __name__ == "__main__":
    main()
