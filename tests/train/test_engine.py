"""What the engine promises: a stack equals its runs, a resumed training the whole one, and nothing leaks."""

import warnings
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from rmixup import keys, models
from rmixup.augment import METHODS, RMixup, as_augmentation
from rmixup.augment.labels import encode
from rmixup.errors import DataError
from rmixup.train import engine
from rmixup.train.engine import Maker, Outcome, Progress
from rmixup.train.feed import Problem, Run
from rmixup.train.protocol import Protocol, rate
from rmixup.train.scores import score
from rmixup.train.training import Training, lowered

CPU = torch.device("cpu")
# A few float32 steps in another order of sums.
STACKED = {"rtol": 1e-5, "atol": 1e-5}
DOUBLE = {"rtol": 1e-9, "atol": 1e-12}
SMALL: dict[str, dict[str, Any]] = {
    "transformer": {"feedforward": 16, "layers": 1, "heads": 2},
    "gcn": {},
    "gin": {},
    "brainnetcnn": {"channels": 4},
    "spdnet": {},
    "mlp": {"hidden": (8,)},
}
TASKS = ("binary", "multi-class", "regression", "multi-target")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Networks this small are slower on two."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def networks(count: int = 30, n: int = 7, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    """Correlations whose first edges grow with the row number modulo 3."""
    rng = np.random.default_rng(seed)
    series = rng.standard_normal((count, 6 * n, n))
    series[:, :, 1] += series[:, :, 0] * (np.arange(count) % 3)[:, None]
    return torch.from_numpy(np.stack([np.corrcoef(one.T) for one in series])).to(dtype)


def labels(task: str, count: int = 30) -> Any:
    rows = np.arange(count)
    return {
        "binary": rows % 2,
        "multi-class": rows % 3,
        "regression": 100 + 10.0 * (rows % 3),
        "multi-target": np.stack([100 + 10.0 * (rows % 3), rows % 5 / 1000], 1),
    }[task]


def problem(task: str = "binary", n: int = 7, dtype: torch.dtype = torch.float32, **extra: Any) -> Problem:
    return Problem(networks(n=n, dtype=dtype), encode(labels(task)), np.arange(30) % 2, **extra)


def run(seed: int = 0, method: str = "rmixup", **extra: Any) -> Run:
    """Another split for each seed; 17 training networks are no multiple of a batch."""
    rows = np.random.default_rng(seed).permutation(30)
    return Run(rows[:17], rows[17:23], rows[23:], as_augmentation(method), seed, **extra)


def protocol(**settings: Any) -> Protocol:
    return Protocol(**{"epochs": 3, "batch_size": 5, "learning_rate": 3e-3, **settings})


def fit(some: Problem, runs: list[Run], backbone: str = "mlp", **settings: Any) -> list[Outcome]:
    options = settings.pop("options", SMALL[backbone])
    return engine.fit(some, runs, backbone, options=options, protocol=protocol(), device=CPU, **settings)


def training(some: Problem, runs: list[Run], backbone: str = "transformer", **settings: Any) -> Training:
    return Maker(some, backbone, SMALL[backbone], protocol(**settings), CPU)(runs)


def trained(some: Problem, runs: list[Run], epochs: int = 3, **settings: Any) -> Training:
    made = training(some, runs, epochs=epochs, **settings)
    for _ in range(epochs):
        made.epoch()
    return made


def determined(name: str, value: Tensor) -> Tensor:
    """A parameter without a key's bias: that has no gradient, and Adam takes whole steps on its rounding."""
    if not name.endswith("query_key_value.bias"):
        return value
    query, _, values = value.chunk(3)
    return torch.cat([query, values])


