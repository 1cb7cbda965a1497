"""`rmixup report`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def command(
    folder: Annotated[Path, typer.Argument(help="A study's folder.")],
    out: Annotated[Path | None, typer.Option(help="Folder to write to; FOLDER/report by default.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object: answer, kind, report, files.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Write what a study shows as one page that needs no network, with its figures and tables beside it.

    Example: rmixup report results --out results-report
    """
    from rmixup.cli.bars import of_figures
    from rmixup.cli.places import check_folder
    from rmixup.report.html import tell, write
    from rmixup.study.project import open_study

    study, place = open_study(folder), out or folder / "report"
    check_folder(place)
    with of_figures(quiet or as_json) as drawing:
        told = tell(study)
        written = write(told, place, drawing)
    if as_json:
        answer = {"answer": told.answer.sentence, "kind": told.answer.kind}
        typer.echo(json.dumps({**answer, "report": str(written[0]), "files": [str(path) for path in written]}))
    elif not quiet:
        typer.echo("\n\n".join([told.answer.sentence, *told.answer.beside]))
        typer.echo(f"\nWrote {written[0]} and {len(written) - 1} figures and tables.")
        typer.echo(f"Next: open {written[0]} in a browser.")
