"""Who is mixed with whom, how often, and what is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from rmixup import DataError, spd
from rmixup.augment import PAIRS, CrossGroup, LabelKernel, Nearest, RMixup, SameClass, Tangent, VMixup
from rmixup.augment.pairs import Policy, as_policy

from .conftest import correlations

MANY = 400


def partners(policy: str | Policy, y: object, groups: object = None, steps: int = MANY) -> np.ndarray:
    """(steps, N) partners of everybody."""
    size = len(y)  # type: ignore[arg-type]
    prepared = VMixup(pairs=policy).prepare(correlations(size, 3), y, groups)
    return np.stack([prepared.draw(np.arange(size), (0, step)).j for step in range(steps)])


def test_uniform_partners_are_everybody_else_equally_often() -> None:
    j = partners("uniform", np.arange(10.0), steps=900)
    for i in range(10):
        counts = np.bincount(j[:, i], minlength=10)
        assert counts[i] == 0
        assert stats.chisquare(np.delete(counts, i)).pvalue > 1e-4


@given(
    codes=st.lists(st.integers(0, 3), min_size=4, max_size=12).filter(
        lambda c: min(np.bincount(c)[np.unique(c)]) > 1 and len(set(c)) > 1
    )
)
def test_same_class_and_group_partners_are_of_the_same_and_cross_group_of_another(codes: list[int]) -> None:
    codes = np.array(codes)
    everyone = np.arange(len(codes))
    for policy in ("same-class", "same-group", "label-kernel"):
        j = partners(policy, codes, codes, steps=30)
        assert (codes[j] == codes).all()
        assert (j != everyone).all()
    assert (codes[partners("cross-group", codes, codes, steps=30)] != codes).all()


def test_cross_group_partners_are_equally_likely() -> None:
    groups = np.array(["a", "b", "b", "c", "a", "b"])
    j = partners("cross-group", np.arange(6.0), groups, steps=1200)
    counts = np.bincount(j[:, 1], minlength=6)
    assert set(np.flatnonzero(counts)) == {0, 3, 4}
    assert stats.chisquare(counts[[0, 3, 4]]).pvalue > 1e-4


@pytest.mark.parametrize("bandwidth", [0.3, 1.0, "auto"])
@pytest.mark.parametrize("targets", [1, 2])
def test_label_kernel_partners_have_the_kernels_frequencies(bandwidth: float | str, targets: int) -> None:
    y = np.stack([np.linspace(20, 60, 12) ** (k + 1) for k in range(targets)], 1)
    policy = LabelKernel(bandwidth)  # type: ignore[arg-type]
    j = partners(policy, y, steps=2500)
    h = 12 ** (-1 / (targets + 4)) if bandwidth == "auto" else bandwidth
    z = y / y.std(0)
    p = np.exp(-((z[:, None] - z[None]) ** 2).sum(-1) / (2 * h**2))
    np.fill_diagonal(p, 0)
    p /= p.sum(1, keepdims=True)
    for i in (0, 5, 11):
        expected, counts = 2500 * p[i], np.bincount(j[:, i], minlength=12)
        seen = expected > 5
        assert counts[expected < 1e-6].sum() == 0
        total = counts[seen].sum()
        assert stats.chisquare(counts[seen], expected[seen] / expected[seen].sum() * total).pvalue > 1e-4
    effective = VMixup(pairs=policy).prepare(correlations(12, 3), y).effective_partners
    np.testing.assert_allclose(effective, 1 / (p**2).sum(1))


def test_the_kernel_is_free_of_the_labels_unit_and_never_nan() -> None:
    y = np.array([1.0, 2.0, 4.0, 8.0, 1e6])
    far = LabelKernel(1e-9)
    j = partners(far, y, steps=20)
    assert (j == np.array([1, 0, 1, 2, 3])).all()
    prepared = VMixup(pairs=far).prepare(correlations(5, 3), y)
    np.testing.assert_allclose(prepared.effective_partners, 1.0)
    assert np.array_equal(partners("label-kernel", y, steps=50), partners("label-kernel", 1e-4 * y, steps=50))


def test_the_kernel_of_a_raw_batch_of_one_label_is_uniform() -> None:
    """A batch may happen to be so; a training set is refused."""
    x = correlations(6, 3)
    made, y = VMixup(pairs="label-kernel")(x, np.full(6, 2.0))
    assert np.isfinite(made).all()
    assert (np.abs(made - x).max((1, 2)) > 1e-6).sum() >= 4  # nearly everybody has a partner
    assert (y == 2.0).all()


def test_the_kernel_in_raw_units_with_oneself() -> None:
    y = np.array([0.0, 1.0, 5.0])
    prepared = VMixup(pairs=LabelKernel(1.0, "raw", itself=True)).prepare(correlations(3, 3), y)
    p = np.exp(-((y[:, None] - y[None]) ** 2) / 2)
    p /= p.sum(1, keepdims=True)
    np.testing.assert_allclose(prepared.effective_partners, 1 / (p**2).sum(1))
    j = np.stack([prepared.draw([0, 1, 2], step).j for step in range(MANY)])
    assert abs((j[:, 0] == 0).mean() - p[0, 0]) < 0.1


@pytest.mark.parametrize(
    ("aug", "metric"),
    [(VMixup(pairs=Nearest(3)), "euclid"), *[(RMixup(metric=m, pairs=Nearest(3)), m) for m in spd.METRICS]],
    ids=str,
)
def test_nearest_partners_are_the_nearest_in_the_geometry(aug: VMixup, metric: str) -> None:
    x = correlations(14, 4, seed=3)
    prepared = aug.prepare(x, np.arange(14.0))
    distances = np.array([[spd.distance(x[a], x[b], metric) for b in range(14)] for a in range(14)])
    np.fill_diagonal(distances, np.inf)
    nearest = np.argsort(distances, 1)[:, :3]
    j = np.stack([prepared.draw(np.arange(14), (1, step)).j for step in range(60)])
    for i in range(14):
        assert set(j[:, i]) == set(nearest[i])
    assert (prepared.effective_partners == 3).all()


def test_nearest_in_the_tangent_space() -> None:
    x = correlations(9, 4, seed=3)
    prepared = Tangent(mean="riemann", pairs=Nearest(1)).prepare(x, np.arange(9.0))
    root = spd.invsqrtm(spd.mean(x, "riemann"))
    logs = np.asarray(spd.logm(root @ x @ root))
    distances = np.linalg.norm(logs[:, None] - logs[None], axis=(2, 3))
    np.fill_diagonal(distances, np.inf)
    assert np.array_equal(prepared.draw(np.arange(9), 0).j, distances.argmin(1))


def test_shuffled_pairs_are_the_batch_itself() -> None:
    prepared = VMixup(pairs="shuffle").prepare(correlations(9, 3), np.arange(9.0))
    drawn = [prepared.draw([7, 1, 4], step).j for step in range(200)]
    assert {tuple(sorted(j)) for j in drawn} == {(1, 4, 7)}
    assert len({tuple(j) for j in drawn}) == 6
    assert (prepared.effective_partners == 9).all()


def test_effective_partners_count_the_choices() -> None:
    codes = np.array([0, 0, 0, 1, 1])
    x = correlations(5, 3)
    for policy, expected in (("uniform", [4] * 5), ("same-class", [2, 2, 2, 1, 1]), ("cross-group", [2, 2, 2, 3, 3])):
        assert VMixup(pairs=policy).prepare(x, codes, codes).effective_partners.tolist() == expected


def test_policies_are_found_by_name() -> None:
    assert as_policy("same-class") == SameClass()
    assert set(PAIRS) >= {"uniform", "same-class", "label-kernel", "same-group", "cross-group", "nearest"}
    with pytest.raises(DataError, match="did you mean 'same-class'"):
        VMixup(pairs="same-clas")


@pytest.mark.parametrize(
    ("policy", "y", "groups", "message"),
    [
        ("same-class", [0, 0, 1], None, "one member only .*at 2.*uniform"),
        ("same-class", [0.1, 0.2, 0.3], None, "needs classes.*label-kernel"),
        ("label-kernel", [0, 0, 1], None, "one member only"),
        ("same-group", [0, 0, 1], None, "give groups="),
        ("same-group", [0, 0, 1], ["a", "b", "b"], "one member only .*at 0"),
        ("cross-group", [0, 0, 1], ["a", "a", "a"], "at least two groups"),
        ("cross-group", [0, 0, 1], None, "give groups="),
        (Nearest(3), [0, 0, 1], None, "has 2 others"),
    ],
)
def test_what_a_policy_cannot_do_is_said(policy: str, y: list[float], groups: list[str] | None, message: str) -> None:
    with pytest.raises(DataError, match=message):
        VMixup(pairs=policy).prepare(correlations(3, 3), y, groups)


@pytest.mark.parametrize("bandwidth", [0, -1.0, np.nan, np.inf, "wide"])
def test_bandwidths_must_be_positive(bandwidth: float) -> None:
    with pytest.raises(DataError, match="positive number or 'auto'"):
        LabelKernel(bandwidth)
    with pytest.raises(DataError, match="'deviation' or 'raw'"):
        LabelKernel(1.0, "metres")  # type: ignore[arg-type]


@pytest.mark.parametrize("k", [0, -2, 1.5])
def test_neighbours_must_be_counted(k: int) -> None:
    with pytest.raises(DataError, match="whole number of at least 1"):
        Nearest(k)


@pytest.mark.parametrize("policy", [*PAIRS.values()])
def test_raw_batches_mix_a_lone_sample_with_itself(policy: type[Policy]) -> None:
    x = correlations(1, 3)
    made, _ = VMixup(pairs=policy() if policy is not SameClass else "label-kernel")(x, [1.0], groups=["a"])
    np.testing.assert_allclose(made, x)
    made, labels = VMixup(pairs="same-class")(correlations(3, 3), [0, 0, 1], seed=2)
    assert np.array_equal(made[2], correlations(3, 3)[2])
    assert labels[2].tolist() == [0, 1]


def test_cross_group_in_a_batch_of_one_group_mixes_within_it() -> None:
    x = correlations(4, 3)
    assert VMixup(pairs=CrossGroup())(x, np.arange(4.0), groups=["a"] * 4)[0].shape == x.shape
