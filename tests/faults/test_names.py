"""Names that nobody should have, through every command: data, model, study, tables and the page in a browser."""

import csv
import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from commands import call, is_refusal, write_spec
from tally import Tally

import rmixup
from rmixup import simulate

sys.path.append(str(Path(__file__).parents[1] / "report"))
from browser import CHROMIUM, DRIVER, WHY_NOT, browser

HOSTILE = (
    "../../../x",
    "/etc/passwd",
    "C:\\x",
    "<script>document.title='pwned'</script>",
    "<img src=x onerror=\"document.title='pwned'\">",
    "'><svg onload=document.title='pwned'>",
    "{{ 7 * 7 }}{% raw %}",
    "=cmd|' /C calc'!A0",
    "+1+cmd()",
    "-2+3",
    "@SUM(A1)",
    "\tx",
    "\rx",
    "a\nb",
    'q"uo,te;d',
    "\u202egnp.exe",
    "\u200b\ufeff",
    "x" * 300,
    "\N{BRAIN}\N{ZERO WIDTH JOINER}\N{BRAIN}",
    "nan",
    "NULL",
    "con.txt",
    "\x1b[2J",
    "%s%n${HOME}$(reboot)`id`",
    "]]> & &amp; -->",
    "$\\frac{$",
)
# A spreadsheet takes these for formulas; numbers and nothing else may begin with a sign.
FORMULA = re.compile(r"[=+@\t\r]|-(?![\d.])")


