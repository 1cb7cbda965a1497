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
from collections import Counter
from collections.abc import Callable, Iterable
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


def kill_at_random(study: Study, expected: dict[str, str], each: float, tries: int) -> dict[str, int]:
    """So many kills, half of them amid the work; on a busy machine, where many come too late, more than so many."""
    work, rng, found = import_module(study.work).work, random.Random(0), Counter[str]()
    while found["tries"] < tries or (found["partial"] < tries // 2 and found["tries"] < 4 * tries):
        clear(study)
        killed_within(study, rng.randrange(len(expected)), rng.random() * each, lambda: run(study, work))
        found += judged(study, expected)
    return found


def kill_at_calls(study: Study, expected: dict[str, str], calls: Iterable[int]) -> dict[str, int]:
    """A kill in front of each of these changes of files, as far as there are so many."""
    work, found = import_module(study.work).work, Counter[str]()
    for call in calls:
        clear(study)
        if not killed_before(call, lambda: run(study, work)):
            break
        found += judged(study, expected)
    return found


def judged(study: Study, expected: dict[str, str]) -> Counter[str]:
    """What a kill left, and whether the study, resumed, is as if it had not been killed."""
    partial, left_over = 0 < len(study.store.done()) < len(expected), bool(list(study.folder.rglob(".tmp-*")))
    lost = whole_run(study) != expected or bool(list(study.folder.rglob(".tmp-*")))
    return Counter(tries=1, partial=partial, left_over=left_over, lost=lost)


def main() -> None:
    study = open_study(Path(sys.argv[1]))
    how, tries = sys.argv[2], int(sys.argv[3])
    expected = whole_run(study)
    clear(study)
    start = time.perf_counter()
    whole_run(study)
    each = (time.perf_counter() - start) / len(expected)
    if how == "random":
        found = kill_at_random(study, expected, each, tries)
    else:
        calls = sorted(random.Random(0).sample(range(int(sys.argv[4])), tries)) if tries else range(10**6)
        found = kill_at_calls(study, expected, calls)
    sys.stdout.write(json.dumps({"tries": 0, "partial": 0, "left_over": 0, "lost": 0} | found))


if __name__ == "__main__":
    main()
