"""Fixtures of a small real study: logistic regressions on simulated correlation matrices."""

from pathlib import Path

import numpy as np
import pytest
import sgd_work

from rmixup.study.project import Settings, Study, begin
from rmixup.study.spec import parse_spec

SPEC = """
[data]
path = {path!r}
[split]
repeats = {repeats}
sizes = [0.6, 0.1, 0.3]
[protocol]
epochs = 4
[grid]
backbones = ["sgd"]
methods = {methods}
"""


@pytest.fixture
def data_file(tmp_path: Path) -> Path:
    """60 correlation matrices of 6 nodes, the two classes a little apart."""
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    shared = rng.normal(size=(60, 40, 1)) * (0.4 + 0.5 * y[:, None, None])
    series = rng.normal(size=(60, 40, 6)) + shared
    path = tmp_path / "data.npz"
    np.savez(path, matrices=np.array([np.corrcoef(s.T) for s in series]), y=y)
    return path


@pytest.fixture
def make_study(tmp_path: Path, data_file: Path) -> sgd_work.Make:
    """Begin a study in a folder of that name."""

    def make(
        name: str = "study", methods: str = '["none", "mix"]', repeats: int = 4, stack: int = 2, **more: object
    ) -> Study:
        spec = parse_spec(SPEC.format(path=str(data_file), repeats=repeats, methods=methods))
        data = sgd_work.identify(spec.data)
        return begin(tmp_path / name, spec, data, Settings(stack=stack), "sgd_work", **more)  # type: ignore[arg-type]

    return make
