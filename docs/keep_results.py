"""Keep what a finished study of the paper wrote: its tables and its figure, by the names the results pages use.

    python docs/keep_results.py paper/overall abide-100

copies the tables of paper/overall to docs/_data/results/overall-abide-100.csv (the study's own) and
overall-abide-100-TABLE.csv (the others), its figure to docs/_static/result-overall-abide-100.svg, and prints the table
and the sentences, to be written into docs/results/ with the command that made them. A study that is not complete is
refused; --partial keeps it, for who writes down what is missing.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path

DOCS = Path(__file__).parent
# What is larger belongs beside a release, not into the repository.
LARGEST = 200_000


def keep(folder: Path, data: str, docs: Path = DOCS, partial: bool = False) -> list[Path]:
    """Copy what is small enough; returns the new places."""
    name = folder.name
    missing = unfinished(folder)
    if missing and not partial:
        raise SystemExit(f"{folder}: {missing} runs have no result; finish it, or say --partial")
    places = {
        source: docs / "_data" / "results" / f"{name}-{data}{'' if source.stem == name else f'-{source.stem}'}.csv"
        for source in sorted(folder.glob("*.csv"))
    } | {folder / f"{name}.svg": docs / "_static" / f"result-{name}-{data}.svg"}
    small = {source: place for source, place in places.items() if source.stat().st_size <= LARGEST}
    for source, place in small.items():
        shutil.copyfile(source, place)
    for source in places.keys() - small.keys():
        sys.stderr.write(f"left out, larger than {LARGEST} bytes: {source}\n")
    return list(small.values())


def unfinished(folder: Path) -> int:
    """Runs without a result; studies that train nothing have none."""
    cells = json.loads((folder / "findings.json").read_text(encoding="utf-8"))["facts"].get("cells", {})
    return sum(count for state, count in cells.items() if state != "done")


def main() -> None:
    """Keep one study from the command line."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("folder", type=Path, help="what `rmixup paper NAME` wrote: OUT/NAME")
    parser.add_argument("data", help="name of the data set, as abide-100")
    parser.add_argument("--partial", action="store_true", help="keep a study that is not complete")
    given = parser.parse_args()
    kept = keep(given.folder, given.data, partial=given.partial)
    table = (given.folder / f"{given.folder.name}.md").read_text(encoding="utf-8")
    said = json.loads((given.folder / "findings.json").read_text(encoding="utf-8"))["sentences"]
    print(table, *(f"- {line}" for line in said), "", *kept, sep="\n")


if __name__ == "__main__":
    main()
