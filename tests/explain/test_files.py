"""Tables parse back, names cannot do harm, pictures are drawn, a folder is whole or not there."""

import io
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import rmixup
from rmixup.errors import DataError, FormatError, StoreError
from rmixup.explain import explain
from rmixup.explain.atlas import coordinates_of, systems_of
from rmixup.explain.files import SUMMARY, brainnet_edges, brainnet_nodes, files_of
from rmixup.files import unseal
from rmixup.report import explanation

sys.path.insert(0, str(Path(__file__).parent))

from planted_cohorts import N_NODES, PLANTED, fitted, with_edges

HOSTILE = [
    "=cmd|' /C calc'!A0",
    "+1+1",
    "-2+3",
    "@SUM(1)",
    "a\tb",
    "c\nd",
    'quote"inside',
    "<script>alert(1)</script>",
    "$\\frac{$",
    "\u202egnp.exe",
    "x" * 200,
    "\N{BRAIN} ünïcode",
    "   ",
    "[red]bold[/red]",
]


@pytest.fixture(scope="module")
def hostile():
    """The planted cohort with nodes called by names that mean harm, with places."""
    ds = with_edges(PLANTED)
    places = np.random.default_rng(0).uniform(-50, 50, (N_NODES, 3))
    named = rmixup.Networks(ds.matrices, ds.y, ds.subjects, nodes=HOSTILE, coordinates=places, classes=["=a", "$b$"])
    return explain(fitted(named), named, permutations=0, repeats=1, systems=[f"={k // 5}\t" for k in range(N_NODES)])


def read(content, **options):
    return pd.read_csv(io.BytesIO(content), sep="\t", keep_default_na=False, **options)


def test_tables_parse_back(told):
    files = files_of(told)
    assert {"edges.tsv", "top_edges.tsv", "nodes.tsv", "systems.tsv", "system_pairs.tsv", SUMMARY} == set(files)
    for name, table in (
        ("edges.tsv", told.edges()),
        ("nodes.tsv", told.node_table()),
        ("systems.tsv", told.system_table()),
    ):
        pd.testing.assert_frame_equal(read(files[name]), table, rtol=1e-5, check_dtype=False)
    assert len(read(files["top_edges.tsv"])) == told.top
    assert read(files["edges.tsv"]).columns[:2].tolist() == ["source", "target"]


def test_hostile_names_are_text_in_every_table(hostile):
    files = files_of(hostile)
    nodes = read(files["nodes.tsv"])
    plain = {f"'{name}" if name[0] in "=+-@" else name for name in hostile.nodes}
    assert set(nodes["node"]) == plain
    for name in ("edges.tsv", "nodes.tsv", "systems.tsv", "system_pairs.tsv"):
        table = read(files[name])
        for column in table.select_dtypes(["object", "string"]):
            assert not table[column].str.match(r"[=+@\-]").any(), (name, column)
        assert not any(column.startswith(("=", "+", "-", "@")) for column in table.columns)
    edges = read(files["edges.tsv"])
    assert len(edges) == N_NODES * (N_NODES - 1) // 2
    assert set(edges["source"]) | set(edges["target"]) == plain


def test_brainnet_viewers_files_have_six_columns_and_a_square(hostile):
    lines = brainnet_nodes(hostile).decode().splitlines()
    assert len(lines) == N_NODES
    rows = [line.split() for line in lines]
    assert {len(row) for row in rows} == {6}
    np.testing.assert_allclose(np.array([row[:3] for row in rows], float), hostile.coordinates, rtol=1e-4)
    assert max(float(row[4]) for row in rows) == 1
    assert {row[3] for row in rows} == {"1", "2", "3"}
    assert rows[12][5] == "-"
    matrix = np.loadtxt(io.BytesIO(brainnet_edges(hostile)))
    assert matrix.shape == (N_NODES, N_NODES)
    np.testing.assert_array_equal(matrix, matrix.T)
    assert (matrix[np.triu_indices(N_NODES, 1)] != 0).sum() == hostile.top
    np.testing.assert_allclose(matrix[matrix != 0], hostile.matrix()[matrix != 0], rtol=1e-5)


def test_the_folder_has_tables_pictures_and_a_sealed_summary(hostile, tmp_path):
    paths, missing = explanation.write(hostile, tmp_path / "new" / "out")
    names = {path.name for path in paths}
    drawn = {f"{name}.{kind}" for name in ("top_edges", "nodes", "systems", "connectome") for kind in ("svg", "png")}
    assert drawn | {"brainnet.node", "brainnet.edge", SUMMARY} <= names
    assert not missing
    assert names == {path.name for path in (tmp_path / "new" / "out").iterdir()}
    told = unseal(tmp_path / "new" / "out" / SUMMARY)
    assert told["format"] == "rmixup explanation"
    assert told["first"]["nodes"][0]["node"] in HOSTILE
    for path in paths:
        if path.suffix == ".png":
            assert path.read_bytes().startswith(b"\x89PNG")
        if path.suffix == ".svg":
            assert b"<script" not in path.read_bytes()


