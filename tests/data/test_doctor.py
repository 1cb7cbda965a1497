"""The doctor: each finding is found where it is, not where it is not, with the right people, numbers and JSON."""

import json
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from scipy.stats import f_oneway
from scipy.stats.contingency import association
from sklearn.metrics import roc_auc_score

from rmixup import Networks, check, load, simulate
from rmixup.data import store
from rmixup.data.doctor import FINDINGS, concerned
from rmixup.data.doctor.finding import Finding
from rmixup.data.doctor.people import MOTION_COLUMN, correlation_ratio, cramers_v, with_label
from rmixup.errors import DataError
from rmixup.keys import generator

N, n, T = 60, 8, 80


def healthy(**more):
    """60 people of two classes at two sites, nothing wrong with them."""
    return simulate(n_subjects=N, n_nodes=n, n_frames=T, n_sites=2, seed=3, **more)


def found(ds):
    return {finding.code: finding for finding in check(ds).findings}


def rebuilt(ds, **changes):
    """The same data set from its parts, some of them changed; matrices alone unless series are given."""
    parts = {
        "matrices": ds.matrices, "y": ds.label_names(), "subjects": ds.subjects, "groups": ds.groups,
        "nodes": ds.nodes, "table": ds.table, "target": ds.target, "series": None if ds.has_matrices else ds.series,
    }  # fmt: skip
    return Networks(**{**parts, **changes})


def with_matrices(change, rows=slice(None)):
    """A data set whose matrices, in these rows, went through `change`."""
    ds = healthy()
    matrices = np.array(ds.matrices)
    matrices[rows] = change(matrices[rows])
    return rebuilt(ds, matrices=matrices)


def with_series(change, rows=slice(None)):
    ds = healthy()
    series = [change(np.array(x)) if k in range(N)[rows] else x for k, x in enumerate(ds.series)]
    return rebuilt(ds, matrices=None, series=series)


def put(index, value):
    def change(x):
        x = np.array(x)
        x[index] = value
        return x

    return change


def diagonal(value):
    return lambda x: x * (1 - np.eye(n)) + value * np.eye(n)


def fisher(x):
    with np.errstate(divide="ignore"):
        return np.arctanh(x)


def small_fisher(x):
    """Correlations within ±0.75 that are singular, so that arctanh makes them indefinite, its values within ±1."""
    rng = generator(0, "small fisher")
    z = [np.corrcoef(rng.normal(size=(n, n - 2)) + 1.2 * rng.normal(size=n - 2)) for _ in x]
    z = [c for c in z if np.abs(c - np.eye(n)).max() < np.tanh(1)]
    return diagonal(0.0)(fisher(np.resize(np.clip(z, -0.99, 0.99), x.shape)))


def cut(t):
    return lambda x: x[:t]


def labelled(y, **changes):
    return rebuilt(healthy(), y=y, **changes)


def site_label(agreement):
    ds = healthy()
    same = generator(0, "agreement").random(N) < agreement
    return rebuilt(ds, y=np.where(same == (ds.groups == "site-1"), "a", "b"))


def twin_nodes(x):
    x[:, 1] = 3 * x[:, 0] + 1
    return x


def length_by(key):
    ds = healthy()
    short = ds.groups == "site-1" if key == "site" else ds.y == 1
    series = [x[: 60 + 10 * bool(cut_it)] for x, cut_it in zip(ds.series, short, strict=True)]
    return rebuilt(ds, matrices=None, series=series)


def moving(column="func_mean_fd"):
    ds = healthy()
    return rebuilt(ds, table=ds.table.assign(**{column: ds.y + generator(0, "motion").normal(size=N)}))


def twice():
    ds = healthy()
    return rebuilt(ds, subjects=[*ds.subjects[:-1], ds.subjects[0]], table=None)


def copied():
    ds = healthy()
    matrices = np.array(ds.matrices)
    matrices[7] = matrices[3]
    return rebuilt(ds, matrices=matrices)


