"""What every test shares: few threads, reproducible generated inputs, the door to the real data."""

import os
import signal
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

# A shell has Ctrl-C ignored in what runs in its background, and so would the commands that tests start and stop.
signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ.setdefault("MPLBACKEND", "Agg")  # no import: the GPU machine has no matplotlib
torch.set_num_threads(2)
settings.register_profile(
    "ci", max_examples=50, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("thorough", max_examples=1000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder that `unpack.py` wrote."""
    folder = os.environ.get("RMIXUP_DATA")
    if not folder:
        pytest.skip("RMIXUP_DATA does not name the unpacked real data")
    return Path(folder)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if torch.cuda.is_available():
        return
    for item in items:
        if "gpu" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))
