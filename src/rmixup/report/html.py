"""The report of a study: one page that needs nothing beside it, its figures as files, its numbers as tables.

The page's content comes from `answer` (the verdict), `pictures` (drawings), `content` (tables); how it looks from
`templates`. Names from the data are escaped by the template, cut and made visible by `names`. A strict
Content-Security-Policy lets the page load nothing: its style and its one small script are named by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from importlib.resources import files as package_files
from pathlib import Path

import pandas as pd

from rmixup.report import content, inline, pictures
from rmixup.report.answer import Answer, answer, place
from rmixup.report.content import Table
from rmixup.report.names import short, visible
from rmixup.report.pictures import Picture
from rmixup.study import files
from rmixup.study.export import export, write_table
from rmixup.study.project import Study
from rmixup.study.samples import Examined, examine
from rmixup.study.tables import Setting, cell_table, settings

PAGE = "report.html"
# Is told how many figures are drawn, of how many.
Listener = Callable[[int, int], None]


@dataclass(frozen=True)
class Section:
    """A part of the page: a heading, sentences, tables, drawings, in this order."""

    name: str
    title: str
    words: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    drawn: list[Picture] = field(default_factory=list)
    points: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Told:
    """A study read once: its cells, its settings as the page shows them, its answer, what is known of its data."""

    study: Study
    cells: pd.DataFrame
    settings: list[Setting]
    answer: Answer
    examined: Examined


def tell(study: Study, examined: Examined | None = None) -> Told:
    """Read a study, which need not be complete, and find its answer; parameters as for `write_report`."""
    cells = cell_table(study)
    found = ordered(settings(study, table=cells))
    lacking = int((cells["state"] != "done").sum())
    return Told(study, cells, found, answer(found, lacking, len(cells)), examined or examine(study))


def write_report(study: Study, out: Path, examined: Examined | None = None) -> list[Path]:
    """Write report.html, figures/ and tables/ into a folder, and return what was written, the page first.

    Parameters
    ----------
    study : from `rmixup.study.project.open_study`; it need not be complete.
    out : the folder; made if need be, files of an earlier report in it are replaced.
    examined : what is known of the data; by default they are opened and looked at.
    """
    return write(tell(study, examined), out)


def write(told: Told, out: Path, listener: Listener | None = None) -> list[Path]:
    """The same for a study that was read already.

    Parameters
    ----------
    listener : is told how many figures are drawn, of how many.
    """
    study, found, known = told.study, told.settings, told.examined
    principal = _principal(found)
    kept = [pictures.runs(study, setting, told.cells) for setting in principal]
    sections = [
        _results(found),
        _splits(found),
        *_runs(principal, kept),
        _data(known),
        _made(known),
        _done(study, told.cells),
        _cite(),
    ]
    written = _write_tables(study, out, kept)
    drawn = _write_figures([picture for section in sections for picture in section.drawn], out, listener)
    page = _page(told, sections, out / "figures")
    files.write(out / PAGE, page.encode("utf-8", "replace"))
    return [out / PAGE, *drawn, *written]


def ordered(found: Sequence[Setting]) -> list[Setting]:
    """The settings as the page shows them: of each backbone the one with all data first."""
    backbones = list(dict.fromkeys(setting.backbone for setting in found))

    def rank(setting: Setting) -> tuple[int, float, float]:
        length = float("inf") if setting.length is None else setting.length
        return backbones.index(setting.backbone), -setting.train_size, -length

    return sorted(found, key=rank)


def _principal(found: Sequence[Setting]) -> list[Setting]:
    """Of each backbone the setting with all data; so many as can be read."""
    first = {setting.backbone: setting for setting in reversed(found)}
    return [setting for setting in found if first[setting.backbone] is setting][: content.PRINCIPAL]


# --- sections


def _results(found: Sequence[Setting]) -> Section:
    words = [content.HOW_COMPARED] if found else ["There is nothing to compare yet."]
    words += [content.HOW_SEVERAL] if len(found) > 1 else []
    tables = [content.scores(setting) for setting in found]
    return Section(
        "results",
        "Results",
        words,
        tables,
        points=content.verdicts(found),
    )


def _splits(found: Sequence[Setting]) -> Section:
    words = [content.HOW_SPLITS]
    if len(found) > pictures.SETTINGS_DRAWN:
        words.append(f"Drawn are {pictures.SETTINGS_DRAWN} of {len(found)} settings; the tables above have all.")
    return Section("splits", "Every split", words, drawn=[*pictures.of_trends(found), *pictures.of_splits(found)])


def _runs(principal: Sequence[Setting], kept: Sequence[pictures.Runs]) -> Iterable[Section]:
    """Curves, predictions and sites of each backbone."""
    for k, (setting, found) in enumerate(zip(principal, kept, strict=True)):
        suffix, where = ("", "") if len(principal) == 1 else (f"-{k + 1}", f", {place(setting)}")
        if drawn := list(pictures.of_curves(found, f"curves{suffix}")):
            yield Section(f"curves{suffix}", f"Training{where}", [content.HOW_CURVES], drawn=drawn)
        if drawn := list(pictures.of_predictions(found, f"predictions{suffix}")):
            classes = bool(next(iter(found.predictions.values()))[0].classes)
            title = "Calibration" if classes else "Predicted and true values"
            words = content.HOW_CALIBRATION if classes else content.HOW_REGRESSION
            yield Section(f"predictions{suffix}", f"{title}{where}", [words], drawn=drawn)
        if found.sites is not None:
            picture = pictures.of_sites(found.sites, setting, f"sites{suffix}")
            table = content.sites(found.sites)
            words = content.HOW_SITES[found.sites.score]
            yield Section(f"sites{suffix}", f"Sites{where}", [words], [table], [picture])


def _data(known: Examined) -> Section:
    if known.health is None:
        return Section("data", "The data", [f"The data could not be looked at again: {visible(known.why_not)}."])
    tables = [content.findings(known.health.findings)] if known.health.findings else []
    return Section("data", "The data", [short(known.health.verdict, 300) + ".", known.health.advice], tables)


def _made(known: Examined) -> Section:
    title = "What was made"
    if known.made is None:
        return Section("made", title, ["Without the data, no mixes of them can be shown."])
    words = [content.HOW_MADE, *([f"Before mixing: {known.made.repaired}."] if known.made.repaired else [])]
    return Section("made", title, words, drawn=list(pictures.of_mixes(known.made)))


def _done(study: Study, cells: pd.DataFrame) -> Section:
    tables = [content.states(cells), *content.failures(study), content.protocol(study), content.versions(study)]
    return Section("done", "How it was done", content.changes(study), tables)


def _cite() -> Section:
    return Section(
        "cite",
        "How to cite",
        ["If you use these results, please cite the software and the paper."],
        points=content.citations(),
    )


# --- files


def _write_tables(study: Study, out: Path, kept: Sequence[pictures.Runs]) -> list[Path]:
    written = export(study, out / "tables")
    for k, found in enumerate(kept):
        if found.sites is not None:
            name = "sites.csv" if len(kept) == 1 else f"sites-{k + 1}.csv"
            written.append(write_table(content.site_frame(found.sites), out / "tables" / name))
    return written


def _write_figures(drawn: Sequence[Picture], out: Path, listener: Listener | None) -> list[Path]:
    (out / "figures").mkdir(parents=True, exist_ok=True)
    paths: list[Path] = []
    for picture in drawn:
        paths += _write_figure(picture, out)
        if listener is not None:
            listener(len(paths) // 2, len(drawn))
    return paths


def _write_figure(picture: Picture, out: Path) -> list[Path]:
    paths = [out / "figures" / f"{picture.name}.{kind}" for kind in ("svg", "png")]
    for path in paths:
        files.write(path, inline.save(picture.figure, path.suffix.removeprefix(".")))
    return paths


# --- the page


def _page(told: Told, sections: Sequence[Section], figures: Path) -> str:
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    def drawing(picture: Picture) -> Markup:
        # Built by `inline` from matplotlib's own SVG: every name in it is escaped as it is written.
        svg = (figures / f"{picture.name}.svg").read_bytes()
        return Markup(inline.inline(svg, picture.name, picture.words))

    style, script = _asset("page.css"), _asset("page.js")
    loader = PackageLoader("rmixup.report", "templates")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"drawing": drawing, "short": short}
    return environment.get_template("page.html.j2").render(
        study=told.study,
        answer=told.answer,
        sections=sections,
        notice=visible(told.examined.simulated),
        style=Markup(style),
        script=Markup(script),
        policy=policy(style, script),
        version=content.VERSION,
    )


def policy(style: str, script: str) -> str:
    """The Content-Security-Policy of a page with this style and this script, and nothing else but drawn pixels.

    >>> policy("", "")[:18]
    "default-src 'none'"
    """
    allowed = {"style-src": style, "script-src": script}
    hashed = [f"{kind} 'sha256-{_hash(text)}'" for kind, text in allowed.items()]
    return "; ".join(["default-src 'none'", *hashed, "img-src data:", "base-uri 'none'", "form-action 'none'"])


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _asset(name: str) -> str:
    return (package_files("rmixup.report") / "templates" / name).read_text(encoding="utf-8")
