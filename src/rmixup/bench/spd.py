"""The step that mixes a batch of networks, as the paper does it and as rmixup does, and the logs before it.

Method by method, the work is: two batches of networks (or of their cached logs, float32) in, one batch of mixes
out. `ratio` says how many times faster than "pre-computed eigh step" a method is at the same n and batch (rows
"log ..." and "exp ...": than the eigen-decomposition of the same name), `error` is the largest relative Frobenius
error of its mixes against float64. May not be here: anything that a machine with torch and NumPy alone cannot run.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rmixup import keys
from rmixup.bench.timing import side_by_side
from rmixup.spd import product, spectral
from rmixup.spd.door import symmetrize

Row = dict[str, Any]
Call = Callable[[], Tensor]

BASELINE = "pre-computed eigh step"
FRAMES_PER_NODE = 1.2
SIZES, BATCHES = (50, 100, 200, 360), (16, 128)
QUICK_SIZES, QUICK_BATCHES = (50, 100), (16,)
# Networks in one float64 batch of logs: what a GPU needs to be busy, and what a CPU bears.
LOGS = {"cuda": 64, "cpu": 4}
# Seconds a method gets at each size, and rounds; slow methods take one call a round whatever this says.
SECONDS, QUICK_SECONDS = 0.5, 0.1
ROUNDS = 5


def rows(quick: bool = False) -> list[Row]:
    """Time every method at every size, side by side; see the module's text for what a row says."""
    sizes, batches = (QUICK_SIZES, QUICK_BATCHES) if quick else (SIZES, BATCHES)
    return table(sizes, batches, QUICK_SECONDS if quick else SECONDS)


def table(sizes: tuple[int, ...], batches: tuple[int, ...], seconds: float) -> list[Row]:
    """The rows of chosen sizes."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    found = []
    for n in sizes:
        for batch in batches:
            found += _steps(n, batch, device, seconds)
        found += _functions(n, device, seconds)
    return found


def networks(count: int, n: int, seed: int = 0) -> Tensor:
    """Correlation matrices (count, n, n), float64, of simulated autocorrelated series with a common signal."""
    frames = int(FRAMES_PER_NODE * n) + 1
    drawn = torch.from_numpy(keys.generator(seed, "bench", "spd", n, count).standard_normal((count, frames, n + 1)))
    series = drawn[..., :n] + drawn[..., n:]
    for t in range(1, frames):
        series[:, t] += 0.5 * series[:, t - 1]
    series = series - series.mean(1, keepdim=True)
    series = series / series.norm(dim=1, keepdim=True)
    return symmetrize(series.mT @ series)


class Inputs:
    """What a step gets: networks and their cached logs, each with a shuffled partner and a weight."""

    def __init__(self, n: int, batch: int, device: torch.device) -> None:
        S = networks(batch, n)
        logs = spectral.logm(S)
        lam = torch.from_numpy(keys.generator(0, "bench", "spd", "lam").random((batch, 1, 1)))
        w = torch.linalg.eigvalsh(S).log()
        self.bounds = float(w.min()), float(w.max())
        self.truth = spectral.expm(torch.lerp(logs, logs.roll(1, 0), lam)).to(device)
        self.linear = torch.lerp(S, S.roll(1, 0), lam).to(device)
        self.lam = lam.to(device, torch.float32)
        self.a, self.log_a = (x.to(device, torch.float32) for x in (S, logs))
        self.b, self.log_b = self.a.roll(1, 0), self.log_a.roll(1, 0)

    def mixed_logs(self) -> Tensor:
        """The log-Euclidean mix before its exponential."""
        mix: Tensor = torch.lerp(self.log_a, self.log_b, self.lam)
        return mix

    def truth_of(self, method: str) -> Tensor:
        """What a method should give, in float64."""
        return self.linear if method == "vmixup" else self.truth


def _steps(n: int, batch: int, device: torch.device, seconds: float) -> list[Row]:
    inputs = Inputs(n, batch, device)
    calls = step_calls(inputs)
    if device.type == "cuda":
        calls["rmixup cuda graph"] = _captured(calls["rmixup"])
    times = side_by_side(calls, device, seconds, ROUNDS)
    pyriemann = pyriemann_call(inputs)
    if callable(pyriemann):
        # After the others: NumPy's threads keep spinning for a while and would slow whatever comes next.
        calls["pyriemann"] = pyriemann
        times |= side_by_side({"pyriemann": pyriemann}, device, seconds, rounds=1)
    found = [
        _row(name, (n, batch), times[name], times[BASELINE], _error(call(), inputs.truth_of(name)))
        for name, call in calls.items()
    ]
    return found if callable(pyriemann) else [*found, _skipped("pyriemann", (n, batch), pyriemann)]


def step_calls(inputs: Inputs) -> dict[str, Call]:
    """The step by each method, the baseline first."""
    return {
        BASELINE: lambda: _eigh_function(inputs.mixed_logs(), torch.exp),
        "paper step": lambda: _paper_step(inputs),
        "matrix_exp": lambda: torch.linalg.matrix_exp(inputs.mixed_logs()),
        "rmixup": lambda: product.expm(inputs.mixed_logs(), inputs.bounds),
        "rmixup without bounds": lambda: product.expm(inputs.mixed_logs()),
        "vmixup": lambda: torch.lerp(inputs.a, inputs.b, inputs.lam),
    }


def _functions(n: int, device: torch.device, seconds: float) -> Iterator[Row]:
    """Logs and exponentials of float64 matrices, seconds a matrix."""
    batch = LOGS.get(device.type, LOGS["cpu"])
    S = networks(batch, n)
    w = torch.linalg.eigvalsh(S)
    lo, hi = float(w.min()), float(w.max())
    logs = spectral.logm(S)
    S, L = S.to(device), logs.to(device)
    calls: dict[str, Call] = {
        "log eigh float64": lambda: spectral.logm(S),
        "log product float64": lambda: product.logm(S, (lo, hi)),
        "exp eigh float64": lambda: spectral.expm(L),
        "exp product float64": lambda: product.expm(L, (float(np.log(lo)), float(np.log(hi)))),
    }
    errors = {name: _error(call(), L if name.startswith("log") else S) for name, call in calls.items()}
    times = side_by_side(calls, device, seconds, ROUNDS)
    for name in calls:
        baseline = times[f"{name[:3]} eigh float64"]
        yield _row(name, (n, batch), times[name] / batch, baseline / batch, errors[name])


def _eigh_function(S: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
    """As the paper's code does it: float32, no chunks, no check."""
    w, V = torch.linalg.eigh(S)
    result: Tensor = (V * function(w)[..., None, :]) @ V.mT
    return result


