"""Gene expression: features without labels, groups without leaks."""

import gzip

import anndata
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rmixup
from rmixup.data.readers.expression import Grouping, families_of
from rmixup.errors import DataError, FormatError


def cohort(per_class=40, features=12, seed=0):
    """Samples of two types with their table; every fifth patient of each type has two samples."""
    rng = np.random.default_rng(seed)
    names = [f"S{k:03d}" for k in range(2 * per_class)]
    spread = np.linspace(3, 0.5, features)
    values = pd.DataFrame(10 + rng.normal(size=(len(names), features)) * spread, index=names)
    values.columns = [f"g{k}" for k in range(features)]
    patients = [f"P{k - 1 if k % 5 == 4 else k}" for k in range(len(names))]
    table = pd.DataFrame({"sample": names, "patient": patients, "type": ["A"] * per_class + ["B"] * per_class})
    return values, table


@pytest.fixture
def files(tmp_path):
    values, table = cohort()
    values.to_csv(tmp_path / "expression.tsv.gz", sep="\t", index_label="sample")
    table.sample(frac=1, random_state=0).to_csv(tmp_path / "labels.csv", index=False)
    return tmp_path, values, table


def load(folder, name="expression.tsv.gz", **options):
    given = {"labels": folder / "labels.csv", "target": "type", "top_k": 5, "per_network": 10} | options
    return rmixup.load(folder / name, **given)


def test_a_network_is_the_correlation_over_its_samples(files):
    folder, values, table = files
    ds = load(folder)
    assert ds.nodes.tolist() == values.var().nlargest(5).index.tolist()
    for row in range(len(ds)):
        samples = ds.table["samples"].iloc[row].split()
        block = values.loc[samples, ds.nodes.tolist()].to_numpy()
        np.testing.assert_allclose(ds.matrices[row], np.corrcoef(block.T), atol=1e-12)
        np.testing.assert_array_equal(ds.series[row], block)
        assert set(table.set_index("sample").loc[samples, "type"]) == {ds.label_names()[row]}
    recorded = {step["step"]: step["parameters"] for step in ds.provenance.steps}
    assert recorded["features"]["names"] == ds.nodes.tolist()
    assert recorded["group samples"]["patient_column"] == "patient"


def test_no_sample_and_no_patient_is_in_two_networks_that_a_split_may_part(files):
    folder, _, table = files
    owner = table.set_index("sample")["patient"]
    for options in ({}, {"bootstrap": True, "pools": 4, "networks_per_class": 12}):
        ds = load(folder, **options)
        family_of = {}
        for family, samples in zip(ds.families, ds.table["samples"], strict=True):
            for sample in samples.split():
                assert family_of.setdefault(owner[sample], family) == family
        train, val, test = ds.split(seed=0, sizes=(0.5, 0.25, 0.25))
        used = [{s for text in part.table["samples"] for s in text.split()} for part in (train, val, test)]
        assert not used[0] & used[1]
        assert not used[0] & used[2]
        assert not used[1] & used[2]


def test_disjoint_groups_share_no_sample_and_have_the_size_asked_for(files):
    folder, _, _ = files
    ds = load(folder, per_network=8, networks_per_class=3)
    samples = [text.split() for text in ds.table["samples"]]
    assert [len(own) for own in samples] == [8] * 6
    assert len({name for own in samples for name in own}) == 48
    assert (np.bincount(ds.y) == 3).all()


def test_bootstrapped_networks_are_drawn_within_pools(files):
    folder, _, _ = files
    ds = load(folder, bootstrap=True, pools=4, networks_per_class=12, per_network=20)
    assert (np.bincount(ds.y) == 12).all()
    pools = {}
    for pool, text in zip(ds.table["pool"], ds.table["samples"], strict=True):
        assert len(text.split()) == 20
        pools.setdefault(pool, set()).update(text.split())
    assert len(pools) == 8
    assert sum(map(len, pools.values())) == len(set().union(*pools.values()))


def test_the_seed_decides_and_the_order_of_the_file_does_not(files):
    folder, values, _ = files
    ds = load(folder, seed=3)
    values.sample(frac=1, random_state=1).to_csv(folder / "shuffled.tsv", sep="\t", index_label="sample")
    again = load(folder, "shuffled.tsv", seed=3)
    assert ds.table["samples"].tolist() == again.table["samples"].tolist()
    np.testing.assert_allclose(ds.matrices, again.matrices, atol=1e-12)
    assert load(folder, seed=4).table["samples"].tolist() != ds.table["samples"].tolist()


def test_features_are_chosen_without_labels(files):
    folder, _, table = files
    before = load(folder).nodes.tolist()
    table.assign(type=np.random.default_rng(5).permutation(table["type"])).to_csv(folder / "labels.csv", index=False)
    assert load(folder).nodes.tolist() == before


