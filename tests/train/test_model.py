"""A fitted model predicts what the engine reported, in any process, and stops where it is told to."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from rmixup import simulate
from rmixup.augment import RMixup
from rmixup.augment.labels import encode
from rmixup.errors import DataError
from rmixup.train import engine, model
from rmixup.train.baselines import BASELINES
from rmixup.train.cohort import Settings, train
from rmixup.train.engine import Progress
from rmixup.train.feed import Problem, Run
from rmixup.train.folder import load_model, save_model
from rmixup.train.protocol import Protocol

RUN = Run(np.arange(17), np.arange(17, 24), np.arange(24, 30), RMixup(), 0)
LABELS: dict[str, Any] = {
    "binary": np.arange(30) % 2,
    "multi-class": np.arange(30) % 3,
    "regression": 100 + 10.0 * (np.arange(30) % 3),
    "multi-target": np.stack([100 + 10.0 * (np.arange(30) % 3), np.arange(30) % 5 / 1000], 1),
}
PROTOCOL = Protocol(epochs=3, batch_size=5, learning_rate=3e-3)
OPTIONS: dict[str, dict[str, Any]] = {"mlp": {"hidden": (8,)}, "linear": {}, "tangent": {}}


def networks(count: int = 30, n: int = 5) -> Tensor:
    series = np.random.default_rng(0).standard_normal((count, 6 * n, n))
    series[:, :, 1] += series[:, :, 0] * (np.arange(count) % 3)[:, None]
    return torch.from_numpy(np.stack([np.corrcoef(one.T) for one in series])).float()


def fit(task: str = "binary", backbone: str = "mlp", run: Run = RUN, **settings: Any) -> model.Fit:
    some = Problem(networks(), encode(LABELS[task]))
    protocol = settings.pop("protocol", PROTOCOL)
    return model.fit(some, run, backbone, OPTIONS[backbone], protocol, device="cpu", **settings)


@pytest.mark.parametrize("task", LABELS)
@pytest.mark.parametrize("backbone", OPTIONS)
def test_it_predicts_what_was_reported_also_after_pickling(backbone: str, task: str) -> None:
    fitted, x = fit(task, backbone), networks()
    outcome = fitted.outcome
    # Standardised outputs come back in single precision in the engine, in double here.
    close = {"rtol": 1e-5, "atol": 1e-6}
    np.testing.assert_allclose(fitted.best.predict(x[RUN.test]), outcome.best.test, **close)
    np.testing.assert_allclose(fitted.last.predict(x[RUN.test]), outcome.last.test, **close)
    np.testing.assert_allclose(fitted.best.predict(x[RUN.validation]), outcome.best.validation, **close)
    again = pickle.loads(pickle.dumps(fitted.best))  # noqa: S301 -- our own bytes
    np.testing.assert_array_equal(again.predict(x), fitted.best.predict(x))


def test_it_is_the_engines_run() -> None:
    some = Problem(networks(), encode(LABELS["binary"]))
    ours = model.fit(some, RUN, "mlp", OPTIONS["mlp"], PROTOCOL, device="cpu")
    theirs = engine.fit(some, [RUN], "mlp", options=OPTIONS["mlp"], protocol=PROTOCOL, device="cpu")[0]
    np.testing.assert_array_equal(ours.outcome.best.test, theirs.best.test)
    for name, value in theirs.state.items():
        assert torch.equal(ours.best.state[name], value)


@pytest.mark.parametrize("count", [0, 1, 130])
def test_any_number_of_networks_can_be_predicted(count: int) -> None:
    fitted, x = fit("multi-class"), networks(130)[:count]
    p = fitted.best.predict(x)
    assert p.shape == (count, 3)
    assert p.dtype == np.float64
    np.testing.assert_allclose(p.sum(1), 1)
    alone = [fitted.best.predict(one[None])[0] for one in x[:3]]
    np.testing.assert_allclose(p[:3], np.array(alone).reshape(-1, 3), atol=1e-6)


def test_progress_is_told_after_each_epoch() -> None:
    told: list[Progress] = []
    curves = fit(progress=told.append).outcome.curves
    assert [(now.epoch, now.epochs, now.runs) for now in told] == [(1, 3, 1), (2, 3, 1), (3, 3, 1)]
    np.testing.assert_array_equal([now.train_loss[0] for now in told], curves["train_loss"])
    np.testing.assert_array_equal([now.validation_score[0] for now in told], curves["validation_score"])


@pytest.mark.parametrize(("select", "task"), [("auroc", "binary"), ("loss", "binary"), ("mse", "regression")])
def test_patience_stops_so_many_epochs_after_the_best(select: str, task: str) -> None:
    protocol = Protocol(epochs=60, batch_size=5, learning_rate=0.1, select=select)
    whole, stopped = (fit(task, protocol=protocol, patience=patience).outcome for patience in (None, 4))
    done = len(stopped.curves["train_loss"])
    sign = 1 if select == "auroc" else -1
    scores = sign * whole.curves["validation_score"]
    expected = next(k for k in range(4, 60) if scores[: k - 3].max() >= scores[k - 3 : k + 1].max())
    assert done == expected + 1 < 60
    assert stopped.last.number == done
    assert stopped.best.number == done - 4
    np.testing.assert_array_equal(stopped.curves["train_loss"], whole.curves["train_loss"][:done])


def test_patience_needs_networks_to_wait_for() -> None:
    with pytest.raises(DataError, match="patience needs validation networks"):
        fit(patience=3, run=Run(np.arange(20), [], [], RMixup()))


def test_without_validation_the_last_epoch_is_kept() -> None:
    fitted = fit(run=Run(np.arange(20), [], np.arange(20, 30), RMixup()))
    assert fitted.outcome.best.number == fitted.outcome.last.number == 3
    for name, value in fitted.last.state.items():
        assert torch.equal(fitted.best.state[name], value)


def test_a_baseline_remembers_the_penalty_it_chose() -> None:
    fitted = fit(backbone="linear")
    assert fitted.best is fitted.last
    assert (
        fitted.best.options["C"]
        == BASELINES["linear"]()
        .fit(
            networks()[:17].double(),
            torch.from_numpy(LABELS["binary"][:17]),
            validation=(networks()[17:24].double(), torch.from_numpy(LABELS["binary"][17:24])),
        )
        .chosen_C
    )


def test_names_and_devices_that_do_not_exist_are_refused() -> None:
    with pytest.raises(DataError, match=r"backbone must be one of transformer, .*linear, tangent, but is 'resnet'"):
        model.known_backbone("resnet")
    with pytest.raises(DataError, match="does not take the options depth"):
        model.fit(Problem(networks(), encode(LABELS["binary"])), RUN, "linear", {"depth": 3}, PROTOCOL)
    with pytest.raises(DataError, match="device must be 'cpu', 'cuda' or another that torch knows, but is 'gpu'"):
        model.as_device("gpu")
    assert model.as_device("cpu") == torch.device("cpu")


def test_a_gpu_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert model.as_device(None) == torch.device("cpu")
    with pytest.raises(DataError, match="torch sees no GPU here"):
        model.as_device("cuda")


@pytest.mark.parametrize("backbone", ["mlp", "spdnet"])
def test_a_model_of_any_seed_is_the_same_in_memory_and_in_its_folder(backbone: str, tmp_path: Path) -> None:
    """SPDNet's orthogonal maps have bases that are drawn and not trained: they belong to the model."""
    ds = simulate(n_subjects=40, n_nodes=5, n_frames=40, effect=4.0)
    trained = train(ds, Settings(backbone, protocol=Protocol(epochs=2), seed=3))
    assert trained.record["scores"]["test"]["best"]["brier"] < 1
    split = ds.split(seed=3, sizes=(0.7, 0.1, 0.2))
    found = trained.predict(split[2]).values
    told = trained.score(split[2], trained.predict(split[2]))[0]
    assert told["log_loss"] == pytest.approx(trained.record["scores"]["test"]["best"]["log_loss"], rel=1e-4)
    again = load_model(save_model(tmp_path / "model", trained))
    np.testing.assert_array_equal(again.predict(split[2]).values, found)
