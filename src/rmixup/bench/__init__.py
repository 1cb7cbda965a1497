"""Speed on this machine, measured side by side: one file a bench, each returns rows.

`BENCHES` maps a name to the module that has `rows(quick)`. May not be here: assertions on absolute times; ratios
within one run are what count.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from rmixup.errors import DataError

BENCHES = {
    "spd": "rmixup.bench.spd",
    "step": "rmixup.bench.step",
    "engine": "rmixup.bench.engine",
    "data": "rmixup.bench.data",
    "roofline": "rmixup.bench.roofline",
    "peers": "rmixup.bench.peers",
    "scale": "rmixup.bench.scale",
    "study": "rmixup.bench.study",
}


COLUMNS = (
    "bench",
    "method",
    "n",
    "people",
    "batch",
    "seconds",
    "cpu_seconds",
    "ratio",
    "error",
    "resident_gb",
    "read_gb_s",
    "gflops",
    "gb_s",
    "floor",
)


def run(name: str = "all", quick: bool = False, **settings: Any) -> dict[str, Any]:
    """Run one bench, or all; return `machine` and `rows` (bench, method, n, batch, seconds, ratio, error).

    `settings` are the ones that a bench's own `rows` takes, beside `quick`.
    """
    from rmixup.bench.timing import describe_machine

    if name != "all" and name not in BENCHES:
        raise DataError(f"no bench is named {name!r}; there are: all, {', '.join(BENCHES)}")
    chosen = BENCHES if name == "all" else {name: BENCHES[name]}
    rows = [
        {"bench": bench, **row}
        for bench, module in chosen.items()
        for row in import_module(module).rows(quick, **settings)
    ]
    return {"machine": describe_machine(), "rows": rows}


def show(result: dict[str, Any]) -> str:
    """The rows as a plain table."""
    columns = [column for column in COLUMNS if any(row.get(column) is not None for row in result["rows"])]
    cells = [columns] + [[_cell(row.get(column)) for column in columns] for row in result["rows"]]
    widths = [max(len(line[k]) for line in cells) for k in range(len(columns))]
    lines = ["  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in cells]
    return "\n".join([f"machine: {result['machine']}", *lines])


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.3g}" if isinstance(value, float) else str(value)
