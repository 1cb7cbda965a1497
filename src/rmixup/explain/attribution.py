"""How much of a model's output each edge accounts for, person by person, and which way it pushes.

Maps are packed as in `rmixup.explain.maps`. May not be here: refits, tables, names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from rmixup.errors import DataError
from rmixup.explain.maps import Floats, pack
from rmixup.train.baselines import BASELINES, Baseline, Tangent
from rmixup.train.model import Model, is_baseline

Function = Callable[[Tensor], Tensor]

METHODS = ("auto", "weights", "pattern", "integrated-gradients")
AUTO = {"linear": "weights", "tangent": "pattern"}
# Points of the path from the baseline to a person; doubled until the attributions add up this well, at most so often.
FIRST_STEPS, MOST_STEPS, TOLERANCE = 16, 128, 0.01
# People whose path is followed at once, and on whom the number of points is chosen.
_AT_ONCE, _TRIED = 32, 32


class Attributions(NamedTuple):
    """What N people's attributions come to; K outputs are explained.

    Attributes
    ----------
    slopes : (K, p) mean change of the output with the edge, over people and along their paths
    absolute : (K, p) mean absolute attribution
    residual : mean |sum of attributions - (f(x) - f(baseline))| over mean |f(x) - f(baseline)|
    outputs : (N, K) f(x)
    steps : points of each path; 1 where slopes are the same everywhere
    """

    slopes: Floats
    absolute: Floats
    residual: float
    outputs: Floats
    steps: int


def method_of(model: Model, method: str = "auto") -> str:
    """The method that "auto" stands for: weights for linear, the pattern for tangent, else integrated gradients.

    Weights of `tangent` in the space of the edges tell how the model cancels noise more than where the labels differ:
    of five simulated cohorts of 200 people and 30 nodes, the tenth of the edges that differed most was found with an
    AUROC of 0.94 by patterns and of 0.57 by weights (those of `linear`: 0.94 and 0.75).
    """
    if method not in METHODS:
        raise DataError(f"method must be one of {', '.join(METHODS)}, but is {method!r}")
    if method == "auto":
        return AUTO.get(str(model.backbone), "integrated-gradients")
    if method == "weights" and not is_baseline(model.backbone):
        raise DataError(
            f"method 'weights' is for {', '.join(BASELINES)}, but the backbone {model.backbone!r} is not linear: "
            "take method 'integrated-gradients'"
        )
    return method


def contrast(outputs: Tensor, task: str) -> Tensor:
    """What is explained (..., K) of outputs (..., C).

    Two classes: the log odds of the second against the first. More classes: each one's logit less their mean, which
    is all that a softmax sees. Numbers: themselves.

    >>> contrast(torch.tensor([[1.0, 3.0]]), "classification")
    tensor([[2.]])
    """
    if task == "regression":
        return outputs
    return outputs[..., 1:] - outputs[..., :1] if outputs.shape[-1] == 2 else outputs - outputs.mean(-1, keepdim=True)


def function_of(model: Model, device: torch.device | str | None = None) -> tuple[Function, torch.device, torch.dtype]:
    """The differentiable function (B, n, n) -> (B, K) that is explained, where it computes, and in which dtype."""
    forward, where, dtype = model._forward(device)

    def function(x: Tensor) -> Tensor:
        raw = forward(x)
        if model.scaler is not None:
            raw = raw * model.scaler.scale.to(raw) + model.scaler.mean.to(raw)
        return contrast(raw, model.task)

    return function, where, dtype


def attribute(
    model: Model, x: Floats, baseline: Floats, method: str = "auto", device: torch.device | str | None = None
) -> Attributions:
    """Attribute a model's outputs to the edges of people.

    Parameters
    ----------
    model : Model
    x : (N, n, n) networks as the model takes them
    baseline : (n, n) what they are compared with, such as the mean network
    method : one of `METHODS`
        "weights": the slopes of a linear model in the edges, of `tangent` at the reference of its tangent space.
        "integrated-gradients": slopes averaged along the straight line from the baseline to each person, so that
        the attributions add up to f(x) - f(baseline) however the model bends (Sundararajan et al. 2017).
        "pattern" is a map beside attributions, not one of them: here it means weights where there are any.
    device : device or None

    >>> import rmixup
    >>> from rmixup.train.cohort import Settings, train
    >>> ds = rmixup.simulate(n_subjects=40, n_nodes=5)
    >>> found = attribute(train(ds, Settings("linear")).model, ds.matrices, ds.matrices.mean(0))
    >>> found.slopes.shape, found.residual < 1e-9
    ((1, 15), True)
    """
    by_weights = is_baseline(model.backbone) and method_of(model, method) != "integrated-gradients"
    if by_weights:
        return _by_weights(model, x, baseline)
    return _by_paths(model, x, baseline, device)


# ---- slopes that are the same for everybody


def _by_weights(model: Model, x: Floats, baseline: Floats) -> Attributions:
    slopes = weights(loaded(model), model.state["slopes"], model.task)
    function, _, dtype = function_of(model)
    with torch.no_grad():
        outputs = function(torch.tensor(x, dtype=dtype)).numpy()
        start = function(torch.tensor(baseline[None], dtype=dtype)).numpy()
    moved = pack(x) - pack(baseline)
    absolute = np.abs(slopes) * np.abs(moved).mean(0)
    return Attributions(slopes, absolute, _residual(moved @ slopes.T, outputs - start), outputs, 1)


def loaded(model: Model) -> Baseline:
    """The fitted baseline of a model."""
    return BASELINES[str(model.backbone)](**model.options).load(model.state)


def weights(baseline: Baseline, slopes: Tensor, task: str) -> Floats:
    """Slopes of standardised features (features, outputs) as slopes of edges (K, p).

    For `tangent` those at its reference G: there log(G^-½ S G^-½) is G^-½ (S - G) G^-½ to first order, so that
    slopes W in the tangent space are G^-½ W G^-½ in the space of the edges.
    """
    raw = contrast(slopes / baseline._scale[:, None], task).T
    if not isinstance(baseline, Tangent):
        return _with_diagonal(raw.numpy())
    root = baseline._whitening
    n = len(root)
    full = torch.zeros(len(raw), n, n, dtype=raw.dtype)
    rows, columns = torch.triu_indices(n, n, 1)
    full[:, rows, columns] = raw[:, n:] / 2
    full = full + full.mT + torch.diag_embed(raw[:, :n])
    return _each_once(root @ full @ root)


def _with_diagonal(off_diagonal: Floats) -> Floats:
    """Slopes (K, p) of slopes above the diagonal (K, n(n - 1)/2): linear models do not look at the diagonal."""
    n = round((1 + (1 + 8 * off_diagonal.shape[1]) ** 0.5) / 2)
    full = np.zeros((len(off_diagonal), n, n))
    rows, columns = np.triu_indices(n, 1)
    full[:, rows, columns] = off_diagonal
    return pack(full)


def _each_once(gradients: Tensor) -> Floats:
    """Slopes (..., p) of edges as one variable, of gradients (..., n, n) by the two entries that hold each."""
    both = gradients + gradients.mT - torch.diag_embed(gradients.diagonal(dim1=-2, dim2=-1))
    return pack(both.double().cpu().numpy())


# ---- slopes along paths


def _by_paths(model: Model, x: Floats, baseline: Floats, device: torch.device | str | None) -> Attributions:
    steps = FIRST_STEPS
    while steps < MOST_STEPS and _along(model, x[:_TRIED], baseline, steps, device).residual > TOLERANCE:
        steps *= 2
    return _along(model, x, baseline, steps, device)


def _along(model: Model, x: Floats, baseline: Floats, steps: int, device: torch.device | str | None) -> Attributions:
    """Attributions by paths of so many points."""
    function, where, dtype = function_of(model, device)
    start = torch.tensor(baseline, device=where, dtype=dtype)
    from_baseline = pack(baseline)
    slopes, absolute = np.zeros(()), np.zeros(())
    sums, outputs = [], []
    for first in range(0, len(x), _AT_ONCE):
        part = x[first : first + _AT_ONCE]
        end = torch.tensor(part, device=where, dtype=dtype)
        with torch.no_grad():
            outputs.append(function(end).double().cpu().numpy())
        own = _each_once(_mean_gradient(function, start, end, steps))  # (K, people, p)
        attributions = own * (pack(part) - from_baseline)
        slopes, absolute = slopes + own.sum(1), absolute + np.abs(attributions).sum(1)
        sums.append(attributions.sum(-1).T)
    with torch.no_grad():
        level = function(start[None]).double().cpu().numpy()
    found = np.concatenate(outputs)
    residual = _residual(np.concatenate(sums), found - level)
    return Attributions(slopes / len(x), absolute / len(x), residual, found, steps)


def _mean_gradient(function: Function, start: Tensor, end: Tensor, steps: int) -> Tensor:
    """(K, B, n, n) the mean of the gradients at the middles of `steps` equal parts of the way from start to end."""
    total = torch.zeros((), device=end.device, dtype=end.dtype)
    for k in range(steps):
        total = total + _gradients(function, start + (k + 0.5) / steps * (end - start))
    return total / steps


def _gradients(function: Function, x: Tensor) -> Tensor:
    """(K, B, n, n) the gradient of each output at each network."""
    x = x.detach().requires_grad_()
    outputs = function(x).sum(0)
    return torch.stack([torch.autograd.grad(one, x, retain_graph=True)[0] for one in outputs])


def _residual(sums: Floats, differences: Floats) -> float:
    size = np.abs(differences).mean()
    return float(np.abs(sums - differences).mean() / size) if size > 0 else 0.0
