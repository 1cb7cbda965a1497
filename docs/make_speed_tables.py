"""Write the tables of docs/speed.md from what `rmixup bench NAME --json` printed.

    rmixup bench step --json > step.json
    python docs/make_speed_tables.py cpu step.json ...

writes docs/_data/bench-step-cpu.csv ("cpu": two CPU cores; "h200": one H200).
"""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

DATA = Path(__file__).with_name("_data")
TITLES = {
    "method": "what",
    "n": "n",
    "people": "people",
    "batch": "batch",
    "seconds": "ms",
    "cpu_seconds": "CPU s",
    "ratio": "ratio",
    "error": "error",
    "resident_gb": "peak GB resident",
    "read_gb_s": "GB/s read",
    "gflops": "Gflop/s",
    "gb_s": "GB/s",
    "floor": "floor, ms",
}
FORMATS = {"error": "{:.1e}", "people": "{:.0f}", "n": "{:.0f}", "batch": "{:.0f}"}


def cell(row: dict, column: str) -> str:
    value = row.get(column)
    if value is None or isinstance(value, str):
        return value or ""
    if column in {"seconds", "floor"}:
        value *= 1000
    text = FORMATS.get(column, "{:.3g}").format(value)
    return text if column in FORMATS or "e" not in text else f"{value:.0f}"


def write(machine: str, source: Path) -> Path:
    rows = json.loads(source.read_text())["rows"]
    columns = [column for column in TITLES if any(row.get(column) is not None for row in rows)]
    target = DATA / f"bench-{rows[0]['bench']}-{machine}.csv"
    with target.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow([TITLES[column] for column in columns])
        table.writerows([cell(row, column) for column in columns] for row in rows)
    return target


if __name__ == "__main__":
    for name in sys.argv[2:]:
        print(write(sys.argv[1], Path(name)))
