"""The command line: one file a command, each one call into the package below.

May not be here: computation. A command reads its options, calls one public function, prints what came back.
`COMMANDS` lists the files; heavy imports happen inside a command, so that `rmixup --help` is quick.
"""

from __future__ import annotations

import sys
from importlib import import_module

import typer

from rmixup.errors import RMixupError

# Command -> module; a module has a function `command`, or an `app` for a group of commands.
COMMANDS = {
    "demo": "rmixup.cli.demo",
    "bench": "rmixup.cli.bench",
    "import": "rmixup.cli.import_",
    "fetch": "rmixup.cli.fetch",
    "check": "rmixup.cli.check",
    "train": "rmixup.cli.train",
    "predict": "rmixup.cli.predict",
    "study": "rmixup.cli.study",
    "paper": "rmixup.cli.paper",
    "report": "rmixup.cli.report",
}

# typer >= 0.20 carries its own copy of click, earlier ones use click itself: reach the class through typer.
_ClickError: type[Exception] = typer.BadParameter.__mro__[2]

EXIT_NO = 1
EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130


def build() -> typer.Typer:
    """Put the commands together."""
    app = typer.Typer(
        name="rmixup",
        help="Augment, model and evaluate networks measured on few samples.",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(_options)
    for name, module in COMMANDS.items():
        part = import_module(module)
        if hasattr(part, "app"):
            app.add_typer(part.app, name=name)
        else:
            app.command(name=name)(part.command)
    return app


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
    try:
        code = build()(args=arguments, standalone_mode=False)
    except (typer.Abort, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    except _ClickError as error:
        return _fail(getattr(error, "message", str(error)), error, debug)
    except (RMixupError, OSError) as error:
        return _fail(str(error), error, debug)
    return code if isinstance(code, int) else 0


def _fail(message: str, error: Exception, debug: bool) -> int:
    if debug:
        raise error
    line = " ".join(message.split())
    typer.echo(f"rmixup: error: {line}", err=True)
    return EXIT_BAD_INPUT