def assert_same(a: Outcome, b: Outcome, exactly: bool = False) -> None:
    tolerance = {"rtol": 0, "atol": 0} if exactly else STACKED
    for one, two in ((a.best, b.best), (a.last, b.last)):
        assert one.number == two.number
        np.testing.assert_allclose(one.validation, two.validation, **tolerance)
        np.testing.assert_allclose(one.test, two.test, **tolerance)
    assert a.curves.keys() == b.curves.keys()
    for name in a.curves:
        np.testing.assert_allclose(a.curves[name], b.curves[name], **tolerance, err_msg=name)
    for name, value in a.state.items():
        if exactly:
            assert torch.equal(value, b.state[name]), name
        elif value.dtype == torch.float64:  # in single precision more gradients than a key bias's are rounding
            torch.testing.assert_close(determined(name, value), determined(name, b.state[name]), **tolerance)
    assert (a.selected_by, a.diverged) == (b.selected_by, b.diverged)


# ---- a stack is its runs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dropout", "dtype"), [(0.0, torch.float32), (0.3, torch.float32), (0.3, torch.float64)])
@pytest.mark.parametrize("task", TASKS)
def test_a_stack_equals_single_runs(task: str, dropout: float, dtype: torch.dtype) -> None:
    some = problem(task, dtype=dtype)
    runs = [run(0), run(1, "vmixup", learning_rate=1e-2), run(2, "dropedge"), run(3, weight_decay=0.1), run(4, "none")]
    options = {**SMALL["transformer"], "dropout": dropout}
    together = fit(some, runs, "transformer", options=options, stack=len(runs))
    for one, outcome in zip(runs, together, strict=True):
        assert_same(outcome, fit(some, [one], "transformer", options=options)[0])
        assert outcome.run is one
    # The runs differ, so agreement is not for want of difference.
    assert np.abs(together[0].last.test[0] - together[3].last.test[0]).max() > 1e-3


def test_dropout_acts_in_training() -> None:
    some, one = problem(), run(0)
    with_it, without = (
        fit(some, [one], "transformer", options={**SMALL["transformer"], "dropout": p})[0].curves["train_loss"]
        for p in (0.3, 0.0)
    )
    assert np.abs(with_it - without).max() > 1e-3


@pytest.mark.parametrize("backbone", [name for name in models.BACKBONES if models.find(name).stackable])
def test_every_backbone_can_be_stacked_without_a_warning(backbone: str) -> None:
    some, runs = problem(), [run(0), run(1, "vmixup")]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        together = fit(some, runs, backbone, stack=2)
    for one, outcome in zip(runs, together, strict=True):
        alone = fit(some, [one], backbone)[0]
        np.testing.assert_allclose(outcome.last.test, alone.last.test, rtol=1e-4, atol=1e-4)


def test_what_cannot_be_stacked_says_so() -> None:
    with pytest.raises(DataError, match="SPDNet cannot be stacked; train its runs one after another"):
        fit(problem(), [run(0), run(1)], "spdnet", stack=2)


def test_the_order_of_runs_does_not_matter() -> None:
    some, runs = problem(), [run(0), run(1, "vmixup"), run(2, "dropnode"), run(3, "vmixup", learning_rate=0.02)]
    order = [2, 0, 3, 1]
    first = fit(some, runs, "transformer", stack=4)
    second = fit(some, [runs[k] for k in order], "transformer", stack=4)
    for place, k in enumerate(order):
        assert_same(second[place], first[k])


def test_unequal_training_sets_share_no_stack_and_change_nothing() -> None:
    some = problem()
    runs = [run(k) for k in range(5)]
    runs[1], runs[3] = (replace(runs[k], train=runs[k].train[:11]) for k in (1, 3))
    told: list[int] = []
    together = fit(some, runs, stack=8, progress=lambda now: told.append(now.runs))
    assert told == [3] * 3 + [2] * 3
    for one, outcome in zip(runs, together, strict=True):
        assert outcome.run is one
        assert_same(outcome, fit(some, [one])[0])


