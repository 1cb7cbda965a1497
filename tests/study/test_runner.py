"""The runner gives the same results whatever happens: order, processes, other runners, dying workers, faults."""

import json
import os
import random
import shutil
import threading
from dataclasses import replace
from typing import Any

import pytest
import sgd_work

from rmixup.errors import StoreError
from rmixup.study import runner
from rmixup.study.executors import InProcess, Processes, executor_for
from rmixup.study.project import Study
from rmixup.study.runner import run
from rmixup.study.status import show, status


@pytest.fixture
def reference(make_study: sgd_work.Make) -> dict[str, str]:
    """Hashes of the study run in one go."""
    study = make_study("reference")
    assert run(study, sgd_work.work).complete
    return study.store.hashes()


def test_a_study_runs_to_its_end_and_a_second_run_does_nothing(make_study: sgd_work.Make) -> None:
    events: list[dict[str, Any]] = []
    study = make_study()
    summary = run(study, sgd_work.work, listener=events.append)
    assert (summary.total, summary.done, summary.failed, summary.complete) == (16, 16, 0, True)
    assert [event["event"] for event in events] == ["start", *["cell"] * 16, "end"]
    assert events[-2]["settled"] == events[-2]["total"] == 16
    assert events[-2]["seconds_left"] == 0
    events.clear()
    assert run(study, sgd_work.work, listener=events.append).complete
    assert [event["event"] for event in events] == ["start", "end"]
    assert not list(study.store.claims.folder.iterdir())


def test_one_process_two_and_none_give_the_same(make_study: sgd_work.Make, reference: dict[str, str]) -> None:
    for count in (1, 2):
        study = make_study(f"with {count}")
        assert run(study, sgd_work.work, Processes(sgd_work.work, study, count)).complete
        assert study.store.hashes() == reference
        threads = {study.store.read(key).environment["threads"] for key in reference}
        assert threads == {"1"}


def test_the_order_of_cells_changes_nothing(make_study: sgd_work.Make, reference: dict[str, str]) -> None:
    study = make_study()
    random.Random(0).shuffle(study.cells)
    assert run(study, sgd_work.work).complete
    assert study.store.hashes() == reference


def test_deleted_cells_are_redone_the_same(make_study: sgd_work.Make, reference: dict[str, str]) -> None:
    study = make_study("reference")
    for key in random.Random(1).sample(sorted(reference), 7):
        shutil.rmtree(study.store.cells / key)
    events: list[dict[str, Any]] = []
    assert run(study, sgd_work.work, listener=events.append).complete
    assert sum(event["event"] == "cell" for event in events) == 7
    assert study.store.hashes() == reference


