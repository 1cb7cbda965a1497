"""Counts what the tests provoke, and prints a row a fault at the end: tries, survived, lost.

A test names its fault with `@pytest.mark.fault(number)`. It counts as one try, or takes the fixture `tally` and tries
often: a try that fails does not hide those after it. `many(ci, full)` says how often: `make faults` sets
RMIXUP_FAULTS=full, the ordinary suite does with a short version.
"""

import csv
import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "study")]  # worker processes import `sgd_work` by name

from small_study import data_file, make_study  # noqa: E402
from table import FAULTS, NUMBERS  # noqa: E402
from tally import FULL, Tally  # noqa: E402

PASSED = pytest.StashKey[bool]()
HEAD = ("", "fault", "tries", "survived", "lost", "tests skipped")
__all__ = ["data_file", "make_study"]
_SHOWN = int(os.environ.get("RMIXUP_SHOWN", "5"))


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Iterator[Tally]:
    """Counts tries; fails at the end if one was lost."""
    made = Tally()
    yield made
    request.node.user_properties.append(("tries", (made.tries, len(made.lost))))
    assert made.tries or not request.node.stash.get(PASSED, False), "the test made no try"
    assert not made.lost, f"{len(made.lost)} of {made.tries} lost:\n  " + "\n  ".join(made.lost[:_SHOWN])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """Let the fixture know whether the test came to its end: one that is skipped makes no try."""
    report = yield
    if report.when == "call":
        item.stash[PASSED] = report.passed
    return report


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "fault(number): which fault of tests/faults/table.py is provoked")


@pytest.fixture(autouse=True)
def _named(request: pytest.FixtureRequest) -> None:
    marker = request.node.get_closest_marker("fault")
    assert marker is not None, "say which fault this test provokes, or None: @pytest.mark.fault(number)"
    if marker.args[0] is None:
        return
    request.node.user_properties += [("fault", marker.args[0]), ("counts", "tally" in request.fixturenames)]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """The table, where more than a few faults were provoked."""
    tries: Counter[int] = Counter()
    lost: Counter[int] = Counter()
    skipped: Counter[int] = Counter()
    groups = ("passed", "failed", "error", "skipped", "")
    for report in [report for group in groups for report in _reports(terminalreporter, group)]:
        told = dict(report.user_properties)
        number = told.get("fault", NUMBERS.get(report.nodeid.partition("[")[0]))
        if number is None:
            continue
        if report.skipped:
            skipped[number] += 1
        elif report.when == "teardown" and "tries" in told:
            tries[number] += told["tries"][0]
            lost[number] += told["tries"][1]
        elif report.when == "call":
            tries[number] += not told.get("counts")
            lost[number] += report.failed
    if len(tries) > 1 or FULL:
        _print(terminalreporter, tries, lost, skipped)


def _reports(terminalreporter: Any, group: str) -> list[Any]:
    return [report for report in terminalreporter.stats.get(group, []) if hasattr(report, "user_properties")]


def _print(terminalreporter: Any, tries: Counter[int], lost: Counter[int], skipped: Counter[int]) -> None:
    rows = [
        (number, fault.name, tries[number], tries[number] - lost[number], lost[number], skipped[number])
        for number, fault in FAULTS.items()
        if tries[number] or skipped[number]
    ]
    if "RMIXUP_FAULTS_TABLE" in os.environ:
        with Path(os.environ["RMIXUP_FAULTS_TABLE"]).open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows([HEAD, *rows])
    terminalreporter.section("faults")
    line = "{:>3}  {:<70} {:>7} {:>9} {:>5}"
    terminalreporter.write_line(line.format(*HEAD[:-1]))
    for *row, left_out in rows:
        terminalreporter.write_line(line.format(*row) + (f"  ({left_out} tests skipped)" if left_out else ""))
    total = sum(tries.values()), sum(tries.values()) - sum(lost.values()), sum(lost.values())
    terminalreporter.write_line(line.format("", "all", *total))
