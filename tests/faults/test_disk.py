"""A disk that is full, a limit on the size of files, a folder that cannot be written."""

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from artefacts import ARTEFACTS, Artefact, study, warm
from forks import in_child, with_file_limit
from tally import Tally

from rmixup import simulate

KEPT = {name: artefact for name, artefact in ARTEFACTS.items() if name not in {"cell", "failure"}}


def _refused(artefact: Artefact, place: Path, status: int, said: str, reason: str) -> None:
    """The write ended with one line that names the place and the reason; the old version is whole, nothing is left."""
    assert status == 1, f"ended with {status}: {said}"
    assert said.startswith("StoreError: ")
    assert "\n" not in said
    assert str(place) in said
    assert reason in said
    assert re.search(r"\d bytes|\d rows", said), said
    left = [path.name for path in place.parent.rglob(".*")]
    assert not left, f"left: {left}"


@pytest.mark.fault(4)
@pytest.mark.parametrize("name", KEPT)
def test_a_limit_on_the_size_of_files(name: str, tmp_path: Path, tally: Tally) -> None:
    """Every size from nothing to what suffices: refused, or written whole."""
    warm()
    artefact = KEPT[name]
    place = tmp_path / artefact.place
    artefact.put(place, 0)
    before = artefact.get(place)
    largest = max(path.stat().st_size for path in [place, *place.rglob("*")] if path.is_file())
    for k in range(tally.many(6, 40)):
        size = largest * k // tally.many(6, 40)
        with tally.attempt(f"{name}, {size} of {largest} bytes"):
            status, said = with_file_limit(size, lambda: str(artefact.put(place, 1)))
            if status != 0:
                _refused(artefact, place, status, said, "File too large")
                assert artefact.get(place) == before
            else:
                artefact.put(place, 0)
                assert artefact.get(place) == before


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Mounts a disk of a given size."""
    mounted: list[Path] = []

    def mount(options: str) -> Path:
        folder = tmp_path / f"disk {len(mounted)}"
        folder.mkdir()
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True, check=False
        )
        if done.returncode:
            pytest.skip("only root can mount a small disk")
        mounted.append(folder)
        return folder

    yield mount
    for folder in mounted:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.fault(4)
@pytest.mark.parametrize("name", KEPT)
def test_a_full_disk(name: str, small_disk: Callable[[str], Path], tally: Tally) -> None:
    """The disk takes the old version and less than a new one."""
    if os.geteuid():
        pytest.skip("only root can mount a small disk")
    warm()
    artefact = KEPT[name]
    disk = small_disk("size=2m")
    place = disk / artefact.place
    artefact.put(place, 0)
    before = artefact.get(place)
    for free in [0, 4096, 8192] if not tally.full else range(0, 13 * 4096, 4096):
        filler = disk / "filler"
        _fill(filler, free)
        with tally.attempt(f"{name}, {free} bytes free"):
            status, said = in_child(lambda: str(artefact.put(place, 1)))
            if status != 0:
                _refused(artefact, place, status, said, "No space left on device")
            else:
                filler.unlink()
                artefact.put(place, 0)
            assert artefact.get(place) == before
        filler.unlink(missing_ok=True)


def _fill(filler: Path, free: int) -> None:
    """Take all of a disk but so much."""
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            file.truncate(max(0, file.tell() - free))


@pytest.mark.fault(4)
def test_a_cache_that_fills_the_disk_is_an_error_and_not_a_signal(small_disk: Callable[[str], Path]) -> None:
    """Arrays are written through a memory map: without room the system would kill the process with SIGBUS."""
    disk = small_disk("size=256k")
    ds = simulate(n_subjects=40, n_nodes=40, n_frames=60)
    x = np.array(ds.matrices)

    def prepare() -> None:
        from rmixup import RMixup

        RMixup().prepare(x, ds.y, cache=disk / "cache")

    status, said = in_child(prepare)
    assert (status, said.partition(":")[0]) == (1, "StoreError")
    assert re.search(r"cannot be used for \d{6} bytes \(\[Errno 28\] No space left on device\)", said), said
    assert not list((disk / "cache").iterdir())


@pytest.mark.fault(4)
@pytest.mark.parametrize("name", KEPT)
def test_a_folder_that_cannot_be_written(name: str, small_disk: Callable[[str], Path]) -> None:
    warm()
    artefact = KEPT[name]
    disk = small_disk("size=2m")
    place = disk / artefact.place
    artefact.put(place, 0)
    before = artefact.get(place)
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    status, said = in_child(lambda: str(artefact.put(place, 1)))
    _refused(artefact, place, status, said, "Read-only file system")
    assert artefact.get(place) == before


@pytest.mark.fault(4)
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize("name", KEPT)
def test_a_folder_of_somebody_else(name: str, tmp_path: Path) -> None:
    warm()
    artefact = KEPT[name]
    place = tmp_path / "theirs" / artefact.place
    place.parent.mkdir()
    artefact.put(place, 0)
    before = artefact.get(place)
    for folder in [tmp_path, *tmp_path.parents[:2]]:
        folder.chmod(0o755)

    def as_nobody() -> str:
        os.setgid(65534)
        os.setuid(65534)
        return str(artefact.put(place, 1))

    status, said = in_child(as_nobody)
    _refused(artefact, place, status, said, "Permission denied")
    assert artefact.get(place) == before


@pytest.mark.fault(4)
def test_a_study_on_a_full_disk_stops_and_goes_on_when_there_is_room(small_disk: Callable[[str], Path]) -> None:
    """What was done stays; what could not be written is named, and is done by the next run."""
    warm()
    disk = small_disk("size=128k")
    made = study(disk / "study")
    made.save()
    _fill(disk / "filler", 8192)

    def commit() -> None:
        from artefacts import result

        for cell in made.cells:
            made.store.commit(cell, result(0), 1.0, {})

    status, said = in_child(commit)
    assert status == 1
    assert "could not write" in said
    assert "No space left on device" in said
    done = made.store.hashes()
    assert not list(made.folder.rglob(".tmp-*"))
    (disk / "filler").unlink()
    assert in_child(commit)[0] == 0
    assert made.store.hashes().items() >= done.items()
    assert len(made.store.hashes()) == 2
