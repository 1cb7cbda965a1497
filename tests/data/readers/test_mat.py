"""What CONN and DPABI write, in the layouts of their own code."""

import numpy as np
import pytest
import scipy.io

import rmixup
from rmixup.errors import DataError, FormatError

NAMES = ["Grey Matter", "White Matter", "CSF", "atlas.ACC", "atlas.PCC", "atlas.MPFC", "Effect of rest"]


def cell(values):
    array = np.empty((1, len(values)), dtype=object)
    for k, value in enumerate(values):
        array[0, k] = value
    return array


@pytest.fixture
def series():
    return np.random.default_rng(0).normal(size=(3, 40, 3))


def conn_series(folder, subject, values, condition=1, weights=None):
    t = len(values)
    dimensions = [np.ones((t, 5)), np.ones((t, 5)), np.ones((t, 5))]
    # The second and later dimensions of a region are components that rmixup leaves aside.
    regions = [np.column_stack([values[:, k], np.full(t, 9.0)]) if k == 0 else values[:, [k]] for k in range(3)]
    found = {"data": cell([*dimensions, *regions, np.ones((t, 1))]), "names": cell(NAMES)}
    if weights is not None:
        found["conditionweights"] = cell([weights[:, None], weights[:, None]])
    scipy.io.savemat(folder / f"ROI_Subject{subject:03d}_Condition{condition:03d}.mat", found)


def test_conn_series_by_name_without_tissues_and_regressors(tmp_path, series):
    for k, values in enumerate(series):
        conn_series(tmp_path, k + 1, values)
    (tmp_path / "participants.csv").write_text("subject,dx\n3,a\n2,b\n1,a\n")
    ds = rmixup.load(tmp_path, target="dx")
    assert ds.subjects.tolist() == ["Subject001", "Subject002", "Subject003"]
    assert ds.nodes.tolist() == ["atlas.ACC", "atlas.PCC", "atlas.MPFC"]
    assert ds.label_names().tolist() == ["a", "b", "a"]
    np.testing.assert_array_equal(np.stack(ds.series), series)


def test_conn_frames_of_the_condition(tmp_path, series):
    weights = np.zeros(40)
    weights[10:30] = 0.5
    conn_series(tmp_path, 1, series[0], weights=weights)
    np.testing.assert_array_equal(rmixup.load(tmp_path).series[0], series[0, 10:30])


def test_conn_conditions_are_chosen(tmp_path, series):
    conn_series(tmp_path, 1, series[0], condition=1)
    conn_series(tmp_path, 1, series[1], condition=2)
    with pytest.raises(DataError, match=r"has conditions 001, 002 .*choose one with --condition"):
        rmixup.load(tmp_path)
    np.testing.assert_array_equal(rmixup.load(tmp_path, condition="2").series[0], series[1])


def fisher_z(series):
    z = np.arctanh(np.clip([np.corrcoef(x.T) for x in series], -1, 1 - 1e-12))
    z[:, np.arange(3), np.arange(3)] = np.nan
    return z


def test_conn_results_of_all_subjects(tmp_path, series):
    z = fisher_z(series)
    # Sources and targets are listed in different orders, and there are more targets.
    targets = ["atlas.MPFC", "extra", "atlas.ACC", "atlas.PCC"]
    order = [2, None, 0, 1]
    stack = np.stack([[[np.nan if k is None else one[j, k] for k in order] for j in range(3)] for one in z], axis=2)
    found = {"Z": stack, "names": cell(NAMES[3:6]), "names2": cell(targets)}
    scipy.io.savemat(tmp_path / "resultsROI_Condition001.mat", found)
    for path in (tmp_path, tmp_path / "resultsROI_Condition001.mat"):
        ds = rmixup.load(path, from_fisher_z=True)
        np.testing.assert_allclose(ds.matrices, [np.corrcoef(x.T) for x in series], atol=1e-9)
        assert ds.nodes.tolist() == NAMES[3:6]
        assert "from_fisher_z" in [step["step"] for step in ds.provenance.steps]
    assert np.isnan(np.diagonal(rmixup.load(tmp_path).matrices, axis1=1, axis2=2)).all()
    with pytest.raises(DataError, match="has no CONN files with series"):
        rmixup.load(tmp_path, content="series")


def test_conn_results_one_subject_a_file(tmp_path, series):
    for k, z in enumerate(fisher_z(series)):
        found = {"Z": z, "names": cell(NAMES[3:6]), "names2": cell(NAMES[3:6])}
        scipy.io.savemat(tmp_path / f"resultsROI_Subject{k + 1:03d}_Condition001.mat", found)
    ds = rmixup.load(tmp_path, from_fisher_z=True)
    np.testing.assert_allclose(ds.matrices, [np.corrcoef(x.T) for x in series], atol=1e-9)


@pytest.mark.parametrize(
    ("name", "found", "said"),
    [
        ("ROI_Subject001_Condition001.mat", {"names": cell(NAMES)}, r"a file without data has them in the \.matc"),
        ("ROI_Subject001_Condition001.mat", {"data": np.ones(3)}, "expected CONN's cell 'names'"),
        ("resultsROI_Condition001.mat", {"names": cell(NAMES)}, "expected CONN's 'Z'"),
        ("resultsROI_Condition001.mat", {"Z": np.ones((2, 2, 1)), "names": cell(["a", "b", "c"])}, "Z has shape"),
        ("ROISignals_s1.mat", {"Other": np.ones((4, 2))}, "expected a variable 'ROISignals' of numbers, found Other"),
    ],
)
def test_files_that_are_not_what_their_name_says(tmp_path, name, found, said):
    scipy.io.savemat(tmp_path / name, found)
    with pytest.raises(FormatError, match=said):
        rmixup.load(tmp_path)


def test_dpabi(tmp_path, series):
    for k, x in enumerate(series):
        r = np.corrcoef(x.T)
        with np.errstate(divide="ignore"):
            z = np.arctanh(np.where(np.eye(3, dtype=bool), 1.0, r))
        scipy.io.savemat(tmp_path / f"ROISignals_Sub_{k}.mat", {"ROISignals": x})
        scipy.io.savemat(tmp_path / f"ROICorrelation_Sub_{k}.mat", {"ROICorrelation": r})
        scipy.io.savemat(tmp_path / f"ROICorrelation_FisherZ_Sub_{k}.mat", {"ROICorrelation_FisherZ": z})
    ds = rmixup.load(tmp_path)
    assert ds.subjects.tolist() == ["Sub_0", "Sub_1", "Sub_2"]
    np.testing.assert_array_equal(np.stack(ds.series), series)
    expected = [np.corrcoef(x.T) for x in series]
    np.testing.assert_allclose(rmixup.load(tmp_path, content="matrices").matrices, expected, atol=1e-12)
    ds = rmixup.load(tmp_path, content="fisher-z", from_fisher_z=True)
    np.testing.assert_allclose(ds.matrices, expected, atol=1e-12)
    with pytest.raises(DataError, match="has no DPABI files with nothing"):
        rmixup.load(tmp_path, content="nothing")


def test_correlations_are_not_taken_for_fisher_z(tmp_path, series):
    scipy.io.savemat(tmp_path / "ROICorrelation_s.mat", {"ROICorrelation": np.corrcoef(series[0].T)})
    with pytest.raises(DataError, match="has ones on the diagonal, so these are correlations"):
        rmixup.load(tmp_path, from_fisher_z=True)