def joined(drop_row, drop_network):
    ds = rebuilt(healthy(), table=None)
    table = pd.DataFrame({"age": 1.0}, index=ds.subjects)
    return ds[np.arange(N) != drop_network].join(table.drop(index=ds.subjects[drop_row]), missing="drop")


def reordered():
    """Two of 40 people with their nodes in another order."""
    ds = simulate(n_subjects=40, n_nodes=30, n_frames=100)
    order = generator(5, "order").permutation(30)
    matrices = np.array(ds.matrices)
    matrices[:2] = matrices[:2, order][:, :, order]
    return rebuilt(ds, matrices=matrices)


def rootless(x):
    """Fisher's z of a correlation, diagonal 0, some edges beyond 1."""
    return diagonal(0.0)(2 * fisher(x * (1 - np.eye(n))))


def nearly_one(x):
    return np.broadcast_to(1e-5 * np.eye(n) + (1 - 1e-5) * np.ones((n, n)), x.shape)


ALL, FIRST = slice(None), slice(0, 1)
# code -> a data set that has it, its severity, how many subjects and nodes are concerned.
SICK = {
    "non-finite": (lambda: with_matrices(put((..., 0, 1), np.nan), FIRST), "error", 1, 0),
    "constant-node": (lambda: with_series(put((..., slice(2, 4)), 5.0), slice(0, 3)), "error", 3, 2),
    "too-few-frames": (lambda: with_series(cut(2), FIRST), "error", 1, 0),
    "asymmetric": (lambda: with_matrices(put((..., 0, 1), 0.9), slice(4, 6)), "error", 2, 0),
    "looks-like-fisher-z": (lambda: with_matrices(rootless), "error", N, 0),
    "wrong-diagonal": (lambda: with_matrices(diagonal(-1.0), FIRST), "error", 1, 0),
    "out-of-range": (lambda: with_matrices(lambda x: diagonal(1.0)(x * 4), FIRST), "error", 1, 0),
    "covariance-given-as-correlation": (lambda: with_matrices(lambda x: x * 2.5), "warning", N, 0),
    "indefinite": (lambda: with_matrices(lambda x: diagonal(1.0)(-np.abs(x)), FIRST), "warning", 1, 0),
    "rank-deficient": (lambda: with_series(cut(n), slice(0, 5)), "warning", 5, 0),
    "near-singular": (lambda: with_matrices(nearly_one, FIRST), "warning", 1, 0),
    "spdness": (lambda: with_series(cut(n), slice(0, 5)), "info", 5, 0),
    "identical-nodes": (lambda: with_series(twin_nodes), "warning", 0, 2),
    "node-order": (reordered, "warning", 2, 0),
    "duplicate-subjects": (twice, "warning", 1, 0),
    "identical-matrices": (copied, "error", 2, 0),
    "no-labels": (lambda: labelled(None), "warning", 0, 0),
    "missing-labels": (lambda: joined(4, 5), "info", 1, 0),
    "extra-labels": (lambda: joined(4, 5), "info", 1, 0),
    "single-class": (lambda: labelled(["a"] * N), "error", 0, 0),
    "rare-class": (lambda: labelled(["a"] * (N - 4) + ["b"] * 4), "warning", 4, 0),
    "label-confounded-with-site": (lambda: site_label(0.9), "warning", 0, 0),
    "one-class-site": (lambda: site_label(1.0), "warning", N, 0),
    "length-tells-site": (lambda: length_by("site"), "warning", 0, 0),
    "length-tells-label": (lambda: length_by("label"), "warning", 0, 0),
    "motion-confounded": (moving, "warning", 0, 0),
}  # fmt: skip
# code -> near misses: data sets that look alike and do not have it.
WELL = {
    "non-finite": lambda: with_series(lambda x: x),
    "constant-node": lambda: with_series(lambda x: x * 1e-9 + 1.0, FIRST),
    "too-few-frames": lambda: with_series(cut(3), FIRST),
    "asymmetric": lambda: with_matrices(put((..., 0, 1), np.nan), FIRST),
    "looks-like-fisher-z": lambda: with_matrices(diagonal(0.0)),
    "wrong-diagonal": lambda: with_matrices(lambda x: x * 2.5),
    "out-of-range": lambda: with_matrices(lambda x: x * 2.5),
    "covariance-given-as-correlation": lambda: healthy().connectivity("covariance"),
    "indefinite": lambda: with_series(cut(n)),
    "rank-deficient": lambda: with_series(cut(2 * n)),
    "near-singular": lambda: with_series(cut(n)),
    "spdness": lambda: with_series(cut(2 * n)),
    "identical-nodes": lambda: with_matrices(lambda x: diagonal(1.0)(0.999 * np.sign(x))),
    "node-order": lambda: with_matrices(lambda x: 0.1 * x + 0.9 * np.eye(n), slice(0, 2)),
    "duplicate-subjects": copied,
    "identical-matrices": twice,
    "no-labels": lambda: labelled(["a"] * N),
    "missing-labels": lambda: labelled(None),
    "extra-labels": lambda: labelled(None),
    "single-class": lambda: labelled(["a"] * (N - 1) + ["b"]),
    "rare-class": lambda: labelled(["a"] * (N - 10) + ["b"] * 10),
    "label-confounded-with-site": lambda: site_label(0.5),
    "one-class-site": lambda: site_label(0.9),
    "length-tells-site": lambda: length_by("label"),
    "length-tells-label": lambda: length_by("site"),
    "motion-confounded": lambda: moving("emotion_score"),
}


