"""How times are taken: methods interleaved round by round, medians, the device waited for."""

from __future__ import annotations

import platform
import statistics
import time
from collections.abc import Callable, Mapping

import torch


def describe_machine() -> str:
    """Processor or GPU, threads, versions, in one line."""
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else (platform.processor() or platform.machine())
    return f"{device}, {torch.get_num_threads()} threads, torch {torch.__version__}, Python {platform.python_version()}"


def wait(device: torch.device) -> None:
    """Let the device finish."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def side_by_side(
    calls: Mapping[str, Callable[[], object]],
    device: torch.device,
    seconds_each: float = 1.0,
    rounds: int = 5,
) -> dict[str, float]:
    """Median seconds a call. Every round runs each call in turn, so that a slow moment hits all of them."""
    repeats = {name: _repeats(call, device, seconds_each / rounds) for name, call in calls.items()}
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            taken[name].append(_time(call, device, repeats[name]))
    return {name: statistics.median(times) for name, times in taken.items()}


def _time(call: Callable[[], object], device: torch.device, repeats: int) -> float:
    wait(device)
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    wait(device)
    return (time.perf_counter() - start) / repeats


def _repeats(call: Callable[[], object], device: torch.device, seconds: float) -> int:
    """How often a call fits into the time, after a warm-up."""
    call()
    once = _time(call, device, 1)
    return max(1, min(1000, int(seconds / max(once, 1e-7))))
