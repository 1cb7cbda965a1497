"""Maps of edges: how they are packed, summed over nodes and systems, and compared. NumPy only.

An edge is one variable although a symmetric matrix holds it twice, so all maps are packed: (..., p) with
p = n(n + 1)/2, the upper triangle row by row, diagonal included, as `numpy.triu_indices(n)` lists it. May not be
here: models, names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

# Top edges are what refits are compared by, what is listed for Cytoscape and what is drawn in the brain: this share
# of all edges, but at least so many.
TOP_SHARE, TOP_LEAST = 0.01, 10
_SMALLEST = 1e-300


# ---- packing


def pack(x: Floats) -> Floats:
    """Upper triangles (..., p) of symmetric matrices (..., n, n).

    >>> pack(np.array([[1.0, 2.0], [2.0, 3.0]]))
    array([1., 2., 3.])
    """
    rows, columns = np.triu_indices(x.shape[-1])
    packed: Floats = x[..., rows, columns]
    return packed


def square(packed: Floats, n: int) -> Floats:
    """Symmetric (..., n, n) of upper triangles (..., p).

    >>> square(np.array([1.0, 2.0, 3.0]), 2)
    array([[1., 2.],
           [2., 3.]])
    """
    rows, columns = np.triu_indices(n)
    full = np.zeros((*packed.shape[:-1], n, n))
    full[..., rows, columns] = full[..., columns, rows] = packed
    return full


def off_diagonal(n: int) -> npt.NDArray[np.bool_]:
    """(p,) which entries are edges.

    >>> off_diagonal(2)
    array([False,  True, False])
    """
    rows, columns = np.triu_indices(n)
    return np.asarray(rows != columns)


# ---- sizes


def unit(maps: Floats) -> Floats:
    """Each map (..., p) of length 1; one of zeros stays.

    How large slopes are depends on the penalty and on the epoch; which edges have them is what refits share.
    """
    return np.asarray(maps / np.maximum(np.linalg.norm(maps, axis=-1, keepdims=True), _SMALLEST))


def shares(maps: Floats) -> Floats:
    """Maps (K, p) of one scale, such that their mean size adds up to 1; zeros stay.

    >>> shares(np.array([[2.0, -6.0]]))
    array([[ 0.25, -0.75]])
    """
    return np.asarray(maps / max(float(np.abs(maps).mean(0).sum()), _SMALLEST))


def correlations(x: Floats, outputs: Floats) -> Floats:
    """(K, p) the correlation of each edge of networks (N, n, n) with each output (N, K); 0 where one is constant.

    This is the activation pattern (Haufe et al. 2014) in units of standard deviations.
    """
    edges = pack(x)
    edges = edges - edges.mean(0)
    centred = outputs - outputs.mean(0)
    sizes = np.linalg.norm(centred, axis=0)[:, None] * np.linalg.norm(edges, axis=0)
    products = centred.T @ edges
    varied = sizes > 1e-10 * max(float(sizes.max()), _SMALLEST)
    return np.asarray(np.divide(products, sizes, out=np.zeros_like(products), where=varied))


# ---- comparing


def agreements(signed: Floats, pairs: Sequence[tuple[int, int]]) -> Floats:
    """(pairs,) the correlation, about zero, of the maps (R, K, p) of two refits, over edges and outputs."""
    flat = unit(signed.reshape(len(signed), -1))
    return np.array([flat[a] @ flat[b] for a, b in pairs])


def top_count(n: int) -> int:
    """How many edges of n nodes count as top ones.

    >>> top_count(5), top_count(100)
    (10, 50)
    """
    edges = n * (n - 1) // 2
    return min(edges, max(TOP_LEAST, round(TOP_SHARE * edges)))


def tops(signed: Floats, n: int) -> npt.NDArray[np.bool_]:
    """(R, p) which edges are top ones in each of the maps (R, K, p); ties go to those that come first.

    >>> tops(np.arange(66.0).reshape(1, 1, 66), 11).sum()
    np.int64(10)
    """
    sizes = np.where(off_diagonal(n), np.abs(signed).mean(1), -1.0)
    found = np.zeros(sizes.shape, bool)
    np.put_along_axis(found, np.argsort(-sizes, axis=1, kind="stable")[:, : top_count(n)], True, axis=1)
    return found


# ---- from edges to nodes, systems and pairs of systems


def node_sums(packed: Floats, n: int) -> Floats:
    """(..., n) half of each edge of a node, and all of its own entry on the diagonal.

    >>> node_sums(np.array([1.0, 2.0, 3.0]), 2)
    array([2., 4.])
    """
    full = square(packed, n)
    return np.asarray((full.sum(-1) + np.diagonal(full, axis1=-2, axis2=-1)) / 2)


def membership(systems: tuple[str, ...]) -> tuple[Any, Floats]:
    """Names of the systems (s,), in the order in which they come, and who belongs to them (n, s), ones and zeros."""
    names = list(dict.fromkeys(systems))
    return np.array(names, dtype=object), np.array([[float(own == name) for name in names] for own in systems])


def pairs(member: Floats) -> tuple[Any, Any, Floats]:
    """Pairs of systems (a, b), a <= b, that have edges, and how many they have."""
    sizes = member.sum(0)
    a, b = np.triu_indices(len(sizes))
    counts = np.where(a == b, sizes[a] * (sizes[a] - 1) / 2, sizes[a] * sizes[b])
    some = counts > 0
    return a[some], b[some], counts[some]


def pair_sums(packed: Floats, member: Floats) -> Floats:
    """(..., pairs) the sum of the edges of each pair of systems; the diagonal is no edge."""
    full = square(packed, len(member)) * (1 - np.eye(len(member)))
    sums = member.T @ full @ member
    a, b, _ = pairs(member)
    return np.asarray(np.where(a == b, 0.5, 1.0) * sums[..., a, b])
