"""Splits: nobody twice, nobody lost, exact sizes, classes in proportion, families whole, from the key alone."""

import hashlib
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmixup import DataError, LeakageError, keys
from rmixup.data.splits import (
    Split,
    assert_disjoint,
    hold_out,
    kfold,
    largest_remainder,
    leave_group_out,
    round_table,
    split,
)

SIZES = (0.7, 0.1, 0.2)


def people(count: int, n_classes: int = 2, n_groups: int = 3, seed: int = 0) -> dict[str, np.ndarray]:
    chance = keys.generator(seed, "people", count)
    y = np.concatenate([np.repeat(np.arange(n_classes), 10), chance.integers(0, n_classes, count - 10 * n_classes)])
    return {
        "y": np.array(list("abcd"))[chance.permutation(y)],
        "subjects": np.array([f"s{k:04d}" for k in range(count)]),
        "groups": chance.integers(0, n_groups, count).astype(str),
    }


cohorts = st.builds(people, st.integers(60, 300), st.integers(1, 4), st.integers(1, 12), st.integers(0, 99))
relatives = st.integers(0, 10_000).map(lambda seed: keys.generator(seed, "families"))


def in_proportion(labels: np.ndarray, rows: np.ndarray, share: float) -> bool:
    """Each label's count is less than one away from its share."""
    return all(abs((labels[rows] == k).sum() - share * (labels == k).sum()) < 1 for k in np.unique(labels))


@given(cohort=cohorts, seed=st.integers(0, 50))
def test_a_split_is_a_partition_with_exact_sizes_and_proportions(cohort: dict[str, np.ndarray], seed: int) -> None:
    count = len(cohort["y"])
    sides = split(**cohort, seed=seed)
    assert sorted(np.concatenate(sides)) == list(range(count))
    cell = np.char.add(cohort["y"], cohort["groups"])
    for rows, share in zip(sides, SIZES, strict=True):
        assert abs(len(rows) - share * count) < 1
        assert in_proportion(cohort["y"], rows, share)
        assert all(abs((cell[rows] == k).sum() - share * (cell == k).sum()) < 2 for k in np.unique(cell))
        assert (np.diff(rows) > 0).all()


@given(cohort=cohorts, n_folds=st.integers(2, 10), repeats=st.integers(1, 2))
def test_folds_partition_and_are_in_proportion(cohort: dict[str, np.ndarray], n_folds: int, repeats: int) -> None:
    count = len(cohort["y"])
    folds = kfold(**cohort, n_folds=n_folds, repeats=repeats)
    assert len(folds) == n_folds * repeats
    for repeat in range(repeats):
        tests = [fold.test for fold in folds[repeat * n_folds : (repeat + 1) * n_folds]]
        assert sorted(np.concatenate(tests)) == list(range(count))
        assert max(map(len, tests)) - min(map(len, tests)) <= 1
        assert all(in_proportion(cohort["y"], test, 1 / n_folds) for test in tests)
    for fold in folds:
        assert sorted(np.concatenate(fold)) == list(range(count))
        assert abs(len(fold.validation) - 0.1 * count) < 2
    if repeats == 2:
        assert not np.array_equal(folds[0].test, folds[n_folds].test)


