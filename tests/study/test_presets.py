"""The paper's studies: what is run, what is found in its results, and the published figures beside it."""

import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

sys.path.insert(0, str(Path(__file__).parent))

import paper_studies

from rmixup import Networks, simulate
from rmixup.errors import DataError
from rmixup.study import material, work
from rmixup.study.cells import expand
from rmixup.study.presets import PRESETS, find, length, overall
from rmixup.study.presets.opening import Opened, for_measuring, opened, regularised
from rmixup.study.presets.published import PUBLISHED, PUBLISHED_SIZES, Figure, data_set
from rmixup.study.spec import Data
from rmixup.study.statistics import corrected_t, holm

TRAINING = ["overall", "gcn", "sample-size", "length", "alpha", "time", "curves"]

# As the paper's table of the overall performance has it (Transformer), copied a second time by hand.
TRANSFORMER = """
| none | 95.28±0.32 / 87.68±1.31 | 60.21±1.53 | 74.85±4.93 / 66.57±6.29 | 73.32±4.11 / 66.00±3.66 | 35.33±11.52 / 45.00±10.79 |
| vmixup | 95.85±0.63 / 87.86±1.45 | 60.43±2.67 | 76.02±2.54 / 65.88±7.89 | 75.03±5.04 / 66.80±5.40 | 69.58±9.39 / 77.50±6.97 |
| dmixup | 94.55±2.84 / 87.17±3.45 | 60.96±1.82 | 76.15±4.58 / 68.82±6.29 | 72.92±4.93 / 67.40±5.64 | 70.28±12.30 / 75.83±12.98 |
| dropnode | 95.65±0.35 / 88.07±0.76 | 65.35±2.97 | 75.47±4.27 / 67.45±4.35 | 73.49±4.09 / 66.00±3.16 | 53.96±11.34 / 61.67±10.79 |
| dropedge | 95.28±0.39 / 87.54±0.60 | 76.44±1.82 | 72.89±5.70 / 66.27±5.31 | 70.68±6.14 / 64.20±5.12 | 67.57±5.14 / 75.00±5.10 |
| gmixup | 95.24±0.92 / 88.16±0.63 | 62.16±2.04 | 76.01±3.04 / 69.41±3.21 | 73.68±5.67 / 65.60±4.56 | 59.72±7.77 / 69.44±6.27 |
| cmixup | 96.01±0.48 / 88.40±1.44 | 59.68±1.15 | 75.29±2.52 / 69.02±5.48 | 74.69±4.40 / 66.40±3.36 | 67.50±6.90 / 76.67±6.32 |
| rmixup | 96.20±0.33 / 89.44±1.06 | 56.89±1.66 | 77.01±2.59 / 69.80±3.63 | 74.79±4.90 / 68.20±4.19 | 71.39±9.59 / 78.33±9.03 |
"""  # noqa: E501
COLUMNS = [("abcd-sex", "auroc"), ("abcd-sex", "accuracy"), ("abcd-cognition", "mse"), ("pnc", "auroc"),
           ("pnc", "accuracy"), ("abide", "auroc"), ("abide", "accuracy"), ("tcga", "macro_precision"),
           ("tcga", "macro_recall")]  # fmt: skip


