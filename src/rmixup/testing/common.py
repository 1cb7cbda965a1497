"""What the checks share: how problems are told, networks to try things on, when numbers count as equal."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from rmixup import keys


def report(problems: Iterator[str], what: str) -> None:
    """Raise one AssertionError that names every rule broken."""
    found = list(problems)
    if found:
        raise AssertionError(f"{what} breaks {len(found)} rule(s):\n- " + "\n- ".join(found))


def correlations(count: int, n: int) -> Tensor:
    """Random correlation matrices (count, n, n) of full rank, float32."""
    series = keys.generator(0, "check", count, n).standard_normal((count, n, 2 * n + 10))
    return torch.from_numpy(np.stack([np.corrcoef(one) for one in series])).float()


def close(got: Tensor, expected: Tensor, tolerance: float = 1e-4) -> bool:
    """Equal to a share of the largest value: single precision, sums in another order."""
    return bool((got - expected).abs().max() <= tolerance * expected.abs().max().clamp(min=1e-6))


def global_chance() -> tuple[bytes, str]:
    """The state of the global generators, which nobody may use."""
    return torch.get_rng_state().numpy().tobytes(), str(np.random.get_state(legacy=False))  # noqa: NPY002
