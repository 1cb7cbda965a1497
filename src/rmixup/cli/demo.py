"""`rmixup demo`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rmixup.report.html import Told
    from rmixup.study.project import Study


def command(
    out: Annotated[Path, typer.Option(help="Folder to write to; a demo that is there is continued.")] = Path("demo"),
    quick: Annotated[
        bool, typer.Option("--quick", help="Half a minute: shows that all works, and nothing about augmentation.")
    ] = False,
    processes: Annotated[int, typer.Option(min=1, help="Worker processes.")] = 2,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object: answer, report, study.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> int:
    """A small whole study on simulated people, whose truth is known: no data needed, a report at the end.

    Trains a Transformer with and without augmentation and two linear models on the same splits; about two minutes on
    two cores.

    Example: rmixup demo --out demo
    """
    from rmixup.cli.bars import of_cells, of_figures
    from rmixup.cli.places import check_folder
    from rmixup.report.html import tell, write
    from rmixup.study import demo, work
    from rmixup.study.executors import executor_for
    from rmixup.study.runner import ending_on_sigterm, run

    check_folder(out)
    quietly = quiet or as_json
    study = demo.prepare(out, quick)
    with ending_on_sigterm(), of_cells(quietly) as listener:
        summary = run(study, work.work, executor_for(work.work, study, processes), listener)
    with of_figures(quietly) as drawing:
        told = tell(study)
        page = write(told, out, drawing)[0]
    _draw_swelling(out)
    if as_json or not quiet:
        _say(study, told, page, as_json)
    return 0 if summary.complete else 1


def _draw_swelling(out: Path) -> None:
    """Two networks of the cohort's kind and their mixes in six geometries."""
    import numpy as np
    import torch

    from rmixup.data.readers.simulate import simulate
    from rmixup.report.swelling import draw, write
    from rmixup.spd.swelling import compare

    a, b = np.array(simulate(n_subjects=2, n_nodes=60, n_frames=120, n_sites=1).matrices)
    measured = compare(torch.from_numpy(a), torch.from_numpy(b))
    networks = {
        "network A": a,
        "halfway, straight line": measured.midpoints["euclid"],
        "halfway, log-Euclidean": measured.midpoints["logeuclid"],
    }
    along = {name: path.log_det for name, path in measured.profiles.items()}
    write(draw(measured.profiles["euclid"].t, along, networks), out)


def _say(study: Study, told: Told, page: Path, as_json: bool) -> None:
    answer, simulated = told.answer, told.examined.simulated
    if as_json:
        found = {"answer": answer.sentence, "kind": answer.kind, "beside": answer.beside, "simulated": simulated}
        typer.echo(json.dumps({**found, "report": str(page), "study": str(study.folder)}))
        return
    typer.echo("\n\n".join([simulated, answer.sentence, *answer.beside]))
    typer.echo(f"\nWrote {page}: open it in a browser.")
    typer.echo("Next, with your own networks: rmixup import SOURCE my-cohort; rmixup study new mine.toml")
