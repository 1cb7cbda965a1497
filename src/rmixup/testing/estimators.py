"""`check_network_estimator`: what scikit-learn's `check_estimator` would ask, on networks instead of tables.

`check_estimator` tries every estimator on a table (N, p) and says nothing about one that takes (N, n, n). Here, those
of its checks that need no data are run as they are, and the rules behind the others are asked of networks.
"""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rmixup import keys
from rmixup.testing.common import correlations, global_chance, report

Array = npt.NDArray[Any]
Rule = Callable[["Case"], Iterator[str]]

_PEOPLE, _NODES = 24, 5
# Two ways to the same number may differ by rounding in single precision.
_RTOL, _ATOL = 1e-4, 1e-5
# Those of scikit-learn's checks that need no data; a version that lacks one skips it.
SKLEARN_CHECKS = (
    "check_do_not_raise_errors_in_init_or_set_param",
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_estimator_tags_renamed",
    "check_get_params_invariance",
    "check_mixin_order",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_set_params",
    "check_valid_tag_types",
)


class Case(NamedTuple):
    """An estimator, not fitted, and what it is tried on."""

    estimator: Any
    x: Array  # (N, n, n) float64 correlations
    y: Array  # (N,) class names, or numbers
    classifies: bool

    def fitted(self, **given: Any) -> Any:
        """A fresh copy, fitted; `given` takes the place of x and y."""
        from sklearn.base import clone

        return clone(self.estimator).fit(**{"X": self.x, "y": self.y, **given})

    def outputs(self, fitted: Any, x: Array) -> Array:
        """Probabilities where there are any, else predictions."""
        answer = fitted.predict_proba(x) if hasattr(fitted, "predict_proba") else fitted.predict(x)
        return np.asarray(answer)


def check_network_estimator(estimator: Any, expected_failures: Mapping[str, str] | None = None) -> None:
    """Check a classifier or a regressor of networks (N, n, n) by scikit-learn's rules.

    Parameters
    ----------
    estimator : scikit-learn estimator, not fitted
        With settings that make it quick, and a `random_state` of its own where it has one: it is fitted some forty
        times to 24 networks of 5 nodes.
    expected_failures : dict of rule -> reason, optional
        Names in `RULES` of what the estimator breaks on purpose. A rule that is listed and holds is reported, too.

    Raises
    ------
    AssertionError
        Names every rule broken, and how.

    Examples
    --------
    >>> from rmixup import NetworkClassifier
    >>> check_network_estimator(NetworkClassifier("linear", random_state=0))
    """
    excused = dict(expected_failures or {})
    unknown = sorted(set(excused) - set(RULES))
    if unknown:
        raise ValueError(f"expected_failures names {', '.join(unknown)}; the rules are {', '.join(RULES)}")
    report(_problems(estimator, excused), f"estimator {type(estimator).__name__}")


def _problems(estimator: Any, excused: Mapping[str, str]) -> Iterator[str]:
    case = _case(estimator)
    for name, rule in RULES.items():
        found = list(_told(rule, case))
        if name not in excused:
            yield from (f"{name}: {problem}" for problem in found)
        elif not found:
            yield f"{name}: is expected to fail ({excused[name]}), but holds"


def _case(estimator: Any) -> Case:
    from sklearn.base import is_classifier

    x = correlations(_PEOPLE, _NODES).double().numpy()
    x = 0.5 * (x + x.transpose(0, 2, 1))
    # Not in alphabetic order, so that codes in order of appearance show.
    names = np.array(["b", "a", "c"])[np.arange(_PEOPLE) % 3]
    numbers = keys.generator(0, "check").standard_normal(_PEOPLE)
    classifies = is_classifier(estimator)
    return Case(estimator, x, names if classifies else numbers, classifies)


def _told(rule: Rule, case: Case) -> Iterator[str]:
    """The problems that a rule finds; an error is one."""
    try:
        yield from rule(case)
    except Exception as error:
        yield f"{type(error).__name__}: {error}"