@given(cohort=cohorts, chance=relatives, seed=st.integers(0, 9))
def test_families_and_repeated_people_stay_whole(
    cohort: dict[str, np.ndarray], chance: np.random.Generator, seed: int
) -> None:
    count = len(cohort["y"])
    cohort["subjects"] = cohort["subjects"][np.minimum(np.arange(count), chance.integers(0, 3 * count, count))]
    families = np.where(chance.random(count) < 0.3, chance.integers(0, count // 8, count), np.arange(count) + count)
    for sides in (split(**cohort, families=families, seed=seed), *kfold(**cohort, families=families, seed=seed)):
        assert sorted(np.concatenate(sides)) == list(range(count))
        for names in (families, cohort["subjects"]):
            held = [set(names[rows].tolist()) for rows in sides]
            assert not held[0] & held[1]
            assert not (held[0] | held[1]) & held[2]


def test_twins_are_dealt_in_proportion() -> None:
    cohort = people(400, n_classes=2)
    twins = np.arange(400) // 2
    sides = split(**cohort, families=twins)
    assert [len(rows) for rows in sides] == [280, 40, 80]
    for rows, share in zip(sides, SIZES, strict=True):
        assert abs((cohort["y"][rows] == "a").sum() - share * (cohort["y"] == "a").sum()) <= 5


def test_a_family_as_large_as_a_side_is_still_kept_whole() -> None:
    families = np.array(["clan"] * 50 + [f"f{k}" for k in range(10)])
    sides = split(None, np.arange(60).astype(str), families=families)
    assert sorted(map(len, sides))[-1] >= 50
    assert sorted(np.concatenate(sides)) == list(range(60))


@given(cohort=cohorts, order=st.randoms(use_true_random=False))
def test_a_split_depends_on_the_key_and_not_on_the_order_of_rows(cohort: dict[str, np.ndarray], order: object) -> None:
    rows = np.arange(len(cohort["y"]))
    order.shuffle(rows)  # type: ignore[attr-defined]
    shuffled = {name: values[rows] for name, values in cohort.items()}
    families = np.arange(len(rows)) // 3
    for more, moved in (({}, {}), ({"families": families}, {"families": families[rows]})):
        first, again = split(**cohort, **more, seed=3), split(**shuffled, **moved, seed=3)
        for a, b in zip(first, again, strict=True):
            assert set(cohort["subjects"][a]) == set(shuffled["subjects"][b])


def test_the_seed_matters_and_nothing_global_does() -> None:
    cohort = people(100)
    first = split(**cohort, seed=0)
    np.random.seed(5)  # noqa: NPY002 -- the global state must not matter
    assert np.array_equal(first.train, split(**cohort, seed=0).train)
    assert not np.array_equal(first.train, split(**cohort, seed=1).train)


def test_this_split_stays_what_it_is() -> None:
    """A split is part of a run's identity: a change here makes old results incomparable."""
    sides = split(np.array([0, 1] * 10), np.array([f"s{k:02d}" for k in range(20)]), seed=0)
    assert [rows.tolist() for rows in sides[1:]] == FROZEN


FROZEN = [[7, 16], [1, 4, 9, 14]]


def _cohort_with_relatives() -> dict[str, np.ndarray]:
    """Classes, sites, families of up to a fifth of all, and people who came twice: every way of dealing is taken."""
    cohort = people(120, n_classes=3, n_groups=4)
    chance = keys.generator(0, "relatives")
    families = np.where(chance.random(120) < 0.4, chance.integers(0, 12, 120), np.arange(120) + 120)
    families[np.flatnonzero(cohort["y"] == "a")[:24]] = 500
    cohort["subjects"][5], cohort["subjects"][70] = cohort["subjects"][6], cohort["subjects"][71]
    return {**cohort, "families": families}


def _fingerprint(splits: Iterable[Iterable[np.ndarray]]) -> str:
    text = ";".join(",".join(map(str, rows.tolist())) for sides in splits for rows in sides)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


WAYS = {
    "split": lambda **cohort: [split(**cohort, seed=3)],
    "split by class": lambda **cohort: [split(**cohort, seed=3, stratify="y")],
    "split without strata": lambda **cohort: [split(**cohort, seed=3, stratify=None, sizes=(0.5, 0.25, 0.25))],
    "kfold": lambda **cohort: kfold(**cohort, seed=3, n_folds=4, repeats=2, validation=0.2),
    "leave_group_out": lambda **cohort: leave_group_out(**cohort, seed=3, validation=0.2).values(),
    "hold_out": lambda **cohort: [hold_out(**cohort, seed=3, share=0.2)],
}
FINGERPRINTS = {
    "split": ["56b3f8406dfb", "f2e4f074ec66", "2eb80ba85de2"],
    "split by class": ["568e79f1cf7b", "1b6082c0c820", "a37a19d2f5d6"],
    "split without strata": ["49d3c06c26e9", "0e5853014452", "49d3c06c26e9"],
    "kfold": ["210b4af421de", "aec71de884d9", "3c6f299b1aaa"],
    "leave_group_out": ["d741bd250f5a", "2d0acdd93143", "6596a0dea841"],
    "hold_out": ["039614315531", "4f6bdc6d6742", "4d6b18066fbd"],
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_split_stays_what_it_is(way: str) -> None:
    """Of single people, of families, and of numbers."""
    cohort = _cohort_with_relatives()
    alone = {name: values for name, values in cohort.items() if name != "families"} | {"subjects": np.arange(120)}
    numbers = alone | {"y": keys.generator(0, "numbers").normal(size=(120, 2)).round(1)}
    assert [_fingerprint(WAYS[way](**some)) for some in (alone, cohort, numbers)] == FINGERPRINTS[way]


def test_defaults_are_those_that_are_documented() -> None:
    cohort = people(90)
    for found, same in [
        (split(**cohort), split(**cohort, seed=0, sizes=(0.7, 0.1, 0.2), stratify="y+group")),
        (kfold(**cohort)[4], kfold(**cohort, seed=0, n_folds=5, repeats=1, validation=0.1, stratify="y+group")[4]),
        (leave_group_out(**cohort)["0"], leave_group_out(**cohort, seed=0, validation=0.1, stratify="y+group")["0"]),
        (hold_out(**cohort), hold_out(**cohort, seed=0, share=0.125, stratify="y+group")),
    ]:
        assert _fingerprint([found]) == _fingerprint([same])
    assert len(kfold(**cohort)) == 5


def test_numbers_are_stratified_by_their_range() -> None:
    y = keys.generator(0, "y").normal(size=200)
    sides = split(y, np.arange(200).astype(str), seed=0)
    low = y < np.median(y)
    assert abs(low[sides.test].sum() - 20) <= 1
    several = split(np.stack([y, -2 * y], axis=1), np.arange(200).astype(str), seed=0)
    assert [len(rows) for rows in several] == [140, 20, 40]


def test_what_is_not_known_is_not_stratified() -> None:
    subjects = np.arange(40).astype(str)
    assert [len(rows) for rows in split(None, subjects)] == [28, 4, 8]
    rare = np.array(["a"] * 39 + ["b"])
    assert [len(rows) for rows in split(rare, subjects, stratify=None)] == [28, 4, 8]


def test_every_small_site_is_on_every_side_for_some_seed() -> None:
    cohort = people(60, n_groups=1)
    cohort["groups"][:1] = "lonely"
    seen = {name for seed in range(60) for name, rows in split(**cohort, seed=seed)._asdict().items() if 0 in rows}
    assert seen == {"train", "validation", "test"}


@pytest.mark.parametrize("label", ["rare", 7])
def test_a_class_too_rare_for_three_sides_is_named(label: object) -> None:
    y = np.array([0 if isinstance(label, int) else "often"] * 30 + [label] * 2)
    with pytest.raises(DataError, match=f"class {label} has 2"):
        split(y, np.arange(32).astype(str))
    with pytest.raises(DataError, match="5 folds needs at least 5"):
        kfold(y, np.arange(32).astype(str))


def test_a_class_of_one_family_is_rare() -> None:
    y = np.array(["often"] * 30 + ["rare"] * 6)
    families = np.array([f"f{min(k, 30)}" for k in range(36)])
    with pytest.raises(DataError, match="class rare has 1"):
        split(y, np.arange(36).astype(str), families=families)


# ---- leaving groups out


def test_each_group_is_the_test_once() -> None:
    cohort = people(90)
    sides = leave_group_out(**cohort)
    assert sorted(sides) == ["0", "1", "2"]
    for name, (train, validation, test) in sides.items():
        assert (cohort["groups"][test] == name).all()
        assert (cohort["groups"][np.concatenate([train, validation])] != name).all()
        assert sorted(np.concatenate([train, validation, test])) == list(range(90))


def test_travelling_people_and_their_families_do_not_train() -> None:
    cohort = people(90)
    here, there = np.flatnonzero(cohort["groups"] == "0")[0], np.flatnonzero(cohort["groups"] == "1")[0]
    cohort["subjects"][there] = cohort["subjects"][here]
    train, validation, test = leave_group_out(**cohort)["0"]
    assert here in test
    assert there not in np.concatenate([train, validation, test])


@pytest.mark.parametrize(
    ("groups", "validation", "words"),
    [
        (None, 0.1, "needs groups"),
        (["x"] * 4, 0.1, "at least two groups"),
        (list("xxyy"), 1.0, "between 0 and 1"),
        (list("xxyy"), 0.0, "between 0 and 1"),
        (list("xxxy"), 0.1, "fewer than two people"),
    ],
)
def test_what_leaving_out_refuses(groups: list[str] | None, validation: float, words: str) -> None:
    with pytest.raises(DataError, match=words):
        leave_group_out(None, list("abcd"), groups, validation=validation)


# ---- leakage


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"train": [0, 1], "test": [1]}, r"train and test share 1 rows \(1\)"),
        ({"train": [0], "test": [2]}, r"share 1 subjects \(a\)"),
        ({"train": [0], "validation": [1], "test": [3]}, r"validation and test share 1 families \(g\)"),
    ],
)
def test_overlap_is_refused(parts: dict[str, list[int]], words: str) -> None:
    rows = {name: np.array(values) for name, values in parts.items()}
    with pytest.raises(LeakageError, match=words):
        assert_disjoint(rows, np.array(["a", "b", "a", "c"]), np.array(["f", "g", "f", "g"]))


