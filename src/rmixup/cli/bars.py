"""Progress for people on a terminal, with the time left; nothing elsewhere. Problems are lines in between."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.markup import escape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.progress import Progress

    from rmixup.report.html import Listener as Drawing
    from rmixup.study.runner import Listener

_PATIENCE_S = 0.5


def _bar(name: str, quiet: bool = False) -> Progress:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    columns = (TextColumn(name), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, disable=quiet or not console.is_terminal)


def of_tasks(said: str, quiet: bool = False) -> Progress:
    """Bars of several tasks, gone when they are done; `said` is the text between a bar and its times."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn(said), TimeElapsedColumn())
    return Progress(
        *columns,
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=quiet or not console.is_terminal,
    )


@contextmanager
def waiting(what: str, quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """What is being done, with the time it has taken, where nobody knows how long it will; gone when it is done.

    Yields a function that says what is being done now.
    """
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    shown = Progress(*columns, console=Console(stderr=True), transient=True)
    task = shown.add_task(escape(what), total=None)
    with after_a_moment(shown, quiet):
        yield lambda now: shown.update(task, description=escape(now))


@contextmanager
def after_a_moment(progress: Progress, quiet: bool) -> Iterator[None]:
    """Show progress on a terminal once there is something to wait for: what comes and goes at once only flickers."""
    if quiet or not progress.console.is_terminal:
        yield
        return
    timer = threading.Timer(_PATIENCE_S, progress.start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        progress.stop()


@contextmanager
def of_cells(quiet: bool = False) -> Iterator[Listener]:
    """What a study's runner tells; `quiet`: problems only."""
    with _bar("cells", quiet) as progress:
        bar = progress.add_task("cells", total=None)

        def listen(event: dict[str, Any]) -> None:
            if event["event"] == "start":
                progress.update(bar, total=event["total"], completed=event["done"] + event["failed"])
            elif event["event"] == "cell":
                progress.update(bar, completed=event["settled"])
            if line := _problem(event):
                progress.console.print(line, markup=False, highlight=False, soft_wrap=True)

        yield listen


def _problem(event: dict[str, Any]) -> str:
    """What people should know of at once."""
    if event.get("state") == "failed":
        return f"failed: {event['cell']}: {event['reason']}: {event['message']}"
    if event["event"] == "quarantine":
        return f"damaged, will be done again: {event['problem']}"
    return f"{event['why']}; attempt {event['attempt']}" if event["event"] == "lost" else ""


@contextmanager
def of_figures(quiet: bool = False) -> Iterator[Drawing]:
    """The figures of a report; before the first is drawn, the study and its data are read."""
    with _bar("report", quiet) as progress:
        bar = progress.add_task("report", total=None)
        yield lambda done, total: progress.update(bar, completed=done, total=total)
