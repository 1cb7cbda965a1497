"""Change the code one place at a time: do the tests notice?

    python tools/mutants.py                         1000 mutants drawn at random, or those of them not yet tried
    python tools/mutants.py --sample 0              every mutant
    python tools/mutants.py --only spd/repair.py    those of one module; `--only repair --sample 0` for all of them

One process imports everything and collects the tests once, and forks a child for each mutant. The child changes one
place of one function and runs the tests that reach that place, the quickest first, until one fails. What runs when a
module is imported is changed before that import, in children that have imported only torch and its like. Which tests
reach which line is measured once, with the unchanged code. All happens in a copy: the tree may change meanwhile.

What was found stays in `.mutants/`: a kill counts while its module is unchanged, a survivor only while all code and
tests are. A survivor that no test could tell from the original belongs, with the reason, in
`tests/mutants-explained.toml`. Not changed: docstrings, annotations, decorators, texts for people, `__repr__`,
assertions (`assert`, `strict=`), what only a GPU runs, and what only says where or how fast (`device=`, ...).
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import functools
import gc
import hashlib
import importlib
import importlib.util
import json
import math
import os
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NamedTuple

# Modules to change, and the tests that are to notice; a module's doctests always belong to them.
SUITES = {
    "src/rmixup/spd/*.py": "tests/spd",
    "src/rmixup/augment/*.py": "tests/augment",
    "src/rmixup/study/statistics.py": "tests/study/test_statistics.py",
    "src/rmixup/data/splits.py": "tests/data/test_splits.py",
}
# The kernel is tested on a machine with a GPU.
GPU_FILES = ("product_triton.py",)
# Imported once, before any child is made; none of them starts a thread by that.
PRELOADED = (
    "numpy", "scipy.stats", "scipy.sparse.csgraph", "torch", "pandas", "sklearn.linear_model", "matplotlib.pyplot",
    "pyriemann.utils", "pydantic", "hypothesis",
)  # fmt: skip
# Tests slower than this are left out: none of them would be the first to fail.
SLOW_SECONDS = 15.0
EXAMPLES = 25  # of a property, for each mutant
# A mutant hangs when its tests take this much more processor time than without it, or wait this much longer than that.
LIMIT_SECONDS, LIMIT_TIMES, WAIT_TIMES = 20, 5, 5
# Threads that wait for their turn must not burn the other worker's core.
QUIET_THREADS = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}

# Children that hold their own output back still say what they have done.
OUT = os.dup(1)

ARITHMETIC = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Div, ast.Mod: ast.Div,
    ast.Pow: ast.Mult, ast.MatMult: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
COMPARISONS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_PAIRS = "min max|amin amax|argmin argmax|minimum maximum|any all|floor ceil|zeros ones|zeros_like ones_like|sum mean|\
sqrt square|first second|low high|triu tril|exp log|add_ sub_|removeprefix removesuffix"
NAMES = {a: b for pair in _PAIRS.split("|") for a, b in (pair.split(), pair.split()[::-1])}
# Arguments that only say where or how fast, and those that only guard against mistakes of our own.
UNCHANGED_ARGUMENTS = {"device", "non_blocking", "memory_format", "strict", "stacklevel"}
WARNINGS = {"warn", "filterwarnings"}


class Mutant(NamedTuple):
    """One place of one module, changed: `key` names it; tests of the lines in `reach` may notice (none: any test).

    `inside`: within a function, which can be changed after its module was imported.
    """

    module: str
    key: str
    reach: tuple[int, ...]
    inside: bool
    tree: Callable[[], ast.Module]


class Place(NamedTuple):
    """A node, where it hangs, and what it belongs to."""

    parent: ast.AST
    field: str
    at: int | None
    node: ast.AST
    statement: ast.stmt
    function: tuple[Any, ...]


# --- what is changed -------------------------------------------------------------------------------------------


def mutants_of(source: str, module: str) -> list[Mutant]:
    """Every mutant of a module, in the order of its text."""
    tree = ast.parse(source)
    inside = tuple(line for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) for line in _body_lines(f))
    made, seen = [], Counter[str]()
    for number, place in enumerate(_places(tree)):
        before = _text(place.statement)
        for k, new in enumerate(replacements(place.node)):
            with _replaced(place, new):
                after = _text(place.statement) if place.node is not place.statement else _text(new)
            name = ".".join(f.name for f in place.function) or "module"
            key = f"{name}: {before} -> {after}"
            seen[key] += 1
            key += f" (#{seen[key]})" if seen[key] > 1 else ""
            made.append(Mutant(module, key, _reach(place, inside), _is_inside(place), _Rebuild(source, number, k)))
    return made


class _Rebuild:
    """Makes the changed tree when it is needed: thousands of trees would fill the memory."""

    def __init__(self, source: str, place: int, which: int) -> None:
        self.source, self.place, self.which = source, place, which

    def __call__(self) -> ast.Module:
        tree = ast.parse(self.source)
        place = next(p for number, p in enumerate(_places(tree)) if number == self.place)
        _set(place, list(replacements(place.node))[self.which])
        return ast.fix_missing_locations(tree)


def replacements(node: ast.AST) -> Iterator[ast.AST]:  # noqa: PLR0912 -- a table
    """What may stand in the place of a node."""
    match node:
        case ast.Constant(value=bool(value)):
            yield _with(node, value=not value)
        case ast.Constant(value=int(value) | float(value)):
            yield _with(node, value=value + 1)
            if isinstance(value, int) and value > 0:
                yield _with(node, value=value - 1)
        case ast.Constant(value=str(text)) if " " not in text:  # texts with spaces are for people
            yield _with(node, value=f"XX{text}XX")
        case ast.BinOp(op=op) if type(op) in ARITHMETIC:
            yield _with(node, op=ARITHMETIC[type(op)]())
        case ast.AugAssign(target=target, op=op, value=value):
            if type(op) in ARITHMETIC:
                yield _with(node, op=ARITHMETIC[type(op)]())
            yield ast.copy_location(ast.Assign([target], value), node)
        case ast.Compare(ops=ops):
            for k, comparison in enumerate(ops):
                yield _with(node, ops=[*ops[:k], COMPARISONS[type(comparison)](), *ops[k + 1 :]])
        case ast.BoolOp(op=op):
            yield _with(node, op=ast.Or() if isinstance(op, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.Invert(), operand=operand):
            yield operand
        case ast.If(test=test) | ast.IfExp(test=test) if isinstance(test, ast.Name | ast.Call | ast.Attribute):
            yield _with(node, test=ast.copy_location(ast.UnaryOp(ast.Not(), test), test))
        case ast.Return(value=value) if value is not None and not _is_none(value):
            yield _with(node, value=None)
        case ast.Break() | ast.Continue():
            yield ast.copy_location(ast.Continue() if isinstance(node, ast.Break) else ast.Break(), node)
        case ast.Raise() | ast.Expr(value=ast.Call()):
            yield ast.copy_location(ast.Pass(), node)
        case ast.Call():
            yield from _calls(node)


def _calls(node: ast.Call) -> Iterator[ast.AST]:
    """A call with one argument less, or to the opposite function."""
    if _called(node) in WARNINGS:
        return
    for k, keyword in enumerate(node.keywords):
        if keyword.arg not in UNCHANGED_ARGUMENTS | {None}:
            yield _with(node, keywords=node.keywords[:k] + node.keywords[k + 1 :])
    if len(node.args) > 1 and _called(node) != "cast":
        for k in range(len(node.args)):
            yield _with(node, args=node.args[:k] + node.args[k + 1 :])
    opposite = NAMES.get(_called(node))
    if opposite and isinstance(node.func, ast.Name):
        yield _with(node, func=_with(node.func, id=opposite))
    elif opposite and isinstance(node.func, ast.Attribute):
        yield _with(node, func=_with(node.func, attr=opposite))


def _places(tree: ast.Module) -> Iterator[Place]:
    """Every node that may be changed, in the order of the text."""
    for k, statement in enumerate(tree.body):
        yield from _below(Place(tree, "body", k, statement, statement, ()))


def _below(place: Place) -> Iterator[Place]:
    node = place.node
    if _left_alone(node):
        return
    yield place
    if isinstance(node, ast.Raise) or _called(node) in WARNINGS:
        return
    function = place.function
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        function = (*function, node)
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "bases", "ctx") or (
            _called(node) == "cast" and field == "func"
        ):
            continue
        for k, child in enumerate(value if isinstance(value, list) else [value]):
            if isinstance(child, ast.AST) and not (_called(node) == "cast" and k == 0):
                statement = child if isinstance(child, ast.stmt) else place.statement
                at = k if isinstance(value, list) else None
                yield from _below(Place(node, field, at, child, statement, function))


def _left_alone(node: ast.AST) -> bool:
    match node:
        case ast.Import() | ast.ImportFrom() | ast.Assert() | ast.JoinedStr() | ast.Expr(value=ast.Constant()):
            return True
        case ast.FunctionDef(name=name):
            return name in ("__repr__", "__str__")
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name == "__all__" or re.match("[A-Z][a-z]", name) is not None  # a type's name
        case ast.keyword(arg=name):
            return name in UNCHANGED_ARGUMENTS
    return False


def _reach(place: Place, inside: tuple[int, ...]) -> tuple[int, ...]:
    """The lines whose tests run this place: its statement's; for what runs at import, the functions it serves."""
    functions = [f for f in place.function if isinstance(f, ast.FunctionDef)]
    if isinstance(place.statement, ast.FunctionDef):  # an argument's default
        return _body_lines(place.statement)
    cached = any("cache" in ast.unparse(d) for f in functions for d in f.decorator_list)
    if cached:  # it runs in the first test that asks, and serves others too
        return ()
    if not functions:
        return inside
    return tuple(range(place.statement.lineno, _header_end(place.statement) + 1))


