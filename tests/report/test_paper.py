"""What `rmixup paper` writes: tables in three forms, figures that show their numbers, findings.json."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "study"))

import paper_studies

from rmixup.report.paper import FIGURES, write
from rmixup.report.paper_tables import latex, markdown
from rmixup.study.presets import PRESETS
from rmixup.study.presets.findings import Findings
from rmixup.study.presets.opening import Opened


@pytest.fixture(scope="module")
def score(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    """A cohort with a number to predict, which every study can be run on."""
    return paper_studies.cohort(tmp_path_factory.mktemp("data") / "c", task="regression")


@pytest.mark.parametrize("name", list(PRESETS))
def test_every_study_writes_its_tables_its_figure_and_what_it_found(name: str, score: Opened, tmp_path: Path) -> None:
    findings = paper_studies.findings_of(name, score, tmp_path / "s")
    files = write(findings, tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(path.name for path in files)
    body = json.loads((tmp_path / "out" / "findings.json").read_text())
    assert body["study"] == name
    assert body["sentences"] == list(findings.sentences)
    assert len(body["sentences"]) >= 2
    assert len(body["facts"]["data"]) == 64
    assert "rmixup" in body["facts"]["versions"]
    assert body["files"] == [path.name for path in files[:-1]]
    assert str(tmp_path) not in json.dumps(body)
    for table in findings.tables:
        read = pd.read_csv(tmp_path / "out" / f"{table}.csv")
        assert list(read.columns) == list(findings.tables[table].columns)
        assert len(read) == len(findings.tables[table])
    assert (tmp_path / "out" / f"{name}.png").read_bytes()[:4] == b"\x89PNG"
    assert "<svg" in (tmp_path / "out" / f"{name}.svg").read_text()[:1000]


def test_there_is_a_figure_for_every_study() -> None:
    assert set(FIGURES) == set(PRESETS)


def test_published_figures_are_drawn_where_there_are_some(score: Opened, tmp_path: Path) -> None:
    findings = paper_studies.findings_of("overall", score, tmp_path / "s")
    table = findings.tables["overall"]

    def drawn(shown: pd.DataFrame) -> list[str]:
        figure = FIGURES["overall"](Findings("overall", {**findings.tables, "overall": shown}))
        return [text.get_text() for text in figure.legends[0].get_texts()]

    assert not any("published" in text for text in drawn(table))
    beside = table.assign(mse_published=[60.0] * 8 + [np.nan] * 2, mse_published_sd=1.0)
    assert "published, mean ± sd of five splits" in drawn(beside)


def test_a_figure_shows_the_means_and_gains_of_its_tables(score: Opened, tmp_path: Path) -> None:
    findings = paper_studies.findings_of("gcn", score, tmp_path / "s", repeats=4)
    axes = FIGURES["gcn"](findings).axes
    assert len(axes) == 4  # score and gain for two backbones
    gin, table = axes[2], findings.tables["gcn"]
    labels = [tick.get_text() for tick in gin.get_yticklabels()]
    assert labels == ["none", "V-Mixup", "D-Mixup", "DropNode", "DropEdge", "G-Mixup", "C-Mixup", "R-Mixup", "linear",
                      "tangent space"]  # fmt: skip
    means = next(np.asarray(line.get_xdata(), float) for line in gin.lines if line.get_marker() == "|")
    np.testing.assert_allclose(means, table[table["backbone"].isin(["gin", "linear model"])]["mse"])
    gains = [float(np.asarray(line.get_xdata())[0]) for line in axes[3].lines if line.get_marker() == "o"]
    own = findings.tables["comparisons"].query("backbone == 'gin'")["gain"]
    np.testing.assert_allclose(gains, own)


def test_trends_have_a_line_for_each_method(score: Opened, tmp_path: Path) -> None:
    findings = paper_studies.findings_of("length", score, tmp_path / "s")
    spdness, performance, gains = FIGURES["length"](findings).axes
    lines = {line.get_label(): np.asarray(line.get_ydata(), float) for line in performance.lines}
    table = findings.tables["length"]
    np.testing.assert_allclose(lines["R-Mixup"], table[table["method"] == "rmixup"]["mse"])
    assert {line.get_label() for line in gains.lines if not line.get_label().startswith("_")} == {
        "V-Mixup", "C-Mixup", "R-Mixup"
    }  # fmt: skip
    assert any(text.get_text() == "n + 1 = 9" for text in spdness.texts)


TABLE = pd.DataFrame({
    "method": ["none", "r_mixup & 50%"],
    "auroc_percent": [73.321, np.nan],
    "auroc_percent_sd": [4.1, np.nan],
    "auroc_percent_low": [70.0, np.nan],
    "auroc_percent_published": [73.32, None],
    "auroc_percent_published_sd": [4.11, None],
    "mse": [60.213, 1.0],
    "mse_sd": [0.0123, 0.5],
    "p": [0.012345, -0.5],
    "splits": [10, 10],
})  # fmt: skip


def test_markdown_puts_mean_and_deviation_together() -> None:
    lines = markdown(TABLE).splitlines()
    assert lines[0] == "| method | AUROC (%) | AUROC (%), published | MSE | p | splits |"
    assert lines[1] == "|:--|--:|--:|--:|--:|--:|"
    assert lines[2] == "| none | 73.32 ± 4.10 | 73.32 ± 4.11 | 60.213 ± 0.012 | 0.01235 | 10 |"
    assert lines[3] == "| r_mixup & 50% | – | – | 1.00 ± 0.50 | −0.5 | 10 |"


def test_latex_is_escaped_and_has_as_many_cells_as_columns() -> None:
    lines = latex(TABLE).splitlines()
    assert lines[0] == r"\begin{tabular}{lrrrrr}"
    assert r"r\_mixup \& 50\% & -- & --" in lines[5]
    assert r"73.32 $\pm$ 4.10" in lines[4]
    assert all(len(re.findall(r"(?<!\\)&", line)) == 5 for line in (lines[2], lines[4], lines[5]))
    assert "±" not in latex(TABLE)
