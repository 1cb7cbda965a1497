"""Explanations: which edges, nodes and systems a model goes by, in the names of the data, and how far to trust that.

`explain` is the one door, `Explanation` what it gives. Attribution, refits, what is known of the nodes, the result and
its files are one module each; `maps`, `result` and `files` load no torch, so that reports can use them. May not be
here: pictures (`rmixup.report.explanation`), training loops, readers of data sets.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rmixup.explain.explaining import explain
    from rmixup.explain.result import Explanation

__all__ = ["Explanation", "explain"]

_HOME = {"explain": "rmixup.explain.explaining", "Explanation": "rmixup.explain.result"}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'rmixup.explain' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
