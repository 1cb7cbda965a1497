"""Read docstrings as they are written here: plain text with `code`, in which * and | mean themselves.

Sphinx expects reStructuredText, in which `(seed, *labels)` begins an emphasis that never ends, and numpydoc a heading
over every example. Code, examples and lists are left as they are; indented lines of a module's docstring are code.
"""

from __future__ import annotations

import re
from typing import Any

# Before napoleon, which turns sections into fields.
PRIORITY = 400
# The underscore that ends `(n_iter_,)` would be a link.
MARKS = re.compile(r"`[^`]*`|[*|]|(?<=\w)_(?=,?\))")
# scikit-learn adds these to every estimator, with links into its own pages.
REQUESTS = re.compile(r"set_\w+_request$")
BULLET = re.compile(r"\s*[*-] ")


def setup(app: Any) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", prepare, priority=PRIORITY)
    app.connect("autodoc-skip-member", without_words)
    return {"parallel_read_safe": True}


def without_words(  # noqa: PLR0917 -- Sphinx passes them by position
    app: Any, what: str, name: str, obj: Any, skip: bool, options: Any
) -> bool | None:
    """Leave out fields of named tuples, which Python documents as numbers, and scikit-learn's requests."""
    is_field = str(getattr(obj, "__doc__", "")).startswith("Alias for field number")
    return True if is_field or REQUESTS.match(name) else None


def prepare(  # noqa: PLR0917 -- Sphinx passes them by position
    app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    made: list[str] = []
    kind = "text"
    if what == "module":
        lines[:] = without_house_rules(lines)
    for line in lines:
        after, kind = kind, kind_of(line, kind, what == "module", bool(made) and not made[-1].strip())
        if kind == "example" != after and made and set(made[-1].strip()) != {"-"}:
            made += ["", ""]  # two empty lines end a section, so that an example is not taken for a parameter
        if kind == "code" != after:
            made += ["::", ""]
        made.append(escaped(line) if kind == "text" else line)
    lines[:] = returns_as_text(made)


def returns_as_text(lines: list[str]) -> list[str]:
    """What comes back is told in words here; napoleon would take them for a type, and cut them at a colon.

    >>> returns_as_text(["Returns", "-------", "(n,), as it came: dtype", "and device.", "", ">>> f()"])
    ['', '', ':returns: (n,), as it came: dtype', '    and device.', '', '>>> f()']
    """
    made: list[str] = []
    inside = False
    for line in lines:
        if made and made[-1].strip() == "Returns" and set(line.strip()) == {"-"}:
            made[-1:] = ["", "", ":returns:"]  # two empty lines end the section before
            inside = True
        elif not inside:
            made.append(line)
        elif made[-1] == ":returns:":
            made[-1] += f" {line.strip()}"
        else:
            inside = bool(line.strip())
            made.append(f"    {line.strip()}" if inside else line)
    return made


def without_house_rules(lines: list[str]) -> list[str]:
    """A module's text without what may not be in it, which is said to those who change it."""
    text = re.sub(r"(^|(?<=\s))(What may|May) not be here:.*?(?=\n\s*\n|\Z)", "", "\n".join(lines), flags=re.DOTALL)
    return [*text.rstrip().split("\n"), ""]


def kind_of(line: str, before: str, module: bool, after_gap: bool) -> str:
    """Whether a line is text, an example, or code, given what the line before it was."""
    if not line.strip():
        return "code" if before == "code" else "text"
    if line.lstrip().startswith(">>>") or before == "example":
        return "example"
    indented = line.startswith("    ")
    return "code" if module and indented and (before == "code" or after_gap) else "text"


def escaped(line: str) -> str:
    bullet = BULLET.match(line)
    start = bullet.end() if bullet else 0
    return line[:start] + MARKS.sub(lambda mark: mark[0] if mark[0][0] == "`" else "\\" + mark[0], line[start:])
