"""The templates of the pages, and how long texts are folded.

Every page has the same style, script, and a policy that allows nothing else.
Every text in a template is escaped, with special characters made visible first; only `Markup` is
inserted as it is.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import PurePath

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from pygments import highlight
from pygments.formatters.html import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_for_filename
from pygments.util import ClassNotFound

from collect import quantities
from collect.console import visible
from eval.figures import ARMS
from eval.metrics import MISSING

PACKAGE = "eval.report"
GENERATOR = "StepInto report"
"""Marks every page, and identifies a report's folder."""
FENCE = "```"
FOLD_CHARACTERS, FOLD_LINES = 3_000, 40
"""A text with more of either is folded."""
MOST_CHARACTERS = 200_000
"""Limit for one text in a page; the Parquet files have it whole."""
PREVIEW_CHARACTERS, PREVIEW_LINES = 600, 8
MOST_HIGHLIGHTED = 20_000
"""Characters of the longest highlighted text."""


@dataclass(frozen=True)
class Folded:
    text: str
    """The part that the page contains."""
    preview: str
    """Its beginning, visible while it is folded; empty if the text is short enough to be shown."""
    lines: int
    characters: int
    """Characters of the whole text."""

    @property
    def left_out(self) -> int:
        return self.characters - len(self.text)


def folded(text: str, lines: int = FOLD_LINES, characters: int = FOLD_CHARACTERS) -> Folded:
    """The text, with a preview if it has more lines or characters than these."""
    count = text.count("\n") + 1
    is_long = count > lines or len(text) > characters
    preview = "\n".join(text[:PREVIEW_CHARACTERS].split("\n")[:PREVIEW_LINES]) if is_long else ""
    return Folded(text[:MOST_CHARACTERS], preview, count, len(text))


def segments(text: str) -> Iterator[tuple[str, bool]]:
    """The text split at fenced code blocks, each part with whether it is code; nothing is lost."""
    parts: list[tuple[list[str], bool]] = [([], False)]
    for line in text.split("\n"):
        held, in_code = parts[-1]
        if not in_code and line.startswith(FENCE):
            parts.append(([line], True))
            continue
        held.append(line)
        if in_code and line.rstrip() == FENCE:
            parts.append(([], False))
    for lines, is_code in parts:
        part = "\n".join(lines).strip("\n")
        if part.strip():
            yield part, is_code


def highlighted(text: str, name: str) -> Markup:
    """Code with its tokens in classes that the pages' style colours; as it is if it is long, or a
    file of that name is in no known language."""
    text, lexer = visible(text), _lexer(PurePath(name).suffix)
    if lexer is None or len(text) > MOST_HIGHLIGHTED:
        return escape(text)
    html = highlight(text, lexer, HtmlFormatter(nowrap=True))
    return Markup(html if text.endswith("\n") else html.removesuffix("\n"))


@cache
def _lexer(suffix: str) -> Lexer | None:
    try:
        return get_lexer_for_filename(f"x{suffix}", stripnl=False)
    except ClassNotFound:
        return None


def render(template: str, **values: object) -> str:
    return _environment().get_template(template).render(**values)


def asset(name: str) -> str:
    return (files(PACKAGE) / "templates" / name).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader(PACKAGE),
        autoescape=True,
        finalize=_made_visible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    colours = "".join(f".arm-{at} {{ --arm: {colour}; }}\n" for at, colour in enumerate(ARMS))
    style, script = asset("style.css") + colours, asset("index.js")
    environment.globals |= {
        "style": Markup(style),
        "script": Markup(script),
        # Only the pages' own style and script, and the charts within them.
        "policy": f"default-src 'none'; style-src {_digest(style)}; script-src {_digest(script)}; "
        "img-src data:; base-uri 'none'",
        "generator": GENERATOR,
    }
    environment.filters |= {
        "tokens": quantities.tokens,
        "dollars": quantities.dollars,
        "duration": _duration,
        "folded": folded,
        "highlighted": highlighted,
        "segments": segments,
    }
    return environment


def _made_visible(value: object) -> object:
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _duration(seconds: float) -> str:
    """In milliseconds below a second, as for debugger steps."""
    if seconds <= 0:
        return MISSING
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 60 else quantities.duration(seconds)


def _digest(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"
