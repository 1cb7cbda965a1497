"""`rmixup paper`: the paper's studies on any data set."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmixup.cli import completion
from rmixup.cli.study import DEFAULT_WORK, Allow, Dask, Processes, Retry

if TYPE_CHECKING:
    from types import ModuleType

    from rmixup.study.cells import DataIdentity
    from rmixup.study.presets.findings import Findings
    from rmixup.study.presets.opening import Opened
    from rmixup.study.project import Settings, Study
    from rmixup.study.spec import Data

_ALL = "all"
# What a step of the study "time" gets at each size, in seconds.
_STEP_SECONDS, _QUICK_STEP_SECONDS = 0.5, 0.1
_BATCH = 16
_TIMED = "time"


@dataclass(frozen=True)
class _Run:
    """What holds for every study of one call."""

    found: Opened
    identity: DataIdentity | None
    out: Path
    settings: Settings
    quick: bool
    repeats: int | None
    processes: int
    dask: str | None
    allow: bool
    retry_failed: bool
    train: bool
    precision: str
    quiet: bool


@dataclass(frozen=True)
class _Done:
    """What came of one study."""

    findings: Findings
    folder: Path
    files: list[Path]
    complete: bool


def _precision(value: str) -> str:
    from typing import get_args

    from rmixup.study.spec import Protocol

    known = get_args(Protocol.model_fields["precision"].annotation)
    if value not in known:
        raise typer.BadParameter(f"expected one of {', '.join(known)}, got {value!r}")
    return value


def command(
    *,
    name: Annotated[
        str,
        typer.Argument(
            help="overall, gcn, sample-size, length, alpha, time, swelling, kernel, labels, curves; or all.",
            show_default=False,
            autocompletion=completion.of(completion.STUDIES),
        ),
    ],
    data: Annotated[
        Path | None, typer.Option(help="A folder of rmixup import, any file or folder it reads, or 'simulated'.")
    ] = None,
    preset: Annotated[
        str | None, typer.Option(help="A named data set that says how the files are read, such as abide-100.")
    ] = None,
    target: Annotated[list[str] | None, typer.Option(help="Column to predict; repeat for several numbers.")] = None,
    task: Annotated[str | None, typer.Option(help="classification or regression, where the column is unclear.")] = None,
    drop_unlabelled: Annotated[
        bool, typer.Option("--drop-unlabelled", help="Leave out people without a label.")
    ] = False,
    groups: Annotated[str | None, typer.Option(help="Column of sites: each side gets its share of each.")] = None,
    nodes: Annotated[int | None, typer.Option(min=2, help="Draw so many nodes.")] = None,
    frames: Annotated[int | None, typer.Option(min=3, help="Use the first frames of each series.")] = None,
    least_frames: Annotated[int | None, typer.Option(min=3, help="Leave out people with shorter series.")] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            help="correlation, covariance, ledoit-wolf, oas, partial: matrices from series.",
            autocompletion=completion.of(completion.KINDS),
        ),
    ] = None,
    regularize: Annotated[
        str | None, typer.Option(help="shrink=0.05, floor=1e-6, ledoit-wolf or oas; floor=1e-6 where it is needed.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder; paper by default, paper-quick with --quick.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Few splits and epochs: see it run, conclude nothing.")
    ] = False,
    repeats: Annotated[
        int | None, typer.Option(min=1, help="Paired splits: 10 by default, the paper took 5, --quick takes 3.")
    ] = None,
    processes: Processes = 1,
    threads: Annotated[int, typer.Option(min=1, help="Threads of each cell, fixed for the study.")] = 1,
    stack: Annotated[int, typer.Option(min=1, help="Cells trained at once, fixed for the study.")] = 1,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda, fixed for the study.")] = "auto",
    precision: Annotated[
        str,
        typer.Option(
            help="fp32, or tf32 or bf16: quicker on a GPU; runs of their own, and told with the results.",
            callback=_precision,
        ),
    ] = "fp32",
    dask: Dask = None,
    pack: Annotated[
        Path | None,
        typer.Option(help="Run nothing: write what is to be trained here, for a GPU machine without rmixup."),
    ] = None,
    train: Annotated[
        bool, typer.Option("--train/--no-train", help="Train what is missing, or tell only what has results.")
    ] = True,
    allow: Allow = False,
    retry_failed: Retry = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object: studies, skipped.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> int:
    """Run a study of the paper on your data: its table, its figure, and sentences that say what came out.

    An interrupted study goes on where it was. Exits 1 where runs of it have no result.

    Examples: rmixup paper all --data simulated --quick

    rmixup paper overall --data ABIDE --preset abide-100 --processes 0 --stack 40 --out paper
    """
    from rmixup.cli.bars import waiting
    from rmixup.cli.places import check_folder
    from rmixup.study.presets import PRESETS, find
    from rmixup.study.presets.opening import opened
    from rmixup.study.project import Settings
    from rmixup.study.work import identify

    names = list(PRESETS) if name == _ALL else [name]
    modules = {one: find(one) for one in names}
    place = out or Path("paper-quick" if quick else "paper")
    check_folder(place)
    if pack is not None:
        check_folder(pack, "--pack")
    after = {"task": task, "least_frames": least_frames, "drop_unlabelled": drop_unlabelled or None}
    fields = {"groups": groups, "nodes": nodes, "frames": frames, "kind": kind, "regularize": regularize}
    asked = _data(data, preset, {**fields, "target": _target(target)}, after)
    with waiting(f"reading {data or preset}", quiet or as_json):
        found = opened(asked)
        identity = None if found.ds.y is None else identify(found.data, anew=False)
    run = _Run(
        found,
        identity=identity,
        out=place,
        settings=Settings(stack, threads, device),
        quick=quick,
        repeats=repeats,
        processes=processes,
        dask=dask,
        allow=allow,
        retry_failed=retry_failed,
        train=train,
        precision=precision,
        quiet=quiet or as_json,
    )
    if pack is not None:
        return _pack(modules, run, pack, as_json)
    done, skipped = _studies(modules, run, one_by_one=name != _ALL)
    if as_json:
        typer.echo(json.dumps({"studies": [_described(one) for one in done], "skipped": skipped}))
    _say(run, f"Next: open the figures (.svg) in {run.out}; its tables are .csv, .md and .tex.")
    return 0 if all(one.complete for one in done) else 1


# ---- which data


def _data(path: Path | None, preset: str | None, fields: dict[str, Any], after: dict[str, Any]) -> Data:
    """The [data] of a spec, from what was given of it; a preset fills in the rest."""
    from rmixup.study.presets.datasets import DATASETS, find
    from rmixup.study.spec import Data

    named = str(path)
    if path is not None and preset is None and not path.exists() and named in DATASETS:
        path, preset = None, named
    known = None if preset is None else find(preset)
    if path is None and (known is None or known.simulated is None):
        raise typer.BadParameter(_whence(preset))
    given = {key: value for key, value in fields.items() if value is not None}
    options = {key: value for key, value in after.items() if value is not None}
    place = {} if path is None else {"path": str(path.expanduser().absolute())}
    named_set = {} if preset is None else {"preset": preset}
    return Data.model_validate({**place, **named_set, **given, "options": options})


def _whence(preset: str | None) -> str:
    """Where data come from, for who named none."""
    from rmixup.study.presets.datasets import DATASETS

    files = [name for name, one in DATASETS.items() if one.simulated is None]
    made = [name for name, one in DATASETS.items() if one.simulated is not None]
    if preset is not None:
        return f"--preset {preset} says how files are read, not where they lie: name their folder with --data"
    return (
        "name the data with --data: a folder that `rmixup import SOURCE OUT` wrote, any file or folder it reads, a "
        f"public cohort's files with --preset ({', '.join(files)}), or {', '.join(made)}, which need no files"
    )


def _target(columns: list[str] | None) -> str | list[str] | None:
    return columns[0] if columns is not None and len(columns) == 1 else columns or None


# ---- running


def _studies(modules: dict[str, ModuleType], run: _Run, one_by_one: bool) -> tuple[list[_Done], list[dict[str, str]]]:
    """Run studies one after the other; of several, those that these data do not allow are skipped, and why is said."""
    from rmixup.errors import DataError

    done: list[_Done] = []
    skipped: list[dict[str, str]] = []
    for name, module in modules.items():
        try:
            one = _study(name, module, run)
        except DataError as error:
            if one_by_one:
                raise
            skipped.append({"study": name, "why": " ".join(str(error).split())})
            _say(run, f"{name}: skipped, because {skipped[-1]['why']}\n")
            continue
        done.append(one)
        _show(run, name, one)
    if not done:
        raise DataError(f"no study can be run on these data: {skipped[0]['why']}")
    return done, skipped


def _study(name: str, module: ModuleType, run: _Run) -> _Done:
    from rmixup.cli.bars import waiting
    from rmixup.report.paper import write

    folder = run.out / name
    findings, complete = _measured(name, module, run) if hasattr(module, "compute") else _trained(module, folder, run)
    with waiting(f"{name}: drawing", run.quiet):
        return _Done(findings, folder, write(findings, folder), complete)


def _measured(name: str, module: ModuleType, run: _Run) -> tuple[Findings, bool]:
    """A study that only measures matrices."""
    from rmixup.cli.bars import waiting
    from rmixup.study.presets.opening import for_measuring

    with waiting(f"{name}: measuring", run.quiet):
        ds, regularizer = for_measuring(run.found)
        return module.compute(ds, regularizer=regularizer, quick=run.quick), True


def _trained(module: ModuleType, folder: Path, run: _Run) -> tuple[Findings, bool]:
    """A study of cells: begun or continued in `folder`/study, and finished as far as there are results."""
    from rmixup.cli.bars import waiting
    from rmixup.errors import RMixupError

    study = _begun(module, folder, run)
    timed = module.NAME == _TIMED
    if run.train:
        _train(study, min(run.processes, 1) if timed else run.processes, run)
    missing = {cell.key for cell in study.cells} - study.store.done()
    if len(missing) == len(study.cells):
        raise RMixupError(f"{study.folder}: no run has a result: {_first_failure(study)}")
    with waiting(f"{module.NAME}: timing steps" if timed else f"{module.NAME}: reading results", run.quiet):
        more = _steps(study, run) if timed else {}
        return module.finish(study, **more), not missing


def _train(study: Study, workers: int, run: _Run) -> None:
    """Run what has no result yet."""
    from rmixup.cli.bars import of_cells
    from rmixup.study import work
    from rmixup.study.executors import executor_for
    from rmixup.study.runner import ending_on_sigterm
    from rmixup.study.runner import run as run_study

    if sys.stderr.isatty() and not run.quiet:
        typer.echo(study.spec.name, err=True)
    with ending_on_sigterm(), of_cells(run.quiet) as listener:
        executor = executor_for(work.work, study, workers, run.dask)
        run_study(study, work.work, executor, listener, run.retry_failed)


def _begun(module: ModuleType, folder: Path, run: _Run) -> Study:
    """The study of a preset in `folder`/study, begun now or before."""
    from dataclasses import replace

    from rmixup.study import work
    from rmixup.study.project import begin
    from rmixup.study.spec import Protocol

    spec = module.spec_for(run.found, quick=run.quick, repeats=run.repeats)
    protocol = Protocol.model_validate({**spec.protocol.model_dump(), "precision": run.precision})
    spec = spec.model_copy(update={"protocol": protocol})
    work.check(spec)
    assert run.identity is not None  # `spec_for` refuses data without labels
    settings = replace(run.settings, stack=1) if module.NAME == _TIMED else run.settings
    return begin(folder / "study", spec, run.identity, settings, DEFAULT_WORK, allow=run.allow)


def _pack(modules: dict[str, ModuleType], run: _Run, place: Path, as_json: bool) -> int:
    """Write the cells of studies that train for another machine, and say how to go on."""
    from rmixup.errors import DataError
    from rmixup.study import remote

    trained = {name: module for name, module in modules.items() if not hasattr(module, "compute")}
    if not trained:
        raise DataError(f"{', '.join(modules)} trains nothing, so there is nothing to pack: run it here")
    packed = []
    for name, module in trained.items():
        try:
            study = _begun(module, run.out / name, run)
        except DataError as error:
            if len(modules) == 1:
                raise
            _say(run, f"{name}: skipped, because {error}")
            continue
        # What is timed is run one by one, so it has a folder of its own; all else shares networks and runs.
        folder, alone = (place / name, " --stack 1") if name == _TIMED else (place, "")
        cells = remote.pack(study, folder)
        packed.append({"study": name, "folder": str(folder), "cells": cells, "take_into": str(study.folder)})
        _say(run, f"Packed {cells} runs of {name}. On the GPU machine: "
                  f"python -m rmixup.train.remote {folder} results.jsonl{alone}")  # fmt: skip
    if as_json:
        typer.echo(json.dumps({"packed": packed}))
    _say(run, f"Next: rmixup study take {run.out}/NAME/study results.jsonl; and this command without --pack.")
    return 0


def _first_failure(study: Study) -> str:
    """Why the first of the failed cells failed."""
    failures = study.store.failures()
    return next((f"{failure.reason}: {failure.message}" for failure in failures.values()), "none was run")


def _steps(study: Study, run: _Run) -> dict[str, Any]:
    """The ways to mix a batch of networks of this size, timed here and now."""
    from rmixup.bench.spd import table
    from rmixup.bench.timing import describe_machine

    seconds = _QUICK_STEP_SECONDS if run.quick else _STEP_SECONDS
    return {"steps": table((run.found.ds.n_nodes,), (_BATCH,), seconds), "machine": describe_machine()}


# ---- telling


def _say(run: _Run, text: str) -> None:
    if not run.quiet:
        typer.echo(text)


def _show(run: _Run, name: str, one: _Done) -> None:
    """The sentences of a study, and where its files are."""
    names = ", ".join(path.name for path in one.files)
    _say(run, "\n".join([name, *(f"  {line}" for line in one.findings.sentences), f"Wrote {one.folder}: {names}\n"]))


def _described(one: _Done) -> dict[str, Any]:
    return {
        "study": one.findings.name,
        "folder": str(one.folder),
        "complete": one.complete,
        "sentences": list(one.findings.sentences),
        "files": [str(path) for path in one.files],
    }
