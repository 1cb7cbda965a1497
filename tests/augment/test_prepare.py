"""Preparing once: what is fitted, from what, remembered where; nothing outside the training set has a say."""

import json
import pickle
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from rmixup import DataError, LeakageError, NotSPDError, StoreError, keys, spd
from rmixup.augment import (
    METHODS,
    PAIRS,
    CacheWarning,
    Nearest,
    OffLog,
    Plan,
    Prepared,
    RMixup,
    Tangent,
    VMixup,
    as_augmentation,
)

from .conftest import correlations

SPD_METHODS = ["rmixup", "tangent", "offlog"]
EVERY = [*METHODS, *[RMixup(metric=m) for m in spd.METRICS], Tangent(mean="euclid")]


def same(a: Prepared, b: Prepared) -> bool:
    """Bit for bit, in everything that is prepared."""
    tensors = [(a.bank.values, b.bank.values), (a.y, b.y), (a.rows, b.rows)]
    tensors += [(a.fitted[name], b.fitted[name]) for name in a.fitted]
    return all(torch.equal(*pair) for pair in tensors) and (a.bounds, a.record) == (b.bounds, b.record)


def equal(a: Plan, b: Plan) -> bool:
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in ("i", "j", "lam", "words"))


# --- leaks -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("aug", EVERY, ids=str)
@pytest.mark.parametrize("task", ["classes", "numbers"])
def test_the_canary_nothing_outside_the_training_rows_has_an_influence(aug: str, task: str) -> None:
    x, y = correlations(18, 5), np.arange(18) % 3 if task == "classes" else np.arange(18) ** 1.5
    train, other = keys.generator(0, "split").permutation(18)[:11], slice(None)
    other = np.setdiff1d(np.arange(18), train)
    poisoned, turned = x.copy(), y.copy()
    poisoned[other] = np.nan
    turned[other] = turned[other[::-1]]
    if task == "numbers":
        turned[other[0]] = np.nan
    method = as_augmentation(aug)
    clean = method.prepare_many(x, y, splits=[train], n_classes=3)[0]
    canary = method.prepare_many(poisoned, turned, splits=[train], n_classes=3)[0]
    alone = method.prepare(x[train], y[train], n_classes=3)
    plans = [prepared.draw(np.arange(11), (5, "epoch", 1)) for prepared in (clean, canary, alone)]
    assert same(clean, canary)
    assert equal(plans[0], plans[1])
    assert equal(plans[0], plans[2])
    for made, expected in zip(canary.apply(plans[1]), alone.apply(plans[2]), strict=True):
        torch.testing.assert_close(made, expected, rtol=0, atol=1e-12)


def test_mixing_across_a_split_is_refused(x: np.ndarray, codes: np.ndarray) -> None:
    train, more = RMixup().prepare(x[:12], codes[:12]), RMixup().prepare(x, codes)
    for outside in ([12], [0, -1], [3, 99]):
        with pytest.raises(LeakageError, match=r"0\.\.11, but 1 lie outside"):
            train.draw(outside, 0)
        with pytest.raises(LeakageError):
            train.apply(Plan([0] * len(outside), outside, 0.5))
    with pytest.raises(LeakageError, match="drawn for training sets of"):
        train.apply(more.draw([0, 1], 0))
    for wrong in ([0.5], [[0]], np.array([True, False])):
        with pytest.raises(DataError, match="whole numbers"):
            train.draw(wrong, 0)
    assert len(train.draw([], 0)) == 0


def test_training_rows_must_make_sense(x: np.ndarray, codes: np.ndarray) -> None:
    for wrong in ([[0, 0]], [[]], [[0.5]]):
        with pytest.raises(DataError, match="different integers"):
            VMixup().prepare_many(x, codes, splits=wrong)
    for wrong in ([[0, 20]], [[-1, 3]], []):
        with pytest.raises(DataError, match=r"must lie in 0\.\.19"):
            VMixup().prepare_many(x, codes, splits=wrong)


# --- plans -----------------------------------------------------------------------------------------------------


