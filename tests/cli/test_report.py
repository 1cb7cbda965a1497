"""`rmixup report`: what it writes and prints, and what it refuses."""

import json
import sys
from pathlib import Path

import pytest

from rmixup.cli import run

sys.path.insert(0, str(Path(__file__).parent.parent / "report"))

import studies


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli") / "study"
    studies.make(folder, repeats=3, methods='["none", "rmixup"]')
    return folder


def test_the_report_lies_in_the_studys_folder_unless_told_otherwise(folder, capsys):
    assert run(["report", str(folder)]) == 0
    said = capsys.readouterr().out
    assert str(folder / "report" / "report.html") in said
    assert (folder / "report" / "report.html").stat().st_size < 5_000_000


def test_json_names_every_file(folder, tmp_path, capsys):
    assert run(["report", str(folder), "--out", str(tmp_path / "out"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["report"] == str(tmp_path / "out" / "report.html")
    assert all(Path(path).is_file() for path in told["files"])
    assert {Path(path).suffix for path in told["files"]} == {".html", ".svg", ".png", ".csv"}


def test_a_folder_that_is_no_study_is_refused_in_one_line(tmp_path, capsys):
    assert run(["report", str(tmp_path)]) == 2
    assert "expected a folder that `rmixup study run` wrote" in capsys.readouterr().err
