"""Whoever writes an artefact may be killed in front of any change it makes to the disk."""

from pathlib import Path

import pytest
from artefacts import ARTEFACTS, warm
from forks import in_child, killed_before
from tally import Tally

from rmixup.errors import RMixupError


def _versions(name: str, folder: Path) -> list[object]:
    artefact = ARTEFACTS[name]
    found = []
    for version in (0, 1):
        place = folder / f"of version {version}" / artefact.place
        place.parent.mkdir()
        artefact.put(place, version)
        found.append(artefact.get(place))
    return found


@pytest.mark.fault(2)
@pytest.mark.parametrize("name", ARTEFACTS)
def test_a_writer_killed_anywhere_leaves_the_old_or_the_new(name: str, tmp_path: Path, tally: Tally) -> None:
    """The place holds one whole version; the next writer succeeds and sweeps what was left."""
    warm()
    artefact, versions = ARTEFACTS[name], _versions(name, tmp_path)
    for old in (True, False):
        for call in range(0, 200, tally.many(4, 1)):
            folder = tmp_path / f"{old} {call}"
            folder.mkdir()
            place = folder / artefact.place
            if old:
                artefact.put(place, 0)
            killed = killed_before(call, lambda place=place: artefact.put(place, 1))
            with tally.attempt(f"{name}, {'over an old one, ' if old else ''}call {call}"):
                if old:
                    assert artefact.get(place) in versions
                else:
                    _whole_or_absent(name, place, versions)
                status, said = in_child(lambda place=place: str(artefact.put(place, 1)))
                assert status == 0, said
                assert artefact.get(place) in versions
                left = [path.name for path in folder.rglob(".*")]
                assert not left, f"left: {left}"
            if not killed:
                break
        assert not killed


def _whole_or_absent(name: str, place: Path, versions: list[object]) -> None:
    try:
        found = ARTEFACTS[name].get(place)
    except (RMixupError, FileNotFoundError):
        return
    assert found in versions
