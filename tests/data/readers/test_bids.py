"""BIDS derivatives, in the trees that xcp_d, giga_connectome and fMRIPrep write."""

import json

import h5py
import nibabel
import numpy as np
import pandas as pd
import pytest

import rmixup
from rmixup.errors import DataError, FormatError

NODES = ["LH_Vis_1", "LH_Vis_2", "RH_Default_1"]


@pytest.fixture
def series():
    return {name: np.random.default_rng(k).normal(size=(30, 3)) for k, name in enumerate(("01", "02"))}


def participants(folder):
    (folder / "participants.tsv").write_text("participant_id\tdx\tage\nsub-02\tpatient\t30\nsub-01\tcontrol\tn/a\n")


def xcp_d(folder, subject, values, *, atlas="4S156Parcels", extra="", relmat=True):
    func = folder / f"sub-{subject}" / "func"
    func.mkdir(parents=True, exist_ok=True)
    stem = f"sub-{subject}{extra}_task-rest_space-MNI152NLin2009cAsym_atlas-{atlas}"
    frame = pd.DataFrame(values, columns=NODES)
    frame.to_csv(func / f"{stem}_stat-mean_timeseries.tsv", sep="\t", index=False, na_rep="n/a")
    if relmat:
        path = func / f"{stem}_stat-pearsoncorrelation_relmat.tsv"
        frame.corr().to_csv(path, sep="\t", index_label="Node", na_rep="n/a")


def test_xcp_d(tmp_path, series):
    for name, values in series.items():
        xcp_d(tmp_path, name, values)
    participants(tmp_path)
    ds = rmixup.load(tmp_path, target="dx")
    assert ds.subjects.tolist() == ["sub-01", "sub-02"]
    assert ds.label_names().tolist() == ["control", "patient"]
    assert ds.nodes.tolist() == NODES
    np.testing.assert_array_equal(ds.series[1], series["02"])
    ds = rmixup.load(tmp_path, content="matrices")
    np.testing.assert_allclose(ds.matrices[0], np.corrcoef(series["01"].T), atol=1e-12)


def test_the_table_of_the_dataset_above_is_found(tmp_path, series):
    xcp_d(tmp_path / "derivatives" / "xcp_d", "01", series["01"])
    participants(tmp_path)
    assert rmixup.load(tmp_path / "derivatives" / "xcp_d", target="dx").label_names().tolist() == ["control"]


def test_parcels_without_coverage_stay_missing(tmp_path, series):
    values = series["01"].copy()
    values[:, 1] = np.nan
    xcp_d(tmp_path, "01", values)
    assert np.isnan(rmixup.load(tmp_path).series[0][:, 1]).all()
    assert np.isnan(rmixup.load(tmp_path, content="matrices").matrices[0][1]).all()


def test_atlases_are_chosen(tmp_path, series):
    for atlas in ("Gordon", "Glasser"):
        xcp_d(tmp_path, "01", series["01"] * len(atlas), atlas=atlas)
    with pytest.raises(DataError, match=r"several atlases .Glasser, Gordon.; choose one with --atlas Glasser"):
        rmixup.load(tmp_path)
    np.testing.assert_array_equal(rmixup.load(tmp_path, atlas="Gordon").series[0], series["01"] * 6)
    with pytest.raises(DataError, match="no scan has atlas-Tian; there are: Glasser, Gordon"):
        rmixup.load(tmp_path, atlas="Tian")


def test_scans_are_chosen_or_taken_together(tmp_path, series):
    xcp_d(tmp_path, "01", series["01"], extra="_ses-1")
    xcp_d(tmp_path, "01", series["02"] * 5, extra="_ses-2")
    participants(tmp_path)
    with pytest.raises(DataError, match=r"1 subjects have several scans \(sub-01 has 2, which differ in ses: 1, 2\)"):
        rmixup.load(tmp_path)
    np.testing.assert_array_equal(rmixup.load(tmp_path, entity="ses=2").series[0], series["02"] * 5)
    each = rmixup.load(tmp_path, runs="each", target="dx")
    assert each.subjects.tolist() == ["sub-01", "sub-01"]
    assert len(each.series) == 2
    together = rmixup.load(tmp_path, runs="concatenate").series[0]
    np.testing.assert_allclose([together[:30].std(axis=0), together[30:].std(axis=0)], 1.0)
    mean = rmixup.load(tmp_path, runs="average", content="matrices").matrices[0]
    expected = (np.corrcoef(series["01"].T) + np.corrcoef(series["02"].T)) / 2
    np.testing.assert_allclose(mean, expected, atol=1e-12)
    with pytest.raises(DataError, match="--runs average does not go with series"):
        rmixup.load(tmp_path, runs="average")
    with pytest.raises(DataError, match="--runs must be one of"):
        rmixup.load(tmp_path, runs="all")
    with pytest.raises(DataError, match="must be KEY=VALUE"):
        rmixup.load(tmp_path, entity=["ses"])


