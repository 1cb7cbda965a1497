"""`rmixup.load` and what it does for every layout alike."""

import numpy as np
import pandas as pd
import pytest

import rmixup
from rmixup.data.readers import READERS, import_folder, recognise
from rmixup.errors import DataError, FormatError, StoreError


@pytest.fixture
def cohort(tmp_path):
    """Six people, one of whom has a node that does not vary, and a table in another order."""
    folder = tmp_path / "series"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for k in range(6):
        values = rng.normal(size=(20 + k, 4))
        if k == 5:
            values[:, 2] = 1.5
        np.savetxt(folder / f"s{k}.csv", values, delimiter=",", header="a,b,c,d", comments="", fmt="%.17g")
    table = pd.DataFrame(
        {
            "participant_id": [f"s{k}" for k in range(8)],
            "dx": list("abababab"),
            "age": [9, 10, 11, 12, 13, 14, 15, 16],
            "score": [0.5, 1.5, None, 2.5, 3.5, 4.5, 5.5, 6.5],
            "site": list("XXXYYYZZ"),
            "family": list("ffghijkl"),
        }
    )
    table.iloc[::-1].to_csv(folder / "participants.tsv", sep="\t", index=False, na_rep="n/a")
    return folder


def values_of(folder, name):
    return np.loadtxt(folder / f"{name}.csv", delimiter=",", skiprows=1)


def steps_of(ds):
    return {step["step"]: step["parameters"] for step in ds.provenance.steps}


def test_labels_groups_and_families_are_joined_by_id(cohort):
    ds = rmixup.load(cohort, target="dx", groups="site", families="family")
    assert ds.subjects.tolist() == [f"s{k}" for k in range(6)]
    assert ds.label_names().tolist() == list("ababab")
    assert ds.groups.tolist() == list("XXXYYY")
    assert ds.families.tolist() == list("ffghij")
    assert ds.table["age"].tolist() == [9, 10, 11, 12, 13, 14]
    assert ds.nodes.tolist() == list("abcd")


def test_numbers_and_several_targets(cohort):
    assert rmixup.load(cohort, target="age", task="regression").y.tolist() == [9, 10, 11, 12, 13, 14]
    assert rmixup.load(cohort, target="age").task == "classification"
    ds = rmixup.load(cohort, target=["score", "age"], drop_unlabelled=True)
    assert ds.y.tolist() == [[0.5, 9], [1.5, 10], [2.5, 12], [3.5, 13], [4.5, 14]]


def test_people_without_a_label_are_left_out_on_request_only(cohort):
    with pytest.raises(DataError, match=r"column 'score': 1 subjects have no label \(s2\); .* --drop-unlabelled"):
        rmixup.load(cohort, target="score")
    assert "s2" not in rmixup.load(cohort, target="score", drop_unlabelled=True).subjects


def test_people_without_a_row_are_left_out_on_request_only(cohort):
    table = pd.read_csv(cohort / "participants.tsv", sep="\t")
    table[table["participant_id"] != "s1"].to_csv(cohort / "participants.tsv", sep="\t", index=False)
    with pytest.raises(DataError, match=r"1 of 6 subjects have no row \(s1\).*--allow-missing"):
        rmixup.load(cohort, target="dx")
    assert "s1" not in rmixup.load(cohort, target="dx", allow_missing=True).subjects


def test_people_are_chosen_by_the_table(cohort):
    assert rmixup.load(cohort, where=["site=Y", "dx=b"]).subjects.tolist() == ["s3", "s5"]
    with pytest.raises(DataError, match="no row has site=Q; column 'site' holds"):
        rmixup.load(cohort, where=["site=Q"])
    with pytest.raises(DataError, match="must be COLUMN=VALUE"):
        rmixup.load(cohort, where=["site"])
    with pytest.raises(DataError, match="nobody is left after the conditions"):
        rmixup.load(cohort, where=["site=Y"], drop_subjects=["s3,s4", "s5"])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"target": "dy"}, "no column is named 'dy'; there are: "),
        ({"groups": "scanner"}, "the table has no column scanner"),
        ({"layout": "csv"}, "no layout is named 'csv'; there are: auto, pcp"),
        ({"atlas": "cc200"}, "layout 'tables' has no option atlas; it has: pattern"),
        ({"drop_subjects": "s9"}, "there is no subject s9"),
        ({"drop_nodes": "e"}, "there is no node e; the data have a, b, c"),
        ({"drop_nodes": "a,b,c,d"}, "drops every node"),
        ({"drop_subjects": [f"s{k}" for k in range(6)]}, "nobody is left"),
        ({"from_fisher_z": True}, "holds series; --from-fisher-z is for matrices"),
        ({"kind": "cosine"}, "no connectivity is named 'cosine'"),
    ],
)
def test_what_is_asked_for_must_make_sense(cohort, options, said):
    with pytest.raises(DataError, match=said):
        rmixup.load(cohort, **options)