def _is_inside(place: Place) -> bool:
    in_function = any(isinstance(f, ast.FunctionDef) for f in place.function)
    return in_function and not isinstance(place.statement, ast.FunctionDef | ast.ClassDef)


def _body_lines(function: ast.FunctionDef) -> tuple[int, ...]:
    return tuple(range(function.body[0].lineno, (function.end_lineno or 0) + 1))


def _header_end(statement: ast.stmt) -> int:
    body = getattr(statement, "body", None)
    return max(statement.lineno, body[0].lineno - 1) if body else statement.end_lineno or statement.lineno


def _text(node: ast.AST) -> str:
    """A statement on one line, without its body."""
    lines = ast.unparse(ast.fix_missing_locations(node)).splitlines()
    return next((line for line in lines if not line.startswith("@")), "")


def _with(node: Any, **fields: Any) -> Any:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def _set(place: Place, node: ast.AST) -> None:
    if place.at is None:
        setattr(place.parent, place.field, node)
    else:
        getattr(place.parent, place.field)[place.at] = node


@contextlib.contextmanager
def _replaced(place: Place, node: ast.AST) -> Iterator[None]:
    _set(place, node)
    try:
        yield
    finally:
        _set(place, place.node)


def _called(node: ast.AST) -> str:
    if not isinstance(node, ast.Call):
        return ""
    return str(getattr(node.func, "attr", None) or getattr(node.func, "id", ""))


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


