"""Checks for people's own parts: does a backbone, an augmentation or an estimator keep the rules that others rely on?

Each check raises one AssertionError that names every rule broken. May not be here: what is checked.
"""

from rmixup.testing.augmentations import check_augmentation
from rmixup.testing.backbones import check_backbone
from rmixup.testing.estimators import check_network_estimator

__all__ = ["check_augmentation", "check_backbone", "check_network_estimator"]
