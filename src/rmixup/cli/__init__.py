"""The command line: one file a command, each one call into the package below.

May not be here: computation. A command reads its options, calls one public function, prints what came back.
`COMMANDS` lists the files; heavy imports happen inside a command, so that `rmixup --help` is quick.
"""

from __future__ import annotations

import inspect
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from types import FrameType
from typing import Any

import typer

from rmixup.errors import RMixupError, printable

# Command -> module; a module has a function `command`, or an `app` for a group of commands.
COMMANDS = {
    "demo": "rmixup.cli.demo",
    "bench": "rmixup.cli.bench",
    "import": "rmixup.cli.import_",
    "fetch": "rmixup.cli.fetch",
    "check": "rmixup.cli.check",
    "train": "rmixup.cli.train",
    "predict": "rmixup.cli.predict",
    "explain": "rmixup.cli.explain",
    "study": "rmixup.cli.study",
    "paper": "rmixup.cli.paper",
    "report": "rmixup.cli.report",
}

# How `rmixup --help` groups them, in this order.
PANELS = {
    "Data": ("import", "fetch", "check"),
    "Models": ("train", "predict", "explain"),
    "Studies": ("demo", "study", "paper", "report"),
    "This machine": ("bench",),
}
_NEW_HERE = "New here? [bold]rmixup demo[/bold] needs no data and ends in a report."
_EVERY_COMMAND = "Every command has examples in its --help."

# typer >= 0.20 carries its own copy of click, earlier ones use click itself: reach the class through typer.
_ClickError: type[Exception] = typer.BadParameter.__mro__[2]


class _Ordered(typer.core.TyperGroup):
    """Typer lists groups of commands after all others; here they stand where `PANELS` has them."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of the commands, in the order of the help."""
        return sorted(super().list_commands(ctx), key=_place_in_help)


def _place_in_help(name: str) -> int:
    order = [one for names in PANELS.values() for one in names]
    return order.index(name) if name in order else len(order)


EXIT_NO = 1
EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130


def build() -> typer.Typer:
    """Put the commands together."""
    panels = {name: panel for panel, names in PANELS.items() for name in names}
    app = typer.Typer(
        name="rmixup",
        cls=_Ordered,
        help="Augment, model and evaluate networks measured on few samples.",
        epilog=f"{_NEW_HERE} {_EVERY_COMMAND}",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(_options)
    for name in sorted(COMMANDS, key=_place_in_help):
        part, panel = import_module(COMMANDS[name]), panels.get(name)
        if hasattr(part, "app"):
            for inner in part.app.registered_commands:
                vars(inner).update(_told(inner.callback))
            app.add_typer(part.app, name=name, rich_help_panel=panel)
        else:
            app.command(name=name, rich_help_panel=panel, **_told(part.command))(part.command)
    return app


def _told(command: Callable[..., Any]) -> dict[str, Any]:
    """What the help says of a command: its docstring with one line a paragraph, and its examples below the options.

    >>> def command():
    ...     '''Count things: all
    ...     of them.
    ...
    ...     Example: rmixup count things
    ...     '''
    >>> _told(command)
    {'help': 'Count things: all of them.', 'short_help': 'Count things.', 'epilog': 'Example:\\nrmixup count things'}
    """
    text = inspect.getdoc(command) or ""
    paragraphs = [" ".join(part.split()).replace("[", r"\[") for part in re.split(r"\n\s*\n", text)]
    examples = [part for part in paragraphs if re.match(r"Examples?:|rmixup ", part)]
    words = [part for part in paragraphs if part not in examples]
    head = re.split(r"[.:](?= |$)", words[0])[0] + "."
    lines = [re.sub(r"^Examples?: *", "", example) for example in examples]
    listed = "\n".join([f"Example{'s' * (len(lines) > 1)}:", *lines])
    return {"help": "\n\n".join(words), "short_help": head, "epilog": listed if lines else ""}


def _options(
    version: bool = typer.Option(False, "--version", help="Print the version and stop.", is_eager=True),
    debug: bool = typer.Option(False, "--debug", help="Show the traceback of an error."),
) -> None:
    if version:
        import rmixup

        typer.echo(rmixup.__version__)
        raise typer.Exit


def main() -> None:
    """Run the command line; every error ends as one line on standard error and an exit code."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code: 0, 1 = the answer is no, 2 = usage or bad input."""
    debug = "--debug" in arguments
    arguments = [a for a in arguments if a != "--debug"] or ["--help"]
    with _noting_interrupts() as interrupts:
        try:
            code = build()(args=arguments, prog_name="rmixup", standalone_mode=False)
        except (typer.Abort, KeyboardInterrupt):
            return EXIT_INTERRUPTED
        except Exception as error:
            # In the middle of an import, Python and C extensions make another error of Ctrl-C.
            return EXIT_INTERRUPTED if interrupts else _failed(error, debug)
    return code if isinstance(code, int) else 0


@contextmanager
def _noting_interrupts() -> Iterator[list[int]]:
    """The Ctrl-C that came so far; each goes on to be a KeyboardInterrupt."""
    noted: list[int] = []
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler or threading.current_thread() is not threading.main_thread():
        yield noted  # whoever calls this in Python deals with signals himself
        return

    def note(number: int, frame: FrameType | None) -> None:
        noted.append(number)
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, before)


def _failed(error: Exception, debug: bool) -> int:
    """Tell people what went wrong in one line; `--debug` shows the rest."""
    if isinstance(error, _ClickError):
        return _misused(error, debug)
    if isinstance(error, RMixupError):
        return _fail(str(error), error, debug)
    if isinstance(error, OSError):
        return _fail(_told_by_system(error), error, debug)
    found = f"unexpected {type(error).__name__}: {error}"
    return _fail(f"{found}; this is a defect of rmixup: please report it with what --debug prints", error, debug)


def _misused(error: Exception, debug: bool) -> int:
    """What was typed wrongly: which argument or option, and where to read about it."""
    if type(error).__name__ == "NoArgsIsHelpError":
        return 0  # the help was printed, as was asked for
    where = getattr(getattr(error, "ctx", None), "command_path", "rmixup")
    # pydantic's own words come through some versions of typer.
    words = error.format_message().rstrip(".").replace("Value error, ", "")  # type: ignore[attr-defined]
    return _fail(f"{words}; see {where} --help", error, debug)


def _told_by_system(error: OSError) -> str:
    """Name the file first, as all other errors do."""
    if error.filename is None or error.strerror is None:
        return str(error)
    return f"{error.filename}: {error.strerror.lower()}; check the path, its rights and the free space"


def _fail(message: str, error: Exception, debug: bool) -> int:
    if debug:
        raise error
    line = printable(" ".join(message.split()))
    typer.echo(f"rmixup: error: {line}", err=True)
    return EXIT_BAD_INPUT