def _same(a: Array, b: Array) -> bool:
    return bool(np.allclose(a, b, rtol=_RTOL, atol=_ATOL))


# ---- the rules: each takes a case and yields what is wrong


def _parameters(case: Case) -> Iterator[str]:
    from sklearn.base import clone
    from sklearn.utils import estimator_checks

    for name in SKLEARN_CHECKS:
        check = getattr(estimator_checks, name, None)
        if check is None:
            continue
        try:
            check(type(case.estimator).__name__, clone(case.estimator))
        except Exception as error:
            yield f"scikit-learn's {name}: {type(error).__name__}: {error}"


def _fitting(case: Case) -> Iterator[str]:
    from sklearn.base import clone

    estimator, x, y = clone(case.estimator), case.x.copy(), case.y.copy()
    parameters, before = repr(estimator.get_params()), set(vars(estimator))
    if estimator.fit(x, y) is not estimator:
        yield "fit does not return the estimator itself"
    if repr(estimator.get_params()) != parameters:
        yield "fit changes parameters"
    if not (np.array_equal(x, case.x) and np.array_equal(y, case.y)):
        yield "fit changes the networks or the labels handed in"
    loose = sorted(name for name in set(vars(estimator)) - before if not name.startswith("_") and name[-1] != "_")
    if loose:
        yield f"fit sets {', '.join(loose)}: what is learned ends in an underscore, what is private begins with one"


def _being_unfitted(case: Case) -> Iterator[str]:
    from sklearn.base import clone
    from sklearn.exceptions import NotFittedError

    for method in ("predict", "predict_proba"):
        if not hasattr(case.estimator, method):
            continue
        try:
            getattr(clone(case.estimator), method)(case.x)
        except NotFittedError:
            continue
        except Exception as error:
            yield f"{method} before fit raises {type(error).__name__} instead of NotFittedError"
        else:
            yield f"{method} before fit raises nothing"


def _repeating(case: Case) -> Iterator[str]:
    if getattr(case.estimator, "random_state", 0) is None:
        yield "random_state is None: give a whole number, so that a result can be compared with another"
        return
    chance = global_chance()
    first = case.fitted()
    if chance != global_chance():
        yield "chance is drawn from a global generator"
    outputs = case.outputs(first, case.x)
    np.random.default_rng()  # another generator of its own is nobody's business
    if not np.array_equal(case.outputs(case.fitted(), case.x), outputs):
        yield "two copies fitted to the same networks predict differently"
    other = case.fitted(X=case.x[::-1, ::-1, ::-1].copy())
    if not np.array_equal(case.outputs(other.fit(case.x, case.y), case.x), outputs):
        yield "fitting again does not forget what was learned before"


def _predicting(case: Case) -> Iterator[str]:
    fitted, x = case.fitted(), case.x.copy()
    outputs = case.outputs(fitted, x)
    predicted = np.asarray(fitted.predict(x))
    if predicted.shape != case.y.shape:
        yield f"predict gives shape {predicted.shape}, expected {case.y.shape}"
    if not np.array_equal(x, case.x):
        yield "predicting changes the networks handed in"
    if not np.array_equal(case.outputs(fitted, x), outputs):
        yield "predicting twice gives different results"
    order = keys.generator(0, "order").permutation(len(x))
    if not _same(case.outputs(fitted, x[order]), outputs[order]):
        yield "the order of the networks changes their predictions"
    alone = np.concatenate([case.outputs(fitted, one[None]) for one in x])
    if not _same(alone, outputs):
        yield "a network's prediction depends on the others it is predicted with"
    if not np.isfinite(fitted.score(x, case.y)):
        yield "score is not finite"


