"""The picture of health: every panel shows what was measured, or says why it is empty."""

import numpy as np
import pytest

from rmixup import Networks, check, simulate
from rmixup.errors import DataError
from rmixup.report import health

SPECTRA, SPDNESS, EDGES, LABELS, FRAMES, FINDINGS = range(6)


def drawn(ds):
    return health.draw(ds, check(ds)).axes


def words(axes):
    titles = [axes.get_title(loc=loc) for loc in ("left", "right")]
    return " | ".join([*titles, *(text.get_text() for text in axes.texts), axes.get_xlabel()])


@pytest.fixture(scope="module")
def cohort():
    return simulate(n_subjects=40, n_nodes=8, n_frames=(6, 40), n_sites=3)


def test_spectra_show_the_median_of_each_eigenvalue(cohort):
    axes = drawn(cohort)[SPECTRA]
    median = np.median(np.linalg.eigvalsh(cohort.matrices)[:, ::-1], axis=0)
    np.testing.assert_allclose(axes.lines[0].get_ydata(), median, rtol=1e-9)
    assert axes.get_yscale() == "log"


def test_spdness_states_its_mean_and_how_many_are_full(cohort):
    positive = np.linalg.eigvalsh(cohort.matrices) > 1e-6
    full = positive.all(axis=1).sum()
    assert 0 < full < 40
    assert f"mean {100 * positive.mean():.1f} %, full in {full} of 40" in words(drawn(cohort)[SPDNESS])
    assert sum(bar.get_height() for bar in drawn(cohort)[SPDNESS].patches) == 40


def test_edges_show_their_mean(cohort):
    mean = cohort.matrices[:, *np.triu_indices(8, 1)].mean()
    assert f"mean {mean:.2f}" in words(drawn(cohort)[EDGES])


def test_labels_are_counted_at_each_site(cohort):
    axes = drawn(cohort)[LABELS]
    assert "Labels at each site" in words(axes)
    shown = {label.get_text() for label in axes.get_yticklabels()}
    assert shown == {"site-1", "site-2", "site-3"}
    assert sum(bar.get_width() for bar in axes.patches) == 40
    assert {text.get_text() for text in axes.get_legend().get_texts()} == {"class-1", "class-2"}


def test_labels_without_sites_are_counted_by_class(cohort):
    ds = Networks(cohort.matrices, cohort.label_names())
    axes = drawn(ds)[LABELS]
    assert [bar.get_width() for bar in axes.patches] == [20, 20]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["class-1", "class-2"]


def test_scores_show_their_quantiles_at_each_site():
    ds = simulate(n_subjects=40, n_nodes=8, n_frames=40, task="regression", n_sites=1)
    axes = drawn(ds)[LABELS]
    assert axes.lines[0].get_xdata()[0] == pytest.approx(np.median(ds.y))


def test_many_classes_and_many_sites_stay_readable():
    ds = simulate(n_subjects=120, n_nodes=8, n_frames=20, n_sites=30, n_classes=24)
    axes = drawn(ds)[LABELS]
    assert axes.get_legend() is None
    assert "24 classes" in words(axes)
    assert len(axes.get_yticklabels()) == 24
    assert "the 24 largest of 30" in words(axes)


def test_frames_show_the_bound(cohort):
    axes = drawn(cohort)[FRAMES]
    assert "n + 1 = 9" in words(axes)
    assert sum(bar.get_height() for bar in axes.patches) == 40


def test_findings_are_listed_with_how_many_they_concern(cohort):
    text = words(drawn(cohort)[FINDINGS])
    assert "rank-deficient" in text
    assert "subjects" in text
    healthy = simulate(n_subjects=20, n_nodes=8, n_frames=60)
    assert "nothing found" in words(drawn(healthy)[FINDINGS])


def test_more_findings_than_fit_are_counted(cohort):
    report = check(cohort)
    many = type(report)(report.findings * 9, report.about, report.scan)
    axes = health.draw(cohort, many).axes[FINDINGS]
    assert f"and {len(many.findings) - 12} more" in words(axes)


def test_panels_without_content_say_so():
    ds = Networks(np.full((3, 4, 4), np.nan))
    axes = drawn(ds)
    assert "no matrix is finite" in words(axes[SPECTRA])
    assert "no matrix is finite" in words(axes[SPDNESS])
    assert "no edge lies" in words(axes[EDGES])
    assert "no labels" in words(axes[LABELS])
    assert "not known" in words(axes[FRAMES])


@pytest.mark.parametrize(("suffix", "start"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")])
def test_files_are_written_whole_and_alike(cohort, tmp_path, suffix, start):
    first, again = (
        health.write(health.draw(cohort, check(cohort)), tmp_path / "new" / f"{name}{suffix}").read_bytes()
        for name in "ab"
    )
    assert first.startswith(start)
    assert first == again
    assert {path.name for path in (tmp_path / "new").iterdir()} == {f"a{suffix}", f"b{suffix}"}


def test_other_kinds_of_file_are_refused(cohort, tmp_path):
    with pytest.raises(DataError, match=r"\.png, \.svg, \.pdf"):
        health.write(health.draw(cohort, check(cohort)), tmp_path / "a.bmp")