def test_every_kind_of_file_gives_the_same(files):
    folder, values, table = files
    expected = load(folder)
    values.to_csv(folder / "e.csv", index_label="sample")
    values.T.to_csv(folder / "t.tsv", sep="\t")
    values.to_parquet(folder / "e.parquet")
    values.reset_index().to_parquet(folder / "i.parquet", index=False)
    observed = table.set_index("sample")[["patient", "type"]]
    adata = anndata.AnnData(values.to_numpy(), obs=observed, var=pd.DataFrame(index=values.columns))
    adata.write_h5ad(folder / "e.h5ad")
    for name, options in (
        ("e.csv", {}),
        ("t.tsv", {"transpose": True}),
        ("e.parquet", {}),
        ("i.parquet", {}),
        ("e.h5ad", {}),
        ("e.h5ad", {"labels": None}),
    ):
        ds = load(folder, name, **options)
        assert ds.nodes.tolist() == expected.nodes.tolist()
        np.testing.assert_allclose(ds.matrices, expected.matrices, atol=1e-10)


def test_sparse_h5ad(tmp_path):
    import scipy.sparse

    values, table = cohort()
    observed = table.set_index("sample")[["patient", "type"]]
    variables = pd.DataFrame(index=values.columns)
    anndata.AnnData(scipy.sparse.csr_matrix(values.to_numpy()), obs=observed, var=variables).write_h5ad(
        tmp_path / "e.h5ad"
    )
    ds = load(tmp_path, "e.h5ad", labels=None)
    samples = ds.table["samples"].iloc[0].split()
    np.testing.assert_allclose(ds.matrices[0], np.corrcoef(values.loc[samples, ds.nodes.tolist()].T), atol=1e-10)


def test_features_that_are_rarely_detected_make_edges_undefined_and_the_remedy_works(files):
    folder, values, _ = files
    values["rare"] = 0.0
    values.iloc[::25, -1] = 100.0
    values.to_csv(folder / "rare.tsv", sep="\t", index_label="sample")
    with pytest.raises(DataError, match=r"nodes that do not vary.*nodes rare.*--min-detect"):
        load(folder, "rare.tsv")
    assert "rare" not in load(folder, "rare.tsv", min_detect=0.5).nodes.tolist()
    fewer = load(folder, "rare.tsv", drop_subjects="undefined")
    assert 0 < len(fewer) < 7
    assert "rare" in fewer.nodes.tolist()
    with pytest.raises(DataError, match=r"0 of 13 features are above 0|12 of 13 features are above 0"):
        load(folder, "rare.tsv", min_detect=0.9, top_k=13)


def test_ranking_by_relative_spread(files):
    folder, values, _ = files
    values["small"] = np.abs(np.random.default_rng(0).normal(size=len(values))) * 0.01
    values.to_csv(folder / "v.tsv", sep="\t", index_label="sample")
    assert load(folder, "v.tsv", rank_by="variation").nodes[0] == "small"
    assert "small" not in load(folder, "v.tsv").nodes.tolist()


def test_unnamed_and_repeated_features_get_names(tmp_path):
    values, table = cohort()
    values.columns = ["", "", "TP53", "TP53", *values.columns[4:]]
    values.to_csv(tmp_path / "e.tsv", sep="\t", index_label="sample")
    table.to_csv(tmp_path / "labels.csv", index=False)
    assert {"feature-1", "feature-2", "TP53", "TP53.1"} <= set(load(tmp_path, "e.tsv", top_k=11).nodes.tolist())