def _labels(case: Case) -> Iterator[str]:
    if not case.classifies:
        yield from _numbers(case)
        return
    codes = np.unique(case.y, return_inverse=True)[1]
    expected = case.outputs(case.fitted(), case.x)
    kinds = {"text": case.y, "objects": case.y.astype(object), "whole numbers": np.array([-3, 5, 70])[codes]}
    for kind, y in {**kinds, "a list": case.y.tolist()}.items():
        fitted = case.fitted(y=y)
        if list(fitted.classes_) != sorted(set(np.asarray(y).tolist())):
            yield f"classes_ are {list(fitted.classes_)}, expected the sorted labels ({kind})"
            continue
        predicted = np.asarray(fitted.predict(case.x))
        if not set(predicted.tolist()) <= set(np.asarray(y).tolist()):
            yield f"predict gives {sorted(set(predicted.tolist()))}, which are not labels of fit ({kind})"
        outputs = case.outputs(fitted, case.x)
        if hasattr(fitted, "predict_proba"):
            yield from (f"{problem} ({kind})" for problem in _probabilities(outputs, predicted, fitted.classes_))
            if not _same(outputs, expected):
                yield f"the names of the classes change the probabilities ({kind})"
    two = case.fitted(y=np.array(["yes", "no"])[codes % 2])
    if list(two.classes_) != ["no", "yes"]:
        yield f"of two classes, classes_ are {list(two.classes_)}, expected ['no', 'yes']"


def _probabilities(outputs: Array, predicted: Array, classes: Array) -> Iterator[str]:
    if outputs.shape != (len(predicted), len(classes)):
        yield f"predict_proba gives shape {outputs.shape}, expected {(len(predicted), len(classes))}"
        return
    if not (_same(outputs.sum(axis=1), np.ones(len(outputs))) and (outputs >= 0).all()):
        yield "probabilities are below zero or do not sum to one"
    if not np.array_equal(np.asarray(classes)[outputs.argmax(axis=1)], predicted):
        yield "predict is not the most probable class: the columns are not in the order of classes_"


def _numbers(case: Case) -> Iterator[str]:
    shifted = np.asarray(case.fitted(y=1000 + 10 * case.y).predict(case.x))
    if not 960 < shifted.mean() < 1040:
        yield f"targets around 1000 are predicted around {shifted.mean():.4g}: not in their units"
    if not np.isfinite(case.fitted(y=np.arange(len(case.x))).predict(case.x)).all():
        yield "whole numbers as targets give predictions that are not finite"


def _reading(case: Case) -> Iterator[str]:
    """Networks in any memory: read-only maps (as joblib hands them to processes), other orders, single precision."""
    expected = case.outputs(case.fitted(), case.x)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.npy"
        np.save(path, case.x)
        forms = {
            "a read-only memory map": np.load(path, mmap_mode="r"),
            "column-major memory": np.asfortranarray(case.x),
            "every second of a larger array": np.repeat(case.x, 2, axis=0)[::2],
            "float32": case.x.astype(np.float32),
        }
        for form, x in forms.items():
            outputs = case.outputs(case.fitted(X=x), x)
            if not np.allclose(outputs, expected, rtol=1e-3, atol=1e-3):
                yield f"{form} gives other predictions"
        del forms, x  # a map that is open keeps its file on some systems


def _weights(case: Case) -> Iterator[str]:
    from sklearn.utils.validation import has_fit_parameter

    if not has_fit_parameter(case.estimator, "sample_weight"):
        return
    expected = case.outputs(case.fitted(), case.x)
    ones = np.ones(len(case.x))
    for kind, weights in {"ones": ones, "a list of ones": ones.tolist(), "None": None}.items():
        if not _same(case.outputs(case.fitted(sample_weight=weights), case.x), expected):
            yield f"sample_weight of {kind} is not the same as none"
    uneven = np.where(np.arange(len(case.x)) % 3, 1.0, 100.0)
    kept = uneven.copy()
    if np.allclose(case.outputs(case.fitted(sample_weight=uneven), case.x), expected, rtol=1e-6, atol=1e-7):
        yield "sample_weight changes nothing"
    if not np.array_equal(uneven, kept):
        yield "fit changes sample_weight"
    yield from _not_refused({"sample_weight of another length": lambda: case.fitted(sample_weight=ones[:-1])})


