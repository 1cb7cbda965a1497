"""The data behind a study looked at again, and what mixing makes of it, as plain NumPy arrays.

For reports, which may not load torch; here is where it is loaded, when asked. May not be here: drawing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rmixup import keys
from rmixup.data.networks import Networks
from rmixup.errors import DataError, RMixupError
from rmixup.study.project import Study

if TYPE_CHECKING:
    from rmixup.data.doctor import Report

Floats = NDArray[np.float64]
STRAIGHT, GEODESIC = "euclid", "logeuclid"
# Along these the determinant is followed.
FOLLOWED = (STRAIGHT, "wasserstein", "chol", GEODESIC)
PAIRS = 32
# Only data that this work was run on can be opened: no other module is loaded because a folder names it.
_WORK = "rmixup.study.work"
_POINTS = 21
# Where an effect was put -> in words, and who has an easier life there.
_GEOMETRIES = {
    "logeuclid": ("the matrix logarithm", "what works on logarithms: rmixup, tangent and the tangent baseline"),
    "euclid": ("the correlations", "what works on the correlations themselves: vmixup and the linear baseline"),
}


@dataclass(frozen=True)
class Made:
    """Two networks of a data set and what lies halfway between them.

    Parameters
    ----------
    labels : what the two networks are labelled.
    ends : (2, n, n) the two networks as they are mixed.
    middles : geometry (`STRAIGHT`, `GEODESIC`) -> (n, n), halfway between the two.
    t : (T,) positions from the first to the second.
    log_det : geometry of `FOLLOWED` -> (T,) logarithms of the determinant at `t`.
    diagonals : geometry -> (P,) mean diagonal of the network halfway between P pairs.
    growth : geometry -> (P,) log determinant halfway less the mean of both ends, of the same pairs.
    repaired : what was done to give every network a logarithm; "" where nothing was needed.
    """

    labels: tuple[str, str]
    ends: Floats
    middles: Mapping[str, Floats]
    t: Floats
    log_det: Mapping[str, Floats]
    diagonals: Mapping[str, Floats]
    growth: Mapping[str, Floats]
    repaired: str


def mixes(ds: Networks, seed: int = 0, pairs: int = PAIRS) -> Made:
    """Mix some pairs of a data set halfway, along a straight line and along the log-Euclidean geodesic.

    Parameters
    ----------
    ds : two networks or more, with matrices; pairs are of different classes where there are classes.
    seed : of the choice of pairs.
    pairs : how many.

    >>> from rmixup.data.readers.simulate import simulate
    >>> made = mixes(simulate(n_subjects=10, n_nodes=6, n_frames=40), pairs=3)
    >>> made.ends.shape, made.labels, bool((made.growth["euclid"] > 0).all())
    ((2, 6, 6), ('class-1', 'class-2'), True)
    """
    if len(ds) < 2 or not ds.has_matrices:
        raise DataError(f"expected two networks or more, with matrices, to mix; got {ds!r}")
    first, second = _pairs(ds, seed, pairs)
    a, b, repaired = _positive(_matrices(ds, first), _matrices(ds, second))
    middles = {name: _between(a, b, name) for name in (STRAIGHT, GEODESIC)}
    ends = (_log_det(a) + _log_det(b)) / 2
    t = np.linspace(0, 1, _POINTS)
    return Made(
        labels=(_label(ds, first[0]), _label(ds, second[0])),
        ends=np.stack([a[0], b[0]]),
        middles={name: middle[0] for name, middle in middles.items()},
        t=t,
        log_det={name: np.array([_log_det(_between(a[0], b[0], name, at)) for at in t]) for name in FOLLOWED},
        diagonals={name: np.diagonal(m, axis1=1, axis2=2).mean(1) for name, m in middles.items()},
        growth={name: _log_det(m) - ends for name, m in middles.items()},
        repaired=repaired,
    )


def _pairs(ds: Networks, seed: int, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows of the networks to mix: `count` pairs, of different classes where there are two classes or more."""
    rng = keys.generator(seed, "samples", len(ds))
    codes = ds.y if ds.classes is not None and ds.y is not None and len(np.unique(ds.y)) > 1 else np.arange(len(ds))
    first = rng.integers(0, len(ds), count)
    second = np.array([rng.choice(np.flatnonzero(codes != codes[i])) for i in first])
    swap = codes[first] > codes[second]
    return np.where(swap, second, first), np.where(swap, first, second)


def _label(ds: Networks, row: np.int64) -> str:
    """The class of a network, or its number; "" where there is none."""
    if ds.y is None:
        return ""
    return ", ".join(f"{x:g}" for x in np.atleast_1d(ds.y[row])) if ds.classes is None else ds.classes[ds.y[row]]


