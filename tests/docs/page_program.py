"""Turn a page of the documentation into one program, so that what a reader copies is what is tested.

Blocks fenced as ```python and ```bash are kept, all else becomes empty lines: a traceback's line number is the
page's. Python blocks share their names; a bash block stops at its first failing command. A block that cannot run here
follows a comment <!-- not run: REASON -->, and pages say why to whoever reads their source.
"""

from __future__ import annotations

import re
from typing import NamedTuple

NOT_RUN = re.compile(r"<!-- not run: (?P<reason>.+) -->")
# A directive such as {literalinclude} has its file behind it.
FENCE = re.compile(r"(?P<indent> *)```(?P<language>[^\s`]*)[^`]*$")
HELPER = (
    "import subprocess as _subprocess; "
    "_bash = lambda text: _subprocess.run(['bash', '-euo', 'pipefail', '-c', text], check=True)"
)


class Block(NamedTuple):
    """A fenced block: its language, the number of its first line (from 1), its lines, and why it is not run."""

    language: str
    first: int
    lines: tuple[str, ...]
    not_run: str | None


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page, in order.

    >>> found = blocks("```python\\nx = 1\\n```\\n\\n<!-- not run: needs a GPU -->\\n```bash\\nls\\n```")
    >>> [(block.language, block.first, block.lines, block.not_run) for block in found]
    [('python', 2, ('x = 1',), None), ('bash', 7, ('ls',), 'needs a GPU')]
    """
    found, lines, reason, k = [], page.splitlines(), None, 0
    while k < len(lines):
        if comment := NOT_RUN.fullmatch(lines[k].strip()):
            reason = comment["reason"]
        elif fence := FENCE.match(lines[k]):
            indent = fence["indent"]
            end = next(e for e in range(k + 1, len(lines)) if lines[e].rstrip() == indent + "```")
            inside = tuple(line.removeprefix(indent) for line in lines[k + 1 : end])
            found.append(Block(fence["language"], k + 2, inside, reason))
            reason, k = None, end
        elif lines[k].strip():
            reason = None
        k += 1
    return found


def program(page: str) -> str:
    """The Python program that runs a page's blocks in order.

    >>> print(program("```bash\\nls\\n```\\n```python\\nx = 1\\n```").partition("check=True)")[2])
    <BLANKLINE>
    _bash('ls')
    <BLANKLINE>
    <BLANKLINE>
    x = 1
    <BLANKLINE>
    """
    lines = [""] * (len(page.splitlines()) + 1)
    for block in blocks(page):
        if block.not_run is not None:
            continue
        if block.language == "bash":
            lines[block.first - 1] = f"_bash({chr(10).join(block.lines)!r})"
        elif block.language == "python":
            lines[block.first - 1 : block.first - 1 + len(block.lines)] = block.lines
    lines[0] = HELPER
    return "\n".join(lines)
