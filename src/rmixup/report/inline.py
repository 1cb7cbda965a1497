"""Figures inside a page: an SVG of matplotlib made part of the document, in the colours of light or dark.

What is drawn once in the palette below takes its colours from CSS variables, so that one drawing is legible on paper
and on a dark screen. No `style` attribute and no `<style>` is left, so that a strict Content-Security-Policy can hold.
"""

from __future__ import annotations

import io
import re
import warnings
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from rmixup.report.health import GREEN, SKY, YELLOW
from rmixup.report.names import short
from rmixup.report.swelling import BLUE, GREY, INK, ORANGE, PURPLE, STYLE, VERMILLION

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Colour as drawn -> the variable of the style sheet that stands for it.
VARIABLES = {
    INK: "--ink",
    GREY: "--fig-grey",
    BLUE: "--fig-blue",
    VERMILLION: "--fig-vermillion",
    GREEN: "--fig-green",
    PURPLE: "--fig-purple",
    ORANGE: "--fig-orange",
    SKY: "--fig-sky",
    YELLOW: "--fig-yellow",
    "#ffffff": "--paper",
    "#000000": "--ink",
}
_BY_HEX = {colour.lower(): f"var({name})" for colour, name in VARIABLES.items()}
_SVG = "{http://www.w3.org/2000/svg}"
_LINK = "{http://www.w3.org/1999/xlink}href"
_REFERENCE = re.compile(r"url\(#([^)]+)\)")
_SIZE = re.compile(r"([\d.]+)px")


def plain(name: object) -> str:
    """A name as matplotlib may draw it: short, on one line, nothing invisible, no formulas.

    >>> print(plain("a$b$" + chr(10) + chr(0x202E) + "c"))
    a\\$b\\$��c
    """
    return short(name).replace("$", r"\$")


def save(figure: Figure, kind: str) -> bytes:
    """The figure as "png" or "svg", the same bytes each time; letters that matplotlib's font lacks are no error."""
    import matplotlib as mpl

    buffer = io.BytesIO()
    metadata = {"png": {"Software": None}, "svg": {"Date": None}}[kind]
    with mpl.rc_context({**STYLE, "svg.fonttype": "none"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r".*Glyph .* missing from")
        warnings.filterwarnings("ignore", message=r".*Matplotlib currently does not support .* natively")
        figure.savefig(buffer, format=kind, dpi=160, metadata=metadata)
    return buffer.getvalue()


def inline(svg: bytes, name: str, words: str) -> str:
    """An SVG file as an element of a page.

    Parameters
    ----------
    svg : as matplotlib wrote it.
    name : unique in the page; goes before every id.
    words : what the figure shows, for those who do not see it.
    """
    root = ET.fromstring(svg)
    for element in root.iter():
        _drop(element)
    for element in root.iter():
        _translate(element, name)
    width, height = root.get("width", ""), root.get("height", "")
    for attribute in ("width", "height", "version"):
        root.attrib.pop(attribute, None)
    root.attrib |= {"class": "drawn", "role": "img", "aria-label": words, "data-size": f"{width} {height}"}
    # matplotlib leaves black out, as it is what SVG fills with where nothing is said.
    root.attrib |= {"stroke-linejoin": "round", "stroke-linecap": "butt", "fill": "var(--ink)"}
    return ET.tostring(root, encoding="unicode")


def _drop(element: ET.Element) -> None:
    """Leave out what a page has no use for: metadata, style sheets, the white ground."""
    for child in list(element):
        if child.tag in {f"{_SVG}metadata", f"{_SVG}style"} or child.get("id") == "patch_1":
            element.remove(child)


def _translate(element: ET.Element, name: str) -> None:
    element.tag = element.tag.removeprefix(_SVG)
    attributes = {}
    for key, value in element.attrib.items():
        if key == "id":
            attributes["id"] = f"{name}-{value}"
        elif key in {_LINK, "href"}:
            attributes["href"] = f"#{name}-{value[1:]}" if value.startswith("#") else value
        elif key == "style":
            attributes |= _declarations(value)
        elif not key.startswith("{"):
            attributes[key] = value
    element.attrib.clear()
    element.attrib.update({key: _colour(_prefixed(value, name)) for key, value in attributes.items()})


def _prefixed(value: str, name: str) -> str:
    return _REFERENCE.sub(rf"url(#{name}-\1)", value)


def _colour(value: str) -> str:
    return _BY_HEX.get(value.strip().lower(), value)


def _declarations(style: str) -> dict[str, str]:
    """The declarations of a style attribute as attributes; the page chooses the family of fonts.

    >>> _declarations("fill: #0072b2; font: 700 9px 'DejaVu Sans'")
    {'fill': '#0072b2', 'font-size': '9', 'font-weight': 'bold'}
    """
    pairs = (part.split(":", 1) for part in style.split(";") if ":" in part)
    found: dict[str, str] = {}
    for key, value in ((key.strip(), value.strip()) for key, value in pairs):
        if key == "font":
            found |= _font(value)
        elif key != "font-family":
            found[key] = value
    return found


def _font(value: str) -> dict[str, str]:
    size = _SIZE.search(value)
    bold = bool(re.search(r"\b(bold|[6-9]00)\b", value))
    return ({"font-size": size[1]} if size else {}) | ({"font-weight": "bold"} if bold else {})
