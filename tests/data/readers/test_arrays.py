"""Stacks."""

import numpy as np
import pytest

import rmixup
from rmixup.errors import DataError, FormatError


@pytest.fixture
def matrices():
    x = np.random.default_rng(0).normal(size=(4, 30, 5))
    return np.stack([np.corrcoef(one.T) for one in x])


def test_a_stack_keeps_everything_it_says(tmp_path, matrices):
    np.savez(
        tmp_path / "s.npz",
        matrices=matrices,
        y=np.array(["p", "c", "p", "c"]),
        subjects=np.array(["a", "b", "c", "d"]),
        groups=np.array(["X", "X", "Y", "Y"]),
        families=np.array(["f", "f", "g", "h"]),
        nodes=np.array(["n1", "n2", "n3", "n4", "n5"]),
    )
    ds = rmixup.load(tmp_path / "s.npz")
    np.testing.assert_array_equal(ds.matrices, matrices)
    assert (ds.classes, ds.y.tolist(), ds.target) == (("c", "p"), [1, 0, 1, 0], "y")
    assert ds.groups.tolist() == ["X", "X", "Y", "Y"]
    assert ds.families.tolist() == ["f", "f", "g", "h"]
    assert ds.nodes.tolist() == ["n1", "n2", "n3", "n4", "n5"]
    assert len(ds.provenance.sources) == 1


def test_what_networks_give_comes_back(tmp_path):
    rng = np.random.default_rng(1)
    series = [rng.normal(size=(t, 3)) for t in (8, 9, 12)]
    ds = rmixup.Networks(series=series, y=[0.5, 1.5, 2.0], subjects=["a", "b", "c"])
    np.savez(tmp_path / "s.npz", **ds.to_numpy())
    back = rmixup.load(tmp_path / "s.npz")
    for one, two in zip(ds.series, back.series, strict=True):
        np.testing.assert_array_equal(one, two)
    assert back.task == "regression"
    np.testing.assert_array_equal(back.y, ds.y)
    np.testing.assert_allclose(
        rmixup.load(tmp_path / "s.npz", kind="correlation").matrices, [np.corrcoef(x.T) for x in series], atol=1e-12
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
def test_equal_lengths_and_types(tmp_path, dtype):
    series = (np.random.default_rng(2).normal(size=(3, 10, 4)) * 100).astype(dtype)
    np.savez(tmp_path / "s.npz", series=series, subjects=np.array(["a", "b", "c"]))
    ds = rmixup.load(tmp_path / "s.npz")
    assert ds.series[0].dtype == (np.float32 if dtype == np.float32 else np.float64)
    np.testing.assert_array_equal(np.stack(ds.series), series)


@pytest.mark.parametrize("order", ["<", ">"])
def test_stacks_of_machines_with_another_byte_order_are_the_same(tmp_path, matrices, order):
    y, names = np.arange(8.0).reshape(4, 2) + 0.5, np.array(list("abcd"))
    stored = {
        "matrices": matrices.astype(f"{order}f8"),
        "y": y.astype(f"{order}f8"),
        "subjects": names.astype(f"{order}U1"),
    }
    np.savez(tmp_path / "s.npz", **stored)
    ds = rmixup.load(tmp_path / "s.npz", target=["y_0", "y_1"], drop_subjects=["b"])
    assert ds.subjects.tolist() == ["a", "c", "d"]
    np.testing.assert_array_equal(ds.y, y[[0, 2, 3]])
    np.testing.assert_array_equal(ds.matrices, matrices[[0, 2, 3]])


def test_two_targets_become_two_columns(tmp_path, matrices):
    y = np.arange(8.0).reshape(4, 2) + 0.5
    np.savez(tmp_path / "s.npz", matrices=matrices, y=y, subjects=np.array(list("abcd")))
    ds = rmixup.load(tmp_path / "s.npz", target=["y_0", "y_1"])
    np.testing.assert_array_equal(ds.y, y)


def test_a_table_takes_the_place_of_the_stacks_labels(tmp_path, matrices):
    np.savez(tmp_path / "s.npz", matrices=matrices, y=np.arange(4), subjects=np.array(list("abcd")))
    (tmp_path / "t.csv").write_text("id,dx,site\nd,1,N\nc,0,N\nb,1,M\na,0,M\n")
    ds = rmixup.load(tmp_path / "s.npz", labels=tmp_path / "t.csv", target="dx", groups="site")
    assert ds.y.tolist() == [0, 1, 0, 1]
    assert ds.groups.tolist() == ["M", "M", "N", "N"]


def test_a_npy_takes_its_people_from_the_rows_of_its_table_and_says_so(tmp_path, matrices):
    np.save(tmp_path / "connectivity.npy", matrices)
    (tmp_path / "participants.tsv").write_text(
        "participant_id\tdx\n" + "".join(f"s{k}\t{'ab'[k % 2]}\n" for k in range(4))
    )
    (tmp_path / "rois.csv").write_text("index,roi\n" + "".join(f"{k},R{k}\n" for k in range(5)))
    ds = rmixup.load(tmp_path, target="dx", nodes=tmp_path / "rois.csv")
    assert ds.subjects.tolist() == ["s0", "s1", "s2", "s3"]
    assert ds.nodes.tolist() == [f"R{k}" for k in range(5)]
    assert "row by row" in [step["step"] for step in ds.provenance.steps]
    np.testing.assert_array_equal(ds.matrices, matrices)
    np.testing.assert_array_equal(rmixup.load(tmp_path / "connectivity.npy").matrices, matrices)


def test_a_npy_of_series_is_told_from_one_of_matrices(tmp_path):
    series = np.random.default_rng(0).normal(size=(2, 7, 3))
    np.save(tmp_path / "x.npy", series)
    (tmp_path / "participants.tsv").write_text("participant_id\na\nb\n")
    assert rmixup.load(tmp_path).matrices is None
    np.testing.assert_array_equal(rmixup.load(tmp_path).series[1], series[1])


def test_square_series_are_not_guessed_at(tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(2, 4, 4)))
    (tmp_path / "participants.tsv").write_text("participant_id\na\nb\n")
    with pytest.raises(FormatError, match="say which with --content series or --content matrices"):
        rmixup.load(tmp_path)
    assert rmixup.load(tmp_path, content="series").matrices is None
    assert rmixup.load(tmp_path, content="matrices").series is None


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        (
            {"corr": np.eye(3)[None], "subjects": np.array(["a"])},
            "expected an array 'matrices' or 'series'.*found corr",
        ),
        ({"matrices": np.eye(3)[None]}, "no array 'subjects'"),
        ({"matrices": np.eye(3)[None], "subjects": np.array(["a", "b"])}, "1 networks and 2 subjects"),
        ({"matrices": np.stack([np.eye(3)] * 2), "subjects": np.array(["a", "a"])}, "a occur more than once"),
        ({"matrices": np.eye(3)[None], "subjects": np.array([["a"]])}, "expected one row of names"),
        ({"matrices": np.eye(3)[None], "subjects": np.array(["a"]), "y": np.arange(2)}, "'y' has 2 entries for 1"),
        (
            {"matrices": np.eye(3)[None], "subjects": np.array(["a"]), "groups": np.ones((1, 2))},
            "'groups' has the shape",
        ),
        ({"matrices": np.eye(3)[None], "subjects": np.array(["a"]), "y": np.float64(1)}, r"'y' has the shape \(\)"),
        ({"matrices": np.ones((1, 3, 4)), "subjects": np.array(["a"])}, "expected a square matrix, found 3×4"),
        ({"matrices": np.eye(3)[None] * 1j, "subjects": np.array(["a"])}, "expected real numbers"),
        ({"matrices": np.float64(1), "subjects": np.array(["a"])}, r"expected \(N, n, n\) .*, found shape \(\)"),
        ({"series": np.ones((4, 9)), "subjects": np.array(list("abcd"))}, r"found shape \(4, 9\); save it so"),
        ({"series": np.ones((1, 0, 4)), "subjects": np.array(["a"])}, "array of shape"),
    ],
)
def test_stacks_that_do_not_fit_together(tmp_path, arrays, said):
    np.savez(tmp_path / "s.npz", **arrays)
    with pytest.raises(FormatError if "occur" not in said else DataError, match=said):
        rmixup.load(tmp_path / "s.npz")


