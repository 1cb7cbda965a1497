"""`rmixup check`: exit codes, the fixed JSON, the table for people, the picture."""

import json
import subprocess
import sys

import numpy as np
import pytest

from rmixup import simulate
from rmixup.cli import run
from rmixup.data import store


@pytest.fixture
def cohort():
    return simulate(n_subjects=30, n_nodes=6, n_frames=40, n_sites=2)


@pytest.fixture
def folder(cohort, tmp_path):
    return store.save(cohort, tmp_path / "cohort")


@pytest.fixture
def sick(cohort, tmp_path):
    series = [np.array(x) for x in cohort.series]
    series[2][:, 1] = 4.0
    path = tmp_path / "sick.npz"
    np.savez(path, series=np.stack(series), y=cohort.label_names(), subjects=cohort.subjects, nodes=cohort.nodes)
    return path


def test_a_healthy_folder_is_ok(folder, capsys):
    assert run(["check", str(folder)]) == 0
    out = capsys.readouterr().out
    assert "30 networks of 6 nodes: nothing found" in out
    assert out.endswith(f"Ready: split it, train on it.\nNext: rmixup train {folder} --out model\n")


def test_json_is_one_object_with_complete_lists(sick, capsys):
    assert run(["check", str(sick), "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert said["ok"] is False
    constant = next(finding for finding in said["findings"] if finding["code"] == "constant-node")
    assert list(constant) == ["code", "severity", "message", "remedy", "subjects", "nodes"]
    assert (constant["severity"], constant["subjects"], constant["nodes"]) == ("error", ["sub-03"], ["Somatomotor-01"])


def test_people_get_a_table_and_what_to_do_next(sick, capsys):
    assert run(["check", str(sick)]) == 1
    out = capsys.readouterr().out
    assert "constant-node" in out
    assert "who sub-03; nodes Somatomotor-01" in out
    assert "Not ready. Begin with constant-node" in out.splitlines()[-2] + out.splitlines()[-1]
    assert "\x1b" not in out  # no colours but on a terminal


def test_names_that_look_like_markup_are_shown_as_they_are(cohort, tmp_path, capsys):
    path = tmp_path / "x.npz"
    subjects = [f"[red]{k}" for k in range(len(cohort))]
    np.savez(path, matrices=np.array(cohort.matrices) * 2, y=cohort.label_names(), subjects=subjects)
    assert run(["check", str(path)]) == 0
    assert "[red]0" in capsys.readouterr().out


def test_another_target_and_sites_can_be_asked_for(folder, capsys):
    assert run(["check", str(folder), "--target", "sex", "--groups", "sex", "--json"]) == 0
    codes = {finding["code"] for finding in json.loads(capsys.readouterr().out)["findings"]}
    assert {"label-confounded-with-site", "one-class-site"} <= codes


def test_the_picture_is_written(folder, tmp_path, capsys):
    assert run(["check", str(folder), "--figure", str(tmp_path / "new" / "health.png")]) == 0
    assert (tmp_path / "new" / "health.png").read_bytes().startswith(b"\x89PNG")
    assert "Wrote" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "nowhere"),
        (["{folder}", "--figure", "health.bmp"], ".png, .svg, .pdf"),
        (["{folder}", "--target", "IQ"], "no column IQ"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(folder, capsys, arguments, words):
    assert run(["check", *(a.format(folder=folder) for a in arguments)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.strip().splitlines()) == 1
    assert words in said.err


@pytest.mark.parametrize("name", [".", "dataset.json"])
def test_checksums_of_a_folder_are_verified(folder, capsys, name):
    with (folder / "matrices.npy").open("r+b") as file:
        file.seek(-3, 2)
        file.write(b"\x01")
    assert run(["check", str(folder / name)]) == 2
    assert "matrices.npy does not have the checksum" in capsys.readouterr().err


def test_neither_the_check_nor_its_picture_needs_torch(folder, tmp_path):
    code = (
        "import sys; from rmixup.cli import run; "
        f"assert run(['check', {str(folder)!r}, '--figure', {str(tmp_path / 'h.svg')!r}]) == 0; "
        "sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