def test_two_scans_with_other_nodes_are_not_averaged(tmp_path, series):
    func = tmp_path / "sub-01" / "func"
    func.mkdir(parents=True)
    for run, values in (("1", series["01"]), ("2", series["02"][:, :2])):
        pd.DataFrame(values).to_csv(func / f"sub-01_run-{run}_timeseries.tsv", sep="\t", index=False, header=False)
    with pytest.raises(DataError, match="the scans of sub-01 have different nodes"):
        rmixup.load(tmp_path, runs="concatenate")


def test_giga_connectome_as_tsv(tmp_path, series):
    func = tmp_path / "sub-01" / "func"
    func.mkdir(parents=True)
    stem = "sub-01_task-rest_seg-Schaefer2018100Parcels7Networks"
    pd.DataFrame(series["01"]).to_csv(func / f"{stem}_desc-denoiseSimple_timeseries.tsv", sep="\t", index=False)
    (func / f"{stem}_desc-denoiseSimple_timeseries.json").write_text(json.dumps({"SamplingFrequency": 0.5}))
    matrix = pd.DataFrame(np.corrcoef(series["01"].T))
    matrix.to_csv(func / f"{stem}_meas-PearsonCorrelation_desc-denoiseSimple_relmat.tsv", sep="\t")
    ds = rmixup.load(tmp_path, content="matrices")
    np.testing.assert_allclose(ds.matrices[0], matrix, atol=1e-12)
    assert ds.nodes.tolist() == ["0", "1", "2"]


def giga_h5(path, series):
    with h5py.File(path, "w") as file:
        for name, values in series.items():
            group = file.create_group(f"sub-{name}/ses-1")
            stem = f"sub-{name}_ses-1_task-rest_atlas-Schaefer20187Networks_desc-3Parcels7Networks"
            group.create_dataset(f"{stem}_timeseries", data=values).attrs["RepetitionTime"] = 2.0
            group.create_dataset(f"{stem}_connectome", data=np.corrcoef(values.T))


def test_giga_connectome_as_h5(tmp_path, series):
    giga_h5(tmp_path / "atlas-Schaefer20187Networks_desc-simple.h5", series)
    participants(tmp_path)
    for path in (tmp_path, tmp_path / "atlas-Schaefer20187Networks_desc-simple.h5"):
        ds = rmixup.load(path, target="dx")
        assert ds.subjects.tolist() == ["sub-01", "sub-02"]
        np.testing.assert_array_equal(ds.series[1], series["02"])
        matrices = rmixup.load(path, content="matrices").matrices
        np.testing.assert_allclose(matrices[1], np.corrcoef(series["02"].T))
    assert ds.label_names().tolist() == ["control", "patient"]