def test_every_finding_is_tried_both_ways():
    assert set(SICK) == set(WELL) == set(FINDINGS)


def test_a_healthy_data_set_has_no_findings():
    report = check(healthy())
    assert report.findings == []
    assert report.ok
    assert str(report) == "60 networks of 8 nodes: nothing found\nReady: split it, train on it."


@pytest.mark.parametrize("code", FINDINGS)
def test_each_finding_is_found_where_it_is(code):
    make, severity, subjects, nodes = SICK[code]
    finding = found(make())[code]
    assert finding.severity == severity
    assert (len(finding.subjects), len(finding.nodes)) == (subjects, nodes)
    assert len(finding.message) > 20
    assert len(finding.remedy) > 20


@pytest.mark.parametrize("code", FINDINGS)
def test_each_finding_is_not_found_in_a_near_miss(code):
    assert code not in found(WELL[code]())


# --- kinds of matrices, told apart


@pytest.mark.parametrize("change", [rootless, small_fisher, fisher])
def test_fisher_z_is_told_from_other_diagonals(change):
    codes = set(found(with_matrices(change)))
    assert "looks-like-fisher-z" in codes
    assert not codes & {
        "wrong-diagonal",
        "out-of-range",
        "covariance-given-as-correlation",
        "non-finite",
        "identical-nodes",
    }


def test_fisher_z_within_one_is_recognised_by_its_eigenvalues():
    ds = with_matrices(small_fisher)
    assert np.abs(ds.matrices).max() < 1
    message = found(ds)["looks-like-fisher-z"].message
    share = 100 * (np.linalg.eigvalsh(ds.matrices) <= 0).mean()
    assert f"{share:.0f} % of their eigenvalues are not positive" in message


def test_fisher_z_as_the_field_has_it():
    """Zero diagonal, values above 1, most eigenvalues not positive: the field's common ABIDE file."""
    ds = simulate(n_subjects=20, n_nodes=60, n_frames=120)
    z = fisher(np.array(ds.matrices) * (1 - np.eye(60)))
    finding = found(Networks(z, ds.y, subjects=ds.subjects))["looks-like-fisher-z"]
    assert "80 % of their eigenvalues" in finding.message
    assert finding.subjects == ds.subjects.tolist()
    assert "--from-fisher-z" in finding.remedy


