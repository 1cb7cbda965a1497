"""`rmixup fetch`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Fetch a public cohort and verify it.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Fetch a public cohort and verify it."""


@app.command()
def abide(  # noqa: PLR0917 -- typer passes every option by name
    out: Annotated[Path, typer.Argument(help="Folder to write; it must not exist.")],
    atlas: Annotated[str, typer.Option(help="cc200, ho, aal, dosenbach160, …")] = "cc200",
    cache: Annotated[Path | None, typer.Option(help="Where the downloads are kept (nilearn's own folder).")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace OUT if rmixup wrote it.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """ABIDE I, the 1009 people with 100 frames or more: 493 with autism, 516 controls.

    Example: rmixup fetch abide abide-cc200
    """
    from rmixup.cli.import_ import bar, say_written
    from rmixup.cli.places import check_folder
    from rmixup.data.readers.fetch import fetch_abide

    check_folder(out, "OUT")
    with bar(quiet or as_json) as progress:
        ds = fetch_abide(out, atlas, cache, overwrite, progress)
    say_written(out, ds, as_json, quiet)
