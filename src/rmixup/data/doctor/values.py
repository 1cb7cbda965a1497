"""Findings about the numbers themselves: what is undefined, of another kind than expected, or not positive definite."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rmixup.data.connectivity import MIN_FRAMES
from rmixup.data.doctor.finding import Checks, Patient, Told, counted, named, span
from rmixup.data.doctor.scan import TWIN_TOLERANCE, blocks, furthest_apart

Array = NDArray[Any]
Mask = NDArray[np.bool_]

SPDNESS_TOLERANCE = 1e-6  # eigenvalues above this count as positive, as in `rmixup.spd.spdness`
RANK_TOLERANCE = 1e-7  # relative to the largest eigenvalue: below it, an eigenvalue is rounding
NEGATIVE_TOLERANCE = 1e-5  # the same for negative ones: the rounding of a text file is coarser
CONDITION_LIMIT = 1e5  # a float32 logarithm is then off by a hundredth and more
RANGE_TOLERANCE = 1e-6
UNLIKE_SHARE = 1 / 3  # a network less than a third as like the typical one as the median network is,
UNLIKE_SPREADS = 6.0  # and this many spreads (median absolute deviations) below it, is of something else
TYPICAL_LIKENESS = 0.3  # with less than this in the median, networks have no common pattern to depart from
_FISHER_SAMPLE = 16


def non_finite(patient: Patient) -> Told | None:
    """NaN or infinity in a series, or in a matrix that was given."""
    series, m = patient.series, patient.matrices
    if not patient.ds.has_matrices:
        return None if series is None else _non_finite_series(patient, series.not_finite)
    affected = (m.undefined_edges > 0) | ((m.undefined_diagonal > 0) & ~m.saturated)
    if not affected.any():
        return None
    n = patient.ds.n_nodes
    nodes = m.undefined_nodes[affected].any(axis=0)
    where = f"; whole rows at {counted(int(nodes.sum()), 'node')}, as correlation leaves them for a constant node"
    return Told(
        f"{affected.sum()} of {counted(len(patient.ds), 'matrix')} hold NaN or infinity: "
        f"{m.undefined_edges.sum()} of {len(patient.ds) * n * (n - 1) // 2} edges are undefined"
        + (where if nodes.any() else ""),
        "leave these subjects or nodes out: rmixup import SOURCE OUT --drop-subjects undefined (or --drop-nodes NAMES)",
        named(patient.ds.subjects, affected),
        named(patient.ds.nodes, nodes),
    )


def _non_finite_series(patient: Patient, not_finite: Mask) -> Told | None:
    affected, nodes = not_finite.any(axis=1), not_finite.any(axis=0)
    if not affected.any():
        return None
    return Told(
        f"the series of {affected.sum()} of {counted(len(patient.ds), 'network')} hold NaN or infinity, "
        f"at {counted(int(nodes.sum()), 'node')}",
        "correct these files, or leave these subjects out: rmixup import SOURCE OUT --drop-subjects IDS",
        named(patient.ds.subjects, affected),
        named(patient.ds.nodes, nodes),
    )


def constant_node(patient: Patient) -> Told | None:
    """A node that does not vary in somebody: its correlations are undefined."""
    series, m = patient.series, patient.matrices
    constant = m.isolated_nodes if series is None else series.constant
    affected = constant.any(axis=1)
    if not affected.any():
        return None
    what = "does not vary" if series is not None else "has no edge but zeros (as a constant node leaves it)"
    return Told(
        f"in {affected.sum()} of {counted(len(patient.ds), 'network')} some node {what}, up to "
        f"{constant.sum(axis=1).max()} in one and {counted(int(constant.any(axis=0).sum()), 'node')} in all: "
        "their correlations are undefined",
        "leave them out: rmixup import SOURCE OUT --drop-subjects undefined; or the nodes: --drop-nodes NAMES",
        named(patient.ds.subjects, affected),
        named(patient.ds.nodes, constant.any(axis=0)),
    )


def too_few_frames(patient: Patient) -> Told | None:
    """Series that no correlation can be computed from."""
    if patient.series is None or patient.ds.frames is None:
        return None
    short = patient.ds.frames < MIN_FRAMES
    return _told(
        patient,
        short,
        lambda: f"{short.sum()} of {counted(len(short), 'network')} have fewer than {MIN_FRAMES} frames, too few",
        "leave these subjects out: rmixup import SOURCE OUT --drop-subjects IDS",
    )


def asymmetric(patient: Patient) -> Told | None:
    """Mirror entries that differ by more than rounding."""
    m = patient.matrices
    return _told(
        patient,
        m.asymmetric,
        lambda: (
            f"{m.asymmetric.sum()} of {counted(len(patient.ds), 'matrix')} are not symmetric: mirror entries "
            f"differ by up to {m.asymmetry[m.asymmetric].max():.2g} of the largest entry ({_worst(patient)})"
        ),
        'if the symmetric part is meant: ds.with_matrices((S + S.transpose(0, 2, 1)) / 2, "symmetrise"), '
        "with S = ds.matrices",
    )


def _worst(patient: Patient) -> str:
    """Where the mirror entries lie furthest apart."""
    row = int(np.where(patient.matrices.asymmetric, patient.matrices.asymmetry, 0.0).argmax())
    ((_, matrix),) = patient.ds[row : row + 1].blocks()
    return f"{patient.ds.subjects[row]}: {furthest_apart(np.asarray(matrix[0]), patient.ds.nodes)}"


def looks_like_fisher_z(patient: Patient) -> Told | None:
    """Fisher's z, arctanh of a correlation, in place of correlations: the field's ABIDE file is of this kind."""
    fisher = _is_fisher(patient)
    m = patient.matrices
    values = m.eigenvalues[fisher & m.symmetric]
    spectrum = f"; {100 * (values <= 0).mean():.0f} % of their eigenvalues are not positive" if values.size else ""
    return _told(
        patient,
        fisher,
        lambda: (
            f"{fisher.sum()} of {counted(len(patient.ds), 'matrix')} look like Fisher's z (arctanh of a "
            f"correlation), not like correlations: the diagonal is {_diagonal(m.saturated[fisher])} and edges reach "
            f"{m.largest[fisher].max():.3g}{spectrum}"
        ),
        "turn them back into correlations: rmixup import SOURCE OUT --from-fisher-z",
    )


def _diagonal(saturated: Mask) -> str:
    return "a large constant" if saturated.all() else "zero or a large constant" if saturated.any() else "zero"


def _is_fisher(patient: Patient) -> Mask:
    """Networks whose diagonal was emptied or ran off, where there is evidence for arctanh."""
    m = patient.matrices
    emptied = m.empty_diagonal
    evident = (m.largest[emptied] > 1 + RANGE_TOLERANCE).any() or _arctanh_explains(patient, emptied & m.symmetric)
    return np.asarray(m.saturated | (emptied & bool(evident)))


def _arctanh_explains(patient: Patient, emptied: Mask) -> bool:
    """Whether putting back a unit diagonal gives correlations (no negative eigenvalues) only after tanh."""
    chosen = np.flatnonzero(emptied)[:_FISHER_SAMPLE]
    if not chosen.size:
        return False
    sample = np.concatenate([block for _, block in blocks(patient.ds[chosen], None, len(chosen))]).astype(np.float64)
    unit = np.eye(sample.shape[1])
    lowest = [np.linalg.eigvalsh(x + unit)[:, 0] / len(unit) for x in (sample, np.tanh(sample))]
    as_they_are, after_tanh = (bool((x > -RANK_TOLERANCE).all()) for x in lowest)
    return after_tanh and not as_they_are


def wrong_diagonal(patient: Patient) -> Told | None:
    """A diagonal that neither a correlation nor a covariance has."""
    m = patient.matrices
    wrong = m.known & (m.undefined_diagonal == 0) & ~m.unit & ~m.scaled & ~_is_fisher(patient)
    return _told(
        patient,
        wrong,
        lambda: (
            f"{wrong.sum()} of {counted(len(patient.ds), 'matrix')} have a diagonal of "
            f"{span([*m.diagonal_low[wrong], *m.diagonal_high[wrong]])}, which neither a correlation (1) nor a "
            "covariance (positive, and no smaller than the edges allow) has"
        ),
        "if these are correlations whose diagonal was overwritten, set it to 1 in the source; then import again",
    )


def out_of_range(patient: Patient) -> Told | None:
    """Correlations beyond 1."""
    m = patient.matrices
    wrong = m.unit & (m.largest > 1 + RANGE_TOLERANCE)
    return _told(
        patient,
        wrong,
        lambda: (
            f"{wrong.sum()} of {counted(len(patient.ds), 'matrix')} have a unit diagonal but edges outside "
            f"[−1, 1], up to {m.largest[wrong].max():.4g}: no correlation is"
        ),
        "find out what the values are; Fisher's z with a diagonal set to 1 is turned back by "
        "rmixup import SOURCE OUT --from-fisher-z",
    )


def covariance_given(patient: Patient) -> Told | None:
    """Covariances, unless they were asked for."""
    if _last_kind(patient) == "covariance":
        return None
    m = patient.matrices
    scaled = m.scaled & (not _regularized(patient))
    return _told(
        patient,
        scaled,
        lambda: (
            f"{scaled.sum()} of {counted(len(patient.ds), 'matrix')} are covariances by form, not correlations: "
            f"their diagonal is {span([*m.diagonal_low[scaled], *m.diagonal_high[scaled]])}"
        ),
        'if correlations are meant: ds.with_matrices(rmixup.spd.unit_diagonal(ds.matrices), "unit_diagonal")',
    )


def _last_kind(patient: Patient) -> str | None:
    kinds = [s["parameters"].get("kind") for s in patient.ds.provenance.steps if s["step"] == "connectivity"]
    return kinds[-1] if kinds else None


def _regularized(patient: Patient) -> bool:
    """Whether a regulariser was applied to the matrices, and recorded."""
    return any(step["step"] == "regularize" for step in patient.ds.provenance.steps)


def indefinite(patient: Patient) -> Told | None:
    """Negative eigenvalues, which no correlation of complete series has."""
    m = patient.matrices
    wrong = _negative(patient)
    return _told(
        patient,
        wrong,
        lambda: (
            f"{wrong.sum()} of {counted(len(patient.ds), 'matrix')} have clearly negative eigenvalues, down to "
            f"{m.eigenvalues[wrong, 0].min():.3g}: not correlations of complete series, or rounded on the way"
        ),
        "rmixup import SOURCE OUT --regularize floor=1e-6, or compute them again from the series",
    )


def rank_deficient(patient: Patient) -> Told | None:
    """Singular, mostly because there were no more frames than nodes."""
    ds, m = patient.ds, patient.matrices
    rank = _ranks(patient)
    low = rank < ds.n_nodes
    if ds.frames is not None and not ds.has_matrices:
        low |= ~m.judged & (ds.frames <= ds.n_nodes)
    return _told(patient, low, lambda: _singular(patient, low, rank), _REGULARIZE[patient.series is not None])


_REGULARIZE = {
    True: "rmixup import SOURCE OUT --regularize ledoit-wolf (or shrink=0.05), or coarser nodes, or longer series",
    False: "rmixup import SOURCE OUT --regularize shrink=0.05 (or floor=1e-6)",
}


def _singular(patient: Patient, low: Mask, rank: Array) -> str:
    ds = patient.ds
    n = ds.n_nodes
    bound = f"a positive definite matrix of {n} nodes takes t ≥ n + 1 = {n + 1} frames"
    known = low & patient.matrices.judged
    ranks = f" (rank {span(rank[known])} of {n})" if known.any() else ""
    start = f"{low.sum()} of {counted(len(ds), 'matrix')} are singular{ranks}"
    if ds.frames is None:
        return f"{start}: {bound} behind it"
    short = low & (ds.frames <= n)
    why = [f"{short.sum()} have t ≤ n (t = {span(ds.frames[short])}, n = {n})"] if short.any() else []
    if (low & ~short).any():
        why.append(f"{(low & ~short).sum()} in spite of t > n, as after confound regression, which costs rank too")
    return f"{start}: {', '.join(why)}; {bound}"


def _ranks(patient: Patient) -> Array:
    """(N,) numeric ranks; n where a matrix cannot be judged. What was regularised may have eigenvalues as small."""
    m = patient.matrices
    relative = 0.0 if _regularized(patient) else RANK_TOLERANCE
    rank = (m.eigenvalues > relative * m.eigenvalues[:, -1:]).sum(axis=1)
    return np.where(m.judged & ~_negative(patient), rank, patient.ds.n_nodes)


def _negative(patient: Patient) -> Mask:
    """(N,) matrices with clearly negative eigenvalues."""
    m = patient.matrices
    return np.asarray(m.judged & (m.eigenvalues[:, 0] < -NEGATIVE_TOLERANCE * m.eigenvalues[:, -1]))


def near_singular(patient: Patient) -> Told | None:
    """Full rank, but so badly conditioned that logarithms lose their digits."""
    ds, m = patient.ds, patient.matrices
    lowest, highest = m.eigenvalues[:, 0], m.eigenvalues[:, -1]
    low = m.judged & (lowest < highest / CONDITION_LIMIT) & (_ranks(patient) == ds.n_nodes) & ~_negative(patient)
    return _told(
        patient,
        low,
        lambda: (
            f"{low.sum()} of {counted(len(ds), 'matrix')} are nearly singular: the smallest eigenvalue is "
            f"{span(lowest[low])}, less than {1 / CONDITION_LIMIT:.0e} of the largest"
        ),
        "keep the logarithms in float64 (rmixup does), or rmixup import SOURCE OUT --regularize shrink=0.05",
    )


def spdness(patient: Patient) -> Told | None:
    """The share of positive eigenvalues, where it is not all of them."""
    m = patient.matrices
    if not m.judged.any():
        return None
    share = (m.eigenvalues[m.judged] > SPDNESS_TOLERANCE).mean(axis=1)
    if share.min() == 1:
        return None
    return Told(
        f"mean SPD-ness is {share.mean():.4f} over {counted(len(share), 'matrix')} (lowest {share.min():.4f}): the "
        f"share of eigenvalues above {SPDNESS_TOLERANCE:g}",
        "methods that take logarithms need 1: choose a regulariser (--regularize), which is recorded with every result",
        named(patient.ds.subjects[m.judged], share < 1),
    )


def identical_nodes(patient: Patient) -> Told | None:
    """Two nodes that are one: copies, or overlapping regions."""
    ds, twins = patient.ds, np.triu(patient.matrices.twins, 1)
    first, second = np.nonzero(twins)
    if not first.size:
        return None
    most = int(np.argmax(twins[first, second]))
    pair = f"{ds.nodes[first[most]]} and {ds.nodes[second[most]]} in {counted(int(twins.max()), 'matrix')}"
    return Told(
        f"{counted(len(first), 'pair')} of nodes are copies of each other (|correlation| ≥ 1 − {TWIN_TOLERANCE:g}), "
        f"most often {pair}: such matrices are singular",
        "leave out one of each pair: rmixup import SOURCE OUT --drop-nodes NAMES",
        nodes=named(ds.nodes, (twins.any(axis=0) | twins.any(axis=1))),
    )


def node_order(patient: Patient) -> Told | None:
    """Networks so unlike the typical one that their nodes may be others, or in another order."""
    m = patient.matrices
    likeness = np.where(m.known & np.isfinite(m.likeness), m.likeness, np.nan)
    if np.isfinite(likeness).sum() < 5:
        return None
    middle = float(np.nanmedian(likeness))
    spread = float(np.nanmedian(np.abs(likeness - middle)))
    unlike = likeness < min(UNLIKE_SHARE * middle, middle - UNLIKE_SPREADS * spread)
    return _told(
        patient,
        unlike & (middle > TYPICAL_LIKENESS),
        lambda: (
            f"{unlike.sum()} of {counted(len(patient.ds), 'matrix')} do not resemble the others: their edges "
            f"correlate {span(likeness[unlike])} with the typical network, the median is {middle:.2f}; nodes may be in "
            "another order, of another atlas, or the recording bad"
        ),
        "look at their source; leave them out: rmixup import SOURCE OUT --drop-subjects IDS",
    )


def _told(patient: Patient, affected: Mask, message: Callable[[], str], remedy: str) -> Told | None:
    """Tell about the affected people, if there are any; the message is made only then."""
    return Told(message(), remedy, named(patient.ds.subjects, affected)) if affected.any() else None


VALUES: Checks = {
    "non-finite": ("error", non_finite),
    "constant-node": ("error", constant_node),
    "too-few-frames": ("error", too_few_frames),
    "asymmetric": ("error", asymmetric),
    "looks-like-fisher-z": ("error", looks_like_fisher_z),
    "wrong-diagonal": ("error", wrong_diagonal),
    "out-of-range": ("error", out_of_range),
    "covariance-given-as-correlation": ("warning", covariance_given),
    "indefinite": ("warning", indefinite),
    "rank-deficient": ("warning", rank_deficient),
    "near-singular": ("warning", near_singular),
    "spdness": ("info", spdness),
    "identical-nodes": ("warning", identical_nodes),
    "node-order": ("warning", node_order),
}