def test_plans_follow_from_their_key_alone(x: np.ndarray, codes: np.ndarray) -> None:
    prepared = RMixup(per="pair").prepare(x, codes)
    first = prepared.draw([3, 1, 4], (0, "epoch", 2, 5))
    np.random.seed(0)  # noqa: NPY002 -- must not matter
    prepared.draw([3, 1, 4], (0, "epoch", 2, 6))
    assert equal(first, prepared.draw([3, 1, 4], (0, "epoch", 2, 5)))
    copy = pickle.loads(pickle.dumps(prepared))  # noqa: S301 -- our own bytes
    assert equal(first, copy.draw([3, 1, 4], (0, "epoch", 2, 5)))
    assert not equal(first, prepared.draw([3, 1, 4], (1, "epoch", 2, 5)))
    assert equal(prepared.draw([3, 1, 4], 7), prepared.draw([3, 1, 4], (7,)))
    assert first.j.max() > 2, "partners come from the whole training set"


def test_a_position_may_occur_twice(x: np.ndarray, codes: np.ndarray) -> None:
    plan = RMixup(per="pair").prepare(x, codes).draw([5] * 40, 0)
    assert (plan.i == 5).all()
    assert len(set(plan.j)) > 5
    assert len(set(plan.lam)) == 40


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("task", ["classes", "numbers", "targets"])
def test_joined_runs_equal_single_runs(name: str, task: str) -> None:
    x = correlations(16, 5)
    y = {
        "classes": np.arange(16) % 2,
        "numbers": np.arange(16.0),
        "targets": np.stack([np.arange(16.0), np.ones(16)], 1),
    }
    y["targets"][::3, 1] = 0
    splits = [[0, 1, 2, 3, 9, 8, 12], [4, 5, 6, 7, 1, 15], [3, 2, 10, 11, 12, 13, 14, 15, 9]]
    runs = as_augmentation(name).prepare_many(x, y[task], splits=splits)
    plans = [run.draw(np.arange(k + 2), (k, "key")) for k, run in enumerate(runs)]
    joined, plan = Prepared.join(runs), Plan.join(plans)
    assert joined.sizes == (7, 6, 9)
    assert plan.sizes == joined.sizes
    assert "3 runs" in repr(joined)
    singles = [run.apply(one) for run, one in zip(runs, plans, strict=True)]
    for k in (0, 1):
        torch.testing.assert_close(joined.apply(plan)[k], torch.cat([one[k] for one in singles]), rtol=0, atol=1e-10)
    alone = [as_augmentation(name).prepare(x[split], y[task][split]) for split in splits]
    for one, run, drawn in zip(alone, runs, plans, strict=True):
        torch.testing.assert_close(one.apply(drawn)[0], run.apply(drawn)[0], rtol=0, atol=1e-10)
    with pytest.raises(DataError, match="run by run"):
        joined.draw([0], 0)
    if name in ("none", "rmixup"):
        assert all(run.bank is runs[0].bank for run in runs)
        assert joined.bank is runs[0].bank


def test_only_runs_of_one_kind_are_joined(x: np.ndarray, codes: np.ndarray) -> None:
    with pytest.raises(DataError, match="one method"):
        Prepared.join([RMixup().prepare(x, codes), VMixup().prepare(x, codes)])


def test_separately_prepared_runs_join_too(x: np.ndarray, codes: np.ndarray) -> None:
    runs = [RMixup().prepare(x[:9], codes[:9]), RMixup().prepare(x[9:], codes[9:])]
    plans = [run.draw([0, 4, 8], 3) for run in runs]
    expected = torch.cat([run.apply(plan)[0] for run, plan in zip(runs, plans, strict=True)])
    torch.testing.assert_close(Prepared.join(runs).apply(Plan.join(plans))[0], expected, rtol=0, atol=1e-10)


def test_what_encloses_joined_runs_encloses_each(x: np.ndarray, codes: np.ndarray) -> None:
    runs = [RMixup().prepare(x[:9], codes[:9]), RMixup().prepare(x[9:], codes[9:])]
    joined = Prepared.join(runs)
    (low, high), each = joined.bounds or (0, 0), [run.bounds or (0, 0) for run in runs]
    assert (low, high) == (min(one[0] for one in each), max(one[1] for one in each))
    assert joined.effective_partners.tolist() == [8.0] * 9 + [10.0] * 11
    assert (len(joined), joined.nodes) == (20, 7)


