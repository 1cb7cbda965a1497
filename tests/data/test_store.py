"""The folder on disk: it gives back what went in, is whole or not there, and says what is damaged."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmixup import DataError, FormatError, StoreError, keys
from rmixup.data import store
from rmixup.data.networks import Networks
from rmixup.data.npy import MAX_HEADER, RowsFile, open_array
from rmixup.data.provenance import Provenance
from rmixup.data.store import Writer, is_folder, open_folder, save, sweep
from rmixup.data.tsv import read_tsv, write_tsv

HOSTILE = ["=cmd()|' /C calc'!A0", 'a\tb"c', "line\nbreak\r", "🧠", "n/a", "-1", "001", " spaced ", "'", "\ufeffbom"]
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=8)


def cohort(n: int = 4, **more: object) -> Networks:
    chance = keys.generator(0, "store")
    series = [chance.normal(size=(5 + k, 3)) for k in range(n)]
    known = {
        "matrices": np.stack([np.corrcoef(x.T) for x in series]),
        "y": ["a", "b"] * (n // 2),
        "subjects": [f"s{k}" for k in range(n)],
        "groups": ["x"] * n,
        "series": series,
        "nodes": ["p", "q", "r"],
        "target": "DX",
        "provenance": Provenance().then("made", by="test"),
    }
    return Networks(**(known | more))


def same(a: Networks, b: Networks) -> bool:
    tables = (a.table is None and b.table is None) or a.table.equals(b.table)  # type: ignore[union-attr, arg-type]
    places = (a.coordinates is None and b.coordinates is None) or np.array_equal(a.coordinates, b.coordinates)  # type: ignore[arg-type]
    return tables and places and a.content_hash() == b.content_hash() and a.provenance == b.provenance


def left_behind(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.startswith(".")]


# ---- there and back


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"matrices": None},
        {"series": None},
        {"series": None, "frames": [7, 8, 9, 10]},
        {"y": None, "target": None, "groups": None, "provenance": None},
        {"y": [0.1, 1 / 3, 1e-300, -2.5]},
        {"y": np.array([[0.1, 2], [1 / 3, 1], [0, 0], [1, 1]]), "target": ["u", "v"]},
        {"y": [3, 1, 1, 2]},
        {"families": ["f", "f", "g", "g"], "coordinates": np.arange(9).reshape(3, 3) / 7},
        {"matrices": np.ones((4, 3, 3), dtype=np.float32), "series": None},
    ],
)
def test_it_gives_back_what_went_in(tmp_path: Path, change: dict[str, object]) -> None:
    ds = cohort(**change)
    back = open_folder(ds.save(tmp_path / "cohort"))
    assert same(back, ds)
    assert back.target == ds.target
    assert isinstance(back.matrices, np.memmap) or not ds.has_matrices
    assert left_behind(tmp_path) == []


@given(ids=st.lists(texts, min_size=1, max_size=4, unique=True), node=texts, label=texts, group=texts)
def test_hostile_names_come_back(
    tmp_path_factory: pytest.TempPathFactory, ids: list[str], node: str, label: str, group: str
) -> None:
    ds = Networks(
        np.zeros((len(ids), 1, 1)),
        [label] * len(ids),
        ids,
        [group] * len(ids),
        [node],
        table=pd.DataFrame({label: ids}, index=ids) if label != "participant_id" else None,
    )
    back = open_folder(ds.save(tmp_path_factory.mktemp("hostile") / "c"))
    assert back.content_hash() == ds.content_hash()


def test_known_hostile_names_come_back(tmp_path: Path) -> None:
    n = len(HOSTILE)
    ds = Networks(np.zeros((n, 2, 2)), HOSTILE, HOSTILE, HOSTILE, ["\t", '"'], families=HOSTILE)
    back = open_folder(ds.save(tmp_path / "c"))
    assert back.subjects.tolist() == HOSTILE
    assert back.content_hash() == ds.content_hash()


def test_the_table_comes_back_with_its_types(tmp_path: Path) -> None:
    table = pd.DataFrame(
        {
            "number": [0.1, np.nan, 1e-300, np.inf],
            "whole": [1, 2, 3, 2**62],
            "some": pd.array([1, None, 3, 4], dtype="Int64"),
            "yes": [True, False, True, True],
            "maybe": pd.array([True, None, False, True], dtype="boolean"),
            "text": ["a", None, "", "=1+1"],
        },
        index=pd.Index(["s0", "s1", "s2", "s3"], name="subject", dtype=object),
    )
    back = open_folder(cohort(table=table).save(tmp_path / "c")).table
    assert back is not None
    pd.testing.assert_frame_equal(back, table)


def test_saving_a_selection_and_an_opened_folder(tmp_path: Path) -> None:
    ds = cohort()
    opened = open_folder(ds.save(tmp_path / "a"))
    assert same(open_folder(opened[[2, 0]].save(tmp_path / "b")), ds[[2, 0]])
    assert same(open_folder(opened[:2].save(tmp_path / "a", overwrite=True)), ds[:2])


def test_verified_folders_know_their_hash(tmp_path: Path) -> None:
    folder = cohort().save(tmp_path / "c")
    assert open_folder(folder, verify=True)._hash == cohort().content_hash()
    assert open_folder(folder)._hash is None


# ---- the writer


def test_the_writer_streams(tmp_path: Path) -> None:
    with Writer(tmp_path / "c", dtype=np.float32) as writer:
        for k in range(3):
            writer.add(f"s{k}", matrix=np.full((2, 2), k), frames=k + 4)
        ds = writer.commit(y=[0.5, 1.5, 2.5])
    assert ds.matrices is not None
    assert (ds.matrices.dtype, ds.matrices[:, 0, 0].tolist()) == (np.float32, [0, 1, 2])
    assert ds.frames.tolist() == [4, 5, 6]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("additions", "words"),
    [
        ([{}], "subject s0: expected a matrix or a series"),
        ([{"matrix": np.eye(2)}, {"series": np.eye(2)}], "subject s1 comes with series, the ones before with matrices"),
        ([{"matrix": np.eye(2)}, {"matrix": np.eye(3)}], r"subject s1: expected matrices of shape \(2, 2\)"),
        ([{"series": np.ones(3)}], "expected series of shape"),
        ([{"series": np.float64(3)}], "expected series of shape"),
        ([{"series": np.array([["a"]])}], "holding numbers"),
    ],
)
def test_what_the_writer_refuses_leaves_nothing(tmp_path: Path, additions: list[dict[str, object]], words: str) -> None:
    with Writer(tmp_path / "c") as writer:
        for k, more in enumerate(additions[:-1]):
            writer.add(f"s{k}", **more)  # type: ignore[arg-type]
        with pytest.raises(DataError, match=words):
            writer.add(f"s{len(additions) - 1}", **additions[-1])  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_wrong_nodes_and_wrong_labels_leave_nothing(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"\(3, 3\)"), Writer(tmp_path / "c", nodes=list("abc")) as writer:
        writer.add("s", matrix=np.eye(2))
    with Writer(tmp_path / "c") as writer:
        writer.add("s", matrix=np.eye(2))
        with pytest.raises(DataError, match="one label"):
            writer.commit(y=[1, 2])
    with pytest.raises(DataError, match="no networks"), Writer(tmp_path / "c") as writer:
        writer.commit()
    assert list(tmp_path.iterdir()) == []


def test_leaving_without_commit_leaves_nothing(tmp_path: Path) -> None:
    with Writer(tmp_path / "c") as writer:
        writer.add("s", matrix=np.eye(2))
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(RowsFile, "append", full)
    with pytest.raises(StoreError, match="No space left on device"):
        cohort().save(tmp_path / "c")
    assert list(tmp_path.iterdir()) == []


# ---- places


def test_nothing_is_overwritten_unasked(tmp_path: Path) -> None:
    ds = cohort()
    folder = ds.save(tmp_path / "c")
    with pytest.raises(StoreError, match="exists already"):
        ds[:2].save(folder)
    assert same(open_folder(ds[:2].save(folder, overwrite=True)), ds[:2])
    assert left_behind(tmp_path) == []


def test_only_folders_of_networks_are_ever_replaced(tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "draft.txt").write_text("years of work")
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="something else"):
        cohort().save(tmp_path / "thesis", overwrite=True)
    with pytest.raises(StoreError, match="in the way"):
        cohort().save(tmp_path / "file", overwrite=True)
    (tmp_path / "empty").mkdir()
    assert same(open_folder(cohort().save(tmp_path / "empty")), cohort())


def test_a_folder_that_appears_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    with Writer(tmp_path / "c") as writer:
        writer.add("s", matrix=np.eye(2))
        cohort().save(tmp_path / "c")
        with pytest.raises(StoreError, match="exists already"):
            writer.commit()
    assert same(open_folder(tmp_path / "c"), cohort())


KILLED = """
import os, signal, sys, numpy as np
from rmixup.data.store import Writer
writer = Writer(sys.argv[1])
writer.add("s", matrix=np.eye(2))
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(os.name != "posix", reason="kills with SIGKILL")
def test_what_a_killed_writer_left_is_swept_by_the_next(tmp_path: Path) -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "c")], check=False)
    assert killed.returncode == -9
    assert len(left_behind(tmp_path)) == 1
    with pytest.raises(StoreError, match="not a folder of networks"):
        open_folder(tmp_path / "c")
    cohort().save(tmp_path / "c")
    assert left_behind(tmp_path) == []


