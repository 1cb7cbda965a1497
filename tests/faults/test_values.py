"""What people's numbers are like when they went wrong, given to every command that computes with them."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from commands import call, is_refusal, write_spec
from tally import Tally, few

import rmixup
from rmixup import simulate
from rmixup.study.project import open_study
from rmixup.train.folder import load_model

Stack = dict[str, Any]
COHORT = simulate(n_subjects=40, n_nodes=5, n_frames=30, seed=1)
IDS = COHORT.subjects.tolist()


def matrices(change: Callable[[Any], object] = lambda m: None, **other: Any) -> Stack:
    made = np.array(COHORT.matrices)
    change(made)
    return {"matrices": made, "y": COHORT.label_names(), "subjects": np.array(IDS), **other}


def series(change: Callable[[list[Any]], object] = lambda s: None) -> Stack:
    made = [np.array(x) for x in COHORT.series or ()]
    change(made)
    return {**{f"series_{k}": x for k, x in enumerate(made)}, "y": COHORT.label_names(), "subjects": np.array(IDS)}


def entries(value: float) -> Callable[[Any], object]:
    def change(m: Any) -> None:
        m[3, 1, 2] = m[3, 2, 1] = m[7, 0, 4] = m[7, 4, 0] = value

    return change


def frames(value: float) -> Callable[[Any], object]:
    def change(s: Any) -> None:
        s[3][4, 1] = s[7][0, 0] = value

    return change


def lopsided(m: Any) -> None:
    m[3, 1, 2] += 0.1
    m[7, 0, 1] -= 0.05


def still(s: Any) -> None:
    s[3][:, 1] = 3.0
    s[7][:, 0] = 0.0


def short(s: Any) -> None:
    s[3], s[7] = s[3][:2], s[7][:2]


OFFENDERS = (IDS[3], IDS[7])
LAST = {"y": COHORT.label_names()[:-1]}
TWICE = {"subjects": np.array([*IDS[:-1], IDS[0]])}
# Number of the fault, the data, what every refusal must say.
CASES: dict[str, tuple[int, Stack, tuple[str, ...]]] = {
    "NaN in matrices": (5, matrices(entries(np.nan)), ("NaN or infinity", *OFFENDERS)),
    "infinity in matrices": (5, matrices(entries(np.inf)), ("NaN or infinity", *OFFENDERS)),
    "NaN in series": (5, series(frames(np.nan)), ("NaN or infinity", *OFFENDERS)),
    "infinity in series": (5, series(frames(-np.inf)), ("NaN or infinity", *OFFENDERS)),
    "nodes that do not vary": (6, series(still), ("not vary", *OFFENDERS, "node-0", "node-1")),
    "asymmetric": (7, matrices(lopsided), ("not symmetric", *OFFENDERS, "at node-1–node-2", "at node-2–node-1")),
    "series of two frames": (9, series(short), ("fewer than 3 frames", *OFFENDERS)),
    "a subject twice": (10, matrices(**TWICE), ("more than once", IDS[0])),
    "a label too few": (11, matrices(**LAST), ("39 entries for 40 subjects",)),
    "matrices that are not square": (12, matrices(matrices=np.ones((40, 5, 4))), ("square matrix", "5×4", IDS[0])),
    "text for numbers": (12, matrices(matrices=np.ones((40, 5, 5)).astype(str)), ("real numbers", IDS[0])),
    "complex numbers": (12, matrices(matrices=np.ones((40, 5, 5), complex)), ("complex128", IDS[0])),
    "nodes that were forgotten": (12, matrices(nodes=np.array(["a", "b"])), ("nodes",)),
}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Models of the sound cohort: of its series, and of its matrices."""
    folder = tmp_path_factory.mktemp("models")
    made = {}
    for name, data in (("series", series()), ("matrices", matrices())):
        np.savez(folder / f"{name}.npz", **data)
        made[name] = folder / name
        assert call("train", folder / f"{name}.npz", "--backbone", "tangent", "--out", made[name])[0] == 0
    return made


@pytest.fixture
def only_finite(monkeypatch: pytest.MonkeyPatch) -> None:
    """No eigen-decomposition may see a number that is none."""

    def watched(real: Any, is_finite: Any) -> Any:
        def call(S: Any, *rest: Any, **more: Any) -> Any:
            assert bool(is_finite(S).all()), "decomposed before it was checked"
            return real(S, *rest, **more)

        return call

    for module, is_finite in ((torch.linalg, torch.isfinite), (np.linalg, np.isfinite)):
        for name in ("eigh", "eigvalsh"):
            monkeypatch.setattr(module, name, watched(getattr(module, name), is_finite))


