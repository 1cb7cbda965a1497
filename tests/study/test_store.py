"""The store: what is committed is whole, what is damaged is found, what is left over is swept."""

import json
import os
import shutil
import time
from pathlib import Path

import numpy as np
import pytest
import sgd_work
from hypothesis import given
from hypothesis import strategies as st

from rmixup import files
from rmixup.errors import DataError, StoreError
from rmixup.owner import me
from rmixup.study.files import canonical, dump_table, load_table, place_folder, seal, unseal, write
from rmixup.study.project import Study
from rmixup.study.results import Failure, Result
from rmixup.study.runner import run
from rmixup.study.status import status

RESULT = Result(
    scores={"auroc": 0.75, "r2": float("nan")},
    predictions={"subject": ["a", "b"], "p": np.array([0.25, 0.1])},
    sizes={"train": 7, "validation": 1, "test": 2},
    curves={"loss": [0.5, 0.25]},
    notes={"epoch": 3},
    weights={"w": np.arange(3.0)},
)


@pytest.fixture
def study(make_study: sgd_work.Make) -> Study:
    return make_study(repeats=1)


def test_a_committed_cell_reads_back_exactly(study: Study) -> None:
    cell = study.cells[0]
    assert study.store.commit(cell, RESULT, 1.5, {"host": "here"})
    record = study.store.read(cell.key)
    assert record.cell == cell
    assert record.scores["auroc"] == 0.75
    assert np.isnan(record.scores["r2"])
    assert record.predictions == {"subject": ["a", "b"], "p": [0.25, 0.1]}
    assert record.curves == {"loss": [0.5, 0.25]}
    assert (record.sizes, record.notes) == (RESULT.sizes, RESULT.notes)
    assert (record.timings, record.environment) == ({"seconds": 1.5}, {"host": "here"})
    assert np.array_equal(record.weights()["w"], np.arange(3.0))


def test_a_cell_without_weights_has_none(study: Study) -> None:
    run(study, sgd_work.work)
    assert study.store.read(study.cells[0].key).weights() == {}


def test_what_varies_is_no_part_of_the_hash_and_what_must_not_is(study: Study) -> None:
    cell, other = study.cells[:2]
    study.store.commit(cell, RESULT, 1.5, {"host": "here"})
    first = study.store.hashes()[cell.key]
    shutil.rmtree(study.store.cells / cell.key)
    study.store.commit(cell, RESULT, 9.0, {"host": "there"})
    assert study.store.hashes()[cell.key] == first
    study.store.commit(other, RESULT, 1.5, {"host": "here"})
    assert study.store.hashes()[other.key] != first


def test_a_second_commit_of_a_cell_is_discarded_and_leaves_nothing(study: Study) -> None:
    cell = study.cells[0]
    assert study.store.commit(cell, RESULT, 1.0, {})
    assert not study.store.commit(cell, RESULT, 2.0, {})
    assert study.store.read(cell.key).timings["seconds"] == 1.0
    assert [path.name for path in study.store.cells.iterdir()] == [cell.key]


def test_a_commit_ends_a_failure(study: Study) -> None:
    cell = study.cells[0]
    study.store.fail(cell, Failure("divergence", "inf"))
    assert study.store.failures() == {cell.key: Failure("divergence", "inf")}
    study.store.commit(cell, RESULT, 1.0, {})
    assert study.store.failures() == {}
    assert not study.store.has_failed(cell.key)


def test_a_missing_file_or_a_cell_under_a_false_name_is_damage(study: Study) -> None:
    cell, other, third = study.cells[:3]
    for one in (cell, other):
        study.store.commit(one, RESULT, 1.0, {})
    (study.store.cells / cell.key / "curves.tsv").unlink()
    shutil.copytree(study.store.cells / other.key, study.store.cells / third.key)
    (study.store.cells / other.key / "result.json").unlink()
    problems = {damage.key: damage.problem for damage in study.store.verify()}
    assert "listed in result.json, but missing" in problems[cell.key]
    assert "expected result.json, but it is missing" in problems[other.key]
    assert f"holds the cell {other.key}" in problems[third.key]
    assert study.store.done() == set()


def test_a_damaged_cell_is_never_read_as_a_number(study: Study) -> None:
    cell = study.cells[0]
    study.store.commit(cell, RESULT, 1.0, {})
    (study.store.cells / cell.key / "predictions.tsv").write_bytes(b"")
    with pytest.raises(StoreError, match="run `rmixup study verify`"):
        study.store.read(cell.key)
    with pytest.raises(StoreError):
        study.store.hashes()


def resealed(study: Study, key: str, name: str = "", content: bytes = b"", **changes: object) -> None:
    """Change a committed cell as somebody would who can reckon checksums."""
    place = study.store.cells / key
    body = {**unseal(place / "result.json"), **changes}
    if name:
        (place / name).write_bytes(content)
        body["files"][name] = {"sha256": files.digest(content), "size": len(content)}
    (place / "result.json").write_bytes(seal(body))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"scores": {"auroc": "high"}}, "scores and sizes must be numbers"),
        ({"scores": 1}, "does not describe a cell"),
        ({"sizes": {"train": None}}, "scores and sizes must be numbers"),
        ({"notes": 3}, "does not describe a cell"),
        ({"cell": {}}, "does not describe a cell"),
        ({"result": None}, "does not describe a cell"),
        ({"files": {"predictions.tsv": {}}}, "does not describe a cell"),
        (
            {"files": {"../../study.json": {"size": 1, "sha256": "0"}}},
            r"lists '\.\./\.\./study\.json', which no cell has",
        ),
    ],
)
def test_a_cell_that_is_sealed_and_means_nothing_is_refused(
    study: Study, changes: dict[str, object], said: str
) -> None:
    key = study.cells[0].key
    study.store.commit(study.cells[0], RESULT, 1.0, {})
    resealed(study, key, **changes)
    with pytest.raises(StoreError, match=said):
        study.store.read(key)
    assert [damage.key for damage in study.store.verify()] == [key]