def test_validation_and_test_sets_may_differ_in_size_or_be_empty() -> None:
    some, runs = problem(), [run(k) for k in range(3)]
    runs[0] = replace(runs[0], validation=[], test=runs[0].test[:2])
    runs[1] = replace(runs[1], validation=runs[1].validation[:4], test=[])
    together = fit(some, runs, stack=3)
    assert [len(outcome.last.test) for outcome in together] == [2, 0, 7]
    for one, outcome in zip(runs, together, strict=True):
        assert_same(outcome, fit(some, [one])[0])
    # Nothing selects without validation networks: the last epoch stands.
    assert together[0].best.number == 3
    assert np.isnan(together[0].curves["validation_score"]).all()


def test_auto_is_one_run_at_a_time_on_a_cpu() -> None:
    told: list[Progress] = []
    fit(problem(), [run(0), run(1)], stack="auto", progress=told.append)
    assert [now.runs for now in told] == [1] * 6
    assert [now.epoch for now in told] == [1, 2, 3] * 2
    assert np.isfinite(told[-1].train_loss).all()


@pytest.mark.parametrize("stack", [0, "all", 1.5])
def test_a_stack_of_no_size_is_refused(stack: Any) -> None:
    with pytest.raises(DataError, match="whole number of at least 1, or 'auto'"):
        fit(problem(), [run(0)], stack=stack)


# ---- out of memory -----------------------------------------------------------------------------------------------


def limited(monkeypatch: pytest.MonkeyPatch, most: int) -> list[int]:
    """Let stacks of more than `most` runs fail; return the sizes that are tried."""
    real, tried = engine._train, []

    def train(make: Maker, runs: list[Run], progress: Any) -> list[Outcome]:
        tried.append(len(runs))
        if len(runs) > most:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return real(make, runs, progress)

    monkeypatch.setattr(engine, "_train", train)
    return tried


def test_a_stack_too_large_is_halved_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    some, runs = problem(), [run(k) for k in range(5)]
    whole = fit(some, runs, stack=5)
    tried = limited(monkeypatch, most=1)
    with pytest.warns(UserWarning, match="do not fit") as caught:
        halved = fit(some, runs, stack=5)
    assert tried == [5, 2, 1, 1, 1, 1, 1]
    assert [str(one.message) for one in caught] == [
        "5 runs at once do not fit the GPU's memory: going on with 2",
        "2 runs at once do not fit the GPU's memory: going on with 1",
    ]
    for a, b in zip(whole, halved, strict=True):
        assert_same(a, b)


def test_one_run_that_does_not_fit_is_an_error_also_as_the_last_of_a_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = limited(monkeypatch, most=0)
    with pytest.raises(torch.cuda.OutOfMemoryError):
        fit(problem(), [run(0)], stack=4)
    assert tried == [1]


# ---- a plain loop ------------------------------------------------------------------------------------------------


def standardised_error(outputs: Tensor, made: Tensor, mean: Tensor, scale: Tensor) -> Tensor:
    return nn.functional.mse_loss(outputs, (made - mean) / scale)


def plain_loop(some: Problem, one: Run, settings: Protocol, backbone: str) -> tuple[dict[str, Tensor], list[float]]:
    """What anybody would write for one run, with the same first parameters, batches and masks."""
    model = models.build(backbone, some.x.shape[-1], some.n_outputs, one.seed, **SMALL[backbone]).to(some.x.dtype)
    kind = torch.optim.Adam if settings.optimizer == "adam" else torch.optim.AdamW
    lr = settings.learning_rate if one.learning_rate is None else one.learning_rate
    decay = settings.weight_decay if one.weight_decay is None else one.weight_decay
    optimizer = kind(model.parameters(), lr=lr, weight_decay=decay)
    steps = settings.epochs * -(-len(one.train) // settings.batch_size)
    shares = {"constant": lambda _: 1.0, "cosine": lambda k: 0.5 * (1 + np.cos(np.pi * k / steps))}
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, shares[settings.schedule])
    x, numbers = some.x[one.train], some.labels.numbers
    if numbers is None:
        loss_of, y = nn.CrossEntropyLoss(), some.labels.codes[one.train]
    else:
        y = torch.from_numpy(numbers[one.train])
        loss_of = partial(standardised_error, mean=y.mean(0), scale=y.std(0, correction=0))
    prepared = one.augment.prepare(x, y, n_classes=some.labels.n_classes or None)
    curve = []
    for epoch in range(settings.epochs):
        order, total = keys.generator(one.seed, "order", epoch).permutation(len(one.train)), 0.0
        for step, start in enumerate(range(0, len(order), settings.batch_size)):
            batch = order[start : start + settings.batch_size]
            mixed, made = prepared.apply(prepared.draw(batch, (one.seed, "augment", epoch, step)))
            word = torch.from_numpy(np.array(keys.word(one.seed, "dropout", epoch, step), np.uint64).view(np.int64))
            optimizer.zero_grad()
            loss = loss_of(model(mixed, word), made)
            loss.backward()
            optimizer.step()
            scheduler.step()
            total += loss.item() * len(batch)
        curve.append(total / len(order))
    return {name: value.detach() for name, value in model.named_parameters()}, curve


