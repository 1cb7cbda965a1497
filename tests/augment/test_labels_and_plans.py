"""Labels as numbers that mix, and plans as plain arrays."""

import numpy as np
import pytest
import torch

from rmixup import DataError
from rmixup.augment import METHODS, Plan, VMixup, as_augmentation
from rmixup.augment.labels import encode, require_usable

from .conftest import correlations


@pytest.mark.parametrize(
    ("y", "task", "codes", "classes"),
    [
        ([0, 2, 2], None, [0, 2, 2], 3),
        (np.array([1, 0], np.uint8), None, [1, 0], 2),
        (["b", "a", "b"], None, [1, 0, 1], 2),
        ([True, False], None, [1, 0], 2),
        ([-1, 1, 1], None, [0, 1, 1], 2),
        ([0.0, 3.0], "classification", [0, 3], 4),
        (torch.tensor([1, 0]), None, [1, 0], 2),
        (np.array(["x", "y"], object), None, [0, 1], 2),
    ],
)
def test_classes_are_read(y: object, task: str | None, codes: list[int], classes: int) -> None:
    labels = encode(y, task)  # type: ignore[arg-type]
    assert labels.codes is not None
    assert labels.codes.tolist() == codes
    assert labels.n_classes == classes
    assert labels.mixable().shape == (len(codes), classes)
    assert labels.mixable().argmax(1).tolist() == codes


def test_numbers_are_read() -> None:
    flat, wide = encode([1.5, 2.5]), encode(np.arange(6.0).reshape(3, 2))
    assert flat.mixable().tolist() == [1.5, 2.5]
    assert wide.mixable().shape == (3, 2)
    assert encode([20, 30], "regression").mixable().tolist() == [20.0, 30.0]
    assert len(wide) == 3
    assert wide.take(np.array([2])).mixable().tolist() == [[4.0, 5.0]]


@pytest.mark.parametrize(
    ("y", "task", "message"),
    [
        (None, None, "y is None"),
        ([0.0, np.nan, np.nan], None, r"2 are missing or not finite \(at 1, 2\)"),
        ([0.0, np.inf], None, "1 are missing"),
        (["a", None], None, r"1 are missing or not finite \(at 1\)"),
        (np.array([1.0, None, 2.0], object), "regression", "1 are missing"),
        ([0.0, np.nan], "classification", "1 are missing"),
        (["a", "b"], "regression", "must be numbers"),
        (np.zeros((2, 2, 2)), None, r"shape \(N,\) or \(N, k\)"),
        (np.zeros((2, 2), int), None, r"class labels must have shape \(N,\)"),
        (np.array([]), None, r"y is empty \(shape \(0,\)\); check which"),
        (np.zeros((3, 0)), None, r"y is empty \(shape \(3, 0\)\)"),
    ],
)
def test_bad_labels_are_refused(y: object, task: str | None, message: str) -> None:
    with pytest.raises(DataError, match=message):
        encode(y, task)  # type: ignore[arg-type]


def test_codes_must_fit_the_number_of_classes() -> None:
    with pytest.raises(DataError, match=r"0\.\.2 \(n_classes=3\), but 3 occurs"):
        encode([0, 3], n_classes=3)


def test_labels_that_teach_nothing_are_refused() -> None:
    with pytest.raises(DataError, match="one class only"):
        require_usable(encode([1, 1]))
    with pytest.raises(DataError, match="target 1 has the same value"):
        require_usable(encode(np.array([[1.0, 2.0], [3.0, 2.0]])))


def test_a_plan_is_made_by_hand() -> None:
    plan = Plan([0, 1], [1, 0], 0.5)
    assert plan.words.tolist() == [0, 0] == plan.run.tolist()
    assert plan[:1].lam.tolist() == [0.5]
    with pytest.raises(DataError, match="j must have one value a sample, 3 here"):
        Plan([0, 1, 2], [1, 0], 0.5)
    with pytest.raises(DataError, match=r"lam must lie in \[0, 1\]"):
        Plan([0], [1], 1.5)
    with pytest.raises(DataError, match="know their training set's size"):
        Plan.join([plan, plan])