def test_another_h5_is_refused(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["data/matrix"] = np.eye(3)
    with pytest.raises(FormatError, match=r"expected giga_connectome's .* found data/matrix"):
        rmixup.load(tmp_path / "x.h5")
    (tmp_path / "x.h5").write_bytes(b"no")
    with pytest.raises(FormatError, match="cannot be read as HDF5"):
        rmixup.load(tmp_path / "x.h5")


def parcels():
    voxels = [np.array([[k, 0, 0]]) for k in range(3)]
    return nibabel.cifti2.ParcelsAxis(NODES, voxels, [{} for _ in range(3)], np.eye(4), (4, 4, 4), {})


def test_cifti(tmp_path, series):
    for name, values in series.items():
        func = tmp_path / f"sub-{name}" / "func"
        func.mkdir(parents=True)
        stem = f"sub-{name}_task-rest_space-fsLR_seg-Gordon_den-91k_stat"
        axes = (nibabel.cifti2.SeriesAxis(0, 2, 30), parcels())
        nibabel.save(nibabel.Cifti2Image(values, axes), func / f"{stem}-mean_timeseries.ptseries.nii")
        image = nibabel.Cifti2Image(np.corrcoef(values.T), (parcels(), parcels()))
        nibabel.save(image, func / f"{stem}-pearsoncorrelation_boldmap.pconn.nii")
    ds = rmixup.load(tmp_path)
    assert ds.nodes.tolist() == NODES
    np.testing.assert_allclose(ds.series[1], series["02"], rtol=1e-6)
    matrices = rmixup.load(tmp_path, content="matrices").matrices
    np.testing.assert_allclose(matrices[0], np.corrcoef(series["01"].T), rtol=1e-6)


def test_damaged_and_dense_cifti_are_named(tmp_path):
    func = tmp_path / "sub-01" / "func"
    func.mkdir(parents=True)
    path = func / "sub-01_timeseries.ptseries.nii"
    path.write_bytes(b"no cifti")
    with pytest.raises(FormatError, match="cannot be read as CIFTI"):
        rmixup.load(tmp_path)
    axes = (nibabel.cifti2.SeriesAxis(0, 2, 4), nibabel.cifti2.ScalarAxis(["a", "b"]))
    nibabel.save(nibabel.Cifti2Image(np.zeros((4, 2)), axes), path)
    with pytest.raises(FormatError, match="has no parcels"):
        rmixup.load(tmp_path)


def a_ptseries(folder, frames=9):
    path = folder / "sub-01" / "func" / "sub-01_timeseries.ptseries.nii"
    path.parent.mkdir(parents=True)
    axes = (nibabel.cifti2.SeriesAxis(0, 2, frames), parcels())
    nibabel.save(nibabel.Cifti2Image(np.zeros((frames, 3)), axes), path)
    return path


def test_a_cifti_that_declares_more_than_its_file_holds_is_refused_before_memory_is_taken(tmp_path, monkeypatch):
    path = a_ptseries(tmp_path, frames=2000)
    path.write_bytes(path.read_bytes()[:-40_000])
    monkeypatch.setattr(nibabel.Cifti2Image, "get_fdata", lambda image: pytest.fail("memory was taken"))
    with pytest.raises(FormatError, match=r"its header declares 48000 bytes \(shape \(1, 1, 1, 1, 2000, 3\)\)"):
        rmixup.load(tmp_path)


@pytest.mark.parametrize("frames", [10, 1 << 40])
def test_a_cifti_of_another_shape_than_it_says_is_refused_in_one_line(tmp_path, capfd, frames):
    path = a_ptseries(tmp_path)
    whole = bytearray(path.read_bytes())
    at = 16 + 8 * 5  # NIfTI-2: eight sizes of 8 bytes from byte 16 on, of which the sixth counts the frames
    assert int.from_bytes(whole[at : at + 8], "little") == 9
    whole[at : at + 8] = frames.to_bytes(8, "little")
    whole[344:352] = b"\xff" * 8  # codes of coordinate systems that do not exist, of which nibabel complains in lines
    path.write_bytes(whole)
    with pytest.raises(FormatError, match=rf"cannot be read as CIFTI \(Dataobj shape \({frames}, 3\) does not match"):
        rmixup.load(tmp_path)
    assert capfd.readouterr().err == ""


def fmriprep(folder, subject, signals, seed=0):
    """An image whose regions carry known signals plus a drift that its confounds explain."""
    func = folder / f"sub-{subject}" / "func"
    func.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    t, n = signals.shape
    names = ["trans_x", "trans_y", "trans_z", "rot_x", "rot_y", "rot_z"]
    motion = rng.normal(size=(t, 6))
    confounds = pd.DataFrame(motion, columns=names)
    for name in names:
        for suffix in ("_derivative1", "_power2", "_derivative1_power2"):
            confounds[name + suffix] = rng.normal(size=t)
    for name in ("csf", "white_matter", "global_signal", "cosine00"):
        confounds[name] = rng.normal(size=t)
    stem = f"sub-{subject}_task-rest"
    confounds.to_csv(func / f"{stem}_desc-confounds_timeseries.tsv", sep="\t", index=False)
    (func / f"{stem}_desc-confounds_timeseries.json").write_text("{}")
    data = np.zeros((n, 2, 2, t), dtype=np.float64)
    data += 100 + signals.T[:, None, None, :]
    image = nibabel.Nifti1Image(data, np.eye(4))
    image.header.set_zooms((1, 1, 1, 2.0))
    nibabel.save(image, func / f"{stem}_space-MNI152NLin2009cAsym_desc-preproc_bold.nii.gz")
    labels = np.zeros((n, 2, 2), dtype=np.int32)
    labels += np.arange(1, n + 1, dtype=np.int32)[:, None, None]
    nibabel.save(nibabel.Nifti1Image(labels, np.eye(4)), folder / "atlas.nii.gz")


def test_fmriprep_with_an_atlas_agrees_with_nilearn(tmp_path, series):
    from nilearn.interfaces.fmriprep import load_confounds_strategy
    from nilearn.maskers import NiftiLabelsMasker

    for name, values in series.items():
        fmriprep(tmp_path, name, np.tile(values, (2, 1)))
    participants(tmp_path)
    atlas = tmp_path / "atlas.nii.gz"
    ds = rmixup.load(tmp_path, atlas_image=atlas, target="dx")
    assert ds.subjects.tolist() == ["sub-01", "sub-02"]
    image = str(next((tmp_path / "sub-02" / "func").glob("*bold.nii.gz")))
    confounds, kept = load_confounds_strategy(image, denoise_strategy="simple")
    masker = NiftiLabelsMasker(str(atlas), standardize=None)
    expected = masker.fit_transform(image, confounds=confounds, sample_mask=kept)
    np.testing.assert_allclose(ds.series[1], expected, atol=1e-8)
    raw = rmixup.load(tmp_path, atlas_image=atlas, confounds="none").series[1]
    np.testing.assert_allclose(raw, 100 + np.tile(series["02"], (2, 1)), atol=1e-4)


def test_images_need_an_atlas_and_their_confounds(tmp_path, series):
    fmriprep(tmp_path, "01", np.tile(series["01"], (2, 1)))
    with pytest.raises(DataError, match="name a parcellation with --atlas-image"):
        rmixup.load(tmp_path)
    next((tmp_path / "sub-01" / "func").glob("*timeseries.tsv")).unlink()
    with pytest.raises(FormatError, match=r"cannot be taken .* choose with --confounds, or none"):
        rmixup.load(tmp_path, atlas_image=tmp_path / "atlas.nii.gz")
