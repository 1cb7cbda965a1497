"""Networks: what the door accepts and refuses, how selections behave, where it goes and comes back from."""

import pickle
import types
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rmixup import DataError, keys
from rmixup.data.labels import is_missing, matching_hint, parse_names, sort_names
from rmixup.data.networks import Networks
from rmixup.data.provenance import Provenance, describe_file
from rmixup.data.rows import Rows, freeze


def cohort(n_subjects: int = 6, n_nodes: int = 4, **more: object) -> Networks:
    """A small data set with everything in it."""
    chance = keys.generator(0, "cohort", n_subjects, n_nodes)
    series = [chance.normal(size=(int(t), n_nodes)) for t in chance.integers(8, 20, n_subjects)]
    ids = [f"s{k}" for k in range(n_subjects)]
    known = {
        "matrices": np.stack([np.corrcoef(x.T) for x in series]),
        "y": ["patient" if k % 3 else "control" for k in range(n_subjects)],
        "subjects": ids,
        "groups": ["x" if k % 2 else "z" for k in range(n_subjects)],
        "nodes": [f"roi{k}" for k in range(n_nodes)],
        "series": series,
        "families": [f"f{k // 2}" for k in range(n_subjects)],
        "coordinates": chance.normal(size=(n_nodes, 3)),
        "table": pd.DataFrame({"AGE": np.arange(n_subjects) + 0.5, "SEX": ["f", "m"] * (n_subjects // 2)}, index=ids),
        "target": "DX",
    }
    return Networks(**(known | more))


# ---- the door


def test_everything_handed_in_is_there() -> None:
    ds = cohort()
    assert (len(ds), ds.n_nodes, ds.task, ds.classes, ds.target) == (
        6,
        4,
        "classification",
        ("control", "patient"),
        "DX",
    )
    assert ds.y is not None
    assert ds.y.tolist() == [0, 1, 1, 0, 1, 1]
    assert ds.label_names().tolist() == ["control", "patient", "patient"] * 2
    assert ds.frames is not None
    assert ds.series is not None
    assert ds.frames.tolist() == [len(x) for x in ds.series]
    assert ds.table is not None
    assert list(ds.table.columns) == ["AGE", "SEX"]


def test_all_problems_come_at_once() -> None:
    with pytest.raises(DataError) as refused:
        Networks(
            np.zeros((2, 3, 3)),
            y=[1.0, np.nan],
            subjects=["a"],
            nodes=["p", "p", "q"],
            groups=["x", None],
            coordinates=np.zeros((2, 3)),
        )
    message = str(refused.value)
    for words in (
        "subjects must be 2 names",
        "more than once: p",
        "labels are not defined",
        "groups has no name at 1",
        "coordinates must have shape (3, 3)",
    ):
        assert words in message


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "expected matrices"),
        ({"matrices": np.zeros((3, 3))}, r"shape \(N, n, n\)"),
        ({"matrices": np.zeros((1, 3, 2))}, r"shape \(N, n, n\)"),
        ({"matrices": np.zeros((1, 2, 2), dtype=complex)}, "real numbers"),
        ({"matrices": np.array([[["a"]]])}, "real numbers"),
        ({"series": [np.zeros(3)]}, r"\(t, n\)"),
        ({"series": [np.zeros((4, 3)), np.zeros((4, 2))]}, "same nodes"),
        ({"series": [np.zeros((4, 3))], "matrices": np.zeros((2, 3, 3))}, "series 1 of 3"),
        ({"matrices": np.zeros((2, 2, 2)), "y": [1]}, "one label for each of the 2"),
        ({"matrices": np.zeros((2, 2, 2)), "y": ["a", None], "subjects": ["s", "t"]}, r"subjects t\)"),
        ({"matrices": np.zeros((2, 2, 2)), "y": ["a", "b"], "classes": ["a", "c"]}, "does not name"),
        ({"matrices": np.zeros((2, 2, 2)), "y": ["a", "a"], "classes": ["a", "a"]}, "distinct"),
        ({"matrices": np.zeros((2, 2, 2)), "y": [0.5, 1.0], "classes": ["a", "b"]}, "not whole"),
        ({"matrices": np.zeros((2, 2, 2)), "y": [["a", "b"], ["a", "b"]]}, "must hold numbers"),
        ({"matrices": np.zeros((2, 2, 2)), "y": [[1.0, 2.0]] * 2, "target": ["a", "b", "c"]}, "target names 3"),
        ({"matrices": np.zeros((2, 2, 2)), "frames": [1]}, "frames"),
        ({"series": [np.zeros((4, 3))], "frames": [5]}, "lengths of the series"),
        ({"matrices": np.zeros((1, 2, 2)), "subjects": ["a\0"]}, "NUL"),
        ({"matrices": np.zeros((1, 2, 2)), "subjects": ["\ud800"]}, "UTF-8"),
        (
            {"matrices": np.zeros((1, 2, 2)), "subjects": ["a"], "table": pd.DataFrame({"x": [1]}, index=["b"])},
            "no row",
        ),
        (
            {
                "matrices": np.zeros((1, 2, 2)),
                "subjects": ["a"],
                "table": pd.DataFrame({"x": [1, 2]}, index=["a", "a"]),
            },
            "one row a subject",
        ),
    ],
)
def test_what_the_door_refuses(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(DataError, match=words):
        Networks(**arguments)


@pytest.mark.parametrize(
    ("y", "classes", "codes", "names"),
    [
        ([True, False], None, [1, 0], ("False", "True")),
        ([10, 9], None, [1, 0], ("9", "10")),
        ([1, 0], ["control", "autism"], [1, 0], ("control", "autism")),
        ([1, 2], ["2", "1"], [1, 0], ("2", "1")),
        ([1.0, 0.0], ["control", "autism"], [1, 0], ("control", "autism")),
        (pd.Series(["b", "a"], dtype="category"), None, [1, 0], ("a", "b")),
        (np.array([b"b", b"a"], dtype=object).astype(str), None, [1, 0], ("a", "b")),
    ],
)
def test_classes(y: object, classes: list[str] | None, codes: list[int], names: tuple[str, ...]) -> None:
    ds = Networks(np.zeros((2, 2, 2)), y, classes=classes)
    assert ds.y is not None
    assert (ds.y.tolist(), ds.classes, ds.task) == (codes, names, "classification")


def test_numbers_are_regression() -> None:
    one, column, two = (Networks(np.zeros((2, 2, 2)), y) for y in ([0.5, 1], [[0.5], [1]], [[0.5, 1], [2, 3]]))
    assert one.y is not None
    assert column.y is not None
    assert two.y is not None
    assert (one.task, one.classes, one.y.shape, column.y.shape, two.y.shape) == ("regression", None, (2,), (2,), (2, 2))


def test_whole_numbers_become_floats_and_floats_keep_their_size() -> None:
    assert Networks(np.ones((1, 2, 2), dtype=int)).matrices.dtype == np.float64  # type: ignore[union-attr]
    assert Networks(np.ones((1, 2, 2), dtype=np.float32)).matrices.dtype == np.float32  # type: ignore[union-attr]
    assert Networks(np.ones((1, 2, 2), dtype=np.float16)).matrices.dtype == np.float64  # type: ignore[union-attr]


# ---- immutable


def test_nothing_can_be_changed() -> None:
    given_matrices = np.stack([np.eye(2)] * 2)
    ds = Networks(given_matrices, [0, 1], table=pd.DataFrame({"a": [1, 2]}, index=["subject-0", "subject-1"]))
    given_matrices[0, 0, 0] = 7
    assert ds.matrices is not None
    assert ds.matrices[0, 0, 0] == 1
    with pytest.raises(AttributeError, match="cannot be changed"):
        ds.y = np.zeros(2)
    for array in (
        ds.matrices,
        ds.y,
        ds.subjects,
        ds.nodes,
        ds[[1, 0]].matrices,
        ds[[1, 0]].y,
        ds.select(nodes=[1]).matrices,
    ):
        assert array is not None
        assert not array.flags.writeable
    table = ds.table
    assert table is not None
    table.loc["subject-0", "a"] = 9
    assert ds.table["a"].tolist() == [1, 2]  # type: ignore[index]


def test_an_array_given_for_good_is_not_copied() -> None:
    array = np.stack([np.eye(2)] * 2)
    array.setflags(write=False)
    assert Networks(array).matrices is array
    assert freeze(array) is array


def test_pickling_keeps_it_immutable() -> None:
    ds = pickle.loads(pickle.dumps(cohort()))  # noqa: S301 -- our own bytes
    assert ds.content_hash() == cohort().content_hash()
    assert not ds.y.flags.writeable
    assert not ds.series[0].flags.writeable


# ---- selections


@given(rows=st.lists(st.integers(-6, 5), max_size=12), more=st.data())
def test_selecting_is_what_numpy_does_and_composes(rows: list[int], more: st.DataObject) -> None:
    ds = cohort()
    assert ds.matrices is not None
    taken = ds[rows]
    assert np.array_equal(taken.matrices, ds.matrices[rows])  # type: ignore[arg-type]
    assert taken.subjects.tolist() == [ds.subjects[k] for k in rows]
    assert [len(x) for x in taken.series or ()] == [len((ds.series or ())[k]) for k in rows]
    assert taken.table is not None
    assert list(taken.table.index) == taken.subjects.tolist()
    again = more.draw(st.lists(st.integers(0, len(rows) - 1), max_size=4)) if rows else []
    assert taken[again].content_hash() == ds[[rows[k] for k in again]].content_hash()


@given(mask=hnp.arrays(bool, 6), bounds=st.tuples(st.integers(-7, 7), st.integers(-7, 7)))
def test_masks_and_slices(mask: np.ndarray, bounds: tuple[int, int]) -> None:
    ds = cohort()
    assert ds[mask].content_hash() == ds[np.flatnonzero(mask)].content_hash()
    assert ds[slice(*bounds)].subjects.tolist() == ds.subjects[slice(*bounds)].tolist()


def test_one_position_and_iterating() -> None:
    ds = cohort()
    assert ds[-1].subjects.tolist() == ["s5"]
    assert [one.subjects[0] for one in ds] == ds.subjects.tolist()


@pytest.mark.parametrize("index", [6, [True, False], [0.5], ["s1"], [[0, 1]]])
def test_wrong_indices(index: object) -> None:
    with pytest.raises(IndexError):
        cohort()[index]


def test_classes_stay_when_one_is_not_chosen() -> None:
    some = cohort()[[0, 3]]
    assert (some.classes, some.label_names().tolist()) == (("control", "patient"), ["control", "control"])


def test_a_slice_is_a_view_and_a_selection_is_copied_only_when_asked_for() -> None:
    ds = cohort()
    assert np.shares_memory(ds[1:4].matrices, ds.matrices)  # type: ignore[arg-type]
    base = np.zeros((10, 2, 2))
    base.setflags(write=False)
    rows = Rows(base).take(np.array([3, 1]))
    assert rows._taken is None
    assert rows.shape == (2, 2, 2)
    assert rows.array() is rows.array()


def test_select_by_name() -> None:
    ds = cohort()
    chosen = ds.select(subjects=["s4", "s0"], nodes=["roi3", "roi1"])
    assert chosen.subjects.tolist() == ["s4", "s0"]
    assert np.array_equal(chosen.matrices, ds.matrices[[4, 0]][:, [3, 1]][:, :, [3, 1]])  # type: ignore[index, arg-type]
    assert np.array_equal(chosen.series[0], ds.series[4][:, [3, 1]])  # type: ignore[index]
    assert np.array_equal(chosen.coordinates, ds.coordinates[[3, 1]])  # type: ignore[index, arg-type]
    assert [step["step"] for step in chosen.provenance.steps] == ["select", "select"]
    assert ds.select(nodes=[True, False, False, True]).nodes.tolist() == ["roi0", "roi3"]
    assert ds.select(subjects="s1").subjects.tolist() == ["s1"]


def test_select_finds_every_scan_of_a_person() -> None:
    ds = Networks(np.zeros((3, 2, 2)), subjects=["a", "b", "a"])
    assert ds.select(subjects=["a"]).subjects.tolist() == ["a", "a"]
    assert len(ds.select(subjects=["a"])) == 2


def test_select_refuses_unknown_and_repeated_names() -> None:
    with pytest.raises(DataError, match="no subjects are named nobody"):
        cohort().select(subjects=["nobody"])
    with pytest.raises(DataError, match="selected once"):
        cohort().select(nodes=["roi1", "roi1"])


def test_blocks_cover_everything_in_order() -> None:
    ds = cohort()[[5, 0, 2, 3, 4]]
    parts = list(ds.blocks(2))
    assert [start for start, _ in parts] == [0, 2, 4]
    assert np.array_equal(np.concatenate([block for _, block in parts]), ds.matrices)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="no matrices yet"):
        Networks(series=[np.zeros((4, 2))]).blocks()


