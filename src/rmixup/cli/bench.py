"""`rmixup bench`."""

from __future__ import annotations

import json
from typing import Annotated

import typer


def command(
    name: Annotated[str, typer.Argument(help="Which bench, or 'all'.")] = "all",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    quick: Annotated[bool, typer.Option(help="Fewer sizes and repetitions.")] = False,
) -> None:
    """Time the steps on this machine, side by side, as ratios to a stated baseline.

    Example: rmixup bench spd --json
    """
    from rmixup.bench import run, show

    result = run(name, quick=quick)
    after = "Ratios compare within this run only. Next: --json keeps them for later."
    typer.echo(json.dumps(result) if as_json else f"{show(result)}\n{after}")
