"""`rmixup demo`: a whole study from nothing, its page in a real browser, and what happens when it is run again."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from rmixup.cli import run
from rmixup.data.readers import load
from rmixup.data.readers.simulate import truth
from rmixup.study.demo import prepare
from rmixup.study.project import open_study
from rmixup.study.spec import read_spec

sys.path.insert(0, str(Path(__file__).parent.parent / "report"))

from browser import CHROMIUM, DRIVER, WHY_NOT, browser


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """The quick demo, run once."""
    out = tmp_path_factory.mktemp("demo") / "demo"
    assert run(["demo", "--quick", "--quiet", "--out", str(out)]) == 0
    return out


def test_every_method_and_both_baselines_are_compared(demo):
    study = open_study(demo / "study-quick")
    names = {(cell.method.name, cell.backbone.name) for cell in study.cells}
    augmented = {(name, "transformer") for name in ("none", "vmixup", "cmixup", "rmixup", "tangent")}
    assert names == augmented | {("none", "linear"), ("none", "tangent")}
    assert study.store.done() == {cell.key for cell in study.cells}


def test_the_data_are_simulated_and_their_truth_is_known(demo):
    ds = load(demo / "data")
    assert (len(ds), ds.n_nodes, ds.classes) == (240, 24, ("class-1", "class-2"))
    assert truth(ds).effects.any()


def test_run_again_it_continues_and_says_what_it_is(demo, capsys):
    before = {
        path: path.stat().st_mtime_ns for name in ("data", "study-quick/cells") for path in (demo / name).rglob("*")
    }
    assert run(["demo", "--quick", "--out", str(demo)]) == 0
    said = capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert said.startswith("These data are simulated, nobody was measured: 2 classes lie 1 apart")
    assert "An effect put there favours what works on logarithms" in said
    assert "No answer yet: no method has scores on 3 splits or more" in said
    assert f"Wrote {demo / 'report.html'}: open it in a browser." in said
    assert "Next" in said.splitlines()[-1]
    svg, png = (demo / f"swelling.{kind}" for kind in ("svg", "png"))
    assert png.read_bytes().startswith(b"\x89PNG")
    assert svg.read_text().count("<image") == 4
    assert max(svg.stat().st_size, png.stat().st_size) < 400_000


def test_the_spec_is_there_to_be_read_and_run(demo):
    text = (demo / "demo-quick.toml").read_text()
    assert "SIMULATED" in text
    assert read_spec(demo / "demo-quick.toml").data.path == str(demo / "data")


def test_what_was_begun_otherwise_is_refused_with_what_to_do(demo, capsys):
    file = demo / "study-quick" / "study.json"
    kept = file.read_bytes()
    try:
        study = open_study(demo / "study-quick")
        replace(study, environment=dict(study.environment) | {"torch": "0.0"}).save()
        assert run(["demo", "--quick", "--out", str(demo)]) == 2
        said = capsys.readouterr().err
        assert "environment.torch was '0.0'" in said
        assert f"delete {demo / 'study-quick'}, or take another --out" in said
    finally:
        file.write_bytes(kept)


def test_a_quick_and_a_whole_demo_share_the_people_and_nothing_else(demo):
    whole = prepare(demo)
    assert whole.folder == demo / "study"
    assert whole.data == open_study(demo / "study-quick").data
    assert len(whole.cells) == 70


@pytest.mark.skipif(not (CHROMIUM and DRIVER), reason=WHY_NOT)
def test_its_page_opens_without_a_word_in_a_real_browser(demo, tmp_path, capsys):
    page = demo / "report.html"
    with browser(tmp_path / "profile") as chromium:
        chromium.size(1280)
        chromium.open(page)
        shot = chromium.screenshot(tmp_path / "demo.png")
        assert chromium.console() == []
        assert [url for url in chromium.requests() if not url.startswith("data:")] == [page.as_uri()]
        assert chromium.run("return document.querySelector('.notice').textContent").startswith(
            "These data are simulated"
        )
        assert "network-4" in chromium.run("return [...document.querySelectorAll('figure')].map((f) => f.id).join(' ')")
    with capsys.disabled():
        sys.stdout.write(f"\nscreenshot: {shot}\n")


def test_json_is_one_object(demo, capsys):
    assert run(["demo", "--quick", "--json", "--out", str(demo)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["kind"] == "open"
    assert told["report"] == str(demo / "report.html")