# ---- labels by subject id


def test_join_is_by_id_never_by_position() -> None:
    ds = cohort(table=None)
    table = pd.DataFrame({"id": ds.subjects[::-1], "IQ": np.arange(6.0), "SITE": list("uvuvuv"), "FAM": list("aabbcc")})
    joined = ds.join(table, on="id", target="IQ", groups="SITE", families="FAM")
    assert joined.y is not None
    assert joined.groups is not None
    assert joined.families is not None
    assert joined.y.tolist() == [5, 4, 3, 2, 1, 0]
    assert joined.groups.tolist() == list("vuvuvu")
    assert joined.families.tolist() == list("ccbbaa")


def test_join_keeps_what_was_known_and_takes_the_newer_column() -> None:
    table = pd.DataFrame({"AGE": np.zeros(6), "IQ": np.ones(6)}, index=cohort().subjects)
    joined = cohort().join(table).table
    assert joined is not None
    assert sorted(joined.columns) == ["AGE", "IQ", "SEX"]
    assert (joined["AGE"] == 0).all()


def test_join_reports_who_is_missing_and_who_is_extra() -> None:
    table = pd.DataFrame({"IQ": np.arange(5.0)}, index=["s0", "s1", "s2", "s3", "other"])
    with pytest.raises(DataError, match=r"2 of 6 networks have no row in the table \(subjects s4, s5\)"):
        cohort().join(table)
    joined = cohort().join(table, missing="drop")
    assert joined.subjects.tolist() == ["s0", "s1", "s2", "s3"]
    parameters = joined.provenance.steps[-1]["parameters"]
    assert parameters == {"without_row": ["s4", "s5"], "without_network": ["other"]}