def test_a_target_needs_a_table(cohort):
    (cohort / "participants.tsv").unlink()
    with pytest.raises(DataError, match="there is no table of labels; name one with --labels"):
        rmixup.load(cohort, target="dx")
    with pytest.raises(DataError, match="site was asked for, but there is no table"):
        rmixup.load(cohort, groups="site")
    assert rmixup.load(cohort).y is None


# ---- what is done on request


def test_without_being_asked_nothing_is_changed(cohort):
    ds = rmixup.load(cohort)
    assert ds.matrices is None
    for name, series in zip(ds.subjects, ds.series, strict=True):
        np.testing.assert_array_equal(series, values_of(cohort, name))
    assert [step["step"] for step in ds.provenance.steps] == ["read"]
    assert {source["path"].rsplit("/")[-1] for source in ds.provenance.sources} == {
        "participants.tsv",
        *(f"s{k}.csv" for k in range(6)),
    }


def test_undefined_correlations_are_told_of_together_and_dropped_on_request(cohort):
    with pytest.raises(DataError, match=r"1 subjects have nodes that do not vary.*\(subjects s5; nodes c\)"):
        rmixup.load(cohort, kind="correlation")
    ds = rmixup.load(cohort, kind="correlation", drop_subjects="undefined", target="dx")
    assert ds.subjects.tolist() == [f"s{k}" for k in range(5)]
    assert ds.label_names().tolist() == list("ababa")
    assert steps_of(ds)["drop_subjects"] == {"undefined": ["s5"], "short": []}
    np.testing.assert_allclose(ds.matrices[3], np.corrcoef(values_of(cohort, "s3").T), atol=1e-12)
    ds = rmixup.load(cohort, kind="correlation", drop_nodes=["c"])
    assert ds.nodes.tolist() == ["a", "b", "d"]
    assert ds.series[5].shape == (25, 3)
    assert steps_of(ds)["drop_nodes"] == {"nodes": ["c"]}
    zero = rmixup.load(cohort, kind="correlation", constant="zero")
    assert zero.matrices[5][2, 0] == 0


def test_series_too_short_are_told_of_together_and_dropped_on_request(cohort):
    with pytest.raises(DataError, match=r"2 subjects have fewer than 22 frames \(s0 has 20, s1 has 21\)"):
        rmixup.load(cohort, frames=22)
    ds = rmixup.load(cohort, frames=22, drop_subjects=["short", "s4"])
    assert ds.subjects.tolist() == ["s2", "s3", "s5"]
    assert ds.frames.tolist() == [22, 22, 22]
    np.testing.assert_array_equal(ds.series[0], values_of(cohort, "s2")[:22])
    assert steps_of(ds)["frames"] == {"first": 22}
    with pytest.raises(DataError, match="nobody is left"):
        rmixup.load(cohort, frames=30, drop_subjects="short")


def test_ids_may_stand_in_a_file(cohort, tmp_path):
    (tmp_path / "bad.txt").write_text("s1\ns2\n\n")
    assert rmixup.load(cohort, drop_subjects=f"@{tmp_path / 'bad.txt'}").subjects.tolist() == ["s0", "s3", "s4", "s5"]


@pytest.mark.parametrize("regularize", ["shrink=0.1", "floor=0.5", "ledoit-wolf", "oas"])
def test_regularised_while_reading_as_afterwards(cohort, regularize):
    ds = rmixup.load(cohort, regularize=regularize, drop_nodes="c")
    after = rmixup.load(cohort, drop_nodes="c").connectivity("correlation", regularize=regularize)
    np.testing.assert_allclose(ds.matrices, after.matrices, atol=1e-12)
    if "=" in regularize:
        record = steps_of(ds)["regularize"]
        assert record["total"] == 6
        assert record["changed"] == steps_of(after)["regularize"]["changed"]
        assert record["smallest_before"] == pytest.approx(steps_of(after)["regularize"]["smallest_before"])
    else:
        assert steps_of(ds)["connectivity"]["regularize"] == regularize


