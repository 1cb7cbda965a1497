"""Checks for people's own parts: does a backbone or an augmentation keep the rules that rmixup relies on?

Each check raises one AssertionError that names every rule broken.
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rmixup import keys, models
from rmixup.augment import Augmentation, Plan, Prepared, as_augmentation
from rmixup.errors import LeakageError

_BATCH = 4
_WORDS = (11, 12, 13)  # one a run of a stack
_Make = Callable[[int], models.Backbone]  # from a seed


def check_backbone(backbone: str | type[models.Backbone], sizes: Sequence[int] = (5, 37, 100), **options: Any) -> None:
    """Check a backbone: shapes, gradients, evaluation, dropout, initialisation, stacking.

    Parameters
    ----------
    backbone : name in `rmixup.models.BACKBONES`, or a class
    sizes : sequence of int
        Numbers of nodes to try.
    **options
        Handed to the class.

    Raises
    ------
    AssertionError
        Names every rule broken.

    Examples
    --------
    >>> check_backbone("mlp", sizes=(5,), hidden=(8,))
    """
    _report(_backbone_problems(backbone, sizes, options), f"backbone {getattr(backbone, '__name__', backbone)}")


def _report(problems: Iterator[str], what: str) -> None:
    found = list(problems)
    if found:
        raise AssertionError(f"{what} breaks {len(found)} rule(s):\n- " + "\n- ".join(found))


def _correlations(count: int, n: int) -> Tensor:
    """Random correlation matrices (count, n, n) of full rank, float32."""
    series = keys.generator(0, "check", count, n).standard_normal((count, n, 2 * n + 10))
    return torch.from_numpy(np.stack([np.corrcoef(one) for one in series])).float()


def _singular(n: int) -> Tensor:
    """Networks (3, n, n) where logarithms and divisions break: one direction only, all edges zero, a dropped node."""
    dropped = torch.ones(n, n)
    dropped[0, 1:] = dropped[1:, 0] = 0
    return torch.stack([torch.ones(n, n), torch.eye(n), dropped])


def _backbone_problems(
    backbone: str | type[models.Backbone], sizes: Sequence[int], options: dict[str, Any]
) -> Iterator[str]:
    for n in sizes:
        x = _correlations(_BATCH, n)
        for outputs in (1, 2, 3):
            shapes = partial(_shape_problems, outputs=outputs)
            for problem in _caught(shapes, partial(models.build, backbone, n, outputs, **options), x):
                yield f"{problem} (n={n}, n_outputs={outputs})"
        for rule in (_evaluation_problems, _training_problems, _initial_problems, _stack_problems):
            for problem in _caught(rule, partial(models.build, backbone, n, 2, **options), x):
                yield f"{problem} (n={n})"


def _caught(rule: Callable[[_Make, Tensor], Iterator[str]], make: _Make, x: Tensor) -> Iterator[str]:
    """The problems that a rule finds; an error is one, and does not hide those of other rules."""
    try:
        yield from rule(make, x)
    except Exception as error:
        yield f"{type(error).__name__}: {error}"


def _shape_problems(make: _Make, x: Tensor, outputs: int) -> Iterator[str]:
    model = make(0)
    for size in (1, len(x)):
        got = model(x[:size])
        if got.shape != (size, outputs):
            yield f"expected outputs of shape {(size, outputs)}, got {tuple(got.shape)}"
        if got.dtype != x.dtype:
            yield f"expected outputs of the networks' dtype {x.dtype}, got {got.dtype}"


def _evaluation_problems(make: _Make, x: Tensor) -> Iterator[str]:
    model = make(0)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    with torch.no_grad():
        whole = model(x)
        if not torch.equal(whole, model(x)):
            yield "evaluating twice gives different outputs: without a word there must be no dropout"
        alone = torch.cat([model(one[None]) for one in x])
        if not _close(alone, whole):
            yield "a network's output depends on the others in its batch"
        if not model(_singular(x.shape[-1])).isfinite().all():
            yield "outputs of singular networks are not finite"
    model(x, torch.tensor(_WORDS[0]))
    if any(not torch.equal(value, state[name]) for name, value in model.state_dict().items()):
        yield "forward changes the module's own state"


def _training_problems(make: _Make, x: Tensor) -> Iterator[str]:
    model, word = make(0), torch.tensor(_WORDS[0])
    before = torch.get_rng_state()
    outputs = model(x, word)
    if not torch.equal(before, torch.get_rng_state()):
        yield "forward draws from torch's global generator instead of the word"
    elif not torch.equal(outputs, model(x, word)):
        yield "the same word gives different outputs"
    outputs.square().sum().backward()
    for name, parameter in model.named_parameters():
        if parameter.grad is None or not parameter.grad.any():
            yield f"no gradient reaches {name}"
        elif not parameter.grad.isfinite().all():
            yield f"the gradient of {name} is not finite"


def _initial_problems(make: _Make, x: Tensor) -> Iterator[str]:
    with torch.no_grad():
        first, same, other = (make(seed)(x) for seed in (1, 1, 2))
    if not torch.equal(first, same):
        yield "the same seed gives different initial parameters"
    if torch.equal(first, other):
        yield "different seeds give the same initial parameters"


def _stack_problems(make: _Make, x: Tensor) -> Iterator[str]:
    if not make(0).stackable:
        return
    runs = [make(seed) for seed in range(len(_WORDS))]
    for words in (None, torch.tensor(_WORDS)):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                stacked = _stacked(runs, x, words)
        except Exception as error:
            yield f"cannot be stacked: {type(error).__name__}: {error}"
            return
        single = [_single(run, x, None if words is None else words[r]) for r, run in enumerate(runs)]
        for name, values in stacked.items():
            if not _close(values, torch.stack([one[name] for one in single])):
                mode = "evaluation" if words is None else "training"
                yield f"a stack's {name} differ from those of single runs in {mode}"


def _single(run: nn.Module, x: Tensor, word: Tensor | None) -> dict[str, Tensor]:
    """Outputs of one run and the gradient of each parameter."""
    outputs = run(x, word)
    gradients = torch.autograd.grad(outputs.square().mean(), list(run.parameters()))
    names = [f"gradients of {name}" for name, _ in run.named_parameters()]
    return {"outputs": outputs.detach(), **dict(zip(names, gradients, strict=True))}


def _stacked(runs: list[models.Backbone], x: Tensor, words: Tensor | None) -> dict[str, Tensor]:
    """The same of all runs at once, as the engine does it."""
    parameters, buffers = torch.func.stack_module_state(list[nn.Module](runs))

    def loss(parameters: dict[str, Tensor], buffers: dict[str, Tensor], word: Tensor | None) -> tuple[Tensor, Tensor]:
        outputs = torch.func.functional_call(runs[0], (parameters, buffers), (x, word))
        return outputs.square().mean(), outputs

    step = torch.func.grad(loss, has_aux=True)
    gradients, outputs = torch.func.vmap(step, in_dims=(0, 0, None if words is None else 0))(parameters, buffers, words)
    return {"outputs": outputs.detach(), **{f"gradients of {name}": value for name, value in gradients.items()}}


def _close(got: Tensor, expected: Tensor, tolerance: float = 1e-4) -> bool:
    """Equal to a share of the largest value: single precision, sums in another order."""
    return bool((got - expected).abs().max() <= tolerance * expected.abs().max().clamp(min=1e-6))


# --- augmentations ---------------------------------------------------------------------------------------------

_TRAINING, _NODES = 12, 6
_KEY = (3, "check")


def check_augmentation(augmentation: str | Augmentation, symmetric: bool = True) -> None:
    """Check an augmentation: plans from keys, pure application, labels, no leak, joined runs.

    Parameters
    ----------
    augmentation : name in `rmixup.augment.METHODS`, or an `Augmentation`
        It is tried on small correlation matrices of full rank, with two classes, two groups and with numbers.
    symmetric : bool
        Whether its networks must be symmetric (some published masks are not).

    Raises
    ------
    AssertionError
        Names every rule broken.

    Examples
    --------
    >>> check_augmentation("rmixup")
    """
    method = as_augmentation(augmentation)
    _report(_augmentation_problems(method, symmetric), f"augmentation {method.name}")


def _augmentation_problems(method: Augmentation, symmetric: bool) -> Iterator[str]:
    x64 = _correlations(_TRAINING, _NODES).double()
    x64 = 0.5 * (x64 + x64.mT)
    codes = torch.arange(_TRAINING) % 2
    numbers = keys.generator(0, "check").standard_normal(_TRAINING)
    for y, kind in ((codes, "classes"), (torch.from_numpy(numbers), "numbers")):
        try:
            method.prepare(x64, y, groups=codes)
        except Exception as error:
            yield f"cannot be prepared with {kind}: {type(error).__name__}: {error}"
            continue
        for x in (x64, x64.float()):
            prepared = method.prepare(x, y, groups=codes)
            for rule in (_result_problems, _plan_problems, _purity_problems):
                for problem in rule(prepared, x, symmetric):
                    yield f"{problem} ({kind}, {str(x.dtype).removeprefix('torch.')})"
        yield from _leak_problems(method, x64, y, codes)


def _result_problems(prepared: Prepared, x: Tensor, symmetric: bool) -> Iterator[str]:
    for size in (1, 3, len(x)):
        made, labels = prepared.apply(prepared.draw(np.arange(size), _KEY))
        if made.shape != (size, *x.shape[1:]):
            yield f"expected networks of shape {(size, *x.shape[1:])}, got {tuple(made.shape)}"
        elif symmetric and not torch.equal(made, made.mT):
            yield "networks are not symmetric"
        if made.dtype != x.dtype or labels.dtype != x.dtype:
            yield f"expected the dtype {x.dtype}, got {made.dtype} and labels of {labels.dtype}"
        if not made.isfinite().all():
            yield "networks are not finite"
        if made.requires_grad:
            yield "networks carry gradients"
        if labels.ndim == 2 and not _close(labels.sum(1), torch.ones(size, dtype=x.dtype)):
            yield "class probabilities do not sum to one"
        low, high = prepared.y.amin(0), prepared.y.amax(0)
        if not ((labels >= low - 1e-6) & (labels <= high + 1e-6)).all():
            yield "labels lie outside the range of the training labels"


def _plan_problems(prepared: Prepared, x: Tensor, symmetric: bool) -> Iterator[str]:
    everyone = np.arange(len(x))
    plan, again = prepared.draw(everyone, _KEY), prepared.draw(everyone, _KEY)
    if not _same_plan(plan, again):
        yield "the same key gives different plans"
    if _same_plan(plan, prepared.draw(everyone, (4, "check"))):
        yield "another key gives the same plan"
    if not _same_plan(prepared.draw(everyone[::-1], _KEY)[::-1], plan):
        yield "the order of a batch changes who is mixed with whom"
    if not np.array_equal(plan.i, everyone):
        yield "a plan's i are not the positions asked for"
    if not _same_plan(pickle.loads(pickle.dumps(prepared)).draw(everyone, _KEY), plan):  # noqa: S301 -- our own bytes
        yield "a pickled copy draws another plan"
    for outside in (-1, len(x)):
        try:
            prepared.draw([outside], _KEY)
        except LeakageError:
            continue
        yield f"position {outside}, outside the training set, is not refused with a LeakageError"


def _same_plan(a: Plan, b: Plan) -> bool:
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in ("i", "j", "lam", "words"))


def _purity_problems(prepared: Prepared, x: Tensor, symmetric: bool) -> Iterator[str]:
    given, plan = x.clone(), prepared.draw(np.arange(len(x)), _KEY)
    chance = _global_chance()
    first = prepared.apply(plan)
    second = prepared.apply(plan)
    if not all(torch.equal(a, b) for a, b in zip(first, second, strict=True)):
        yield "applying a plan twice gives different results"
    if not torch.equal(x, given):
        yield "the networks handed in were changed"
    if chance != _global_chance():
        yield "chance is drawn from a global generator instead of the plan's words"
    joined = Prepared.join([prepared, prepared]).apply(Plan.join([plan, plan]))
    if not all(_close(two, torch.cat([one, one])) for two, one in zip(joined, first, strict=True)):
        yield "joined runs give other results than each alone"


def _global_chance() -> tuple[bytes, str]:
    """The state of the global generators, which nobody may use."""
    return torch.get_rng_state().numpy().tobytes(), str(np.random.get_state(legacy=False))  # noqa: NPY002


def _leak_problems(method: Augmentation, x: Tensor, y: Tensor, groups: Tensor) -> Iterator[str]:
    """Other rows filled with NaN and their labels turned round must change nothing."""
    train, other = np.arange(2, _TRAINING), torch.arange(2)
    poisoned, turned = x.clone(), y.clone()
    poisoned[other] = torch.nan
    turned[other] = turned[other.flip(0)]
    results = []
    for networks, labels in ((x, y), (poisoned, turned)):
        prepared = method.prepare_many(networks, labels, groups, splits=[train])[0]
        results.append((*prepared.apply(prepared.draw(np.arange(len(train)), _KEY)), prepared.bank.values, prepared.y))
    if not all(torch.equal(a, b) for a, b in zip(*results, strict=True)):
        yield "networks outside the training rows have an influence"