def _matrices(ds: Networks, rows: NDArray[np.int64]) -> Floats:
    """(P, n, n): only these rows are brought into memory."""
    wanted, back = np.unique(rows, return_inverse=True)
    found = ds[wanted].matrices
    assert found is not None
    return np.asarray(found, dtype=np.float64)[back]


def _positive(a: Floats, b: Floats) -> tuple[Floats, Floats, str]:
    """Both stacks with the paper's floor where any matrix has no logarithm as it is, and what that changed."""
    from rmixup import spd
    from rmixup.spd.repair import SPDNESS_TOLERANCE

    both = np.concatenate([a, b])
    if bool((np.linalg.eigvalsh(both) > SPDNESS_TOLERANCE).all()):
        return a, b, ""
    both, what = spd.regularize(both, how="floor")
    return both[: len(a)], both[len(a) :], str(what)


def _between(a: Floats, b: Floats, metric: str, t: float = 0.5) -> Floats:
    from rmixup import spd

    return np.asarray(spd.geodesic(a, b, t, metric=metric), dtype=np.float64)


def _log_det(S: Floats) -> Floats:
    """Logarithm of the determinant of (..., n, n)."""
    return np.asarray(np.linalg.slogdet(S)[1], dtype=np.float64)


@dataclass(frozen=True)
class Examined:
    """The data behind a study, looked at again; `why_not` says why it could not be, where it could not.

    Parameters
    ----------
    health : what the doctor found in the networks as the study's cells get them.
    made : see `mixes`; None where there is nothing to mix.
    simulated : see `simulated`; "" where people were measured.
    """

    health: Report | None
    made: Made | None
    why_not: str = ""
    simulated: str = ""


def examine(study: Study) -> Examined:
    """Open the data of a study again, make sure that it is the same, and look at it."""
    if study.work != _WORK:
        return Examined(None, None, f"the study was run by {study.work}, not on data that rmixup opens")
    try:
        return _examine(study)
    except (RMixupError, OSError) as error:
        return Examined(None, None, " ".join(str(error).split()))


def _examine(study: Study) -> Examined:
    from rmixup.data.doctor import check
    from rmixup.study import material

    data = study.spec.data
    if material.identity(data) != study.data.sha256:
        return Examined(None, None, f"{data.path or data.preset} does not hold what the study was run on any more")
    ds = material.networks(material.choose_nodes(material.loaded(data), data.nodes), data, None, None)
    return Examined(check(ds), mixes(ds) if len(ds) > 1 else None, simulated=simulated(ds))


def simulated(ds: Networks) -> str:
    """That nobody was measured, and what was put in instead; "" for data that say nothing of the kind.

    >>> from rmixup.data.readers.simulate import simulate
    >>> simulated(simulate(n_subjects=20, n_nodes=6, n_frames=40)).split(":")[0]
    'These data are simulated, nobody was measured'
    """
    put_in = next((step["parameters"] for step in ds.provenance.steps if step["step"] == "simulate"), None)
    if put_in is None:
        return ""
    geometry, favours = _GEOMETRIES[put_in["effect_direction"]]
    if not put_in["effect"]:
        return "These data are simulated, nobody was measured: the labels are chance alone, nothing can be learned."
    size, classes = f"{put_in['effect']:g}", put_in["n_classes"]
    what = {
        "classification": f"{classes} classes lie {size} apart",
        "regression": f"one unit of the score moves a network by {size}",
    }[put_in["task"]]
    sites = f", and {put_in['n_sites']} sites shift their people by {put_in['site_effect']:g}"
    return (
        f"These data are simulated, nobody was measured: {what} in Frobenius norm of {geometry}"
        f"{sites if put_in['n_sites'] > 1 else ''}. {_known_rule(ds)}An effect put there favours {favours}; people's "
        "networks promise nothing of the kind."
    )


def _known_rule(ds: Networks) -> str:
    """How well one does who knows what was put in between two classes; nothing is learned for it."""
    from sklearn.metrics import roc_auc_score

    from rmixup.data.readers.simulate import truth

    known, matrices = truth(ds), ds.matrices
    whole = matrices is not None and len(known.population) == ds.n_nodes
    if not whole or ds.classes is None or len(known.effects) != 2 or not known.effects.any():
        return ""
    values, vectors = np.linalg.eigh(np.asarray(matrices))
    if known.effect_direction == "logeuclid":
        values = np.log(np.clip(values, np.finfo(np.float64).tiny, None))
    networks = (vectors * values[:, None]) @ vectors.swapaxes(1, 2)
    area = roc_auc_score(ds.y, np.einsum("kij,ij->k", networks, known.effects[1] - known.effects[0]))
    return f"A rule that is told this difference and learns nothing reaches an AUROC of {100 * area:.1f}. "
