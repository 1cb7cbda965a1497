"""Cells that are run elsewhere, with torch and NumPy only, give what they give here."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import rmixup
from rmixup import Networks, simulate
from rmixup.augment.labels import encode
from rmixup.cli import run as command
from rmixup.errors import FormatError, RMixupError, StoreError
from rmixup.study import remote, work
from rmixup.study.project import Settings, Study, begin
from rmixup.study.runner import run
from rmixup.study.spec import parse_spec
from rmixup.train import trial
from rmixup.train.feed import Problem
from rmixup.train.remote import dump_problem, load_problem, read_results, run_packed
from rmixup.train.trial import Trial, Tried

SPEC = """
[data]
path = {path!r}
[split]
repeats = 2
[protocol]
epochs = 2
[grid]
methods = ["none", {{name = "rmixup", alpha = 0.5}}]
backbones = [{{name = "mlp", hidden = [8]}}]
{grid}
"""
Make = Callable[..., Study]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def build(
        name: str = "study", grid: str = "", more: str = "", sites: int = 2, task: str = "classification"
    ) -> Study:
        ds = simulate(n_subjects=60, n_nodes=6, n_frames=40, n_sites=sites, effect=3.0, task=task)  # type: ignore[arg-type]
        ds.save(tmp_path / f"{name}-data", overwrite=True)
        spec = parse_spec(more + SPEC.format(path=str(tmp_path / f"{name}-data"), grid=grid))
        return begin(tmp_path / name, spec, work.identify(spec.data), Settings(device="cpu"), "rmixup.study.work")

    return build


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_results_from_elsewhere_are_those_of_here(task: str, make: Make, tmp_path: Path) -> None:
    grid = "lengths = [20, 40]"
    away, here = make("away", grid, task=task), make("here", grid, task=task)
    assert remote.pack(away, tmp_path / "packed") == len(away.cells) == 16
    assert len(list(run_packed(tmp_path / "packed", tmp_path / "results.jsonl", "cpu"))) == 16
    taken = remote.take(away, tmp_path / "results.jsonl")
    assert (taken.done, taken.failed, taken.passed_over) == (16, 0, 0)
    assert run(here, work.work).complete
    assert away.store.hashes() == here.store.hashes()
    assert away.store.read(away.cells[0].key).environment["device"] == "cpu"


def test_a_machine_that_goes_away_loses_only_what_was_not_finished(make: Make, tmp_path: Path) -> None:
    study, packed, results = make(), tmp_path / "packed", tmp_path / "results.jsonl"
    remote.pack(study, packed)
    coming = run_packed(packed, results, "cpu")
    next(coming)
    next(coming)
    coming.close()
    with results.open("a") as torn:
        torn.write('{"key": "half a li')
    assert remote.take(study, results).done == 2
    assert len(list(run_packed(packed, results, "cpu"))) == len(study.cells) - 2
    taken = remote.take(study, results)
    assert (taken.done, taken.passed_over) == (len(study.cells) - 2, 2)


def test_what_is_done_already_is_not_packed(make: Make, tmp_path: Path) -> None:
    study = make()
    assert run(study, work.work).complete
    assert remote.pack(study, tmp_path / "packed") == 0


def test_studies_share_networks_and_trials(make: Make, tmp_path: Path) -> None:
    packed, results = tmp_path / "packed", tmp_path / "results.jsonl"
    small, large = make("small"), make("large", "train_sizes = [0.5, 1.0]")
    assert remote.pack(small, packed) == 8
    networks = sorted(packed.glob("networks-*"))
    assert remote.pack(large, packed) == 16
    assert sorted(packed.glob("networks-*")) == networks
    assert len(networks) == 1
    assert {cell.key for cell in small.cells} < {cell.key for cell in large.cells}
    assert len(list(run_packed(packed, results, "cpu"))) == 16
    assert remote.take(small, results).done == 8
    assert remote.take(large, results).done == 16


def test_a_large_pack_travels_in_parts(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmixup.train.remote.PART_BYTES", 25 * 21 * 4)
    packed, results = tmp_path / "packed", tmp_path / "results.jsonl"
    study = make(grid="lengths = [20, 40]")
    remote.pack(study, packed)
    parts = json.loads((packed / "trials.json").read_text())["packs"][0]["networks"]
    assert [len(np.load(packed / name)["triangles"]) for name in parts] == [25, 25, 10]
    (packed / parts[1]).rename(tmp_path / "later")
    with pytest.warns(UserWarning, match=f"8 trials are left: {parts[1]}"):
        assert len(list(run_packed(packed, results, "cpu"))) == 8
    (tmp_path / "later").rename(packed / parts[1])
    assert len(list(run_packed(packed, results, "cpu"))) == 8
    here = make("here", "lengths = [20, 40]")
    assert remote.take(study, results).done == 16
    assert run(here, work.work).complete
    assert study.store.hashes() == here.store.hashes()


def test_results_are_written_block_by_block(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks: list[list[Trial]] = []

    def noted(problem: Problem, trials: list[Trial], *more: object) -> Iterator[tuple[int, Tried | RMixupError]]:
        blocks.append(trials)
        return trial.run(problem, trials, *more)  # type: ignore[arg-type]

    monkeypatch.setattr("rmixup.train.remote.BLOCK", 3)
    monkeypatch.setattr("rmixup.train.remote.trial", SimpleNamespace(run=noted))
    study = make(grid="train_sizes = [0.5, 1.0]")
    remote.pack(study, tmp_path / "packed")
    run_some = run_packed(tmp_path / "packed", tmp_path / "results.jsonl", "cpu", backbones=["mlp", "linear"])
    assert len(list(run_some)) == 12  # the tangent ones are left
    assert max(map(len, blocks)) == 3
    assert all(len({(one.family, len(one.train)) for one in block}) == 1 for block in blocks)
    assert sorted(one.backbone for block in blocks for one in block) == ["linear"] * 4 + ["mlp"] * 8


def test_a_method_that_is_refused_fails_alone(make: Make, tmp_path: Path) -> None:
    study = make(sites=1)
    remote.pack(study, tmp_path / "packed")
    trials = json.loads((tmp_path / "packed" / "trials.json").read_text())
    key, wrong = next((k, t) for k, t in trials["packs"][0]["trials"].items() if t["method"] == "rmixup")
    wrong["method_options"] = {"pairs": "cross-group"}  # there is one group only
    (tmp_path / "packed" / "trials.json").write_text(json.dumps(trials))
    list(run_packed(tmp_path / "packed", tmp_path / "results.jsonl", "cpu"))
    taken = remote.take(study, tmp_path / "results.jsonl")
    assert (taken.done, taken.failed) == (len(study.cells) - 1, 1)
    assert study.store.failures()[key].reason == "refused"


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    results = tmp_path / "results.jsonl"
    results.write_text('{"key": "a"}\n{"key": \n{"key": "b"}\n')
    with pytest.raises(FormatError, match="line 2"):
        list(read_results(results))


def test_refusals(make: Make, tmp_path: Path) -> None:
    study = make()
    (tmp_path / "there").mkdir()
    with pytest.raises(StoreError, match="exists already and is no packed study"):
        remote.pack(study, tmp_path / "there")
    with pytest.raises(StoreError, match="not found"):
        remote.take(study, tmp_path / "nothing.jsonl")
    with pytest.raises(StoreError, match="keep_weights"):
        remote.pack(make("weights", more="keep_weights = true\n"), tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("y", [[0, 2, 1], ["a", "b", "a"], [0.5, 1.5, 2.5], [[0.1, 2.0], [1.0, 2.0], [3.0, 4.0]]])
def test_problems_survive_the_journey(y: list[object], tmp_path: Path) -> None:
    x = torch.randn(3, 5, 5, generator=torch.Generator().manual_seed(0))
    before = Problem(x + x.mT, encode(np.array(y)), np.array(["s1", "s2", "s1"]))
    after = load_problem(tmp_path, dump_problem(tmp_path, before))
    assert torch.equal(before.x, after.x)
    assert after.groups.tolist() == ["s1", "s2", "s1"]
    np.testing.assert_array_equal(before.labels.mixable(), after.labels.mixable())
    assert (before.labels.task, before.labels.flat) == (after.labels.task, after.labels.flat)


def test_no_more_than_torch_and_numpy_is_loaded() -> None:
    probe = (
        "import sys, rmixup.train.remote; "
        "bad = {'scipy', 'sklearn', 'pandas', 'pydantic', 'typer', 'matplotlib', 'safetensors'} & set(sys.modules); "
        "assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", probe], check=True)


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ds: Networks = rmixup.simulate(n_subjects=60, n_nodes=6, n_frames=40)
    ds.save(tmp_path / "data")
    (tmp_path / "spec.toml").write_text(SPEC.format(path="data", grid=""))
    packed, out, results = tmp_path / "packed", tmp_path / "study", tmp_path / "results.jsonl"
    assert command(["study", "pack", str(tmp_path / "spec.toml"), str(packed), "--out", str(out)]) == 0
    assert "Packed 8 cells" in capsys.readouterr().out
    subprocess.run(
        [sys.executable, "-m", "rmixup.train.remote", str(packed), str(results), "--device", "cpu"],
        check=True,
        capture_output=True,
    )
    assert command(["study", "take", str(out), str(results), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"done": 8, "failed": 0, "passed_over": 0}