@pytest.mark.parametrize(
    ("table", "arguments", "words"),
    [
        (pd.DataFrame({"IQ": [1.0]}, index=["nobody"]), {"missing": "drop"}, "6 of 6"),
        (pd.DataFrame({"IQ": [1.0] * 6}, index=[f"sub-s{k}" for k in range(6)]), {}, "without 'sub-'"),
        (pd.DataFrame({"IQ": [1.0, 2.0]}, index=["s0", "s0"]), {}, "several rows"),
        (pd.DataFrame({"IQ": [1.0, 2.0]}, index=["s0", None]), {}, "without a subject id"),
        (pd.DataFrame({"IQ": [1.0]}), {"on": "id"}, "no column 'id'"),
        (pd.DataFrame({"IQ": [1.0] * 6}, index=cohort().subjects), {"target": "AG"}, "no column AG"),
        (pd.DataFrame({"S": [None] * 6}, index=cohort().subjects), {"groups": "S"}, "column S: groups has no name"),
        (pd.DataFrame({"IQ": [1.0] * 6}, index=cohort().subjects), {"missing": "ignore"}, "missing must be one of"),
    ],
)
def test_what_join_refuses(table: pd.DataFrame, arguments: dict[str, str], words: str) -> None:
    with pytest.raises(DataError, match=words):
        cohort().join(table, **arguments)


