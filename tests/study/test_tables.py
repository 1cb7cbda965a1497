"""Tables and exports: every cell counted, baselines in every setting, gaps never averaged away."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sgd_work

from rmixup.errors import DataError, RMixupError, StoreError
from rmixup.study import export as exporting
from rmixup.study.export import export
from rmixup.study.project import Study
from rmixup.study.runner import run
from rmixup.study.tables import cell_table, comparison_table, score_names, settings, summary_table


@pytest.fixture
def finished(make_study: sgd_work.Make) -> Study:
    study = make_study(repeats=4)
    assert run(study, sgd_work.work).complete
    return study


def test_every_cell_has_a_row_with_its_scores(finished: Study) -> None:
    table = cell_table(finished)
    assert len(table) == len(finished.cells)
    assert set(table["state"]) == {"done"}
    assert score_names(table) == ["auroc", "accuracy"]
    record = finished.store.read(table["key"][3])
    assert table["auroc"][3] == record.scores["auroc"]
    assert (table["n_train"] == 36).all()


def test_a_setting_holds_methods_and_baselines_on_the_same_splits(finished: Study) -> None:
    (setting,) = settings(finished)
    assert (setting.backbone, setting.score, setting.reference) == ("sgd", "auroc", "none")
    assert [row.method for row in setting.rows] == ["none", "mix", "linear", "tangent"]
    table = cell_table(finished)
    for row in setting.rows:
        own = table[(table["backbone"] == row.method) | ((table["method"] == row.method) & ~table["baseline"])]
        np.testing.assert_array_equal(row.values, own.sort_values("repeat")["auroc"])
        assert row.mean == pytest.approx(own["auroc"].mean())
        assert row.sd == pytest.approx(own["auroc"].std())
    assert [c.method for c in setting.comparisons] == ["mix", "linear", "tangent"]
    assert setting.verdicts[1].startswith("linear against none (auroc, 4 paired splits): ")
    (by_accuracy,) = settings(finished, "accuracy")
    assert by_accuracy.score == "accuracy"
    with pytest.raises(DataError, match="no cell has a score 'mse'; there are: auroc, accuracy"):
        settings(finished, "mse")


def test_the_correction_uses_the_sizes_of_the_cells(finished: Study) -> None:
    from rmixup.study.statistics import corrected_t

    (setting,) = settings(finished)
    none, mix = (100 * row.values for row in setting.rows[:2])
    assert setting.comparisons[0].p == pytest.approx(corrected_t(mix - none, 18 / 36).p)


def test_seeds_are_averaged_within_a_split_and_settings_kept_apart(make_study: sgd_work.Make) -> None:
    more = "seeds = [0, 1]\ntrain_sizes = [0.5, 1.0]\nlengths = [10]\n"
    study = make_study(methods='["mix"]\n' + more, repeats=3)
    run(study, sgd_work.work)
    found = settings(study)
    assert [(s.train_size, s.length, s.reference) for s in found] == [(0.5, 10, "mix"), (1.0, 10, "mix")]
    table = cell_table(study)
    own = table[(table["train_size"] == 1.0) & ~table["baseline"]]
    np.testing.assert_allclose(found[1].rows[0].values, own.groupby("repeat")["auroc"].mean())
    assert all(len(row.values) == 3 for setting in found for row in setting.rows)


def test_a_failed_cell_makes_its_mean_undefined_and_is_counted(make_study: sgd_work.Make) -> None:
    study = make_study(methods='["none", {name = "mix", fault = "diverge"}]', repeats=3)
    run(study, sgd_work.work)
    (setting,) = settings(study)
    (row,) = (row for row in setting.rows if row.method == "mix fault=diverge")
    assert row.missing == {"divergence": 3}
    assert np.isnan([row.mean, row.sd, *row.interval]).all()
    assert "undefined, because splits lack a score (mix fault=diverge: divergence 3×)" in setting.verdicts[0]
    assert np.isfinite(setting.rows[0].mean)
    assert summary_table([setting])["missing"].tolist() == ["", "divergence 3×", "", ""]


def test_cells_not_run_yet_and_undefined_scores_are_told_apart(make_study: sgd_work.Make) -> None:
    study = make_study(methods='["none"]', repeats=3, stack=1)
    assert settings(study) == []

    def undefined(group: Any, study: Study) -> Any:
        for cell, result in sgd_work.work(group, study):
            yield cell, result if cell.repeat else type(result)({"auroc": np.nan}, result.predictions, result.sizes)

    run(study, undefined)
    last = next(cell for cell in study.cells if cell.repeat == 2)
    (study.store.cells / last.key).rename(study.folder / "elsewhere")
    (setting,) = settings(study)
    assert setting.rows[0].missing == {"score undefined": 1, "not run yet": 1}
    assert setting.rows[1].missing == {"score undefined": 1}


def test_an_export_holds_everything_and_no_formula(finished: Study, tmp_path: Path) -> None:
    paths = export(finished, tmp_path / "out")
    assert [path.name for path in paths] == [
        f"{n}.csv" for n in ("cells", "summary", "comparisons", "predictions", "curves")
    ]
    tables = {path.stem: pd.read_csv(path) for path in paths}
    assert len(tables["cells"]) == 16
    assert len(tables["predictions"]) == 16 * 18
    assert len(tables["curves"]) == 8 * 4
    np.testing.assert_allclose(tables["cells"]["auroc"], cell_table(finished)["auroc"])
    assert tables["comparisons"]["verdict"].tolist() == settings(finished)[0].verdicts
    subjects = set(tables["predictions"]["subject"])
    assert "'=cmd()" in subjects
    assert not any(name.startswith(("=", "+", "@")) for name in subjects)


def test_parquet_holds_the_same_numbers(finished: Study, tmp_path: Path) -> None:
    paths = export(finished, tmp_path, "parquet")
    cells = pd.read_parquet(next(path for path in paths if path.stem == "cells"))
    np.testing.assert_array_equal(cells["auroc"], cell_table(finished)["auroc"])
    predictions = pd.read_parquet(next(path for path in paths if path.stem == "predictions"))
    assert set(sgd_work.SUBJECT_NAMES) <= set(predictions["subject"])


def test_an_unfinished_study_exports_what_there_is(make_study: sgd_work.Make, tmp_path: Path) -> None:
    study = make_study()
    paths = export(study, tmp_path)
    assert set(pd.read_csv(paths[0])["state"]) == {"missing"}
    assert comparison_table([]).empty


def test_an_export_that_cannot_be_written_is_told_and_leaves_nothing(
    finished: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(table: pd.DataFrame, path: Path) -> None:
        path.write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setitem(exporting._WRITERS, "csv", full)
    with pytest.raises(StoreError, match=r"cells.csv: could not write 16 rows \(No space left on device\)"):
        export(finished, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []

    def missing(table: pd.DataFrame, path: Path, index: bool) -> None:
        raise ImportError("pyarrow")

    monkeypatch.setattr(pd.DataFrame, "to_parquet", missing)
    with pytest.raises(RMixupError, match="Parquet needs pyarrow"):
        export(finished, tmp_path / "out", "parquet")
