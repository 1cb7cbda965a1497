"""The bench of the step: what its rows hold, not how fast this machine is."""

import json
import sys

import pytest

from rmixup.bench import show, spd

# pyRiemann 0.12 calls a function that array-api-extra has deprecated since.
pytestmark = pytest.mark.filterwarnings("ignore:.*expand_dims.*:DeprecationWarning")


@pytest.fixture(scope="module")
def rows():
    return spd.table(sizes=(24,), batches=(4,), seconds=0.01)


def test_every_method_has_a_row(rows):
    methods = {row["method"] for row in rows}
    assert {spd.BASELINE, "paper step", "matrix_exp", "rmixup", "vmixup", "log product float64"} <= methods
    assert all(row["n"] == 24 for row in rows)
    assert json.loads(json.dumps(rows)) == rows
    assert "rmixup" in show({"machine": "this one", "rows": rows})


def test_ratio_is_against_the_stated_baseline(rows):
    seconds = {row["method"]: row["seconds"] for row in rows}
    for row in rows:
        assert row["ratio"] == pytest.approx(seconds[row["baseline"]] / row["seconds"])


def test_errors_are_small_where_the_method_is_right(rows):
    error = {row["method"]: row["error"] for row in rows}
    assert error["rmixup"] < 1e-5
    assert error["rmixup without bounds"] < 1e-5
    assert error["log product float64"] < 1e-9
    assert error["pyriemann"] < 1e-5


def test_a_missing_pyriemann_is_a_row_with_a_reason(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyriemann.geometry.geodesic", None)
    rows = spd.table(sizes=(4,), batches=(2,), seconds=0.001)
    (skipped,) = [row for row in rows if row["method"].startswith("pyriemann")]
    assert "not installed" in skipped["method"]
    assert skipped["seconds"] is None


def test_quick_is_smaller(monkeypatch):
    asked = []
    monkeypatch.setattr(spd, "table", lambda *arguments: asked.append(arguments) or [])
    spd.rows(quick=True)
    spd.rows()
    assert asked[0][0] == (50, 100)
    assert asked[1][0] == (50, 100, 200, 360)
    assert asked[1][1] == (16, 128)