def test_living_and_foreign_writers_are_left_alone(tmp_path: Path) -> None:
    foreign = tmp_path / ".c.0123456789ab-1-0123456789ab.part"
    foreign.mkdir()
    (tmp_path / ".c.notes").mkdir()
    (tmp_path / ".c.").mkdir()
    with Writer(tmp_path / "c") as writer:
        sweep(tmp_path / "c")
        writer.add("s", matrix=np.eye(2))
        writer.commit()
    assert sorted(left_behind(tmp_path)) == sorted([".c.", foreign.name, ".c.notes"])


def test_a_folder_moved_aside_by_a_dead_writer_comes_back(tmp_path: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    folder = cohort().save(tmp_path / "c")
    folder.rename(tmp_path / f".c.{store._host()}-{dead.pid}-0123456789ab.old")
    assert same(open_folder(folder), cohort())
    assert left_behind(tmp_path) == []


# ---- damage


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return cohort(table=pd.DataFrame({"AGE": [1.0, 2, 3, 4]}, index=[f"s{k}" for k in range(4)])).save(tmp_path / "c")


FILES = ["matrices.npy", "nodes.tsv", "offsets.npy", "participants.tsv", "phenotype.tsv", "series.npy"]


@pytest.mark.parametrize("name", FILES)
def test_damage_names_the_file(folder: Path, name: str) -> None:
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[:-3])
    with pytest.raises(StoreError, match=f"{name} has {len(content) - 3} bytes, expected {len(content)}"):
        open_folder(folder)
    (folder / name).write_bytes(content[:-3] + b"\0\0\1")
    with pytest.raises(StoreError, match=f"{name} does not have the checksum"):
        open_folder(folder, verify=True)
    (folder / name).unlink()
    with pytest.raises(StoreError, match=f"{name} is missing"):
        open_folder(folder)