def test_a_large_constant_diagonal_is_fisher_z_unless_edges_are_as_large():
    assert "looks-like-fisher-z" in found(with_matrices(lambda x: diagonal(18.4)(fisher(x * 0.9))))
    assert set(found(with_matrices(lambda x: 80.0 * x))) == {"covariance-given-as-correlation"}


def test_an_overwritten_diagonal_of_correlations_is_wrong_and_nothing_else():
    assert set(found(with_matrices(diagonal(0.0)))) == {"wrong-diagonal"}


def test_nan_rows_are_named_as_constant_nodes_would_leave_them():
    ds = with_matrices(lambda x: put((..., slice(None), 2), np.nan)(put((..., 2, slice(None)), np.nan)(x)), slice(0, 3))
    finding = found(ds)["non-finite"]
    assert finding.nodes == [ds.nodes[2]]
    assert finding.subjects == ds.subjects[:3].tolist()
    assert f"{3 * (n - 1)} of {N * n * (n - 1) // 2} edges are undefined" in finding.message
    one = found(with_matrices(put((..., 1, 0), np.inf), FIRST))["non-finite"]
    assert one.nodes == []
    assert "1 of 1680 edges" in one.message


def test_nan_in_a_series_is_one_error_and_others_are_still_judged():
    findings = found(with_series(put((3, 2), np.nan), slice(0, 2)))
    assert set(findings) == {"non-finite"}
    assert len(findings["non-finite"].subjects) == 2
    assert len(findings["non-finite"].nodes) == 1


@pytest.mark.parametrize("t", [0, 1, 2])
def test_series_too_short_for_everybody_are_one_error(t):
    report = check(rebuilt(healthy(), matrices=None, series=[x[:t] for x in healthy().series]))
    errors = {finding.code for finding in report.findings if finding.severity == "error"}
    assert errors - {"identical-matrices", "constant-node"} == {"too-few-frames"}
    assert not report.scan.known.any()


def test_an_isolated_node_in_a_matrix_is_reported():
    x = with_matrices(lambda x: np.where(np.eye(n), 1.0, put((..., 0), 0.0)(put((..., 0, slice(None)), 0.0)(x))), FIRST)
    finding = found(x)["constant-node"]
    assert finding.nodes == [x.nodes[0]]
    assert "no edge but zeros" in finding.message


def test_ranks_agree_with_numpy_and_bound_is_stated():
    ds = with_series(cut(6))
    ranks = np.linalg.matrix_rank(ds.connectivity().matrices, hermitian=True)
    assert set(ranks) == {5}
    message = found(ds)["rank-deficient"].message
    assert "rank 5 of 8" in message
    assert "60 have t ≤ n (t = 6, n = 8)" in message
    assert "t ≥ n + 1 = 9" in message
    alone = found(rebuilt(ds, matrices=ds.connectivity().matrices, series=None))["rank-deficient"].message
    assert "rank 5 of 8" in alone
    assert "have t" not in alone


def test_confound_regression_costs_rank_although_t_exceeds_n():
    def regress(x):
        confounds = generator(0, "confounds").normal(size=(12, 6))
        x = x[:12] - x[:12].mean(0)
        return x - confounds @ np.linalg.pinv(confounds) @ x

    message = found(with_series(regress))["rank-deficient"].message
    assert f"{N} in spite of t > n" in message


def test_a_recorded_regulariser_cures_the_rank():
    singular = with_series(cut(6)).connectivity()
    assert "rank-deficient" in found(singular)
    for regularizer in ("shrink=0.05", "floor=1e-5"):
        assert "rank-deficient" not in found(singular.regularize(regularizer))


