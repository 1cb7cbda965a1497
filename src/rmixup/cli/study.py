"""`rmixup study`: declare a comparison, run it, look at it, check it, take its numbers elsewhere."""

from __future__ import annotations

import json
from contextlib import nullcontext
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from rmixup.study.project import Study
    from rmixup.study.runner import Listener, Summary
    from rmixup.study.spec import Spec

app = typer.Typer(
    help="Compare methods on paired splits: new, run, resume, status, verify, export.", no_args_is_help=True
)

DEFAULT_WORK = "rmixup.study.work"

Folder = Annotated[Path, typer.Argument(help="A study's folder.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
AsJson = Annotated[bool, typer.Option("--json", help="For machines: JSON on standard output.")]
Processes = Annotated[int, typer.Option(min=0, help="Worker processes; 0 runs in this one, as a GPU wants it.")]
Dask = Annotated[str | None, typer.Option(help="Run on this Dask scheduler: its address or .json file.")]
Allow = Annotated[bool, typer.Option("--allow", help="Continue although something changed, and write that down.")]
Retry = Annotated[bool, typer.Option("--retry-failed", help="Try failed cells again.")]
WorkName = Annotated[
    str, typer.Option("--work", help="Module that runs cells: `identify`, `work`, maybe `check`, `refuse`.")
]


class Format(StrEnum):
    """Formats of `study export`."""

    csv = "csv"
    parquet = "parquet"


@app.command()
def new(
    spec: Annotated[Path, typer.Argument(help="File to write.")],
    quick: Annotated[bool, typer.Option("--quick", help="Few splits, few epochs.")] = False,
    quiet: Quiet = False,
) -> None:
    """Write a commented spec to start from.

    Example: rmixup study new mine.toml --quick
    """
    from rmixup.cli.places import check_file
    from rmixup.errors import StoreError
    from rmixup.study.files import write
    from rmixup.study.spec import template

    check_file(spec, "SPEC")
    if spec.exists():
        raise StoreError(f"{spec}: exists already; choose another name")
    write(spec, template(spec.name, quick).encode())
    if not quiet:
        typer.echo(f"Wrote {spec}. Name your data in it.\nNext: rmixup study run {spec} --out results")


@app.command()
def run(
    *,
    spec: Annotated[Path, typer.Argument(help="A spec, from `rmixup study new`.")],
    out: Annotated[Path, typer.Option(help="Folder of the study; one that exists is continued.")],
    processes: Processes = 1,
    threads: Annotated[int, typer.Option(min=1, help="Threads of each cell, fixed for the study.")] = 1,
    stack: Annotated[int, typer.Option(min=1, help="Cells trained at once, fixed for the study.")] = 1,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda, fixed for the study.")] = "auto",
    dask: Dask = None,
    allow: Allow = False,
    retry_failed: Retry = False,
    work: WorkName = DEFAULT_WORK,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Run a study, or what is missing of it.

    Example: rmixup study run mine.toml --out results --processes 2
    """
    from rmixup.cli.places import check_folder
    from rmixup.study.project import Settings, begin

    check_folder(out)
    _check_where(device, dask)
    checked, module = _spec(spec), _module(work)
    if hasattr(module, "check"):
        module.check(checked)
    data = _identified(module, checked.data)
    study = begin(out, checked, data, Settings(stack, threads, device), work, allow=allow)
    _run(study, work, processes=processes, dask=dask, retry_failed=retry_failed, as_json=as_json, quiet=quiet)


@app.command()
def resume(
    *,
    folder: Folder,
    processes: Processes = 1,
    dask: Dask = None,
    allow: Allow = False,
    retry_failed: Retry = False,
    work: WorkName = DEFAULT_WORK,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Continue a study where it was interrupted.

    Example: rmixup study resume results
    """
    from rmixup.study.project import begin, open_study

    before = open_study(folder)
    _check_where(before.settings.device, dask)
    data = _identified(_module(work), before.spec.data)
    study = begin(folder, before.spec, data, before.settings, work, allow=allow)
    _run(study, work, processes=processes, dask=dask, retry_failed=retry_failed, as_json=as_json, quiet=quiet)


@app.command()
def status(folder: Folder, as_json: AsJson = False) -> None:
    """Say how a study stands: done, running, failed and why, time left.

    Example: rmixup study status results --json
    """
    from rmixup.study.project import open_study
    from rmixup.study.status import show, status

    found = status(open_study(folder))
    after = f"study resume {folder}" if found["done"] < found["total"] else f"report {folder}"
    typer.echo(json.dumps(found) if as_json else f"{show(found)}\nNext: rmixup {after}")


@app.command()
def verify(folder: Folder, as_json: AsJson = False, quiet: Quiet = False) -> None:
    """Check every result against its checksums; damaged ones are moved aside, and `resume` does them again.

    Example: rmixup study verify results
    """
    from rmixup.cli.bars import waiting
    from rmixup.study.project import open_study

    store = open_study(folder).store
    checked = len(store.done())
    with waiting(f"checking {checked} cells", quiet or as_json):
        damages = [{"key": d.key, "problem": d.problem, "moved_to": str(d.moved_to)} for d in store.verify()]
    if as_json:
        typer.echo(json.dumps({"ok": not damages, "checked": checked, "damaged": damages}))
    elif not quiet:
        lines = [f"{d['problem']} (moved to {d['moved_to']})" for d in damages]
        after = f"Next: rmixup study resume {folder}" if damages else f"Next: rmixup report {folder}"
        typer.echo("\n".join([*lines, f"{checked} cells checked, {len(damages)} damaged", after]))
    if damages:
        raise typer.Exit(1)


@app.command()
def export(
    folder: Folder,
    out: Annotated[Path | None, typer.Option(help="Folder to write to; FOLDER/export by default.")] = None,
    form: Annotated[Format, typer.Option("--format", help="csv or parquet.")] = Format.csv,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Write cells, summary, comparisons, predictions and curves as tables.

    Example: rmixup study export results --format parquet
    """
    from rmixup.cli.bars import waiting
    from rmixup.cli.places import check_folder
    from rmixup.study.export import export
    from rmixup.study.project import open_study

    study, place = open_study(folder), out or folder / "export"
    check_folder(place)
    with waiting(f"writing {place}", quiet or as_json):
        paths = [str(path) for path in export(study, place, form.value)]
    if as_json:
        typer.echo(json.dumps({"files": paths}))
    elif not quiet:
        reader = "read_csv" if form is Format.csv else "read_parquet"
        typer.echo("\n".join([*paths, f"Next: read them with pandas.{reader}, or anything that reads {form.value}."]))


@app.command()
def pack(  # noqa: PLR0917 -- typer passes every option by name
    spec: Annotated[Path, typer.Argument(help="A spec, from `rmixup study new`.")],
    folder: Annotated[Path, typer.Argument(help="Folder to write; it holds the networks, so guard it as the data.")],
    out: Annotated[Path, typer.Option(help="Folder of the study; one that exists is continued.")],
    allow: Allow = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Take what is to be done to a GPU machine that has torch and NumPy only, without an installation.

    There, with rmixup's src folder: PYTHONPATH=src python -m rmixup.train.remote FOLDER results.jsonl

    Back here: rmixup study take OUT results.jsonl

    Example: rmixup study pack mine.toml packed --out results
    """
    from rmixup.cli.bars import waiting
    from rmixup.cli.places import check_folder
    from rmixup.study import remote
    from rmixup.study.project import Settings, begin

    check_folder(out)
    check_folder(folder, "FOLDER")
    checked, module = _spec(spec), _module(DEFAULT_WORK)
    module.check(checked)
    study = begin(out, checked, _identified(module, checked.data), Settings(device="cuda"), DEFAULT_WORK, allow=allow)
    with waiting(f"packing {spec}", quiet or as_json):
        count = remote.pack(study, folder)
    if as_json:
        typer.echo(json.dumps({"cells": count, "folder": str(folder), "study": str(out)}))
    elif not quiet:
        typer.echo(
            f"Packed {count} cells in {folder}. Run them where the GPU is: python -m rmixup.train.remote {folder} "
            f"results.jsonl\nNext, back here: rmixup study take {out} results.jsonl"
        )


@app.command()
def take(
    folder: Folder,
    results: Annotated[Path, typer.Argument(help="What `python -m rmixup.train.remote` wrote.")],
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Commit the results of packed cells to the study they are of.

    Example: rmixup study take results results.jsonl
    """
    from rmixup.cli.bars import waiting
    from rmixup.study import remote
    from rmixup.study.project import open_study

    study = open_study(folder)
    with waiting(f"taking {results}", quiet or as_json):
        taken = remote.take(study, results)
    if as_json:
        typer.echo(json.dumps(vars(taken)))
    elif not quiet:
        typer.echo(
            f"{taken.done} cells taken, {taken.failed} failed, {taken.passed_over} passed over as already done or of "
            f"another study.\nNext: rmixup report {folder}"
        )


def _spec(path: Path) -> Spec:
    """Read a spec; where there is none, say how to come by one."""
    from rmixup.errors import StoreError
    from rmixup.study.spec import read_spec

    if not path.exists():
        raise StoreError(f"{path}: no such file; `rmixup study new {path}` writes a spec to start from")
    return read_spec(path)


def _check_where(device: str, dask: str | None) -> None:
    """A device that is not there would fail every cell; the workers of a cluster have devices of their own."""
    from rmixup.errors import DataError
    from rmixup.train.model import as_device

    if dask is None:
        as_device(None if device == "auto" else device)
    elif dask.endswith(".json") and not Path(dask).is_file():
        # Dask itself would wait for the file for ever.
        raise DataError(f"--dask {dask}: no such file; write it with: dask scheduler --scheduler-file {dask}")


def _identified(module: Any, data: Any) -> Any:
    """Which data a spec names; data that no cell could use are refused before anything is begun."""
    found = module.identify(data)
    if hasattr(module, "refuse"):
        module.refuse(data)
    return found


def _module(name: str) -> Any:
    from importlib import import_module

    from rmixup.errors import DataError

    try:
        module = import_module(name)
    except ModuleNotFoundError as error:
        raise DataError(f"--work {name}: expected an importable Python module, but {error}") from error
    lacking = [function for function in ("identify", "work") if not hasattr(module, function)]
    if lacking:
        raise DataError(
            f"--work {name}: expected functions `identify` and `work`, but it has no {' and no '.join(lacking)}"
        )
    return module


def _run(
    study: Study, work: str, *, processes: int, dask: str | None, retry_failed: bool, as_json: bool, quiet: bool
) -> None:
    """Run, show progress, say what came out; exit code 1 where cells have no result."""
    from rmixup.study.executors import executor_for
    from rmixup.study.runner import ending_on_sigterm, run

    with ending_on_sigterm(), _listener(as_json, quiet) as listener:
        function = _module(work).work
        summary = run(study, function, executor_for(function, study, processes, dask), listener, retry_failed)
    if not (as_json or quiet):
        typer.echo(_outcome(study, summary))
    if not summary.complete:
        raise typer.Exit(1)


def _outcome(study: Study, summary: Summary) -> str:
    """Counts and, where there are results, the verdicts."""
    from rmixup.study.tables import settings

    counts = f"{summary.done} of {summary.total} cells done, {summary.failed} failed, in {summary.seconds:.0f} s"
    verdicts = [line for setting in settings(study) for line in setting.verdicts]
    again = "--retry-failed " if summary.failed else ""
    next_step = f"report {study.folder}" if summary.complete else f"study resume {again}{study.folder}"
    return "\n".join([counts, *verdicts, f"Next: rmixup {next_step}"])


def _listener(as_json: bool, quiet: bool = False) -> AbstractContextManager[Listener]:
    """Events as JSON lines for machines, a progress bar on a terminal for people."""
    from rmixup.cli.bars import of_cells

    return nullcontext(lambda event: typer.echo(json.dumps(event))) if as_json else of_cells(quiet)
