"""A small cohort whose classes and ages show in one edge, and models that learn it in a moment."""

import numpy as np
import pytest

from rmixup.sklearn import NetworkClassifier, NetworkRegressor

N_PEOPLE, N_NODES, N_FRAMES = 40, 5, 60
QUICK = {
    "backbone": "mlp",
    "backbone_options": {"hidden": (8,)},
    "epochs": 12,
    "learning_rate": 1e-2,
    "select": "loss",
    "device": "cpu",
    "random_state": 0,
}


@pytest.fixture(scope="session")
def codes():
    return np.arange(N_PEOPLE) % 2


@pytest.fixture(scope="session")
def ages():
    return 40 + 20 * np.sin(np.arange(N_PEOPLE) * 2.3)


@pytest.fixture(scope="session")
def series(codes, ages):
    """(N, t, n): the first edge follows the class, the second the age."""
    made = np.random.default_rng(0).standard_normal((N_PEOPLE, N_FRAMES, N_NODES))
    made[:, :, 1] += made[:, :, 0] * (2.0 * codes - 1)[:, None]
    made[:, :, 3] += made[:, :, 2] * ((ages - 40) / 20)[:, None]
    return made


@pytest.fixture(scope="session")
def x(series):
    return np.stack([np.corrcoef(one.T) for one in series])


@pytest.fixture
def classifier():
    return NetworkClassifier(**QUICK)


@pytest.fixture
def regressor():
    return NetworkRegressor(**QUICK)
