"""Series to matrices, one person at a time: correlation, covariance, Ledoit-Wolf, OAS, partial correlation.

Nothing here looks at two people at once, so nothing can leak. One product X'X a person is what costs: shrinkage follows
from it and from the energy of each frame in closed form (Ledoit & Wolf 2004; Chen et al. 2010). Every pass over a
person's series beside it shows in the time, so each is made once, by the thread that has the person.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from threadpoolctl import ThreadpoolController

from rmixup.data.labels import shown
from rmixup.errors import DataError

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
T = TypeVar("T")

MIN_FRAMES = 3
# A node does not vary when it ranges over no more than so many roundings of its largest value.
CONSTANT_ROUNDINGS = 8
CONSTANT = ("error", "zero", "nan")
# Sums of squares between these lost nothing to the ends of float64's range.
SAFE = (1e-250, 1e250)
_NOT_FINITE = "hold NaN or infinity"


def connectivity(
    series: Sequence[Any] | Array,
    kind: str = "correlation",
    *,
    constant: str = "error",
    dtype: npt.DTypeLike = np.float64,
    subjects: Sequence[str] | Array | None = None,
    nodes: Sequence[str] | Array | None = None,
) -> Array:
    """Matrices (N, n, n) from N series (t_i, n), whose lengths may differ. Computed in float64.

    Parameters
    ----------
    series : sequence of (t_i, n) arrays, or (N, t, n) array
        At least three frames each; non-finite values are refused.
    kind : str
        One of `KINDS`:
        "correlation" (Pearson), "covariance" (divided by t),
        "ledoit-wolf", "oas" (series standardised, covariance shrunk, brought to unit diagonal: nilearn's
        `ConnectivityMeasure(kind="correlation")` with that estimator),
        "partial" (partial correlation from the Ledoit-Wolf covariance, as nilearn's "partial correlation").
    constant : "error", "zero" or "nan"
        What becomes of a node that does not vary: an error that names all of them, an unconnected node, or NaN in
        its row and column.
    dtype : float32 or float64
        Of the result.
    subjects, nodes : optional
        Names for messages.

    >>> x = np.array([[1.0, 2.0], [2.0, 4.0], [3.0, 7.0]])
    >>> connectivity([x]).round(4)
    array([[[1.    , 0.9934],
            [0.9934, 1.    ]]])
    """
    if kind not in KINDS:
        raise DataError(f"no connectivity is named {kind!r}; there are: {', '.join(KINDS)}")
    if constant not in CONSTANT:
        raise DataError(f"constant must be one of {', '.join(CONSTANT)}, not {constant!r}")
    parts = [np.asarray(x) for x in series]
    names = [f"number {k}" for k in range(len(parts))] if subjects is None else [str(name) for name in subjects]
    n, still = _check(parts, names)
    if constant == "error":
        _refuse_constant(still, names, nodes)
    matrices = np.empty((len(parts), n, n), dtype=dtype)

    def fill(rows: range) -> None:
        # Two scratch arrays a thread: fresh memory for every step was measured to cost as much as the arithmetic.
        frames, square = np.empty((max(map(len, parts)), n)), np.empty((n, n))
        for row in rows:
            out = matrices[row] if matrices.dtype == np.float64 else square
            _fill(out, _centre(parts[row], still[row], frames), kind, names[row])
            if constant == "nan":
                out[still[row], :] = out[:, still[row]] = np.nan
            matrices[row] = out

    _share(fill, len(parts))
    return matrices


def _fill(out: Floats, centred: Floats, kind: str, name: str) -> None:
    try:
        KINDS[kind](centred, out)
    except np.linalg.LinAlgError as error:
        raise DataError(
            f"subject {name}: the covariance of {centred.shape[0]} frames of {centred.shape[1]} nodes cannot be "
            f'inverted for kind "{kind}": leave out nodes that copy each other, or use another kind'
        ) from error


def _centre(x: Array, still: npt.NDArray[np.bool_], frames: Floats) -> Floats:
    """The series without its mean, in scratch; exactly 0 where a node does not vary."""
    centred = frames[: len(x)]
    np.subtract(x, x.mean(axis=0, dtype=np.float64), out=centred)
    centred[:, still] = 0.0
    return centred


def _each(function: Callable[[Array], T], parts: list[Array]) -> list[T]:
    """What a function without matrix products says of each series."""
    said: list[Any] = [None] * len(parts)

    def ask(rows: range) -> None:
        for row in rows:
            said[row] = function(parts[row])

    _spread(ask, len(parts), _threads(len(parts)))
    return said


def _share(work: Callable[[range], None], count: int) -> None:
    """Share rows 0 … count − 1 among threads, each with BLAS on one thread.

    One person's product is too small to be shared: two threads on it were measured slower than one.
    """
    threads = _threads(count)  # asked before BLAS is limited
    with _blas().limit(limits=1):
        _spread(work, count, threads)


def _spread(work: Callable[[range], None], count: int, threads: int) -> None:
    if threads == 1:
        work(range(count))
        return
    with ThreadPoolExecutor(threads) as workers:
        list(workers.map(work, (range(first, count, threads) for first in range(threads))))


def _threads(count: int) -> int:
    """As many as BLAS may use."""
    return min(count, max([1, *(int(pool["num_threads"]) for pool in _blas().info())]))


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")


# ---- the kinds: each fills `out` (n, n) from a centred series (t, n), which it may overwrite


def _pearson(centred: Floats, out: Floats) -> None:
    _to_unit_length(centred)
    np.matmul(centred.T, centred, out=out)
    _unit_diagonal(out)


def _covariance(centred: Floats, out: Floats) -> None:
    np.matmul(centred.T, centred, out=out)
    out /= len(centred)


def _ledoit_wolf(centred: Floats, out: Floats) -> None:
    _shrunk_correlation(centred, out, _ledoit_wolf_amount)


def _oas(centred: Floats, out: Floats) -> None:
    _shrunk_correlation(centred, out, _oas_amount)


def _partial(centred: Floats, out: Floats) -> None:
    mean, shrinkage = _product(centred, out, _ledoit_wolf_amount)
    out *= 1.0 - shrinkage
    out.flat[:: len(out) + 1] += shrinkage * mean
    out[:] = _inverse(out)
    _to_correlation(out)
    np.negative(out, out=out)
    np.fill_diagonal(out, 1.0)


KINDS: dict[str, Callable[[Floats, Floats], None]] = {
    "correlation": _pearson,
    "covariance": _covariance,
    "ledoit-wolf": _ledoit_wolf,
    "oas": _oas,
    "partial": _partial,
}


def regularized_kind(kind: str, regularize: str | None) -> tuple[str, str | None]:
    """The kind to compute and what remains to be done to the matrices.

    >>> regularized_kind("correlation", "oas"), regularized_kind("correlation", "shrink=0.05")
    (('oas', None), ('correlation', 'shrink=0.05'))
    """
    if regularize not in {"ledoit-wolf", "oas"}:
        return kind, regularize
    if kind not in {"correlation", regularize}:
        raise DataError(f'{regularize} regularises a correlation; it cannot be used with kind "{kind}"')
    return regularize, None


# ---- their parts, in place


def _to_unit_length(centred: Floats) -> None:
    """Each node's series with length 1, or 0 where it does not vary."""
    squared = np.einsum("tn,tn->n", centred, centred)
    if not _is_safe(squared):
        squared = _within_range(centred)
    centred *= 1.0 / np.sqrt(np.where(squared > 0, squared, 1.0))


def _is_safe(squared: Floats) -> bool:
    return bool(SAFE[0] <= squared.min(initial=1.0) and squared.max(initial=1.0) <= SAFE[1])


def _within_range(centred: Floats) -> Floats:
    """Squared lengths after dividing by the largest value: series in any unit neither overflow nor vanish."""
    largest = np.abs(centred).max(axis=0)
    centred /= np.where(largest > 0, largest, 1.0)
    return np.asarray(np.einsum("tn,tn->n", centred, centred))


def _unit_diagonal(matrix: Floats) -> None:
    """Rounding may leave [−1, 1] by a bit or two."""
    np.clip(matrix, -1.0, 1.0, out=matrix)
    np.fill_diagonal(matrix, 1.0)


def _to_correlation(covariance: Floats) -> None:
    variance = covariance.diagonal()
    scale = 1.0 / np.sqrt(np.where(variance > 0, variance, 1.0))
    covariance *= scale[:, None]
    covariance *= scale
    _unit_diagonal(covariance)


# The product X'X, the mean of its diagonal, X -> the weight of the identity, 0 to 1. It does not change when all of X
# is multiplied by a number, so X need not be brought to the scale in which others compute it.
Amount = Callable[[Floats, float, Floats], float]


def _shrunk_correlation(centred: Floats, out: Floats, amount: Amount) -> None:
    """The correlation of the shrunk covariance of standardised series.

    Nodes that vary all have one variance, before and after, so it is the correlation times a number.
    """
    _to_unit_length(centred)
    mean, shrinkage = _product(centred, out, amount)
    variance = 1 - shrinkage + shrinkage * mean
    out *= (1 - shrinkage) / variance if variance > 0 else 1.0
    _unit_diagonal(out)


def _product(centred: Floats, out: Floats, amount: Amount) -> tuple[float, float]:
    """X'X in `out`; the mean of its diagonal, and how much it is to be shrunk."""
    np.matmul(centred.T, centred, out=out)
    n = len(out)
    mean = float(np.trace(out)) / n
    return mean, amount(out, mean, centred) if n > 1 else 0.0


def _ledoit_wolf_amount(product: Floats, mean: float, centred: Floats) -> float:
    t, n = centred.shape
    energy = np.einsum("tn,tn->t", centred, centred)  # the sum over node pairs of products of squares, frame by frame
    norm = float(np.vdot(product, product))
    beta = (float(energy @ energy) * t - norm) / (n * t)
    delta = norm / n - mean**2
    beta = min(beta, delta)
    return 0.0 if beta == 0 else beta / delta


def _oas_amount(product: Floats, mean: float, centred: Floats) -> float:
    t, n = centred.shape
    alpha = float(np.vdot(product, product)) / n**2
    denominator = (t + 1) * (alpha - mean**2 / n)
    return 1.0 if denominator == 0 else min((alpha + mean**2) / denominator, 1.0)


def _inverse(covariance: Floats) -> Floats:
    """The inverse; Cholesky first, because it notices a matrix that is not positive definite."""
    np.linalg.cholesky(covariance)
    inverse = np.linalg.inv(covariance)
    return np.asarray((inverse + inverse.T) / 2)


# ---- checks at the door


def check_series(series: Sequence[Array], names: list[str], nodes: Iterable[str] | None, constant: str) -> None:
    """Refuse what `connectivity` would refuse, without computing anything.

    >>> check_series([np.eye(3), np.ones((3, 3))], ["s1", "s2"], None, "error")
    Traceback (most recent call last):
    rmixup.errors.DataError: 1 of 2 series have nodes that do not vary, ... (s2: nodes 0, 1, 2): ...
    """
    parts = [np.asarray(x) for x in series]
    _, still = _check(parts, names)
    if constant == "error":
        _refuse_constant(still, names, nodes)


def _check(parts: list[Array], names: list[str]) -> tuple[int, list[npt.NDArray[np.bool_]]]:
    """The number of nodes, and whose do not vary, once everything about the series was found right."""
    if not parts or len(parts) != len(names):
        raise DataError(f"expected series and a name for each, got {len(parts)} series and {len(names)} names")
    problems: list[str] = []
    flat = [f"{name} {x.shape}" for name, x in zip(names, parts, strict=True) if x.ndim != 2]
    if flat:
        raise DataError(
            f"each series must have shape (t, n); not so: {shown(flat)}; give a list of series, or (N, t, n)"
        )
    n = int(parts[0].shape[1])
    sure = _each(_surely_varies, parts)  # and so finite: of most people, one pass tells all
    unsure = [(name, x) for name, x, one in zip(names, parts, sure, strict=True) if not one]
    checks: dict[str, Callable[[Array], bool]] = {
        f"have other than the first one's {n} nodes": lambda x: x.shape[1] != n,
        "do not hold real numbers": lambda x: x.dtype.kind not in "fiub",
        f"have fewer than {MIN_FRAMES} frames": lambda x: len(x) < MIN_FRAMES,
        _NOT_FINITE: lambda x: x.dtype.kind == "f" and not bool(np.isfinite(x).all()),
    }
    for what, is_wrong in checks.items():
        concerned = unsure if what == _NOT_FINITE else zip(names, parts, strict=True)
        wrong = [name for name, x in concerned if is_wrong(x)]
        if wrong:
            problems.append(f"{len(wrong)} of {len(parts)} series {what} (subjects {shown(wrong)})")
    if problems:
        raise DataError("; ".join(problems) + ": correct these series, or leave these people out")
    return n, [np.zeros(n, np.bool_) if one else constant_nodes(x) for x, one in zip(parts, sure, strict=True)]


def constant_nodes(x: Array) -> npt.NDArray[np.bool_]:
    """(n,) which nodes do not vary."""
    low, high = x.min(axis=0).astype(np.float64), x.max(axis=0).astype(np.float64)
    rounding = CONSTANT_ROUNDINGS * np.finfo(np.float64).eps * np.maximum(np.abs(low), np.abs(high))
    still: npt.NDArray[np.bool_] = high - low <= rounding
    return still


def _surely_varies(x: Array) -> bool:
    """Whether two frames tell that every node varies, and nothing is infinite or NaN; False says nothing.

    It takes a sixth of looking at every value and every range.
    """
    if x.dtype.kind != "f":
        return False
    squared = np.einsum("tn,tn->n", x, x).astype(np.float64)
    if not _is_safe(squared):
        return False
    # No value is larger than the root of the sum of squares; twice, for what the sum rounds.
    rounding = 2 * CONSTANT_ROUNDINGS * np.finfo(np.float64).eps * np.sqrt(squared)
    return bool((np.abs(x[0] - x[len(x) // 2]) > rounding).all())


_still = constant_nodes  # the name under which the doctor imports it


def _refuse_constant(still: list[npt.NDArray[np.bool_]], names: list[str], nodes: Iterable[str] | None) -> None:
    affected = [k for k, mask in enumerate(still) if mask.any()]
    if not affected:
        return
    labels = np.arange(len(still[0])) if nodes is None else np.asarray(list(nodes))
    words = [f"{names[k]}: nodes {shown(labels[still[k]], 3)}" for k in affected]
    raise DataError(
        f"{len(affected)} of {len(still)} series have nodes that do not vary, so their correlation is undefined "
        f'({shown(words, 4)}): leave out these people or nodes, or ask for constant="zero" or "nan"'
    )
