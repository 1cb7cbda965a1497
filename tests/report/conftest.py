"""Studies and a browser for tests of the report."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # the helpers beside the tests are imported by name

from browser import CHROMIUM, DRIVER, WHY_NOT, Browser, browser


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One real Chromium for all tests that look at a page."""
    if not (CHROMIUM and DRIVER):
        pytest.skip(WHY_NOT)
    with browser(tmp_path_factory.mktemp("profile")) as started:
        yield started


@pytest.fixture(scope="session")
def shots(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Path]:
    """Where screenshots are kept for people to look at; the last line of the run says where."""
    folder = tmp_path_factory.mktemp("screenshots")
    yield folder
    with request.config.pluginmanager.get_plugin("capturemanager").global_and_fixture_disabled():
        request.config.pluginmanager.get_plugin("terminalreporter").write_line(f"\nscreenshots: {folder}")
