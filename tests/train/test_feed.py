"""The feed: whose networks a run takes, in which order, with which weights; and what it refuses."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from rmixup.augment import RMixup, as_augmentation
from rmixup.augment.labels import encode
from rmixup.errors import DataError, LeakageError
from rmixup.train import engine
from rmixup.train.feed import Problem, Run, feed
from rmixup.train.protocol import Protocol

CPU = torch.device("cpu")


def problem(count: int = 20, n: int = 5, **extra: Any) -> Problem:
    series = np.random.default_rng(0).standard_normal((count, n, 4 * n))
    x = torch.from_numpy(np.stack([np.corrcoef(one) for one in series])).float()
    return Problem(x, encode(np.arange(count) % 2), np.arange(count) % 3, **extra)


def run(seed: int = 0, method: str = "vmixup", size: int = 11) -> Run:
    rows = np.random.default_rng(seed).permutation(20)
    return Run(rows[:size], rows[size:15], rows[15:], as_augmentation(method), seed)


def test_an_epoch_takes_every_training_network_once_and_no_other() -> None:
    some, one = problem(), run(method="none")
    source = feed(some, [one], CPU)
    for epoch in (0, 1):
        tables = source.epoch(epoch, 4)
        assert [len(table) for table in tables] == [2, 1]
        assert tables[0].shape[1] == source.width(4)
        made = [source.make(torch.from_numpy(row)) for table in tables for row in table]
        assert [tuple(x.shape[:2]) for x, *_ in made] == [(1, 4), (1, 4), (1, 3)]
        seen = torch.cat([x[0] for x, *_ in made])
        assert sorted(seen[:, 0, 1].tolist()) == sorted(some.x[one.train][:, 0, 1].tolist())
    orders = [source.epoch(epoch, 4)[0] for epoch in (0, 1)]
    assert not np.array_equal(*orders)
    np.testing.assert_array_equal(orders[0], source.epoch(0, 4)[0])


def test_a_batch_holds_each_runs_own_networks_in_the_stacks_order() -> None:
    some = problem(weights=torch.arange(20.0))
    runs = [run(0, "vmixup"), run(1, "none"), run(2, "vmixup"), run(3, "dropedge"), run(4, "rmixup")]
    together = feed(some, runs, CPU)
    x, y, weights, words = together.make(torch.from_numpy(together.epoch(2, 4)[0][1]))
    assert weights is not None
    assert len(set(words.tolist())) == 5
    for r, one in enumerate(runs):
        alone = feed(some, [one], CPU)
        x1, y1, weights1, words1 = alone.make(torch.from_numpy(alone.epoch(2, 4)[0][1]))
        torch.testing.assert_close(x[r], x1[0], rtol=1e-5, atol=1e-6)
        assert torch.equal(y[r], y1[0])
        assert weights1 is not None
        assert torch.equal(weights[r], weights1[0])
        assert words[r] == words1[0]


def test_a_mix_weighs_what_its_parents_weigh() -> None:
    some, one = problem(weights=torch.arange(20.0)), run()
    source = feed(some, [one], CPU)
    _, y, weights, _ = source.make(torch.from_numpy(source.epoch(0, 11)[0][0]))
    i, j, bits, *_ = source.epoch(0, 11)[0][0][:-1].reshape(5, 11)
    lam, own = bits.view(np.float64), torch.arange(20.0).numpy()[one.train]
    assert weights is not None
    np.testing.assert_allclose(weights[0], (1 - lam) * own[i] + lam * own[j], rtol=1e-6)
    codes = some.labels.codes[one.train]
    np.testing.assert_allclose(y[0, :, 1], (1 - lam) * codes[i] + lam * codes[j], atol=1e-6)


def test_weights_act_and_those_of_zero_are_absent() -> None:
    one = replace(run(method="none"), seed=3)
    settings: dict[str, Any] = {"protocol": Protocol(epochs=1, batch_size=4), "device": "cpu"}
    weights = torch.ones(20)
    weights[one.train[:3]] = 0
    poisoned = problem(weights=weights)
    poisoned.x[one.train[:3]] *= -1
    outcomes = [engine.fit(some, [one], "mlp", **settings)[0] for some in (problem(weights=weights), poisoned)]
    plain = engine.fit(problem(), [one], "mlp", **settings)[0]
    np.testing.assert_array_equal(outcomes[0].last.test, outcomes[1].last.test)
    assert np.abs(outcomes[0].last.test - plain.last.test).max() > 1e-6
    equal = engine.fit(problem(weights=torch.full((20,), 2.0)), [one], "mlp", **settings)[0]
    np.testing.assert_allclose(equal.last.test, plain.last.test, rtol=1e-5)


def test_runs_of_unequal_size_cannot_share_steps() -> None:
    with pytest.raises(DataError, match=r"training sets of one size, but have \[10, 11\]"):
        feed(problem(), [run(0), run(1, size=10)], CPU)


@pytest.mark.parametrize(
    ("sides", "row"),
    [(([0, 1], [1], [2]), 1), (([0, 1], [2], [0]), 0), (([0, 1], [2], [3, 2]), 2), (([4, 4], [], []), 4)],
)
def test_a_row_on_two_sides_is_a_leak(sides: Any, row: int) -> None:
    with pytest.raises(LeakageError, match=rf"occur twice \(first: row {row}\)"):
        Run(*sides, RMixup())


def test_a_run_without_training_networks_is_refused() -> None:
    with pytest.raises(DataError, match="at least one training network"):
        Run([], [0], [1], RMixup())


@pytest.mark.parametrize("side", ["train", "validation", "test"])
@pytest.mark.parametrize("row", [-1, 20])
def test_rows_that_are_not_there_are_refused(side: str, row: int) -> None:
    with pytest.raises(DataError, match=rf"must lie in 0..19, but run 1 has {row}"):
        feed(problem(), [run(0), replace(run(1), **{side: np.append(getattr(run(1), side)[1:], row)})], CPU)


def test_a_problem_of_unequal_lengths_is_refused() -> None:
    x = torch.eye(3).repeat(4, 1, 1)
    with pytest.raises(DataError, match="each of 4 networks, got labels 3, weights 5"):
        Problem(x, encode([0, 1, 0]), None, torch.ones(5))


def test_a_plan_that_looks_at_another_run_is_impossible() -> None:
    """Mixing never reaches over the split: partners are positions in a run's own training set."""
    some, runs = problem(), [run(k) for k in range(3)]
    source = feed(some, runs, CPU)
    joined = source.groups[0].joined
    for table in source.epoch(0, 4):
        for row in table:
            _, batch = source._batches(torch.from_numpy(row))[0]
            size = len(batch.i) // 3
            for r, one in enumerate(runs):
                mine = slice(r * size, (r + 1) * size)
                for side in (batch.i[mine], batch.j[mine]):
                    taken = joined.bank.rows(joined.rows[side])
                    own = some.x[one.train]
                    assert all(any(torch.equal(matrix, other) for other in own) for matrix in taken)
