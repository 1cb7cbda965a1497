"""rmixup: augment, model and evaluate networks measured on few samples.

Only the public names live here, each loaded when it is first used, so that `import rmixup` is quick and loads
no torch. What may not be here: code.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from rmixup.errors import DataError, FormatError, LeakageError, NotSPDError, RMixupError, StoreError

__version__ = "0.1.0"

# Public name -> where it lives.
_HOME = {
    "Networks": "rmixup.data.networks",
    "load": "rmixup.data.readers",
    "simulate": "rmixup.data.readers.simulate",
    "check": "rmixup.data.doctor",
    "RMixup": "rmixup.augment",
    "MixupResampler": "rmixup.sklearn",
    "NetworkClassifier": "rmixup.sklearn",
    "NetworkRegressor": "rmixup.sklearn",
    "MixupCollate": "rmixup.loader",
}
_PARTS = {"spd", "data", "augment", "testing"}

__all__ = [  # noqa: PLE0604 -- the dict is the one list of public names
    "DataError",
    "FormatError",
    "LeakageError",
    "NotSPDError",
    "RMixupError",
    "StoreError",
    "__version__",
    *_HOME,
    *sorted(_PARTS),
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
    elif name in _PARTS:
        value = import_module(f"rmixup.{name}")
    else:
        raise AttributeError(f"module 'rmixup' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