@pytest.mark.parametrize("optimizer", ["adam", "adamw"])
@pytest.mark.parametrize("schedule", ["constant", "cosine"])
@pytest.mark.parametrize("task", ["binary", "multi-target"])
def test_a_stack_trains_as_a_plain_loop_does(optimizer: Any, schedule: Any, task: str) -> None:
    some = problem(task, dtype=torch.float64)
    runs = [run(0), run(1, learning_rate=0.02), run(2, weight_decay=0.5), run(3, "vmixup", weight_decay=0.0), run(4)]
    settings = {"optimizer": optimizer, "schedule": schedule, "weight_decay": 0.05}
    made = trained(some, runs, **settings)
    for r, one in enumerate(runs):
        parameters, curve = plain_loop(some, one, protocol(**settings), "transformer")
        np.testing.assert_allclose(made.curves()["train_loss"][:, r], curve, **DOUBLE)
        for name, value in parameters.items():
            ours = made.stack.parameters[name][r].detach()
            torch.testing.assert_close(determined(name, ours), determined(name, value), rtol=1e-7, atol=1e-9)


def test_a_cosine_falls_from_one_to_zero() -> None:
    shares = [rate("cosine", step, 10) for step in range(11)]
    assert shares[0] == 1
    assert shares[10] == pytest.approx(0)
    assert shares == sorted(shares, reverse=True)


# ---- evaluation, selection ----------------------------------------------------------------------------------------


def test_evaluation_is_deterministic_and_has_no_dropout() -> None:
    some, one = problem(), run(0)
    made = trained(some, [one])
    first, second = made.outputs()[0], made.outputs()[0]
    model = models.build("transformer", 7, 2, **SMALL["transformer"])
    model.load_state_dict({name: value[0] for name, value in made.stack.copy().items()})
    expected = model(some.x[one.test]).softmax(-1).detach().numpy()
    for again, values in zip(second, first, strict=True):
        np.testing.assert_array_equal(again, values)
    np.testing.assert_allclose(first[1], expected, **STACKED)


@pytest.mark.parametrize(
    ("task", "select", "named"),
    [
        ("binary", "auto", "auroc"),
        ("multi-class", "auto", "macro_recall"),
        ("regression", "auto", "mse"),
        ("binary", "log_loss", "log_loss"),
        ("binary", "loss", "loss"),
        ("multi-target", "r2", "r2"),
    ],
)
def test_the_best_epoch_is_the_first_with_the_best_score(task: str, select: str, named: str) -> None:
    some, one = problem(task), run(1)
    made = training(some, [one], select=select, epochs=8, learning_rate=0.02)
    states, values = [], []
    true = torch.from_numpy(labels(task)[one.validation])
    true = true[:, None] if task == "regression" else true
    for _ in range(8):
        made.epoch()
        states.append(made.stack.copy())
        if named != "loss":
            values.append(float(score(torch.from_numpy(made.outputs()[0][0]), true, names=[named])[named]))
    curves = made.curves()
    outcome = engine.outcomes(made, 0.0)[0]
    values = curves["validation_loss"][:, 0] if named == "loss" else values
    np.testing.assert_allclose(curves["validation_score"][:, 0], values, **STACKED)
    more = named in ("auroc", "macro_recall", "r2")
    assert outcome.best.number == 1 + int(np.argmax(values) if more else np.argmin(values))
    assert outcome.selected_by == named
    assert outcome.last.number == 8
    for name, value in states[outcome.best.number - 1].items():
        assert torch.equal(outcome.state[name], value[0])


