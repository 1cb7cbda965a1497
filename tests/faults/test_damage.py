"""Every file that rmixup keeps, cut off and with flipped bits: damage is found and named, never read as a number."""

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from artefacts import ARTEFACTS, Artefact, study, warm
from tally import Tally

from rmixup import Networks, simulate
from rmixup.augment.cache import CacheWarning
from rmixup.cli import run
from rmixup.errors import FormatError, RMixupError
from rmixup.study.project import ChangedError, Settings, begin
from rmixup.study.results import Failure
from rmixup.study.spec import read_spec, template

SEALED = {name: artefact for name, artefact in ARTEFACTS.items() if artefact.sealed}


def damaged(content: bytes, tally: Tally) -> Iterator[tuple[str, bytes]]:
    """A file cut off at 50 places and with 200 single bits flipped (fewer in the ordinary suite)."""
    rng = random.Random(len(content))
    ends = {0, 1, len(content) - 1}
    for place in sorted(ends | {rng.randrange(len(content)) for _ in range(tally.many(5, 50))}):
        yield f"cut off at {place}", content[:place]
    for _ in range(tally.many(15, 200)):
        place, bit = rng.randrange(len(content)), rng.randrange(8)
        flipped = bytearray(content)
        flipped[place] ^= 1 << bit
        yield f"bit {bit} of byte {place} flipped", bytes(flipped)


@pytest.mark.fault(3)
@pytest.mark.parametrize("name", [name for name in SEALED if name != "cache"])
def test_damage_is_refused_and_named(name: str, tmp_path: Path, tally: Tally) -> None:
    warm()
    place = tmp_path / SEALED[name].place
    SEALED[name].put(place, 0)
    _damage_all(SEALED[name], place, place, tally)


def _damage_all(artefact: Artefact, place: Path, below: Path, tally: Tally) -> None:
    """Every file of an artefact: it is no longer read, the error names its folder, and mended it is as before."""
    good = artefact.get(place)
    files = sorted(path for path in below.rglob("*") if path.is_file())
    assert files
    for file in files:
        content = file.read_bytes()
        for how, bad in damaged(content, tally):
            with tally.attempt(f"{file.name} {how}"):
                file.write_bytes(bad)
                with pytest.raises(RMixupError) as caught:
                    artefact.get(place)
                assert "\n" not in str(caught.value)
                assert str(place) in str(caught.value) or "is to be" in str(caught.value)
        file.write_bytes(content)
    assert artefact.get(place) == good


@pytest.mark.fault(3)
def test_a_damaged_cell_is_moved_aside_whatever_is_wrong_with_it(tmp_path: Path, tally: Tally) -> None:
    """`verify` finds each of the cell's files and the record of a failure, and keeps every copy."""
    made = study(tmp_path / "study")
    ARTEFACTS["cell"].put(made.folder, 0)
    made.store.fail(made.cells[1], Failure("divergence", "x"))
    files = sorted(path for path in made.folder.rglob("*") if path.is_file())
    assert len(files) == 7
    for file in files:
        content = file.read_bytes()
        for how, bad in damaged(content, tally):
            with tally.attempt(f"{file.name} {how}"):
                file.write_bytes(bad)
                (damage,) = made.store.verify()
                assert damage.key in str(file)
                assert damage.moved_to.exists()
                target = made.store.cells / damage.key if file.parent.parent == made.store.cells else file
                damage.moved_to.rename(target)
        file.write_bytes(content)
    assert made.store.verify() == []


@pytest.mark.fault(3)
@pytest.mark.filterwarnings("ignore::rmixup.augment.cache.CacheWarning")
def test_a_damaged_cache_is_computed_again(tmp_path: Path, tally: Tally) -> None:
    artefact, place = ARTEFACTS["cache"], tmp_path / "cache"
    artefact.put(place, 0)
    good = artefact.get(place)
    files = sorted(path for path in place.rglob("*") if path.is_file())
    assert len(files) == 3
    for file in files:
        content = file.read_bytes()
        for how, bad in damaged(content, tally):
            with tally.attempt(f"{file.name} {how}"):
                file.write_bytes(bad)
                with pytest.warns(CacheWarning, match="is damaged; it is computed again"):
                    assert artefact.get(place) == good


@pytest.mark.fault(3)
def test_a_damaged_spec_is_told_or_is_another_spec_that_is_not_continued(tmp_path: Path, tally: Tally) -> None:
    """A spec belongs to people and has no checksum; what a study was begun with has one, and must be the same."""
    path = tmp_path / "s.toml"
    path.write_text(template("s.toml", quick=True))
    spec, data = read_spec(path), study(tmp_path).data
    begun = begin(tmp_path / "study", spec, data, Settings(), "sgd_work")
    keys = [cell.key for cell in begun.cells]
    content = path.read_bytes()
    for how, bad in damaged(content, tally):
        with tally.attempt(how):
            path.write_bytes(bad)
            try:
                other = read_spec(path)
            except FormatError:
                continue
            try:
                continued = begin(begun.folder, other, data, Settings(), "sgd_work")
            except ChangedError:
                continue
            assert [cell.key for cell in continued.cells] == keys


@pytest.fixture
def cohort(tmp_path: Path) -> Path:
    """A folder of networks with one bit of one matrix flipped: still a number, no longer the one that was measured."""
    ds: Networks = simulate(n_subjects=40, n_nodes=5, seed=1)
    folder = ds.save(tmp_path / "cohort")
    whole = np.load(folder / "matrices.npy")
    content = bytearray((folder / "matrices.npy").read_bytes())
    content[-8 * 13 + 6] ^= 1 << 2
    (folder / "matrices.npy").write_bytes(content)
    changed = np.load(folder / "matrices.npy")
    assert np.isfinite(changed).all()
    assert (whole != changed).sum() == 1
    return folder


SPEC = "data.path = {path!r}\nsplit.repeats = 1\nprotocol.epochs = 1\ngrid.methods = ['none']\ngrid.backbones = ['mlp']"


def _study(cohort: Path) -> list[str]:
    (cohort.parent / "s.toml").write_text(SPEC.format(path=str(cohort)))
    return ["study", "run", str(cohort.parent / "s.toml"), "--out", str(cohort.parent / "out"), "--processes", "0"]


def _predict(cohort: Path) -> list[str]:
    good = simulate(n_subjects=40, n_nodes=5, seed=1).save(cohort.parent / "good")
    assert run(["train", str(good), "--backbone", "linear", "--out", str(cohort.parent / "model")]) == 0
    shutil.rmtree(good)
    return ["predict", str(cohort.parent / "model"), str(cohort), "-o", str(cohort.parent / "p.tsv")]


COMMANDS: dict[str, Callable[[Path], list[str]]] = {
    "check": lambda cohort: ["check", str(cohort)],
    "train": lambda cohort: ["train", str(cohort), "--backbone", "linear", "--out", str(cohort.parent / "model")],
    "predict": _predict,
    "study": _study,
}


@pytest.mark.fault(3)
@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_computes_with_a_flipped_bit(command: str, cohort: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = COMMANDS[command](cohort)
    capsys.readouterr()
    assert run(arguments) == 2
    said = capsys.readouterr().err
    assert "matrices.npy does not have the checksum it was written with" in said
    assert said.count("\n") == 1
