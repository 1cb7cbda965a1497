"""`rmixup train`."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmixup.cli import completion

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.progress import TaskID
    from rich.table import Table

    from rmixup.data.networks import Networks
    from rmixup.train.cohort import Listener
    from rmixup.train.engine import Progress
    from rmixup.train.predictor import Predictor

_SIDES = ("validation", "test")
# Written twice under two names where there are two classes.
_SAME_IN_TWO_CLASSES = frozenset({"macro_recall"})


def command(  # noqa: PLR0917 -- typer passes every option by name
    data: Annotated[Path, typer.Argument(help="A folder of rmixup import, or any file or folder it reads.")],
    target: Annotated[list[str] | None, typer.Option(help="Column to predict; repeat for several numbers.")] = None,
    task: Annotated[
        str | None,
        typer.Option(
            help="classification or regression, where the column is unclear.",
            autocompletion=completion.of(completion.TASKS),
        ),
    ] = None,
    groups: Annotated[str | None, typer.Option(help="Column of sites: each side gets its share of each.")] = None,
    backbone: Annotated[
        str,
        typer.Option(
            help="transformer, gcn, gin, brainnetcnn, spdnet, mlp; or linear, tangent.",
            autocompletion=completion.of(completion.BACKBONES),
        ),
    ] = "transformer",
    augment: Annotated[
        str,
        typer.Option(
            help="rmixup, none, vmixup, tangent, ...: how networks are mixed.",
            autocompletion=completion.of(completion.AUGMENTATIONS),
        ),
    ] = "rmixup",
    kind: Annotated[
        str | None,
        typer.Option(
            help="correlation, covariance, ledoit-wolf, oas, partial: matrices from series.",
            autocompletion=completion.of(completion.KINDS),
        ),
    ] = None,
    regularize: Annotated[
        str | None, typer.Option(help="shrink=0.05, floor=1e-6, ledoit-wolf or oas: make matrices positive definite.")
    ] = None,
    cv: Annotated[int | None, typer.Option(min=2, help="Score by so many folds, then train on everybody.")] = None,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the training networks.")] = 200,
    learning_rate: Annotated[float, typer.Option(help="Step size of Adam.")] = 1e-4,
    seed: Annotated[int, typer.Option(help="The same seed gives the same model.")] = 0,
    device: Annotated[str | None, typer.Option(help="cpu or cuda; a GPU where there is one.")] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the model.")] = Path("model"),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a model that is there.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Train one model on one data set, score it on people it has not seen, and write it to a folder.

    70 % of the people train, 10 % select the epoch, 20 % test. Defaults are the paper's protocol.

    Examples: rmixup train my-cohort --target ASD --groups site --out my-model

    rmixup train my-cohort --target age --task regression --backbone tangent --regularize ledoit-wolf --cv 5
    """
    from rmixup.cli.bars import waiting
    from rmixup.cli.places import check_folder, nearest
    from rmixup.train.cohort import Settings, train
    from rmixup.train.folder import check_place, save_model
    from rmixup.train.protocol import Protocol

    check_folder(out)
    check_place(out, overwrite)
    protocol = Protocol(epochs=epochs, learning_rate=learning_rate)
    settings = Settings(backbone, {}, augment, kind, regularize, protocol, seed, device, nearest(out.absolute().parent))
    with waiting(f"reading {data}", quiet or as_json):
        ds, dropped = _labelled(data, target, task, groups)
    with _bar(quiet or as_json) as listen:
        trained = train(ds, settings, folds=cv, listen=listen)
    save_model(out, trained, overwrite)
    if as_json:
        typer.echo(json.dumps(_described(out, trained, dropped)))
    elif not quiet:
        _show(out, data, ds, trained, dropped)


def _labelled(path: Path, target: list[str] | None, task: str | None, groups: str | None) -> tuple[Networks, list[str]]:
    """The data with their labels, and who was left out for want of one."""
    from rmixup.data.readers import load

    ds = load(path, groups=groups, verify=True)
    if target is None and task is None:
        return ds, []
    columns = target or ([ds.target] if isinstance(ds.target, str) else list(ds.target or ()))
    labelled = ds.with_target(columns[0] if len(columns) == 1 else columns, task=task, missing="drop")
    return labelled, list(labelled.provenance.steps[-1]["parameters"]["dropped"])


