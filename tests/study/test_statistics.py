"""The statistics agree with SciPy where it has the test, keep their promised error rates, and speak honestly."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats

from rmixup.errors import DataError
from rmixup.study.statistics import (
    MEASURES,
    Comparison,
    Ranking,
    bootstrap_interval,
    bounds,
    compare,
    corrected_t,
    effect_size,
    holm,
    measure,
    ranks,
    verdict,
    wilcoxon,
)
from rmixup.study.statistics import Test as TTest

Values = st.lists(st.floats(-100, 100).map(lambda x: round(x, 3)), min_size=2, max_size=30)
AUROC = measure("auroc")
RATIO = 0.2 / 0.7


def varied(values: list[float]) -> bool:
    return float(np.std(values)) > 1e-3


@given(Values.filter(varied))
def test_without_correction_it_is_the_paired_t_test(values: list[float]) -> None:
    ours, theirs = corrected_t(values, 0.0), stats.ttest_1samp(values, 0.0)
    np.testing.assert_allclose([ours.statistic, ours.p], [theirs.statistic, theirs.pvalue], rtol=1e-8, atol=1e-12)
    assert ours.df == theirs.df


@given(Values.filter(varied), st.floats(0.01, 2))
def test_the_correction_is_nadeau_and_bengios(values: list[float], ratio: float) -> None:
    d = np.array(values)
    expected = d.mean() / np.sqrt((1 / len(d) + ratio) * d.var(ddof=1))
    assert corrected_t(d, ratio).statistic == pytest.approx(expected, rel=1e-10)
    assert corrected_t(d, ratio).p >= corrected_t(d, 0.0).p - 1e-12


def test_differences_without_spread_are_certain_or_nothing() -> None:
    assert corrected_t([0.0, 0.0, 0.0], RATIO).p == 1.0
    assert corrected_t([-1.0, -1.0], RATIO).p == 0.0
    assert corrected_t([-1.0, -1.0], RATIO).statistic == -np.inf
    assert np.isnan(effect_size([1.0, 1.0]))


@pytest.mark.parametrize("values", [[], [1.0], [1.0, float("nan"), 2.0], [1.0, float("inf")]])
def test_what_is_undefined_stays_undefined(values: list[float]) -> None:
    assert np.isnan(corrected_t(values, RATIO).p)
    assert np.isnan(bounds(values, RATIO)).all()
    assert np.isnan(bootstrap_interval(values)).all()
    if values != [1.0]:
        assert np.isnan(wilcoxon(values).p)


@given(st.lists(st.integers(-50, 50).map(float), min_size=2, max_size=8).filter(any))
@example([0.0, 1.0, 2.0, -1.5])  # some differences are zero, not all
def test_wilcoxon_is_scipys(values: list[float]) -> None:
    theirs = stats.wilcoxon(values)
    assert (wilcoxon(values).statistic, wilcoxon(values).p) == (theirs.statistic, theirs.pvalue)


def test_wilcoxon_of_no_differences_is_one() -> None:
    assert wilcoxon([0.0, 0.0]).p == 1.0


def test_the_bootstrap_interval_is_scipys_up_to_its_draws_and_reproducible() -> None:
    x = np.random.default_rng(0).normal(size=25)
    theirs = stats.bootstrap((x,), np.mean, method="percentile", n_resamples=20_000, rng=np.random.default_rng(0))
    ours = bootstrap_interval(x, draws=20_000)
    np.testing.assert_allclose(ours, theirs.confidence_interval, atol=0.02)
    assert ours == bootstrap_interval(x, draws=20_000)
    assert ours != bootstrap_interval(x, draws=20_000, seed=1)
    narrow = bootstrap_interval(x, level=0.5)
    assert ours[0] < narrow[0] < x.mean() < narrow[1] < ours[1]


def test_the_effect_size_is_the_mean_in_standard_deviations() -> None:
    assert effect_size([1.0, 2.0, 3.0]) == pytest.approx(2.0)
    assert effect_size([1.0, 5.0]) == pytest.approx(3 / 8**0.5)
    assert np.isnan(effect_size([1.0]))


def test_holm_on_the_textbook_example_and_with_an_undefined_test() -> None:
    """Holm (1979): p × (m, m−1, …) in order of size, never falling."""
    np.testing.assert_allclose(holm([0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02])
    np.testing.assert_allclose(holm([0.5, 0.9]), [1.0, 1.0])
    with_gap = holm([0.01, float("nan"), 0.02])
    np.testing.assert_allclose(with_gap[[0, 2]], [0.03, 0.04])
    assert np.isnan(with_gap[1])
    assert holm([]).shape == (0,)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_lies_between_the_raw_and_bonferronis(p: list[float]) -> None:
    adjusted = holm(p)
    assert (adjusted >= np.array(p) - 1e-15).all()
    assert (adjusted <= np.minimum(1, np.array(p) * len(p)) + 1e-15).all()
    assert (np.diff(adjusted[np.argsort(p, kind="stable")]) >= -1e-15).all()


@given(st.integers(2, 5), st.integers(1, 8), st.integers(0, 1000))
def test_ranks_are_scipys(methods: int, splits: int, seed: int) -> None:
    table = np.random.default_rng(seed).integers(0, 4, (methods, splits)).astype(float)
    found = ranks({str(k): row for k, row in enumerate(table)}, higher_is_better=False)
    expected = stats.rankdata(table, axis=0).mean(1)
    np.testing.assert_allclose([r.mean_rank for r in found.values()], expected)
    assert sum(r.wins for r in found.values()) == pytest.approx(splits)
    flipped = ranks({str(k): -row for k, row in enumerate(table)}, higher_is_better=True)
    assert flipped == found


def test_a_method_without_a_score_makes_all_ranks_undefined() -> None:
    found = ranks({"a": [1.0, float("nan")], "b": [1.0, 2.0]}, higher_is_better=True)
    assert all(np.isnan(r.mean_rank) and np.isnan(r.wins) for r in found.values())
    assert isinstance(found["a"], Ranking)


def test_bounds_hold_as_often_as_they_say() -> None:
    """Independent differences, no overlap: 95 % of the one-sided bounds hold, on each side."""
    rng = np.random.default_rng(0)
    found = np.array([bounds(rng.normal(1.0, 2.0, 8), 0.0) for _ in range(4000)])
    held = (found[:, 0] < 1.0).mean(), (found[:, 1] > 1.0).mean()
    np.testing.assert_allclose(held, 0.95, atol=0.012)


def test_the_correction_keeps_the_error_rate_where_the_plain_test_does_not() -> None:
    """Splits that overlap, two methods that are equally good: the share of false alarms at 5 %."""
    rng = np.random.default_rng(1)
    alarms = np.zeros(2)
    for _ in range(400):
        gain = rng.normal(size=(200, 2)).cumsum(1)[:, 0]  # by subject: no method is better
        d = [gain[rng.permutation(200)[:40]].mean() for _ in range(10)]
        alarms += [corrected_t(d, 0.0).p < 0.05, corrected_t(d, 40 / 160).p < 0.05]
    assert alarms[0] / 400 > 0.2
    assert alarms[1] / 400 < 0.09


@pytest.mark.parametrize("name", ["auroc", "macro_precision", "test_mse", "pearson"])
def test_measures_are_known_by_their_last_name(name: str) -> None:
    found = measure(name)
    assert found.name == name
    assert found.higher_is_better == (name != "test_mse")


def test_an_unknown_measure_is_refused_because_its_direction_is_unknown() -> None:
    with pytest.raises(DataError, match="unknown which direction is better; known are accuracy"):
        measure("niceness")
    assert MEASURES["mse"].sign == -1


def _one(none: list[float], method: list[float], name: str = "auroc", **missing: dict[str, int]) -> Comparison:
    (found,) = compare({"none": none, "rmixup": method}, "none", measure(name), RATIO, missing)
    return found


BASE = [0.70, 0.72, 0.71, 0.69, 0.73, 0.70, 0.74, 0.71, 0.72, 0.70]


def test_a_gain_is_said_with_its_least_size() -> None:
    found = _one(BASE, [x + 0.03 + 0.001 * (k % 3) for k, x in enumerate(BASE)])
    assert found.gain == pytest.approx(3.09)
    assert found.wins == 10
    said = verdict(found)
    assert said.startswith("rmixup against none (auroc, 10 paired splits): evidence of a gain (+3.09 points, p < 0.001")
    least = found.gain - stats.t.ppf(0.95, 9) * np.sqrt(1 / 10 + RATIO) * np.std([0, 0.1, 0.2] * 3 + [0], ddof=1)
    assert f"at least {least:.2f} points with 95 % confidence, on 10 of 10 splits." in said


def test_a_loss_is_said_as_plainly() -> None:
    worse = _one(BASE, [x - 0.03 - 0.001 * (k % 3) for k, x in enumerate(BASE)])
    assert "evidence of a loss (-3.09 points, p < 0.001 after Holm), at least 2.99 points" in verdict(worse)
    assert worse.losses == 10


def test_for_a_loss_function_smaller_is_a_gain_and_there_are_no_points() -> None:
    found = _one([60.0, 61.0, 62.0], [50.0, 50.5, 52.5], "mse")
    assert found.gain == pytest.approx(10.0)
    assert "evidence of a gain (+10.00, p = 0.0015 after Holm), at least 8.85 with" in verdict(found)
    tiny = _one([0.010, 0.011, 0.012], [0.011, 0.010, 0.0125], "mse")
    assert "(-0.00017, p = 0.86 after Holm)" in verdict(tiny)


def test_no_evidence_says_what_can_be_excluded() -> None:
    method = [
        x + d for x, d in zip(BASE, [0.01, -0.012, 0.008, -0.007, 0.002, 0, -0.004, 0.006, -0.001, 0], strict=True)
    ]
    found = _one(BASE, method)
    said = verdict(found)
    assert "no evidence of a gain or a loss (+0.02 points, p = 0.96 after Holm)" in said
    assert f"a gain above {found.excluded_gain:.2f} points and a loss above {found.excluded_loss:.2f} points" in said
    low, high = bounds(100 * (np.array(method) - BASE), RATIO)
    assert (found.excluded_gain, found.excluded_loss) == pytest.approx((high, -low))


def test_a_bound_below_zero_excludes_any_gain_at_all() -> None:
    """One test of many: not significant after Holm, though its own bound excludes zero."""
    found = replace(_one(BASE, [x - 0.03 - 0.001 * (k % 3) for k, x in enumerate(BASE)]), p_holm=0.2)
    assert found.excluded_gain < 0
    assert "a gain above 0.00 points and a loss above 3.19 points can be excluded" in verdict(found)


def test_missing_splits_make_the_verdict_undefined_and_are_counted() -> None:
    found = _one(BASE, [*BASE[:-2], float("nan"), float("nan")], rmixup={"divergence": 1, "not run yet": 1})
    assert verdict(found) == (
        "rmixup against none (auroc, 10 paired splits): undefined, because splits lack a score "
        "(rmixup: divergence 1×, rmixup: not run yet 1×)."
    )
    assert np.isnan([found.gain, found.p, found.p_holm, found.excluded_gain]).all()


def test_one_split_is_not_enough() -> None:
    assert verdict(_one([0.7], [0.8])).endswith(
        "undefined, because a paired test needs two splits with defined scores."
    )


def test_comparisons_are_adjusted_over_all_methods() -> None:
    rng = np.random.default_rng(0)
    scores = {"none": np.array(BASE), **{str(k): np.array(BASE) + rng.normal(0.01, 0.01, 10) for k in range(4)}}
    found = compare(scores, "none", AUROC, RATIO)
    assert [c.method for c in found] == ["0", "1", "2", "3"]
    np.testing.assert_allclose([c.p_holm for c in found], holm([c.p for c in found]))
    assert all(c.interval[0] < c.gain < c.interval[1] for c in found)


@pytest.mark.parametrize(("value", "statistic", "p"), [(0.0, 0.0, 1.0), (2.0, np.inf, 0.0), (-2.0, -np.inf, 0.0)])
def test_without_spread_the_whole_test_is_told(value: float, statistic: float, p: float) -> None:
    assert corrected_t([value] * 4, RATIO) == TTest(statistic, p, 0.0, 3)
    assert bounds([value] * 4, RATIO) == (value, value)


def test_what_has_no_spread_or_no_values_has_no_degrees_of_freedom_either() -> None:
    for undefined in (corrected_t([1.0], RATIO), wilcoxon([]), wilcoxon([np.nan])):
        assert np.isnan([undefined.statistic, undefined.p, undefined.se, undefined.df]).all()
    assert (wilcoxon([0.0, 0.0]).statistic, wilcoxon([0.0]).p) == (0.0, 1.0)
    assert (wilcoxon([3.0]).statistic, wilcoxon([3.0]).p) == (0.0, 1.0)
    assert np.isnan([wilcoxon([3.0]).se, wilcoxon([3.0]).df]).all()


def test_a_score_that_is_none_is_undefined_as_not_a_number_is() -> None:
    gap = [0.7, None, 0.8]
    assert np.isnan([corrected_t(gap, RATIO).p, wilcoxon(gap).p, effect_size(gap)]).all()
    assert np.isnan([*bounds(gap, RATIO), *bootstrap_interval(gap)]).all()
    assert np.isnan(ranks({"a": gap, "b": [0.7, 0.7, 0.7]}, higher_is_better=True)["b"].wins)
    np.testing.assert_array_equal(holm([0.01, None]), [0.02, np.nan])
    for scores in ((gap, [0.7, 0.7, 0.7]), ([0.7, 0.7, 0.7], gap)):
        assert np.isnan(_one(*scores).gain)


def test_the_interval_of_two_values_is_theirs_and_its_level_is_95_percent_by_default() -> None:
    assert bootstrap_interval([1.0, 3.0]) == (1.0, 3.0)
    x = np.random.default_rng(1).normal(size=12)
    assert bootstrap_interval(x) == bootstrap_interval(x, level=0.95, draws=9999, seed=0)


def test_bounds_are_of_95_percent_by_default_and_their_width_is_students() -> None:
    d = np.array([1.0, 2.0, 0.5, 1.5])
    reach = stats.t.ppf(0.9, 3) * corrected_t(d, RATIO).se
    np.testing.assert_allclose(bounds(d, RATIO, level=0.9), [d.mean() - reach, d.mean() + reach])
    assert bounds(d, RATIO) == bounds(d, RATIO, level=0.95)


@pytest.mark.parametrize(
    ("name", "like"),
    [
        ("auroc_last", "auroc"),
        ("macro_f1_last", "f1"),
        ("balanced_accuracy", "accuracy"),
        ("test_rmse", "rmse"),
        ("r_last", "r"),
        ("spearman", "r"),
        ("test_r2", "r2"),
        ("calibration_error", "mse"),
    ],
)
def test_a_measure_is_told_in_the_unit_of_its_last_name(name: str, like: str) -> None:
    assert replace(measure(name), name=like) == measure(like)


def test_shares_are_told_in_points_and_the_rest_in_their_own_unit() -> None:
    assert all(m.name == name for name, m in MEASURES.items())
    told = {name: (m.sign, m.factor, m.unit) for name, m in MEASURES.items()}
    losses = {"mse", "rmse", "mae", "loss", "brier", "calibration_error"}
    assert {told[name] for name in losses} == {(-1, 1.0, "")}
    assert {told[name] for name in ("r", "pearson", "spearman")} == {(1, 1.0, "")}
    shares = set(told) - losses - {"r", "pearson", "spearman"}
    assert {"auroc", "accuracy", "f1", "r2"} < shares
    assert {told[name] for name in shares} == {(1, 100.0, "points")}


def test_ties_are_neither_wins_nor_losses() -> None:
    found = _one([0.5, 0.5, 0.5, 0.5, 0.5], [0.5, 0.506, 0.49, 0.49, 0.5])
    assert (found.wins, found.losses, found.splits) == (1, 2, 5)
    assert (found.method, found.reference, found.measure) == ("rmixup", "none", AUROC)
    gain = 100 * (np.array([0.5, 0.506, 0.49, 0.49, 0.5]) - 0.5)
    assert found.p_wilcoxon == wilcoxon(gain).p != found.p
    assert found.effect == effect_size(gain)
    assert found.interval == bootstrap_interval(gain)
    assert found.p == corrected_t(gain, RATIO).p


def test_what_is_missing_is_told_by_side_and_only_of_the_two_compared() -> None:
    lacking = {"none": {"divergence": 2}, "a": {"divergence": 1, "timeout": 3}, "b": {"crash": 4}}
    found = compare({"none": BASE, "a": BASE, "b": BASE}, "none", AUROC, RATIO, lacking)
    assert [c.missing for c in found] == [
        {"none: divergence": 2, "a: divergence": 1, "a: timeout": 3},
        {"none: divergence": 2, "b: crash": 4},
    ]
    assert _one(BASE, BASE).missing == {}


def test_a_comparison_without_splits_is_undefined() -> None:
    found = _one([], [])
    assert found.splits == 0
    assert np.isnan(found.gain)
    assert "undefined" in verdict(found)


@pytest.mark.parametrize(("p", "said"), [(0.05, "evidence of a gain ("), (0.0501, "no evidence of a gain or a loss")])
def test_the_level_of_a_verdict_is_five_percent(p: float, said: str) -> None:
    better = _one(BASE, [x + 0.03 + 0.001 * (k % 3) for k, x in enumerate(BASE)])
    assert verdict(replace(better, p_holm=p)).startswith(f"rmixup against none (auroc, 10 paired splits): {said}")


@pytest.mark.parametrize(
    ("p", "said"), [(0.001, "p = 0.001 after"), (0.00099, "p < 0.001 after"), (0.04321, "p = 0.043 after")]
)
def test_small_p_values_are_told_as_such(p: float, said: str) -> None:
    better = _one(BASE, [x + 0.03 + 0.001 * (k % 3) for k, x in enumerate(BASE)])
    assert said in verdict(replace(better, p_holm=p))


@pytest.mark.parametrize(
    ("name", "gain", "said"),
    [
        ("mse", 0.01234, "(+0.012,"),
        ("mse", -0.01234, "(-0.012,"),
        ("mse", 0.1, "(+0.10,"),
        ("mse", -0.1, "(-0.10,"),
        ("mse", 12.345, "(+12.35,"),
        ("auroc", 0.01234, "(+0.01 points,"),
    ],
)
def test_small_losses_keep_two_digits(name: str, gain: float, said: str) -> None:
    assert said in verdict(replace(_one(BASE, BASE[::-1], name), gain=gain, p=0.9, p_holm=0.9))


def test_a_loss_is_told_with_the_least_it_is_and_on_how_many_splits() -> None:
    worse = _one(BASE, [x - 0.03 - 0.001 * (k % 3) for k, x in enumerate(BASE)])
    said = verdict(replace(worse, losses=9, wins=1, excluded_gain=-2.5, excluded_loss=7.0))
    assert "at least 2.50 points with 95 % confidence, on 9 of 10 splits." in said
