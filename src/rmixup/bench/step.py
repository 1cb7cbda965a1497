"""A whole training step with each augmentation, in the engine. The baseline is vmixup: `ratio` is the cost over it."""

from __future__ import annotations

from typing import Any

import torch

from rmixup.bench.engine import BATCH, STACKS, cohort, stack_of
from rmixup.bench.timing import side_by_side

BASELINE = "vmixup"
METHODS = (BASELINE, "none", "dmixup", "gmixup", "rmixup", "tangent")
STEPS = {"cpu": 4, "cuda": 44}
STACK = {"cpu": 1, "cuda": 20}


def rows(quick: bool) -> list[dict[str, Any]]:
    """Seconds a step and run at n = 100, 200, 360 (quick: 100), batch 16."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return [row for n in ((100,) if quick else STACKS) for row in _rows_of(n, quick, device)]


def _rows_of(n: int, quick: bool, device: torch.device) -> list[dict[str, Any]]:
    steps, size = STEPS[device.type], STACK[device.type]
    problem = cohort(n, BATCH * steps + 40)
    methods = (BASELINE, "rmixup") if quick else METHODS
    trainings = {method: stack_of(problem, [method] * size, steps, device) for method in methods}
    seconds = side_by_side(
        {name: training.epoch for name, training in trainings.items()}, device, seconds_each=1.0 if quick else 4.0
    )
    return [
        {
            "method": name,
            "n": n,
            "batch": BATCH,
            "seconds": value / (steps * size),
            "ratio": value / seconds[BASELINE],
        }
        for name, value in seconds.items()
    ]
