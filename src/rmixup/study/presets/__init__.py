"""The paper's studies A–J, one file each: what is computed, without pictures.

A study that trains networks has `spec_for(opened) -> Spec`, which the ordinary runner runs, and `finish(study) ->
Findings`; one that only measures matrices has `compute(ds) -> Findings`. `PRESETS` maps a name to its module, in the
paper's order. May not be here: drawing (see `rmixup.report`), command lines.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from rmixup.errors import DataError

if TYPE_CHECKING:
    from types import ModuleType

PRESETS: dict[str, str] = {
    "overall": "rmixup.study.presets.overall",
    "gcn": "rmixup.study.presets.gcn",
    "sample-size": "rmixup.study.presets.sample_size",
    "length": "rmixup.study.presets.length",
    "alpha": "rmixup.study.presets.alpha",
    "time": "rmixup.study.presets.times",
    "swelling": "rmixup.study.presets.swelling",
    "kernel": "rmixup.study.presets.kernel",
    "labels": "rmixup.study.presets.labels",
    "curves": "rmixup.study.presets.curves",
}


def find(name: str) -> ModuleType:
    """The module of a study, loaded when it is needed.

    >>> find("labels").__name__
    'rmixup.study.presets.labels'
    """
    if name not in PRESETS:
        raise DataError(f"no study of the paper is named {name!r}; there are: {', '.join(PRESETS)}, all")
    return import_module(PRESETS[name])