@pytest.mark.parametrize(
    "settings", [{"alpha": 0}, {"alpha": -1.0}, {"alpha": np.nan}, {"alpha": np.inf}, {"alpha": "1"}]
)
@pytest.mark.parametrize("name", ["vmixup", "gmixup", "rmixup", "offlog"])
def test_alpha_must_be_positive(name: str, settings: dict[str, float]) -> None:
    with pytest.raises(DataError, match="alpha must be a positive number"):
        as_augmentation(name, **settings)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("rmixup", {"per": "epoch"}, "per must be 'batch'"),
        ("rmixup", {"metric": "reimann"}, "no metric is named 'reimann'; did you mean 'riemann'"),
        ("tangent", {"mean": "log-euclid"}, "did you mean 'logeuclid'"),
        ("rmixup", {"regularizer": "shrink=2"}, "at most 1"),
        ("offlog", {"regularizer": "ridge=2"}, "'shrink' or 'floor'"),
        ("dropnode", {"rate": 1.0}, r"probability in \[0, 1\)"),
        ("dropedge", {"rate": -0.1}, r"probability in \[0, 1\)"),
        ("rmixupp", {}, "no augmentation is named 'rmixupp'; did you mean 'rmixup'"),
        ("zzz", {}, "no augmentation is named 'zzz'. There are: none, vmixup"),
    ],
)
def test_wrong_settings_are_refused_at_once(name: str, settings: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        as_augmentation(name, **settings)


def test_settings_belong_to_names_only() -> None:
    aug = VMixup(alpha=0.5)
    assert as_augmentation(aug) is aug
    with pytest.raises(TypeError, match="settings go with a method's name"):
        as_augmentation(aug, alpha=1.0)


@pytest.mark.parametrize("name", METHODS)
def test_settings_are_plain_values_and_decide_equality(name: str) -> None:
    import json

    aug = as_augmentation(name)
    assert aug == as_augmentation(name)
    assert json.loads(json.dumps(aug.parameters())) == aug.parameters()


def test_policies_with_settings_are_plain_values_too() -> None:
    from rmixup.augment import LabelKernel

    assert VMixup(pairs=LabelKernel(0.5)).parameters()["pairs"] == {
        "policy": "LabelKernel",
        "bandwidth": 0.5,
        "units": "deviation",
        "itself": False,
    }


@pytest.mark.parametrize("name", METHODS)
def test_a_class_of_one_member_and_one_class_only_are_refused(name: str) -> None:
    x = correlations(5, 4)
    with pytest.raises(DataError, match="one class only"):
        as_augmentation(name).prepare(x, np.ones(5, int))
    with pytest.raises(DataError, match="missing or not finite"):
        as_augmentation(name).prepare(x, [0.0, 1.0, np.nan, 2.0, 3.0])
    if name in ("cmixup", "gmixup"):
        with pytest.raises(DataError, match="one member only"):
            as_augmentation(name).prepare(x, [0, 0, 0, 0, 1])


def test_what_is_named_is_cut_after_five() -> None:
    from rmixup.augment.labels import named

    assert named(np.arange(5)) == "0, 1, 2, 3, 4"
    assert named([3, 1, 4, 1, 5, 9]) == "3, 1, 4, 1, 5 and 1 more"


def test_labels_of_nobody_are_no_classes() -> None:
    empty = encode(np.array([], int))
    assert (len(empty), empty.n_classes, empty.task) == (0, 0, "classification")


def test_the_number_of_classes_is_kept_and_may_exceed_the_codes() -> None:
    labels = encode([0, 1, 2], n_classes=3).take(np.array([0, 1]))
    assert (labels.n_classes, labels.mixable().shape, len(labels)) == (3, (2, 3), 2)
    assert encode([0, 1], n_classes=5).n_classes == 5


def test_one_label_or_varying_targets_are_enough() -> None:
    require_usable(encode([1.0]))
    require_usable(encode([1.0, 2.0]))
    require_usable(encode([0, 1]))
    with pytest.raises(DataError, match="target 0, 1 has the same value in all 2 networks"):
        require_usable(encode(np.ones((2, 2))))
    with pytest.raises(DataError, match=r"one class only \(all 3 labels have code 1\)"):
        require_usable(encode([1, 1, 1]))


def test_tensors_that_ask_for_gradients_are_labels_too() -> None:
    asking = torch.tensor([0.5, 1.5], requires_grad=True)
    assert encode(asking).mixable().tolist() == [0.5, 1.5]


def test_plans_are_joined_run_after_run() -> None:
    one = Plan([0, 4], [1, 2], [0.25, 0.5], words=[7, 8], sizes=(5,))
    two = Plan([2], [0], 1.0, words=[9], sizes=(3,))
    both = Plan.join([one, two])
    assert both.i.tolist() == [0, 4, 7]
    assert both.j.tolist() == [1, 2, 5]
    assert both.lam.tolist() == [0.25, 0.5, 1.0]
    assert both.words.tolist() == [7, 8, 9]
    assert both.run.tolist() == [0, 0, 1]
    assert both.sizes == (5, 3)
    again = Plan.join([both, one])
    assert (again.run.tolist(), again.i.tolist(), again.sizes) == ([0, 0, 1, 2, 2], [0, 4, 7, 8, 12], (5, 3, 5))
    part = again[1:4]
    assert (part.i.tolist(), part.j.tolist(), part.words.tolist()) == ([4, 7, 8], [2, 5, 9], [8, 9, 7])
    assert (part.lam.tolist(), part.run.tolist(), part.sizes) == ([0.5, 1.0, 0.25], [0, 1, 2], (5, 3, 5))


def test_numbers_of_a_plan_stand_for_all_samples() -> None:
    plan = Plan([3, 4], 5, [0.0, 1.0], words=6, run=1)
    assert (plan.j.tolist(), plan.words.tolist(), plan.run.tolist()) == ([5, 5], [6, 6], [1, 1])
    assert [array.dtype for array in (plan.i, plan.j, plan.words, plan.run)] == [np.int64] * 4
    for wrong in ({"lam": -0.01}, {"lam": [0.5, 1.01]}, {"lam": np.nan}):
        with pytest.raises(DataError, match="must lie in"):
            Plan([0, 1], [1, 0], **wrong)
    for name in ("words", "run"):
        with pytest.raises(DataError, match=f"a plan's {name} must have one value a sample, 2 here"):
            Plan([0, 1], [1, 0], 0.5, **{name: [1, 2, 3]})
    with pytest.raises(DataError, match=r"i must have one value a sample, 2 here, but has shape \(1, 2\)"):
        Plan([[0, 1]], [1, 0], 0.5)