def test_spdness_is_the_mean_share_of_positive_eigenvalues():
    ds = with_series(cut(6))
    mean = (np.linalg.eigvalsh(ds.connectivity().matrices) > 1e-6).mean()
    assert f"mean SPD-ness is {mean:.4f}" in found(ds)["spdness"].message


def test_float32_is_judged_by_its_own_rounding():
    ds = healthy()
    matrices = np.array(ds.matrices, dtype=np.float32)
    matrices[:, 0, 1] += 1e-5
    assert "asymmetric" not in found(rebuilt(ds, matrices=matrices))
    assert "asymmetric" in found(rebuilt(ds, matrices=matrices.astype(float)))


def test_absurd_values_are_findings_and_not_warnings():
    codes = found(with_matrices(lambda x: x * 1e200, FIRST))
    assert codes["covariance-given-as-correlation"].subjects == healthy().subjects[:1].tolist()
    assert "out-of-range" in found(with_matrices(lambda x: diagonal(1.0)(x * 1e300), FIRST))


def test_identical_series_are_found_without_matrices():
    ds = healthy()
    series = [*ds.series[:-1], ds.series[0]]
    finding = found(rebuilt(ds, matrices=None, series=series))["identical-matrices"]
    assert finding.subjects == [ds.subjects[0], ds.subjects[-1]]


def test_the_same_scan_twice_of_one_subject_is_no_second_name():
    ds = copied()
    subjects = ds.subjects.tolist()
    subjects[7] = subjects[3]
    codes = found(rebuilt(ds, subjects=subjects, table=None))
    assert "duplicate-subjects" in codes
    assert "identical-matrices" not in codes


# --- labels and what tells them


def test_people_without_label_and_rows_without_network_are_named():
    ds = joined(4, 5)
    findings = found(ds)
    names = healthy().subjects
    assert findings["missing-labels"].subjects == [names[4]]
    assert findings["extra-labels"].subjects == [names[5]]


def test_columns_to_choose_from_are_named_when_there_is_no_label():
    assert "class, site, age, sex, mean_fd" in found(labelled(None))["no-labels"].remedy
    assert "--labels" in found(labelled(None, table=None))["no-labels"].remedy


def test_a_constant_score_has_nothing_to_tell_apart():
    assert "single-class" in found(labelled(np.full(N, 1.5)))
    scores = np.stack([np.full(N, 1.5), generator(0, "y").normal(size=N)], axis=1)
    assert "single-class" in found(labelled(scores, target=None))
    assert "single-class" not in found(labelled(scores[:, 1]))


def test_scores_are_confounded_too():
    ds = healthy()
    noise = generator(0, "noise").normal(size=N)
    score = (ds.groups == "site-1") + noise
    table = ds.table.assign(mean_fd=noise)
    series = [x[: 50 + int(5 * s)] for x, s in zip(ds.series, noise, strict=True)]
    findings = found(rebuilt(ds, y=score, matrices=None, series=series, table=table))
    assert {"label-confounded-with-site", "motion-confounded", "length-tells-label"} <= set(findings)
    assert "Spearman" in findings["motion-confounded"].message
    assert "correlation ratio" in findings["label-confounded-with-site"].message
    both = np.stack([noise[::-1], score], axis=1)
    assert "label-confounded-with-site" in found(rebuilt(ds, y=both, target=None))


def test_three_classes_are_told_by_motion():
    ds = healthy()
    y = np.arange(N) % 3
    table = ds.table.assign(mean_fd=y + generator(0, "m").normal(size=N))
    message = found(rebuilt(ds, y=y, table=table))["motion-confounded"].message
    assert "correlation ratio" in message


def test_motion_says_in_whom_it_is_higher():
    message = found(moving())["motion-confounded"].message
    assert "higher where class is class-2" in message
    ds = moving()
    auroc = roc_auc_score(ds.y, ds.table["func_mean_fd"])
    assert f"AUROC {auroc:.2f}" in message