@pytest.fixture(scope="module")
def two_classes(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    return paper_studies.cohort(tmp_path_factory.mktemp("data") / "cohort")


# ---- published figures


def test_published_transformer_figures_are_those_of_the_paper() -> None:
    lines = [line.strip("|").split("|") for line in TRANSFORMER.strip().splitlines()]
    for name, *cells in lines:
        figures = [Figure(*map(float, pair)) for pair in re.findall(r"([\d.]+)±([\d.]+)", " ".join(cells))]
        for (data, score), figure in zip(COLUMNS, figures, strict=True):
            assert PUBLISHED[data, "transformer", name.strip(), score] == figure
    assert len(PUBLISHED) == 2 * 8 * 9


@pytest.mark.parametrize(
    ("method", "expected"),
    [("none", (78.82, 80.85, 59.14, 55.09, 30.49)), ("rmixup", (82.85, 74.88, 64.39, 63.03, 44.78))],
)
def test_published_gcn_figures_are_those_of_the_paper(method: str, expected: tuple[float, ...]) -> None:
    places = [("abcd-sex", "auroc"), ("abcd-cognition", "mse"), ("pnc", "auroc"), ("abide", "auroc"),
              ("tcga", "macro_precision")]  # fmt: skip
    assert tuple(PUBLISHED[data, "gcn", method, score].mean for data, score in places) == expected


@pytest.mark.parametrize(
    ("data", "score", "share", "expected"),
    [
        ("abcd-sex", "auroc", 0.1, (87.14, 88.99, 88.72, 90.21)),
        ("abcd-sex", "auroc", 1.0, (95.28, 95.85, 96.01, 96.20)),
        ("abcd-cognition", "mse", 0.1, (73.07, 77.00, 71.22, 70.69)),
        ("abcd-cognition", "mse", 1.0, (60.21, 60.43, 59.68, 56.89)),
    ],
)
def test_published_sizes_are_those_of_the_paper(
    data: str, score: str, share: float, expected: tuple[float, ...]
) -> None:
    methods = ("none", "vmixup", "cmixup", "rmixup")
    assert tuple(PUBLISHED_SIZES[data, share, name, score].mean for name in methods) == expected
    # At the full size the table repeats the overall one.
    if share == 1:
        assert all(PUBLISHED_SIZES[data, share, n, score] == PUBLISHED[data, "transformer", n, score] for n in methods)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (Data(preset="abide-100", path="x"), "abide"),
        (Data(preset="abide-100", path="x", target="SEX"), None),
        (Data(preset="abide-100", path="x", regularize="shrink=0.05"), None),
        (Data(preset="abide-full", path="x"), None),
        (Data(path="x"), None),
    ],
)
def test_published_figures_stand_beside_the_papers_own_data_only(data: Data, expected: str | None) -> None:
    assert data_set(data) == expected


# ---- what is run


@pytest.mark.parametrize("name", TRAINING)
def test_every_study_is_a_spec_that_the_runner_takes(name: str, two_classes: Opened) -> None:
    module = find(name)
    full, quick = module.spec_for(two_classes), module.spec_for(two_classes, quick=True)
    work.check(full)
    assert module.NAME == full.name == name
    costs = [len(expand(one, work.identify(one.data))) * one.protocol.epochs for one in (full, quick)]
    assert costs[1] <= costs[0] / 4
    protocol = full.protocol
    assert (protocol.batch_size, protocol.learning_rate, protocol.weight_decay) == (16, 1e-4, 1e-4)
    assert protocol.epochs == (20 if name == "time" else 200)
    assert full.split.repeats == (3 if name == "time" else 10)
    assert module.spec_for(two_classes, repeats=5).split.repeats == 5


def test_the_grids_are_the_papers(two_classes: Opened) -> None:
    grids = {name: find(name).spec_for(two_classes).grid for name in TRAINING}
    assert [one.name for one in grids["overall"].methods] == [
        "none", "vmixup", "dmixup", "dropnode", "dropedge", "gmixup", "cmixup", "rmixup"
    ]  # fmt: skip
    assert [one.name for one in grids["gcn"].backbones] == ["gcn", "gin"]
    assert grids["sample-size"].train_sizes == pytest.approx(np.arange(1, 11) / 10)
    assert [one.options["alpha"] for one in grids["alpha"].methods[1:]] == pytest.approx(np.arange(1, 11) / 10)
    assert grids["length"].shorten == "average"
    assert max(grids["length"].lengths) == 20  # the shortest series
    assert grids["overall"].baselines == ["linear", "tangent"]
    assert find("curves").spec_for(two_classes).protocol.watch_test


def test_an_unknown_study_is_refused_with_all_names() -> None:
    with pytest.raises(DataError, match="overall, gcn, sample-size, length, alpha, time, swelling, kernel, labels"):
        find("everything")
    assert len(PRESETS) == 10


