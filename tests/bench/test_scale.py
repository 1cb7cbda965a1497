"""The bench of cohorts larger than memory: what its rows hold, and that it leaves nothing behind."""

import json
from pathlib import Path

import numpy as np
import pytest

from rmixup import DataError
from rmixup.augment import paging
from rmixup.bench import scale


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory):
    patch = pytest.MonkeyPatch()
    patch.setattr(paging, "LARGE", 0)  # as if the cohort were larger than memory
    folder = tmp_path_factory.mktemp("disk")
    found = scale.rows(people=160, nodes=6, folder=folder)
    patch.undo()
    assert not list(folder.iterdir())
    return found


def test_each_size_is_prepared_read_and_trained_on(rows) -> None:
    assert [row["people"] for row in rows] == [10] * 4 + [40] * 4 + [160] * 4
    assert [row["method"].split(" ")[0] for row in rows[:4]] == ["prepare", "disk,", "read", "epoch"]
    assert json.loads(json.dumps(rows)) == rows


def test_ratios_say_what_the_module_says(rows) -> None:
    first, last = rows[0], rows[8]
    assert first["ratio"] == 1
    assert last["ratio"] == pytest.approx(last["seconds"] / 160 / (first["seconds"] / 10))
    disk, read = rows[9:11]
    assert disk["ratio"] == 1
    assert read["ratio"] == pytest.approx(read["read_gb_s"] / disk["read_gb_s"])


def test_an_epoch_reads_both_parents_of_everybody(rows) -> None:
    packed = 6 * 7 / 2 * 4
    for read, people in zip(rows[2::4], (10, 40, 160), strict=True):
        assert read["read_gb_s"] * read["seconds"] * 1e9 == pytest.approx(2 * int(0.9 * people) * packed)


def test_the_cohort_is_of_correlation_matrices_no_two_alike(tmp_path: Path) -> None:
    scale._write(tmp_path / "x.npy", 30, 5)
    x = np.load(tmp_path / "x.npy")
    assert x.shape == (30, 5, 5)
    assert np.allclose(np.diagonal(x, axis1=1, axis2=2), 1)
    assert (np.linalg.eigvalsh(x) > 0).all()
    assert len(np.unique(x.reshape(30, -1), axis=0)) == 30


def test_a_disk_too_small_and_people_too_few_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="bytes free, but the cohort takes"):
        scale.rows(people=10**9, nodes=400, folder=tmp_path)
    assert not list(tmp_path.iterdir())
    with pytest.raises(DataError, match="at least 160 people"):
        scale.rows(people=12)


def test_its_options_belong_to_it() -> None:
    from rmixup.cli.bench import command

    with pytest.raises(DataError, match="--people: these belong to rmixup bench scale, not to spd"):
        command("spd", people=3)


def test_resident_memory_is_of_this_call_alone() -> None:
    _, before = scale._watched(lambda: None)
    _, during = scale._watched(lambda: np.ones(2**25).sum())
    _, after = scale._watched(lambda: None)
    if before["resident_gb"] is None:
        pytest.skip("the peak of resident memory is known on Linux only")
    assert during["resident_gb"] > before["resident_gb"] + 0.2
    assert after["resident_gb"] < before["resident_gb"] + 0.1
