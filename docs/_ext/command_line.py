"""Write the reference of the command line from the commands themselves, at each build, so that it cannot go stale."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import typer

PAGE = "reference/command-line"
ROOT = "rmixup"


def setup(app: Any) -> dict[str, bool]:
    """Tell Sphinx: the page is always read anew, and its text is made when it is read."""
    app.connect("env-get-outdated", lambda *_: [PAGE])
    app.connect("source-read", append)
    return {"parallel_read_safe": True}


def append(app: Any, docname: str, source: list[str]) -> None:
    if docname == PAGE:
        source[0] += "\n" + page()


def page() -> str:
    """The Markdown of all commands."""
    from rmixup.cli import build

    root = typer.main.get_command(build())
    return "\n".join(line for path, command in walk(ROOT, root) for line in section(path, command))


def walk(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    """A command and those below it; a group stands before its commands."""
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        if not inner.hidden:
            yield from walk(f"{path} {name}", inner)


def section(path: str, command: Any) -> Iterator[str]:
    """Heading, usage, words, examples, and a table of options for each panel of the help."""
    depth = 2 if path.count(" ") < 2 else 3
    yield f"\n{'#' * depth} {path}\n"
    yield words(command.help or "") + "\n"
    examples = [line for line in (command.epilog or "").splitlines() if line.startswith("rmixup ")]
    yield f"```text\n{usage(path, command)}\n```\n"
    if examples:
        yield "```console\n" + "\n".join(f"$ {example}" for example in examples) + "\n```\n"
    for title, parameters in panels(command).items():
        yield f"| {title} | |\n|---|---|"
        yield from (f"| {names(p)} | {meaning(p)} |" for p in parameters)
        yield ""


def words(text: str) -> str:
    """A help text, in which a bracket that is meant has a backslash before it."""
    return escaped(inspect.cleandoc(text).replace(r"\[", "["))


def usage(path: str, command: Any) -> str:
    arguments = [p.name.upper() if p.required else f"[{p.name.upper()}]" for p in positional(command)]
    return " ".join([path, *arguments, *(["COMMAND"] if getattr(command, "commands", None) else []), "[OPTIONS]"])


def positional(command: Any) -> list[Any]:
    return [p for p in command.params if p.param_type_name == "argument"]


def panels(command: Any) -> dict[str, list[Any]]:
    """Parameters by the title they stand under in the help."""
    found: dict[str, list[Any]] = {}
    for p in command.params:
        if not getattr(p, "hidden", False):
            title = "Arguments" if p.param_type_name == "argument" else "Options"
            found.setdefault(getattr(p, "rich_help_panel", None) or title, []).append(p)
    return found


def names(p: Any) -> str:
    if p.param_type_name == "argument":
        return f"`{p.name.upper()}`"
    return ", ".join(f"`{name}`" for name in (*p.opts, *p.secondary_opts))


def meaning(p: Any) -> str:
    """What a parameter is for, and what it is where nothing is given."""
    default = "" if p.default in (None, False, (), []) or callable(p.default) else f" Default: `{plain(p.default)}`."
    return escaped(" ".join((p.help or "").split())) + (" Required." if p.required else "") + default


def plain(value: Any) -> Any:
    return getattr(value, "value", value)


def escaped(text: str) -> str:
    """Keep characters of Markdown that are meant as they stand."""
    return re.sub(r"([|<>*_\[\]$])", r"\\\1", text)
