"""One pass over series and matrices: everything the findings need to know, a few numbers a network.

Works block by block, so that memory does not grow with the number of people beyond those numbers. Values that are not
finite are counted and then taken as 0; eigenvalues of matrices that are not finite or not symmetric stay NaN.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rmixup.data.connectivity import MIN_FRAMES, _still, connectivity
from rmixup.data.networks import Networks

Array = NDArray[Any]
Mask = NDArray[np.bool_]

UNIT_TOLERANCE = 1e-3  # a diagonal this near to 1 is one: files are rounded
SATURATED = 8.0  # arctanh(1 - 2e-7): what is above on the diagonal, with all edges far below, was 1 before arctanh
SATURATED_SPREAD = 0.1  # arctanh of 1 less one and less ten roundings are as near as that
SYMMETRY_POWER_OF_EPS = 0.5  # as `rmixup.spd` judges symmetry; not imported, so that the doctor needs no torch
TWIN_TOLERANCE = 1e-6  # correlations this near to ±1 say that two nodes are one
HISTOGRAM_EDGES = np.linspace(-1.0, 1.0, 101)

_BLOCK_BYTES = 16 << 20
_HISTOGRAM_EDGES_TAKEN = 4_000_000
_TYPICAL_FROM = 256
_TOO_LARGE = 1e150  # squares of more overflow
_DIGEST_BYTES = 16


class SeriesScan(NamedTuple):
    """What was found in the series of N people with n nodes."""

    not_finite: Mask  # (N, n) nodes with NaN or infinity
    constant: Mask  # (N, n) nodes that do not vary
    digests: list[bytes]  # N

    @property
    def usable(self) -> Mask:
        """(N,) whose correlations are defined in part at least."""
        return np.asarray(~self.not_finite.any(axis=1))


class MatrixScan(NamedTuple):
    """What was found in N matrices of n nodes; `known` says whose matrices there were."""

    known: Mask  # (N,) false where series gave no matrix
    undefined_edges: Array  # (N,) entries above the diagonal that are not finite
    undefined_nodes: Mask  # (N, n) nodes without any finite edge
    undefined_diagonal: Array  # (N,) entries of the diagonal that are not finite
    isolated_nodes: Mask  # (N, n) nodes whose edges are all exactly 0
    asymmetry: Array  # (N,) largest difference of mirror entries, relative to the largest entry
    asymmetric: Mask  # (N,) where that is more than rounding
    diagonal_low: Array  # (N,)
    diagonal_high: Array  # (N,)
    largest: Array  # (N,) largest magnitude off the diagonal
    overshoot: Array  # (N,) largest |S_ij| / sqrt(S_ii S_jj); infinite where a diagonal entry is not positive
    eigenvalues: Array  # (N, n) ascending, or NaN
    likeness: Array  # (N,) correlation of a network's edges with those of the typical network
    digests: list[bytes]  # N
    twins: Array  # (n, n) in how many networks two nodes are one
    single: bool  # whether the matrices are float32
    edge_counts: Array  # counts of edges in HISTOGRAM_EDGES, of an even choice of edges

    @property
    def symmetric(self) -> Mask:
        """(N,) finite and symmetric, hence with eigenvalues."""
        return np.asarray(np.isfinite(self.eigenvalues).all(axis=1))

    @property
    def unit(self) -> Mask:
        """(N,) whose diagonal is 1, to the accuracy of files."""
        near = (np.abs(self.diagonal_low - 1) <= UNIT_TOLERANCE) & (np.abs(self.diagonal_high - 1) <= UNIT_TOLERANCE)
        return np.asarray(self.known & near)

    @property
    def scaled(self) -> Mask:
        """(N,) with the form of a covariance: a positive diagonal that is not 1 and bounds the edges."""
        bounded = (self.diagonal_low > 0) & (self.overshoot <= 1 + TWIN_TOLERANCE)
        return np.asarray(self.known & ~self.unit & bounded & ~self.saturated)

    @property
    def saturated(self) -> Mask:
        """(N,) whose diagonal is large or infinite, as arctanh of 1 or nearly 1 comes out of a computer."""
        none_finite = self.undefined_diagonal == self.eigenvalues.shape[1]
        alike = none_finite | (self.diagonal_high <= (1 + SATURATED_SPREAD) * self.diagonal_low)
        far_above = (self.diagonal_low >= SATURATED) & (self.largest < SATURATED / 2)
        return np.asarray(self.known & alike & far_above & (self.undefined_edges == 0))

    @property
    def empty_diagonal(self) -> Mask:
        """(N,) whose diagonal is all 0."""
        zero = (self.diagonal_low == 0) & (self.diagonal_high == 0) & (self.undefined_diagonal == 0)
        return np.asarray(self.known & zero)

    @property
    def judged(self) -> Mask:
        """(N,) matrices whose eigenvalues mean something: symmetric, and a correlation or covariance by form."""
        return self.symmetric & (self.unit | self.scaled)


def scan_series(ds: Networks) -> SeriesScan | None:
    """Look at every series once."""
    if ds.series is None:
        return None
    shape = (len(ds), ds.n_nodes)
    not_finite, constant, digests = np.zeros(shape, dtype=bool), np.zeros(shape, dtype=bool), []
    for row, x in enumerate(ds.series):
        not_finite[row] = ~np.isfinite(x).all(axis=0)
        if len(x):
            constant[row] = _still(np.where(np.isfinite(x), x, 0.0)) & ~not_finite[row]
        digests.append(_digest(x))
        if row % _TYPICAL_FROM == _TYPICAL_FROM - 1:
            _give_back(x)
    return SeriesScan(not_finite, constant, digests)


def scan_matrices(ds: Networks, series: SeriesScan | None) -> MatrixScan:
    """Look at every matrix once; where there are only series, at their correlations."""
    size = max(1, _BLOCK_BYTES // max(1, 8 * ds.n_nodes**2))
    typical = _typical(ds, series, min(size, _TYPICAL_FROM))
    take = _even_choice(ds)
    parts: list[dict[str, Any]] = []
    twins = np.zeros((ds.n_nodes, ds.n_nodes), dtype=np.int64)
    single = False
    counts = np.zeros(len(HISTOGRAM_EDGES) - 1, dtype=np.int64)
    for known, given in blocks(ds, series, size):
        single = given.dtype == np.float32
        part, edges = _measure(known, given, typical)
        parts.append(part)
        twins += part.pop("twins")
        counts += np.histogram(edges[:, take], HISTOGRAM_EDGES)[0]
    return _joined(parts, twins=twins, single=single, edge_counts=counts)


def symmetry_tolerance(dtype: np.dtype[Any]) -> float:
    """How far mirror entries may lie apart, relative to the largest entry."""
    return float(np.finfo(dtype).eps ** SYMMETRY_POWER_OF_EPS)


def furthest_apart(matrix: Array, nodes: Array) -> str:
    """Where mirror entries differ most, and what is there.

    >>> furthest_apart(np.array([[1, 0.5], [0.1, 1]]), np.array(["a", "b"]))
    '0.5 at a–b, 0.1 at b–a'
    """
    a, b = np.unravel_index(np.abs(matrix - matrix.T).argmax(), matrix.shape)
    return f"{matrix[a, b]:.4g} at {nodes[a]}–{nodes[b]}, {matrix[b, a]:.4g} at {nodes[b]}–{nodes[a]}"


def blocks(ds: Networks, series: SeriesScan | None, size: int) -> Iterator[tuple[Mask, Array]]:
    """(which are known, matrices) of so many people at a time, from the matrices or else from the series."""
    if series is None or ds.has_matrices:
        for _, block in ds.blocks(size):
            yield np.ones(len(block), dtype=bool), block
        return
    for start in range(0, len(ds), size):
        part = slice(start, start + size)
        known = series.usable[part] & (np.asarray(ds[part].frames) >= MIN_FRAMES)
        matrices = np.full((len(known), ds.n_nodes, ds.n_nodes), np.nan)
        parts = [x for x, fine in zip((ds.series or ())[part], known, strict=True) if fine]
        if parts:
            matrices[known] = connectivity(parts, constant="nan")
            _give_back(parts[-1])
        yield known, matrices


def _measure(known: Mask, given: Array, typical: Array) -> tuple[dict[str, Any], Array]:
    """The numbers of one block of matrices, and its edges (NaN where undefined)."""
    with np.errstate(over="ignore"):  # absurd values are told by findings, not by warnings
        return _numbers(known, given, typical)


def _numbers(known: Mask, given: Array, typical: Array) -> tuple[dict[str, Any], Array]:
    finite = np.isfinite(given)
    x = np.where(finite, given, 0.0).astype(np.float64, copy=False)
    diagonal = np.diagonal(x, axis1=1, axis2=2).copy()
    diagonal_finite = np.diagonal(finite, axis1=1, axis2=2)
    off = x.copy()
    np.einsum("kii->ki", off)[...] = 0.0
    off_finite = finite & ~np.eye(x.shape[1], dtype=bool)
    upper = np.triu_indices(x.shape[1], 1)
    edges = off[:, *upper]
    scaled = _scaled(off, diagonal)
    largest_entry = np.maximum(np.abs(x).max(axis=(1, 2), initial=0.0), np.finfo(float).tiny)
    asymmetry = np.abs(off - off.swapaxes(1, 2)).max(axis=(1, 2), initial=0.0) / largest_entry
    undefined_edges = (~(finite & finite.swapaxes(1, 2))[:, *upper]).sum(axis=1)
    lopsided = known & (asymmetry > symmetry_tolerance(given.dtype))
    judgeable = known & finite.all(axis=(1, 2)) & ~lopsided & (largest_entry < _TOO_LARGE)
    part = {
        "known": known,
        "undefined_edges": np.where(known, undefined_edges, 0),
        "undefined_nodes": known[:, None] & ~off_finite.any(axis=2) & (x.shape[1] > 1),
        "undefined_diagonal": np.where(known, (~diagonal_finite).sum(axis=1), 0),
        "isolated_nodes": known[:, None] & off_finite.any(axis=2) & ~off.any(axis=2),
        "asymmetry": np.where(known, asymmetry, 0.0),
        "asymmetric": lopsided & (undefined_edges == 0),
        "diagonal_low": np.where(diagonal_finite, diagonal, np.inf).min(axis=1, initial=np.inf),
        "diagonal_high": np.where(diagonal_finite, diagonal, -np.inf).max(axis=1, initial=-np.inf),
        "largest": np.abs(off).max(axis=(1, 2), initial=0.0),
        "overshoot": np.abs(scaled).max(axis=(1, 2), initial=0.0),
        "eigenvalues": _eigenvalues(x, judgeable),
        "likeness": _likeness(edges, typical),
        "digests": [_digest(matrix) for matrix in given],
        "twins": (np.abs(np.abs(scaled[judgeable]) - 1) <= TWIN_TOLERANCE).sum(axis=0),
    }
    return part, np.where(finite[:, *upper] & known[:, None], edges, np.nan)


def _scaled(off: Array, diagonal: Array) -> Array:
    """Edges as correlations; infinite where an entry of the diagonal is not positive and the edge is not 0."""
    root = np.sqrt(np.where(diagonal > 0, diagonal, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        scaled = off / root[:, :, None] / root[:, None, :]
    return np.nan_to_num(scaled, nan=0.0, posinf=np.inf, neginf=-np.inf)


def _eigenvalues(x: Array, judgeable: Mask) -> Array:
    eigenvalues = np.full(x.shape[:2], np.nan)
    if judgeable.any():
        eigenvalues[judgeable] = np.linalg.eigvalsh(x if judgeable.all() else x[judgeable])
    return eigenvalues


def _likeness(edges: Array, typical: Array) -> Array:
    """Pearson correlation with the typical edges, NaN where either does not vary."""
    centred = edges - edges.mean(axis=1, keepdims=True) if edges.shape[1] else edges
    typical = typical - typical.mean() if typical.size else typical
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        lengths = np.linalg.norm(centred, axis=1) * np.linalg.norm(typical)
        return np.asarray(centred @ typical / lengths)


def _typical(ds: Networks, series: SeriesScan | None, count: int) -> Array:
    """The mean edges of an even choice of people."""
    chosen = np.unique(np.linspace(0, len(ds) - 1, min(count, len(ds))).astype(np.int64))
    part = None if series is None else SeriesScan(series.not_finite[chosen], series.constant[chosen], [])
    upper = np.triu_indices(ds.n_nodes, 1)
    total = np.zeros(len(upper[0]))
    for _, block in blocks(ds[chosen], part, max(1, len(chosen))):
        edges = block[:, *upper].astype(np.float64)
        total += np.where(np.isfinite(edges), edges, 0.0).sum(axis=0)
    return total / max(1, len(chosen))


def _even_choice(ds: Networks) -> slice:
    """Every so-manieth edge, such that a histogram stays quick."""
    edges = ds.n_nodes * (ds.n_nodes - 1) // 2
    return slice(None, None, max(1, len(ds) * edges // _HISTOGRAM_EDGES_TAKEN))


def _joined(parts: list[dict[str, Any]], **of_all: Any) -> MatrixScan:
    digests = [digest for part in parts for digest in part.pop("digests")]
    whole: dict[str, Any] = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return MatrixScan(**whole, digests=digests, **of_all)


def _digest(array: Array) -> bytes:
    return blake2b(np.ascontiguousarray(array).data, digest_size=_DIGEST_BYTES).digest()


def _give_back(array: Array | None) -> None:
    """Let the system take back the pages of the file that an array is a view of."""
    base: Any = array
    while base is not None and not isinstance(base, mmap.mmap):
        base = getattr(base, "base", None)
    if base is not None and hasattr(base, "madvise"):
        base.madvise(mmap.MADV_DONTNEED)
