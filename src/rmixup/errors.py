"""The errors of rmixup. Each says what was expected, what came, where, and what to do.

Nothing is imported here, so every part of the package can raise them.
"""


class RMixupError(Exception):
    """Base of all errors that rmixup raises on purpose; the command line shows them in one line."""


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