def test_singular_networks_get_the_papers_floor_and_others_are_left_alone(tmp_path: Path, two_classes: Opened) -> None:
    assert regularised(two_classes).data.regularize is None
    singular = paper_studies.cohort(tmp_path / "short", n_frames=6)
    assert regularised(singular).data.regularize == "floor=1e-6"
    asked = singular._replace(data=singular.data.model_copy(update={"regularize": "shrink=0.1"}))
    assert regularised(asked).data.regularize == "shrink=0.1"
    # Half of the series of `two_classes` is shorter than n + 1.
    assert length.spec_for(two_classes).data.regularize == "floor=1e-6"


def test_length_refuses_matrices_and_training_networks_without_labels(tmp_path: Path) -> None:
    ds = simulate(n_subjects=20, n_nodes=6, n_frames=30)
    Networks(ds.matrices, ds.y, subjects=ds.subjects).save(tmp_path / "matrices")
    Networks(ds.matrices, subjects=ds.subjects).save(tmp_path / "bare")
    with pytest.raises(DataError, match="needs series, but these data are matrices"):
        length.spec_for(opened(Data(path=str(tmp_path / "matrices"))))
    bare = opened(Data(path=str(tmp_path / "bare")))
    with pytest.raises(DataError, match="--target"):
        overall.spec_for(bare)
    assert "swelling" in find("swelling").compute(*for_measuring(bare)[:1], quick=True).tables


def test_measuring_studies_get_what_a_cell_would(tmp_path: Path) -> None:
    found = paper_studies.cohort(tmp_path / "c")
    data = found.data.model_copy(update={"nodes": 5, "kind": "correlation", "regularize": "ledoit-wolf"})
    ds, on_matrices = for_measuring(opened(data))
    assert on_matrices is None
    expected = material.networks(opened(data).ds, data, None, None)
    np.testing.assert_array_equal(ds.matrices, expected.matrices)
    ds, on_matrices = for_measuring(opened(data.model_copy(update={"regularize": "shrink=0.2"})))
    assert on_matrices == "shrink=0.2"
    assert ds.n_nodes == 5


def test_simulated_data_take_another_target() -> None:
    options = {"n_subjects": 30, "n_nodes": 6}
    ds = material.opened(Data(preset="simulated", target="age", options={**options, "task": "regression"}))
    assert ds.target == "age"
    assert ds.classes is None
    assert material.opened(Data(preset="simulated-score", options=options)).classes is None


def test_least_frames_wants_a_whole_number(tmp_path: Path) -> None:
    found = paper_studies.cohort(tmp_path / "c")
    assert len(opened(found.data.model_copy(update={"options": {"least_frames": 25}})).ds) < 40
    with pytest.raises(DataError, match="least_frames: expected a whole number"):
        opened(found.data.model_copy(update={"options": {"least_frames": "many"}}))


# ---- what is found


def recomputed(study_folder: Path, score: str) -> pd.DataFrame:
    """Scores of every cell, read from the files by themselves."""
    import json

    rows = []
    for path in study_folder.glob("cells/*/result.json"):
        body = json.loads(path.read_text())
        cell = body["cell"]
        linear = cell["backbone"]["name"] in {"linear", "tangent"}
        name = cell["backbone"]["name"] if linear else cell["method"]["name"]
        alpha = cell["method"]["options"].get("alpha")
        rows.append({"method": name, "alpha": alpha, "split": cell["repeat"], "value": body["scores"][score],
                     "size": cell["train_size"], "length": cell["length"]})  # fmt: skip
    return pd.DataFrame(rows)


