"""The memory of a study of many people: what reads and checks takes a block, what trains a stated multiple."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from commands import ENVIRONMENT, HERE
from tally import Tally

# What a step may take beside the libraries: a block of networks; nothing that grows with people but their names.
BLOCKS = 256 << 20
# What training holds: the networks in float32, their logarithms, and what a batch and a copy take.
COPIES = 5
STEPS = ("import", "check", "identify", "prepare", "mix", "train")


def _measured(folder: Path, people: int, nodes: int, limit: int | None = None) -> dict[str, int]:
    environment = {**ENVIRONMENT, **({} if limit is None else {"RMIXUP_AS": str(limit)})}
    command = [sys.executable, str(HERE / "many_people.py"), str(folder), str(people), str(nodes)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(json.loads(done.stdout.rpartition("@")[2]))


@pytest.mark.fault(29)
@pytest.mark.timeout(900)
def test_a_study_of_many_people_stays_within_its_bound(tmp_path: Path, tally: Tally) -> None:
    """Peaks of resident memory, step by step; 20,000 people of 60 nodes when all is tried."""
    people, nodes = tally.many(1000, 20_000), tally.many(30, 60)
    size = people * nodes * nodes * 4
    found = _measured(tmp_path, people, nodes)
    for step in STEPS:
        with tally.attempt(step):
            allowed = BLOCKS + (COPIES * size if step in {"mix", "prepare", "train"} else size)
            grown = found[step] - found["start"]
            assert grown <= allowed, f"{step}: {grown >> 20} MiB for {size >> 20} MiB of networks"


@pytest.mark.fault(29)
@pytest.mark.timeout(900)
def test_the_address_space_may_be_limited(tmp_path: Path, tally: Tally) -> None:
    """RLIMIT_AS counts what is mapped too: the libraries, the folder, the cache, and the bound."""
    people, nodes = tally.many(500, 20_000), tally.many(30, 60)
    size = people * nodes * nodes * 4
    with tally.attempt(f"{people} people"):
        found = _measured(tmp_path, people, nodes, limit=(6 << 30) + (COPIES + 4) * size)
        assert set(found) == {"start", *STEPS}