# --- running tests in a child ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Copy:
    """A copy of the project, the modules to change in it, and its tests."""

    root: Path
    targets: list[str]
    tests: list[str]

    def digest(self, *paths: str) -> str:
        """The hash of some files, or of the modules to change and their tests."""
        files = sorted(f for p in paths or self.tests for f in _python_files(self.root / p))
        whole = hashlib.sha256()
        for file in files:
            whole.update(str(file.relative_to(self.root)).encode() + b"\0" + file.read_bytes())
        return whole.hexdigest()[:16]


def _python_files(path: Path) -> list[Path]:
    return [path] if path.is_file() else list(path.rglob("*.py"))


class Plugin:
    """Chooses and orders the tests of a child, tells what the first failure was, and how long each test took."""

    def __init__(self, order: Sequence[str] | None, coverage: Any = None) -> None:
        self.order = None if order is None else {name: k for k, name in enumerate(order)}
        self.coverage, self.seconds, self.failed = coverage, Counter[str](), list[str]()

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Keep the tests that were chosen."""
        order = self.order
        if order is not None:
            items[:] = sorted((i for i in items if i.nodeid in order), key=lambda i: order[i.nodeid])

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Lines run from now on belong to this test."""
        if self.coverage is not None:
            self.coverage.switch_context(nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Add up."""
        self.seconds[report.nodeid] += report.duration
        if report.failed or report.skipped:
            self.failed.append(report.nodeid)


def run_tests(project: Copy, tests: Sequence[str], plugin: Plugin | Server, *options: str) -> int:
    """Run pytest in this process, which is a child's."""
    from hypothesis import HealthCheck, Phase, settings

    settings.register_profile(
        "mutants", max_examples=EXAMPLES, deadline=None, derandomize=True, database=None,
        phases=(Phase.explicit, Phase.generate), suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    settings.load_profile("mutants")
    os.environ["HYPOTHESIS_PROFILE"] = "mutants"
    os.chdir(project.root)
    tempfile.tempdir = str(project.root)
    sys.path.insert(0, str(project.root / "src"))
    import pytest

    # Plain assertions: pytest's own import hook would come before the one that brings the mutant.
    quiet = ["-q", "-p", "no:cacheprovider", "--assert=plain", "--tb=native", "-o", "timeout=0"]
    return int(pytest.main([*quiet, *options, *tests], plugins=[plugin]))


def in_child(work: Callable[[], int], log: Path) -> int:
    """Fork; the child's output goes to a file. Returns its process id."""
    pid = os.fork()
    if pid:
        return pid
    status = 3
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        with log.open("wb") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        status = work()
    except BaseException as error:
        log.with_suffix(".error").write_text(repr(error))
    finally:
        os._exit(status)


def measure(project: Copy, tests: Sequence[str], into: Path) -> int:
    """Write which tests pass with the unchanged code, how long each takes, and which lines each reaches; in a child."""
    import coverage

    os.environ["COVERAGE_CORE"] = "ctrace"
    files = [str(project.root / target) for target in project.targets]
    traced = coverage.Coverage(data_file=None, include=files, config_file=False)
    plugin = Plugin(None, traced)
    traced.start()
    run_tests(project, tests, plugin)
    traced.stop()
    data = traced.get_data()
    lines = {
        target: {str(line): names for line, names in data.contexts_by_lineno(file).items()}
        for target, file in zip(project.targets, files, strict=True)
    }
    bad = set(plugin.failed)
    passed = {name: seconds for name, seconds in plugin.seconds.items() if name not in bad}
    unfinished = into.with_suffix(".tmp")
    unfinished.write_text(json.dumps({"passed": passed, "bad": sorted(bad), "lines": lines}))
    unfinished.rename(into)
    return 0


@contextlib.contextmanager
def none_left(children: Collection[int]) -> Iterator[None]:
    """Whatever happens, no child outlives this."""
    try:
        yield
    finally:
        for pid in list(children):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)


class _Finder:
    """Imports one module from a changed tree."""

    def __init__(self, name: str, path: Path, code: Any) -> None:
        self.name, self.path, self.code = name, path, code

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != self.name:
            return None
        loader = SourceFileLoader(name, str(self.path))
        loader.get_code = lambda fullname: self.code  # type: ignore[method-assign]
        return importlib.util.spec_from_file_location(name, self.path, loader=loader)


# What a child tries: a mutant with some tests; returns a status, and the first test that fails.
Attempt = Callable[[Copy, Mutant, Sequence[str]], tuple[int, str]]
TRY_ANEW = 77
STATUS = {0: "survived", TRY_ANEW: "try anew"}


class Trial(NamedTuple):
    """A child that tries a mutant."""

    mutant: Mutant
    tests: list[str]
    start: float
    seconds: float  # that the tests take with the unchanged code


def try_anew(project: Copy, mutant: Mutant, tests: Sequence[str]) -> tuple[int, str]:
    """Import everything with the mutant in it, and run the tests; 0 if all pass, and the first that fails."""
    path = project.root / mutant.module
    name = mutant.module.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    code = compile(mutant.tree(), str(path), "exec", dont_inherit=True)
    sys.meta_path.insert(0, _Finder(name, path, code))
    plugin = Plugin(tests)
    status = run_tests(project, sorted({test.partition("::")[0] for test in tests}), plugin, "-x")
    return status, plugin.failed[0] if plugin.failed else "import" if status else ""


class Server:
    """Holds pytest where the tests are collected, and forks from there: a change in a function needs no import."""

    def __init__(self, project: Copy, work: Callable[[Server], None]) -> None:
        self.project, self.work = project, work
        self.failed, self.items, self.functions = list[str](), dict[str, Any](), list[FunctionType]()

    def pytest_runtestloop(self, session: Any) -> bool:
        """Try mutants in place of running the tests."""
        self.items = {item.nodeid: item for item in session.items}
        root = str(self.project.root)
        # Not isinstance: it would ask objects that answer with a warning.
        every = (f for f in gc.get_objects() if type(f) is FunctionType)
        self.functions = [f for f in every if f.__code__.co_filename.startswith(root)]
        gc.freeze()  # or every child would copy what it only looks at
        self.work(self)
        return True

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Remember what failed."""
        if report.failed:
            self.failed.append(report.nodeid)

    def try_inside(self, project: Copy, mutant: Mutant, tests: Sequence[str]) -> tuple[int, str]:
        """Change a function and run the tests; 0 if all pass, and the first that fails."""
        code = compile(mutant.tree(), str(project.root / mutant.module), "exec", dont_inherit=True)
        if not self._install(code):
            return TRY_ANEW, ""
        chosen = [self.items[test] for test in tests]
        for item, following in zip(chosen, [*chosen[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self.failed:
                return 1, self.failed[0]
        return 0, ""

    def _install(self, module: CodeType) -> bool:
        """Give each function of a module the code it has there; whether one could be changed."""
        codes = {(code.co_qualname, code.co_firstlineno): code for code in _codes_in(module)}
        changed = False
        for function in self.functions:
            old = function.__code__
            new = codes.get((old.co_qualname, old.co_firstlineno))
            if old.co_filename != module.co_filename or new is None or new == old:
                continue
            if len(new.co_freevars) != len(old.co_freevars):
                return False
            function.__code__ = new
            changed = True
        return changed


def _codes_in(code: CodeType) -> Iterator[CodeType]:
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield inner
            yield from _codes_in(inner)


def _limited(project: Copy, attempt: Attempt, mutant: Mutant, tests: Sequence[str], seconds: float) -> int:
    """Try a mutant in a child, and tell by which test it was found."""
    # An endless loop is ended by the system, after processor time: others may be at work on this machine.
    limit = int(LIMIT_SECONDS + LIMIT_TIMES * seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
    status, by = attempt(project, mutant, tests)
    (project.root / f"told-{os.getpid()}").write_text(by)
    return status


def try_all(
    project: Copy, mutants: list[Mutant], measured: dict[str, Any], workers: int, attempt: Attempt
) -> Iterator[dict[str, Any]]:
    """Try mutants, some at once; yields what became of each."""
    waiting, running = list(reversed(mutants)), dict[int, Trial]()
    with none_left(running):
        while waiting or running:
            while waiting and len(running) < workers:
                mutant = waiting.pop()
                tests = tests_of(mutant, measured)
                if tests:
                    seconds = sum(measured["passed"][test] for test in tests)
                    work = functools.partial(_limited, project, attempt, mutant, tests, seconds)
                    pid = in_child(work, project.root / f"log-{len(waiting)}")
                    running[pid] = Trial(mutant, tests, time.monotonic(), seconds)
                else:
                    yield {"module": mutant.module, "key": mutant.key, "status": "uncovered"}
            for pid in list(running):
                result = _ended(project, pid, running[pid])
                if result is not None:
                    del running[pid]
                    yield result
            time.sleep(0.002)


def _ended(project: Copy, pid: int, trial: Trial) -> dict[str, Any] | None:
    """What became of a mutant; None while its tests run."""
    spent = time.monotonic() - trial.start
    done, status = os.waitpid(pid, os.WNOHANG)
    if not done and spent < WAIT_TIMES * (LIMIT_SECONDS + LIMIT_TIMES * trial.seconds):
        return None
    if not done:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    told = project.root / f"told-{pid}"
    ended_by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    if ended_by == signal.SIGTERM:
        raise SystemExit("ended from outside")
    hung = not done or ended_by in (signal.SIGXCPU, signal.SIGKILL)
    return {
        "module": trial.mutant.module,
        "key": trial.mutant.key,
        "status": "timeout" if hung else STATUS.get(os.waitstatus_to_exitcode(status), "killed"),
        "by": told.read_text() if told.exists() else "",
        "seconds": round(spent, 2),
        "tests": len(trial.tests),
    }


def tests_of(mutant: Mutant, measured: dict[str, Any]) -> list[str]:
    """The tests that reach a mutant, the quickest first."""
    lines, passed = measured["lines"][mutant.module], measured["passed"]
    names = {name for line in mutant.reach for name in lines.get(str(line), ())} if mutant.reach else set(passed)
    quick = [name for name in names if passed.get(name, math.inf) <= SLOW_SECONDS]
    return sorted(quick, key=lambda name: (passed[name], name))


# --- what was found --------------------------------------------------------------------------------------------


def wilson(part: int, whole: int) -> tuple[float, float]:
    """The 95 % interval of a share."""
    if not whole:
        return 0.0, 1.0
    z, p = 1.959964, part / whole
    middle, reach = p + z * z / (2 * whole), z * math.sqrt(p * (1 - p) / whole + z * z / (4 * whole * whole))
    return (middle - reach) / (1 + z * z / whole), (middle + reach) / (1 + z * z / whole)


def explained_by(root: Path) -> Callable[[str, str], bool]:
    """Whether a survivor is explained: by its key, or by the beginning of it before three dots."""
    path = root / "tests/mutants-explained.toml"
    known = tomllib.loads(path.read_text()) if path.exists() else {}
    begins = {m: tuple(key[:-3] for key in of if key.endswith("...")) for m, of in known.items()}
    return lambda module, key: key in known.get(module, {}) or key.startswith(begins.get(module, ()))


def report(mutants: list[Mutant], results: list[dict[str, Any]], explained: Callable[[str, str], bool]) -> bool:
    """Print a row a module and every survivor; whether 85 % were killed."""
    total, rows = Counter(m.module for m in mutants), dict[str, Counter[str]]()
    for r in results:
        known = explained(r["module"], r["key"])
        what = "killed" if r["status"] in ("killed", "timeout") else "explained" if known else "survived"
        rows.setdefault(r["module"], Counter())[what] += 1
    line = "{:<40} {:>8} {:>6} {:>7} {:>9} {:>9} {:>8} {:>18}"
    say(line.format("module", "mutants", "tried", "killed", "survived", "explained", "killed %", "but explained %"))
    for module in [*sorted(rows), "all"]:
        c = sum(rows.values(), Counter()) if module == "all" else rows[module]
        tried = c.total()
        shares = [f"{100 * c['killed'] / n:.1f}" if n else "-" for n in (tried, tried - c["explained"])]
        count = len(mutants) if module == "all" else total[module]
        say(line.format(module, count, tried, c["killed"], c["survived"], c["explained"], *shares))
    low, high = wilson(c["killed"], tried)
    timeouts = sum(r["status"] == "timeout" for r in results)
    say(f"95 % interval of the share killed: {100 * low:.1f} to {100 * high:.1f} %; {timeouts} kills are hangs.")
    say(f"Not here, for want of a GPU: {', '.join(GPU_FILES)}.")
    for r in results:
        if r["status"] in ("survived", "uncovered") and not explained(r["module"], r["key"]):
            say(f"{r['status']}: {r['module']}: {r['key']}")
    return tried > 0 and c["killed"] / tried >= 0.85


def say(text: str) -> None:
    """One line, at once."""
    os.write(OUT, f"{text}\n".encode())


def copied(root: Path, into: Path, suites: dict[str, str]) -> list[Copy]:
    """Copy what the tests need; one project a suite, all in the same place."""
    for part in ("src", "tests", "tools"):
        if (root / part).exists():
            shutil.copytree(root / part, into / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(root / "pyproject.toml", into)
    made = []
    for pattern, tests in suites.items():
        targets = [str(f.relative_to(into)) for f in sorted(into.glob(pattern)) if f.name not in GPU_FILES]
        found = into / tests
        files = [found] if found.is_file() else sorted(found.rglob("test_*.py"))
        made.append(Copy(into, targets, [*(str(f.relative_to(into)) for f in files), *targets]))
    return made


def kept(folder: Path, name: str) -> Path:
    """A file in the folder that git does not see."""
    folder.mkdir(exist_ok=True)
    (folder / ".gitignore").write_text("*\n")
    return folder / name


def _measured(project: Copy, folder: Path, workers: int) -> dict[str, Any]:
    """`measure` for every file of tests, as far as it is not known from earlier runs."""
    units = [*([test] for test in project.tests if test not in project.targets), project.targets]
    shared = [str(f.relative_to(project.root)) for f in (project.root / units[0][0]).parent.glob("conftest.py")]
    found = [kept(folder, f"reach-{project.digest(*unit, *shared, *project.targets)}.json") for unit in units]
    waiting = [(unit, file) for unit, file in zip(units, found, strict=True) if not file.exists()]
    running = set[int]()
    with none_left(running):
        while waiting or running:
            while waiting and len(running) < workers:
                unit, file = waiting.pop(0)
                say(f"measuring which lines {unit[0]} reaches ...")
                log = project.root / f"measure-{len(waiting)}.log"
                running.add(in_child(functools.partial(measure, project, unit, file), log))
            running.remove(os.wait()[0])
    whole: dict[str, Any] = {"passed": {}, "bad": [], "lines": {t: {} for t in project.targets}}
    for file in found:
        part = json.loads(file.read_text())
        whole["passed"] |= part["passed"]
        whole["bad"] += part["bad"]
        for target, lines in part["lines"].items():
            for line, names in lines.items():
                whole["lines"][target].setdefault(line, []).extend(names)
    if not whole["passed"]:
        raise SystemExit(f"no test passes:\n{next(project.root.glob('measure-*.log')).read_text()[-3000:]}")
    return whole


ROOT = Path(__file__).resolve().parents[1]


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw mutants, try them, report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=1000, help="how many mutants, drawn at random; 0: all")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--only", default="", help="modules whose path contains this")
    parser.add_argument("--match", default="", help="mutants whose text contains this")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--root", type=Path, default=ROOT, help="another project with src/ and tests/")
    chosen = parser.parse_args(arguments)
    os.environ.update(QUIET_THREADS)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    root = chosen.root.resolve()
    for name in PRELOADED if root == ROOT else ():
        importlib.import_module(name)
    with tempfile.TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True) as scratch:
        suites = copied(root, Path(scratch).resolve(), SUITES if root == ROOT else {"src/**/*.py": "tests"})
        every = [
            mutant
            for project in suites
            for target in project.targets
            if chosen.only in target
            for mutant in mutants_of((project.root / target).read_text(), target)
            if chosen.match in mutant.key
        ]
        # A larger sample of one seed contains the smaller ones.
        drawn = random.Random(chosen.seed).sample(every, len(every))[: chosen.sample or None]
        results = []
        for project in sorted(suites, key=lambda suite: len(suite.targets)):
            own = [mutant for mutant in drawn if mutant.module in project.targets]
            results += _tried(project, own, root / ".mutants", chosen.workers) if own else []
    return 0 if report(every, results, explained_by(root)) else 1


def _tried(project: Copy, drawn: list[Mutant], folder: Path, workers: int) -> list[dict[str, Any]]:
    """What became of the mutants that were drawn, from earlier runs or by trying them now."""
    log = Log(kept(folder, "results.jsonl"), project)
    if log.missing(drawn):
        measured = _measured(project, folder, workers)
        slow = [name for name, seconds in measured["passed"].items() if seconds > SLOW_SECONDS]
        say(f"{len(measured['passed'])} tests; left out as slow: {slow}")
        say(f"skipped here, or failing with the unchanged code: {len(measured['bad'])}")
        inside = [mutant for mutant in log.missing(drawn) if mutant.inside]

        def work(server: Server) -> None:
            log.enter(try_all(project, inside, measured, workers, server.try_inside), len(inside))

        if inside:
            children = [in_child(functools.partial(_serve, project, work), project.root / "server.log")]
            with none_left(children):
                status = os.waitpid(children[0], 0)[1]
                children.clear()
            if status:
                raise SystemExit(f"no session could be held:\n{(project.root / 'server.log').read_text()[-3000:]}")
        outside = log.missing(drawn)
        log.enter(try_all(project, outside, measured, workers, try_anew), len(outside))
    found = log.known()
    return [found[m.module, m.key] for m in drawn]


def _serve(project: Copy, work: Callable[[Server], None]) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    return run_tests(project, project.tests, Server(project, work))


class Log:
    """Results on disk, of which those count that still hold."""

    def __init__(self, path: Path, project: Copy) -> None:
        self.path, self.everything = path, project.digest()
        self.modules = {target: project.digest(target) for target in project.targets}

    def known(self) -> dict[tuple[str, str], dict[str, Any]]:
        """By module and key."""
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        return {(r["module"], r["key"]): r for r in map(json.loads, lines) if self._holds(r)}

    def _holds(self, result: dict[str, Any]) -> bool:
        """A kill holds while its module is unchanged; a survivor while nothing changes."""
        if result["status"] in ("killed", "timeout"):
            return bool(result["module_digest"] == self.modules.get(result["module"]))
        return bool(result["everything"] == self.everything)

    def missing(self, mutants: list[Mutant]) -> list[Mutant]:
        """Those of which nothing is known."""
        known = self.known()
        return [mutant for mutant in mutants if (mutant.module, mutant.key) not in known]

    def enter(self, results: Iterator[dict[str, Any]], count: int) -> None:
        """Write each result at once."""
        with self.path.open("a") as file:
            for k, result in enumerate(results, 1):
                if result["status"] != STATUS[TRY_ANEW]:
                    result |= {"module_digest": self.modules[result["module"]], "everything": self.everything}
                    file.write(json.dumps(result) + "\n")
                    file.flush()
                if k % 100 == 0 or k == count:
                    say(f"{k} of {count} tried")


if __name__ == "__main__":
    sys.exit(main())