def test_overall_tells_means_deviations_and_gains(tmp_path: Path, two_classes: Opened) -> None:
    found = paper_studies.findings_of("overall", two_classes, tmp_path / "s", repeats=6)
    table = found.tables["overall"].set_index("method")
    for score in ("auroc", "accuracy"):
        own = 100 * recomputed(tmp_path / "s", score).groupby("method")["value"].agg(["mean", "std"])
        np.testing.assert_allclose(table[f"{score}_percent"], own.loc[table.index, "mean"])
        np.testing.assert_allclose(table[f"{score}_percent_sd"], own.loc[table.index, "std"])
    assert "auroc_percent_published" not in table
    assert table.loc["linear", "backbone"] == "linear model"
    wide = 100 * recomputed(tmp_path / "s", "auroc").pivot_table(index="split", columns="method", values="value")
    compared = found.tables["comparisons"].query("score == 'auroc'").set_index("method")
    others = list(compared.index)
    p = holm([corrected_t(wide[name] - wide["none"], 8 / 28).p for name in others])
    np.testing.assert_allclose(compared["gain"], (wide[others].sub(wide["none"], axis=0)).mean())
    np.testing.assert_allclose(compared["p_holm"], p)
    said = "\n".join(found.sentences)
    assert "2 of 7 gain" not in said
    assert "1 of 7 gain beyond chance (rmixup)" in said
    assert "1 of 7 lose beyond chance (dropedge)" in said
    assert "rmixup against vmixup (auroc, 6 paired splits): evidence of a gain" in said
    assert "the best linear model tangent" in said
    assert "not the paper's protocol" in said


def test_published_figures_are_said_beside_ours(
    tmp_path: Path, two_classes: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overall, "data_set", lambda data: "abide")
    found = paper_studies.findings_of("overall", two_classes, tmp_path / "s", repeats=3)
    table = found.tables["overall"].set_index("method")
    assert tuple(table.loc["rmixup", ["auroc_percent_published", "accuracy_percent_published_sd"]]) == (74.79, 4.19)
    assert np.isnan(table.loc["tangent", "auroc_percent_published"])
    within = sum(abs(table["auroc_percent"] - table["auroc_percent_published"]) <= table["auroc_percent_published_sd"])
    gain = table["auroc_percent"]["rmixup"] - table["auroc_percent"]["none"]
    said = f"rmixup +1.47 over none; here {gain:+.2f}. {within} of 8 means lie within one"
    assert said in "\n".join(found.sentences)


def test_runs_without_a_result_are_counted_and_make_undefined(tmp_path: Path, two_classes: Opened) -> None:
    found = paper_studies.findings_of("overall", two_classes, tmp_path / "s", fail="rmixup")
    said = "\n".join(found.sentences)
    assert "3 of 30 runs have no result" in said
    assert "rmixup divergence: the training loss was not finite in epoch 3 (3×)" in said
    assert "rmixup against none (auroc, 3 paired splits): undefined" in said
    assert np.isnan(found.tables["overall"].set_index("method").loc["rmixup", "auroc_percent"])


def test_regression_is_told_by_its_mean_squared_error(tmp_path: Path) -> None:
    found = paper_studies.cohort(tmp_path / "c", task="regression")
    told = paper_studies.findings_of("gcn", found, tmp_path / "s", repeats=5)
    assert set(told.tables["gcn"]["backbone"]) == {"gcn", "gin", "linear model"}
    assert len(told.tables["gcn"]) == 8 + 8 + 2
    assert "mse" in told.tables["gcn"]
    gains = told.tables["comparisons"].query("method == 'rmixup'")["gain"]
    assert (gains > 0).all()  # a smaller error is a gain


def test_sample_size_follows_the_gain_over_the_sizes(tmp_path: Path, two_classes: Opened) -> None:
    found = paper_studies.findings_of("sample-size", two_classes, tmp_path / "s", repeats=6)
    own = 100 * recomputed(tmp_path / "s", "auroc").groupby(["size", "method"])["value"].mean()
    table = found.tables["sample-size"].set_index(["train_size", "method"])
    np.testing.assert_allclose(table["auroc_percent"], own.loc[table.index])
    said = "\n".join(found.sentences)
    assert "a gain beyond chance at 25%, 50%, 100%, a loss at none" in said
    assert "At 25%: rmixup against none (auroc, 6 paired splits): evidence of a gain" in said
    assert "no evidence that it differs" in said