def test_what_is_there_is_kept_unless_it_is_an_explanation_to_replace(hostile, tmp_path):
    out = tmp_path / "out"
    explanation.write(hostile, out)
    with pytest.raises(StoreError, match="there is an explanation already"):
        explanation.write(hostile, out)
    explanation.write(hostile, out, overwrite=True)
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("years of work")
    with pytest.raises(StoreError, match="something else than an explanation"):
        explanation.write(hostile, tmp_path / "thesis", overwrite=True)
    assert (tmp_path / "thesis" / "chapter.tex").read_text() == "years of work"


def test_without_nilearn_the_brain_is_left_out_in_one_line(hostile, tmp_path, monkeypatch):
    monkeypatch.setattr(explanation, "find_spec", lambda name: None)
    paths, missing = explanation.write(hostile, tmp_path / "out")
    assert len(missing) == 1
    assert "nilearn" in missing[0]
    assert "connectome.png" not in {path.name for path in paths}
    assert "brainnet.node" in {path.name for path in paths}


@pytest.mark.parametrize("task", ["three classes", "a number"])
def test_other_tasks_are_drawn_too(tmp_path, task):
    sizes = {edge: size / 4 for edge, size in PLANTED.items()}
    ds = with_edges(sizes, n_classes=3) if task == "three classes" else with_edges(sizes, task="regression")
    told = explain(fitted(ds), ds, permutations=19, repeats=1)
    explanation.write(told, tmp_path / "out")
    edges = read((tmp_path / "out" / "edges.tsv").read_bytes())
    assert ("signed" in edges) == (task == "a number")
    assert ("signed_class-3" in edges) == (task == "three classes")
    assert json.loads((tmp_path / "out" / SUMMARY).read_text())["outputs"] == list(told.outputs)


# ---- what is known of nodes


def test_systems_come_from_names_where_these_show_groups():
    schaefer = ["7Networks_LH_Vis_1", "7Networks_RH_Vis_1", "7Networks_LH_Default_PFC_1", "7Networks_RH_Default_Par_2"]
    assert systems_of(schaefer)[0] == ("Vis", "Vis", "Default", "Default")
    assert systems_of([*schaefer * 2, "Thalamus_Left"])[0][-1] == "other"
    assert systems_of(["node-001", "node-002", "node-003"])[0] is None
    assert systems_of(["PCC", "V1", "mPFC", "dACC"])[0] is None
    assert systems_of(schaefer, "none")[0] is None


def test_systems_and_places_come_from_a_table(tmp_path):
    path = tmp_path / "atlas.tsv"
    path.write_text("Region\tYeo7\tYeo17\tX\ty\tz\nb\tD\tDa\t4\t5\t6\na\tV\tVa\t1\t2\t3.5\nextra\tV\tVa\t0\t0\t0\n")
    assert systems_of(["a", "b"], f"{path}:Yeo17")[0] == ("Va", "Da")
    np.testing.assert_array_equal(coordinates_of(["a", "b"], path), [[1, 2, 3.5], [4, 5, 6]])
    with pytest.raises(DataError, match=r"which column holds the systems: Yeo7, Yeo17, X, y, z\?"):
        systems_of(["a", "b"], path)
    with pytest.raises(DataError, match="has no column 'Yeo9'"):
        systems_of(["a", "b"], f"{path}:Yeo9")
    with pytest.raises(DataError, match=r"1 of 2 nodes have no system \(c\)"):
        systems_of(["a", "c"], f"{path}:Yeo7")
    with pytest.raises(StoreError, match="there is no such table of nodes"):
        systems_of(["a"], tmp_path / "none.tsv")


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("node\nx\n", FormatError, "expected two columns"),
        ("node\tx\ty\na\t1\t2\n", DataError, "has no column z"),
        ("node\tx\ty\tz\na\t1\t2\tfar\n", DataError, "must be numbers"),
        ("node\tx\ty\tz\na\t1\t2\tinf\n", DataError, "must be finite; those of a are not"),
        ("node\tx\ty\tz\na\t1\t2\t3\na\t1\t2\t4\n", DataError, "several rows: a"),
    ],
)
def test_tables_of_places_that_are_wrong_are_refused(tmp_path, text, error, words):
    path = tmp_path / "atlas.tsv"
    path.write_text(text)
    with pytest.raises(error, match=words):
        coordinates_of(["a"], path)