def _paper_step(inputs: Inputs) -> Tensor:
    log_a, log_b = (_eigh_function(S, lambda w: w.clamp(min=1e-8).log()) for S in (inputs.a, inputs.b))
    return _eigh_function(torch.lerp(log_a, log_b, inputs.lam), torch.exp)


def pyriemann_call(inputs: Inputs) -> Call | str:
    """pyRiemann's geodesic on float64 NumPy arrays, as its documentation shows it, or why it is missing."""
    if inputs.a.is_cuda:
        return "skipped: its geodesic is compared on the CPU"
    try:
        from pyriemann.geometry.geodesic import geodesic_logeuclid
    except ImportError:
        return "skipped: pyriemann >= 0.12 is not installed"
    a, b = (x.double().numpy() for x in (inputs.a, inputs.b))
    lam = inputs.lam[:, 0, 0].double().numpy()

    def mix() -> Tensor:
        with warnings.catch_warnings():  # array-api-extra deprecates what pyRiemann 0.12 calls
            warnings.simplefilter("ignore", DeprecationWarning)
            return torch.from_numpy(geodesic_logeuclid(a, b, lam))

    return mix


def _captured(step: Call) -> Call:
    """The step as one CUDA graph."""
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = step()

    def replay() -> Tensor:
        graph.replay()
        return result

    return replay


def _error(mix: Tensor, truth: Tensor) -> float:
    difference = torch.linalg.matrix_norm(mix.to(truth.dtype) - truth)
    return float((difference / torch.linalg.matrix_norm(truth)).amax())


def _row(method: str, size: tuple[int, int], seconds: float, baseline: float, error: float) -> Row:
    return {
        "method": method,
        "n": size[0],
        "batch": size[1],
        "seconds": seconds,
        "ratio": baseline / seconds,
        "baseline": f"{method[:3]} eigh float64" if method.endswith("float64") else BASELINE,
        "error": error,
    }


def _skipped(method: str, size: tuple[int, int], reason: str) -> Row:
    return {
        "method": f"{method} ({reason})",
        "n": size[0],
        "batch": size[1],
        "seconds": None,
        "ratio": None,
        "error": None,
    }
