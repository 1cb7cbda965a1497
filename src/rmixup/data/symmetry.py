"""What a study or a training does not start with: values that are no numbers, mirror entries that differ.

Mirror entries that differ by rounding become equal, and the provenance says so. May not be here: eigenvalues.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from rmixup.data.doctor.scan import furthest_apart, symmetry_tolerance
from rmixup.data.labels import shown
from rmixup.data.networks import Networks
from rmixup.errors import DataError

Array = npt.NDArray[Any]
# Below so many roundings of the largest entry mirror entries count as equal: sums in another order differ by as much.
_ROUNDINGS = 4
_PLACES_SHOWN = 3


def refuse_undefined(ds: Networks) -> None:
    """Refuse given matrices with NaN, infinity or unlike mirror entries: everybody concerned in one DataError.

    >>> refuse_undefined(Networks([[[1, 0.5], [0.1, 1]]], subjects=["s1"], nodes=["a", "b"]))
    Traceback (most recent call last):
    rmixup.errors.DataError: 1 of 1 matrices are not symmetric (s1: 0.5 at a–b, 0.1 at b–a): ...
    """
    if not ds.has_matrices:
        return
    undefined, lopsided = [], []
    for subject, matrix in _each(ds):
        if not np.isfinite(matrix).all():
            undefined.append(subject)
        elif _gaps(matrix).max() > symmetry_tolerance(matrix.dtype) * np.abs(matrix).max():
            lopsided.append(f"{subject}: {furthest_apart(matrix, ds.nodes)}")
    told = []
    if undefined:
        told.append(
            f"{len(undefined)} of {len(ds)} matrices hold NaN or infinity (subjects {shown(undefined)}): leave these "
            "people or nodes out, rmixup import SOURCE OUT --drop-subjects undefined (or --drop-nodes NAMES)"
        )
    if lopsided:
        told.append(
            f"{len(lopsided)} of {len(ds)} matrices are not symmetric ({shown(lopsided, _PLACES_SHOWN)}): find out "
            "why; if the symmetric part is meant, save (S + S.T) / 2"
        )
    if told:
        raise DataError("; ".join(told))


def symmetrised(ds: Networks) -> Networks:
    """The same networks; given matrices whose mirror entries differ by rounding become exactly symmetric.

    >>> one = np.eye(2)
    >>> one[0, 1] = 1e-12
    >>> symmetrised(Networks([one])).provenance.steps[-1]["step"]
    'symmetrise'
    """
    if not ds.has_matrices:
        return ds
    worst = max((_relative_gap(matrix) for _, matrix in _each(ds)), default=0.0)
    if worst <= _ROUNDINGS * np.finfo(np.float64).eps:
        return ds
    stack = np.asarray(ds.matrices)
    return ds.with_matrices(stack / 2 + stack.swapaxes(1, 2) / 2, "symmetrise", largest_gap=float(f"{worst:.2g}"))


def _each(ds: Networks) -> Iterator[tuple[str, Array]]:
    for first, block in ds.blocks():
        for row, matrix in enumerate(block):
            yield str(ds.subjects[first + row]), np.asarray(matrix)


def _gaps(matrix: Array) -> Array:
    return np.asarray(np.abs(matrix - matrix.T))


def _relative_gap(matrix: Array) -> float:
    """NaN and infinity have no place here; they are told of elsewhere."""
    largest = np.abs(matrix).max(initial=0.0)
    return float(_gaps(matrix).max(initial=0.0) / largest) if 0 < largest < np.inf else 0.0
