"""Rows of a problem for R runs with sets of unequal size: padded, with a mask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rmixup.augment.labels import Labels
from rmixup.augment.plan import Integers


@dataclass(frozen=True, eq=False)
class Rows:
    """`index` (R, V) are rows of the problem, `labels` (R, V) codes or (R, V, k) targets, `mask` (R, V) what counts."""

    index: Tensor
    labels: Tensor
    mask: Tensor
    counts: Integers

    @property
    def width(self) -> int:
        """V, the size of the largest set."""
        return self.index.shape[1]


def gather_rows(labels: Labels, sets: Sequence[Integers], device: torch.device, dtype: torch.dtype) -> Rows:
    """Pad the sets with their first row (row 0 where a set is empty), masked."""
    counts = np.array([len(rows) for rows in sets])
    index = np.zeros((len(sets), counts.max(initial=0)), np.int64)
    for r, rows in enumerate(sets):
        index[r] = rows[0] if len(rows) else 0
        index[r, : len(rows)] = rows
    if labels.codes is not None:
        values = torch.from_numpy(labels.codes[index])
    else:
        assert labels.numbers is not None
        values = torch.from_numpy(labels.numbers[index]).to(dtype)
    mask = torch.arange(index.shape[1]) < torch.from_numpy(counts)[:, None]
    return Rows(torch.from_numpy(index).to(device), values.to(device), mask.to(device), counts)