def test_a_validation_set_without_a_class_is_judged_by_its_loss_and_says_so() -> None:
    some, one = problem(), run(1)
    lonely = replace(one, validation=one.validation[some.labels.codes[one.validation] == 0])
    both = fit(some, [lonely, one], stack=2)
    assert [outcome.selected_by for outcome in both] == ["loss", "auroc"]
    curves = both[0].curves
    np.testing.assert_allclose(curves["validation_score"], curves["validation_loss"])
    assert both[0].best.number == 1 + curves["validation_loss"].argmin()


def test_a_score_of_another_task_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(DataError, match="did you mean 'auroc'"):
        training(problem(), [run(0)], select="aucroc")
    with pytest.raises(DataError, match="a score of a regression"):
        training(problem("regression"), [run(0)], select="auroc")


def test_the_last_epoch_stands_beside_the_best() -> None:
    some, one = problem(), run(1)
    made = trained(some, [one], epochs=6, learning_rate=0.05)
    last = made.outputs()[0]
    outcome = engine.outcomes(made, 0.0)[0]
    np.testing.assert_array_equal(outcome.last.test, last[1])
    assert outcome.best.number < outcome.last.number == 6
    assert not np.array_equal(outcome.best.test, outcome.last.test)


def test_a_diverged_run_is_reported_and_leaves_the_others_alone() -> None:
    some = problem("regression")
    runs = [run(0), run(1, learning_rate=1e30)]
    together = fit(some, runs, stack=2)
    assert together[0].diverged is None
    assert together[1].diverged is not None
    assert not np.isfinite(together[1].curves["train_loss"][together[1].diverged - 1])
    assert_same(together[0], fit(some, runs[:1])[0])


def test_the_test_loss_is_watched_only_where_asked_and_selects_nothing() -> None:
    some, one = problem(), run(0)
    plain, watched = (
        engine.outcomes(trained(some, [one], backbone="mlp", watch_test=watch), 0.0)[0] for watch in (False, True)
    )
    assert "test_loss" not in plain.curves
    p = watched.last.test[np.arange(7), some.labels.codes[one.test]]
    assert watched.curves["test_loss"][-1] == pytest.approx(-np.log(p).mean(), rel=1e-5)
    watched.curves.pop("test_loss")
    assert_same(plain, watched, exactly=True)


@pytest.mark.parametrize("task", ["regression", "multi-target"])
def test_numbers_come_back_in_their_own_units(task: str) -> None:
    some, one = problem(task), run(2)
    outcome = engine.outcomes(trained(some, [one], epochs=30, learning_rate=0.01, backbone="mlp"), 0.0)[0]
    true = some.labels.numbers
    error = np.abs(outcome.last.test - true[one.test]).mean(0)
    assert outcome.last.test.shape == true[one.test].shape
    assert (error < 2 * true.std(0)).all()
    # Learned in units of the training set: the same, whatever the units.
    scaled = Problem(some.x, encode(true * 1000 + 7))
    again = engine.outcomes(trained(scaled, [one], epochs=30, learning_rate=0.01, backbone="mlp"), 0.0)[0]
    np.testing.assert_allclose((again.last.test - 7) / 1000, outcome.last.test, rtol=1e-3, atol=1e-5)


