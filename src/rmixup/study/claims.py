"""Who works on what: a claim is a folder that only one runner can create, so that two may share a study.

A claim holds its owner (host, process, birth of the process). The claim of a dead process on this host counts for
nothing at once; that of a process elsewhere once its heartbeat is old. A stale claim is never deleted by others: the
next generation of the same claim is created beside it, which again only one runner can do.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rmixup.owner import STALE_SECONDS, Owner, me, token_is_dead
from rmixup.study.files import TEMPORARY, place_folder


@dataclass(frozen=True)
class Claim:
    """A live claim, for people: who, since when, on which cells."""

    stack: str
    owner: Owner
    since: float
    cells: tuple[str, ...]


class Claims:
    """The claims of one study."""

    def __init__(self, folder: Path, stale_after: float = STALE_SECONDS) -> None:
        self.folder = folder
        self.stale_after = stale_after
        self._mine: dict[str, Path] = {}
        self._lock = threading.Lock()

    def take(self, stack: str, cells: Sequence[str]) -> bool:
        """Try to become the one who works on a stack."""
        self.folder.mkdir(parents=True, exist_ok=True)
        places = self._generations(stack)
        if places and not self._stale(places[-1]):
            return False
        place = self.folder / f"{stack}.{_generation(places[-1]) + 1 if places else 0:04d}"
        owner = me()
        about = {**asdict(owner), "token": owner.token, "since": time.time(), "cells": list(cells)}
        with self._lock:
            self._mine[stack] = place  # first, so that an interrupt in the next line leaves no claim behind
        taken = place_folder({"owner.json": json.dumps(about).encode()}, place)
        if not taken:
            with self._lock:
                del self._mine[stack]
        return taken

    def release(self, stack: str) -> None:
        """Give a stack back, and with it the stale claims it replaced, oldest first."""
        mine, token = self._mine[stack], me().token
        for place in self._generations(stack):
            if place < mine or (place == mine and _token(place) == token):
                shutil.rmtree(place, ignore_errors=True)
        with self._lock:
            del self._mine[stack]

    def release_all(self) -> None:
        """Give everything back that this runner holds."""
        for stack in list(self._mine):
            self.release(stack)

    def live(self) -> list[Claim]:
        """The claims that stand, of every runner."""
        stacks = sorted({place.name.partition(".")[0] for place in self._places()})
        latest = [self._generations(stack)[-1:] for stack in stacks]
        return [claim for places in latest for place in places if not self._stale(place) and (claim := _read(place))]

    def beat(self) -> None:
        """Show life."""
        with self._lock:
            places = list(self._mine.values())
        for place in places:
            with contextlib.suppress(OSError):
                os.utime(place / "owner.json")

    @contextlib.contextmanager
    def beating(self) -> Iterator[None]:
        """Show life now and then while the block runs."""
        stop = threading.Event()

        def loop() -> None:
            while not stop.wait(self.stale_after / 6):
                self.beat()

        thread = threading.Thread(target=loop, name="heartbeat", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def _places(self) -> list[Path]:
        if not self.folder.is_dir():
            return []
        return [place for place in self.folder.iterdir() if not place.name.startswith(".")]

    def _generations(self, stack: str) -> list[Path]:
        return sorted(place for place in self._places() if place.name.startswith(f"{stack}."))

    def _stale(self, place: Path) -> bool:
        try:
            age = self._now() - (place / "owner.json").stat().st_mtime
        except FileNotFoundError:
            return True  # being released
        token = _token(place)  # "" where it is damaged: whoever comes next may have it
        return not token or token_is_dead(token, age, self.stale_after)

    def _now(self) -> float:
        """The time by the clock that stamps the claims, which on a shared file system is not this machine's."""
        probe = self.folder / f"{TEMPORARY}{me().token}.{uuid.uuid4().hex[:8]}"
        probe.touch()
        stamp = probe.stat().st_mtime
        probe.unlink()
        return stamp


def _generation(place: Path) -> int:
    return int(place.name.partition(".")[2])


def _token(place: Path) -> str:
    """The token of a claim's owner; empty where it cannot be read."""
    try:
        return str(json.loads((place / "owner.json").read_bytes())["token"])
    except (OSError, ValueError, KeyError):
        return ""


def _read(place: Path) -> Claim | None:
    """None where the claim was given back meanwhile."""
    try:
        about = json.loads((place / "owner.json").read_bytes())
        owner = Owner(about["host"], about["pid"], about["born"])
        return Claim(place.name.partition(".")[0], owner, about["since"], tuple(about["cells"]))
    except (OSError, ValueError, KeyError):
        return None
