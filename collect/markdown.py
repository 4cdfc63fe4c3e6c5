"""Texts of data in Markdown pages: cards and tables."""

from __future__ import annotations

import re

from collect.console import visible

TAG = re.compile(r"<(?=[A-Za-z/!?])")


def plain(text: str) -> str:
    """One line without HTML, links and images, whatever the text was; emphasis and code stay."""
    line = " ".join(visible(text).split())
    return TAG.sub("&lt;", line).replace("](", "]&#40;")
