"""What was made: do mixed networks look like real ones, and do they fit their labels?

Plain numbers, one a made network, for whoever tests and draws them. Sizes and distances say how a mix differs from its
parents and from real people. `label_distances` asks whether a mix is the network that its label promises, with the
controls without which the answer means nothing: a log-Euclidean mix is smaller than a straight one, and a smaller
network is closer to anybody. May not be here: statistics, drawing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from rmixup import keys
from rmixup.augment.bank import matrices_of
from rmixup.augment.plan import Floats, Integers, Plan
from rmixup.errors import DataError
from rmixup.spd import correlation
from rmixup.spd.metrics import METRICS, float64

# Float64 matrices worked on at once.
CHUNK_BYTES = 2**23
# Draws of four people at once, of which about one in six rises by label.
DRAWS = 200
# The penalty of the linear classifier, as a share of the mean squared length of its features.
RIDGE = 0.01

Distance = Callable[[Tensor, Tensor], Tensor]


# --- sizes -----------------------------------------------------------------------------------------------------


class Sizes(NamedTuple):
    """The size of networks (N, n, n), each (N,) float64.

    Where a network is not positive definite, `log_det` is minus infinity and `condition` infinity.
    """

    log_det: Floats
    trace: Floats
    condition: Floats
    diagonal: Floats


def sizes(S: Any) -> Sizes:
    """Measure log determinant, trace, condition number and mean diagonal of networks (N, n, n).

    >>> sizes(np.diag([1.0, 4.0])[None]).condition.tolist(), sizes(np.diag([1.0, 0.0])[None]).log_det.tolist()
    ([4.0], [-inf])
    """
    networks = _networks(S)
    w = torch.cat([torch.linalg.eigvalsh(some) for some in _parts(networks)])
    known = w[:, 0] > networks.shape[-1] * torch.finfo(w.dtype).eps * w[:, -1]
    log_det = torch.where(known, w.clamp(min=torch.finfo(w.dtype).tiny).log().sum(-1), -torch.inf)
    condition = torch.where(known, w[:, -1] / w[:, 0], torch.inf)
    diagonal = networks.diagonal(dim1=1, dim2=2)
    return Sizes(*(values.cpu().numpy() for values in (log_det, diagonal.sum(1), condition, diagonal.mean(1))))


class Drift(NamedTuple):
    """How made networks differ from their parents, each (B,) float64.

    `swelling`: log determinant above the larger of the two parents'. `log_det` and `diagonal`: log determinant and
    mean diagonal minus the λ-mix of the parents'. `condition`: as a multiple of the worse parent's.
    """

    swelling: Floats
    log_det: Floats
    diagonal: Floats
    condition: Floats


def drift(made: Any, parents: Any, plan: Plan) -> Drift:
    """Compare made networks (B, n, n) with the parents (N, n, n) that a plan names.

    Undefined (NaN) where a parent or the made network has no determinant.

    >>> parents = np.stack([np.diag([1.0, 4.0]), np.diag([4.0, 1.0])])
    >>> halfway = Plan(i=[0], j=[1], lam=0.5)
    >>> drift(parents.mean(0)[None], parents, halfway).swelling.round(3), drift(parents[:1], parents, halfway).swelling
    (array([0.446]), array([0.]))
    """
    whole, own = sizes(parents), sizes(made)
    if len(plan) != len(own.trace):
        raise DataError(f"each made network has one place in the plan, but there are {len(own.trace)} and {len(plan)}")
    with np.errstate(invalid="ignore"):
        return Drift(
            swelling=own.log_det - np.maximum(whole.log_det[plan.i], whole.log_det[plan.j]),
            log_det=own.log_det - _mixed(whole.log_det, plan),
            diagonal=own.diagonal - _mixed(whole.diagonal, plan),
            condition=own.condition / np.maximum(whole.condition[plan.i], whole.condition[plan.j]),
        )


def _mixed(values: Floats, plan: Plan) -> Floats:
    return np.asarray((1 - plan.lam) * values[plan.i] + plan.lam * values[plan.j])


# --- distance to real people -----------------------------------------------------------------------------------


def nearest(networks: Any, real: Any, apart: Any = None, metric: str = "euclid") -> Floats:
    """Distance from each network (B, n, n) to the nearest real one (N, n, n), (B,) float64.

    Parameters
    ----------
    networks, real : arrays or tensors
    apart : (B,) or (B, k) integers or None
        Real networks that do not count for each: its parents, or itself.
    metric : name in `rmixup.spd.METRICS`

    >>> real = np.stack([np.eye(2), 3 * np.eye(2), 9 * np.eye(2)])
    >>> nearest(real, real, apart=np.arange(3)).round(3)
    array([2.828, 2.828, 8.485])
    """
    x, others = _networks(networks), _networks(real)
    left_out = None if apart is None else torch.from_numpy(np.asarray(apart, np.int64).reshape(len(x), -1))
    found = []
    for first in range(0, len(x), _at_once(x)):
        some = slice(first, first + _at_once(x))
        far = _all_distances(x[some], others, metric)
        if left_out is not None:
            far.scatter_(1, left_out[some].to(far.device), torch.inf)
        found.append(far.amin(1))
    return np.asarray(torch.cat(found).cpu().numpy(), np.float64)


def _all_distances(x: Tensor, others: Tensor, metric: str) -> Tensor:
    geometry = METRICS[metric]
    if geometry.chart is None:
        return torch.stack([geometry.distance(one.expand_as(others), others) for one in x])
    return torch.cdist(geometry.chart(x).flatten(1), geometry.chart(others).flatten(1))


# --- whether they still tell their site ------------------------------------------------------------------------


def groups_told(known: Any, known_groups: Any, networks: Any, ridge: float = RIDGE) -> Any:
    """The group that a linear classifier of edges gives each network (B, n, n).

    The classifier (least squares to one-hot groups, with a penalty) is fitted to known networks (N, n, n), which should
    be of other people than the networks and their parents.

    >>> known = np.stack([np.full((3, 3), v) + (1 - v) * np.eye(3) for v in (0.1, 0.2, 0.7, 0.8)])
    >>> groups_told(known, ["a", "a", "b", "b"], known[[3, 0]]).tolist()
    ['b', 'a']
    """
    names, codes = np.unique(np.asarray(known_groups), return_inverse=True)
    x, new = _edges(_networks(known)), _edges(_networks(networks))
    centre, targets = x.mean(0), torch.eye(len(names), dtype=x.dtype)[torch.from_numpy(codes.reshape(-1))]
    x, new = x - centre, new - centre
    # Fewer people than edges: the dual problem is the smaller one.
    gram = x @ x.T
    gram.diagonal().add_(ridge * gram.diagonal().mean())
    weights = torch.linalg.solve(gram, targets - targets.mean(0))
    return names[(new @ (x.T @ weights) + targets.mean(0)).argmax(1).numpy()]


def _edges(S: Tensor) -> Tensor:
    row, column = torch.triu_indices(S.shape[-1], S.shape[-1], 1)
    return S[:, row, column].cpu()


# --- whether they fit their labels -----------------------------------------------------------------------------


class Triples(NamedTuple):
    """People sorted by label: `lam` (T,) is the weight of `high` at which the mixed label is that of `middle`.

    `other` is a further person at random, whose label plays no part.
    """

    low: Integers
    middle: Integers
    high: Integers
    other: Integers
    lam: Floats


def sorted_triples(y: Any, count: int = 1000, seed: int = 0) -> Triples:
    """Draw triples of people whose labels rise strictly, and a fourth person for each.

    >>> triples = sorted_triples([10.0, 20.0, 40.0, 80.0], count=3)
    >>> y = np.array([10.0, 20.0, 40.0, 80.0])
    >>> bool(np.allclose((1 - triples.lam) * y[triples.low] + triples.lam * y[triples.high], y[triples.middle]))
    True
    """
    labels = np.asarray(y, np.float64)
    if labels.ndim != 1 or not np.isfinite(labels).all():
        raise DataError(f"triples are sorted by one number a person without gaps, but y has shape {labels.shape}")
    if len(labels) < 4 or len(np.unique(labels)) < 3:
        raise DataError(
            f"triples need at least four people and three different labels, but there are {len(labels)} people with "
            f"{len(np.unique(labels))}: choose a label that varies, such as an age"
        )
    rng = keys.generator(seed, "triples", len(labels), count)
    drawn: list[Integers] = []
    while len(drawn) < count:
        drawn += _rising(labels, rng, DRAWS)
    found = np.array(drawn[:count]).T
    low, middle, high = labels[found[:3]]
    return Triples(found[0], found[1], found[2], found[3], (middle - low) / (high - low))


def _rising(labels: Floats, rng: np.random.Generator, count: int) -> list[Integers]:
    """Some of `count` draws of four different people, of whom the first three have different labels."""
    people = rng.integers(0, len(labels), (count, 4))
    order = np.argsort(labels[people[:, :3]], axis=1, kind="stable")
    people[:, :3] = np.take_along_axis(people[:, :3], order, axis=1)
    rises = (np.diff(labels[people[:, :3]], axis=1) > 0).all(axis=1)
    alone = (people[:, :3] != people[:, 3:]).all(axis=1)
    return list(people[rises & alone])


def _linear(low: Tensor, high: Tensor, lam: Tensor) -> Tensor:
    return torch.lerp(low, high, lam)


def _log_euclidean(low: Tensor, high: Tensor, lam: Tensor) -> Tensor:
    return METRICS["logeuclid"].geodesic(low, high, lam[:, 0, 0])


def _linear_scaled(low: Tensor, high: Tensor, lam: Tensor) -> Tensor:
    straight, geodesic = _linear(low, high, lam), _log_euclidean(low, high, lam)
    return straight * (_trace(geodesic) / _trace(straight))[:, None, None]


def _log_euclidean_unit(low: Tensor, high: Tensor, lam: Tensor) -> Tensor:
    return correlation.unit_diagonal(_log_euclidean(low, high, lam))


def _trace(S: Tensor) -> Tensor:
    return S.diagonal(dim1=-2, dim2=-1).sum(-1)


# Mixes of two people at λ (T, 1, 1), by name. The last two are controls: the straight line made as small as the
# geodesic, and the geodesic made as large as people are.
MIXES: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "linear": _linear,
    "log-Euclidean": _log_euclidean,
    "linear, scaled": _linear_scaled,
    "log-Euclidean, unit diagonal": _log_euclidean_unit,
}
# The control that knows neither parents nor label: the mean of everybody but the person compared with.
MEAN = "mean of all others"


def _l1(A: Tensor, B: Tensor) -> Tensor:
    return (A - B).abs().sum((-2, -1))


def _l1_edges(A: Tensor, B: Tensor) -> Tensor:
    return _l1(A, B) - (A - B).diagonal(dim1=-2, dim2=-1).abs().sum(-1)


def _one_minus_r(A: Tensor, B: Tensor) -> Tensor:
    """One minus the correlation over edges, which does not see size."""
    a, b = (edges - edges.mean(1, keepdim=True) for edges in (_edges(A), _edges(B)))
    r: Tensor = (a * b).sum(1) / (torch.linalg.vector_norm(a, dim=1) * torch.linalg.vector_norm(b, dim=1))
    return 1 - r


# Distances between networks (T, n, n), by name: the published one, the same without the diagonal, one that does not
# see size, and that of each geometry.
DISTANCES: dict[str, Distance] = {
    "L1": _l1,
    "L1, edges only": _l1_edges,
    "1 - r over edges": _one_minus_r,
    **{name: metric.distance for name, metric in METRICS.items()},
}


def label_distances(S: Any, triples: Triples, to: Integers) -> dict[str, dict[str, Floats]]:
    """How far the mixes of the outer two of each triple are from some networks.

    Parameters
    ----------
    S : (N, n, n) positive definite networks
    triples : Triples
    to : (T,) integers
        `triples.middle`, whose label the mixes have; or `triples.other`, as a control: what holds for a person of any
        label says nothing about labels.

    Returns
    -------
    By mix (`MIXES`, and the mean of all other networks), by distance (`DISTANCES`): (T,) float64.

    >>> S = np.stack([k * np.eye(2) for k in (1.0, 2.0, 4.0, 8.0)])
    >>> triples = Triples(*np.array([[0], [1], [2], [3]]), lam=np.array([0.5]))
    >>> found = label_distances(S, triples, triples.middle)
    >>> found["log-Euclidean"]["L1"].round(9).tolist(), found["linear"]["L1"].tolist()
    ([0.0], [1.0])
    """
    networks = _networks(S)
    total = networks.sum(0)
    found: dict[str, dict[str, list[Tensor]]] = {mix: {name: [] for name in DISTANCES} for mix in (*MIXES, MEAN)}
    for first in range(0, len(to), _at_once(networks)):
        some = slice(first, first + _at_once(networks))
        low, high, target = (networks[torch.from_numpy(np.asarray(at)[some])] for at in (triples.low, triples.high, to))
        lam = torch.from_numpy(triples.lam[some])[:, None, None].to(networks)
        made = {mix: make(low, high, lam) for mix, make in MIXES.items()} | {
            MEAN: (total - target) / (len(networks) - 1)
        }
        for mix, name in ((mix, name) for mix in made for name in DISTANCES):
            found[mix][name].append(DISTANCES[name](made[mix], target).cpu())
    return {mix: {name: torch.cat(values).numpy() for name, values in of.items()} for mix, of in found.items()}


# ---------------------------------------------------------------------------------------------------------------


def _networks(S: Any) -> Tensor:
    return float64(matrices_of(S))


def _at_once(S: Tensor) -> int:
    return max(1, CHUNK_BYTES // (8 * S.shape[-1] ** 2))


def _parts(S: Tensor) -> tuple[Tensor, ...]:
    return torch.split(S, _at_once(S))
