"""`rmixup explain`."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd
    from rich.progress import TaskID
    from rich.table import Table

    from rmixup.data.networks import Networks
    from rmixup.explain.refits import Listener
    from rmixup.explain.result import Explanation

_SHOWN = 8
_WIDTH = 120


def command(  # noqa: PLR0917 -- typer passes every option by name
    model: Annotated[Path, typer.Argument(help="A folder of rmixup train.")],
    data: Annotated[Path, typer.Argument(help="People with labels: those it was trained on, or others.")],
    groups: Annotated[str | None, typer.Option(help="Column of sites: labels are permuted within each.")] = None,
    method: Annotated[str, typer.Option(help="auto, weights (linear models), pattern, integrated-gradients.")] = "auto",
    systems: Annotated[
        str, typer.Option(help="names: read off the nodes' names; none; or a table TABLE[:COLUMN] of node and system.")
    ] = "names",
    coordinates: Annotated[
        Path | None, typer.Option(help="A table of node, x, y, z in mm (MNI), where the data have none.")
    ] = None,
    folds: Annotated[int, typer.Option(min=2, help="Parts; each refit learns from all but one. 2: halves.")] = 2,
    repeats: Annotated[int, typer.Option(min=0, help="Times it is fitted on all parts; 0: the model alone.")] = 3,
    permutations: Annotated[
        int | None, typer.Option(min=0, help="Of the labels: 100 for linear models, 0 for networks, which take long.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same explanation.")] = 0,
    device: Annotated[str | None, typer.Option(help="cpu or cuda; a GPU where there is one.")] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of tables and pictures.")] = Path("explanation"),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an explanation that is there.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> int:
    """Tell which edges, nodes and systems a model goes by, by their names, and how far that can be trusted.

    The model is fitted anew on halves of the people; the maps of these refits are averaged and compared with each
    other and with those of permuted labels. Exits 1 where they are no better than chance: then do not interpret them.

    Examples: rmixup explain my-model my-cohort --out explanation

    rmixup explain my-model my-cohort --systems atlas.tsv:network --coordinates atlas.tsv --permutations 1000
    """
    from rmixup.cli.bars import waiting
    from rmixup.cli.places import check_folder
    from rmixup.data.readers import load
    from rmixup.explain import explain
    from rmixup.explain.files import check_place, summary
    from rmixup.report.explanation import write
    from rmixup.train.folder import load_model

    check_folder(out)
    check_place(out, overwrite)
    predictor = load_model(model)
    with waiting(f"reading {data}", quiet or as_json):
        ds = load(data, groups=groups, verify=True)
    with _bar(quiet or as_json) as listen:
        told = explain(
            predictor, ds, method=method, folds=folds, repeats=repeats, permutations=permutations, systems=systems,
            coordinates=coordinates, seed=seed, device=device, listen=listen,
        )  # fmt: skip
    with waiting(f"drawing {out}", quiet or as_json):
        paths, missing = write(told, out, overwrite)
    if as_json:
        files = [str(path) for path in paths]
        typer.echo(json.dumps({"out": str(out), "files": files, "missing": missing, **summary(told)}))
    elif not quiet:
        _show(told, ds, data, out, missing)
    return 1 if told.holds is False else 0


@contextmanager
def _bar(quiet: bool) -> Iterator[Listener | None]:
    """Refits and permutations, how many are done and the time left; for people at a terminal only."""
    from rmixup.cli.bars import of_tasks

    with of_tasks("{task.completed:.1f}/{task.total:.0f}", quiet) as shown:
        if shown.disable:
            yield None
            return
        tasks: dict[str, TaskID] = {}

        def listen(what: str, done: float, total: float) -> None:
            if what not in tasks:
                tasks[what] = shown.add_task(what, total=total)
            shown.update(tasks[what], completed=done)

        yield listen


# ---- for people


def _show(told: Explanation, ds: Networks, data: Path, out: Path, missing: list[str]) -> None:
    from rich.console import Console
    from rich.markup import escape

    console = Console(highlight=False, width=None if sys.stdout.isatty() else _WIDTH)
    console.print(f"[bold]{escape(str(data))}[/bold]: {len(ds)} networks of {ds.n_nodes} nodes")
    for note in told.notes:
        console.print(escape(f"{note}."))
    console.print()
    for line in _trust(told):
        console.print(escape(line))
    for caution in told.cautions:
        console.print(f"[yellow]Caution:[/yellow] {escape(caution)}")
    console.print()
    console.print(_table(told.edges().head(_SHOWN), ["source", "target"], ["importance", "signed", "stability"]))
    console.print()
    console.print(_table(told.node_table().head(_SHOWN), ["node"], ["importance", "signed"]))
    console.print()
    for line in missing:
        console.print(escape(line))
    console.print(escape(f"Wrote {out}: tables and pictures; summary.json says how all came about."), soft_wrap=True)
    console.print(escape(_next(told, out)), soft_wrap=True)


def _trust(told: Explanation) -> list[str]:
    """How well refits predict and agree, beside chance."""
    if told.stability is None or told.prediction is None:
        return []
    skill, agreed = told.prediction, told.stability
    chance = "" if agreed.chance_high is None else f"; permuted labels stay below {agreed.chance_high:.2f} (95 %)"
    lines = [
        f"People not seen are predicted with {skill.score} {skill.mean:.2f} ({skill.lowest:.2f} to "
        f"{skill.highest:.2f}); guessing stays below {skill.chance_high:.2f} (95 %){_p(skill.p)}.",
        f"Maps of two refits agree by {agreed.agreement:.2f}{chance}{_p(agreed.p)}; of their {agreed.top} top edges "
        f"they share {100 * agreed.overlap:.0f} %, by chance {100 * agreed.overlap_chance:.0f} %.",
    ]
    if told.p:
        from rmixup.explain.files import significant

        counts = significant(told)
        names = {"edges": "edges", "nodes": "nodes", "systems": "systems", "pairs": "pairs of systems"}
        lines.append(
            f"Significant (corrected): {', '.join(f'{counts[k]} {v}' for k, v in names.items() if k in counts)}."
        )
    return lines


def _p(p: float | None) -> str:
    return "" if p is None else f", p = {p:.2g}"


def _table(rows: pd.DataFrame, names: list[str], numbers: list[str]) -> Table:
    """The first rows of a table, shares in percent; columns that there are none of are left out."""
    from rich.markup import escape
    from rich.table import Table

    from rmixup.report.names import short

    known = [name for name in [*numbers, "p_corrected"] if name in rows]
    heads = {"importance": "importance (%)", "signed": "signed (%)", "stability": "in top of refits (%)"}
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for name in names:
        table.add_column(name)
    for name in known:
        table.add_column(heads.get(name, name), justify="right")
    for row in rows.to_dict("records"):
        values: list[Any] = [f"{row[k]:.3f}" if k == "p_corrected" else f"{100 * row[k]:.2f}" for k in known]
        table.add_row(*(escape(short(row[name], 40)) for name in names), *values)
    return table


def _next(told: Explanation, out: Path) -> str:
    if told.holds is False:
        return "Next: do not interpret these maps; more people, or rmixup train with another --backbone, may help."
    first = "connectome.png" if (out / "connectome.png").is_file() else "top_edges.png"
    viewers = ", brainnet.node and brainnet.edge into BrainNet Viewer" if told.coordinates is not None else ""
    return f"Next: look at {out / first}; top_edges.tsv and nodes.tsv go into Cytoscape{viewers}."