def test_disjoint_sides_pass() -> None:
    assert_disjoint(Split(np.array([0]), np.array([1]), np.array([2]))._asdict(), list("abc"), list("xyz"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"sizes": (0.7, 0.3)}, "three positive numbers"),
        ({"sizes": (0.7, 0.1, 0.1)}, "add up to 1"),
        ({"sizes": (1.1, -0.2, 0.1)}, "three positive numbers"),
        ({"sizes": (0.8, 0.2, 0.0)}, "three positive numbers"),
        ({"sizes": (0.7, 0.1, 0.200002)}, "add up to 1"),
        ({"stratify": "site"}, "stratify must be one of"),
        ({"y": [1]}, "one entry for each of 4"),
        ({"subjects": []}, "at least one"),
        ({}, "too few: validation"),
    ],
)
def test_what_a_split_refuses(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(DataError, match=words):
        split(**({"y": None, "subjects": list("abcd")} | arguments))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"n_folds": 1}, "at least 2 folds"),
        ({"repeats": 0}, "1 repeat"),
        ({"validation": 0.9}, "between 0 and 0.8"),
        ({"validation": 0.8}, "between 0 and 0.8"),
        ({"validation": 0.0}, "between 0 and 0.8"),
    ],
)
def test_what_folds_refuse(arguments: dict[str, float], words: str) -> None:
    with pytest.raises(DataError, match=words):
        kfold(None, np.arange(50).astype(str), **arguments)  # type: ignore[arg-type]