def test_with_target() -> None:
    table = pd.DataFrame(
        {"AGE": [9, 10, 11, 12, 13, 14], "DX": [1, 2, np.nan, 1, 2, 1], "A": np.arange(6) / 2, "T": list("ababab")},
        index=cohort().subjects,
    )
    ds = cohort(table=table)
    assert ds.with_target("AGE").task == "classification"
    assert ds.with_target("AGE", task="regression").y.tolist() == [9, 10, 11, 12, 13, 14]  # type: ignore[union-attr]
    several = ds.with_target(["AGE", "A"])
    assert (several.y.shape, several.target, several.task) == ((6, 2), ("AGE", "A"), "regression")  # type: ignore[union-attr]
    with pytest.raises(DataError, match=r"1 people have no DX \(subjects s2\)"):
        ds.with_target("DX")
    diagnosed = ds.with_target("DX", missing="drop")
    assert (diagnosed.classes, len(diagnosed)) == (("1", "2"), 5)
    assert diagnosed.provenance.steps[-1]["parameters"]["dropped"] == ["s2"]
    assert ds.with_target("T", classes=["b", "a"]).y.tolist() == [1, 0] * 3  # type: ignore[union-attr]
    assert cohort(table=table.astype({"AGE": float})).with_target("AGE", task="classification").classes is not None
    with pytest.raises(DataError, match="regression needs numbers"):
        ds.with_target("T", task="regression")
    with pytest.raises(DataError, match="no table"):
        cohort(table=None).with_target("T")


# ---- other matrices


