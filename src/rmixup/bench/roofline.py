"""How near to the hardware's limit: operations and bytes counted, the least time they can take, the share reached.

The roof is measured in the same run: the best rate of a large float32 product, by torch's matmul and, on a CPU, by a
convolution with one pixel, which goes through another library; and the rate of a large copy. `ratio` is the share of
the floor in what was measured, so 1 at the roof. May not be here: rates from data sheets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from rmixup.bench import engine, spd
from rmixup.bench.timing import side_by_side
from rmixup.spd import product

Row = dict[str, Any]

SIZES, QUICK_SIZES = (100, 200, 360), (40,)
LARGE = {"cpu": (2048, 512), "cuda": (8192, 8192)}
COPIED = {"cpu": 2**28, "cuda": 2**30}
SECONDS, QUICK_SECONDS = 1.0, 0.05
ROUNDS = 5


def rows(quick: bool = False) -> list[Row]:
    """The roof, then the step that mixes and the training step at each size."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    seconds = QUICK_SECONDS if quick else SECONDS
    roof = _roof(device, LARGE[device.type][quick], seconds)
    rate, copied = max(row["gflops"] for row in roof if row["gflops"]), roof[-1]["gb_s"]
    found = [_mixing(n, device, seconds) for n in (QUICK_SIZES if quick else SIZES)]
    found += [_training(n, device, seconds) for n in (QUICK_SIZES if quick else SIZES)]
    return roof + [_held(row, rate, copied) for row in found]


def mixing_operations(n: int, batch: int, products: int, device: torch.device) -> float:
    """Operations of a mix: 2n³ a product; a CPU leaves out the blocks above the diagonal of large ones."""
    blocked = device.type == "cpu" and n >= product.BLOCKS_FROM
    share = (product.BLOCKS + 1) / (2 * product.BLOCKS) if blocked else 1.0
    return 2.0 * n**3 * batch * products * share


def training_operations(n: int, batch: int) -> float:
    """Operations of the protocol's Transformer, forward and backward: the products of its layers and heads alone.

    >>> round(training_operations(100, 16) / 1e9, 1)
    5.1
    """
    tokens, feedforward, layers = batch * n, 1024, 2
    layer = 2 * tokens * (4 * n**2 + 2 * n * feedforward) + 4 * batch * n**3
    head = 2 * tokens * n * 8 + 2 * batch * (8 * n * 256 + 256 * 32 + 32 * 2)
    return 3.0 * (layers * layer + head)


def _roof(device: torch.device, size: int, seconds: float) -> list[Row]:
    A = torch.randn(size, size, device=device)
    image, kernel = A[None, :, None].permute(0, 3, 1, 2), A[:, :, None, None]
    room, copy = (torch.empty(COPIED[device.type] // 4, device=device) for _ in range(2))
    calls: dict[str, Callable[[], object]] = {"roof: matmul": lambda: A @ A}
    if device.type == "cpu":
        calls["roof: convolution with one pixel"] = lambda: functional.conv2d(image, kernel)
    calls["roof: copy"] = lambda: copy.copy_(room)
    taken = side_by_side(calls, device, seconds, ROUNDS)
    return [
        {
            "method": name,
            "n": None if name.endswith("copy") else size,
            "seconds": taken[name],
            "gflops": None if name.endswith("copy") else 2 * size**3 / taken[name] / 1e9,
            "gb_s": 2 * COPIED[device.type] / taken[name] / 1e9 if name.endswith("copy") else None,
        }
        for name in calls
    ]


def _mixing(n: int, device: torch.device, seconds: float) -> Row:
    inputs = spd.Inputs(n, engine.BATCH, device)
    taken = side_by_side({"rmixup": spd.step_calls(inputs)["rmixup"]}, device, seconds, ROUNDS)
    scheme, squarings = product.choose(inputs.bounds[1] - inputs.bounds[0])
    products = scheme.products + squarings
    return {
        "method": f"mix a batch ({products} products)",
        "n": n,
        "batch": engine.BATCH,
        "seconds": taken["rmixup"],
        "operations": mixing_operations(n, engine.BATCH, products, device),
        # Two logs in, one network out: what no way of computing it can avoid.
        "bytes": 3.0 * 4 * n**2 * engine.BATCH,
    }


def _training(n: int, device: torch.device, seconds: float) -> Row:
    steps = engine.STEPS[device.type]
    training = engine.stack_of(engine.cohort(n, engine.BATCH * steps + 40), ["rmixup"], steps, device)
    taken = side_by_side({"epoch": training.epoch}, device, seconds, ROUNDS)
    size = sum(value.numel() for value in training.stack.parameters.values())
    return {
        "method": "training step, Transformer",
        "n": n,
        "batch": engine.BATCH,
        "seconds": taken["epoch"] / steps,
        "operations": training_operations(n, engine.BATCH),
        # Parameters and Adam's two means, read and written.
        "bytes": 6.0 * 4 * size,
    }


def _held(row: Row, rate: float, copied: float) -> Row:
    """A row with its floor and the share of it that was reached."""
    floor = max(row["operations"] / rate, row["bytes"] / copied) / 1e9
    return {**row, "gflops": row["operations"] / row["seconds"] / 1e9, "floor": floor, "ratio": floor / row["seconds"]}
