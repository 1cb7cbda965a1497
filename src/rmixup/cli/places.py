"""Whether a command can write where it was told to, asked before its work is done and not after."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from rmixup.errors import StoreError

if TYPE_CHECKING:
    from pathlib import Path


def check_folder(out: Path, option: str = "--out") -> None:
    """Refuse a folder to write to that is a file, or that cannot be made or written.

    Parameters
    ----------
    out : folder; need not exist
    option : what to say it was given with

    >>> from pathlib import Path
    >>> check_folder(Path("not-there-yet"))
    >>> check_folder(Path(__file__))
    Traceback (most recent call last):
    rmixup.errors.StoreError: ...places.py: a folder is to be written, but a file is there; choose another --out
    """
    if out.exists() and not out.is_dir():
        raise StoreError(f"{out}: a folder is to be written, but a file is there; choose another {option}")
    _check_way(out, option)


def check_file(out: Path, option: str = "--out") -> None:
    """Refuse a file to write that is a folder, or that cannot be made."""
    if out.is_dir():
        raise StoreError(f"{out}: a file is to be written, but a folder is there; choose another {option}")
    # A file is replaced by renaming, so its folder's rights count and not its own.
    _check_way(out.absolute().parent, option, out)


def nearest(place: Path) -> Path:
    """The place if it is there, else the nearest folder above it that is."""
    place = place.absolute()
    return next(one for one in (place, *place.parents) if one.exists())


def _check_way(folder: Path, option: str, named: Path | None = None) -> None:
    """The nearest folder that is there must be one, and writable."""
    said, place = named or folder, folder.absolute()
    there = nearest(place)
    if not there.is_dir():
        raise StoreError(f"{said}: cannot be made, because {there} is a file; choose another {option}")
    if not os.access(there, os.W_OK | os.X_OK):
        raise StoreError(f"{said}: cannot be written, for want of rights in {there}; choose another {option}")
