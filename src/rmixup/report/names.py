"""Names that come from data, made safe to show: one line, nothing invisible, not too long.

A name may be anything that UTF-8 can hold. What is shown differs from the name itself only where the name could
deceive or break a page: control characters, marks that turn the direction of writing, and what goes on for ever.
Escaping for HTML is left to the template.
"""

from __future__ import annotations

import re

LONGEST = 48
_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb\ufffe\uffff]"
)


def visible(name: object) -> str:
    """A name on one line, with a mark in place of each character that cannot be seen.

    >>> visible("a" + chr(10) + chr(0x202E) + "b")
    'a��b'
    """
    return _HIDDEN.sub("\N{REPLACEMENT CHARACTER}", str(name))


def short(name: object, longest: int = LONGEST) -> str:
    """The same, cut in the middle where it is too long: names often differ at their ends.

    >>> short("x" * 30 + "end", longest=12)
    'xxxxxxxx…end'
    """
    text = visible(name)
    if len(text) <= longest:
        return text
    tail = longest // 4
    return f"{text[: longest - tail - 1]}…{text[-tail:]}"