def test_two_runners_share_a_study_and_do_each_cell_once(make_study: sgd_work.Make, reference: dict[str, str]) -> None:
    study = make_study(methods='["none", "mix"]')
    done: list[list[str]] = [[], []]

    def slow(group: Any, study: Study) -> Any:
        threading.Event().wait(0.02)
        return sgd_work.work(group, study)

    def take(k: int) -> None:
        run(study, slow, listener=lambda event: done[k].append(event["key"]) if event["event"] == "cell" else None)

    threads = [threading.Thread(target=take, args=(k,)) for k in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert done[0]
    assert done[1]
    assert sorted(done[0] + done[1]) == sorted(reference)
    assert study.store.hashes() == reference


def test_a_worker_that_dies_is_replaced_and_its_stack_run_again(make_study: sgd_work.Make) -> None:
    events: list[dict[str, Any]] = []
    study = make_study(methods='["none", {name = "mix", fault = "die once"}]', repeats=2)
    assert run(study, sgd_work.work, Processes(sgd_work.work, study, 1), events.append).complete
    lost = [event for event in events if event["event"] == "lost"]
    assert [event["attempt"] for event in lost] == [2]
    assert "SIGKILL" in lost[0]["why"]


def test_a_stack_that_kills_its_workers_is_given_up_and_said_so(make_study: sgd_work.Make) -> None:
    study = make_study(methods='[{name = "mix", fault = "die"}]', repeats=1, stack=1)
    summary = run(study, sgd_work.work, Processes(sgd_work.work, study, 2))
    assert (summary.total, summary.done, summary.failed) == (3, 2, 1)
    (failure,) = study.store.failures().values()
    assert failure.reason == "worker died"
    assert f"{runner.ATTEMPTS} times" in failure.message


@pytest.mark.parametrize(
    ("fault", "reason", "message"),
    [
        ("raise", "exception", "ValueError: asked to"),
        ("diverge", "divergence", "predictions are not finite in column 'p'"),
        ("declare", "divergence", "loss was inf in epoch 2"),
    ],
)
def test_a_failed_cell_is_recorded_and_the_others_go_on(
    make_study: sgd_work.Make, fault: str, reason: str, message: str
) -> None:
    study = make_study(methods=f'["none", {{name = "mix", fault = "{fault}"}}]', repeats=2, stack=1)
    events: list[dict[str, Any]] = []
    summary = run(study, sgd_work.work, listener=events.append)
    assert (summary.done, summary.failed, summary.complete) == (6, 2, False)
    assert {(f.reason, f.message) for f in study.store.failures().values()} == {(reason, message)}
    assert {event["reason"] for event in events if event.get("state") == "failed"} == {reason}
    found = status(study)
    assert (found["done"], found["failed"], found["missing"]) == (6, 2, 0)
    assert f"{reason}: {message}" in show(found)


def test_failed_cells_are_left_alone_unless_they_are_to_be_tried_again(make_study: sgd_work.Make) -> None:
    study = make_study(methods='[{name = "mix", fault = "raise"}]', repeats=1)
    events: list[dict[str, Any]] = []
    run(study, sgd_work.work)
    run(study, sgd_work.work, listener=events.append)
    assert [event["event"] for event in events] == ["start", "end"]
    assert run(study, _healed, retry_failed=True).complete
    assert study.store.failures() == {}


def _healed(group: Any, study: Study) -> Any:
    """The work after its fault was mended."""
    mended = [replace(cell, method=replace(cell.method, options=())) for cell in group]
    return zip(group, (outcome for _, outcome in sgd_work.work(mended, study)), strict=True)


def test_a_work_that_forgets_cells_or_returns_nonsense_fails_those_cells(make_study: sgd_work.Make) -> None:
    study = make_study(methods='["none"]', repeats=2, stack=4)

    def forgetful(group: Any, study: Study) -> Any:
        first, *_ = sgd_work.work(group, study)
        cell, result = first
        yield cell, replace(result, notes={"bad": float("nan")})

    run(study, forgetful)
    assert sorted(f.reason for f in study.store.failures().values()) == ["invalid result"] * 3 + ["no result"] * 3


def test_a_damaged_cell_is_moved_aside_and_redone(make_study: sgd_work.Make, reference: dict[str, str]) -> None:
    study = make_study("reference")
    key = min(reference)
    (study.store.cells / key / "predictions.tsv").write_text("torn")
    events: list[dict[str, Any]] = []
    assert run(study, sgd_work.work, listener=events.append).complete
    assert [event["key"] for event in events if event["event"] == "quarantine"] == [key]
    assert study.store.hashes() == reference
    assert (study.store.quarantine / f"{key}.0" / "predictions.tsv").read_text() == "torn"


def test_a_full_disk_stops_the_run_and_leaves_nothing_half(
    make_study: sgd_work.Make, reference: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk fills up after 40 files; `os.fsync` is where a real disk says so."""
    study, calls, real = make_study(), iter(range(10_000)), os.fsync

    def full(handle: int) -> None:
        if next(calls) > 40:
            raise OSError(28, "No space left on device")
        real(handle)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match=r"could not write \d+ bytes \(No space left on device\)"):
        run(study, sgd_work.work)
    monkeypatch.undo()
    done = study.store.hashes()
    assert 0 < len(done) < len(reference)
    assert not list(study.folder.rglob(".tmp-*"))
    assert not list(study.store.claims.folder.iterdir())
    assert run(study, sgd_work.work).complete
    assert study.store.hashes() == reference


def test_executor_for_follows_the_options(make_study: sgd_work.Make) -> None:
    study = make_study(repeats=1)
    assert isinstance(executor_for(sgd_work.work, study, 0), InProcess)
    assert executor_for(sgd_work.work, study, 3).room() == 3


def test_status_of_a_fresh_study_and_of_one_at_work(make_study: sgd_work.Make) -> None:
    study = make_study()
    fresh = status(study)
    assert (fresh["total"], fresh["done"], fresh["missing"], fresh["seconds_left"]) == (16, 0, 16, None)
    stack = study.stacks[0]
    assert study.store.claims.take(stack.key, [cell.key for cell in stack.cells])
    (claim,) = status(study)["claims"]
    assert status(study)["running"] == len(stack.cells)
    assert f"process {claim['pid']}" in show(status(study))
    assert json.loads(json.dumps(status(study)))["running"] == len(stack.cells)


def test_hostile_names_come_back_exactly_and_never_become_paths(make_study: sgd_work.Make) -> None:
    study = make_study()
    run(study, sgd_work.work)
    seen = {name for key in study.store.done() for name in study.store.read(key).predictions["subject"]}
    assert set(sgd_work.SUBJECT_NAMES) <= seen
    known = {"predictions.tsv", "curves.tsv", "timings.json", "environment.json", "result.json", "study.json"}
    assert {path.name for path in study.folder.rglob("*") if path.is_file()} == known
