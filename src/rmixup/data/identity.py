"""The content of a data set as one checksum, whatever file or memory it lies in."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from rmixup.data.networks import Networks
    from rmixup.data.rows import Rows

Array = npt.NDArray[Any]


def digest(ds: Networks, rows: Rows | None) -> str:
    """One checksum over the checksums of the parts, so that a part can be streamed."""
    labels = None if ds.y is None else [ds.y.shape, _sum([ds.y])]
    parts = {
        "matrices": None if rows is None else [rows.shape, _kind(rows.dtype), _sum(_streamed(rows))],
        "series": None if ds.series is None else [list(map(len, ds.series)), _series_kinds(ds.series), _sum(ds.series)],
        "labels": [labels, ds.classes, ds.target],
        "subjects": ds.subjects.tolist(),
        "groups": None if ds.groups is None else ds.groups.tolist(),
        "families": None if ds.families is None else ds.families.tolist(),
        "nodes": ds.nodes.tolist(),
    }
    text = json.dumps(parts, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _streamed(rows: Rows) -> Iterator[Array]:
    return (block for _, block in rows.blocks())


def _kind(dtype: np.dtype[Any]) -> str:
    """The type without the order of bytes, which belongs to a file and not to the content."""
    return dtype.newbyteorder("<").str


def _series_kinds(series: tuple[Array, ...]) -> list[str]:
    return sorted({_kind(x.dtype) for x in series})


def _sum(arrays: Iterable[Array]) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        little = np.asarray(array, dtype=array.dtype.newbyteorder("<"))
        digest.update(np.ascontiguousarray(little).data)
    return digest.hexdigest()
