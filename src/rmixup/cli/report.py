"""`rmixup report`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def command(
    folder: Annotated[Path, typer.Argument(help="A study's folder.")],
    out: Annotated[Path | None, typer.Option(help="Folder to write to; FOLDER/report by default.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object: report, files.")] = False,
) -> None:
    """Write what a study shows as one page that needs no network, with its figures and tables beside it.

    Example: rmixup report results --out results-report
    """
    from rmixup.report.html import write_report
    from rmixup.study.project import open_study

    study = open_study(folder)
    written = write_report(study, out or folder / "report")
    if as_json:
        typer.echo(json.dumps({"report": str(written[0]), "files": [str(path) for path in written]}))
    else:
        typer.echo(f"Wrote {written[0]}, with {len(written) - 1} figures and tables beside it. Open it in a browser.")
