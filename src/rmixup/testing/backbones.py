"""`check_backbone`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from rmixup import models
from rmixup.testing.common import close, correlations, report

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
    report(_backbone_problems(backbone, sizes, options), f"backbone {getattr(backbone, '__name__', backbone)}")


def _singular(n: int) -> Tensor:
    """Networks (3, n, n) where logarithms and divisions break: one direction only, all edges zero, a dropped node."""
    dropped = torch.ones(n, n)
    dropped[0, 1:] = dropped[1:, 0] = 0
    return torch.stack([torch.ones(n, n), torch.eye(n), dropped])


def _backbone_problems(
    backbone: str | type[models.Backbone], sizes: Sequence[int], options: dict[str, Any]
) -> Iterator[str]:
    for n in sizes:
        x = correlations(_BATCH, n)
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
        if not close(alone, whole):
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
            if not close(values, torch.stack([one[name] for one in single])):
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
