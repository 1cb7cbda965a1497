"""Files that are never half there: bytes are written beside their place, synced, and put in place by one rename.

A sealed file is JSON that carries the checksum of its own content, so that one flipped bit shows.
Studies and models are written with this. May not be here: what the files mean.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rmixup.errors import StoreError

TEMPORARY = ".tmp-"


def canonical(value: object) -> str:
    """The one JSON text of a value: sorted keys, no spaces, whole floats as integers, no NaN.

    >>> canonical({"b": 1.0, "a": (True, 0.5)})
    '{"a":[true,0.5],"b":1}'
    """
    return json.dumps(_whole(value), sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=True)


def _whole(value: object) -> object:
    """1.0 and 1 are one number, so they must be one text."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {str(name): _whole(item) for name, item in value.items()}
    return [_whole(item) for item in value] if isinstance(value, list | tuple) else value


def digest(content: bytes) -> str:
    """SHA-256 in hex."""
    return hashlib.sha256(content).hexdigest()


def short_hash(value: object) -> str:
    """24 hex digits that stand for a value; safe as a file name on every system."""
    return hashlib.blake2b(canonical(value).encode(), digest_size=12).hexdigest()


def seal(body: Mapping[str, Any]) -> bytes:
    """JSON bytes with the checksum of the body inside."""
    sealed = {**body, "sha256": digest(canonical(body).encode())}
    return (json.dumps(sealed, indent=1, sort_keys=True, allow_nan=False) + "\n").encode()


def unseal(path: Path) -> dict[str, Any]:
    """Read a sealed file; a file that is not exactly as `seal` wrote it is a StoreError.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "a.json"
    >>> write(path, seal({"x": 1}))
    >>> unseal(path)
    {'x': 1}
    """
    content = path.read_bytes()
    try:
        body = json.loads(content)
        claimed = body.pop("sha256")
        intact = claimed == digest(canonical(body).encode()) and seal(body) == content
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        intact = False
    if not intact:
        raise StoreError(
            f"{path}: expected a file as rmixup wrote it, but it is torn or was changed: restore or delete it"
        )
    return dict(body)


def write(path: Path, content: bytes) -> None:
    """Write a file in place of what was there, all or nothing."""
    temporary = path.with_name(f"{TEMPORARY}{uuid.uuid4().hex}")
    try:
        write_new(temporary, content)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


def write_new(path: Path, content: bytes) -> None:
    """Write a new file and force it to the disk; a failure names the file and its size."""
    try:
        with path.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise StoreError(
            f"{path}: could not write {len(content)} bytes ({error.strerror}): free space or rights?"
        ) from error


def sync_folder(folder: Path) -> None:
    """Force the entries of a folder to the disk, where the system can do that."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def place_folder(files: Mapping[str, bytes], target: Path, owner: str, overwrite: bool = False) -> bool:
    """Write a folder with these files beside `target`, then rename it there.

    Returns False, and leaves no trace, where `target` exists already, unless `overwrite`: then it steps aside once
    the new one is complete, and is removed last. The temporary's name holds `owner`, so that a later run can tell
    leftovers of the dead from the work of the living.
    """
    temporary = target.with_name(f"{TEMPORARY}{owner}.{uuid.uuid4().hex[:8]}")
    try:
        temporary.mkdir(parents=True)
        for name, content in files.items():
            write_new(temporary / name, content)
        sync_folder(temporary)
        with _set_aside(target, overwrite):
            if not _rename_to_free_place(temporary, target):
                return False
        sync_folder(target.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return True


@contextmanager
def _set_aside(target: Path, wanted: bool) -> Iterator[None]:
    """Move what is at a place out of the way; it comes back where the place is not taken in the end."""
    if not wanted or not target.exists():
        yield
        return
    aside = target.with_name(f"{TEMPORARY}{target.name}.{uuid.uuid4().hex[:8]}.old")
    target.rename(aside)
    try:
        yield
    finally:
        if target.exists():
            shutil.rmtree(aside, ignore_errors=True)
        else:
            aside.rename(target)


def _rename_to_free_place(source: Path, target: Path) -> bool:
    """Rename a folder unless the place is taken: a rename onto a folder with content fails on every system."""
    try:
        source.rename(target)
    except OSError as error:
        if target.exists():
            return False
        raise StoreError(f"{target}: could not put a finished folder in place ({error.strerror})") from error
    return True
