"""The bench against other packages: both sides do the same job."""

import json

import pytest
import torch

from rmixup.bench import peers
from rmixup.bench.engine import plain_loop
from rmixup.spd import geodesic

pytestmark = pytest.mark.filterwarnings("ignore:.*expand_dims.*:DeprecationWarning")


@pytest.fixture(scope="module")
def rows():
    return peers.table(8, people=12, seconds=0.01)


def test_every_job_has_theirs_first_and_ours_after(rows) -> None:
    jobs: dict[str, list[str]] = {}
    for row in rows:
        job, name = row["method"].split(": ")
        jobs.setdefault(job, []).append(name)
    assert len(jobs) == 6
    for names in jobs.values():
        assert not names[0].startswith("rmixup")
        assert all(name.startswith("rmixup") for name in names[1:])
    assert json.loads(json.dumps(rows)) == rows


def test_ratios_are_to_the_first_of_the_job(rows) -> None:
    first: dict[str, float] = {}
    for row in rows:
        baseline = first.setdefault(row["method"].split(": ")[0], row["seconds"])
        assert row["ratio"] == pytest.approx(baseline / row["seconds"])


def test_where_both_compute_the_same_they_agree(rows) -> None:
    errors = {row["method"]: row["error"] for row in rows if row["error"] is not None}
    assert len(errors) == 4
    assert all(error < 1e-6 for error in errors.values())


def test_the_appendix_step_is_the_log_euclidean_geodesic() -> None:
    S = peers.networks(4, 6)
    mixed = peers._appendix_step(S, S.roll(1, 0), 0.3)
    torch.testing.assert_close(mixed, geodesic(S, S.roll(1, 0), 0.3), rtol=1e-8, atol=1e-10)


def test_a_peer_loop_learns() -> None:
    problem = peers.cohort(8, 16 * 2 + 40)
    asked = []
    epoch = plain_loop(problem, 2, torch.device("cpu"), lambda a, b, lam: asked.append(lam) or torch.lerp(a, b, lam))
    epoch()
    assert len(asked) == 2
