"""How many times faster than its baseline each part is, held against what `ratios.json` keeps for this machine.

Both sides of a ratio are timed in turn in one run, so that a slow machine slows both; the fastest of several calls
counts, and a ratio that falls short is measured again, three times at most. On a machine of a class that has none kept,
ratios are printed and nothing fails. `python benchmarks/test_ratios.py` measures all and keeps them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from rmixup.bench import data, engine, spd
from rmixup.bench.timing import wait
from rmixup.data.connectivity import connectivity

pytestmark = pytest.mark.filterwarnings("ignore:.*expand_dims.*:DeprecationWarning")

KEPT = Path(__file__).with_name("ratios.json")
# A ratio may lose this share before it fails.
LOSS = 0.2
SECONDS, ROUNDS = 1.2, 12
RETRIES = 3
# Threads of one library go on spinning for a while after its call, and would slow the other's.
PAUSE = 0.02
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")

Pair = tuple[Callable[[], object], Callable[[], object]]


def machine() -> str:
    """The class of this machine, as `ratios.json` names it."""
    if DEVICE.type == "cuda":
        return torch.cuda.get_device_name()
    return {1: "one CPU core", 2: "two CPU cores"}.get(os.cpu_count() or 0, f"{os.cpu_count()} CPU cores")


def step_over_eigh(n: int) -> Pair:
    """The step that mixes a batch, over the paper's with its pre-computation."""
    calls = spd.step_calls(spd.Inputs(n, 16, DEVICE))
    return calls[spd.BASELINE], calls["rmixup"]


def step_over_pyriemann(n: int) -> Pair:
    """The same over pyRiemann's geodesic."""
    inputs = spd.Inputs(n, 16, torch.device("cpu"))
    theirs = spd.pyriemann_call(inputs)
    if isinstance(theirs, str):
        pytest.skip(theirs)
    return theirs, spd.step_calls(inputs)["rmixup"]


def connectivity_over_nilearn(n: int) -> Pair:
    """Ledoit-Wolf correlations of a cohort."""
    series = data.cohort(40, n)
    return data.nilearn_call("ledoit-wolf", series), lambda: connectivity(series, "ledoit-wolf")


def rmixup_over_vmixup(n: int) -> Pair:
    """A training step with linear mixing over one with geodesics: 1 where geometry is free."""
    steps = engine.STEPS[DEVICE.type]
    problem = engine.cohort(n, engine.BATCH * steps + 40)
    linear, geodesic = (engine.stack_of(problem, [method], steps, DEVICE) for method in ("vmixup", "rmixup"))
    return linear.epoch, geodesic.epoch


def engine_over_plain_loop(n: int) -> Pair:
    """A training step of the engine over one of a plain PyTorch loop."""
    steps = engine.STEPS[DEVICE.type]
    problem = engine.cohort(n, engine.BATCH * steps + 40)
    return engine.plain_loop(problem, steps, DEVICE), engine.stack_of(problem, ["rmixup"], steps, DEVICE).epoch


def import_over_numpy(_: int) -> Pair:
    """`import rmixup` in a new process, over `import numpy`: below 1 by what it loads beside."""

    def load(module: str) -> Callable[[], object]:
        return lambda: subprocess.run([sys.executable, "-c", f"import {module}"], check=True)

    return load("numpy"), load("rmixup")


RATIOS: dict[str, tuple[Callable[[int], Pair], int]] = {
    "step over pre-computed eigh, n = 100": (step_over_eigh, 100),
    "step over pre-computed eigh, n = 200": (step_over_eigh, 200),
    "step over pre-computed eigh, n = 360": (step_over_eigh, 360),
    "step over pyRiemann, n = 100": (step_over_pyriemann, 100),
    "connectivity over nilearn, n = 100": (connectivity_over_nilearn, 100),
    "training step with rmixup over vmixup, n = 100": (rmixup_over_vmixup, 100),
    "training step over a plain loop, n = 100": (engine_over_plain_loop, 100),
    "import of rmixup over numpy": (import_over_numpy, 0),
}


def measure(name: str) -> float:
    """One ratio: the fastest call of the baseline over the fastest of ours, taken in turn."""
    prepare, n = RATIOS[name]
    calls = prepare(n)
    fastest = [_seconds(call) for call in calls]  # warms up
    stop = time.perf_counter() + SECONDS
    for done in range(10 * ROUNDS):
        if done >= 3 and (done >= ROUNDS or time.perf_counter() > stop):
            break
        for side, call in enumerate(calls):
            time.sleep(PAUSE)
            fastest[side] = min(fastest[side], _seconds(call))
    return fastest[0] / fastest[1]


def _seconds(call: Callable[[], object]) -> float:
    wait(DEVICE)
    start = time.perf_counter()
    call()
    wait(DEVICE)
    return time.perf_counter() - start


def shortfall(name: str, ratio: float, kept: float) -> str | None:
    """What to say of a ratio that has lost more than it may."""
    if ratio >= (1 - LOSS) * kept:
        return None
    return f"{name}: {ratio:.2f} times, but {kept:.2f} were kept: more than {LOSS:.0%} lost on {machine()}"


@pytest.mark.parametrize("name", RATIOS)
def test_no_ratio_loses_more_than_a_fifth(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Fails where a part became slower beside its baseline, four times in a row."""
    kept = json.loads(KEPT.read_text()).get(machine(), {}).get(name)
    ratio = measure(name)
    for _ in range(RETRIES):
        if kept is not None and shortfall(name, ratio, kept):
            ratio = max(ratio, measure(name))
    with capsys.disabled():
        beside = "not compared, none kept for this machine" if kept is None else f"kept {kept:.2f}"
        print(f"\n{machine()}: {name}: {ratio:.2f} ({beside})")  # noqa: T201
    problem = None if kept is None else shortfall(name, ratio, kept)
    assert problem is None, problem


@pytest.mark.parametrize(("ratio", "fails"), [(8.1, False), (7.9, True), (12.0, False)])
def test_the_watch_barks(ratio: float, fails: bool) -> None:
    """A fifth may be lost, and no more."""
    assert (shortfall("a part", ratio, 10.0) is not None) == fails


def keep() -> None:
    """Measure all and keep them for machines of this class."""
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    kept[machine()] = {name: round(measure(name), 3) for name in RATIOS}
    KEPT.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    keep()
