"""The answer: a gain, a loss, nothing, or nothing yet; what can be excluded; whether a linear model does as well."""

import numpy as np
import pytest

from rmixup.report.answer import answer, place
from rmixup.study.statistics import bootstrap_interval, compare, measure, ranks
from rmixup.study.tables import Row, Setting

NONE = [0.70, 0.72, 0.71, 0.69, 0.73, 0.70, 0.71, 0.72]


def setting(scores, score="auroc", *, backbone="transformer", train_size=1.0, length=None, baselines=()):
    values = {name: np.array(one, float) for name, one in scores.items()}
    measured = measure(score)
    ranking = ranks(values, measured.higher_is_better)
    rows = [
        Row(n, v, float(v.mean()), float(v.std()), bootstrap_interval(v), {}, ranking[n], n in baselines)
        for n, v in values.items()
    ]
    reference = next(iter(values))
    return Setting(backbone, train_size, length, score, reference, rows, compare(values, reference, measured, 2 / 7))


def shifted(by, spread=0.003):
    wobble = spread * np.array([1, -1, 0.5, -0.5, 0, 0.2, -0.2, 0])
    return np.array(NONE) + by + wobble


def test_a_gain_names_the_methods_by_size_with_what_is_certain():
    found = answer([setting({"none": NONE, "small": shifted(0.02), "large": shifted(0.05), "same": shifted(0)})])
    assert found.kind == "gain"
    assert found.sentence.startswith(
        "Yes (transformer; auroc, 8 splits): 2 of 3 augmentation methods did better than none"
    )
    assert found.sentence.index("large by 5.00 points") < found.sentence.index("small by 2.00 points")
    assert "same" not in found.sentence


def test_no_gain_says_what_can_be_excluded():
    found = answer([setting({"none": NONE, "rmixup": shifted(0)})])
    assert found.kind == "none"
    assert found.sentence.startswith(
        "No evidence that augmentation helped (transformer; auroc, 8 splits): a gain above 0."
    )
    assert found.sentence.endswith("points can be excluded for rmixup.")


def test_a_loss_is_said():
    found = answer([setting({"none": NONE, "dropedge": shifted(-0.05), "rmixup": shifted(0)})])
    assert found.kind == "loss"
    assert "Worse than none: dropedge by 5.00 points." in found.sentence


def test_of_an_error_less_is_a_gain():
    found = answer([setting({"none": [60.0, 62, 61, 63, 60, 61], "rmixup": [55.0, 57.5, 56, 58, 55.2, 56]}, "mse")])
    assert found.kind == "gain"
    assert "rmixup by 4.88 (p" in found.sentence


def test_a_linear_model_that_does_better_is_told_and_is_no_augmentation():
    scores = {"none": NONE, "rmixup": shifted(0), "tangent": shifted(0.001), "tangent (baseline)": shifted(0.06)}
    found = answer([setting(scores, baselines={"tangent (baseline)"})])
    assert found.kind == "none"
    assert "each of 2 augmentation methods" in found.sentence
    assert found.beside == [
        "A linear model in tangent space, “tangent (baseline)”, did better than the best network model on 8 of 8 "
        "splits (mean 77.0 against 71.1 of tangent)."
    ]


def test_a_linear_model_that_does_worse_is_told_too():
    found = answer([setting({"none": NONE, "rmixup": shifted(0), "linear": shifted(-0.1)}, baselines={"linear"})])
    assert "did not do better than the best network model" in found.beside[0]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ([], "no cell of this study has a result"),
        ([setting({"none": NONE, "linear": NONE}, baselines={"linear"})], "compares no augmentation"),
        ([setting({"none": [0.7], "rmixup": [0.8]})], "scores on 3 splits or more"),
        ([setting({"none": [0.7, 0.7], "rmixup": [0.8, 0.81]})], "scores on 3 splits or more"),
        ([setting({"none": [0.7, 0.7, 0.7], "rmixup": [0.8, 0.8, np.nan]})], "scores on 3 splits or more"),
        ([setting({"none": [0.7, 0.8, 0.6], "rmixup": [0.8, 0.9, 0.7]})], "scores on 3 splits or more"),
    ],
)
def test_where_there_is_no_answer_that_is_the_answer(settings, said):
    found = answer(settings, missing=3, total=8)
    assert found.kind == "open"
    assert said in found.sentence
    assert "3 of 8 cells have no result yet or failed; see below." in found.beside


def test_few_splits_are_warned_of():
    few = {"none": NONE[:4], "rmixup": shifted(0.05)[:4]}
    assert "These are 4 splits only: take ten or more before you believe it." in answer([setting(few)]).beside
    assert not any("splits only" in words for words in answer([setting({"none": NONE, "rmixup": shifted(0)})]).beside)


def test_other_settings_are_counted_and_those_with_a_finding_are_told():
    silent = {"none": NONE, "rmixup": shifted(0)}
    loud = {"none": NONE, "rmixup": shifted(0.05)}
    found = answer([setting(silent), setting(loud, backbone="gcn", train_size=0.1), setting(silent, backbone="gin")])
    assert found.kind == "none"
    assert found.beside == [
        "With gcn, 10 % of the training data: rmixup +5.00 points (p ≤ 0.05 after Holm).",
        "In another setting there is no evidence of a gain or a loss.",
        "Each of the 3 settings is corrected by itself: among many, one may stand out by chance.",
    ]
    quiet = answer([setting(silent), setting(silent, backbone="gin")])
    assert quiet.beside == ["In the other setting there is no evidence of a gain or a loss."]


def test_a_place_tells_size_and_length_where_they_are_not_all():
    assert (
        place(setting({"none": NONE}, train_size=0.25, length=80))
        == "transformer, 25 % of the training data, 80 frames"
    )
