"""How often a fault was tried, and what was lost."""

import contextlib
import os
from collections.abc import Iterable, Iterator
from typing import Any

FULL = os.environ.get("RMIXUP_FAULTS") == "full"


def few(items: Iterable[Any], count: int) -> list[Any]:
    """All of them when everything is tried, the first few in the ordinary suite."""
    return list(items) if FULL else list(items)[:count]


class Tally:
    """Tries of one test."""

    full = FULL

    def __init__(self) -> None:
        self.tries = 0
        self.lost: list[str] = []

    @staticmethod
    def many(ci: int, full: int) -> int:
        """How often to try."""
        return full if FULL else ci

    @contextlib.contextmanager
    def attempt(self, what: object) -> Iterator[None]:
        """One try; whatever goes wrong in it is kept until all were made."""
        self.tries += 1
        try:
            yield
        except Exception as error:
            self.lost.append(f"{what}: {type(error).__name__}: {error}")

    def count(self, tries: int, lost: int = 0, what: object = "") -> None:
        """Tries that something else made."""
        self.tries += tries
        self.lost += [str(what)] * lost
