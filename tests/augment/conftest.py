"""Small training sets of correlation matrices of full rank."""

import numpy as np
import pytest

from rmixup import keys


def correlations(count: int, nodes: int, seed: int = 0) -> np.ndarray:
    """(count, nodes, nodes) float64, exactly symmetric, unit diagonal, positive definite."""
    series = keys.generator(seed, "test", count, nodes).standard_normal((count, 3 * nodes + 8, nodes))
    series[..., 1:] += 0.6 * series[..., :-1]
    x = np.stack([np.corrcoef(one.T) for one in series])
    x = 0.5 * (x + x.swapaxes(1, 2))
    x[:, range(nodes), range(nodes)] = 1.0
    return x


@pytest.fixture(scope="session")
def x() -> np.ndarray:
    return correlations(20, 7)


@pytest.fixture(scope="session")
def codes() -> np.ndarray:
    return np.arange(20) % 2


@pytest.fixture(scope="session")
def numbers() -> np.ndarray:
    return keys.generator(1, "numbers").normal(30, 5, 20)
