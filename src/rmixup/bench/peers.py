"""Against what a user would pick instead: the same job, on the same data, in the same run.

Each job has two rows or more, theirs and ours; `ratio` is how many times less time a row takes than the first of its
job. `error` is the largest relative difference between what ours and theirs compute, where both compute the same. On
a machine with a GPU the steps and loops run there, the rest on its CPU. May not be here: what cannot be told apart
from a strawman; every peer does what its own documentation shows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from rmixup.augment import RMixup
from rmixup.bench import data
from rmixup.bench.engine import BATCH, STEPS, cohort, linear_mix, plain_loop, stack_of
from rmixup.bench.spd import networks
from rmixup.bench.timing import side_by_side
from rmixup.data.connectivity import connectivity
from rmixup.errors import DataError
from rmixup.train.baselines import Tangent
from rmixup.train.feed import Problem

Row = dict[str, Any]
Calls = dict[str, Callable[[], object]]

SIZES, QUICK_SIZES = (100, 200), (32,)
PEOPLE, QUICK_PEOPLE = 100, 24
SECONDS, QUICK_SECONDS = 2.0, 0.05
ROUNDS = 3
# What the appendix of the paper puts in the place of eigenvalues that are not positive.
EIGENVALUE = 1e-8


def rows(quick: bool = False) -> list[Row]:
    """Every job at every size."""
    return [
        row
        for n in (QUICK_SIZES if quick else SIZES)
        for row in table(n, QUICK_PEOPLE if quick else PEOPLE, QUICK_SECONDS if quick else SECONDS)
    ]


def table(n: int, people: int, seconds: float) -> list[Row]:
    """The rows of one size."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    steps = STEPS[device.type]
    problem = cohort(n, BATCH * steps + 40)
    S = networks(people, n)
    here = torch.device("cpu")
    jobs: list[tuple[str, int, int, torch.device, Calls, float | None]] = [
        ("training step with R-Mixup", BATCH, steps, device, _loops(problem, steps, device, appendix=True), None),
        ("training step with linear mixup", BATCH, steps, device, _loops(problem, steps, device, appendix=False), None),
        ("resampling", people, 1, here, *_resampling(S)),
        ("linear mixing of a batch", BATCH, 1, here, *_linear(S[:BATCH].float())),
        ("connectivity, Ledoit-Wolf", people, 1, here, *_connectivity(n, people)),
        ("tangent space and logistic regression", people, 1, here, *_tangent(S)),
    ]
    return [row for job in jobs for row in _rows_of(n, job, seconds)]


def _rows_of(n: int, job: tuple[str, int, int, torch.device, Calls, float | None], seconds: float) -> list[Row]:
    what, batch, steps, device, calls, error = job
    taken = side_by_side(calls, device, seconds, ROUNDS)
    first = next(iter(calls))
    return [
        {
            "method": f"{what}: {name}",
            "n": n,
            "batch": batch,
            "seconds": taken[name] / steps,
            "ratio": taken[first] / taken[name],
            "error": error if name.startswith("rmixup") else None,
        }
        for name in calls
    ]


# ---- training


def _loops(problem: Problem, steps: int, device: torch.device, appendix: bool) -> Calls:
    method = "rmixup" if appendix else "vmixup"
    mix = _appendix_step if appendix else linear_mix
    theirs = "BNT-style loop, the paper's appendix step" if appendix else "plain loop, mixup written out"
    return {
        theirs: plain_loop(problem, steps, device, mix),
        f"rmixup engine, {method}": stack_of(problem, [method], steps, device).epoch,
    }


def _appendix_step(a: Tensor, b: Tensor, lam: float) -> Tensor:
    """As the paper's appendix computes it at each step: two logs and one exponential by eigen-decompositions."""
    return _by_eigen(torch.lerp(_by_eigen(a, _log), _by_eigen(b, _log), lam), torch.exp)


def _log(w: Tensor) -> Tensor:
    return torch.where(w <= 0, EIGENVALUE, w).log()


def _by_eigen(S: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
    w, V = torch.linalg.eigh(S)
    result: Tensor = (V * function(w)[..., None, :]) @ V.mT
    return result


# ---- one call each


def _resampling(S: Tensor) -> tuple[Calls, float]:
    """As many new networks as there are, on geodesics between random pairs: from the matrices to the mixes."""
    try:
        from pyriemann.geometry.geodesic import geodesic_logeuclid
    except ImportError as error:
        raise DataError("this bench compares with pyriemann, which is not here: pip install pyriemann") from error
    prepared = RMixup(per="pair").prepare(S.numpy(), np.arange(len(S)) % 2)
    plan = prepared.draw(np.arange(len(S)), 0)
    a, b = S.numpy(), S.numpy()[plan.j]

    def theirs() -> Any:
        return geodesic_logeuclid(a, b, plan.lam)

    def ours() -> Any:
        return RMixup(per="pair").prepare(a, np.arange(len(a)) % 2).apply(plan)[0]

    again = {"rmixup, logs kept": lambda: prepared.apply(plan)[0]}
    return {"pyRiemann geodesic": theirs, "rmixup": ours, **again}, _difference(ours().numpy(), theirs())


def _linear(x: Tensor) -> tuple[Calls, float]:
    """What timm's Mixup and braindecode's do to a batch, written out: neither is needed for two lines."""
    target = torch.arange(len(x)) % 2
    prepared = RMixup(metric="euclid", published=True).prepare(x, target.numpy())
    plan = prepared.draw(np.arange(len(x)), 0)
    batch = prepared.upload(plan)
    lam = float(plan.lam[0])

    def theirs() -> Tensor:
        one_hot = functional.one_hot(target, 2).float()
        one_hot.mul_(1 - lam).add_(functional.one_hot(target[batch.j], 2).float().mul_(lam))
        return x * (1 - lam) + x[batch.j] * lam

    calls: Calls = {
        "mixing as timm and braindecode do, written out": theirs,
        "rmixup": lambda: prepared.mix(batch)[0],
    }
    return calls, _difference(prepared.mix(batch)[0].numpy(), theirs().numpy())


def _connectivity(n: int, people: int) -> tuple[Calls, float]:
    series = data.cohort(people, n)
    theirs = data.nilearn_call("ledoit-wolf", series)

    def ours() -> Any:
        return connectivity(series, "ledoit-wolf")

    return {"nilearn ConnectivityMeasure": theirs, "rmixup": ours}, _difference(ours(), theirs())


def _tangent(S: Tensor) -> tuple[Calls, float | None]:
    """Tangent space at the training mean, standardised, logistic regression; fitted and applied once."""
    from pyriemann.tangentspace import TangentSpace
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    codes = torch.arange(len(S)) % 2
    x, y = S.numpy(), codes.numpy()
    pipeline = make_pipeline(
        TangentSpace(metric="logeuclid", tsupdate=False), StandardScaler(), LogisticRegression(max_iter=2000)
    )
    calls: Calls = {
        "scikit-learn pipeline with pyRiemann's TangentSpace": lambda: pipeline.fit(x, y).predict_proba(x),
        "rmixup tangent baseline": lambda: Tangent(C=1.0).fit(S, codes).predict(S).softmax(-1),
    }
    return calls, None


def _difference(ours: Any, theirs: Any) -> float:
    """The largest relative Frobenius difference of two stacks."""
    gap = np.linalg.norm(np.asarray(ours, np.float64) - theirs, axis=(1, 2))
    return float((gap / np.linalg.norm(theirs, axis=(1, 2))).max())