def test_fisher_z_comes_back_as_correlations(tmp_path):
    r = np.corrcoef(np.random.default_rng(0).normal(size=(3, 30)))
    for k, diagonal in enumerate((0.0, np.inf, np.nan, 18.0)):
        z = np.arctanh(np.where(np.eye(3, dtype=bool), 0.0, r))
        np.fill_diagonal(z, diagonal)
        np.save(tmp_path / f"s{k}.npy", z)
    ds = rmixup.load(tmp_path, from_fisher_z=True, content="matrices")
    np.testing.assert_allclose(ds.matrices, [r] * 4, atol=1e-12)
    with pytest.raises(DataError, match="need the series it came from"):
        rmixup.load(tmp_path, kind="correlation", content="matrices")


def test_node_names_from_a_file(cohort, tmp_path):
    (tmp_path / "names.txt").write_text("w\nx\ny\nz\n")
    assert rmixup.load(cohort, nodes=tmp_path / "names.txt", drop_nodes="y").nodes.tolist() == ["w", "x", "z"]
    (tmp_path / "names.tsv").write_text("index\tname\tx\n1\tA\t0\n2\tB\t0\n3\tC\t0\n")
    with pytest.raises(DataError, match="has 3 node names, the data have 4 nodes"):
        rmixup.load(cohort, nodes=tmp_path / "names.tsv")


# ---- folders


def test_an_imported_folder_is_the_loaded_data(cohort, tmp_path):
    told = []
    options = {"target": "dx", "groups": "site", "families": "family", "regularize": "shrink=0.05", "drop_nodes": "c"}
    written = import_folder(
        cohort, tmp_path / "out", progress=lambda done, count: told.append((done, count)), **options
    )
    assert told == [(k + 1, 6) for k in range(6)]
    for ds in (written, rmixup.load(tmp_path / "out"), rmixup.load(tmp_path / "out" / "dataset.json")):
        assert ds.content_hash() == rmixup.load(cohort, **options).content_hash()
        assert ds.provenance == written.provenance


def test_a_folder_takes_another_target_but_no_options_of_sources(cohort, tmp_path):
    import_folder(cohort, tmp_path / "out", target="dx")
    ds = rmixup.load(tmp_path / "out", target="site", groups="dx")
    assert ds.classes == ("X", "Y")
    assert ds.groups.tolist() == list("ababab")
    with pytest.raises(DataError, match="kind are for sources; import again"):
        rmixup.load(tmp_path / "out", kind="correlation")
    with pytest.raises(DataError, match="is a folder that rmixup wrote already"):
        import_folder(tmp_path / "out", tmp_path / "again")


def test_a_folder_in_the_way_is_kept_unless_told_otherwise(cohort, tmp_path):
    import_folder(cohort, tmp_path / "out", target="dx")
    with pytest.raises(StoreError, match="exists already"):
        import_folder(cohort, tmp_path / "out", target="site")
    assert rmixup.load(tmp_path / "out").target == "dx"
    import_folder(cohort, tmp_path / "out", target="site", overwrite=True)
    assert rmixup.load(tmp_path / "out").target == "site"


def test_the_folder_of_bids_keeps_its_id_column(tmp_path):
    """participants.tsv has a participant_id of its own, as the folder on disk has."""
    np.savez(tmp_path / "s.npz", matrices=np.stack([np.eye(2)] * 2), subjects=np.array(["a", "b"]))
    (tmp_path / "t.csv").write_text("subject,participant_id,dx\na,P1,x\nb,P2,y\n")
    ds = import_folder(
        tmp_path / "s.npz", tmp_path / "out", labels=tmp_path / "t.csv", id_column="subject", target="dx"
    )
    assert ds.table["participant_id_in_table"].tolist() == ["P1", "P2"]


def test_an_unknown_layout_lists_what_was_found_and_what_there_is(tmp_path):
    (tmp_path / "notes.docx").write_bytes(b"x")
    with pytest.raises(FormatError, match=r"no known layout \(found: notes.docx\); the layouts are pcp: ") as caught:
        rmixup.load(tmp_path)
    assert all(f"{name}: " in str(caught.value) for name in READERS)
    with pytest.raises(FormatError, match=r"found: notes.docx"):
        recognise(tmp_path / "notes.docx")
    with pytest.raises(FormatError, match="no such file or folder"):
        rmixup.load(tmp_path / "absent")
