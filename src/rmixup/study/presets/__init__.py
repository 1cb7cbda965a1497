"""The paper's studies A–J, one file each: what is computed, without pictures.

A study that trains networks is a spec (`spec_for`); one that only measures matrices computes its findings at once
(`compute`). `PRESETS` names them. May not be here: drawing (see `rmixup.report`), command lines.
"""

from __future__ import annotations

from types import ModuleType

from rmixup.study.presets import kernel, labels, swelling

PRESETS: dict[str, ModuleType] = {
    "swelling": swelling,
    "kernel": kernel,
    "labels": labels,
}
