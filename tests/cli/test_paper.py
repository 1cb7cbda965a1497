"""`rmixup paper`: one study, all of them, an interruption in the middle, and what cannot be run."""

import itertools
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pandas as pd
import pytest

from rmixup import Networks, simulate
from rmixup.cli import run
from rmixup.study import work
from rmixup.study.presets import PRESETS
from rmixup.study.project import open_study

HERE = ["--processes", "0"]  # in this process, which has torch loaded


@pytest.fixture(scope="module")
def cohort(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """30 people of 8 nodes, two sites, a score to predict."""
    folder = tmp_path_factory.mktemp("data") / "cohort"
    simulate(n_subjects=30, n_nodes=8, n_frames=(12, 24), n_sites=2, task="regression").save(folder)
    return folder


@pytest.mark.timeout(900)
def test_all_studies_run_quickly_and_write_what_they_found(
    cohort: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "paper"
    assert run(["paper", "all", "--data", str(cohort), "--quick", "--out", str(out), *HERE]) == 0
    printed = capsys.readouterr().out
    assert [path.name for path in sorted(out.iterdir())] == sorted(PRESETS)
    for name in PRESETS:
        assert (out / name / f"{name}.png").stat().st_size > 10_000
        written = {path.name for path in (out / name).iterdir() if path.is_file()}
        assert {Path(file).suffix for file in written} == {".csv", ".md", ".tex", ".svg", ".png", ".json"}
        body = json.loads((out / name / "findings.json").read_text())
        assert {*body["files"], "findings.json"} == written
        table = pd.read_csv(out / name / body["files"][0])
        assert len(table) > 1
        for ending in ("md", "tex"):
            rendered = (out / name / body["files"][0]).with_suffix(f".{ending}").read_text()
            assert rendered.count("\n") > len(table), "a line for each row, and a head"
        assert ElementTree.parse(out / name / f"{name}.svg").getroot().tag.endswith("svg")
        assert all(sentence in printed for sentence in body["sentences"])
        assert f"Wrote {out / name}: " in printed
    assert "skipped" not in printed
    assert "rmixup against none (mse, 3 paired splits): " in printed
    assert not re.search(r"\bnan\b", printed)
    # The same data were read for all, and each study can be looked at by the other commands.
    assert {json.loads((out / n / "findings.json").read_text())["facts"]["data"] for n in ("swelling", "labels")} == {
        Networks.content_hash(simulate_of(cohort))
    }
    assert run(["study", "verify", str(out / "overall" / "study")]) == 0


def simulate_of(folder: Path) -> Networks:
    from rmixup import load

    ds: Networks = load(folder).connectivity()
    return ds


def test_an_interrupted_study_goes_on_and_ends_the_same(
    cohort: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["paper", "curves", "--data", str(cohort), "--quick", *HERE]
    assert run([*command, "--out", str(tmp_path / "whole")]) == 0
    real = work.work
    cells = itertools.count()

    def interrupted(*arguments: Any) -> Iterator[Any]:
        for one in real(*arguments):
            if next(cells) == 3:
                raise KeyboardInterrupt
            yield one

    with monkeypatch.context() as patch:
        patch.setattr(work, "work", interrupted)
        assert run([*command, "--out", str(tmp_path / "torn")]) == 130
    folder = tmp_path / "torn" / "curves"
    assert not (folder / "findings.json").exists()
    before = open_study(folder / "study").store.done()
    assert len(before) == 3
    times = {key: (folder / "study" / "cells" / key / "result.json").stat().st_mtime_ns for key in before}
    capsys.readouterr()
    assert run([*command, "--out", str(tmp_path / "torn"), "--json"]) == 0
    [told] = json.loads(capsys.readouterr().out)["studies"]
    assert told["complete"]
    assert times == {key: (folder / "study" / "cells" / key / "result.json").stat().st_mtime_ns for key in before}
    stores = [open_study(tmp_path / name / "curves" / "study").store.hashes() for name in ("whole", "torn")]
    assert stores[0] == stores[1]
    tables = [(tmp_path / name / "curves" / "curves.csv").read_text() for name in ("whole", "torn")]
    assert tables[0] == tables[1]


def test_runs_can_be_done_on_another_machine(cohort: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from rmixup.train import remote

    command = ["paper", "curves", "--data", str(cohort), "--quick", "--out", str(tmp_path / "out"), *HERE]
    assert run([*command, "--pack", str(tmp_path / "packed")]) == 0
    assert "Packed 9 runs of curves" in capsys.readouterr().out
    study = tmp_path / "out" / "curves" / "study"
    assert not open_study(study).store.done()
    assert run([*command, "--no-train"]) == 2
    assert "no run has a result: none was run" in capsys.readouterr().err
    remote.main([str(tmp_path / "packed"), str(tmp_path / "results.jsonl")])
    assert run(["study", "take", str(study), str(tmp_path / "results.jsonl")]) == 0
    taken = open_study(study).store.hashes()
    assert len(taken) == 9
    assert run(command) == 0
    assert open_study(study).store.hashes() == taken
    assert (tmp_path / "out" / "curves" / "findings.json").exists()
    shutil.rmtree(study / "cells" / next(iter(taken)))
    capsys.readouterr()
    assert run([*command, "--no-train"]) == 1
    assert "1 of 9 runs have no result" in capsys.readouterr().out
    assert len(open_study(study).store.done()) == 8
    assert run(["paper", "labels", "--data", str(cohort), "--pack", str(tmp_path / "no")]) == 2
    assert "nothing to pack" in capsys.readouterr().err


def test_what_is_timed_is_packed_by_itself(cohort: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    packed = tmp_path / "packed"
    for name in ("overall", "time"):
        command = ["paper", name, "--data", str(cohort), "--quick", "--out", str(tmp_path / "out"), *HERE]
        assert run([*command, "--pack", str(packed), "--json"]) == 0
    folders = [json.loads(line)["packed"][0]["folder"] for line in capsys.readouterr().out.splitlines()]
    assert folders == [str(packed), str(packed / "time")]


def test_without_data_the_ways_to_it_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["paper", "overall"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert all(word in said for word in ("--data", "rmixup import", "abide-100", "simulated"))
    assert run(["paper", "overall", "--preset", "abide-100"]) == 2
    assert "name their folder with --data" in capsys.readouterr().err
    assert run(["paper", "overall", "--data", "nowhere"]) == 2
    assert "nowhere" in capsys.readouterr().err
    assert run(["paper", "everything", "--data", "simulated"]) == 2
    assert "no study of the paper is named 'everything'" in capsys.readouterr().err
    assert run(["paper", "overall", "--data", "simulated", "--preset", "abid"]) == 2
    assert "no data set is named 'abid'" in capsys.readouterr().err
    assert run(["paper", "overall", "--data", "simulated", "--precision", "half"]) == 2
    assert "expected one of fp32, tf32, bf16, got 'half'" in capsys.readouterr().err


def test_what_the_data_do_not_allow_is_refused_alone_and_skipped_among_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ds = simulate(n_subjects=24, n_nodes=5, n_frames=30, n_sites=1)
    Networks(ds.matrices, ds.y, subjects=ds.subjects, classes=ds.classes).save(tmp_path / "matrices")
    data = ["--data", str(tmp_path / "matrices"), "--out", str(tmp_path / "out")]
    for name, why in (("length", "needs series"), ("labels", "three different labels")):
        assert run(["paper", name, *data]) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        assert why in said
    assert not (tmp_path / "out").exists()
    wanted = {name: PRESETS[name] for name in ("length", "kernel", "labels")}
    monkeypatch.setattr("rmixup.study.presets.PRESETS", wanted)
    assert run(["paper", "all", *data, "--quick", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["study"] for one in told["studies"]] == ["kernel"]
    assert [one["study"] for one in told["skipped"]] == ["length", "labels"]
    assert "needs series" in told["skipped"][0]["why"]


def test_failed_runs_make_the_answer_no(
    cohort: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from rmixup.study.results import Failure

    def failing(cells: Any, study: Any) -> Iterator[Any]:
        for cell in cells:
            yield cell, Failure("divergence", "told to")

    command = ["paper", "curves", "--data", str(cohort), "--quick", "--out", str(tmp_path), *HERE]
    with monkeypatch.context() as patch:
        patch.setattr(work, "work", failing)
        assert run(command) == 2
    assert "no run has a result: divergence: told to" in capsys.readouterr().err.splitlines()[-1]
    # What failed is left alone until it is asked for.
    assert run(command) == 2
    assert run([*command, "--retry-failed"]) == 0
