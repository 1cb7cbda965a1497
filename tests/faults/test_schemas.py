"""Folders of schema 1 that an older rmixup wrote are read for ever; those of a newer schema are refused by name."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import call, is_refusal
from tally import Tally

import rmixup
from rmixup.data.store import _seal
from rmixup.files import seal
from rmixup.study.project import open_study

GOLDEN = Path(__file__).parent / "golden"


def _forge_data(folder: Path, sealed: bool) -> None:
    manifest = json.loads((folder / "dataset.json").read_text())
    manifest["schema"] += 1
    manifest["seal"] = _seal(manifest) if sealed else "in another way"
    (folder / "dataset.json").write_text(json.dumps(manifest))


def _forge_sealed(name: str) -> Callable[[Path, bool], None]:
    def forge(folder: Path, sealed: bool) -> None:
        body = json.loads((folder / name).read_text())
        body.pop("sha256")
        body["schema"] += 1
        text = seal(body).decode() if sealed else json.dumps({**body, "blake3": "in another way"})
        (folder / name).write_text(text)

    return forge


def _commands(folder: Path, tmp_path: Path) -> dict[str, tuple[list[list[object]], Callable[[Path, bool], None]]]:
    study = [["study", verb, folder / "study"] for verb in ("status", "verify", "resume", "export")]
    model = ["predict", folder / "model", GOLDEN / "cohort", "-o", tmp_path / "p.tsv"]
    data = [["check", folder / "cohort"], ["train", folder / "cohort", "--out", tmp_path / "m"]]
    return {
        "cohort": (data, _forge_data),
        "model": ([list(model)], _forge_sealed("model.json")),
        "study": ([*study, ["report", folder / "study"]], _forge_sealed("study.json")),
    }


@pytest.mark.fault(26)
@pytest.mark.parametrize("kind", ["cohort", "model", "study"])
def test_a_newer_schema_is_refused_by_name(kind: str, tmp_path: Path, tally: Tally) -> None:
    """Also where it is sealed in a way that is not known yet: the schema is looked at first."""
    for sealed in (True, False):
        shutil.rmtree(tmp_path / kind, ignore_errors=True)
        shutil.copytree(GOLDEN / kind, tmp_path / kind)
        commands, forge = _commands(tmp_path, tmp_path)[kind]
        forge(tmp_path / kind, sealed)
        for command in commands:
            with tally.attempt(" ".join(map(str, command[:2]))):
                code, _, said = call(*command)
                is_refusal(code, said, "newer rmixup", "schema 2", "update rmixup", str(tmp_path / kind))


@pytest.mark.fault(26)
def test_the_golden_data_set_is_read() -> None:
    ds = rmixup.load(GOLDEN / "cohort", verify=True)
    told = json.loads((GOLDEN / "expected.json").read_text())["cohort"]
    assert ds.subjects.tolist() == told["subjects"]
    assert ds.label_names().tolist() == told["labels"]
    assert ds.content_hash() == told["content_hash"]
    assert ds.table is not None
    assert ds.table["AGE"].tolist() == told["ages"]
    np.testing.assert_array_equal(np.array(ds.matrices)[0], told["first matrix"])


@pytest.mark.fault(26)
def test_the_golden_model_predicts_as_it_did(tmp_path: Path) -> None:
    code, _, said = call("predict", GOLDEN / "model", GOLDEN / "cohort", "-o", tmp_path / "p.tsv")
    assert code == 0, said
    now, then = (pd.read_table(path) for path in (tmp_path / "p.tsv", GOLDEN / "predictions.tsv"))
    pd.testing.assert_frame_equal(now, then, rtol=1e-6)


@pytest.mark.fault(26)
def test_the_golden_study_is_read(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "study", tmp_path / "study")
    told = json.loads((GOLDEN / "expected.json").read_text())["study"]
    code, said, _ = call("study", "verify", tmp_path / "study", "--json")
    assert (code, json.loads(said)) == (0, {"ok": True, "checked": len(told["hashes"]), "damaged": []})
    study = open_study(tmp_path / "study")
    assert {cell.key for cell in study.cells} == set(told["hashes"])
    assert study.store.hashes() == told["hashes"]
    assert {key: study.store.read(key).scores["auroc"] for key in study.store.done()} == told["auroc"]
    assert call("study", "status", tmp_path / "study")[0] == 0
    assert call("study", "export", tmp_path / "study", "--out", tmp_path / "export")[0] == 0
    cells = pd.read_csv(tmp_path / "export" / "cells.csv")
    assert len(cells) >= len(told["hashes"])


@pytest.mark.fault(26)
def test_the_golden_files_are_few_and_small() -> None:
    files = [path for path in GOLDEN.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 200_000
