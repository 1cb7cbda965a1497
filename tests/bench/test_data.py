"""The bench of connectivity: it compares like with like."""

import sys

import pytest

from rmixup import DataError
from rmixup.bench import data


def test_both_compute_the_same_and_the_baseline_is_nilearn() -> None:
    found = data.table(data.cohort(3, 10), seconds=0.01)
    assert [row["method"] for row in found[:2]] == ["nilearn correlation", "rmixup correlation"]
    assert len(found) == 2 * len(data.KINDS)
    for theirs, ours in zip(found[::2], found[1::2], strict=True):
        assert theirs["ratio"] == 1
        assert theirs["error"] is None
        assert ours["error"] < 1e-8
        assert ours["ratio"] == pytest.approx(theirs["seconds"] / ours["seconds"])


def test_quick_rows_are_of_the_quick_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "QUICK_COHORTS", {6: 3, 4: 2})
    monkeypatch.setattr(data, "QUICK_SECONDS", 0.01)
    assert {(row["n"], row["batch"]) for row in data.rows(quick=True)} == {(6, 3), (4, 2)}


def test_without_nilearn_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nilearn.connectome", None)
    with pytest.raises(DataError, match=r"pip install rmixup\[neuro\]"):
        data.rows(quick=True)
