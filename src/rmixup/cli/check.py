"""`rmixup check`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rmixup.data.doctor import Report

_COLOURS = {"error": "bold red", "warning": "yellow", "info": "blue"}


def command(  # noqa: PLR0917 -- typer passes every option by name
    path: Annotated[Path, typer.Argument(help="A folder of rmixup import, or any file or folder it reads.")],
    target: Annotated[str | None, typer.Option(help="Column to predict, instead of the one imported.")] = None,
    groups: Annotated[str | None, typer.Option(help="Column of sites.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object: ok, findings.")] = False,
    figure: Annotated[Path | None, typer.Option(help="Draw the summary here (.png, .svg, .pdf).")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors; exit 0 or 1.")] = False,
) -> int:
    """Examine a data set: what is wrong with it, whom it concerns, and what to do. Exits 1 if anything is an error.

    Example: rmixup check my-cohort --figure health.png
    """
    from rmixup.cli.bars import waiting
    from rmixup.cli.places import check_file
    from rmixup.data.doctor import check
    from rmixup.data.readers import load

    if figure is not None:
        check_file(figure, "--figure")
    with waiting(f"reading {path}", quiet or as_json) as now:
        ds = load(path, target=target, groups=groups, verify=True)
        now(f"examining {len(ds)} networks")
        report = check(ds)
        if figure is not None:
            from rmixup.report import health

            now("drawing")
            health.write(health.draw(ds, report), figure)
    if as_json:
        typer.echo(report.to_json())
    elif not quiet:
        _show(report, path, figure)
    return 0 if report.ok else 1


def _show(report: Report, path: Path, figure: Path | None) -> None:
    """A table for people: coloured on a terminal, plain in a pipe."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from rmixup.data.doctor import concerned

    console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    console.print(f"[bold]{escape(str(path))}[/bold]: {escape(report.verdict)}")
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 1, 0))
    table.add_column(no_wrap=True)
    table.add_column(ratio=1)
    for finding in report.findings:
        colour, whom = _COLOURS[finding.severity], concerned(finding)
        who = f"\n[dim]who[/dim] {escape(whom)}" if whom else ""
        title = f"[bold]{finding.code}[/bold]"
        words = f"{title}\n{escape(finding.message)}{who}\n[dim]do[/dim]  {escape(finding.remedy)}"
        table.add_row(f"[{colour}]{finding.severity}[/{colour}]", words)
    if report.findings:
        console.print()
        console.print(table)
    if figure is not None:
        console.print(f"Wrote {escape(str(figure))}.")
    console.print(escape(report.advice))
    if report.ok:
        console.print(escape(f"Next: rmixup train {path} --out model"), soft_wrap=True)
