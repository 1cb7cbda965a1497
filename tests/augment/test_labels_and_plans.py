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
