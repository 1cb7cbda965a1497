"""A geometry of one's own: power-Euclidean, straight lines between square roots (Dryden et al. 2010).

Run it: python geometry.py
"""

from __future__ import annotations

import torch
from torch import Tensor

from rmixup import spd
from rmixup.augment import RMixup
from rmixup.spd.metrics import METRICS, float64, pullback
from rmixup.spd.spectral import sqrtm
from rmixup.testing import check_augmentation


def root(S: Tensor) -> Tensor:
    """Coordinates: the square root, in float64."""
    return sqrtm(float64(S))


def square(R: Tensor) -> Tensor:
    """Back from coordinates; R Rᵀ is positive semidefinite whatever R is."""
    return R @ R.mT


# A chart and its inverse make a flat geometry: geodesic, distance and mean follow from them. A square root exists for
# singular matrices too, and the determinant of a mix can exceed both ends (it swells).
METRICS["power"] = pullback(root, square, swells=True, full_rank=False)

if __name__ == "__main__":
    A, B = torch.diag(torch.tensor([1.0, 4.0])), torch.diag(torch.tensor([9.0, 4.0]))
    print("halfway:", spd.geodesic(A, B, 0.5, metric="power").diagonal().tolist())
    check_augmentation(RMixup(metric="power"))
    print("rmixup along power-Euclidean geodesics keeps the rules of an augmentation")