def _refusing(case: Case) -> Iterator[str]:
    x, y, fitted = case.x, case.y, case.fitted()

    def spoilt(value: float) -> Array:
        other = x.copy()
        other[1, 2, 3] = value
        return other

    calls: dict[str, Callable[[], Any]] = {
        "a table (N, p) in fit": lambda: case.fitted(X=x.reshape(len(x), -1)),
        "one network without others (n, n) in fit": lambda: case.fitted(X=x[0]),
        "matrices that are not square in fit": lambda: case.fitted(X=x[:, :, 1:]),
        "no networks in fit": lambda: case.fitted(X=x[:0], y=y[:0]),
        "complex numbers in fit": lambda: case.fitted(X=x.astype(complex)),
        "y=None in fit": lambda: case.fitted(y=None),
        "fewer labels than networks in fit": lambda: case.fitted(y=y[:-1]),
        "a table (N, p) in predict": lambda: fitted.predict(x.reshape(len(x), -1)),
        "networks of fewer nodes in predict": lambda: fitted.predict(x[:, 1:, 1:]),
    }
    for name, value in (("NaN", np.nan), ("infinity", np.inf), ("an entry unlike its mirror entry", 0.987)):
        calls[f"{name} in fit"] = partial(lambda x: case.fitted(X=x), spoilt(value))
        calls[f"{name} in predict"] = partial(fitted.predict, spoilt(value))
    if case.classifies:
        calls["one class only"] = lambda: case.fitted(y=np.repeat("a", len(x)))
        calls["numbers as classes"] = lambda: case.fitted(y=np.linspace(0, 1, len(x)))
    else:
        calls["NaN among the targets"] = lambda: case.fitted(y=np.where(np.arange(len(x)) == 3, np.nan, y))
    yield from _not_refused(calls)


def _not_refused(calls: Mapping[str, Callable[[], Any]]) -> Iterator[str]:
    for what, call in calls.items():
        try:
            call()
        except ValueError:
            continue
        except Exception as error:
            yield f"{what} raises {type(error).__name__} ({error}), expected a ValueError"
        else:
            yield f"{what} is not refused with a ValueError"


def _keeping(case: Case) -> Iterator[str]:
    from sklearn.base import clone

    fitted = case.fitted()
    expected = case.outputs(fitted, case.x)
    copy = pickle.loads(pickle.dumps(fitted))  # noqa: S301 -- our own bytes
    if not np.array_equal(case.outputs(copy, case.x), expected):
        yield "a pickled copy predicts differently"
    learned = [name for name in vars(clone(fitted)) if name.endswith("_") and not name.startswith("_")]
    if learned:
        yield f"clone keeps what was learned: {', '.join(sorted(learned))}"


def _composing(case: Case) -> Iterator[str]:
    from sklearn.model_selection import KFold, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    pipe = make_pipeline(FunctionTransformer(), case.estimator)
    folds = KFold(2, shuffle=True, random_state=0)
    through = cross_val_score(pipe, case.x, case.y, cv=folds, error_score="raise")
    alone = cross_val_score(case.estimator, case.x, case.y, cv=folds, error_score="raise")
    if not np.allclose(through, alone, equal_nan=False):
        yield f"scores of folds are {alone.tolist()}, through a pipeline {through.tolist()}"


RULES: dict[str, Rule] = {
    "parameters": _parameters,
    "fitting": _fitting,
    "being-unfitted": _being_unfitted,
    "repeating": _repeating,
    "predicting": _predicting,
    "labels": _labels,
    "reading": _reading,
    "weights": _weights,
    "refusing": _refusing,
    "keeping": _keeping,
    "composing": _composing,
}