# ---- rounding


@given(
    counts=st.lists(st.integers(0, 30), min_size=1, max_size=12),
    shares=st.lists(st.floats(0.05, 1), min_size=2, max_size=5),
    seed=st.integers(0, 99),
)
def test_a_table_is_rounded_to_its_sums(counts: list[int], shares: list[float], seed: int) -> None:
    share = np.array(shares) / sum(shares)
    rows = np.array(counts)
    exact = rows[:, None] * share
    columns = largest_remainder(share * rows.sum())
    table = round_table(exact, rows, columns, keys.generator(seed))
    assert (table.sum(axis=1) == rows).all()
    assert (table.sum(axis=0) == columns).all()
    assert (np.abs(table - exact) < 1 + 1e-9).all()


def test_a_table_that_does_not_fit_its_sums_is_fitted_first() -> None:
    table = round_table(np.array([[3.0, 0.0], [3.0, 0.0]]), np.array([3, 3]), np.array([2, 4]), keys.generator(0))
    assert (table.sum(axis=1) == 3).all()
    assert table.sum(axis=0).tolist() == [2, 4]


def test_fitting_goes_on_until_every_sum_is_right() -> None:
    exact, rows, columns = np.array([[50.0, 1, 0], [1, 1, 0]]), np.array([40, 12]), np.array([22, 30, 0])
    table = round_table(exact, rows, columns, keys.generator(0))  # the empty column is right from the start
    assert table.sum(axis=1).tolist() == [40, 12]
    assert table.sum(axis=0).tolist() == [22, 30, 0]


# ---- hold_out: train and validation without a test


@given(cohort=cohorts, seed=st.integers(0, 50), share=st.sampled_from([0.05, 0.125, 0.3]))
def test_what_is_held_out_is_an_exact_share_in_proportion(
    cohort: dict[str, np.ndarray], seed: int, share: float
) -> None:
    count = len(cohort["y"])
    train, validation = hold_out(**cohort, seed=seed, share=share)
    assert sorted(np.concatenate([train, validation])) == list(range(count))
    assert abs(len(validation) - share * count) < 1
    assert in_proportion(cohort["y"], validation, share)
    again = hold_out(**cohort, seed=seed, share=share)
    assert np.array_equal(again[1], validation)


@given(cohort=cohorts, rng=relatives)
def test_families_are_held_out_whole(cohort: dict[str, np.ndarray], rng: np.random.Generator) -> None:
    families = rng.integers(0, len(cohort["y"]) // 3, len(cohort["y"])).astype(str)
    train, validation = hold_out(**cohort, families=families)
    assert len(validation)
    assert not set(families[train]) & set(families[validation])


@pytest.mark.parametrize("names", [["b", "a", "a", "a"], ["a"] + ["b"] * 39, list("aabbccdd"), list("aab") * 3])
def test_who_alone_has_a_class_is_trained_and_somebody_is_held_out(names: list[str]) -> None:
    for seed in range(60):
        train, validation = hold_out(np.array(names), np.arange(len(names)), seed=seed)
        assert set(np.array(names)[train]) == set(names)
        assert len(validation)


def test_a_class_in_one_family_is_trained() -> None:
    names, families = np.array(["a"] * 20 + ["b"] * 20), np.array(["f"] * 20 + [f"g{k}" for k in range(20)])
    for seed in range(20):
        train, validation = hold_out(names, np.arange(40), families=families, seed=seed)
        assert set(train) > set(range(20))
        assert len(validation)


@pytest.mark.parametrize("names", [["a", "b"], ["a", "b", "c", "d"], ["a"]])
def test_where_everybody_is_needed_nobody_can_be_held_out(names: list[str]) -> None:
    with pytest.raises(DataError, match="nobody can be held out: without any one person"):
        hold_out(np.array(names), np.arange(len(names)))


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1])
def test_a_share_to_hold_out_is_between_nothing_and_all(share: float) -> None:
    with pytest.raises(DataError, match="share must lie between 0 and 1"):
        hold_out(None, np.arange(4), share=share)


