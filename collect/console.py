"""What the user is told beside a command's own output."""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from typing import Any

from rich.console import Console
from rich.text import Text

# Text that a program or a model printed, made harmless and visible for whoever reads it.


CONTROL = r"\x00-\x08\x0b-\x1f\x7f-\x9f"
"""C0 and C1, the terminal's escapes among them; a tab and a line's end are text."""
BIDIRECTIONAL = r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
"""Marks that turn the order of what is shown (CVE-2021-42574)."""
UNSEEN = r"\u200b\u2028\u2029\u2060-\u2064\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f"
"""Without a glyph, or no character at all."""
HIDDEN = re.compile(f"[{CONTROL}{BIDIRECTIONAL}{UNSEEN}]")


def visible(text: str) -> str:
    """The text with every character that would hide, or reorder others, as Python writes it."""
    return HIDDEN.sub(_shown, text)


def _shown(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


class VisibleConsole(Console):
    """A console that shows texts, but for those with styles of their own, as `visible` does."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(visible(text), **options)


def tell(line: str) -> None:
    """A line on standard error. Where that is gone, as with a terminal, the work goes on.

    What a server or a program said in it steers no terminal.
    """
    with suppress(OSError):
        print(f"stepinto: {visible(line)}\n", end="", file=sys.stderr, flush=True)