@pytest.mark.usefixtures("only_finite")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.fault(number)) for name, (number, _, _) in CASES.items()]
)
def test_no_command_computes_with_it(name: str, tmp_path: Path, models: dict[str, Path], tally: Tally) -> None:
    """Train, predict and study refuse it in one line that names everybody concerned, and leave nothing behind."""
    _, data, words = CASES[name]
    np.savez(tmp_path / "bad.npz", **data)
    spec = write_spec(tmp_path / "s.toml", tmp_path / "bad.npz")
    model = models["matrices" if "matrices" in data else "series"]
    commands = {
        "train mlp": ["train", tmp_path / "bad.npz", "--backbone", "mlp", "--out", tmp_path / "m1"],
        "train tangent": ["train", tmp_path / "bad.npz", "--backbone", "tangent", "--out", tmp_path / "m2"],
        "predict": ["predict", model, tmp_path / "bad.npz", "-o", tmp_path / "p.tsv"],
        "study": ["study", "run", spec, "--out", tmp_path / "study", "--processes", "0"],
    }
    before = sorted(tmp_path.iterdir())
    for command, arguments in commands.items():
        with tally.attempt(command):
            code, _, said = call(*arguments)
            is_refusal(code, said, *words)
            assert sorted(tmp_path.iterdir()) == before
    with tally.attempt("check"):
        code, told, said = call("check", tmp_path / "bad.npz", "--json")
        assert code in {1, 2}
        assert all(
            word in (told if code == 1 else said).encode().decode("unicode_escape")
            for word in OFFENDERS
            if word in words
        )


@pytest.mark.fault(7)
def test_asymmetry_within_rounding_is_taken_out_and_recorded(tmp_path: Path, tally: Tally) -> None:
    """The model and the cells are those of the symmetric part, and say that it was taken."""
    rng = np.random.default_rng(0)
    noisy = matrices(lambda m: m.__iadd__(rng.normal(size=m.shape) * 1e-9))
    part = matrices(matrices=noisy["matrices"] / 2 + noisy["matrices"].swapaxes(1, 2) / 2)
    for name, data in (("noisy", noisy), ("part", part)):
        np.savez(tmp_path / f"{name}.npz", **data)
    for backbone in few(("tangent", "mlp", "linear", "spdnet"), 2):
        with tally.attempt(backbone):
            states = []
            for name in ("noisy", "part"):
                options = ["--backbone", backbone, "--epochs", "2", "--out", tmp_path / f"{backbone} {name}", "--quiet"]
                code, _, said = call("train", tmp_path / f"{name}.npz", *options)
                assert code == 0, said
                states.append(load_model(tmp_path / f"{backbone} {name}").model.state)
            assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])
    hashes = {}
    for name in ("noisy", "part"):
        spec = write_spec(tmp_path / f"{name}.toml", tmp_path / f"{name}.npz")
        assert call("study", "run", spec, "--out", tmp_path / name, "--processes", "0", "--quiet")[0] == 0
        store = open_study(tmp_path / name).store
        hashes[name] = {key: store.read(key) for key in store.done()}
    for key, record in hashes["noisy"].items():
        with tally.attempt(key):
            (step,) = record.body["notes"]["preparation"]
            assert step["step"] == "symmetrise"
            assert 1e-10 < step["largest_gap"] < 1e-8
    scores = [sorted(str(r.body["scores"]) for r in hashes[name].values()) for name in hashes]
    with tally.attempt("scores"):
        assert scores[0] == scores[1]


