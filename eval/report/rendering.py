"""Templates, and what every page has: style, script, and a policy that allows nothing else.

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

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from collect import quantities
from collect.console import visible
from eval.metrics import MISSING

# Long texts: what to fold, and what to cut.


FENCE = "```"
FOLD_CHARACTERS, FOLD_LINES = 3_000, 40
"""A text with more of either is folded."""
MOST_CHARACTERS = 200_000
"""Limit for one text in a page; the Parquet files have it whole."""
PREVIEW_CHARACTERS, PREVIEW_LINES = 600, 8


@dataclass(frozen=True)
class Folded:
    """A text as a page shows it."""

    text: str
    """The part that the page contains."""
    preview: str
    """Its beginning, visible while it is folded; empty if the text is short enough to be shown."""
    lines: int
    characters: int
    """Characters of the whole text."""

    @property
    def left_out(self) -> int:
        """Characters that the page does not contain."""
        return self.characters - len(self.text)


@dataclass(frozen=True)
class Segment:
    """A part of a text: prose or code."""

    text: str
    is_code: bool


def segments(text: str) -> Iterator[Segment]:
    """The text split at fenced code blocks; nothing is lost."""
    held: list[str] = []
    in_code = False
    for line in text.split("\n"):
        opens = not in_code and line.startswith(FENCE)
        if opens:
            yield from _segment(held, is_code=False)
            held, in_code = [], True
        held.append(line)
        if in_code and not opens and line.rstrip() == FENCE:
            yield from _segment(held, is_code=True)
            held, in_code = [], False
    yield from _segment(held, is_code=in_code)


def _segment(lines: list[str], *, is_code: bool) -> Iterator[Segment]:
    text = "\n".join(lines)
    if text.strip():
        yield Segment(text.strip("\n"), is_code)


def folded(text: str, lines: int = FOLD_LINES, characters: int = FOLD_CHARACTERS) -> Folded:
    """The text, with a preview if it has more lines or characters than these."""
    count = text.count("\n") + 1
    is_long = count > lines or len(text) > characters
    preview = "\n".join(text[:PREVIEW_CHARACTERS].split("\n")[:PREVIEW_LINES]) if is_long else ""
    return Folded(text[:MOST_CHARACTERS], preview, count, len(text))


PACKAGE = "eval.report"
GENERATOR = "StepInto report"
"""Marks every page, and identifies a report's folder."""


def render(template: str, **values: object) -> str:
    """Render a page."""
    return _environment().get_template(template).render(**values)


def asset(name: str) -> str:
    """The content of a style sheet or script."""
    return (files(PACKAGE) / "templates" / name).read_text(encoding="utf-8")


@cache
def policy() -> str:
    """The pages' content security policy: only their own style and script, nothing external."""
    style, script = _digest(asset("style.css")), _digest(asset("index.js"))
    return f"default-src 'none'; style-src {style}; script-src {script}; base-uri 'none'"


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
    environment.globals |= {
        "style": Markup(asset("style.css")),
        "script": Markup(asset("index.js")),
        "policy": policy(),
        "generator": GENERATOR,
    }
    environment.filters |= {
        "tokens": quantities.tokens,
        "dollars": quantities.dollars,
        "duration": _duration,
        "folded": folded,
        "segments": segments,
    }
    return environment


def _made_visible(value: object) -> object:
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return visible(value)


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
