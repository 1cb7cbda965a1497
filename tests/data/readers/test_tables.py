"""One file a subject."""

import numpy as np
import pytest
import scipy.io

import rmixup
from rmixup.errors import DataError, FormatError

SUBJECTS = ("p01", "p02", "c01")


@pytest.fixture
def series():
    rng = np.random.default_rng(0)
    return {name: rng.normal(size=(t, 4)) for name, t in zip(SUBJECTS, (20, 25, 30), strict=True)}


def write(path, array, header=""):
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".npy":
        np.save(path, array)
    elif path.suffix == ".mat":
        scipy.io.savemat(path, {"ts": array, "tr": 2.0})
    else:
        delimiter = {".csv": ",", ".tsv": "\t"}.get(path.suffix, " ")
        np.savetxt(path, array, delimiter=delimiter, header=header, comments="", fmt="%.17g")


@pytest.fixture
def labels(tmp_path):
    path = tmp_path / "phenotype.csv"
    path.write_text("subject,dx,age\nc01,control,12.5\np02,patient,13\np01,patient,11\n")
    return path


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".txt", ".1D", ".npy", ".mat"])
def test_every_kind_of_file(tmp_path, series, labels, ending):
    for name, array in series.items():
        write(tmp_path / "ts" / f"{name}_task-rest_ts{ending}", array)
    ds = rmixup.load(tmp_path / "ts", target="dx")
    assert ds.subjects.tolist() == sorted(SUBJECTS)
    assert dict(zip(ds.subjects, ds.label_names(), strict=True)) == {
        "p01": "patient",
        "p02": "patient",
        "c01": "control",
    }
    for name, array in zip(ds.subjects, ds.series, strict=True):
        np.testing.assert_array_equal(array, series[name])
    assert len(ds.provenance.sources) == 4  # three files and the table


def test_matrices_are_told_from_series(tmp_path, series):
    for name, array in series.items():
        write(tmp_path / f"{name}.csv", np.corrcoef(array.T), header="a,b,c,d")
    ds = rmixup.load(tmp_path)
    assert ds.series is None
    assert ds.nodes.tolist() == ["a", "b", "c", "d"]
    np.testing.assert_allclose(ds.matrices[1], np.corrcoef(series["p01"].T), atol=1e-15)


def test_a_pattern_says_whose_and_which(tmp_path, series, labels):
    for name, array in series.items():
        write(tmp_path / "x" / name / "ts_clean.csv", array)
        write(tmp_path / "x" / name / "ts_raw.csv", array * 2)
    ds = rmixup.load(tmp_path / "x", layout="tables", pattern="{id}/ts_clean*.csv", labels=labels, target="age")
    assert ds.subjects.tolist() == sorted(SUBJECTS)
    assert ds.task == "regression"
    with pytest.raises(DataError, match="no file fits"):
        rmixup.load(tmp_path / "x", layout="tables", pattern="{id}/none.csv")
    with pytest.raises(DataError, match="leads outside"):
        rmixup.load(tmp_path / "x", layout="tables", pattern="../{id}.csv")
    with pytest.raises(DataError, match="more than once"):
        rmixup.load(tmp_path / "x", layout="tables", pattern="{id}/ts_{id}.csv")


def test_two_files_a_subject_are_not_guessed_between(tmp_path, series):
    write(tmp_path / "p01_a.csv", series["p01"])
    write(tmp_path / "p01_b.csv", series["p01"])
    write(tmp_path / "p02_a.csv", series["p02"])
    with pytest.raises(DataError, match=r"1 subjects have several files \(p01: p01_a.csv, p01_b.csv\)"):
        rmixup.load(tmp_path, pattern="{id}_*.csv")
    assert rmixup.load(tmp_path, pattern="{id}_a.csv").subjects.tolist() == ["p01", "p02"]


def test_kinds_of_files_are_not_mixed(tmp_path, series):
    write(tmp_path / "p01.csv", series["p01"])
    write(tmp_path / "p01.npy", series["p01"])
    with pytest.raises(DataError, match=r"several kinds \(1 × .csv, 1 × .npy\)"):
        rmixup.load(tmp_path)
    assert len(rmixup.load(tmp_path, pattern="*.npy")) == 1


def test_transposed_series(tmp_path, series):
    write(tmp_path / "p01.csv", series["p01"][:20].T)
    write(tmp_path / "p02.csv", series["p02"].T)
    with pytest.raises(FormatError, match="if time runs along the rows of the files, add --transpose"):
        rmixup.load(tmp_path)
    ds = rmixup.load(tmp_path, transpose=True)
    np.testing.assert_array_equal(ds.series[1], series["p02"])


def test_two_atlases_are_named(tmp_path, series):
    write(tmp_path / "p01.csv", series["p01"])
    write(tmp_path / "p02.csv", series["p02"][:, :3])
    with pytest.raises(
        FormatError, match=r"p02.csv: a series of 25×3 numbers \(3 nodes\).*expected 4 nodes.*p01.csv; two atlases"
    ):
        rmixup.load(tmp_path)


def test_nodes_in_another_order_are_named(tmp_path, series):
    write(tmp_path / "p01.csv", series["p01"], header="a,b,c,d")
    write(tmp_path / "p02.csv", series["p02"], header="a,c,b,d")
    with pytest.raises(FormatError, match="p02 has in another order nodes: column 2 is 'c', expected 'b'"):
        rmixup.load(tmp_path)


def test_variables_of_a_mat_file_are_chosen_by_name(tmp_path, series):
    scipy.io.savemat(tmp_path / "p01.mat", {"ts": series["p01"], "fc": np.corrcoef(series["p01"].T), "tr": 2})
    with pytest.raises(FormatError, match=r"found fc, ts; choose with --variable|found ts, fc; choose with --variable"):
        rmixup.load(tmp_path)
    with pytest.raises(FormatError, match="has no table of numbers named 'tr'"):
        rmixup.load(tmp_path, variable="tr")
    assert rmixup.load(tmp_path, variable="fc").series is None
    np.testing.assert_array_equal(rmixup.load(tmp_path, variable="ts").series[0], series["p01"])
    scipy.io.savemat(tmp_path / "p01.mat", {"tr": 2})
    with pytest.raises(FormatError, match="found none"):
        rmixup.load(tmp_path)


def test_links_to_content_that_was_not_fetched(tmp_path, series):
    write(tmp_path / "p01.csv", series["p01"])
    (tmp_path / "p02.csv").symlink_to("../.git/annex/objects/p02")
    with pytest.raises(FormatError, match=r"p02.csv: is a link to a file that is not here.*datalad get"):
        rmixup.load(tmp_path)


def test_the_table_of_labels_is_never_taken_for_a_person(tmp_path, series):
    write(tmp_path / "p01.csv", series["p01"])
    write(tmp_path / "p02.csv", series["p02"])
    (tmp_path / "key.csv").write_text("id,dx\np01,a\np02,b\n")
    ds = rmixup.load(tmp_path, labels=tmp_path / "key.csv", target="dx")
    assert ds.subjects.tolist() == ["p01", "p02"]
