"""Augmentation: one file a method, one for pair policies; drawing apart from applying.

    aug(x, y, seed=0)                                   one raw batch
    prepared = aug.prepare(train)                       every fitted thing, once
    plan = prepared.draw(indices, key)                  chance, from its key alone
    x, y = prepared.apply(plan)                         pure, on prepared.device

`METHODS` lists the methods by name, `PAIRS` the pair policies. May not be here: data sets from disk, models, training;
nothing beyond torch and NumPy.
"""

from __future__ import annotations

from typing import Any

from rmixup.augment.bank import Bank
from rmixup.augment.base import Augmentation, Batch, Mixing, Prepared, Training
from rmixup.augment.cache import CacheWarning
from rmixup.augment.cmixup import CMixup
from rmixup.augment.dmixup import DMixup
from rmixup.augment.dropedge import DropEdge
from rmixup.augment.dropnode import DropNode
from rmixup.augment.gmixup import GMixup
from rmixup.augment.names import lookup
from rmixup.augment.none import NoAugmentation
from rmixup.augment.offlog import OffLog
from rmixup.augment.pairs import (
    PAIRS,
    CrossGroup,
    LabelKernel,
    Nearest,
    Policy,
    SameClass,
    SameGroup,
    Shuffle,
    Uniform,
)
from rmixup.augment.plan import Plan
from rmixup.augment.rmixup import RMixup
from rmixup.augment.tangent import Tangent
from rmixup.augment.vmixup import VMixup

METHODS: dict[str, type[Augmentation]] = {
    "none": NoAugmentation,
    "vmixup": VMixup,
    "dmixup": DMixup,
    "dropnode": DropNode,
    "dropedge": DropEdge,
    "gmixup": GMixup,
    "cmixup": CMixup,
    "rmixup": RMixup,
    "tangent": Tangent,
    "offlog": OffLog,
}

__all__ = [
    "METHODS",
    "PAIRS",
    "Augmentation",
    "Bank",
    "Batch",
    "CMixup",
    "CacheWarning",
    "CrossGroup",
    "DMixup",
    "DropEdge",
    "DropNode",
    "GMixup",
    "LabelKernel",
    "Mixing",
    "Nearest",
    "NoAugmentation",
    "OffLog",
    "Plan",
    "Policy",
    "Prepared",
    "RMixup",
    "SameClass",
    "SameGroup",
    "Shuffle",
    "Tangent",
    "Training",
    "Uniform",
    "VMixup",
    "as_augmentation",
]


def as_augmentation(method: str | Augmentation, **settings: Any) -> Augmentation:
    """A method by its name and settings, or the method itself.

    >>> as_augmentation("dropnode", rate=0.2)
    DropNode(rate=0.2, published=False)
    """
    if isinstance(method, Augmentation):
        if settings:
            raise TypeError("settings go with a method's name; give them to the method itself where it is an object")
        return method
    return lookup(method, METHODS, "augmentation")(**settings)
