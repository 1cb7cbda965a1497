"""`rmixup import`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmixup.cli import completion

if TYPE_CHECKING:
    from rmixup.data.networks import Networks

Text = str | None
Texts = list[str] | None
File = Path | None
Int = int | None
Share = float | None


def _panel(title: str) -> Callable[..., Any]:
    def option(text: str, *flags: str, **more: Any) -> Any:
        return typer.Option(*flags, help=text, rich_help_panel=title, **more)

    return option


_label = _panel("Labels, joined by subject id")
_repair = _panel("Connectivity and repair, recorded in the provenance")
_file = _panel("Stacks and one file a subject")
_scan = _panel("Atlases, conditions, scans")
_gene = _panel("Gene expression")


def command(  # noqa: PLR0917 -- typer passes every option by name
    source: Annotated[Path, typer.Argument(help="File or folder with series, matrices or expression.")],
    out: Annotated[Path, typer.Argument(help="Folder to write; it must not exist.")],
    layout: Annotated[
        str,
        typer.Option(
            help="pcp, bids, mat, arrays, tables, expression; auto finds out.",
            autocompletion=completion.of(completion.LAYOUTS),
        ),
    ] = "auto",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace OUT if rmixup wrote it.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
    labels: Annotated[File, _label("Table of labels; found beside the data.")] = None,
    target: Annotated[Texts, _label("Column to predict; repeat for several.")] = None,
    task: Annotated[Text, _label("classification or regression, where the column does not say.")] = None,
    groups: Annotated[Text, _label("Column of sites.")] = None,
    families: Annotated[Text, _label("Column of families, kept together by splits.")] = None,
    id_column: Annotated[Text, _label("Column of subject ids.")] = None,
    where: Annotated[Texts, _label("COLUMN=VALUE: use these people only.")] = None,
    allow_missing: Annotated[bool, _label("Leave out people without a row.", "--allow-missing")] = False,
    drop_unlabelled: Annotated[bool, _label("Leave out people without a label.", "--drop-unlabelled")] = False,
    kind: Annotated[
        Text,
        _repair(
            "correlation, covariance, ledoit-wolf, oas, partial: matrices from series.",
            autocompletion=completion.of(completion.KINDS),
        ),
    ] = None,
    regularize: Annotated[Text, _repair("shrink=0.05, floor=1e-6, ledoit-wolf or oas.")] = None,
    frames: Annotated[Int, _repair("Use the first so many frames.", min=2)] = None,
    constant: Annotated[Text, _repair("What nodes that do not vary become: error, zero, nan.")] = None,
    from_fisher_z: Annotated[bool, _repair("Turn Fisher's z into correlations.", "--from-fisher-z")] = False,
    drop_subjects: Annotated[Texts, _repair("IDS, @FILE, undefined or short.")] = None,
    drop_nodes: Annotated[Texts, _repair("NAMES or @FILE.")] = None,
    nodes: Annotated[File, _repair("File of node names.")] = None,
    pattern: Annotated[Text, _file("'{id}_ts.csv', 'sub-{id}/*.txt': which files, whose.")] = None,
    content: Annotated[Text, _file("series or matrices (DPABI also: fisher-z).")] = None,
    transpose: Annotated[bool, _file("Time (or samples) run along the rows.", "--transpose")] = False,
    variable: Annotated[Text, _file("Variable in .mat files.")] = None,
    atlas: Annotated[Text, _scan("Atlas, where there are several.")] = None,
    condition: Annotated[Text, _scan("CONN condition, such as 001.")] = None,
    entity: Annotated[Texts, _scan("KEY=VALUE in BIDS names: ses=01, task=rest.")] = None,
    runs: Annotated[Text, _scan("Several scans a subject: each, average, concatenate.")] = None,
    atlas_image: Annotated[File, _scan("Parcellation (.nii.gz) for fMRIPrep images.")] = None,
    confounds: Annotated[Text, _scan("nilearn's strategy: simple, scrubbing, compcor, none.")] = None,
    top_k: Annotated[Int, _gene("Number of features [50].")] = None,
    rank_by: Annotated[Text, _gene("variance or variation.")] = None,
    min_detect: Annotated[Share, _gene("Share of samples a feature must be above 0 in.")] = None,
    per_network: Annotated[Int, _gene("Samples in a network [30].")] = None,
    networks_per_class: Annotated[Int, _gene("Networks of each class (as many as can be).")] = None,
    bootstrap: Annotated[bool, _gene("Draw with replacement within pools.", "--bootstrap")] = False,
    pools: Annotated[Int, _gene("Pools of a class [10].")] = None,
    patient_column: Annotated[Text, _gene("Whose a sample is.")] = None,
    drop_small_classes: Annotated[bool, _gene("Leave out classes with few samples.", "--drop-small-classes")] = False,
    sample_where: Annotated[Texts, _gene("COLUMN=VALUE: use these samples only.")] = None,
    seed: Annotated[Int, _gene("Seed of the grouping [0].")] = None,
) -> None:
    """Turn series, matrices or expression into a checked folder that every other command reads.

    Examples: rmixup import connectomes/ OUT --labels phenotype.csv --target diagnosis

    rmixup import abide/ OUT --atlas cc200 --kind correlation --drop-subjects undefined

    rmixup import mirna.tsv.gz OUT --labels labels.csv --target cancer_type --per-network 14
    """
    given = {name: value for name, value in locals().items() if name not in _OWN}
    options = {name: value for name, value in given.items() if value not in (None, []) and value is not False}
    if target:
        options["target"] = target[0] if len(target) == 1 else target
    ds = run_import(source, out, layout, overwrite, quiet or as_json, **options)
    say_written(out, ds, as_json, quiet)


_OWN = frozenset({"source", "out", "layout", "overwrite", "as_json", "quiet", "target"})


def run_import(source: Path, out: Path, layout: str, overwrite: bool, quiet: bool, **options: Any) -> Networks:
    """Import with a bar on the terminal."""
    from rmixup.cli.places import check_folder
    from rmixup.data.readers import import_folder

    check_folder(out, "OUT")
    with bar(quiet) as progress:
        return import_folder(source, out, layout, overwrite, progress, **options)


@contextmanager
def bar(quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """How many subjects are read, for people only, and only when there is something to wait for."""
    from rich.console import Console
    from rich.progress import Progress

    from rmixup.cli.bars import after_a_moment

    shown = Progress(console=Console(stderr=True), transient=True)
    task = shown.add_task("importing", total=None)
    with after_a_moment(shown, quiet):
        yield lambda done, count: shown.update(task, completed=done, total=count)


def say_written(out: Path, ds: Networks, as_json: bool, quiet: bool) -> None:
    """One line for people, with what to do next; for machines an object, also where people want silence."""
    if as_json:
        typer.echo(json.dumps(described(out, ds)))
    elif not quiet:
        typer.echo(f"Wrote {out}: {ds}.\nNext: rmixup check {out}")


def described(out: Path, ds: Networks) -> dict[str, Any]:
    """What was written, for machines."""
    return {
        "path": str(out),
        "networks": len(ds),
        "nodes": ds.n_nodes,
        "matrices": ds.has_matrices,
        "series": ds.series is not None,
        "target": ds.target,
        "task": ds.task,
        "classes": None if ds.classes is None else dict(Counter(ds.label_names().tolist())),
        "steps": [dict(step) for step in ds.provenance.steps],
    }