def test_with_matrices_records_the_step() -> None:
    ds = cohort()
    other = ds.with_matrices(np.zeros((6, 4, 4)), "zeroed", why="test")
    assert other.provenance.steps[-1] == {"step": "zeroed", "parameters": {"why": "test"}}
    assert other.content_hash() != ds.content_hash()
    with pytest.raises(DataError, match=r"shape \(6, 4, 4\)"):
        ds.with_matrices(np.zeros((5, 4, 4)), "zeroed")
    with pytest.raises(DataError, match="got None"):
        ds.with_matrices(None, "zeroed")


def test_connectivity_from_series() -> None:
    ds = cohort(matrices=None)
    assert (ds.matrices, ds.has_matrices) == (None, False)
    computed = ds.connectivity(frames=8)
    assert computed.matrices is not None
    assert ds.series is not None
    assert np.allclose(computed.matrices, [np.corrcoef(x[:8].T) for x in ds.series])
    assert computed.frames.tolist() == [8] * 6  # type: ignore[union-attr]
    assert computed.provenance.steps[-1]["parameters"]["kind"] == "correlation"
    assert ds.connectivity(regularize="ledoit-wolf").content_hash() == ds.connectivity("ledoit-wolf").content_hash()
    with pytest.raises(DataError, match="shorter than frames=19"):
        ds.connectivity(frames=19)
    with pytest.raises(DataError, match="no series"):
        cohort(series=None).connectivity()


def test_regularize_is_recorded() -> None:
    ds = cohort(matrices=np.ones((6, 4, 4)))
    shrunk = ds.regularize("shrink=0.5")
    assert np.allclose(shrunk.matrices[0], 0.5 * np.ones((4, 4)) + 0.5 * np.eye(4))  # type: ignore[index]
    step = shrunk.provenance.steps[-1]
    assert (step["step"], step["parameters"]["how"], step["parameters"]["changed"]) == ("regularize", "shrink", 6)
    assert cohort(matrices=None).connectivity(regularize="shrink=0.5").provenance.steps[-1]["step"] == "regularize"


# ---- splitting


def test_splits_are_networks() -> None:
    ds = cohort(30, y=["a", "b"] * 15, groups=["x"] * 14 + ["z"] * 16)
    parts = ds.split(seed=1)
    assert sorted(np.concatenate([part.subjects for part in parts])) == sorted(ds.subjects)
    assert len(ds.folds(n_folds=3)) == 3
    assert sorted(ds.leave_group_out()) == ["x", "z"]
    for train, validation, test in (parts, *ds.folds(n_folds=3)):
        families = [set(part.families.tolist()) for part in (train, validation, test)]  # type: ignore[union-attr]
        assert not families[0] & families[1]
        assert not (families[0] | families[1]) & families[2]


# ---- going elsewhere and coming back


@pytest.mark.parametrize("equal", [True, False])
def test_numpy_there_and_back(tmp_path: Path, equal: bool) -> None:
    ds = cohort(table=None, target=None, coordinates=None)
    if equal:
        ds = ds.connectivity(frames=8)
    np.savez(tmp_path / "stack.npz", **ds.to_numpy())
    with np.load(tmp_path / "stack.npz", allow_pickle=False) as stack:
        assert ("series" in stack) == equal
        assert Networks.from_numpy(stack).content_hash() == ds.content_hash()


def test_pandas_there_and_back() -> None:
    ds = cohort()
    frame = ds.to_pandas(edges=True)
    back = Networks.from_pandas(frame, ds.nodes.tolist(), y=frame["DX"])
    assert np.allclose(back.matrices, ds.matrices)  # type: ignore[arg-type]
    assert back.label_names().tolist() == ds.label_names().tolist()
    assert frame["roi0–roi1"].tolist() == ds.matrices[:, 0, 1].tolist()  # type: ignore[index]
    with pytest.raises(DataError, match="lacks"):
        Networks.from_pandas(frame, ["roi0", "roi9"])
    with pytest.raises(DataError, match="no edges"):
        cohort(matrices=None).to_pandas(edges=True)


def test_pandas_covariances_keep_their_diagonal() -> None:
    ds = Networks(np.array([[[2.0, 1.0], [1.0, 3.0]]]), nodes=["a", "b"])
    back = Networks.from_pandas(ds.to_pandas(edges=True), ["a", "b"])
    assert np.array_equal(back.matrices, ds.matrices)  # type: ignore[arg-type]


def test_pandas_names_of_targets() -> None:
    two = cohort(y=np.ones((6, 2)), target=["p", "q"]).to_pandas()
    unnamed = cohort(y=np.ones((6, 2)), target=None, table=None).to_pandas()
    assert {"p", "q"} <= set(two.columns)
    assert {"label_0", "label_1"} <= set(unnamed.columns)


