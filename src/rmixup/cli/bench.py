"""`rmixup bench`."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from rmixup.cli import completion


def command(
    name: Annotated[
        str, typer.Argument(help="spd, step, engine, data; or all.", autocompletion=completion.of(completion.BENCHES))
    ] = "all",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer sizes and repetitions.")] = False,
) -> None:
    """Time the steps on this machine, side by side, as ratios to a stated baseline.

    Example: rmixup bench spd --json
    """
    from rmixup.bench import BENCHES, run, show

    parts = []
    for one in BENCHES if name == "all" else [name]:
        if sys.stderr.isatty() and not as_json:
            # A line, not a bar that moves: that would be timed too.
            typer.echo(f"timing {one} ...", err=True)
        parts.append(run(one, quick=quick))
    result = {"machine": parts[0]["machine"], "rows": [row for part in parts for row in part["rows"]]}
    after = f"Ratios compare within this run only.\nNext: rmixup bench {name} --json > bench.json keeps them"
    typer.echo(json.dumps(result) if as_json else f"{show(result)}\n{after}")
