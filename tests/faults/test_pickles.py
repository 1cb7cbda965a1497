"""Pickles that would run what they bring: under every name, at every door. None of them is ever unpickled."""

import ast
import io
import json
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import joblib
import numpy as np
import pytest
import torch
from commands import ENVIRONMENT, call, is_refusal, write_spec
from tally import Tally, few

import rmixup
from rmixup import simulate
from rmixup.augment.cache import CacheWarning
from rmixup.data.store import _seal
from rmixup.files import digest, seal, unseal
from rmixup.study.project import open_study

SOURCE = Path(rmixup.__file__).parent
LOADERS = frozenset(
    {"pickle", "_pickle", "cPickle", "joblib", "cloudpickle", "dill", "shelve", "marshal", "pickletools"}
)
# Copies of people's own objects, made in memory, to see whether they can be sent to other processes.
ALLOWED = frozenset({"testing/estimators.py", "testing/augmentations.py"})


class Attack:
    """Touches a file when it is unpickled."""

    def __init__(self, canary: Path) -> None:
        self.canary = str(canary)

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.canary,)


def _npy(attack: Attack) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.array([attack], dtype=object), allow_pickle=True)
    return buffer.getvalue()


def _npz(attack: Attack) -> bytes:
    buffer = io.BytesIO()
    names = np.array([f"s{k}" for k in range(4)])
    np.savez(buffer, matrices=np.array([attack] * 4, dtype=object), subjects=names, y=np.array(["a", "b"] * 2))
    return buffer.getvalue()


def _npz_of_names(attack: Attack) -> bytes:
    """The numbers are sound, the names are objects."""
    buffer = io.BytesIO()
    np.savez(buffer, matrices=np.stack([np.eye(3)] * 4), subjects=np.array([attack] * 4, dtype=object))
    return buffer.getvalue()


def _torch(attack: Attack) -> bytes:
    buffer = io.BytesIO()
    torch.save(attack, buffer)
    return buffer.getvalue()


def _joblib(attack: Attack) -> bytes:
    buffer = io.BytesIO()
    joblib.dump(attack, buffer)
    return buffer.getvalue()


def _h5(attack: Attack) -> bytes:
    """As pandas and h5py users keep objects: the pickle as an opaque value and as an attribute."""
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        file["data"] = np.void(pickle.dumps(attack))
        file.attrs["pickled"] = np.void(pickle.dumps(attack))
    return buffer.getvalue()


PAYLOADS: dict[str, Callable[[Attack], bytes]] = {
    "pickle": pickle.dumps,
    "text pickle": lambda attack: pickle.dumps(attack, 0),
    "npy": _npy,
    "npz": _npz,
    "npz of names": _npz_of_names,
    "torch": _torch,
    "joblib": _joblib,
    "h5": _h5,
}
NAMES = (
    "a.npy",
    "a.npz",
    "a.pt",
    "a.pth",
    "a.pkl",
    "a.joblib",
    "a.h5",
    "a.mat",
    "a.csv",
    "a.tsv.gz",
    "a.parquet",
    "a.h5ad",
)


@pytest.fixture
def attack(tmp_path: Path) -> Iterator[Attack]:
    """A pickle that is shown to work when it is unpickled, and to have done nothing at the end."""
    made = Attack(tmp_path / "canary")
    pickle.loads(pickle.dumps(made))  # noqa: S301
    (tmp_path / "canary").rmdir()
    yield made
    assert not (tmp_path / "canary").exists(), "the canary sang"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    cohort = simulate(n_subjects=40, n_nodes=3, seed=1).save(tmp_path / "cohort")
    assert call("train", cohort, "--backbone", "linear", "--out", tmp_path / "model")[0] == 0
    return tmp_path / "model"


