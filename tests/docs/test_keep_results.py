"""The tool that keeps a finished study for the results pages."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

TOOL = Path(__file__).parents[2] / "docs" / "keep_results.py"


@pytest.fixture
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("keep_results", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def study(tmp_path: Path) -> Path:
    folder = tmp_path / "paper" / "alpha"
    folder.mkdir(parents=True)
    for name in ("alpha.csv", "splits.csv", "alpha.svg", "alpha.png"):
        (folder / name).write_text(name)
    (folder / "findings.json").write_text(json.dumps({"facts": {"cells": {"done": 9, "missing": 1}}}))
    for place in ("_data/results", "_static"):
        (tmp_path / "docs" / place).mkdir(parents=True)
    return folder


def test_tables_and_figure_get_the_names_of_the_results_pages(tool: ModuleType, study: Path, tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    kept = tool.keep(study, "abide-100", docs, partial=True)
    names = ["_data/results/alpha-abide-100.csv", "_data/results/alpha-abide-100-splits.csv",
             "_static/result-alpha-abide-100.svg"]  # fmt: skip
    assert [path.relative_to(docs).as_posix() for path in kept] == names
    assert [path.read_text() for path in kept] == ["alpha.csv", "splits.csv", "alpha.svg"]


def test_an_unfinished_study_is_refused_and_a_large_table_left_out(
    tool: ModuleType, study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="1 runs have no result"):
        tool.keep(study, "abide-100", tmp_path / "docs")
    assert not list((tmp_path / "docs" / "_static").iterdir())
    (study / "splits.csv").write_bytes(b"x" * (tool.LARGEST + 1))
    assert len(tool.keep(study, "abide-100", tmp_path / "docs", partial=True)) == 2
    assert "splits.csv" in capsys.readouterr().err