@pytest.mark.parametrize(
    "name", ["func_mean_fd", "mean_fd", "meanFD", "fd_mean", "framewise_displacement", "motion", "mean_motion"]
)
def test_motion_columns_are_recognised(name):
    assert MOTION_COLUMN.search(name)


@pytest.mark.parametrize("name", ["emotion", "FIQ", "fdg_uptake", "params", "promotion_total"])
def test_other_columns_are_not_motion(name):
    assert not MOTION_COLUMN.search(name)


def test_measures_agree_with_their_peers():
    rng = generator(0, "measures")
    sites = np.repeat(["a", "b", "c"], 200)
    label = (rng.random(600) < np.repeat([0.2, 0.5, 0.8], 200)).astype(int)
    v, p = cramers_v(label, sites)
    crosstab = pd.crosstab(label, sites).to_numpy()
    assert v == pytest.approx(association(crosstab, correction=False), abs=0.01)
    assert p < 1e-10
    values = np.repeat([0.0, 0.3, 0.6], 200) + rng.normal(size=600)
    f = f_oneway(*(values[sites == s] for s in "abc")).statistic
    assert correlation_ratio(values, sites) == pytest.approx((f - 1) / (f + (600 - 3) / 2), abs=1e-12)
    assert with_label(values, label, True).value == pytest.approx(
        max(roc_auc_score(label, values), roc_auc_score(label, -values))
    )


def test_cramers_v_is_free_of_the_bias_of_many_sites():
    rng = generator(1, "bias")
    label, sites = rng.integers(0, 2, 100), rng.integers(0, 20, 100)
    assert association(pd.crosstab(label, sites).to_numpy()) > 0.3
    assert cramers_v(label, sites)[0] < 0.2


def test_measures_of_nothing_are_nothing():
    assert not with_label(np.ones(9), np.arange(9.0), False).told
    assert not with_label(np.full(9, np.nan), np.arange(9.0), False).told
    assert correlation_ratio(np.ones(4), np.array(list("aabb"))) == 0
    assert correlation_ratio(np.arange(2.0), np.array(list("ab"))) == 0


# --- the report


def test_json_has_the_fixed_shape_and_is_complete():
    report = check(with_series(cut(6)))
    stated = json.loads(report.to_json())
    assert set(stated) == {"ok", "findings"}
    assert stated["ok"] is True
    assert set(stated["findings"][0]) == {"code", "severity", "message", "remedy", "subjects", "nodes"}
    assert len(stated["findings"][0]["subjects"]) == N
    assert stated == report.to_dict()


def test_errors_come_first_and_decide():
    ds = rebuilt(with_series(cut(6)), y=["a"] * N)
    report = check(ds)
    severities = [finding.severity for finding in report.findings]
    assert severities == sorted(severities, key=["error", "warning", "info"].index)
    assert not report.ok
    assert report.advice.startswith("Not ready. Begin with single-class")
    assert repr(report) == "Report(60 networks of 8 nodes: 1 error, 1 warning, 1 note)"


def test_text_and_html_show_a_few_names_and_escape_them():
    ds = with_series(cut(6))
    report = check(rebuilt(ds, subjects=[f"<s{k}>" for k in range(N)], table=None))
    assert "<s0>, <s1>, <s2>, <s3>, <s4>, <s5> and 54 more" in str(report)
    assert "do:  rmixup import SOURCE OUT --regularize" in str(report)
    assert "Usable." in str(report)
    html = report._repr_html_()
    assert "&lt;s0&gt;" in html
    assert "<s0>" not in html
    assert concerned(Finding("c", "info", "", "", [], ["a"])) == "nodes a"


def test_nobody_to_check_is_refused():
    with pytest.raises(DataError, match="one network or more"):
        check(healthy()[:0])


def test_small_sizes_are_checked_too():
    two = Networks(np.array([[[1.0, 0.2], [0.2, 1.0]], [[1.0, 0.3], [0.3, 1.0]]]), ["a", "b"])
    assert set(found(two)) == {"rare-class"}
    one = Networks(np.ones((3, 1, 1)), [0.1, 0.2, 0.3])
    assert set(found(one)) == {"identical-matrices"}


