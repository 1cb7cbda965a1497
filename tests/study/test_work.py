"""The real work: cells trained on real networks, through the whole pipeline."""

import itertools
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from rmixup import Networks, simulate
from rmixup.errors import DataError, FormatError
from rmixup.study import material, work
from rmixup.study.cells import Cell
from rmixup.study.executors import Processes
from rmixup.study.project import Settings, Study, begin
from rmixup.study.runner import run
from rmixup.study.spec import parse_spec
from rmixup.study.tables import cell_table, settings
from rmixup.train import trial

SPEC = """
name = "tiny"
keep_weights = true
{data}
[split]
repeats = 2
{split}
[protocol]
epochs = 2
{protocol}
[grid]
methods = {methods}
backbones = [{{name = "mlp", hidden = [8]}}]
{grid}
"""
Make = Callable[..., Study]


@pytest.fixture(scope="module")
def cohort() -> Networks:
    """60 people of two sites, 6 nodes, with series."""
    return simulate(n_subjects=60, n_nodes=6, n_frames=40, n_sites=2, effect=3.0)


@pytest.fixture
def make(tmp_path: Path, cohort: Networks) -> Make:
    """Begin a study on the cohort, or on another."""

    def build(name: str = "study", ds: Networks | None = None, stack: int = 2, **parts: str) -> Study:
        source = tmp_path / f"{name}-data"
        (cohort if ds is None else ds).save(source, overwrite=True)
        data = f"[data]\npath = {str(source)!r}\n" + parts.pop("data", "")
        blank = {"split": "", "protocol": "learning_rate = 1e-3", "grid": "", "methods": '["none", "rmixup"]'}
        text = SPEC.format(**{"data": data, **blank, **parts})
        spec = parse_spec(text)
        work.check(spec)
        return begin(tmp_path / name, spec, work.identify(spec.data), Settings(stack, 1, "cpu"), "rmixup.study.work")

    return build


def _ran(study: Study, executor: Any = None) -> dict[str, str]:
    assert run(study, work.work, executor).complete, study.store.failures()
    return study.store.hashes()


def _cells(study: Study, **wanted: Any) -> list[Cell]:
    return [cell for cell in study.cells if all(getattr(cell, name) == value for name, value in wanted.items())]


def test_a_study_of_networks_from_spec_to_verdict(make: Make, cohort: Networks) -> None:
    study = make()
    _ran(study)
    (setting,) = settings(study)
    assert [row.method for row in setting.rows] == ["none", "rmixup", "linear", "tangent"]
    assert all(np.isfinite(row.mean) for row in setting.rows)
    record = study.store.read(study.cells[0].key)
    told = record.predictions
    assert list(told) == ["subject", "group", "truth", "p_class-1", "p_class-2"]
    truth = dict(zip(cohort.subjects.tolist(), cohort.label_names().tolist(), strict=True))
    assert told["truth"] == [truth[name] for name in told["subject"]]
    assert np.allclose(np.add(told["p_class-1"], told["p_class-2"]), 1)
    assert record.sizes == {"train": 42, "validation": 6, "test": 12}
    assert set(record.scores) == {name for known in record.scores for name in (known.removesuffix("_last"), known)}
    assert (record.notes["epochs"], record.notes["selected_by"]) == (2, "auroc")
    assert record.notes["preparation"][0]["kind"] == "correlation"
    assert len(record.curves["train_loss"]) == 2
    assert record.weights()
    told_right = (np.array(told["p_class-2"]) > 0.5) == (np.array(told["truth"]) == "class-2")
    assert record.scores["accuracy"] == pytest.approx(told_right.mean())


def test_two_processes_shuffled_cells_and_other_stacks_give_the_same(make: Make) -> None:
    expected = _ran(make("a"))
    study = make("two")
    assert _ran(study, Processes(work.work, study, 2)) == expected
    shuffled = make("shuffled", stack=1)
    random.Random(0).shuffle(shuffled.cells)
    assert _ran(shuffled) == expected