class Tags(HTMLParser):
    """Every tag with its attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


@pytest.fixture(scope="module")
def worked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, int]]:
    """A cohort in which people, nodes, sites, classes and columns have such names, through every command."""
    folder = tmp_path_factory.mktemp("hostile") / "<b>it's; a $(folder)"
    folder.mkdir()
    n = 2 * len(HOSTILE)
    ds = simulate(n_subjects=n, n_nodes=len(HOSTILE) // 2, n_frames=60, n_sites=2, seed=1)
    subjects = [f"{name}{mark}" for mark in ("", "!") for name in HOSTILE]
    np.savez(
        folder / "stack.npz",
        matrices=np.array(ds.matrices),
        y=np.array([HOSTILE[3], HOSTILE[7]])[ds.y],
        subjects=np.array(subjects),
        nodes=np.array(HOSTILE[: ds.n_nodes]),
        groups=np.array([HOSTILE[4], HOSTILE[8]])[np.arange(n) % 2],
    )
    spec = write_spec(folder / "s.toml", folder / "cohort", repeats=3, more=f"name = {json.dumps(HOSTILE[4])}\n")
    codes = {}
    for command in (
        ["import", folder / "stack.npz", folder / "cohort"],
        ["check", folder / "cohort", "--figure", folder / "health.svg"],
        ["train", folder / "cohort", "--backbone", "linear", "--out", folder / "model"],
        ["predict", folder / "model", folder / "cohort", "-o", folder / "p.tsv"],
        ["study", "run", spec, "--out", folder / "study", "--processes", "0"],
        ["study", "export", folder / "study"],
        ["report", folder / "study"],
    ):
        code, _, said = call(*command)
        codes[" ".join(map(str, command[:2])).partition(str(folder))[0].strip()] = code
        assert "this is a defect" not in said, said
    return folder, codes


@pytest.mark.fault(18)
def test_every_command_works_and_writes_where_it_should(worked: tuple[Path, dict[str, int]], tally: Tally) -> None:
    folder, codes = worked
    for command, code in codes.items():
        with tally.attempt(command):
            assert code == 0, command
    with tally.attempt("places"):
        assert sorted(path.name for path in folder.parent.iterdir()) == [folder.name]
        assert sorted(path.name for path in folder.iterdir()) == [
            "cohort", "health.svg", "model", "p.tsv", "s.toml", "stack.npz", "study",
        ]  # fmt: skip
        names = [path.name for path in folder.rglob("*") if "study" in path.parts]
        assert all(re.fullmatch(r"[\w.-]+", name) for name in names), names


@pytest.mark.fault(18)
def test_names_come_back_as_they_were(worked: tuple[Path, dict[str, int]], tally: Tally) -> None:
    folder, _ = worked
    ds = rmixup.load(folder / "cohort", verify=True)
    stack = rmixup.load(folder / "stack.npz")
    for name in HOSTILE:
        with tally.attempt(ascii(name)):
            assert name in stack.subjects.tolist()
            assert name in ds.subjects.tolist()
    assert ds.classes == tuple(sorted([HOSTILE[3], HOSTILE[7]]))


@pytest.mark.fault(18)
def test_no_table_holds_a_formula_or_breaks_its_rows(worked: tuple[Path, dict[str, int]], tally: Tally) -> None:
    folder, _ = worked
    tables = [*folder.glob("study/export/*.csv"), *folder.glob("study/report/tables/*.csv"), folder / "p.tsv"]
    assert len(tables) > 6
    for path in tables:
        with tally.attempt(path.name):
            with path.open(newline="", encoding="utf-8") as file:
                rows = list(csv.reader(file, delimiter="\t" if path.suffix == ".tsv" else ","))
            assert len({len(row) for row in rows}) == 1
            assert [cell for row in rows for cell in row if FORMULA.match(cell)] == []


@pytest.mark.fault(18)
def test_the_page_and_the_figures_hold_no_markup_of_theirs(worked: tuple[Path, dict[str, int]], tally: Tally) -> None:
    folder, _ = worked
    pages = [*folder.glob("study/report/*.html"), *folder.glob("study/report/figures/*.svg"), folder / "health.svg"]
    assert len(pages) > 5
    for path in pages:
        with tally.attempt(path.name):
            text = path.read_text(encoding="utf-8")
            tags = Tags(text).found
            assert [tag for tag, _ in tags if tag in {"script", "img"}] in ([], ["script"])
            assert [name for _, given in tags for name in given if name.startswith("on")] == []
            assert not {"\u202e", "\x00", "\x1b"} & set(text)


@pytest.mark.fault(18)
def test_a_browser_runs_none_of_them(worked: tuple[Path, dict[str, int]], tmp_path: Path, tally: Tally) -> None:
    """Chromium loads the page and every figure by itself: nothing is logged, refused, asked for or retitled."""
    if not (CHROMIUM and DRIVER):
        pytest.skip(WHY_NOT)
    folder, _ = worked
    figures = sorted(folder.glob("study/report/figures/*.svg"))
    pages = [folder / "study" / "report" / "report.html", folder / "health.svg", *figures[: tally.many(2, 100)]]
    bait = tmp_path / "bait.html"
    bait.write_text(f"<title>x</title>{HOSTILE[4]}{HOSTILE[3]}")
    with browser(tmp_path / "profile") as chromium:
        chromium.open(bait)
        assert chromium.run("return document.title") == "pwned", "the bait does not work"
        chromium.console()
        chromium.requests()
        for page in pages:
            with tally.attempt(page.name):
                assert page.is_file()
                chromium.open(page)
                assert chromium.run("return document.title") != "pwned"
                assert chromium.console() == []
                # The page before it may still say that it was asked for.
                asked = {one for one in chromium.requests() if not one.startswith("data:")}
                assert asked <= {one.absolute().as_uri() for one in pages}


@pytest.mark.fault(18)
@pytest.mark.parametrize("name", ["a\0b", "\ud800"], ids=ascii)
def test_names_that_no_file_can_hold_are_refused(name: str, tmp_path: Path) -> None:
    ds = simulate(n_subjects=4, n_nodes=3, seed=1)
    np.savez(tmp_path / "bad.npz", matrices=np.array(ds.matrices), subjects=np.array(["s1", "s2", "s3", name]))
    code, _, said = call("import", tmp_path / "bad.npz", tmp_path / "out")
    is_refusal(code, said, "UTF-8", "NUL")
    assert not (tmp_path / "out").exists()


@pytest.mark.fault(18)
@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_an_error_that_quotes_a_name_is_one_printable_line(name: str, tmp_path: Path) -> None:
    """A terminal would obey control characters and turn text around at others."""
    ds = simulate(n_subjects=40, n_nodes=5, seed=1)
    matrices = np.array(ds.matrices)
    matrices[3, 0, 1] = np.nan
    subjects = np.array([f"s{k}" for k in range(40)], dtype="<U320")
    subjects[3] = name
    np.savez(tmp_path / "bad.npz", matrices=matrices, y=ds.label_names(), subjects=subjects)
    code, _, said = call("train", tmp_path / "bad.npz", "--out", tmp_path / "m")
    assert code == 2
    assert said.endswith("\n")
    assert said[:-1].isprintable(), ascii(said)