def test_samples_are_chosen_and_small_classes_left_out_on_request_only(files):
    folder, _, table = files
    table.assign(kind=["primary", "metastasis"] * 40).to_csv(folder / "labels.csv", index=False)
    ds = load(folder, sample_where="kind=primary", per_network=5)
    chosen = set(table["sample"][::2])
    assert {s for text in ds.table["samples"] for s in text.split()} <= chosen
    table.assign(type=["A"] * 75 + ["C"] * 5).to_csv(folder / "labels.csv", index=False)
    with pytest.raises(DataError, match=r"1 of 2 classes have too few samples for 1 networks of 10 \(C\)"):
        load(folder)
    assert load(folder, drop_small_classes=True).classes == ("A",)
    with pytest.raises(DataError, match="2 of 2 classes"):
        load(folder, per_network=79, drop_small_classes=True)
    with pytest.raises(DataError, match="too few samples"):
        load(folder, bootstrap=True, pools=30)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"target": None}, "name the column of classes with --target"),
        ({"top_k": 1}, "top_k >= 2"),
        ({"rank_by": "p-value"}, "rank_by variance or variation"),
        ({"labels": None}, "name the table with the samples' classes with --labels"),
        ({"target": "absent"}, "no column is named 'absent'"),
        ({"patient_column": "absent"}, "no column is named 'absent'"),
        ({"sample_where": "type"}, "must be COLUMN=VALUE"),
        ({"sample_where": "type=Z"}, "true of some samples"),
        ({"transpose": True}, "the samples stand in the columns, not in the rows; change --transpose"),
    ],
)
def test_what_is_asked_for_must_make_sense(files, options, said):
    with pytest.raises(DataError, match=said):
        load(files[0], **options)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the file is empty"),
        ("sample\ta\tb\ns1\t1\t2\ns2\t1\tx\ns3\t1\t2\n", "line 3, column 'b': expected a number, found 'x'"),
        ("sample\ta\tb\ns1\t1\t2\ns2\t1\t\ns3\t1\t2\n", "sample s2, feature 'b': expected a number, found nothing"),
        ("sample\ta\tb\ns1\t1\t2\ns2\t1\t2\t3\t4\n", "cannot be read as a table"),
        ("sample\ta\tb\ns1\t1\t2\ns1\t1\t3\ns3\t1\t2\n", "samples or more with different ids"),
    ],
)
def test_damaged_tables_are_named(tmp_path, text, said):
    (tmp_path / "e.tsv").write_text(text)
    (tmp_path / "labels.csv").write_text("sample,type\ns1,a\ns2,b\n")
    with pytest.raises(FormatError, match=said) as caught:
        load(tmp_path, "e.tsv", top_k=2)
    assert "e.tsv" in str(caught.value)


def test_damaged_binary_tables_are_named(files):
    folder, _, _ = files
    whole = (folder / "expression.tsv.gz").read_bytes()
    (folder / "expression.tsv.gz").write_bytes(whole[: len(whole) // 2])
    (folder / "e.parquet").write_bytes(b"PAR1")
    (folder / "e.h5ad").write_bytes(b"no")
    for name, said in (("expression.tsv.gz", "cut off"), ("e.parquet", "as Parquet"), ("e.h5ad", "as HDF5")):
        with pytest.raises(FormatError, match=said):
            load(folder, name)
    (folder / "expression.tsv.gz").write_bytes(gzip.compress(b"no table")[4:])
    with pytest.raises(FormatError, match="cut off or damaged"):
        load(folder)


@given(
    owners=st.lists(st.integers(0, 12), min_size=12, max_size=40),
    labels=st.data(),
    size=st.integers(3, 6),
    pools=st.sampled_from([None, 1, 2]),
    seed=st.integers(0, 5),
)
def test_families_hold_everything_that_shares_a_patient(owners, labels, size, pools, seed):
    names = [f"s{k}" for k in range(len(owners))]
    classes = pd.Series(
        labels.draw(st.lists(st.sampled_from("ab"), min_size=len(names), max_size=len(names))), index=names
    )
    patients = pd.Series([f"p{k}" for k in owners], index=names)
    grouping = Grouping(size, None, pools, seed)
    try:
        groups = grouping.of(classes, patients, "labels.csv", drop_small=True)
    except DataError:
        return
    family = families_of(groups, patients)
    for one in groups:
        assert len(one.samples) == size
        assert pools is not None or len(set(one.samples)) == size
        for two in groups:
            shared = {patients[s] for s in one.samples} & {patients[s] for s in two.samples}
            if shared or one.pool == two.pool:
                assert family[one.name] == family[two.name]
            if pools is None and one.name != two.name:
                assert not set(one.samples) & set(two.samples)


@pytest.mark.real
def test_real_tcga(real_data):
    folder = real_data / "tcga"
    given = {
        "labels": folder / "mirna_labels.csv",
        "target": "cancer_type",
        "per_network": 14,
        "networks_per_class": 10,
    }
    with pytest.raises(DataError, match=r"nodes that do not vary.*--min-detect"):
        rmixup.load(folder / "mirna.tsv.gz", **given, drop_small_classes=True)
    ds = rmixup.load(folder / "mirna.tsv.gz", **given, drop_small_classes=True, min_detect=0.98)
    assert ds.n_nodes == 50
    assert len(ds) == 10 * len(ds.classes)
    assert len(ds.classes) == 24
    assert np.isfinite(ds.matrices).all()


@pytest.mark.parametrize("line", [b"0" * 4096, b"0\t" * 2048 + b"\n"])
def test_a_compressed_table_that_unpacks_without_end_is_refused(tmp_path, monkeypatch, line):
    monkeypatch.setattr("rmixup.data.readers.expression.BOMB_BYTES", 1 << 20)
    (tmp_path / "labels.csv").write_text("sample,type\na,x\n")
    (tmp_path / "x.tsv.gz").write_bytes(gzip.compress(line * 1000))
    with pytest.raises(FormatError, match="unpacks to more than 100 times its size"):
        load(tmp_path, "x.tsv.gz")
