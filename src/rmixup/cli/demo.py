"""`rmixup demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    out: Annotated[Path, typer.Option(help="Folder to write to.")] = Path("demo"),
) -> None:
    """A first look at what a geodesic does to a network.

    Example: rmixup demo --out demo
    """
    from rmixup.report.swelling import draw_demo

    path = draw_demo(out)
    typer.echo(f"Wrote {path}. Open it; then try `rmixup bench spd`.")
