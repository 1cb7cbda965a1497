"""`rmixup predict`."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rmixup.train.predictor import Predictions, Predictor


def command(  # noqa: PLR0917 -- typer passes every option by name
    model: Annotated[Path, typer.Argument(help="A folder of rmixup train.")],
    data: Annotated[Path, typer.Argument(help="New people, in anything that rmixup import reads.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Table to write (.tsv).")] = Path("predictions.tsv"),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a table that is there.")] = False,
    device: Annotated[str | None, typer.Option(help="cpu or cuda; a GPU where there is one.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Apply a model to new people: one row each, with the prediction and the probability of each class.

    The networks are checked first: their nodes (by name, where there are names), their kind, their values. Where the
    data hold the true labels, scores are printed too.

    Example: rmixup predict my-model new-cohort -o predictions.tsv
    """
    from rmixup.cli.bars import waiting
    from rmixup.cli.places import check_file
    from rmixup.data.readers import load
    from rmixup.errors import StoreError
    from rmixup.train.folder import load_model
    from rmixup.train.predictor import write_predictions

    check_file(out)
    if out.exists() and not overwrite:
        raise StoreError(f"{out}: exists already; choose another name, or replace it with --overwrite")
    predictor = load_model(model)
    with waiting(f"reading {data}", quiet or as_json) as now:
        ds = load(data, verify=True)
        now(f"predicting {len(ds)} people")
        found = predictor.predict(ds, device)
    scores, scored, why = predictor.score(ds, found)
    write_predictions(found, out)
    said = {
        "path": str(out),
        "people": len(found.subjects),
        "target": predictor.target,
        "task": predictor.model.task,
        "predicted": None if found.classes is None else dict(Counter(found.labels)),
        "notes": found.notes,
        "scored": scored,
        "scores": scores,
        "not_scored_because": why,
    }
    if as_json:
        typer.echo(json.dumps(said))
    elif not quiet:
        typer.echo("\n".join(_lines(said, found, predictor)))


def _lines(said: dict[str, Any], found: Predictions, predictor: Predictor) -> list[str]:
    """For people: what was done, what came out, and how right it is where that is known."""
    lines = [f"Note: {note}." for note in said["notes"]]
    what = predictor.target if isinstance(predictor.target, str) else ", ".join(predictor.target or ())
    lines.append(f"{said['people']} people, {what or predictor.model.task}: {_outcome(said, found)}.")
    if said["scored"]:
        lines.append(f"The true labels of {said['scored']} are in the data, so here is how they are met:")
        width = max(map(len, said["scores"]))
        for name, value in said["scores"].items():
            lines.append(f"  {name:<{width}}  {'undefined' if value is None else format(value, '.3f')}")
    elif said["not_scored_because"]:
        lines.append(f"Not scored: {said['not_scored_because']}.")
    return [*lines, f"Wrote {said['path']}.\nNext: open it in a spreadsheet, or read it with pandas.read_table."]


def _outcome(said: dict[str, Any], found: Predictions) -> str:
    if said["predicted"] is not None:
        return ", ".join(f"{name} {count}" for name, count in sorted(said["predicted"].items()))
    low, high = found.values.min(axis=0), found.values.max(axis=0)
    return ", ".join(f"{a:.4g} to {b:.4g}" for a, b in zip(low, high, strict=True))
