"""Beginning and continuing a study: what changed is refused by name, or written down."""

import json
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import sgd_work

from rmixup.errors import StoreError
from rmixup.study.files import seal, unseal
from rmixup.study.project import ChangedError, Settings, begin, environment, open_study, resume
from rmixup.study.runner import run
from rmixup.study.status import show, status


def test_a_study_opens_as_it_was_begun(make_study: sgd_work.Make) -> None:
    study = make_study(methods='["none", {name = "mix", alpha = 0.5}]')
    again = open_study(study.folder)
    assert again == study
    assert again.cells == study.cells
    assert "16 cells" in repr(again)
    assert "<th>cells</th><td>16</td>" in again._repr_html_()


def test_a_study_travels_light(make_study: sgd_work.Make) -> None:
    study = make_study(repeats=500)
    assert len(study.cells) == 2000
    sent = pickle.dumps(study)
    assert len(sent) < 5000
    assert pickle.loads(sent).cells == study.cells  # noqa: S301 -- our own bytes, as worker processes get them


def test_a_changed_spec_is_refused_with_all_that_differs_or_written_down(make_study: sgd_work.Make) -> None:
    make_study()
    with pytest.raises(ChangedError) as caught:
        make_study(repeats=5, stack=3)
    assert "split.repeats was 4 and is 5" in str(caught.value)
    assert "settings.stack was 2 and is 3" in str(caught.value)
    study = make_study(repeats=5, allow=True)
    assert study.allowed == ({"split.repeats": {"was": 4, "is": 5}},)
    assert open_study(study.folder) == study
    assert "changed on request: split.repeats" in show(status(study))


def test_changed_data_is_refused_and_if_allowed_old_results_are_not_mixed_in(
    make_study: sgd_work.Make, data_file: Path
) -> None:
    before = make_study()
    run(before, sgd_work.work)
    with np.load(data_file) as file:
        np.savez(data_file, matrices=file["matrices"], y=1 - file["y"])
    with pytest.raises(ChangedError, match="data content was '"):
        make_study()
    after = make_study(allow=True)
    assert status(after)["done"] == 0
    assert run(after, sgd_work.work).complete
    assert len(after.store.done()) == 32


def test_data_that_only_moved_is_accepted_at_its_new_place(make_study: sgd_work.Make, data_file: Path) -> None:
    study = make_study()
    moved = data_file.rename(data_file.with_name("moved.npz"))
    spec = study.spec.model_copy(update={"data": study.spec.data.model_copy(update={"path": str(moved)})})
    data = sgd_work.identify(spec.data)
    assert begin(study.folder, spec, data, study.settings, study.work).spec.data.path == str(moved)
    assert open_study(study.folder).spec.data.path == str(moved)
    assert open_study(study.folder).allowed == ()


@pytest.mark.parametrize("what", ["environment", "work"])
def test_another_environment_or_work_is_refused(make_study: sgd_work.Make, what: str) -> None:
    study = make_study()
    other = {"environment": {"environment": {**environment(), "numpy": "0.1"}}, "work": {"work": "other"}}[what]
    with pytest.raises(ChangedError, match=r"environment.numpy was|work was 'sgd_work' and is 'other'"):
        resume(study, replace(study, **other))  # type: ignore[arg-type]


def test_a_study_of_a_newer_schema_is_refused_before_anything_else(make_study: sgd_work.Make) -> None:
    study = make_study()
    path = study.folder / "study.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema": 2}))
    with pytest.raises(StoreError, match=r"newer rmixup \(schema 2, this one reads 1\)"):
        open_study(study.folder)


def test_a_torn_study_file_is_told_and_deleting_it_keeps_the_cells(make_study: sgd_work.Make) -> None:
    study = make_study()
    run(study, sgd_work.work)
    path = study.folder / "study.json"
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(StoreError, match="torn or was changed"):
        make_study()
    path.unlink()
    assert status(make_study())["done"] == 16


def test_a_study_file_sealed_by_someone_else_is_told(make_study: sgd_work.Make) -> None:
    from rmixup.study.files import seal, unseal

    path = make_study().folder / "study.json"
    body = unseal(path)
    path.write_bytes(seal({**body, "spec": {**body["spec"], "extra": 1}}))
    with pytest.raises(StoreError, match="not one that this version reads"):
        open_study(path.parent)


@pytest.mark.parametrize(
    "changes",
    [
        {"settings": {"stack": "1"}},
        {"settings": {"stack": 0}},
        {"settings": {"speed": 1}},
        {"data": {"sha256": 1, "subjects": 5}},
        {"data": None},
        {"work": None},
        {"environment": 1},
        {"allowed": [1]},
    ],
)
def test_a_study_file_that_is_sealed_and_means_nothing_is_told(
    make_study: sgd_work.Make, changes: dict[str, object]
) -> None:
    study = make_study()
    place = study.folder / "study.json"
    place.write_bytes(seal({**unseal(place), **changes}))
    with pytest.raises(StoreError, match="does not describe a study"):
        open_study(study.folder)


def test_no_study_is_told(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="not found; expected a folder that `rmixup study run` wrote"):
        open_study(tmp_path)


def test_settings_have_the_reproducible_defaults() -> None:
    assert Settings() == Settings(stack=1, threads=1, device="auto")
