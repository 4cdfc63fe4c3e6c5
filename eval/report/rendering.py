"""Templates, and what every page has: style, script, and a policy that lets nothing else in.

Every text that a template prints is escaped, and made visible first; only what is `Markup` already
stands as it is.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from collect import quantities
from collect.visible import visible
from eval.numbers import MISSING
from eval.report.long_text import folded, segments

PACKAGE = "eval.report"
GENERATOR = "StepInto report"
"""Stands in every page, and tells a report's folder from any other."""


def render(template: str, **values: object) -> str:
    """One page."""
    return _environment().get_template(template).render(**values)


def asset(name: str) -> str:
    """A style sheet or script, as it stands in the pages."""
    return (files(PACKAGE) / "templates" / name).read_text(encoding="utf-8")


@cache
def policy() -> str:
    """The pages' content security policy: their own style and script, and nothing from anywhere."""
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
    """Milliseconds below a second: those of a debugger's steps."""
    if seconds <= 0:
        return MISSING
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 60 else quantities.duration(seconds)


def _digest(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"