@pytest.mark.parametrize(
    ("rows", "options", "said"),
    [
        (["a", "b", "c"], {}, "holds 4 networks, .* has 3 rows"),
        (["a", "b", "c", "c"], {}, "c occur more than once"),
        (["a", "b", "c", "n/a"], {}, "must give every row a subject id"),
        (list("abcd"), {"id_column": "who"}, "must give every row a subject id"),
    ],
)
def test_a_npy_and_its_table_must_fit(tmp_path, matrices, rows, options, said):
    np.save(tmp_path / "x.npy", matrices)
    (tmp_path / "participants.tsv").write_text("\n".join(["participant_id", *rows]))
    with pytest.raises(DataError, match=said):
        rmixup.load(tmp_path, **options)


def test_a_npy_without_a_table_or_of_another_shape_is_refused(tmp_path, matrices):
    (tmp_path / "deep").mkdir()
    np.save(tmp_path / "deep" / "x.npy", matrices)
    with pytest.raises(DataError, match="cannot say whose its networks are"):
        rmixup.load(tmp_path / "deep" / "x.npy")
    np.save(tmp_path / "deep" / "x.npy", np.eye(4))
    (tmp_path / "deep" / "participants.tsv").write_text("participant_id\na\nb\nc\nd\n")
    with pytest.raises(FormatError, match=r"expected \(N, n, n\) or \(N, t, n\), found shape \(4, 4\)"):
        rmixup.load(tmp_path / "deep" / "x.npy")


def test_names_for_other_nodes_than_there_are_are_refused(tmp_path, matrices):
    np.savez(tmp_path / "s.npz", matrices=matrices, subjects=np.array(list("abcd")), nodes=np.array(list("abcdef")))
    with pytest.raises(DataError, match="has 6 node names for 5 nodes"):
        rmixup.load(tmp_path / "s.npz")