def test_test_people_and_their_labels_change_nothing_that_is_trained(make: Make, cohort: Networks) -> None:
    """The test networks are NaN and their labels another's: the weights of every epoch are the same, bit by bit."""
    plain = make("plain", split='stratify = "none"', grid="baselines = []")
    _ran(plain)
    hurt = 0
    for repeat in range(2):
        test = np.array(work.as_trial(plain.spec.data, _cells(plain, repeat=repeat)[0]).test)
        matrices, y = np.array(cohort.matrices), np.array(cohort.y)
        matrices[test], y[test] = np.nan, 1 - y[test]
        canary = Networks(matrices, y, cohort.subjects, cohort.groups, cohort.nodes, classes=cohort.classes)
        bare = Networks(cohort.matrices, cohort.y, cohort.subjects, cohort.groups, cohort.nodes, classes=cohort.classes)
        found = []
        for name, ds in (("bare", bare), ("canary", canary)):
            study = make(f"{name}{repeat}", ds, split='stratify = "none"', grid="baselines = []")
            data, cells = study.spec.data, _cells(study, repeat=repeat)
            made = material.material(data, cells[0])
            trials = [work.as_trial(data, cell) for cell in cells]
            found.append(dict(trial.run(made.problem, trials, "cpu")))
        for place, clean in found[0].items():
            dirty = found[1][place]
            assert clean.state.keys() == dirty.state.keys()
            assert all(np.array_equal(clean.state[name], dirty.state[name]) for name in clean.state)
            assert not np.isfinite(dirty.predictions).any()
            hurt += 1
    assert hurt == 4


def test_the_identity_follows_the_content_and_nothing_else(make: Make, cohort: Networks, tmp_path: Path) -> None:
    one = make("one").data
    cohort.save(tmp_path / "moved")
    spec = parse_spec(f'data.path = "{tmp_path}/moved"\ngrid.methods = ["none"]')
    assert work.identify(spec.data) == one
    matrices = np.array(cohort.matrices)
    matrices[3, 0, 1] = matrices[3, 1, 0] = 0.1234
    assert make("other", cohort.with_matrices(matrices, "touched")).data.sha256 != one.sha256
    zero = parse_spec(f'data.path = "{tmp_path}/moved"\ndata.options.constant = "zero"\ngrid.methods = ["none"]')
    assert work.identify(zero.data).sha256 != one.sha256


def test_data_that_changed_under_a_study_is_read_anew(make: Make, cohort: Networks) -> None:
    before = make("one", cohort).data.sha256
    half = cohort[:40]
    assert make("one-more", half).data.subjects == 40
    assert make("again", cohort).data.sha256 == before


def test_smaller_training_sets_lie_in_larger_ones_and_keep_their_classes(make: Make, cohort: Networks) -> None:
    study = make(grid="train_sizes = [0.1, 0.35, 0.5, 1.0]")
    for repeat in range(2):
        sides = [
            material.rows(study.spec.data, cell)
            for cell in _cells(study, repeat=repeat)
            if cell.method.name == "rmixup"
        ]
        assert [len(side.train) for side in sides] == [4, 15, 21, 42]
        for small, large in itertools.pairwise(sides):
            assert set(small.train) < set(large.train)
            assert np.array_equal(small.test, large.test)
        assert all(abs(cohort.y[side.train].mean() - 0.5) <= 1 / len(side.train) for side in sides)
    other = {tuple(material.rows(study.spec.data, cell).test) for cell in study.cells}
    assert len(other) == 2  # one test part a repeat, the same for every method and size


