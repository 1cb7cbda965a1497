"""The doors for scikit-learn and imbalanced-learn. May not be here: what the doors lead to."""

from __future__ import annotations

from rmixup.sklearn.estimators import NetworkClassifier, NetworkRegressor
from rmixup.sklearn.resampler import MixupResampler

__all__ = ["MixupResampler", "NetworkClassifier", "NetworkRegressor"]