def test_all_damages_are_named_together(folder: Path) -> None:
    (folder / "nodes.tsv").unlink()
    (folder / "series.npy").write_bytes(b"")
    with pytest.raises(StoreError, match=r"nodes\.tsv is missing; series\.npy has 0 bytes"):
        open_folder(folder)


def manifest(folder: Path, sealed: bool = True, **changes: object) -> None:
    content = json.loads((folder / "dataset.json").read_text()) | changes
    if sealed:
        content["seal"] = store._seal(content)
    (folder / "dataset.json").write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is damaged"),
        ("[1]", "is damaged"),
        ("{}", "is damaged"),
        ("[" * 100_000, "is damaged"),
        ('{"format": "zip", "schema": 1}', "describes 'zip'"),
    ],
)
def test_a_damaged_description(folder: Path, text: str, words: str) -> None:
    (folder / "dataset.json").write_text(text)
    with pytest.raises(FormatError, match=words):
        open_folder(folder)
    assert not is_folder(folder)


def test_the_description_is_guarded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest(folder, sealed=False, classes=["b", "a"])
    with pytest.raises(FormatError, match="was changed after it was written"):
        open_folder(folder)
    manifest(folder, schema=2)
    with pytest.raises(FormatError, match=r"newer rmixup \(schema 2, known 1\)"):
        open_folder(folder)
    monkeypatch.setattr(store, "_MAX_MANIFEST", 10)
    with pytest.raises(FormatError, match="too many"):
        open_folder(folder)


def test_files_that_do_not_fit_together(folder: Path) -> None:
    manifest(folder, n_nodes=7)
    with pytest.raises(FormatError, match=r"size that dataset\.json states"):
        open_folder(folder)
    for broken in ({"files": 1}, {"files": {"nodes.tsv": 3}}, {"task": "regression", "target": []}, {"columns": 1}):
        manifest(folder, n_nodes=3, **{"classes": None, **broken})
        with pytest.raises(FormatError, match="do not fit together"):
            open_folder(folder)
    manifest(folder, n_nodes=3, classes=["a"])
    with pytest.raises(FormatError, match="do not fit together"):
        open_folder(folder)


def test_a_path_outside_the_folder_is_not_followed(folder: Path) -> None:
    secret = folder.parent / "secret.npy"
    shutil.copy(folder / "matrices.npy", secret)
    files = json.loads((folder / "dataset.json").read_text())["files"]
    files["../secret.npy"] = files["matrices.npy"]
    manifest(folder, files=files)
    with pytest.raises(StoreError, match=r"secret\.npy is missing"):
        open_folder(folder)


def test_not_a_folder_of_networks(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"dataset\.json is missing"):
        open_folder(tmp_path)
    assert not is_folder(tmp_path)
    assert is_folder(save(cohort(), tmp_path / "c"))


