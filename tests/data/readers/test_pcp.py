"""ABIDE as the Preprocessed Connectomes Project gives it: made up here, and the real one where it is."""

import numpy as np
import pandas as pd
import pytest

import rmixup
from rmixup.data.readers.fetch import verify_cohort
from rmixup.errors import DataError

PEOPLE = {
    "NYU_0050001": ("50001", "NYU", "1"),
    "NYU_0050002": ("50002", "NYU", "2"),
    "UM_1_0050003": ("50003", "UM_1", "1"),
}


@pytest.fixture
def abide(tmp_path):
    """nilearn's tree: the table two folders above the series, an unnamed first column, -9999 for missing."""
    folder = tmp_path / "ABIDE_pcp" / "cpac" / "nofilt_noglobal"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    rows = [",Unnamed: 0,SUB_ID,X,subject,SITE_ID,FILE_ID,DX_GROUP,FIQ,NOTE"]
    for k, (name, (number, site, dx)) in enumerate(PEOPLE.items()):
        header = "\t".join(f"#{r + 1}" for r in range(4))
        np.savetxt(
            folder / f"{name}_rois_cc200.1D", rng.normal(size=(12 + k, 4)), "%.6g", "\t", header=header, comments=""
        )
        rows.append(f'{k},{k},{number},{k},{number},{site},{name},{dx},{"-9999" if k else "101"},"a, b"')
    rows.append("9,9,50009,9,50009,NYU,no_filename,1,100,")
    rows.append("10,10,50010,10,50010,NYU,no_filename,1,100,")
    (tmp_path / "ABIDE_pcp" / "Phenotypic_V1_0b_preprocessed1.csv").write_text("\n".join(rows))
    return tmp_path / "ABIDE_pcp"


def test_dx_group_1_is_autism(abide):
    for path in (abide, abide / "cpac" / "nofilt_noglobal"):
        ds = rmixup.load(path)
        assert ds.target == "ASD"
        labels = dict(zip(ds.subjects.tolist(), ds.label_names().tolist(), strict=True))
        assert labels == {"NYU_0050001": "1", "NYU_0050002": "0", "UM_1_0050003": "1"}
        assert ds.groups.tolist() == ["NYU", "NYU", "UM_1"]
        assert ds.nodes.tolist() == ["1", "2", "3", "4"]
        assert ds.frames.tolist() == [12, 13, 14]


def test_9999_is_missing(abide):
    with pytest.raises(DataError, match="column 'FIQ': 2 subjects have no label"):
        rmixup.load(abide, target="FIQ")
    assert rmixup.load(abide, target="FIQ", drop_unlabelled=True).subjects.tolist() == ["NYU_0050001"]


def test_inverted_labels_are_refused(abide):
    table = abide / "Phenotypic_V1_0b_preprocessed1.csv"
    frame = pd.read_csv(table, dtype=str, index_col=0)
    frame["ASD"] = frame["DX_GROUP"].map({"1": "0", "2": "1"})
    frame.to_csv(table)
    with pytest.raises(DataError, match=r"'ASD' contradicts DX_GROUP .* for 3 subjects .*the labels are inverted"):
        rmixup.load(abide)
    frame["DX_GROUP"] = "3"
    frame.to_csv(table)
    with pytest.raises(DataError, match=r"expected 1 \(autism\) or 2 \(control\), found 3"):
        rmixup.load(abide)


def test_two_atlases_must_be_chosen_between(abide):
    folder = abide / "cpac" / "nofilt_noglobal"
    for file in list(folder.glob("*cc200.1D")):
        (folder / file.name.replace("cc200", "ho")).write_text(file.read_text())
    with pytest.raises(DataError, match=r"several atlases .cc200, ho.; choose one with --atlas"):
        rmixup.load(abide)
    with pytest.raises(DataError, match="no series of atlas 'aal'; there are: cc200, ho"):
        rmixup.load(abide, atlas="aal")
    assert len(rmixup.load(abide, atlas="ho")) == 3


def test_the_table_may_be_absent_named_or_one_of_several(abide):
    table = abide / "Phenotypic_V1_0b_preprocessed1.csv"
    other = table.with_name("Phenotypic_2.csv")
    other.write_text("FILE_ID,site\nNYU_0050001,a\nNYU_0050002,b\nUM_1_0050003,b\n")
    with pytest.raises(DataError, match="several phenotype tables"):
        rmixup.load(abide)
    ds = rmixup.load(abide, labels=other, target="site")
    assert ds.label_names().tolist() == ["a", "b", "b"]
    table.unlink()
    other.unlink()
    assert rmixup.load(abide).y is None


@pytest.mark.real
def test_the_real_cohort(real_data):
    ds = rmixup.load(real_data / "abide", atlas="ho", where=["in_1009=1"])
    assert (len(ds), ds.n_nodes, int((ds.y == 1).sum())) == (1009, 111, 493)
    assert ds.frames.min() >= 100
    assert len(set(ds.groups.tolist())) == 19
    name = "Pitt_0050003"
    raw = np.loadtxt(real_data / "abide" / "rois_ho" / f"{name}_rois_ho.1D", skiprows=1)
    np.testing.assert_array_equal(ds.series[ds.subjects.tolist().index(name)], raw)


@pytest.mark.real
def test_the_real_undefined_people_are_told_of(real_data):
    with pytest.raises(DataError, match="46 subjects have nodes that do not vary"):
        rmixup.load(real_data / "abide", atlas="cc200", where=["in_1009=1"], kind="correlation")


@pytest.mark.real
def test_the_real_cohort_is_verified(real_data):
    assert len(verify_cohort(real_data / "abide", "cc200")) == 26
