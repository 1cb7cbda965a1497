"""What pages tell people to type is run, page by page, in an empty folder."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from page_program import blocks, program

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    DOCS / "quickstart.md",
    DOCS / "faq.md",
    *sorted(DOCS.glob("tutorials/*.md")),
    *sorted(DOCS.glob("extend/*.md")),
]
RUN = [page for page in PAGES if any(block.language in {"python", "bash"} for block in blocks(page.read_text()))]
# Threads, figures without a window, commands of this environment; a run must not depend on a proxy or on a home.
ENVIRONMENT = {
    **os.environ,
    "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
    "OMP_NUM_THREADS": "1",
    "MPLBACKEND": "Agg",
    "COLUMNS": "100",
}


def run(page: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a page's program in a folder."""
    script = folder / "page.py"
    script.write_text(program(page), encoding="utf-8")
    command = [sys.executable, "-W", "error", script.name]
    return subprocess.run(command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[Path, Future[subprocess.CompletedProcess[str]]]]:
    """All pages, two at a time, each in a folder of its own."""
    with ThreadPoolExecutor(2) as pool:
        texts = {page: page.read_text(encoding="utf-8") for page in RUN}
        yield {page: pool.submit(run, text, tmp_path_factory.mktemp("page")) for page, text in texts.items()}


@pytest.mark.parametrize("page", RUN, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_runs_from_top_to_bottom(
    page: Path, running: dict[Path, Future[subprocess.CompletedProcess[str]]]
) -> None:
    done = running[page].result()
    assert done.returncode == 0, f"{page}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"


@pytest.mark.parametrize("page", RUN, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_is_not_run_says_why_and_is_the_smaller_part(page: Path) -> None:
    code = [block for block in blocks(page.read_text(encoding="utf-8")) if block.language in {"python", "bash"}]
    skipped = [block for block in code if block.not_run is not None]
    assert len(skipped) < len(code)
    assert all(len((block.not_run or "").split()) >= 3 for block in skipped)


@pytest.mark.parametrize(
    ("page", "line"),
    [
        ("# A\n\n```python\nx = 1\n```\nand\n```python\nassert x == 2\n```\n", "line 8"),
        ("# A\n\n```bash\ntrue\nfalse\ntrue\n```\n", "line 4"),
        ("```bash\nexport X=1\n```\n```python\nimport warnings\nwarnings.warn('old')\n```\n", "line 6"),
    ],
    ids=["python", "bash", "warning"],
)
def test_a_page_that_fails_is_told_with_its_line(page: str, line: str, tmp_path: Path) -> None:
    done = run(page, tmp_path)
    assert done.returncode != 0
    assert f'page.py", {line}' in done.stderr


def test_a_block_that_is_not_run_is_left_out_and_the_next_is_run(tmp_path: Path) -> None:
    page = "<!-- not run: there is no such command -->\n```bash\nnowhere\n```\n```bash\ntouch here\n```\n"
    assert run(page, tmp_path).returncode == 0
    assert (tmp_path / "here").exists()


def test_a_directive_is_no_program_and_hides_none(tmp_path: Path) -> None:
    page = "```{literalinclude} a.py\n:language: python\n```\n\n```python\nopen('here', 'w').close()\n```\n"
    assert [block.language for block in blocks(page)] == ["{literalinclude}", "python"]
    assert run(page, tmp_path).returncode == 0
    assert (tmp_path / "here").exists()
