"""The errors of rmixup. Each says what was expected, what came, where, and what to do.

Nothing is imported here, so every part of the package can raise them.
"""


class RMixupError(Exception):
    """Base of all errors that rmixup raises on purpose; the command line shows them in one line.

    Messages quote what stands in files, so they are made safe to print here: one line, whatever was quoted.

    >>> str(RMixupError("expected a number, found a\\nb\\x1b[2J"))
    'expected a number, found a b\\\\x1b[2J'
    """

    def __str__(self) -> str:
        return printable(super().__str__())


def printable(text: str) -> str:
    """A text as one line of characters that show: a terminal may obey others, and some cannot be written at all."""
    if text.isprintable():
        return text
    line = " ".join(part.strip() for part in text.splitlines())
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)


class DataError(RMixupError, ValueError):
    """The values handed in cannot be used: wrong shape, non-finite, undefined label."""


class NotSPDError(DataError):
    """A matrix that must be symmetric positive definite is not."""


class FormatError(DataError):
    """A file is damaged, of another kind than expected, or not safe to read."""


class LeakageError(RMixupError, ValueError):
    """What was asked would let test or validation data influence training."""


class StoreError(RMixupError, OSError):
    """A folder that rmixup wrote cannot be read or written as it stands."""
