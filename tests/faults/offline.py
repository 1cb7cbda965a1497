"""Runs commands with an eye on sockets: `offline.py LOG COMMANDS.json`. As sitecustomize it watches its children too.

Python tells its audit hooks of every name that is looked up and every connection that is made, whoever makes it.
"""

import json
import os
import sys
from typing import Any

_WATCHED = (
    "socket.connect",
    "socket.getaddrinfo",
    "socket.gethostbyname",
    "socket.sendto",
    "urllib.Request",
    "ftplib.connect",
)
_LOCAL = ("127.", "::1", "localhost")


def watch(log: str) -> None:
    """Write down, and forbid, everything that leaves this machine."""

    def hook(event: str, given: Any) -> None:
        if event not in _WATCHED or _is_local(event, given):
            return
        with open(log, "a") as file:  # noqa: PTH123 -- pathlib may not be loaded yet
            file.write(f"{event} {given!r}\n")
        raise OSError(f"the network is watched: {event} {given!r}")

    sys.addaudithook(hook)


def _is_local(event: str, given: Any) -> bool:
    if event == "urllib.Request":
        return str(given[0]).startswith(("file:", "http://127.", "http://localhost"))
    address = given[1] if event in {"socket.connect", "socket.sendto"} else given[0]
    host = address[0] if isinstance(address, tuple) else address
    return host is None or isinstance(address, bytes) or str(host).startswith((*_LOCAL, "/"))


def main() -> None:
    """Run the commands one after the other in this process; print their exit codes as JSON."""
    from rmixup.cli import run

    with open(sys.argv[2]) as file:  # noqa: PTH123
        commands = json.load(file)
    codes = [run(command) for command in commands]
    sys.stdout.write("@" + json.dumps(codes))


if "RMIXUP_WATCH" in os.environ:
    watch(os.environ["RMIXUP_WATCH"])
if __name__ == "__main__":
    main()