def test_lengths_are_first_frames_or_block_means(make: Make, cohort: Networks) -> None:
    first = make("first", grid='lengths = [10, 20]\nshorten = "first"')
    mean = make("mean", grid="lengths = [10]")
    cell, longer = _cells(first, length=10)[0], _cells(first, length=20)[0]
    series = cohort.series
    assert series is not None
    expected = np.corrcoef(series[5][:10].T)
    assert np.allclose(material.material(first.spec.data, cell).problem.x[5], expected, atol=1e-6)
    assert not np.allclose(material.material(first.spec.data, longer).problem.x[5], expected, atol=1e-3)
    blocks = series[5].reshape(10, 4, 6).mean(1)
    averaged = material.material(mean.spec.data, _cells(mean, length=10)[0])
    assert np.allclose(averaged.problem.x[5], np.corrcoef(blocks.T), atol=1e-6)
    assert _ran(mean)


def test_what_needs_series_is_refused_of_matrices(make: Make, cohort: Networks) -> None:
    bare = Networks(cohort.matrices, cohort.y, cohort.subjects, cohort.groups)
    study = make("bare", bare, grid="lengths = [10]")
    assert not run(study, work.work).complete
    (failure,) = {(f.reason, f.message) for f in study.store.failures().values()}
    assert "lengths need series" in failure[1]


def test_too_short_series_are_named(make: Make, cohort: Networks) -> None:
    study = make(grid="lengths = [41]")
    run(study, work.work)
    assert all("60 of 60 series have fewer than 41 frames" in f.message for f in study.store.failures().values())


@pytest.mark.parametrize(("scheme", "cells"), [("kfold", 2 * 3 * 4), ("leave-group-out", 2 * 2 * 4)])
def test_every_scheme_tests_everybody_once_a_repeat(make: Make, cohort: Networks, scheme: str, cells: int) -> None:
    study = make(split=f'scheme = "{scheme}"\nfolds = 3')
    assert len(study.cells) == cells
    parts = [
        material.rows(study.spec.data, cell).test for cell in _cells(study, repeat=1) if cell.method.name == "rmixup"
    ]
    assert sorted(np.concatenate(parts)) == list(range(len(cohort)))
    if scheme == "leave-group-out":
        assert [set(cohort.groups[part]) for part in parts] == [{"site-1"}, {"site-2"}]  # type: ignore[index]


def test_repeat_r_is_the_public_split_of_seed_plus_r(make: Make, cohort: Networks) -> None:
    study = make(split="seed = 4")
    _, _, test = cohort.split(seed=5)
    at = material.rows(study.spec.data, _cells(study, repeat=1)[0]).test
    assert cohort.subjects[at].tolist() == test.subjects.tolist()


def test_one_method_that_is_refused_fails_alone_in_its_stack(make: Make, cohort: Networks) -> None:
    """Twenty frames of nodes that copy each other: no logarithm; the other methods go on."""
    series = [np.concatenate([x, x[:, :1]], 1) for x in cohort.series]  # type: ignore[union-attr]
    study = make("singular", Networks(None, cohort.y, cohort.subjects, series=series), stack=40)
    summary = run(study, work.work)
    failed = {str(cell.method) for cell in study.cells if study.store.has_failed(cell.key) and not cell.is_baseline}
    assert failed == {"rmixup"}
    assert summary.done >= 4
    reasons = {f.reason for f in study.store.failures().values()}
    assert reasons == {"refused"}


def test_a_floor_on_the_data_reaches_who_takes_logarithms(make: Make, cohort: Networks) -> None:
    """float32 cannot keep an eigenvalue of 1e-6 beside large ones, so the method floors again."""
    series = [np.concatenate([x, x[:, :1]], 1) for x in cohort.series]  # type: ignore[union-attr]
    singular = Networks(None, cohort.y, cohort.subjects, series=series)
    study = make("floored", singular, data='regularize = "floor=1e-6"')
    _ran(study)
    trials = [work.as_trial(study.spec.data, cell) for cell in study.cells]
    assert {one.method: one.method_options for one in trials} == {"none": {}, "rmixup": {"regularizer": "floor=1e-6"}}
    assert {one.backbone: one.backbone_options for one in trials}["tangent"] == {"regularizer": "floor=1e-6"}
    told = study.store.read(study.cells[0].key).notes["preparation"]
    assert told[-1]["changed"] == 60


