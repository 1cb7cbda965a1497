"""The figures of the paper's studies, by the name of the preset, and everything of a study written to a folder.

`FIGURES` maps a name to draw(findings) -> Figure. May not be here: what is measured (see `rmixup.study.presets`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from rmixup.report.paper_methods import draw_methods
from rmixup.report.paper_tables import latex, markdown
from rmixup.report.paper_training import draw_curves, draw_time
from rmixup.report.paper_trends import draw_alpha, draw_length, draw_sample_size
from rmixup.report.quality import draw_kernel, draw_labels, draw_swelling
from rmixup.report.swelling import write as write_figure
from rmixup.study.export import write_table
from rmixup.study.files import write as write_file

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure

    from rmixup.study.presets.findings import Findings

FIGURES: dict[str, Callable[[Findings], Figure]] = {
    "overall": draw_methods,
    "gcn": draw_methods,
    "sample-size": draw_sample_size,
    "length": draw_length,
    "alpha": draw_alpha,
    "time": draw_time,
    "swelling": draw_swelling,
    "kernel": draw_kernel,
    "labels": draw_labels,
    "curves": draw_curves,
}


def write(findings: Findings, folder: Path) -> list[Path]:
    """Write every table as CSV, the one the study is about also as Markdown and LaTeX, the figure, and findings.json.

    Files are written one by one, each whole or not at all; findings.json comes last and names the others.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = [write_table(table, folder / f"{name}.csv") for name, table in findings.tables.items()]
    main = next(iter(findings.tables))
    for ending, rendered in (("md", markdown), ("tex", latex)):
        path = folder / f"{main}.{ending}"
        write_file(path, rendered(findings.tables[main]).encode())
        files.append(path)
    files += write_figure(FIGURES[findings.name](findings), folder, findings.name)
    last = folder / "findings.json"
    write_file(last, described(findings, [path.name for path in files]).encode())
    return [*files, last]


def described(findings: Findings, files: list[str]) -> str:
    """The JSON text of a study: its sentences, what they rest on, and the files beside it."""
    body = {"study": findings.name, "sentences": list(findings.sentences), "facts": findings.facts, "files": files}
    return json.dumps(_plain(body), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    """JSON values: NumPy's numbers as Python's, what is not finite as null."""
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    return None if isinstance(value, float) and not math.isfinite(value) else value