def test_joined_runs_must_be_of_one_kind_in_everything(x: np.ndarray, codes: np.ndarray) -> None:
    one = VMixup().prepare(x, codes)
    for other in (
        VMixup().prepare(x, np.arange(20.0)),
        VMixup().prepare(x[:, 1:, 1:], codes),
        VMixup().prepare(x, codes, n_classes=3),
        VMixup().prepare(x.astype(np.float32), codes),
    ):
        with pytest.raises(DataError, match="of one kind and dtype"):
            Prepared.join([one, other])


DRAWN = {
    "uniform": [1, 5, 2, 6, 4],
    "same-class": [1, 6, 3, 5, 5],
    "label-kernel": [4, 1, 10, 5, 4],
    "same-group": [0, 6, 2, 4, 6],
    "cross-group": [4, 10, 3, 2, 7],
    "nearest": [9, 3, 4, 5, 9],
    "shuffle": [0, 3, 3, 11, 7],
}
LAMBDAS = [0.978216, 0.481128, 0.996665, 0.265067, 0.999453]


@pytest.mark.parametrize("pairs", PAIRS)
def test_plans_stay_what_they_are(pairs: str) -> None:
    """A plan follows from its key: a change here makes old runs impossible to repeat."""
    method = VMixup(pairs=Nearest(2) if pairs == "nearest" else pairs, per="pair", alpha=0.4)
    labels = np.arange(12) % 2 if pairs == "same-class" else np.arange(12) ** 1.5
    prepared = method.prepare(correlations(12, 3), labels, groups=np.arange(12) % 3)
    plan = prepared.draw([3, 0, 11, 7, 3], (4, "epoch", 2))
    assert (plan.j.tolist(), plan.lam.round(6).tolist()) == (DRAWN[pairs], LAMBDAS)


# --- input -----------------------------------------------------------------------------------------------------


def test_data_sets_are_read_by_their_attributes(x: np.ndarray) -> None:
    groups = np.repeat(["a", "b"], 10)
    classes = ("c", "d", "e")
    ds = SimpleNamespace(matrices=x, y=np.arange(20) % 2, groups=groups, classes=classes, task="classification")
    prepared = RMixup(pairs="cross-group").prepare(ds)
    assert prepared.y.shape == (20, 3)
    assert (prepared.draw(np.arange(10), 0).j >= 10).all()
    ages = SimpleNamespace(matrices=x, y=np.arange(20), task="regression", classes=None)
    assert RMixup().prepare(ages).task == "regression"
    with pytest.raises(DataError, match="no matrices yet"):
        RMixup().prepare(SimpleNamespace(matrices=None, y=None))
    with pytest.raises(DataError, match="y is None"):
        RMixup().prepare(x)


def test_networks_of_rmixup_itself(x: np.ndarray) -> None:
    from rmixup import Networks

    ds = Networks(x, ["a", "b"] * 10, groups=["s", "t"] * 10)
    prepared = RMixup().prepare(ds)
    assert repr(prepared) == "<Prepared rmixup: 20 networks of 7 nodes, classification, cpu>"
    assert not ds.matrices.flags.writeable


@pytest.mark.parametrize("name", METHODS)
def test_bad_networks_are_named_all_at_once(name: str) -> None:
    x = correlations(30, 4)
    x[[2, 5], 0, 0] = np.nan
    x[[7, 8, 9, 10, 11, 12], 1, 2] += 0.1
    with pytest.raises(
        DataError, match=r"2 networks have NaN.*at 2, 5.*6 networks are not \(at 7, 8, 9, 10, 11 and 1 more"
    ):
        as_augmentation(name).prepare(x, np.arange(30) % 2)
    for wrong in (x[0], x[:, :2], np.zeros((0, 3, 3)), x[:, :0, :0]):
        with pytest.raises(DataError, match="at least one network"):
            as_augmentation(name).prepare(wrong, [0])
    with pytest.raises(DataError, match="float32 or float64"):
        as_augmentation(name).prepare(np.ones((2, 3, 3), int), [0, 1])
    with pytest.raises(DataError, match="one length"):
        as_augmentation(name).prepare(correlations(3, 4), [0, 1])
    with pytest.raises(DataError, match="groups must have one value"):
        as_augmentation(name).prepare(correlations(3, 4), [0.0, 1.0, 2.0], groups=[0, 1])


