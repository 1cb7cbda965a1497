"""`make fuzz`: a million inputs for every reader, the spec, the model folder and the results; prints a table.

    python tests/fuzz/run.py [--inputs N] [--seed S] [--target NAME] [--workers K] [--out TABLE.csv] [--findings DIR]

The N inputs are shared out among the targets by what they cost. The same seed gives the same inputs. Exit code 1 says
that something was found; each finding is written to DIR, and its input, put into tests/fuzz/corpus/<target>/, is
replayed by the tests from then on.
"""

from __future__ import annotations

import argparse
import csv
import os
import re
import sys
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

from campaign import Finding, Tally, campaign
from targets import TARGETS

MILLION = 1_000_000
_LEAK = 64.0  # MiB that a worker may grow by
_COLUMNS = (
    "target",
    "inputs",
    "accepted",
    "refused",
    "crashes",
    "hangs",
    "other",
    "slowest_s",
    "growth_mib",
    "inputs_per_s",
)


def shares(total: int, names: list[str]) -> dict[str, int]:
    """How many inputs each target gets; together at least so many."""
    whole = sum(TARGETS[name].share for name in names)
    return {name: -(-TARGETS[name].share * total // whole) for name in names}


def row(name: str, tally: Tally) -> dict[str, str]:
    """A line of the table."""
    values = (
        name, tally.inputs, tally.accepted, tally.refused, tally.crashes, tally.hangs, tally.escaped + tally.writes,
        f"{tally.slowest:.3f}", f"{tally.growth:.1f}", round(tally.inputs / max(tally.seconds, 1e-9)),
    )  # fmt: skip
    return dict(zip(_COLUMNS, map(str, values), strict=True))


def file_name(name: str) -> str:
    """A target's name as a folder's.

    >>> file_name("cell: result.json")
    'cell-result.json'
    """
    return re.sub(r"[^\w.]+", "-", name)


def write_findings(folder: Path, findings: list[Finding]) -> None:
    """One input of each finding, and what came of it."""
    for finding in findings:
        place = folder / file_name(finding.target)
        place.mkdir(parents=True, exist_ok=True)
        number = len(list(place.glob("*.bin")))
        (place / f"{number:03d}.bin").write_bytes(finding.content)
        (place / f"{number:03d}.txt").write_text(f"{finding.kind}\n{finding.what}\n{finding.where}\n")


def say(line: str) -> None:
    """A line now, also into a file."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(arguments: list[str] | None = None) -> int:
    """Fuzz and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=MILLION)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", action="append", choices=list(TARGETS), help="only this one; may be repeated")
    parser.add_argument("--workers", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--out", type=Path, default=None, help="write the table as CSV too")
    parser.add_argument("--findings", type=Path, default=Path("fuzz-findings"))
    given = parser.parse_args(arguments)
    given.findings = given.findings.absolute()
    line = "{:<26} {:>8} {:>8} {:>8} {:>7} {:>5} {:>5} {:>9} {:>10} {:>12}".format
    say(line(*_COLUMNS))
    start, rows, bad = time.perf_counter(), [], 0
    for name, count in shares(given.inputs, given.target or list(TARGETS)).items():
        tally = campaign(name, count, given.seed, given.workers)
        write_findings(given.findings, tally.findings)
        bad += tally.crashes + tally.hangs + tally.escaped + tally.writes + (tally.growth > _LEAK)
        rows.append(row(name, tally))
        say(line(*rows[-1].values()))
        for finding in tally.findings:
            say(f"    {finding.kind}: {finding.what!r:.200} at {finding.where}")
    total = {key: str(sum(int(one[key]) for one in rows)) for key in _COLUMNS[1:7]}
    total |= {key: str(max(float(one[key]) for one in rows)) for key in ("slowest_s", "growth_mib")}
    seconds = time.perf_counter() - start
    rows.append({"target": "all", **total, "inputs_per_s": str(round(int(total["inputs"]) / seconds))})
    say(line(*rows[-1].values()))
    say(f"{seconds:.0f} s, seed {given.seed}, {given.workers} workers; {bad} findings")
    if given.out is not None:
        with given.out.open("w", newline="") as file:
            writer = csv.DictWriter(file, _COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
