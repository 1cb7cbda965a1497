"""Study B: the same methods with graph networks, GCN and GIN."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmixup.study.presets.overall import found_in
from rmixup.study.presets.training import METHODS, build

if TYPE_CHECKING:
    from rmixup.study.presets.findings import Findings
    from rmixup.study.presets.opening import Opened
    from rmixup.study.project import Study
    from rmixup.study.spec import Spec

NAME = "gcn"
BACKBONES = ("gcn", "gin")


def spec_for(found: Opened, *, quick: bool = False, repeats: int | None = None) -> Spec:
    """Eight methods, GCN and GIN, and the linear baselines."""
    return build(NAME, found, {"methods": METHODS, "backbones": BACKBONES}, quick=quick, repeats=repeats)


def finish(study: Study) -> Findings:
    """Tables "gcn" (a row a backbone and method), "comparisons" and "splits", as of the study "overall"."""
    return found_in(NAME, study)