def test_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    table = pd.DataFrame([[1, 2]] * 4, columns=["A", "A"], index=[f"s{k}" for k in range(4)])
    with pytest.raises(DataError, match="two columns named A"):
        cohort(table=table).save(tmp_path / "c")
    assert list(tmp_path.iterdir()) == []


# ---- arrays without trust


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0).reshape(2, 3),
        np.asfortranarray(np.arange(6).reshape(2, 3)),
        np.array(["a", "bc"]),
        np.zeros((0, 3)),
        np.array(5.0),
    ],
)
@pytest.mark.parametrize("memory_map", [True, False])
def test_arrays_come_back(tmp_path: Path, array: np.ndarray, memory_map: bool) -> None:
    np.save(tmp_path / "a.npy", array)
    back = open_array(tmp_path / "a.npy", memory_map)
    assert np.array_equal(back, array)
    assert back.dtype == array.dtype
    assert not back.flags.writeable


def header(text: bytes, version: int = 1) -> bytes:
    size = 2 if version == 1 else 4
    return b"\x93NUMPY" + bytes([version, 0]) + len(text).to_bytes(size, "little") + text


DTYPE = b"{'descr': '<f8', 'fortran_order': False, 'shape': "


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "the file is empty"),
        (b"PK\x03\x04 and so on", "not a NumPy array"),
        (b"\x93NUMPY\x07\x00" + b" " * 20, "not a NumPy array"),
        (b"\x93NUMPY\x01", "not a NumPy array"),
        (b"\x93NUMPY\x02\x00" + (10**10 % 2**32).to_bytes(4, "little") + b" " * 100, f"more than {MAX_HEADER}"),
        (header(DTYPE + b"(10000000000,), }\n"), "truncated or damaged"),
        (header(DTYPE + b"(-1,), }\n"), "damaged"),
        (header(DTYPE + b"(99999999999999999999,), }\n", 2), "damaged"),
        (header(b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n"), "Python objects"),
        (header(b"{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1,), }\n"), "records"),
        (header(b"{'descr': '2f4', 'fortran_order': False, 'shape': (1,), }\n"), "records"),
        (header(b"__import__('os').system('true')\n"), "damaged"),
        (header(b"(" * 5000), "damaged"),
        (header(DTYPE + b"(2,), }\n") + b"\0" * 15, r"promises \(2,\) of float64, 84 bytes, but the file has 83"),
    ],
)
def test_hostile_arrays_are_refused_by_name(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "bad.npy").write_bytes(content)
    with pytest.raises(FormatError, match=rf"bad\.npy: .*{words}"):
        open_array(tmp_path / "bad.npy")


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    np.save(tmp_path / "o.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(FormatError, match="Python objects"):
        open_array(tmp_path / "o.npy")


# ---- tables of text


@given(rows=st.lists(st.tuples(texts, texts), max_size=5))
def test_tsv_gives_back_every_text(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]]) -> None:
    path = tmp_path_factory.mktemp("tsv") / "t.tsv"
    write_tsv(path, ["a", "b\t"], rows)
    assert read_tsv(path) == {"a": [row[0] for row in rows], "b\t": [row[1] for row in rows]}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"a\tb\n1\n", "row 2 has 1 fields, expected 2"),
        (b"a\n\xff\n", "not a table"),
        (b'a\n"open\n', "not a table"),
    ],
)
def test_tables_that_are_none(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "t.tsv").write_bytes(content)
    with pytest.raises(FormatError, match=rf"t\.tsv: .*{words}"):
        read_tsv(tmp_path / "t.tsv")


def test_a_text_too_long_for_a_table(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not fit"):
        write_tsv(tmp_path / "t.tsv", ["a"], [["x" * 200_000]])


# ---- memory

STREAMED = """
import resource, sys, numpy as np
from rmixup.data.store import Writer, open_folder
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
with Writer(sys.argv[1]) as writer:
    writer.add("first", matrix=np.eye(200))
    before = peak()
    for k in range(999):
        writer.add(f"s{k}", matrix=np.full((200, 200), float(k)))
    writer.commit()
ds = open_folder(sys.argv[1])
total = sum(float(block[:, 0, 0].sum()) for part in (ds, *ds.split()) for _, block in part.blocks())
print(peak() - before, total)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads peak memory as Linux counts it")
def test_memory_does_not_grow_with_the_number_of_people(tmp_path: Path) -> None:
    """305 MiB are written, hashed and read twice in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", STREAMED, str(tmp_path / "c")], check=True, capture_output=True, text=True
    )
    grown, total = done.stdout.split()
    assert float(total) == 2 * (1 + sum(range(999)))
    assert int(grown) < 200, "MiB; SciPy, blocks of 32 MiB and one selection of as much among them"