@pytest.mark.fault(16)
@pytest.mark.parametrize("payload", few(PAYLOADS, 4))
def test_no_door_unpickles_data(payload: str, tmp_path: Path, attack: Attack, model: Path, tally: Tally) -> None:
    """Alone and in a folder with a table: check, import, train, predict, study run."""
    content = PAYLOADS[payload](attack)
    for name in few(NAMES, 6):
        folder = tmp_path / f"in {name}"
        folder.mkdir()
        (folder / "participants.tsv").write_text("participant_id\tdiagnosis\na\tx\n")
        (folder / name).write_bytes(content)
        for path in (folder / name, folder):
            spec = write_spec(tmp_path / "s.toml", path)
            commands: dict[str, list[object]] = {
                "check": ["check", path],
                "import": ["import", path, tmp_path / "out"],
                "train": ["train", path, "--out", tmp_path / "m"],
                "predict": ["predict", model, path, "-o", tmp_path / "p.tsv"],
                "study": ["study", "run", spec, "--out", tmp_path / "study", "--processes", "0"],
            }
            for command in commands if tally.full else ("import", "predict"):
                with tally.attempt(f"{command} {payload} as {name}{' in a folder' if path == folder else ''}"):
                    code, _, said = call(*commands[command])
                    assert not Path(attack.canary).exists(), "the canary sang"
                    is_refusal(code, said, str(path))


@pytest.mark.fault(16)
@pytest.mark.parametrize("payload", few(PAYLOADS, 4))
def test_no_door_unpickles_what_rmixup_keeps(
    payload: str, tmp_path: Path, attack: Attack, model: Path, tally: Tally
) -> None:
    """A data set, a model, with the checksums of the attacker: they can be written by anybody."""
    content = PAYLOADS[payload](attack)
    for name in ("matrices.npy", "series.npy", "offsets.npy", "participants.tsv", "nodes.tsv", "dataset.json"):
        with tally.attempt(f"{payload} as {name}"):
            forged = _forged_data(tmp_path, name, content)
            code, _, said = call("predict", model, forged, "-o", tmp_path / "p.tsv")
            is_refusal(code, said, str(forged))
            assert not Path(attack.canary).exists(), "the canary sang"
    with tally.attempt(f"{payload} as weights"):
        (model / "model.safetensors").write_bytes(content)
        card = unseal(model / "model.json")
        card["weights"] = {"sha256": digest(content), "size": len(content)}
        (model / "model.json").write_bytes(seal(card))
        code, _, said = call("predict", model, tmp_path / "cohort", "-o", tmp_path / "p.tsv")
        is_refusal(code, said, "is not a file of tensors")
    with tally.attempt(f"{payload} as a card"):
        (model / "model.json").write_bytes(content)
        code, _, said = call("predict", model, tmp_path / "cohort", "-o", tmp_path / "p.tsv")
        is_refusal(code, said, "model.json")


def _forged_data(folder: Path, name: str, content: bytes) -> Path:
    forged = folder / "forged"
    shutil.rmtree(forged, ignore_errors=True)
    shutil.copytree(folder / "cohort", forged)
    (forged / name).write_bytes(content)
    if name != "dataset.json":
        manifest = json.loads((forged / "dataset.json").read_text())
        manifest["files"][name] = {"sha256": digest(content), "size": len(content)}
        manifest["seal"] = _seal(manifest)
        (forged / "dataset.json").write_text(json.dumps(manifest))
    return forged


@pytest.mark.fault(16)
@pytest.mark.parametrize("payload", few(PAYLOADS, 1))
def test_a_study_does_not_unpickle_its_cells(payload: str, tmp_path: Path, attack: Attack, tally: Tally) -> None:
    """Every file of a cell, of claims and of the study itself; resume, status, verify, export and report look at it."""
    content = PAYLOADS[payload](attack)
    cohort = simulate(n_subjects=40, n_nodes=3, seed=1).save(tmp_path / "cohort")
    spec = write_spec(tmp_path / "s.toml", cohort, more="keep_weights = true\n", methods='["none"]')
    whole = tmp_path / "whole"
    assert call("study", "run", spec, "--out", whole, "--processes", "0")[0] == 0
    key = next(
        key
        for key in sorted(open_study(whole).store.done())
        if (whole / "cells" / key / "weights.safetensors").exists()
    )
    names = [f"cells/{key}/{path.name}" for path in sorted((whole / "cells" / key).iterdir())]
    for name in few([*names[-2:], "study.json", f"claims/{key}", f"failed/{key}.json", *names[:-2]], 3):
        study = tmp_path / "study"
        shutil.rmtree(study, ignore_errors=True)
        shutil.copytree(whole, study)
        (study / name).parent.mkdir(exist_ok=True)
        (study / name).write_bytes(content)
        commands = ["status", "verify", "resume"] if tally.full else ["verify", "resume"]
        for command in commands:
            with tally.attempt(f"{payload} as {name}, {command}"):
                more = ["--processes", "0"] if command == "resume" else []
                code, _, said = call("study", command, study, *more)
                assert code in {0, 1, 2}, said
                assert "this is a defect" not in said
                assert not Path(attack.canary).exists(), "the canary sang"
        if name != "study.json":
            with tally.attempt(f"{payload} as {name}, healed"):
                assert open_study(study).store.hashes() == open_study(whole).store.hashes()


