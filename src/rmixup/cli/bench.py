"""`rmixup bench`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from rmixup.cli import completion


def command(  # noqa: PLR0917 -- as many options as the benches have
    name: Annotated[
        str,
        typer.Argument(
            help="spd, step, engine, data, roofline, peers, scale, study; or all.",
            autocompletion=completion.of(completion.BENCHES),
        ),
    ] = "all",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer sizes and repetitions.")] = False,
    people: Annotated[int | None, typer.Option(help="Of scale: people of the largest cohort.")] = None,
    nodes: Annotated[int | None, typer.Option(help="Of scale: nodes of each network.")] = None,
    folder: Annotated[Path | None, typer.Option(help="Of scale: where the cohort is written and removed.")] = None,
    augment: Annotated[str | None, typer.Option(help="Of scale: the method.")] = None,
) -> None:
    """Time the steps on this machine, side by side, as ratios to a stated baseline.

    Example: rmixup bench spd --json
    """
    from rmixup.bench import BENCHES, run, show
    from rmixup.errors import DataError

    given = {"people": people, "nodes": nodes, "folder": folder, "augment": augment}
    settings = {option: value for option, value in given.items() if value is not None}
    if settings and name != "scale":
        raise DataError(f"--{', --'.join(settings)}: these belong to rmixup bench scale, not to {name}")
    parts = []
    for one in BENCHES if name == "all" else [name]:
        if sys.stderr.isatty() and not as_json:
            # A line, not a bar that moves: that would be timed too.
            typer.echo(f"timing {one} ...", err=True)
        parts.append(run(one, quick=quick, **settings))
    result = {"machine": parts[0]["machine"], "rows": [row for part in parts for row in part["rows"]]}
    after = f"Ratios compare within this run only.\nNext: rmixup bench {name} --json > bench.json keeps them"
    typer.echo(json.dumps(result) if as_json else f"{show(result)}\n{after}")
