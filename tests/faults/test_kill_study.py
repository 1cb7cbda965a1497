"""SIGKILL at any moment of a study loses nothing: a resumed study has the hashes of an uninterrupted one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import sgd_work
from tally import Tally

from rmixup import simulate
from rmixup.study import work
from rmixup.study.project import Settings, Study, begin
from rmixup.study.spec import parse_spec

HERE = Path(__file__).parent
PATHS = os.pathsep.join([str(HERE), str(HERE.parent / "study")])
ENVIRONMENT = {**os.environ, "PYTHONPATH": PATHS, "OMP_NUM_THREADS": "1"}
# The 8 cells of a small study, in 4 stacks, take a few more changes of files than this.
CALLS = 140


def _kill_runs(study: Study, tally: Tally, *how: object) -> dict[str, int]:
    command = [sys.executable, str(HERE / "kill_runs.py"), str(study.folder), *map(str, how)]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, check=False)
    assert done.returncode == 0, done.stderr
    found = dict(json.loads(done.stdout))
    tally.count(found["tries"], found["lost"], "other hashes or leftovers")
    return found


@pytest.mark.fault(1)
@pytest.mark.timeout(900)
def test_kills_at_random_moments_lose_nothing(make_study: sgd_work.Make, tally: Tally) -> None:
    tries = tally.many(8, 100)
    found = _kill_runs(make_study(), tally, "random", tries)
    assert found["partial"] >= tries // 2


@pytest.mark.fault(1)
@pytest.mark.timeout(900)
def test_kills_in_front_of_every_change_of_a_file_lose_nothing(make_study: sgd_work.Make, tally: Tally) -> None:
    """Claiming, heartbeats, each file of a cell, its rename, failures, giving back: every step, one after the other."""
    study = make_study(repeats=2)
    found = _kill_runs(study, tally, "calls", tally.many(8, 0), CALLS)
    assert found["left_over"] >= found["tries"] // 3
    assert found["tries"] >= CALLS or not tally.full


@pytest.mark.fault(1)
@pytest.mark.timeout(900)
def test_kills_of_real_training_lose_nothing(tmp_path: Path, tally: Tally) -> None:
    """Networks that are augmented and trained by gradients, with their weights kept."""
    source = simulate(n_subjects=40, n_nodes=5, n_frames=30).save(tmp_path / "cohort")
    text = (
        f"keep_weights = true\ndata.path = {str(source)!r}\nsplit.repeats = {tally.many(1, 3)}\nprotocol.epochs = 2\n"
    )
    text += "grid.methods = ['none', 'rmixup']\ngrid.backbones = [{name = 'mlp', hidden = [4]}]"
    spec = parse_spec(text)
    study = begin(
        tmp_path / "study", spec, work.identify(spec.data), Settings(stack=2, device="cpu"), "rmixup.study.work"
    )
    _kill_runs(study, tally, "random", tally.many(1, 30))
