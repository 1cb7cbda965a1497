"""Which process something on disk belongs to, and whether that process is still alive.

Temporaries and claims carry their owner's token, so that what the dead left can be told from the work of the living.
May not be here: what is done about it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import uuid
from dataclasses import dataclass
from functools import cache
from pathlib import Path

# A process elsewhere that has not shown life for this long is taken for dead.
STALE_SECONDS = 180.0


@dataclass(frozen=True)
class Owner:
    """A process: the host it runs on (with its boot and its process namespace), its number, its time of birth."""

    host: str
    pid: int
    born: str

    @property
    def token(self) -> str:
        """The owner as part of a file name."""
        return f"{_short(self.host)}-{self.pid}-{self.born}"


def me() -> Owner:
    """This process."""
    return Owner(_host(), os.getpid(), _born(os.getpid()) or "0")


def _short(host: str) -> str:
    return hashlib.blake2b(host.encode(), digest_size=4).hexdigest()


@cache
def _host() -> str:
    """Processes are comparable only on one machine, since one boot, within one process namespace."""
    boot, space = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/self/ns/pid")
    with contextlib.suppress(OSError):
        return f"{socket.gethostname()} {boot.read_text().strip()[:8]} {space.readlink()}"
    return f"{socket.gethostname()} {uuid.getnode():x}"


def _born(pid: int) -> str | None:
    """Clock ticks from boot to the start of a process, None where it is dead, "0" where the system does not say."""
    if not Path("/proc/self/stat").exists():
        return "0" if _answers(pid) else None
    try:
        state, *rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if state in {"Z", "X"} else rest[18]


def _answers(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def token_is_dead(token: str, age: float, stale_after: float = STALE_SECONDS) -> bool:
    """Whether the process named by an `Owner.token` is gone, judged by age where it cannot be asked.

    >>> token_is_dead(me().token, age=1e9), token_is_dead("another-1-2", age=1.0)
    (False, False)
    """
    host, _, process = token.partition("-")
    pid, _, born = process.partition("-")
    if host != _short(_host()) or os.name != "posix" or not pid.isdecimal():
        return age > stale_after
    return _born(int(pid)) != born
