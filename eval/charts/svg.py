"""SVG elements, with every text in them visible and escaped."""

from __future__ import annotations

from textwrap import wrap
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from markupsafe import Markup

from collect.visible import visible

CHARACTER = 7.0
"""Width of an average character of the charts' labels, in the drawing's units."""
SERIES_COLOURS = 8
"""How many colours and marks the style sheet has; more series than these repeat them."""


def drawing(title: str, width: float, height: float) -> Element:
    """An empty drawing that a screen reader announces by its title."""
    root = Element("svg", {"role": "img", "viewBox": f"0 0 {_number(width)} {_number(height)}"})
    root.set("aria-label", visible(title))
    return root


def shape(parent: Element, tag: str, kind: str = "", **attributes: float | str) -> Element:
    """One element: numbers are rounded, `kind` is its class, and `_` stands for `-` in names."""
    found = SubElement(parent, tag)
    if kind:
        found.set("class", kind)
    for name, value in attributes.items():
        text = _number(value) if isinstance(value, int | float) else visible(value)
        found.set(name.replace("_", "-"), text)
    return found


def label(parent: Element, text: str, x: float, y: float, *, anchor: str = "start") -> Element:
    """A line of text; `anchor` says which of its ends, or the middle, lies at x."""
    found = shape(parent, "text", x=x, y=y, text_anchor=anchor)
    found.text = visible(text)
    return found


def tooltip(element: Element, text: str) -> None:
    """What a pointer that rests on the element is shown."""
    SubElement(element, "title").text = visible(text)


def colour(index: int) -> str:
    """The class of the n-th series."""
    return f"s{index % SERIES_COLOURS}"


def text_of(root: Element) -> Markup:
    """The drawing as markup that can stand in a page."""
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def lines_of(text: str, width: float, most: int = 3) -> list[str]:
    """The text in lines that fit in the width; what is too much for them is cut."""
    characters = max(4, int(width / CHARACTER))
    return wrap(text, characters, max_lines=most, placeholder="…") or [""]


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