def test_length_measures_spdness_of_the_first_frames(tmp_path: Path) -> None:
    found = paper_studies.cohort(tmp_path / "c")
    told = paper_studies.findings_of("length", found, tmp_path / "s")
    curve = told.tables["spdness"].set_index("frames")
    for t in (9, 8, curve.index[0]):
        values = np.array([np.linalg.eigvalsh(np.corrcoef(x[:t].T)) for x in found.ds.series or ()])
        assert curve.loc[t, "spdness"] == pytest.approx((values > 1e-6).mean())
        assert curve.loc[t, "bound"] == min(1, (t - 1) / 8)
    assert curve.loc[8, "positive_definite"] == 0
    assert curve.loc[9, "positive_definite"] == 1
    assert curve.loc[30, "networks"] < 40
    said = "\n".join(told.sentences)
    assert "no network of t ≤ 8 frames is positive definite" in said
    assert "From t = 9 frames on all networks are positive definite" in said
    own = 100 * recomputed(tmp_path / "s", "auroc").groupby(["length", "method"])["value"].mean()
    table = told.tables["length"].set_index(["length", "method"])
    np.testing.assert_allclose(table["auroc_percent"], own.loc[table.index])


def test_alpha_is_compared_with_the_papers_choice(tmp_path: Path, two_classes: Opened) -> None:
    found = paper_studies.findings_of("alpha", two_classes, tmp_path / "s", repeats=5)
    cells = recomputed(tmp_path / "s", "auroc")
    wide = 100 * cells[cells["alpha"].notna()].pivot_table(index="split", columns="alpha", values="value")
    versus = found.tables["alphas"].set_index("alpha")
    assert list(versus.index) == [0.1, 0.5]
    for alpha in versus.index:
        difference = wide[alpha] - wide[1.0]
        assert versus.loc[alpha, "gain"] == pytest.approx(difference.mean())
        assert versus.loc[alpha, "p"] == pytest.approx(corrected_t(difference, 8 / 28).p)
    said = "\n".join(found.sentences)
    assert "Against α = 1, none of 2 shows a gain or a loss" in said
    assert "Against none, 3 of 3 gain" in said
    assert found.tables["alpha"]["alpha"].notna().sum() == 3


def test_time_takes_medians_and_tells_the_steps(tmp_path: Path, two_classes: Opened) -> None:
    found = paper_studies.findings_of("time", two_classes, tmp_path / "s", repeats=3)
    table = found.tables["time"].set_index("method")
    assert table.loc["none", "seconds"] == pytest.approx(2.1)  # of 2.0, 2.1, 2.2
    assert table.loc["rmixup", "ratio"] == pytest.approx(3.1 / 2.1)
    assert table.loc["rmixup", "milliseconds_per_epoch"] == pytest.approx(1000 * 3.1 / 5)
    assert np.isnan(table.loc["linear", "ratio"])
    steps = found.tables["steps"].set_index("step")
    assert steps.loc["rmixup", "times_faster_than_paper"] == pytest.approx(10)
    assert "50 ms with its pre-computed logs (2.0 times faster" in found.sentences[-1]
    assert found.facts["timed_on"] == [{"threads": "1"}]  # and not the name of the machine


def test_curves_measure_the_rise_of_the_test_loss(tmp_path: Path, two_classes: Opened) -> None:
    found = paper_studies.findings_of("curves", two_classes, tmp_path / "s", repeats=5)
    study = find("curves")
    assert set(found.tables["epochs"]["method"]) == set(study.METHODS)
    runs = found.tables["runs"]
    expected = {}
    for path in (tmp_path / "s" / "cells").iterdir():
        losses = pd.read_csv(path / "curves.tsv", sep="\t")["test_loss"]
        body = pd.read_json(path / "result.json", typ="series")["cell"]
        expected[body["method"]["name"], body["repeat"]] = losses.iloc[-1] - losses.min()
    measured = runs.set_index(["method", "split"])["rise"]
    assert measured.to_dict() == pytest.approx(expected)
    said = "\n".join(found.sentences)
    assert "Without augmentation the test loss rises beyond chance" in said
    assert "rmixup overfits less than none" in said