def test_networks_that_are_almost_symmetric_give_symmetric_ones(x: np.ndarray) -> None:
    crooked = x.copy()
    crooked[:, 0, 1] += 1e-12
    crooked[:, 2, 3] = crooked[:, 3, 2] = 0.0  # what is little is told by the largest entry
    made, _ = VMixup()(crooked, np.arange(20.0))
    assert np.array_equal(made, made.swapaxes(1, 2))


def test_one_almost_symmetric_network_among_many_is_made_symmetric(
    x: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rmixup.augment import bank

    monkeypatch.setitem(bank.CHUNK_BYTES, "cpu", 1)  # it is alone in its chunk
    crooked = x.copy()
    crooked[4, 0, 1] += 1e-12
    made = VMixup().prepare(crooked, np.arange(20.0)).apply(Plan([4], [5], 0.5))[0]
    assert torch.equal(made, made.mT)


def test_other_layouts_and_lists_are_read(x: np.ndarray, codes: np.ndarray) -> None:
    expected = VMixup()(x, codes)[0]
    for other in (x.astype(">f8"), np.asfortranarray(x), x[::-1][::-1], x.tolist()):
        np.testing.assert_array_equal(VMixup()(other, codes)[0], expected)
    frozen = x.copy()
    frozen.flags.writeable = False
    np.testing.assert_array_equal(VMixup()(frozen, codes)[0], expected)


# --- regularisers ----------------------------------------------------------------------------------------------


def singular(count: int, nodes: int) -> np.ndarray:
    """Correlations from too few frames."""
    series = keys.generator(3, "singular").standard_normal((count, nodes - 2, nodes))
    x = np.stack([np.corrcoef(one.T) for one in series])
    return 0.5 * (x + x.swapaxes(1, 2))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("aug", [*SPD_METHODS, *[RMixup(metric=m) for m in spd.METRICS if m != "euclid"]], ids=str)
def test_singular_networks_need_a_regulariser(aug: str, dtype: type) -> None:
    x = np.concatenate([correlations(3, 12), singular(4, 12)]).astype(dtype)
    with pytest.raises(
        NotSPDError, match=r"4 of 7 are not \(at 3, 4, 5, 6;.*fewer than 13 frames.*regularizer='shrink"
    ):
        as_augmentation(aug).prepare(x, np.arange(7.0))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("regularizer", ["shrink=0.1", "floor=1e-3"])
@pytest.mark.parametrize("metric", spd.METRICS)
def test_the_regulariser_is_that_of_spd_and_recorded(metric: str, regularizer: str, dtype: type) -> None:
    x = np.concatenate([correlations(3, 12), singular(4, 12)]).astype(dtype)
    how, amount = regularizer.split("=")
    regular, expected = spd.regularize(x.astype(np.float64), how, float(amount))
    prepared = RMixup(metric=metric, regularizer=regularizer).prepare(x, np.arange(7.0))
    made = prepared.apply(Plan([1, 4], [5, 6], 0.5))[0].numpy()
    np.testing.assert_allclose(
        made, spd.geodesic(regular[[1, 4]], regular[[5, 6]], 0.5, metric), atol=2e-5 if dtype == np.float32 else 1e-9
    )
    assert prepared.record["regularizer"] == f"{how}={float(amount):g}"
    assert prepared.record["changed"] == expected.changed
    assert prepared.record["smallest_before"] == pytest.approx(expected.smallest_before, abs=1e-6)
    json.dumps(prepared.record)


def test_offlog_wants_correlations(x: np.ndarray) -> None:
    with pytest.raises(DataError, match="20 networks have no unit diagonal"):
        OffLog().prepare(2 * x, np.arange(20.0))
    made, _ = OffLog(regularizer="shrink=0.1")(singular(5, 8), np.arange(5.0))
    np.testing.assert_allclose(np.diagonal(made, axis1=1, axis2=2), 1)


def test_bounds_enclose_every_mix(x: np.ndarray) -> None:
    prepared = RMixup().prepare(x, np.arange(20.0))
    low, high = prepared.bounds or (0.0, 0.0)
    made = prepared.apply(prepared.draw(np.arange(20), 0))[0]
    w = torch.linalg.eigvalsh(made).log()
    assert low < w.min()
    assert w.max() < high
    assert high - low < np.log(np.linalg.cond(x).max()) * 2
    assert VMixup().prepare(x, np.arange(20.0)).bounds is None


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_what_is_singular_for_products_is_told_by_the_ratio_of_eigenvalues(scale: float) -> None:
    from rmixup.augment.bank import Ledger, Source
    from rmixup.augment.geodesic import log_by_products

    edge = np.diag([*[1.0] * 11, 1e-16])[None]  # it has a Cholesky factor, as many singular ones have
    x = scale * torch.from_numpy(np.concatenate([correlations(3, 12), singular(1, 12), edge]))
    source = Source(x, np.arange(5), x.device)
    ledger, looked_at = Ledger("rmixup", source, None), list[int]()
    spectrum = ledger.spectrum
    ledger.spectrum = lambda S, rows: (looked_at.extend(rows.tolist()), spectrum(S, rows))[1]  # type: ignore[method-assign]
    log_by_products(ledger, x, source.rows)
    assert ledger.singular == looked_at == [3, 4]


@pytest.mark.parametrize("how", ["shrink=0.1", "floor=0.05"])
def test_what_products_are_taken_of_is_regularised(x: np.ndarray, how: str) -> None:
    from rmixup.augment.bank import Ledger, Source
    from rmixup.spd.repair import parse_regularizer

    S, regularizer = torch.from_numpy(x), parse_regularizer(how)
    shrunk = Ledger("rmixup", Source(S, np.arange(20), S.device), regularizer).shrunk(S)
    expected = spd.regularize(S, "shrink", 0.1)[0] if how == "shrink=0.1" else S  # a floor is for eigenvalues
    torch.testing.assert_close(shrunk, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("regularizer", [None, "shrink=0.1", "floor=0.05"])
def test_logarithms_by_products_are_those_by_eigenvalues(regularizer: str | None) -> None:
    """What a GPU does, done here on the CPU."""
    from rmixup.augment.bank import Ledger, Source, logarithms
    from rmixup.augment.geodesic import log_by_products
    from rmixup.spd.repair import parse_regularizer

    x = torch.from_numpy(np.concatenate([correlations(6, 12), singular(2, 12)]))
    source = Source(x, np.arange(8), x.device)
    parsed = None if regularizer is None else parse_regularizer(regularizer)
    one, other = (Ledger("rmixup", source, parsed) for _ in range(2))
    expected, made = logarithms(*one.spectrum(x, source.rows)), log_by_products(other, x, source.rows)
    torch.testing.assert_close(made.values, expected.values, rtol=0, atol=1e-8)
    assert (made.low < expected.low + 1e-6).all()  # type: ignore[operator]
    assert (made.high > expected.high - 1e-6).all()  # type: ignore[operator]
    assert (one.singular, one.changed) == (other.singular, other.changed)
    assert other.smallest == pytest.approx(one.smallest, abs=0.02)
    clean = log_by_products(Ledger("rmixup", source, None), x[:6], source.rows[:6])
    torch.testing.assert_close(clean.values, spd.logm(x[:6]), rtol=0, atol=1e-10)


@pytest.mark.parametrize("log10_condition", [0.0, 2.0, 6.0])
def test_the_bounds_for_products_enclose_and_are_near(log10_condition: float) -> None:
    from rmixup.augment.geodesic import _enclosed

    Q = torch.linalg.qr(torch.randn(12, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(0))).Q
    w = torch.logspace(-log10_condition, 0, 12, dtype=torch.float64)
    S = (Q * w) @ Q.T
    low, high, factored = _enclosed(torch.stack([S, -S]))
    assert factored.tolist() == [True, False]
    assert float(w[0]) / 12.01 <= float(low[0]) <= float(w[0]) * (1 + 1e-9)
    assert float(w[-1]) * (1 - 1e-9) <= float(high[0]) <= float(w[-1]) * 12**0.5 * 1.01


# --- in parts --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("aug", EVERY, ids=str)
@pytest.mark.parametrize("task", ["classes", "numbers"])
def test_parts_of_any_size_give_the_same(aug: str, task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from rmixup.augment import bank

    x, y = correlations(7, 4), np.arange(7) % 2 if task == "classes" else np.arange(7) ** 1.5
    method = as_augmentation(aug)
    whole = method.prepare(x, y)
    plan = whole.draw(np.arange(7), 3)
    for at_once in (1, 3 * 8 * 4**2):
        monkeypatch.setitem(bank.CHUNK_BYTES, "cpu", at_once)
        parts = method.prepare(x, y)
        assert parts.record == whole.record
        for one, other in zip(parts.apply(plan), whole.apply(plan), strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=1e-10)


@pytest.mark.parametrize("metric", spd.METRICS)
def test_neighbours_are_the_same_whatever_is_compared_at_once(metric: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from rmixup.augment import bank, base

    x = correlations(10, 4)
    prepared = RMixup(metric=metric).prepare(x, np.arange(10.0))
    whole = prepared.neighbours(4)
    distances = spd.distance(x[:, None], x[None], metric)
    np.fill_diagonal(distances, np.inf)
    np.testing.assert_array_equal(whole, np.argsort(distances, 1)[:, :4])
    monkeypatch.setattr(base, "NEIGHBOUR_ROWS", 3)
    monkeypatch.setattr(bank, "DISTANCE_ROWS", 7)
    np.testing.assert_array_equal(prepared.neighbours(4), whole)


@pytest.mark.parametrize("metric", ["euclid", "logeuclid", "logchol", "riemann"])
def test_distances_are_those_of_the_geometry(metric: str) -> None:
    x = correlations(8, 4)
    prepared = RMixup(metric=metric).prepare(x, np.arange(8.0))
    some = torch.tensor([5, 0, 2])
    found = prepared.method.distances(prepared, some)
    np.testing.assert_allclose(found.numpy(), spd.distance(x[[5, 0, 2]][:, None], x[None], metric), atol=1e-6)


# --- the cache -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SPD_METHODS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_cache_gives_the_same_without_computing(
    tmp_path: Path, x: np.ndarray, name: str, dtype: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    aug = as_augmentation(name, regularizer="shrink=0.1")
    x = x.astype(dtype)
    plain, first = aug.prepare(x, np.arange(20.0)), aug.prepare(x, np.arange(20.0), cache=tmp_path / "new")
    monkeypatch.setattr("rmixup.augment.bank.eigh", None)
    again = aug.prepare(x, np.arange(20.0), cache=tmp_path / "new")
    assert same(plain, first)
    assert same(first, again)
    plan = plain.draw(np.arange(20), 0)
    assert torch.equal(plain.apply(plan)[0], again.apply(plan)[0])
    assert not list((tmp_path / "new").glob(".*"))


def test_methods_with_the_same_logarithms_share_them(tmp_path: Path, x: np.ndarray) -> None:
    RMixup().prepare(x, np.arange(20.0), cache=tmp_path)
    RMixup(alpha=0.3, unit_diagonal=True).prepare(x, np.arange(20) % 2, cache=tmp_path)
    assert len(list(tmp_path.iterdir())) == 1


def test_the_cache_is_invalidated_by_data_regulariser_dtype_and_version(
    tmp_path: Path, x: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    def entries() -> int:
        return len(list(tmp_path.iterdir()))

    y = np.arange(20.0)
    RMixup().prepare(x, y, cache=tmp_path)
    changed = x.copy()
    changed[19, 0, 1] = changed[19, 1, 0] = np.nextafter(x[19, 0, 1], 1)
    RMixup().prepare(changed, y, cache=tmp_path)
    assert entries() == 2
    RMixup().prepare(x[::-1], y, cache=tmp_path)
    RMixup(regularizer="floor=1e-6").prepare(x, y, cache=tmp_path)
    RMixup().prepare(x.astype(np.float32), y, cache=tmp_path)
    RMixup(published=True).prepare(x, y, cache=tmp_path)
    assert entries() == 6
    monkeypatch.setattr("rmixup.__version__", "99")
    RMixup().prepare(x, y, cache=tmp_path)
    assert entries() == 7


@pytest.mark.parametrize("file", ["values.npy", "small.npz", "entry.json"])
@pytest.mark.parametrize("damage", ["flip", "cut", "remove", "foreign"])
def test_a_damaged_entry_is_computed_again_with_a_warning(
    tmp_path: Path, x: np.ndarray, file: str, damage: str
) -> None:
    y = np.arange(20.0)
    good = RMixup().prepare(x, y, cache=tmp_path)
    [entry] = tmp_path.iterdir()
    content = bytearray((entry / file).read_bytes())
    if damage == "flip":
        content[len(content) // 2] ^= 0xFF
    (entry / file).unlink()
    if damage != "remove":
        kept = {"cut": content[:-7], "flip": content, "foreign": b"[1, 2]"}[damage]
        (entry / file).write_bytes(bytes(kept))
    with pytest.warns(CacheWarning, match="is damaged; it is computed again"):
        again = RMixup().prepare(x, y, cache=tmp_path)
    assert same(good, again)
    assert same(good, RMixup().prepare(x, y, cache=tmp_path))


@pytest.mark.parametrize("file", ["values.npy", "small.npz"])
def test_an_entry_made_by_somebody_else_is_not_unpickled(tmp_path: Path, x: np.ndarray, file: str) -> None:
    from rmixup.augment import cache

    RMixup().prepare(x, np.arange(20.0), cache=tmp_path / "cache")
    [entry] = (tmp_path / "cache").iterdir()
    attack = np.array([Attack(tmp_path / "canary")], dtype=object)
    with (entry / file).open("wb") as content:
        np.save(content, attack) if file == "values.npy" else np.savez(content, low=attack)
    sums = {name: cache._sha256(entry / name) for name in ("values.npy", "small.npz")}
    (entry / "entry.json").write_text(json.dumps({"sha256": sums}))
    with pytest.raises(StoreError, match=r"cache entry .*expected arrays of numbers.*: delete it"):
        RMixup().prepare(x, np.arange(20.0), cache=tmp_path / "cache")
    assert not (tmp_path / "canary").exists()


class Attack:
    """What makes a file when it is unpickled."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return Path.touch, (self.canary,)


def test_what_a_killed_writer_left_is_swept_by_the_next(tmp_path: Path, x: np.ndarray) -> None:
    prepared = RMixup().prepare(x, np.arange(20.0), cache=tmp_path)
    [entry] = tmp_path.iterdir()
    for part in entry.iterdir():
        part.unlink()
    entry.rmdir()
    code = f"from pathlib import Path; from rmixup.files import beside; beside(Path({str(entry)!r})).mkdir()"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert [path.name.startswith(".tmp-") for path in tmp_path.iterdir()] == [True]
    assert same(prepared, RMixup().prepare(x, np.arange(20.0), cache=tmp_path))
    assert [*tmp_path.iterdir()] == [entry]


def test_a_refused_data_set_leaves_no_entry(tmp_path: Path) -> None:
    with pytest.raises(NotSPDError):
        RMixup().prepare(singular(4, 8), np.arange(4.0), cache=tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path, x: np.ndarray) -> None:
    (tmp_path / "file").write_text("")
    size = 20 * 28 * 8  # lower triangles of 7 nodes
    with pytest.raises(StoreError, match=rf"cache folder .*file.* cannot be used for {size} bytes"):
        RMixup().prepare(x, np.arange(20.0), cache=tmp_path / "file")


def test_the_faster_of_two_processes_wins(tmp_path: Path, x: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    from rmixup.augment import cache

    rename = cache.os.rename

    def too_late(unfinished: Path, entry: Path) -> None:
        monkeypatch.setattr(cache.os, "rename", rename)
        RMixup().prepare(x, np.arange(20.0), cache=tmp_path)
        rename(unfinished, entry)

    monkeypatch.setattr(cache.os, "rename", too_late)
    prepared = RMixup().prepare(x, np.arange(20.0), cache=tmp_path)
    assert same(prepared, RMixup().prepare(x, np.arange(20.0)))
    assert len(list(tmp_path.iterdir())) == 1


MEMORY = """
import sys, numpy as np, pathlib
from rmixup.augment import RMixup, bank
bank.CHUNK_BYTES["cpu"] = 2**20
folder = pathlib.Path(sys.argv[1])
anonymous = lambda: next(int(l.split()[1]) for l in open("/proc/self/status") if l.startswith("RssAnon"))
RMixup().prepare(np.eye(40)[None].repeat(2, 0), [0., 1.]).apply  # everything loaded
before = anonymous()
x = np.load(folder / "x.npy", mmap_mode="r")[: int(sys.argv[2])]
prepared = RMixup().prepare(x, np.arange(len(x)) / len(x), cache=folder / "cache")
made, _ = prepared.apply(prepared.draw(np.arange(16), 0))
print(anonymous() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_does_not_grow_with_the_data_set(tmp_path: Path) -> None:
    x = np.lib.format.open_memmap(tmp_path / "x.npy", mode="w+", dtype=np.float32, shape=(8000, 40, 40))
    x[:] = np.tile(correlations(100, 40).astype(np.float32), (80, 1, 1))
    x.flush()

    def grown(people: int) -> int:
        arguments = [sys.executable, "-c", MEMORY, tmp_path, str(people)]
        return int(subprocess.run(arguments, capture_output=True, text=True, check=True).stdout)

    # What the libraries keep for their threads is there at any size and differs by some MB from run to run;
    # 6000 more people are 37 MB of networks and 20 MB of logarithms.
    more = grown(8000) - grown(2000)
    assert more < 10_000, f"{more} KB more"


@pytest.mark.gpu
@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("regularizer", [None, "shrink=0.1", "floor=1e-3"])
def test_the_gpu_makes_the_same(x: np.ndarray, codes: np.ndarray, name: str, regularizer: str | None) -> None:
    settings = {"regularizer": regularizer} if name in SPD_METHODS else {}
    x = x.astype(np.float32)
    aug = as_augmentation(name, **settings)
    cpu, gpu = aug.prepare(x, codes), aug.prepare(x, codes, device="cuda")
    plan = cpu.draw(np.arange(16), (0, "step", 1))
    assert equal(plan, gpu.draw(np.arange(16), (0, "step", 1)))
    made, labels = gpu.apply(plan)
    assert made.is_cuda
    torch.testing.assert_close(made.cpu(), cpu.apply(plan)[0], rtol=0, atol=1e-5)
    torch.testing.assert_close(labels.cpu(), cpu.apply(plan)[1], rtol=0, atol=1e-6)
    if settings:
        assert gpu.record["changed"] == cpu.record["changed"]
        assert gpu.record["smallest_before"] == pytest.approx(cpu.record["smallest_before"], abs=1e-3)


@pytest.mark.gpu
def test_the_gpu_refuses_singular_networks_too() -> None:
    mixed = np.concatenate([correlations(3, 12), singular(4, 12)]).astype(np.float32)
    with pytest.raises(NotSPDError, match=r"4 of 7 are not \(at 3, 4, 5, 6"):
        RMixup().prepare(mixed, np.arange(7.0), device="cuda")


@pytest.mark.gpu
@pytest.mark.parametrize("name", [name for name in METHODS if METHODS[name]().capturable])
def test_mixing_is_captured_in_a_cuda_graph(x: np.ndarray, codes: np.ndarray, name: str) -> None:
    prepared = as_augmentation(name).prepare(x.astype(np.float32), codes, device="cuda")
    batches = [prepared.upload(prepared.draw(np.arange(16), step)) for step in range(2)]
    expected = prepared.mix(batches[1])
    held = type(batches[0])(*(tensor.clone() for tensor in batches[0]))
    prepared.mix(held)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        made = prepared.mix(held)
    for tensor, new in zip(held, batches[1], strict=True):
        tensor.copy_(new)
    graph.replay()
    for one, other in zip(made, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6)
