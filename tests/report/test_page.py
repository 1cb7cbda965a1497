"""The page and the files beside it: whole, alone, harmless, and honest about what is missing."""

import csv
import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import studies

from rmixup.report.html import PAGE, tell, write, write_report
from rmixup.study.samples import Examined

UNKNOWN = Examined(None, None, "not looked at")
ALLOWED = {
    "html", "head", "meta", "link", "title", "style", "body", "a", "header", "p", "h1", "h2", "bdi", "nav", "ul", "li",
    "main", "section", "div", "figure", "figcaption", "table", "caption", "span", "thead", "tbody", "tr", "th", "td",
    "footer", "code", "script", "svg", "g", "path", "defs", "clippath", "use", "rect", "text", "image", "tspan",
}  # fmt: skip


class Read(HTMLParser):
    """Tags, attributes and text of a page."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.tags, self.attributes, self.text, self.ids = set(), [], [], []
        self.scripts, self._inside = [], ""
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.attributes += attributes
        self.ids += [value for name, value in attributes if name == "id"]
        self._inside = tag

    def handle_endtag(self, tag):
        self._inside = ""

    def handle_data(self, data):
        (self.scripts if self._inside == "script" else self.text).append(data)

    @property
    def words(self):
        return " ".join(" ".join(self.text).split())


def write_for(folder: Path, **options) -> tuple[Path, Read]:
    page = write_report(studies.make(folder / "study", **options), folder / "out", UNKNOWN)[0]
    return page, Read(page)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """Every name is what nobody should be called."""
    names = studies.HOSTILE
    return write_for(
        tmp_path_factory.mktemp("hostile"),
        name=names[0],
        path=names[5],
        classes=(names[0], names[6]),
        sites=tuple(names),
        fail="rmixup",
        repeats=3,
    )


def test_names_are_text_and_nothing_else(hostile):
    page, read = hostile
    assert read.tags <= ALLOWED
    assert [name for name, _ in read.attributes if name.startswith("on")] == []
    assert len(read.scripts) == 1
    assert "alert" not in read.scripts[0]
    assert "alert(1)" in read.words
    assert "{{ 7 * 7 }}" in read.words
    assert "\u202e" not in page.read_text()


def test_every_figure_is_a_document_of_its_own(hostile):
    page, _ = hostile
    drawn = sorted((page.parent / "figures").glob("*.svg"))
    assert len(drawn) > 5
    for path in drawn:
        assert ET.parse(path).getroot().tag.endswith("svg")
        assert path.with_suffix(".png").read_bytes().startswith(b"\x89PNG")


def test_no_cell_of_a_table_is_a_formula(hostile):
    page, _ = hostile
    tables = sorted((page.parent / "tables").glob("*.csv"))
    assert {path.stem for path in tables} == {"cells", "summary", "comparisons", "predictions", "curves", "sites"}
    for path in tables:
        with path.open(newline="", encoding="utf-8") as file:
            cells = {cell for row in csv.reader(file) for cell in row}
        assert [cell for cell in cells if re.match(r"[=+@\t\r]|-(?![\d.])", cell)] == []
    assert "'=cmd" in (page.parent / "tables" / "predictions.csv").read_text()


def test_a_page_names_nothing_outside_itself(hostile):
    page, read = hostile
    targets = [value for name, value in read.attributes if name in {"href", "src", "action", "xlink:href"}]
    assert {value for value in targets if not value.startswith(("#", "data:"))} == set()
    assert {value.removeprefix("#") for value in targets if value.startswith("#")} <= set(read.ids)
    assert len(read.ids) == len(set(read.ids))
    assert page.stat().st_size < 5_000_000
    (policy,) = [value for name, value in read.attributes if name == "content" and "default-src" in value]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy


def test_every_drawing_says_what_it_shows(hostile):
    page, read = hostile
    labels = [value for name, value in read.attributes if name == "aria-label"]
    assert page.read_text().count('role="img"') == len(list((page.parent / "figures").glob("*.svg")))
    assert all(len(label) > 5 for label in labels)
    assert any("Means: none" in label for label in labels)


def test_failed_cells_are_counted_and_told(hostile):
    _, read = hostile
    assert "3 of 15 cells have no result yet or failed; see below." in read.words
    assert "the training loss was not finite in epoch 3 <b>" in read.words
    assert "divergence 3×" in read.words


def test_a_study_that_is_not_finished_says_so(tmp_path):
    _, read = write_for(tmp_path, skip="vmixup", repeats=3)
    assert "3 of 15 cells have no result yet or failed" in read.words
    assert "not run yet 3×" in read.words
    assert "(1 could not be compared)" in read.words


def test_a_study_that_has_not_begun_has_a_page(tmp_path):
    page, read = write_for(tmp_path, methods='["none"]', skip="none", repeats=2)
    assert page.name == PAGE
    assert "No answer yet: no cell of this study has a result." in read.words
    assert "6 of 6 cells have no result yet or failed" in read.words


def test_a_study_without_augmentation_says_so(tmp_path):
    _, read = write_for(tmp_path, methods='["none"]', repeats=2)
    assert "This study compares no augmentation with a model trained without one." in read.words


def test_numbers_are_told_in_their_own_unit(tmp_path):
    _, read = write_for(tmp_path, regression=True, repeats=3)
    assert "mse (lower is better)" in read.words
    assert "Predicted and true values" in read.words
    assert "mse at each site" in read.words


def test_several_backbones_and_sizes_stand_beside_each_other(tmp_path):
    page, read = write_for(
        tmp_path,
        backbones='["transformer", "gcn"]',
        train_sizes="[0.25, 0.5, 1.0]",
        repeats=3,
        methods='["none", "rmixup"]',
    )
    assert "gcn, 25 % of the training data: auroc" in read.words
    assert {"trend-train-size-1.svg", "trend-train-size-2.svg"} <= {p.name for p in (page.parent / "figures").iterdir()}
    assert {"sites-1.csv", "sites-2.csv"} <= {p.name for p in (page.parent / "tables").iterdir()}
    assert "Calibration, gcn" in read.words


def test_many_classes_are_judged_by_accuracy(tmp_path):
    _, read = write_for(tmp_path, classes=("BRCA", "LUAD", "KIRC", "PRAD"), repeats=3)
    assert "accuracy (higher is better)" in read.words
    assert "confidence in the predicted class" in read.words


def test_a_method_and_a_baseline_of_one_name_are_told_apart(tmp_path):
    study = studies.make(tmp_path / "study", methods='["none", "tangent"]', repeats=4)
    told = tell(study, UNKNOWN)
    (setting,) = told.settings
    assert [row.method for row in setting.rows] == ["none", "tangent", "linear", "tangent (baseline)"]
    assert setting.baselines == {"linear", "tangent (baseline)"}
    own = told.cells[(told.cells["method"] == "tangent")].sort_values("repeat")["auroc"]
    assert setting.rows[1].values.tolist() == own.tolist()
    assert [one.method for one in setting.comparisons] == ["tangent", "linear", "tangent (baseline)"]
    page = Read(write(told, tmp_path / "out")[0])
    assert "Calibration of tangent (baseline)" in " ".join(v for n, v in page.attributes if n == "aria-label")


def test_the_same_study_gives_the_same_files(tmp_path):
    study = studies.make(tmp_path / "study", repeats=2, methods='["none", "rmixup"]')
    one, two = (write_report(study, tmp_path / name, UNKNOWN) for name in ("one", "two"))
    assert [path.name for path in one] == [path.name for path in two]
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in two]


def test_the_listener_hears_of_every_figure(tmp_path):
    study = studies.make(tmp_path / "study", repeats=2, methods='["none", "rmixup"]')
    heard = []
    written = write(tell(study, UNKNOWN), tmp_path / "out", lambda done, total: heard.append((done, total)))
    figures = sum(path.suffix == ".svg" for path in written)
    assert heard == [(k + 1, figures) for k in range(figures)]
