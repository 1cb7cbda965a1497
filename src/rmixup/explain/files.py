"""An explanation as files for other programs: TSV for people and Cytoscape, BrainNet Viewer's two, a JSON of all else.

In the TSV a text that a spreadsheet would take for a formula gets a ' in front, as in every table of this package.
May not be here: pictures, torch.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rmixup.data.tsv import field
from rmixup.errors import StoreError
from rmixup.explain.maps import node_sums, off_diagonal
from rmixup.explain.result import LEVEL, Explanation
from rmixup.files import seal
from rmixup.study.export import _no_formula

if TYPE_CHECKING:
    import pandas as pd

FORMAT, SCHEMA = "rmixup explanation", 1
SUMMARY = "summary.json"
_DIGITS = ".6g"
# Lines of the tables that the summary repeats.
_FIRST = 20
_GAP = re.compile(r"[\s\x00-\x1f\x7f]+")


def check_place(path: Path, overwrite: bool) -> None:
    """Refuse a place where an explanation must not be written, before the work is done."""
    if not os.path.lexists(path) or (path.is_dir() and not any(path.iterdir())):
        return
    if not (path / SUMMARY).is_file():
        raise StoreError(f"{path}: something else than an explanation is there; choose another name")
    if not overwrite:
        raise StoreError(f"{path}: there is an explanation already; choose another name, or ask to overwrite it")


def files_of(told: Explanation) -> dict[str, bytes]:
    """Name -> content of every file but the pictures."""
    edges, systems, between = told.edges(), told.system_table(), told.pair_table()
    found = {
        "edges.tsv": tsv(edges),
        "top_edges.tsv": tsv(edges.head(told.top)),
        "nodes.tsv": tsv(told.node_table()),
    }
    if systems is not None and between is not None:
        found |= {"systems.tsv": tsv(systems), "system_pairs.tsv": tsv(between)}
    if told.coordinates is not None:
        found |= {"brainnet.node": brainnet_nodes(told), "brainnet.edge": brainnet_edges(told)}
    return {**found, SUMMARY: seal({"format": FORMAT, "schema": SCHEMA, **summary(told)})}


def summary(told: Explanation) -> dict[str, Any]:
    """What was done, how far it can be trusted, and the first lines of the tables, of plain values."""
    tables = {"edges": told.edges(), "nodes": told.node_table(), "systems": told.system_table()}
    first = {name: _rows(table.head(_FIRST)) for name, table in tables.items() if table is not None}
    return {
        "holds": told.holds,
        "cautions": told.cautions,
        "notes": told.notes,
        "outputs": list(told.outputs),
        "nodes": len(told.nodes),
        "significant": significant(told),
        **told.record,
        "first": first,
    }


def significant(told: Explanation) -> dict[str, int]:
    """How many edges, nodes, systems and pairs of systems have a corrected p-value of at most 0.05."""
    off = off_diagonal(len(told.nodes))
    corrected = {name: values[1][off] if name == "edges" else values[1] for name, values in told.p.items()}
    return {name: int((values <= LEVEL).sum()) for name, values in corrected.items()}


def _rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    return [{name: _plain(value) for name, value in row.items()} for row in table.to_dict("records")]  # type: ignore[misc]


def _plain(value: Any) -> Any:
    return float(format(value, _DIGITS)) if isinstance(value, float) else value


# ---- tables


def tsv(table: pd.DataFrame) -> bytes:
    """A table as tab-separated text, with six digits of each number.

    >>> import pandas as pd
    >>> tsv(pd.DataFrame({"node": ["=A1", "b"], "importance": [0.25, 1 / 3]}))
    b"node\\timportance\\n'=A1\\t0.25\\nb\\t0.333333\\n"
    """
    rows = zip(*(table[name] for name in table.columns), strict=True)
    return "".join(_line(row) for row in (tuple(table.columns), *rows)).encode("utf-8", "backslashreplace")


def _line(row: Sequence[Any]) -> str:
    return "\t".join(field(_no_formula(value) if isinstance(value, str) else _number(value)) for value in row) + "\n"


def _number(value: Any) -> str:
    return format(value, _DIGITS) if np.isfinite(value) else "n/a"


# ---- BrainNet Viewer


def brainnet_nodes(told: Explanation) -> bytes:
    """A line a node: x, y, z, number of its system, size, name without blanks; "-" where nothing is left of a name.

    Sizes are importances, the largest 1, so that the viewer's automatic sizes need no change.
    """
    assert told.coordinates is not None
    sizes = node_sums(told.importance, len(told.nodes))
    sizes = sizes / max(float(sizes.max()), np.finfo(float).tiny)
    systems = told.systems or ("",) * len(told.nodes)
    number = {name: k + 1 for k, name in enumerate(dict.fromkeys(systems))}
    lines = [
        "\t".join([*(format(one, _DIGITS) for one in place), str(number[system]), format(size, ".4f"), _label(name)])
        for name, place, system, size in zip(told.nodes, told.coordinates, systems, sizes, strict=True)
    ]
    return ("\n".join(lines) + "\n").encode("utf-8", "backslashreplace")


def brainnet_edges(told: Explanation) -> bytes:
    """The (n, n) matrix of the top edges, all others 0."""
    full = told.matrix(np.where(told.is_top, told.signed[0] if len(told.outputs) == 1 else told.importance, 0.0))
    return "".join("\t".join(format(one, _DIGITS) for one in row) + "\n" for row in full).encode()


def _label(name: str) -> str:
    return _GAP.sub("_", name.strip()) or "-"
