"""Training a step: the engine against a plain PyTorch loop, alone and many runs at once.

The baseline is the loop that people write: torch's own encoder layers, dropout and Adam, mixup of the batch, one run
after another. `ratio` is how many times less time a run's step takes than there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from rmixup import keys
from rmixup.augment import METHODS
from rmixup.augment.labels import encode
from rmixup.bench.timing import side_by_side
from rmixup.models import build
from rmixup.train.feed import Problem, Run
from rmixup.train.protocol import Precision, Protocol
from rmixup.train.training import Training

BATCH = 16
BASELINE = "plain PyTorch loop"
# Steps of the timed epochs: enough that what is done once an epoch weighs as in a study.
STEPS = {"cpu": 3, "cuda": 44}
STACKS = {100: (1, 10, 40, 80), 200: (1, 10, 40), 360: (1, 10, 20)}


class PlainModel(nn.Module):
    """The protocol's Transformer as torch's own layers give it."""

    def __init__(self, n: int) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(n, 4, 1024, 0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.reduce = nn.Linear(n, 8)
        self.head = nn.Sequential(
            nn.Linear(8 * n, 256), nn.LeakyReLU(), nn.Linear(256, 32), nn.LeakyReLU(), nn.Linear(32, 2)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, n, n) to (B, 2)."""
        out: Tensor = self.head(functional.leaky_relu(self.reduce(self.encoder(x))).flatten(1))
        return out


def rows(quick: bool) -> list[dict[str, Any]]:
    """Seconds a step and run at n = 100, 200, 360 (quick: 100), batch 16."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    found = []
    for n in (100,) if quick else STACKS:
        sizes = STACKS[n] if device.type == "cuda" else (1,)
        found += _rows_of(n, sizes[:2] if quick else sizes, device)
    return found


def _rows_of(n: int, sizes: tuple[int, ...], device: torch.device) -> list[dict[str, Any]]:
    steps = STEPS[device.type]
    problem = cohort(n, BATCH * steps + 40)
    calls: dict[str, Callable[[], object]] = {BASELINE: plain_loop(problem, steps, device)}
    names = {BASELINE: (steps, 1)}
    precisions: tuple[Precision, ...] = ("fp32", "tf32") if device.type == "cuda" else ("fp32",)
    for precision in precisions:
        for size in sizes:
            name = f"engine, {size} run{'s' * (size > 1)}{', ' + precision if precision != 'fp32' else ''}"
            calls[name] = stack_of(problem, ["rmixup"] * size, steps, device, precision).epoch
            names[name] = (steps, size)
    seconds = side_by_side(calls, device, seconds_each=2.0, rounds=3)
    each = {name: seconds[name] / (count * size) for name, (count, size) in names.items()}
    return [
        {"method": name, "n": n, "batch": BATCH, "seconds": each[name], "ratio": each[BASELINE] / each[name]}
        for name in calls
    ]


def cohort(n: int, count: int) -> Problem:
    """Correlations of random series with two classes, made on the host."""
    rng = keys.generator(0, "bench", "cohort", n)
    series = torch.from_numpy(rng.standard_normal((count, n, n + n // 2), dtype=np.float32))
    unit = functional.normalize(series - series.mean(-1, keepdim=True), dim=-1)
    return Problem(unit @ unit.mT, encode(np.arange(count) % 2))


def stack_of(
    problem: Problem, methods: list[str], steps: int, device: torch.device, precision: Precision = "fp32"
) -> Training:
    """Runs of the protocol's Transformer, one a method, each with its own seed and split."""
    runs = []
    for seed, method in enumerate(methods):
        order = keys.generator(seed, "bench", "split").permutation(len(problem.x))
        train, validation = order[: BATCH * steps], order[BATCH * steps :]
        runs.append(Run(train, validation, order[:0], METHODS[method](), seed))
    built = [build("transformer", problem.x.shape[-1], 2, run.seed) for run in runs]
    return Training(problem, runs, built, Protocol(epochs=10_000, precision=precision), device)


def linear_mix(a: Tensor, b: Tensor, lam: float) -> Tensor:
    """Mixup as it is written out."""
    return (1 - lam) * a + lam * b


def plain_loop(
    problem: Problem, steps: int, device: torch.device, mix: Callable[[Tensor, Tensor, float], Tensor] = linear_mix
) -> Callable[[], None]:
    """An epoch of the loop that people write, with its validation; each batch is mixed with itself, shuffled."""
    x = problem.x.to(device)
    y = functional.one_hot(torch.arange(len(x), device=device) % 2, 2).float()
    model = PlainModel(x.shape[-1]).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, weight_decay=1e-4)

    def epoch() -> None:
        model.train()
        for step in range(steps):
            a = slice(step * BATCH, (step + 1) * BATCH)
            partner = torch.randperm(BATCH, device=device)
            lam = float(np.random.default_rng(step).beta(1, 1))
            mixed, label = mix(x[a], x[a][partner], lam), linear_mix(y[a], y[a][partner], lam)
            optimizer.zero_grad()
            functional.cross_entropy(model(mixed), label).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        model.eval()
        with torch.no_grad():
            model(x[BATCH * steps :])

    return epoch
