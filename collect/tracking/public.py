"""A config as it may be shown to a tracker's server: without keys."""

from __future__ import annotations

import re
from typing import Any

NOT_SHOWN = "(not shown)"
PRIVATE = ("environment", "extra_body", "arguments", "command")
"""Settings that can hold a key: variables, fields of a request, and a server's command line."""
USER = re.compile(r"(?<=://)[^/@\s]+@")


def public(value: Any) -> Any:
    """The same settings as JSON, without what can hold a key."""
    if isinstance(value, dict):
        return {
            name: NOT_SHOWN if name in PRIVATE and inner else public(inner)
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [public(inner) for inner in value]
    return USER.sub("", value) if isinstance(value, str) else value
