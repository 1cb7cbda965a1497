"""What a study of the paper found: tables, facts and sentences, ready to be written and drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

# What stands in place of a backbone for the linear baselines, which are the same beside each.
LINEAR = "linear model"


@dataclass(frozen=True)
class Findings:
    """The outcome of one preset.

    Parameters
    ----------
    name : of the preset, such as "labels".
    tables : by name; the first is the one the study is about. Drawn from and written as CSV, Markdown and LaTeX.
    facts : JSON values that belong to the result: data hash, settings, versions.
    sentences : what was found, for people; a result that speaks against the paper is said as plainly as one for it.
    arrays : further numbers that a figure needs, such as sample networks (NumPy).
    """

    name: str
    tables: Mapping[str, pd.DataFrame]
    facts: Mapping[str, Any] = field(default_factory=dict)
    sentences: Sequence[str] = ()
    arrays: Mapping[str, Any] = field(default_factory=dict)