def test_torch_there_and_back() -> None:
    import torch

    ds = cohort(series=None, table=None)
    dataset = ds.to_torch("float64")
    loader = torch.utils.data.DataLoader(dataset, batch_size=6)
    ((x, y),) = list(loader)
    assert np.array_equal(x.numpy(), ds.matrices)  # type: ignore[arg-type]
    assert y.tolist() == ds.y.tolist()  # type: ignore[union-attr]
    assert np.array_equal(Networks.from_torch(dataset).matrices, ds.matrices)  # type: ignore[arg-type]
    assert cohort(y=np.arange(6.0)).to_torch()[2][1].dtype == torch.float32
    with pytest.raises(DataError, match="needs matrices and labels"):
        cohort(y=None, target=None).to_torch()
    with pytest.raises(DataError, match="dtype must be"):
        ds.to_torch("int8")


# ---- identity and looks


def test_content_hash_is_of_the_content_alone(tmp_path: Path) -> None:
    ds = cohort()
    np.save(tmp_path / "m.npy", np.asfortranarray(ds.matrices))
    np.save(tmp_path / "big.npy", np.asarray(ds.matrices).astype(">f8"))
    for name in ("m.npy", "big.npy"):
        mapped = cohort(matrices=np.load(tmp_path / name, mmap_mode="r"))
        assert mapped.content_hash() == ds.content_hash()
    assert ds.content_hash() == ds.content_hash() == cohort().content_hash()


@pytest.mark.parametrize(
    "change",
    [
        {"y": ["patient"] * 6},
        {"groups": ["x"] * 6},
        {"groups": None},
        {"families": None},
        {"nodes": list("abcd")},
        {"subjects": list("abcdef"), "table": None},
        {"matrices": np.zeros((6, 4, 4))},
        {"matrices": None},
        {"series": None},
        {"target": "OTHER"},
    ],
)
def test_content_hash_sees_every_part(change: dict[str, object]) -> None:
    assert cohort(**change).content_hash() != cohort().content_hash()


def test_it_shows_itself() -> None:
    assert repr(cohort()) == "Networks(6 networks of 4 nodes, classification: control 2, patient 4)"
    assert "no labels" in repr(cohort(y=None, target=None))
    assert "regression: 0 to 5" in repr(cohort(y=np.arange(6.0)))
    assert "2 targets" in repr(cohort(y=np.ones((6, 2)), target=["p", "q"]))
    assert "series only" in repr(cohort(matrices=None))
    page = cohort(groups=["<b>"] * 6)._repr_html_()
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
    with pytest.raises(DataError, match="no classes"):
        cohort(y=None, target=None).label_names()


def test_provenance_is_a_copy_that_json_can_hold(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("abc")
    parameters = {"names": ["a"]}
    history = Provenance().read_from([tmp_path / "a.txt"]).then("step", given=parameters, n=np.int64(3), seen={"x"})
    parameters["names"].append("b")
    assert history.steps[0]["parameters"] == {"given": {"names": ["a"]}, "n": 3, "seen": ["x"]}
    assert history.sources[0] == describe_file(tmp_path / "a.txt")
    assert history.sources[0]["sha256"].startswith("ba7816bf")
    assert Provenance(**history.to_json()) == history
    assert Provenance().then({"step": "s", "parameters": {}}).steps[0]["step"] == "s"


# ---- words


def test_missing_and_hints() -> None:
    assert [is_missing(v) for v in (None, np.nan, pd.NA, pd.NaT, "", 0)] == [True, True, True, True, False, False]
    assert sort_names(["-1", "1", "-2"]) == ("-2", "-1", "1")
    assert "write them alike" in matching_hint(["0050003"], ["50003.0"])
    assert "table: x" in matching_hint(["a"], ["x"])
    problems: list[str] = []
    assert parse_names(np.array([b"a"], dtype=object), 1, "names", problems).tolist() == ["a"]  # type: ignore[union-attr]
    assert problems == []


def test_large_maps_give_pages_back(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    np.save(tmp_path / "m.npy", np.zeros((4, 2, 2)))
    mapped = np.load(tmp_path / "m.npy", mmap_mode="r")
    told: list[int] = []
    monkeypatch.setattr(mapped, "_mmap", types.SimpleNamespace(madvise=told.append))
    assert sum(len(block) for _, block in Rows(mapped).blocks(2)) == 4
    assert len(told) == 2