def test_a_folder_is_checked_from_its_map_as_from_memory(tmp_path):
    ds = with_series(cut(6))
    store.save(ds.connectivity(), tmp_path / "cohort")
    assert check(store.open_folder(tmp_path / "cohort")).to_dict() == check(ds.connectivity()).to_dict()
    store.save(ds, tmp_path / "series")
    assert check(store.open_folder(tmp_path / "series")).to_dict() == check(ds).to_dict()


def peak_of_checking(ds):
    tracemalloc.start()
    try:
        check(ds)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_number_of_people(tmp_path):
    people, nodes = 1600, 80
    block = simulate(n_subjects=200, n_nodes=nodes, n_frames=30).matrices
    with store.Writer(tmp_path / "big", dtype="float32") as writer:
        for k in range(people):
            shrink = 1e-3 * (k // 200)
            writer.add(f"s{k}", (1 - shrink) * block[k % 200] + shrink * np.eye(nodes))
        ds = writer.commit(y=["a", "b"] * (people // 2))
    grown = peak_of_checking(ds) - peak_of_checking(ds[:800])
    assert grown < 4e6  # bytes; the further matrices have 41e6 in float64


# --- real data


@pytest.fixture(scope="module")
def abide(real_data, tmp_path_factory):
    from rmixup.data.readers import import_folder

    out = tmp_path_factory.mktemp("abide") / "cc200"
    return import_folder(real_data / "abide", out, atlas="cc200", where=["in_1009=1"], target="ASD")


@pytest.mark.real
def test_abide_has_what_its_description_says(abide):
    assert len(abide) == 1009
    findings = found(abide)
    constant = findings["constant-node"]
    assert len(constant.subjects) == 46
    assert "up to 118 in one" in constant.message
    assert "652 have t ≤ n" in findings["rank-deficient"].message
    assert "t is constant within" in findings["length-tells-site"].message
    assert len(findings["identical-matrices"].subjects) == 2  # two ids of one scan, in the public release
    assert "higher where ASD is 1" in findings["motion-confounded"].message
    assert "label-confounded-with-site" not in findings


@pytest.mark.real
def test_ucla_is_far_from_positive_definite(real_data):
    folder = real_data / "ucla"
    table = pd.read_csv(folder / "participants.tsv", sep="\t", index_col="participant_id")
    ds = Networks(
        np.load(folder / "connectivity.npy", mmap_mode="r"),
        table["DIAGNOSIS"].to_numpy(), subjects=table.index, table=table,
    )  # fmt: skip
    report = check(ds)
    findings = {finding.code: finding for finding in report.findings}
    assert "224 of 224 matrices are singular (rank 49–61 of 419)" in findings["rank-deficient"].message
    assert findings["rare-class"].subjects == table.index[table["DIAGNOSIS"] == "SCHZAFF"].tolist()
    assert report.ok


@pytest.mark.real
def test_tcga_has_undefined_edges_and_twins(real_data):
    folder = real_data / "tcga"
    ds = load(
        folder / "mirna.tsv.gz", target="cancer_type", labels=folder / "mirna_labels.csv", per_network=14,
        networks_per_class=10, drop_small_classes=True, constant="nan",
    )  # fmt: skip
    report = check(ds)
    findings = {finding.code: finding for finding in report.findings}
    assert len(ds) == 240
    assert "of 294000 edges are undefined" in findings["non-finite"].message
    undefined = np.isnan(ds.matrices[:, *np.triu_indices(50, 1)])
    assert f"{undefined.sum()} of 294000" in findings["non-finite"].message
    assert {"hsa-mir-9-1", "hsa-mir-9-2"} <= set(findings["identical-nodes"].nodes)
    assert not report.ok