def test_a_divergence_is_a_failure_with_its_epoch(make: Make) -> None:
    study = make(protocol="learning_rate = 1e30", grid="baselines = []")
    run(study, work.work)
    messages = {f.message for f in study.store.failures().values()}
    assert all("the training loss was not finite in epoch" in message for message in messages)
    assert messages


def test_numbers_of_several_columns_are_predicted_in_their_units(make: Make, cohort: Networks) -> None:
    table = pd.DataFrame({"a": np.linspace(100, 200, 60), "b": np.linspace(-1, 1, 60)}, index=cohort.subjects.tolist())
    ds = cohort.join(table, target=["a", "b"])
    study = make("numbers", ds, data='target = ["a", "b"]')
    _ran(study)
    told = study.store.read(study.cells[0].key).predictions
    assert list(told) == ["subject", "group", "truth_0", "truth_1", "predicted_0", "predicted_1"]
    assert 90 < np.mean(told["predicted_0"]) < 210
    assert settings(study)[0].score == "mse"


def test_an_undefined_score_is_nan_with_its_reason(make: Make, cohort: Networks) -> None:
    """Class 2 is at site 2 alone: leaving a site out tests on one class."""
    site = np.where(cohort.y == 1, "site-2", "site-1")
    site[:10] = "site-1"
    ds = Networks(cohort.matrices, cohort.y, cohort.subjects, site, classes=cohort.classes)
    study = make("sites", ds, split='scheme = "leave-group-out"\nstratify = "none"', grid="baselines = []")
    run(study, work.work)
    record = study.store.read(_cells(study, fold=1)[0].key)
    assert np.isnan(record.scores["auroc"])
    assert record.notes["undefined"]["auroc"] == "no sample of class 0"
    assert np.isfinite(record.scores["accuracy"])


def test_the_test_loss_is_recorded_where_asked(make: Make) -> None:
    study = make(protocol="learning_rate = 1e-3\nwatch_test = true", grid="baselines = []")
    _ran(study)
    watched = study.store.read(study.cells[0].key)
    assert len(watched.curves["test_loss"]) == 2
    plain = make("plain", grid="baselines = []")
    _ran(plain)
    unwatched = plain.store.read(plain.cells[0].key)
    assert watched.scores == unwatched.scores


@pytest.mark.parametrize(
    ("methods", "said"),
    [
        ('["rmixupp"]', "did you mean 'rmixup'"),
        ('[{name = "rmixup", alhpa = 1}, {name = "dropnode", rate = 2}]', "has no option alhpa.*rate"),
        ('[{name = "rmixup", metric = "eucild"}]', "did you mean 'euclid'"),
    ],
)
def test_wrong_names_and_options_are_refused_before_anything_runs(make: Make, methods: str, said: str) -> None:
    with pytest.raises(FormatError, match=said):
        make(methods=methods)


def test_data_without_labels_and_absent_nodes_are_refused(make: Make, cohort: Networks) -> None:
    with pytest.raises(DataError, match="no labels"):
        make("none", Networks(cohort.matrices))
    with pytest.raises(DataError, match="between 2 and the 6 nodes"):
        run_first(make("many", data="nodes = 9"))


def run_first(study: Study) -> None:
    next(iter(work.work(study.cells[:1], study)))


def test_trials_come_back_from_plain_values(make: Make) -> None:
    study = make()
    made = material.material(study.spec.data, study.cells[0])
    ((_, tried),) = trial.run(made.problem, [work.as_trial(study.spec.data, study.cells[0])], "cpu")
    assert isinstance(tried, trial.Tried)
    values, predictions = tried.to_plain()
    again = trial.Tried.from_plain(json.loads(json.dumps(values)), predictions)
    assert again.scores == tried.scores
    assert again.curves == tried.curves
    assert len(cell_table(study)) == len(study.cells)
