"""Files that are never half there: bytes are written beside their place, synced, and put in place by one rename.

A sealed file is JSON that carries the checksum of its own content, so that one flipped bit shows.
Studies and models are written with this. May not be here: what the files mean.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rmixup.errors import StoreError
from rmixup.owner import me, token_is_dead

TEMPORARY = ".tmp-"
# Ends the name of what steps aside until its successor is in place.
_ASIDE = ".old"


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


def beside(target: Path, suffix: str = "") -> Path:
    """A hidden name beside a place, which says whose it is and for which place."""
    return target.with_name(f"{TEMPORARY}{me().token}.{_mark(target)}-{uuid.uuid4().hex[:8]}{suffix}")


def _mark(target: Path) -> str:
    """Stands for a name, which may itself be as long as a name can be."""
    return short_hash(target.name)[:8]


def sweep(target: Path) -> None:
    """Remove what writers of a place left who died; bring back what one had moved aside."""
    for path in sorted(target.parent.glob(f"{TEMPORARY}*.{_mark(target)}-*")):
        if not is_left_over(path):
            continue
        if path.suffix == _ASIDE and not target.exists():
            path.rename(target)
        elif path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def is_left_over(path: Path) -> bool:
    """Whether the one who wrote a temporary is gone."""
    token = path.name.removeprefix(TEMPORARY).partition(".")[0]
    try:
        return token_is_dead(token, time.time() - path.stat().st_mtime)
    except FileNotFoundError:
        return False


def write(path: Path, content: bytes) -> None:
    """Write a file in place of what was there, all or nothing."""
    sweep(path)
    temporary = beside(path)
    try:
        write_new(temporary, content, path)
        temporary.replace(path)
    finally:
        discard(temporary)
    sync_folder(path.parent)


def write_new(path: Path, content: bytes, place: Path) -> None:
    """Write a new file and force it to the disk; a failure names the size, and the place the file was meant for."""
    try:
        with path.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise StoreError(
            f"{place}: could not write {len(content)} bytes ({error.strerror}): free space or rights?"
        ) from error


def discard(temporary: Path) -> None:
    """Remove a temporary file, if it is there and can be; why the work failed must not be hidden by this."""
    with contextlib.suppress(OSError):
        temporary.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Force what another library wrote to a file to the disk."""
    with path.open("rb+") as stream:
        os.fsync(stream.fileno())


def sync_folder(folder: Path) -> None:
    """Force the entries of a folder to the disk, where the system can do that."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def place_folder(files: Mapping[str, bytes], target: Path, overwrite: bool = False) -> bool:
    """Write a folder with these files beside `target`, then rename it there.

    Returns False, and leaves no trace, where `target` exists already, unless `overwrite`: then it steps aside once
    the new one is complete, and is removed last (`sweep` brings it back where the writer died in between).
    """
    temporary = beside(target)
    try:
        _make(temporary, target, sum(map(len, files.values())))
        for name, content in files.items():
            write_new(temporary / name, content, target / name)
        sync_folder(temporary)
        with _set_aside(target, overwrite):
            if not _rename_to_free_place(temporary, target):
                return False
        sync_folder(target.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return True


def _make(folder: Path, target: Path, size: int) -> None:
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise StoreError(
            f"{target}: could not write a folder of {size} bytes there ({error.strerror}): free space or rights?"
        ) from error


@contextmanager
def _set_aside(target: Path, wanted: bool) -> Iterator[None]:
    """Move what is at a place out of the way; it comes back where the place is not taken in the end."""
    if not wanted or not target.exists():
        yield
        return
    aside = beside(target, _ASIDE)
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
