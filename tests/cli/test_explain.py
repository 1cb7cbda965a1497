"""`rmixup explain`: from a cohort and a model to a folder, and what it refuses."""

import json

import numpy as np
import pytest

import rmixup
from rmixup.cli import run


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a cohort in which one edge tells the classes apart, one in which none does, and a model."""
    folder = tmp_path_factory.mktemp("explain")
    drawn = rmixup.simulate(n_subjects=80, n_nodes=14, n_frames=60, effect=0.0)
    matrices = 0.6 * np.array(drawn.matrices) + 0.4 * np.eye(14)
    matrices[drawn.y == 1, 2, 9] += 0.35
    matrices[:, 9, 2] = matrices[:, 2, 9]
    kept = {name: getattr(drawn, name) for name in ("subjects", "groups", "nodes", "classes", "target", "table")}
    rmixup.Networks(matrices, drawn.y, **kept).save(folder / "cohort")
    drawn.save(folder / "nothing")
    renamed = rmixup.Networks(matrices, drawn.y, **{**kept, "nodes": [f"other-{k}" for k in range(14)]})
    renamed.save(folder / "others")
    for data, model in (("cohort", "model"), ("nothing", "guess")):
        assert run(["train", str(folder / data), "--backbone", "linear", "--out", str(folder / model), "--quiet"]) == 0
    return folder


def explained(place, *arguments, model="model", data="cohort"):
    return run(["explain", str(place / model), str(place / data), "--permutations", "19", "--repeats", "1", *arguments])


def test_people_are_told_what_how_far_to_trust_it_and_what_is_next(place, tmp_path, capsys):
    assert explained(place, "--out", str(tmp_path / "out")) == 0
    said = capsys.readouterr().out
    assert "towards class = class-2 (+), against class-1 (−)" in said
    assert "Maps of two refits agree by" in said
    assert "p = 0.05" in said
    nodes = rmixup.load(place / "cohort").nodes
    first = next(line for line in said.splitlines() if line.startswith(nodes[2]))
    assert first.split()[1] == nodes[9]
    assert said.splitlines()[-1].startswith("Next: look at ")
    assert (tmp_path / "out" / "top_edges.png").is_file()


def test_json_is_one_object_and_silence_is_silence(place, tmp_path, capsys):
    assert explained(place, "--out", str(tmp_path / "out"), "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["holds"] is True
    assert {"cautions", "notes", "stability", "prediction", "first", "files", "significant"} <= set(told)
    assert told["permutations"] == 19
    assert told["significant"]["edges"] >= 1
    assert explained(place, "--out", str(tmp_path / "out"), "--overwrite", "--quiet") == 0
    said = capsys.readouterr()
    assert said.out + said.err == ""


def test_maps_of_noise_exit_1_and_are_written_all_the_same(place, tmp_path, capsys):
    assert explained(place, "--out", str(tmp_path / "out"), model="guess", data="nothing") == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "Caution:" in said
    assert "these maps explain noise" in said
    assert "Next: do not interpret these maps" in said
    assert (tmp_path / "out" / "edges.tsv").is_file()


def test_an_atlas_brings_systems_and_places(place, tmp_path, capsys):
    nodes = rmixup.load(place / "cohort").nodes
    rows = [f"{name}\tS{k % 2}\t{k}\t{-k}\t{k / 2}" for k, name in enumerate(nodes)]
    (tmp_path / "atlas.tsv").write_text("\n".join(["node\tsystem\tx\ty\tz", *rows]) + "\n")
    atlas = str(tmp_path / "atlas.tsv")
    options = ["--systems", atlas, "--coordinates", atlas, "--out", str(tmp_path / "out"), "--json"]
    assert run(["explain", str(place / "model"), str(place / "cohort"), "--repeats", "0", *options]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["holds"] is None
    assert {row["system"] for row in told["first"]["systems"]} == {"S0", "S1"}
    assert (tmp_path / "out" / "connectome.svg").is_file()
    assert (tmp_path / "out" / "brainnet.node").is_file()


@pytest.mark.parametrize(
    ("arguments", "data", "words"),
    [
        ([], "others", "other nodes than the model"),
        ([], "missing", "missing"),
        (["--method", "guess"], "cohort", "method must be one of auto, weights"),
        (["--systems", "nowhere.tsv"], "cohort", "there is no such table of nodes"),
        (["--permutations", "3"], "cohort", "at least 19"),
        (["--out", "{place}/cohort"], "cohort", "something else than an explanation"),
    ],
)
def test_bad_input_is_one_line_exit_2_and_leaves_nothing(  # noqa: PLR0917 -- pytest passes by name
    place, tmp_path, capsys, arguments, data, words
):
    out = ["--out", str(tmp_path / "out")]
    assert explained(place, *out, *(one.format(place=place) for one in arguments), data=data) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.strip().splitlines()) == 1
    assert words in said.err
    assert not (tmp_path / "out").exists()