def test_one_family_alone_cannot_be_held_out() -> None:
    with pytest.raises(DataError, match="nobody can be held out"):
        hold_out(None, np.arange(4), families=np.zeros(4))


# ---- at the edges of what is allowed


def test_the_least_that_is_allowed_is_allowed() -> None:
    y = np.array(["often"] * 30 + ["rare"] * 3)
    subjects = np.arange(33).astype(str)
    assert all(rows.size for rows in split(y, subjects))
    assert len(kfold(y, subjects, n_folds=3)) == 3
    assert len(kfold(None, subjects, n_folds=2, validation=0.4)) == 2
    with pytest.raises(DataError, match="4 folds needs at least 4 people"):
        kfold(y, subjects, n_folds=4)
    assert [len(rows) for rows in split(None, subjects, sizes=(0.6, 0.2, 0.2000005))] == [20, 6, 7]
    sides = leave_group_out(None, list("abcd"), list("xxyy"), validation=0.5)
    assert [len(rows) for rows in sides["y"]] == [1, 1, 2]


def test_sizes_that_miss_one_by_rounding_are_made_to_fit() -> None:
    subjects = np.arange(1000).astype(str)
    close = split(None, subjects, sizes=(0.7, 0.1, 0.2 + 9e-7))
    assert [len(rows) for rows in close] == [700, 100, 200]


def test_an_only_class_is_no_rare_class() -> None:
    assert [len(rows) for rows in split(np.array(["a"] * 2 + ["a"] * 8), np.arange(10).astype(str))] == [7, 1, 2]


def test_rare_classes_are_counted_in_people_and_all_named() -> None:
    y = np.array(["often"] * 30 + ["few"] * 4 + ["less"] * 4)
    subjects = np.arange(38).astype(str)
    subjects[31:34], subjects[35:38] = subjects[30], subjects[34]
    with pytest.raises(DataError, match="class few has 1, less has 1: leave these"):
        split(y, subjects)


@given(
    values=st.lists(st.floats(0, 40), min_size=1, max_size=8),
)
def test_the_largest_remainders_are_raised(values: list[float]) -> None:
    exact = np.array(values)
    exact[-1] += np.ceil(exact.sum()) - exact.sum()
    counts = largest_remainder(exact)
    assert counts.sum() == round(exact.sum())
    assert (np.abs(counts - exact) < 1 + 1e-9).all()
    raised = counts > exact + 1e-9
    lowered = counts < exact - 1e-9
    if raised.any() and lowered.any():
        remainder = exact - np.floor(exact)
        assert remainder[raised].min() >= remainder[lowered].max() - 1e-6


def test_exact_tables_stay_and_fractions_are_raised_as_often_as_they_are_large() -> None:
    whole = np.array([[2.0, 1.0], [1.0, 3.0]])
    assert round_table(whole, np.array([3, 4]), np.array([3, 4]), keys.generator(0)).tolist() == whole.tolist()
    exact = np.array([[0.8, 0.2], [0.2, 0.8]])
    tables = [round_table(exact, np.array([1, 1]), np.array([1, 1]), keys.generator(seed)) for seed in range(300)]
    assert 0.7 < np.mean([table[0, 0] for table in tables]) < 0.97


def test_a_row_moves_aside_where_another_can_only_stand_there() -> None:
    exact = np.array([[0.5, 0.5, 0.0], [0.5, 0.0, 0.5], [0.0, 0.5, 0.5]])
    ones = np.ones(3, dtype=int)
    for seed in range(50):
        table = round_table(exact, ones, ones, keys.generator(seed))
        assert table.sum(0).tolist() == table.sum(1).tolist() == [1, 1, 1]
        assert (table[exact == 0] == 0).all()