@contextmanager
def _bar(quiet: bool) -> Iterator[Listener | None]:
    """What is being fitted, epoch, loss, score and time left; for people at a terminal only.

    Logarithms come before the first epoch, and linear models have none: until then, how long it has taken.
    """
    from rmixup.cli.bars import of_tasks

    with of_tasks("{task.fields[said]}", quiet) as shown:
        if shown.disable:
            yield None
            return
        tasks: dict[str, TaskID] = {}
        before = shown.add_task("preparing", total=None, said="")

        def listen(name: str, progress: Progress) -> None:
            if name not in tasks:
                shown.update(before, visible=False)
                tasks[name] = shown.add_task(name, total=progress.epochs, said="")
            loss, score = (f"{float(one[0]):.3f}" for one in (progress.train_loss, progress.validation_score))
            said = f"epoch {progress.epoch}/{progress.epochs}  loss {loss}  validation {score}"
            shown.update(tasks[name], completed=progress.epoch, said=said)

        yield listen


def _described(out: Path, trained: Predictor, dropped: list[str]) -> dict[str, Any]:
    """Everything about the model, for machines."""
    from dataclasses import asdict

    return {
        "model": str(out),
        "backbone": trained.model.backbone,
        "task": trained.model.task,
        "target": trained.target,
        "classes": trained.classes,
        "preparation": asdict(trained.preparation),
        "without_label": dropped,
        **trained.record,
    }


# ---- for people


def _show(out: Path, data: Path, ds: Networks, trained: Predictor, dropped: list[str]) -> None:
    from rich.console import Console
    from rich.markup import escape

    from rmixup.data.labels import shown

    console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    labels = ds.summary()["labels"]
    console.print(f"[bold]{escape(str(data))}[/bold]: {len(ds)} networks of {ds.n_nodes} nodes, {escape(labels)}")
    if dropped:
        console.print(escape(f"Left out for want of a label: {len(dropped)} ({shown(dropped)})."))
    console.print()
    console.print(_cv_table(trained) if "cv" in trained.record["scores"] else _table(trained))
    console.print()
    for line in _remarks(trained):
        console.print(escape(line))
    console.print(escape(f"Wrote {out}.\nNext: rmixup predict {out} NEWDATA -o predictions.tsv"))


def _table(trained: Predictor) -> Table:
    """Scores by side and epoch; a baseline has no epochs."""
    scores = trained.record["scores"]
    epochs = ("best", "last") if trained.record["epochs"] else ("best",)
    heads = {"best": " (best epoch)", "last": " (last epoch)"} if len(epochs) == 2 else {"best": ""}
    table = _empty_table([f"{side}{heads[epoch]}" for side in _SIDES for epoch in epochs])
    for name in _names(scores["test"]["best"], trained):
        table.add_row(name, *(_number(scores[side][epoch][name]) for side in _SIDES for epoch in epochs))
    return table


def _cv_table(trained: Predictor) -> Table:
    """Mean and standard deviation over the folds."""
    scores, folds = trained.record["scores"]["cv"], len(trained.record["folds"])
    epochs = {"best": "best epoch", "last": "last epoch"} if trained.record["epochs"] else {"best": "test"}
    table = _empty_table([f"{head}, mean ± sd of {folds} folds" for head in epochs.values()])
    for name in _names(scores["best"], trained):
        table.add_row(name, *(_spread(scores[epoch][name], folds) for epoch in epochs))
    return table


def _empty_table(columns: list[str]) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column("score")
    for column in columns:
        table.add_column(column, justify="right")
    return table


def _names(scores: dict[str, Any], trained: Predictor) -> list[str]:
    two = trained.classes is not None and len(trained.classes) == 2
    return [name for name in scores if not (two and name in _SAME_IN_TWO_CLASSES)]


def _number(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.3f}" if abs(value) < 1000 else f"{value:.4g}"


def _spread(found: dict[str, Any], folds: int) -> str:
    if found["mean"] is None:
        return "undefined"
    part = "" if found["folds"] == folds else f" ({found['folds']} folds)"
    sd = "" if found["sd"] is None else f" ± {_number(found['sd'])}"
    return f"{_number(found['mean'])}{sd}{part}"


def _remarks(trained: Predictor) -> list[str]:
    """How the model came about, and what to know of its scores."""
    record, people = trained.record, trained.record["people"]
    sides = f"{people['train']} people, {people['validation']} for validation, {people['test']} for the test"
    if "cv" in record["scores"]:
        sides = f"{people['train']} people, {people['validation']} for validation; the folds gave the scores"
    lines = [f"Solved on {sides}."]
    if record["epochs"]:
        best, last = record["epochs"]["best"], record["epochs"]["last"]
        lines = [
            f"The model is that of epoch {best} of {last} (by validation {record['selected_by']}), trained on {sides}."
        ]
    if record["diverged"] is not None:
        lines.append(
            f"The training loss was not finite from epoch {record['diverged']} on: try a smaller --learning-rate."
        )
    for side in _SIDES:
        reasons = record["scores"].get(side, {}).get("undefined", {})
        lines += [f"{side}: {name} is undefined: {why}." for name, why in reasons.items()]
    return lines