# ---- going on -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("schedule", ["constant", "cosine"])
@pytest.mark.parametrize("stop", [1, 3])
def test_resuming_equals_not_stopping(schedule: Any, stop: int) -> None:
    some, runs = problem(), [run(0), run(1, "vmixup", learning_rate=0.05), run(2, weight_decay=0.3)]
    settings = {"epochs": 5, "schedule": schedule, "watch_test": True}
    whole = trained(some, runs, **settings)
    stopped = training(some, runs, **settings)
    for _ in range(stop):
        stopped.epoch()
    saved = {name: value.clone() for name, value in stopped.state().items()}
    stopped.epoch()  # what comes after the checkpoint must not reach into it
    resumed = training(some, runs, **settings)
    resumed.load(saved)
    assert resumed.done == stop
    for _ in range(5 - stop):
        resumed.epoch()
    for a, b in zip(engine.outcomes(whole, 0.0), engine.outcomes(resumed, 0.0), strict=True):
        assert_same(a, b, exactly=True)


def test_rehearsing_changes_nothing_also_in_the_middle() -> None:
    some, runs = problem(), [run(0), run(1)]
    plain, rehearsed = (training(some, runs, epochs=4, schedule="cosine") for _ in range(2))
    rehearsed.rehearse()
    for epoch in range(4):
        if epoch == 2:
            rehearsed.rehearse()
        plain.epoch(), rehearsed.epoch()
    for a, b in zip(engine.outcomes(plain, 0.0), engine.outcomes(rehearsed, 0.0), strict=True):
        assert_same(a, b, exactly=True)


def test_lower_precision_is_asked_for_and_put_back() -> None:
    before = torch.get_float32_matmul_precision()
    with lowered("tf32", CPU):
        assert torch.get_float32_matmul_precision() == "high"
    assert torch.get_float32_matmul_precision() == before
    full, low = (trained(problem(), [run(0)], precision=p, backbone="mlp").outputs()[0][1] for p in ("fp32", "bf16"))
    np.testing.assert_allclose(low, full, atol=0.05)
    assert np.abs(low - full).max() > 0


# ---- every part together ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("method", METHODS)
def test_every_method_trains(method: str, task: str) -> None:
    outcome = fit(problem(task, n=9), [run(0, method)])[0]
    assert outcome.diverged is None
    assert np.isfinite(outcome.last.test).all()


@pytest.mark.parametrize("n", [7, 9])
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("backbone", models.BACKBONES)
def test_every_backbone_trains(backbone: str, task: str, n: int) -> None:
    some = problem(task, n=n)
    outcome = fit(some, [run(0)], backbone)[0]
    first = models.build(backbone, n, some.n_outputs, 0, **SMALL[backbone])
    assert outcome.diverged is None
    assert np.isfinite(outcome.last.test).all()
    assert outcome.last.test.shape == (7, some.n_outputs)
    for name, value in first.named_parameters():
        assert not torch.equal(value, outcome.state[name]), name


def test_what_there_is_to_learn_is_learned() -> None:
    some = Problem(networks(90), encode(np.arange(90) % 3 > 0))
    one = Run(np.arange(60), np.arange(60, 75), np.arange(75, 90), RMixup(), 0)
    outcome = engine.outcomes(trained(some, [one], epochs=25, learning_rate=0.02, backbone="mlp"), 0.0)[0]
    value = score(torch.from_numpy(outcome.last.test), torch.from_numpy(some.labels.codes[one.test]), names=["auroc"])
    assert value["auroc"] > 0.95


# ---- leaks --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["multi-class", "multi-target"])
@pytest.mark.parametrize("method", METHODS)
def test_a_canary_in_validation_and_test_does_not_sing(method: str, task: str) -> None:
    some, one = problem(task), run(1, method)
    others = np.concatenate([one.validation, one.test])
    poisoned, y = some.x.clone(), labels(task).copy()
    poisoned[others] = torch.nan
    y[others] = y[others[::-1]]
    canary = Problem(poisoned, encode(y), np.arange(30) % 2)
    clean, sung = (trained(one_problem, [one], epochs=2) for one_problem in (some, canary))
    for name, value in clean.stack.parameters.items():
        assert torch.equal(value, sung.stack.parameters[name])
    np.testing.assert_array_equal(clean.curves()["train_loss"], sung.curves()["train_loss"])
    assert np.isnan(sung.outputs()[0][1]).all()


