"""`rmixup fetch abide`, with nilearn's fetcher replaced by one that needs no network."""

import json
from urllib.error import URLError

import nilearn.datasets
import numpy as np
import pytest

import rmixup
from rmixup.cli import run
from rmixup.data.readers import fetch
from rmixup.errors import DataError


@pytest.fixture
def fetcher(monkeypatch):
    """nilearn's fetcher as far as rmixup sees it: files in its tree. 3 with autism, 2 controls, one too short."""
    asked = {}

    def fetch_abide_pcp(data_dir=None, **options):
        asked.update(options)
        folder = data_dir / "ABIDE_pcp" / "cpac" / "nofilt_noglobal"
        folder.mkdir(parents=True)
        rng = np.random.default_rng(0)
        rows = ["FILE_ID,SITE_ID,DX_GROUP"]
        for k, t in enumerate([120, 100, 130, 110, 105, 99]):
            np.savetxt(folder / f"S_{k}_rois_cc200.1D", rng.normal(size=(t, 3)), delimiter="\t")
            rows.append(f"S_{k},{'AB'[k % 2]},{1 + (k > 2)}")
        (data_dir / "ABIDE_pcp" / "Phenotypic_V1_0b_preprocessed1.csv").write_text("\n".join(rows))

    monkeypatch.setattr(nilearn.datasets, "fetch_abide_pcp", fetch_abide_pcp)
    return asked


def test_the_verified_cohort_is_written(tmp_path, fetcher, monkeypatch, capsys):
    monkeypatch.setattr(fetch, "COHORT", {"1": 3, "0": 2})
    assert run(["fetch", "abide", str(tmp_path / "out"), "--cache", str(tmp_path / "cache"), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["networks"], said["classes"]) == (5, {"1": 3, "0": 2})
    assert fetcher == {"pipeline": "cpac", "derivatives": ["rois_cc200"], "quality_checked": False, "verbose": 0}
    ds = rmixup.load(tmp_path / "out")
    assert ds.subjects.tolist() == ["S_0", "S_1", "S_2", "S_3", "S_4"]
    assert "S_5" in str(ds.provenance.steps)


def test_another_cohort_is_refused(tmp_path, fetcher, capsys):
    assert run(["fetch", "abide", str(tmp_path / "out"), "--cache", str(tmp_path / "cache")]) == 2
    said = capsys.readouterr().err
    assert "expected 1009 people with 100 frames or more, 493 with autism and 516 controls; found 5, 3 and 2" in said
    assert said.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_no_network_is_one_clear_line(tmp_path, monkeypatch, capsys):
    def offline(**options):
        raise URLError("Name or service not known")

    monkeypatch.setattr(nilearn.datasets, "fetch_abide_pcp", offline)
    assert run(["fetch", "abide", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert "ABIDE cannot be fetched" in said
    assert "check the connection and try again" in said
    assert said.count("\n") == 1


def test_an_unknown_atlas_lists_those_there_are(tmp_path, capsys):
    assert run(["fetch", "abide", str(tmp_path / "out"), "--atlas", "mine", "--cache", str(tmp_path)]) == 2
    assert "no atlas 'mine'; there are: aal, cc200" in capsys.readouterr().err


def test_a_folder_without_its_table_is_refused(tmp_path):
    np.savetxt(tmp_path / "S_1_rois_cc200.1D", np.ones((5, 3)))
    with pytest.raises(DataError, match="has no phenotype table"):
        fetch.verify_cohort(tmp_path, "cc200")
