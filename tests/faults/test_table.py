"""The table of faults itself: every fault is provoked here or elsewhere, and what it names is there."""

import ast
import re
from pathlib import Path

import pytest
from table import FAULTS, NUMBERS

HERE = Path(__file__).parent


def _functions(path: Path) -> dict[str, ast.FunctionDef]:
    return {node.name: node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)}


@pytest.mark.fault(None)
def test_every_test_that_is_named_is_there() -> None:
    missing = []
    for node in NUMBERS:
        file, _, name = node.partition("::")
        if name not in _functions(HERE.parents[1] / file):
            missing.append(node)
    assert missing == []


@pytest.mark.fault(None)
def test_every_fault_is_provoked() -> None:
    sources = [path.read_text() for path in HERE.glob("test_*.py")]
    here = {int(number) for text in sources for number in re.findall(r"mark\.fault\((\d+)\)", text)}
    elsewhere = {number for number, fault in FAULTS.items() if fault.elsewhere}
    assert here | elsewhere >= set(FAULTS)
    assert set(FAULTS) == set(range(1, 31))
