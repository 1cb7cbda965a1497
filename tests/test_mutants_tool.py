"""The tool that changes code finds what tests notice, what they do not, and what none could."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

TOOL = Path(__file__).parents[1] / "tools" / "mutants.py"

CODE = '''
"""A module."""
LIMIT = 3


def smaller(a: int, b: int = 0) -> int:
    """The smaller one."""
    if a < b:
        return a
    return b


def count(n):
    total = 0
    while n > 0:
        n -= 1
        total += 1
    return total


def clipped(x):
    if x is None:
        raise ValueError("no number was given")
    return min(x, LIMIT)


def nobody_asks(x):
    return not x
'''
TESTS = """
import pytest
from tiny import clipped, count, smaller

def test_smaller():
    assert [smaller(1, 2), smaller(3, 2), smaller(1), smaller(-1)] == [1, 2, 0, -1]

def test_count():
    assert count(3) == 3

def test_clipped():
    assert [clipped(2), clipped(5)] == [2, 3]
    with pytest.raises(ValueError):
        clipped(None)
"""
# What no test could tell from the original.
SAME = "smaller: if a < b: -> if a <= b:"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mutants", TOOL)
    assert spec is not None
    assert spec.loader is not None
    sys.modules["mutants"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def keys_of(tool: ModuleType, code: str) -> list[str]:
    return [mutant.key for mutant in tool.mutants_of(code, "src/tiny.py")]


def test_every_kind_of_place_is_changed_in_one_way_at_a_time(tool: ModuleType) -> None:
    assert keys_of(tool, CODE) == [
        "module: LIMIT = 3 -> LIMIT = 4",
        "module: LIMIT = 3 -> LIMIT = 2",
        "smaller: def smaller(a: int, b: int=0) -> int: -> def smaller(a: int, b: int=1) -> int:",
        SAME,
        "smaller: return a -> return",
        "smaller: return b -> return",
        "count: total = 0 -> total = 1",
        "count: while n > 0: -> while n >= 0:",
        "count: while n > 0: -> while n > 1:",
        "count: n -= 1 -> n += 1",
        "count: n -= 1 -> n = 1",
        "count: n -= 1 -> n -= 2",
        "count: n -= 1 -> n -= 0",
        "count: total += 1 -> total -= 1",
        "count: total += 1 -> total = 1",
        "count: total += 1 -> total += 2",
        "count: total += 1 -> total += 0",
        "count: return total -> return",
        "clipped: if x is None: -> if x is not None:",
        "clipped: raise ValueError('no number was given') -> pass",
        "clipped: return min(x, LIMIT) -> return",
        "clipped: return min(x, LIMIT) -> return min(LIMIT)",
        "clipped: return min(x, LIMIT) -> return min(x)",
        "clipped: return min(x, LIMIT) -> return max(x, LIMIT)",
        "nobody_asks: return not x -> return",
        "nobody_asks: return not x -> return x",
    ]


@pytest.mark.parametrize(
    ("code", "changed"),
    [
        ("x = a and b", ["x = a or b"]),
        ("x = -a[1:]", ["x = a[1:]", "x = -a[2:]", "x = -a[0:]"]),
        ("x = 0.5", ["x = 1.5"]),
        ("x = 'kind'", ["x = 'XXkindXX'"]),
        ("x = 'words for people'", []),
        ("x = f'{a + 1}'", []),
        ("x: int | None = f(True)", ["x: int | None = f(False)"]),
        ("f(a, b=1)", ["pass", "f(a)", "f(a, b=2)", "f(a, b=0)"]),
        ("f(a, device=b, strict=True)", ["pass"]),
        ("warnings.warn(str(1 + 1))", ["pass"]),
        ("assert a + 1", []),
        ("Alias = int | None", []),
        ("def __repr__(self):\n    return 1 + 1", []),
        ("for a in b:\n    break", ["continue"]),
        ("x = a @ b", ["x = a * b"]),
        ("x = a.amin(1)", ["x = a.amax(1)", "x = a.amin(2)", "x = a.amin(0)"]),
        ("x = cast(int, a + b)", ["x = cast(int, a - b)"]),
        ("x = a if f(b) else c", ["x = a if not f(b) else c"]),
        ("from a import b\nif TYPE_CHECKING:\n    x = 1", []),
    ],
)
def test_what_stands_in_the_place_of_what(tool: ModuleType, code: str, changed: list[str]) -> None:
    assert [key.rpartition(" -> ")[2] for key in keys_of(tool, code)] == changed


def test_a_change_is_in_the_code_that_runs_and_only_there(tool: ModuleType) -> None:
    by_key = {mutant.key: mutant for mutant in tool.mutants_of(CODE, "src/tiny.py")}
    names: dict[str, object] = {}
    exec(compile(by_key["clipped: return min(x, LIMIT) -> return max(x, LIMIT)"].tree(), "tiny", "exec"), names)
    assert (names["clipped"](5), names["smaller"](1, 2)) == (5, 1)  # type: ignore[operator]


def test_the_interval_is_wilsons(tool: ModuleType) -> None:
    assert tool.wilson(85, 100) == pytest.approx((0.7672, 0.9069), abs=1e-4)
    assert tool.wilson(0, 0) == (0.0, 1.0)


def run(root: Path, *options: str) -> str:
    """The tool on a project of its own, with little patience for endless loops, but some for a busy machine."""
    program = f"import sys; sys.path.insert(0, {str(TOOL.parent)!r}); import mutants; "
    program += "mutants.LIMIT_SECONDS, mutants.WAIT_TIMES = 3, 60; "
    program += f"mutants.main({['--root', str(root), '--sample', '0', *options]!r})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=root)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def row(told: str, name: str) -> list[str]:
    return next(line.split()[1:] for line in told.splitlines() if line.startswith(name))


def test_a_project_is_tried_explained_and_taken_up_again(tmp_path: Path) -> None:
    for name, text in {"src/tiny.py": CODE, "tests/test_tiny.py": TESTS, "pyproject.toml": ""}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "tests/mutants-explained.toml").write_text(f'["src/tiny.py"]\n"{SAME}" = "equal numbers are equal"\n')
    told = run(tmp_path)
    assert row(told, "all") == ["26", "26", "23", "2", "1", "88.5", "92.0"]
    assert told.count("uncovered: src/tiny.py: nobody_asks") == 2
    assert "survived:" not in told
    assert "3 kills are hangs" in told
    results = [json.loads(line) for line in (tmp_path / ".mutants/results.jsonl").read_text().splitlines()]
    killers = {result["key"]: result.get("by") for result in results}
    assert killers["module: LIMIT = 3 -> LIMIT = 4"] == "tests/test_tiny.py::test_clipped"
    assert killers["smaller: return b -> return"] == "tests/test_tiny.py::test_smaller"

    # A new test: what survived is tried again, what was killed is not.
    more = "\ndef test_nobody():\n    from tiny import nobody_asks\n    assert nobody_asks(0)\n"
    (tmp_path / "tests/test_tiny.py").write_text(TESTS + more)
    told = run(tmp_path, "--match", "nobody_asks")
    assert "2 of 2 tried" in told
    assert row(told, "all") == ["2", "2", "2", "0", "0", "100.0", "100.0"]
    assert "tried" not in run(tmp_path, "--match", "LIMIT").partition("module")[0]
