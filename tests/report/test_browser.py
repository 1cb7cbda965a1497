"""The page in a real Chromium: silent, alone, sortable, legible in light and dark, on a phone and on paper."""

from pathlib import Path

import pytest
import studies

from rmixup.report.html import write_report

# Every visible text with its colour and the first ground behind it that is not transparent.
CONTRAST = """
const channel = (v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
const parse = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
const ground = (e) => {
  for (; e; e = e.parentElement) {
    const c = parse(getComputedStyle(e).backgroundColor);
    if (c.length === 3 || c[3] > 0) return c;
  }
  return [255, 255, 255];
};
const found = [];
const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walk.nextNode()) {
  const e = walk.currentNode.parentElement;
  const words = walk.currentNode.textContent.trim();
  if (!words || ["SCRIPT", "STYLE"].includes(e.tagName)) continue;
  const style = getComputedStyle(e);
  const [a, b] = [parse(e.closest("svg") ? style.fill : style.color), ground(e)].map(light);
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  const size = parseFloat(style.fontSize);
  const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
  found.push([ratio, large ? 3 : 4.5, words.slice(0, 40)]);
}
return found;
"""
# What WCAG 1.4.11 asks of lines and marks: three to one against the page.
LINES = """
const style = getComputedStyle(document.documentElement);
const probe = document.body.appendChild(document.createElement("i"));
const colour = (name) => {
  probe.style.setProperty("color", style.getPropertyValue(name));
  return getComputedStyle(probe).color;
};
const names = ["--paper", "--ink", "--fig-grey", "--fig-blue", "--fig-vermillion", "--fig-green", "--fig-purple",
  "--fig-orange", "--fig-sky", "--fig-yellow"];
return Object.fromEntries(names.map((name) => [name, colour(name)]));
"""
ORDER = "return [...document.querySelectorAll('#results table tbody tr')].map((row) => row.cells[0].textContent)"
MEANS = ORDER.replace("row.cells[0].textContent", "parseFloat(row.cells[1].textContent)")
TOO_WIDE = """
return [...document.querySelectorAll("body *")].filter((e) => !e.closest(".wide, .unseen, .skip")
  && e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.outerHTML.slice(0, 80));
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    study = studies.make(folder / "study", skill={"rmixup": 1.6})
    return write_report(study, folder / "out")[0]


def test_nothing_is_logged_and_nothing_is_asked_for(chromium, page):
    chromium.open(page)
    assert chromium.console() == []
    assert [u for u in chromium.requests() if not u.startswith("data:")] == [page.as_uri()]


def test_a_table_is_sorted_by_the_heads_of_its_columns(chromium, page):
    chromium.open(page)
    before = chromium.run(ORDER)
    assert before == ["none", "vmixup", "rmixup", "linear", "tangent"]
    click = "document.querySelectorAll('#results thead button')[1].click()"
    chromium.run(click)
    rising = chromium.run(MEANS)
    assert rising == sorted(rising)
    chromium.run(click)
    assert chromium.run(MEANS) == sorted(rising, reverse=True)
    assert chromium.run("return document.querySelectorAll('#results thead th')[1].ariaSort") == "descending"
    assert "descending" in chromium.run("return document.querySelector('#results [role=status]').textContent")


def test_the_keyboard_reaches_and_sorts(chromium, page):
    chromium.open(page)
    chromium.press("\ue004")
    assert chromium.run("return document.activeElement.className") == "skip"
    chromium.press("\ue007")
    assert chromium.run("return location.hash") == "#answer"
    chromium.run("document.querySelector('#results thead button').focus()")
    chromium.press("\ue007")
    assert chromium.run(ORDER) == ["linear", "none", "rmixup", "tangent", "vmixup"]
    assert chromium.run("return getComputedStyle(document.activeElement).outlineStyle") == "solid"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_letters_and_lines_stand_out(chromium, page, shots, scheme):
    chromium.size(1280)
    chromium.scheme(scheme)
    chromium.open(page)
    chromium.screenshot(shots / f"{scheme}.png")
    found = chromium.run(CONTRAST)
    assert len(found) > 200
    assert [one for one in found if one[0] < one[1]] == []
    assert chromium.run("return matchMedia('(prefers-color-scheme: dark)').matches") == (scheme == "dark")
    colours = {name: _light(text) for name, text in chromium.run(LINES).items()}
    paper = colours.pop("--paper")
    assert (paper < 0.1) == (scheme == "dark")
    assert {name: ratio for name, own in colours.items() if (ratio := _ratio(own, paper)) < 3} == {}


def _light(colour: str) -> float:
    values = [int(part) / 255 for part in colour[4:-1].split(",")]
    r, g, b = (v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in values)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def _ratio(a: float, b: float) -> float:
    return (max(a, b) + 0.05) / (min(a, b) + 0.05)


@pytest.mark.parametrize("width", [320, 390, 768])
def test_a_narrow_window_scrolls_tables_and_never_the_page(chromium, page, shots, width):
    chromium.scheme("light")
    chromium.size(width)
    chromium.open(page)
    chromium.screenshot(shots / f"wide-{width}.png")
    assert chromium.run("return document.documentElement.scrollWidth") == width
    assert chromium.run(TOO_WIDE) == []


def test_it_prints(chromium, page, shots):
    chromium.size(1280)
    chromium.scheme("dark")
    chromium.open(page)
    printed = chromium.pdf(shots / "report.pdf").read_bytes()
    assert printed.startswith(b"%PDF-")
    assert 2 <= printed.count(b"/Type /Page\n") <= 12