def test_a_networks_own_training_rows_do_matter() -> None:
    some, one = problem(), run(1)
    other = replace(one, train=np.concatenate([one.train[:-1], one.test[:1]]), test=one.test[1:])
    a, b = (trained(some, [which], epochs=1) for which in (one, other))
    assert any(not torch.equal(value, b.stack.parameters[name]) for name, value in a.stack.parameters.items())


# ---- the GPU ------------------------------------------------------------------------------------------------------

# A GPU sums in another order, and Adam's first steps are as long as the learning rate, however small the gradient.
ON_GPU = 2e-3


@pytest.mark.gpu
@pytest.mark.parametrize("method", ["rmixup", "vmixup", "dropedge", "none"])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_the_gpu_trains_as_the_cpu_does(method: str, dropout: float) -> None:
    some, runs = problem(), [run(0, method), run(1, method, learning_rate=0.01)]
    settings: dict[str, Any] = {
        "backbone": "transformer",
        "options": {**SMALL["transformer"], "dropout": dropout},
        "protocol": protocol(schedule="cosine"),
    }
    on_gpu = engine.fit(some, runs, device="cuda", stack=2, **settings)
    single = engine.fit(some, runs, device="cuda", stack=1, **settings)
    on_cpu = engine.fit(some, runs, device="cpu", **settings)
    for a, b, c in zip(on_gpu, single, on_cpu, strict=True):
        np.testing.assert_allclose(a.last.test, b.last.test, atol=ON_GPU)
        np.testing.assert_allclose(a.last.test, c.last.test, atol=ON_GPU)
        np.testing.assert_allclose(a.curves["train_loss"], c.curves["train_loss"], atol=ON_GPU)


@pytest.mark.gpu
@pytest.mark.parametrize("backbone", models.BACKBONES)
def test_every_backbone_trains_on_the_gpu(backbone: str) -> None:
    if backbone == "spdnet":
        pytest.importorskip("spd_learn")
    some, runs = problem(n=9), [run(0), run(1, "vmixup")]
    settings: dict[str, Any] = {"options": SMALL[backbone], "protocol": protocol()}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        on_gpu = engine.fit(some, runs, backbone, device="cuda", **settings)
    for a, b in zip(on_gpu, engine.fit(some, runs, backbone, device="cpu", **settings), strict=True):
        np.testing.assert_allclose(a.last.test, b.last.test, atol=5 * ON_GPU)


@pytest.mark.gpu
def test_resuming_on_the_gpu_equals_not_stopping() -> None:
    some, runs = problem(), [run(0), run(1, "vmixup")]
    make = Maker(some, "transformer", SMALL["transformer"], protocol(epochs=4, schedule="cosine"), torch.device("cuda"))
    whole, stopped, resumed = make(runs), make(runs), make(runs)
    for _ in range(4):
        whole.epoch()
    for _ in range(2):
        stopped.epoch()
    resumed.load({name: value.clone() for name, value in stopped.state().items()})
    for _ in range(2):
        resumed.epoch()
    for a, b in zip(engine.outcomes(whole, 0.0), engine.outcomes(resumed, 0.0), strict=True):
        assert_same(a, b)


@pytest.mark.gpu
def test_auto_puts_small_runs_into_one_stack() -> None:
    told: list[int] = []
    runs = [run(k) for k in range(6)]
    engine.fit(
        problem(),
        runs,
        "mlp",
        options=SMALL["mlp"],
        protocol=protocol(),
        device="cuda",
        progress=lambda now: told.append(now.runs),
    )
    assert told == [6] * 3