@pytest.mark.fault(16)
@pytest.mark.parametrize("payload", PAYLOADS)
def test_a_cache_is_not_unpickled(payload: str, tmp_path: Path, attack: Attack, tally: Tally) -> None:
    ds = simulate(n_subjects=12, n_nodes=4, seed=1)
    prepare = rmixup.RMixup().prepare
    good = prepare(ds.matrices, ds.y, cache=tmp_path / "cache")
    for file in sorted(path for path in (tmp_path / "cache").rglob("*") if path.is_file()):
        with tally.attempt(f"{payload} as {file.name}"):
            file.write_bytes(PAYLOADS[payload](attack))
            with pytest.warns(CacheWarning):
                again = prepare(ds.matrices, ds.y, cache=tmp_path / "cache")
            assert torch.equal(good.bank.values, again.bank.values)
            assert not Path(attack.canary).exists(), "the canary sang"


# ---- what the package itself does


def _modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def _offences(tree: ast.AST) -> Iterator[str]:
    """Loaders that are imported, and calls that unpickle; numpy.load does not, unless asked to."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names if one.name.split(".")[0] in LOADERS)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in LOADERS:
            yield str(node.module)
        elif isinstance(node, ast.Call):
            yield from _calls(node)


def _calls(node: ast.Call) -> Iterator[str]:
    called = ast.unparse(node.func)
    named = {one.arg: one.value for one in node.keywords}
    if called in {"torch.load", "pd.read_pickle", "pandas.read_pickle", "np.fromregex", "eval", "exec"}:
        yield called
    if "allow_pickle" in named and ast.unparse(named["allow_pickle"]) != "False":
        yield f"{called} with allow_pickle"


@pytest.mark.fault(16)
def test_no_module_of_the_package_loads_pickles(tally: Tally) -> None:
    for path in _modules():
        with tally.attempt(path.name):
            found = list(_offences(ast.parse(path.read_text())))
            if path.relative_to(SOURCE).as_posix() in ALLOWED:
                assert found == ["pickle"]
                assert "open(" not in path.read_text()
            else:
                assert found == []


@pytest.mark.fault(16)
@pytest.mark.parametrize(
    "code", ["import pickle", "from joblib import load", "torch.load(x)", "np.load(x, allow_pickle=True)"]
)
def test_the_search_finds_loaders(code: str) -> None:
    assert list(_offences(ast.parse(code)))


UNPICKLED = """
import json, sys, warnings
found = []
watch = False
sys.addaudithook(lambda event, given: found.append(str(given)) if watch and event == "pickle.find_class" else None)
from rmixup.cli import run
cohort, spec, out = sys.argv[1:]
watch = True
codes = [run(one) for one in (
    ["check", cohort],
    ["train", cohort, "--backbone", "mlp", "--epochs", "1", "--out", out + "/model"],
    ["predict", out + "/model", cohort, "-o", out + "/p.tsv"],
    ["study", "run", spec, "--out", out + "/study", "--processes", "0"],
    ["study", "resume", out + "/study", "--processes", "0"],
    ["study", "verify", out + "/study"],
    ["study", "export", out + "/study"],
)]
import pickle, fractions
before = len(found)
pickle.loads(pickle.dumps(fractions.Fraction(1, 2)))
print("@" + json.dumps({"codes": codes, "found": found[:before], "works": len(found) > before}))
"""


@pytest.mark.fault(16)
def test_nothing_is_unpickled_at_run_time(tmp_path: Path) -> None:
    """Python tells of every global that a pickle asks for; only messages between rmixup's own processes ask for any."""
    cohort = simulate(n_subjects=40, n_nodes=3, n_frames=20, seed=1).save(tmp_path / "cohort")
    spec = write_spec(tmp_path / "s.toml", cohort)
    command = [sys.executable, "-c", UNPICKLED, str(cohort), str(spec), str(tmp_path)]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=True)
    told = json.loads(done.stdout.rpartition("@")[2])
    assert told["works"]
    assert told["codes"] == [0] * 7
    assert told["found"] == []