@pytest.mark.parametrize(
    ("name", "content", "read"),
    [
        ("predictions.tsv", b'"subject"\t"p"\n"a"\n', "predictions"),
        ("predictions.tsv", b"", "predictions"),
        ("predictions.tsv", b"1\t2\n3\t4\n", "predictions"),
        ("curves.tsv", b'"loss"\nno number\n', "curves"),
        ("curves.tsv", b'"loss\xff"\n1\n', "curves"),
        ("timings.json", b"[1]", "timings"),
        ("environment.json", b"{", "environment"),
        ("weights.safetensors", b"not tensors", "weights"),
    ],
)
def test_a_file_of_a_cell_that_is_none_is_told(study: Study, name: str, content: bytes, read: str) -> None:
    key = study.cells[0].key
    study.store.commit(study.cells[0], RESULT, 1.0, {})
    resealed(study, key, name, content)
    record = study.store.read(key)
    with pytest.raises(StoreError, match=name.replace(".", r"\.")):
        assert record.weights() if read == "weights" else getattr(record, read)


def test_a_failure_that_tells_no_reason_counts_as_none(study: Study) -> None:
    study.store.fail(study.cells[0], Failure("divergence", "inf"))
    place = study.store.failed / f"{study.cells[0].key}.json"
    place.write_bytes(seal({"reason": ["divergence"], "message": "inf"}))
    assert study.store.failures() == {}


def test_quarantine_keeps_every_copy(study: Study) -> None:
    cell = study.cells[0]
    for k in range(2):
        study.store.commit(cell, RESULT, 1.0, {})
        (study.store.cells / cell.key / "result.json").write_text("{}")
        assert [damage.moved_to.name for damage in study.store.verify()] == [f"{cell.key}.{k}"]
    assert status(study)["quarantined"] == 2


def test_left_overs_of_the_dead_are_swept_those_of_the_living_stay(study: Study) -> None:
    token = me().token
    host, pid, born = token.split("-")
    study.store.cells.mkdir(exist_ok=True)
    names = {f".tmp-{host}-{pid}-1{born}.aa": True, f".tmp-{token}.bb": False, f".tmp-ffffffff-{pid}-{born}.cc": False}
    for name in names:
        (study.store.cells / name).mkdir()
        (study.store.cells / name / "result.json").write_text("half")
    old = study.folder / ".tmp-0123456789abcdef"
    old.write_text("half")
    os.utime(old, (time.time() - 1e4,) * 2)
    swept = {path.name for path in study.store.sweep()}
    assert swept == {name for name, dead in names.items() if dead} | {old.name}
    assert study.store.done() == set()


def test_a_refused_rename_names_the_place_and_leaves_nothing(study: Study, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises((StoreError, OSError)):
        place_folder({"a": b""}, tmp_path / "file" / "cell")
    assert not list(tmp_path.rglob(".tmp-*"))


def test_a_failed_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.json"
    write(path, b"old")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="could not write 3 bytes"):
        write(path, b"new")
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.json"]


def test_folders_are_synced_only_where_systems_can(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files.os, "name", "nt")
    assert files.sync_folder(tmp_path / "missing") is None


Scalars = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
Json = st.recursive(Scalars | st.text(), lambda s: st.lists(s, max_size=3) | st.dictionaries(st.text(), s, max_size=3))


@given(st.dictionaries(st.text().filter(lambda name: name != "sha256"), Json, max_size=4))
def test_a_sealed_body_comes_back_and_its_canonical_text_is_one(
    tmp_path_factory: object, body: dict[str, object]
) -> None:
    path = Path(os.environ.get("TMPDIR", "/tmp")) / f"rmixup-seal-{os.getpid()}.json"
    path.write_bytes(seal(body))
    assert unseal(path) == body
    assert canonical(json.loads(canonical(body))) == canonical(body)
    path.unlink()


Text = st.text(st.characters(codec="utf-8") | st.sampled_from("\t\n\r\"'=,\0"), max_size=20)


@given(st.lists(st.tuples(Text, st.floats(), st.integers(-(2**53), 2**53)), max_size=5))
def test_a_table_comes_back_exactly(rows: list[tuple[str, float, int]]) -> None:
    table = {"subject": [row[0] for row in rows], "p q": [row[1] for row in rows], "k": [row[2] for row in rows]}
    back = load_table(dump_table(table))
    assert list(back) == list(table)
    assert back["subject"] == table["subject"]
    np.testing.assert_array_equal(np.array(back["p q"]), np.array(table["p q"]))
    assert back["k"] == table["k"]


def test_columns_of_unequal_length_are_refused() -> None:
    with pytest.raises(DataError, match="one length"):
        dump_table({"a": [1], "b": [1, 2]})
