"""Run a function in a child process that is killed, or that has little disk or memory; a hundred take seconds."""

import json
import os
import resource
import signal
import sys
import warnings
from collections.abc import Callable
from itertools import count
from typing import Any

import torch

# What changes a file system: a child can be killed in front of any of these.
_CALLS = ("mkdir", "rename", "replace", "fsync", "unlink", "remove", "rmdir", "utime", "ftruncate", "open")


def in_child(function: Callable[[], Any]) -> tuple[int, Any]:
    """The exit status of a forked child (-9 where it was killed), and what the function returned or the error's text.

    What it returns must be JSON.
    """
    ours, theirs = os.pipe()
    sys.stdout.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads; the child uses none
        child = os.fork()
    if child == 0:
        _live(function, theirs)
    os.close(theirs)
    with os.fdopen(ours, "rb") as pipe:
        said = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return status, json.loads(said) if said else None


def _live(function: Callable[[], Any], pipe: int) -> None:
    """The life of a child. It never returns: what the parent opened is not the child's to close."""
    torch.set_num_threads(1)
    try:
        said, status = function(), 0
    except BaseException as error:
        said, status = f"{type(error).__name__}: {error}", 1
    write(pipe, json.dumps(said).encode())
    os._exit(status)


write = os.write


def killed_before(call: int, function: Callable[[], Any]) -> bool:
    """Run a function in a child that kills itself in front of its `call`-th change of files; False: it made fewer."""

    def live() -> None:
        counter = count()
        for name in _CALLS:
            setattr(os, name, _counted(getattr(os, name), counter, call))
        function()

    status, said = in_child(live)
    assert status in {0, -signal.SIGKILL}, said
    return status != 0


def _counted(real: Callable[..., Any], counter: Any, last: int) -> Callable[..., Any]:
    def call(*arguments: Any, **named: Any) -> Any:
        if next(counter) == last:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **named)

    return call


def with_file_limit(size: int, function: Callable[[], Any]) -> tuple[int, Any]:
    """Run a function in a child that can write no file longer than so many bytes."""

    def live() -> Any:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        return function()

    return in_child(live)
