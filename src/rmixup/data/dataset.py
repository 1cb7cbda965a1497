"""Networks as torch sees them: a Dataset of (matrix, label). The one file of this folder that needs torch at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch.utils.data import Dataset

from rmixup.errors import DataError

if TYPE_CHECKING:
    from rmixup.data.networks import Networks


class NetworksDataset(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """(matrix (n, n), label) by position; labels are int64 codes, or numbers in the matrices' dtype."""

    def __init__(self, networks: Networks, dtype: str = "float32") -> None:
        if networks.matrices is None or networks.y is None:
            raise DataError("a torch Dataset needs matrices and labels: call connectivity() and with_target() first")
        if dtype not in {"float32", "float64"}:
            raise DataError(f'dtype must be "float32" or "float64", not {dtype!r}')
        self._matrices = networks.matrices
        self._dtype = getattr(torch, dtype)
        kind = torch.int64 if networks.task == "classification" else self._dtype
        self._labels = torch.tensor(networks.y, dtype=kind)

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        matrix = torch.from_numpy(np.array(self._matrices[index])).to(self._dtype)
        return matrix, self._labels[index]