def singular(m: Any) -> None:
    """Two people whose matrices have rank 1 and 2, with all edges defined."""
    for k in (3, 7):
        x = np.random.default_rng(k).normal(size=(k // 3, 5))
        scale = np.sqrt((x * x).sum(0))
        m[k] = (x / scale).T @ (x / scale)


def indefinite(m: Any) -> None:
    for k in (3, 7):
        m[k] = np.full((5, 5), -0.6 - k / 100)
        np.fill_diagonal(m[k], 1.0)


@pytest.mark.fault(8)
@pytest.mark.parametrize("what", [singular, indefinite])
def test_what_is_not_positive_definite_is_never_repaired_unasked(
    what: Callable[[Any], object], tmp_path: Path, models: dict[str, Path], tally: Tally
) -> None:
    np.savez(tmp_path / "bad.npz", **matrices(what))
    commands = {
        "tangent": ["train", tmp_path / "bad.npz", "--backbone", "tangent", "--out", tmp_path / "m"],
        "spdnet": [
            "train",
            tmp_path / "bad.npz",
            "--backbone",
            "spdnet",
            "--augment",
            "rmixup",
            "--out",
            tmp_path / "m",
        ],
        "predict": ["predict", models["matrices"], tmp_path / "bad.npz", "-o", tmp_path / "p.tsv"],
    }
    for command, arguments in commands.items():
        with tally.attempt(command):
            code, _, said = call(*arguments)
            is_refusal(code, said, "positive definite", *(OFFENDERS if command != "spdnet" else OFFENDERS[:0]))
            assert not (tmp_path / "m").exists()
    asked = [
        "train",
        tmp_path / "bad.npz",
        "--backbone",
        "tangent",
        "--regularize",
        "floor=1e-3",
        "--out",
        tmp_path / "m",
    ]
    with tally.attempt("asked for"):
        assert call(*asked)[0] == 0
        assert load_model(tmp_path / "m").preparation.regularize == "floor=0.001"
    spec = write_spec(tmp_path / "s.toml", tmp_path / "bad.npz")
    with tally.attempt("study"):
        code, _, said = call("study", "run", spec, "--out", tmp_path / "study", "--processes", "0")
        assert code == 1
        failures = open_study(tmp_path / "study").store.failures().values()
        assert failures
        assert all("positive" in one.message for one in failures)


@pytest.mark.fault(9)
def test_every_series_counts_with_all_its_frames(tmp_path: Path, tally: Tally) -> None:
    def cut(s: Any) -> None:
        for k in range(40):
            s[k] = s[k][: 6 + k % 20]

    data = series(cut)
    np.savez(tmp_path / "unequal.npz", **data)
    ds = rmixup.load(tmp_path / "unequal.npz").connectivity("correlation")
    for k in range(40):
        with tally.attempt(IDS[k]):
            np.testing.assert_allclose(ds.matrices[k], np.corrcoef(data[f"series_{k}"].T), atol=1e-12)
    with tally.attempt("train"):
        assert call("train", tmp_path / "unequal.npz", "--backbone", "linear", "--out", tmp_path / "m")[0] == 0


def _people(folder: Path, order: Iterator[int] | list[int]) -> Path:
    """A folder with a file a person, and a table of labels in this order."""
    folder.mkdir()
    for name, matrix in zip(IDS, COHORT.matrices, strict=True):
        np.savetxt(folder / f"{name}.csv", matrix, delimiter=",")
    rows = [f"{IDS[k]},{COHORT.label_names()[k]}" for k in order]
    (folder / "participants.csv").write_text("\n".join(["participant_id,diagnosis", *rows]) + "\n")
    return folder


@pytest.mark.fault(11)
def test_a_shuffled_table_gives_the_same_results(tmp_path: Path, tally: Tally) -> None:
    """The data, the model and its predictions, whatever the order of the table."""
    told = []
    for name, order in (("sorted", list(range(40))), ("shuffled", np.random.default_rng(0).permutation(40).tolist())):
        source = _people(tmp_path / name, order)
        assert call("import", source, tmp_path / f"{name} ds", "--target", "diagnosis")[0] == 0
        ds = rmixup.load(tmp_path / f"{name} ds")
        call("train", tmp_path / f"{name} ds", "--backbone", "linear", "--out", tmp_path / f"{name} m")
        call("predict", tmp_path / f"{name} m", tmp_path / f"{name} ds", "-o", tmp_path / f"{name}.tsv")
        told.append((ds.subjects.tolist(), ds.y.tolist(), (tmp_path / f"{name}.tsv").read_text()))
    for one, other in zip(*told, strict=True):
        with tally.attempt("order"):
            assert one == other
            assert one


@pytest.mark.fault(11)
def test_people_without_labels_and_labels_without_people_are_named(tmp_path: Path, tally: Tally) -> None:
    source = _people(tmp_path / "few", list(range(2, 40)))
    with (source / "participants.csv").open("a") as file:
        file.write("a stranger,x\n")
    with tally.attempt("missing"):
        code, _, said = call("import", source, tmp_path / "ds", "--target", "diagnosis")
        is_refusal(code, said, IDS[0], IDS[1])
        assert not (tmp_path / "ds").exists()


@pytest.mark.fault(12)
def test_a_model_takes_its_nodes_by_name_and_no_others(tmp_path: Path, tally: Tally) -> None:
    names = np.array(["a", "b", "c", "d", "e"])
    np.savez(tmp_path / "named.npz", **matrices(nodes=names))
    assert call("train", tmp_path / "named.npz", "--backbone", "linear", "--out", tmp_path / "m")[0] == 0
    found = []
    for order in ([0, 1, 2, 3, 4], [4, 2, 0, 1, 3]):
        turned = np.array(COHORT.matrices)[:, order][:, :, order]
        np.savez(tmp_path / "turned.npz", **matrices(matrices=turned, nodes=names[order]))
        assert call("predict", tmp_path / "m", tmp_path / "turned.npz", "-o", tmp_path / "p.tsv", "--overwrite")[0] == 0
        found.append((tmp_path / "p.tsv").read_text())
    with tally.attempt("another order"):
        assert found[0] == found[1]
    np.savez(tmp_path / "other.npz", **matrices(nodes=np.array(["a", "b", "c", "d", "x"])))
    with tally.attempt("another atlas"):
        code, _, said = call("predict", tmp_path / "m", tmp_path / "other.npz", "-o", tmp_path / "q.tsv")
        is_refusal(code, said, "other nodes than the model", "e", "x")


@pytest.mark.fault(13)
def test_one_class_only_is_refused_or_told_cell_by_cell(tmp_path: Path, tally: Tally) -> None:
    np.savez(tmp_path / "one.npz", **matrices(y=np.array(["a"] * 40)))
    with tally.attempt("train"):
        code, _, said = call("train", tmp_path / "one.npz", "--out", tmp_path / "m")
        is_refusal(code, said, "same label")
    with tally.attempt("study"):
        spec = write_spec(tmp_path / "s.toml", tmp_path / "one.npz")
        assert call("study", "run", spec, "--out", tmp_path / "study", "--processes", "0")[0] == 1
        store = open_study(tmp_path / "study").store
        assert not store.done()
        assert all("one class" in one.message or "two classes" in one.message for one in store.failures().values())
