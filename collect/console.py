"""Messages to the user besides a command's own output, and each rollout's own log."""

from __future__ import annotations

import json
import logging
import re
import sys
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.text import Text

from collect.store.files import RunText

PACKAGES = ("collect", "configs", "eval", "format", "sandbox", "stepinto", "train")
CONTROL = r"\x00-\x08\x0b-\x1f\x7f-\x9f"
"""C0 and C1, including the terminal's escapes; tabs and line breaks are allowed."""
BIDIRECTIONAL = r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
"""Marks that reorder the displayed text (CVE-2021-42574)."""
UNSEEN = r"\u200b\u2028\u2029\u2060-\u2064\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f"
"""Characters without a glyph, and noncharacters."""
HIDDEN = re.compile(f"[{CONTROL}{BIDIRECTIONAL}{UNSEEN}]")


def visible(text: str) -> str:
    """The text with invisible and reordering characters escaped as in Python."""
    return HIDDEN.sub(lambda found: ascii(found[0])[1:-1], text)


class VisibleConsole(Console):
    """A console that shows texts as they are, without rich's markup and emoji, and escapes them
    with `visible`, except those with their own styles."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"markup": False, "emoji": False, **options})

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(visible(text), **options)


class StderrHandler(logging.Handler):
    """Prints log messages on standard error. If that is closed, as with a terminal, work continues.

    Text from servers or programs can't control the terminal.
    """

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError):
            line = f"stepinto: {visible(record.getMessage())}\n"
            print(line, end="", file=sys.stderr, flush=True)


def log_to_stderr() -> None:
    """Let the command line print what StepInto logs; programs that import it choose themselves."""
    for name in PACKAGES:
        logger = logging.getLogger(name)
        logger.setLevel(logging.INFO)
        if not any(isinstance(handler, StderrHandler) for handler in logger.handlers):
            logger.addHandler(StderrHandler())


Fact = str | int | float | bool | None


def log_name(rollout_id: str) -> str:
    """The path of a rollout's log in a run's folder."""
    return f"logs/{rollout_id}.jsonl"


@dataclass(frozen=True)
class RolloutLog:
    """Takes the events of one rollout; without a text it discards them.

    Never raises: a rollout must not fail because of its log. Events contain no text from models,
    tools or programs but names of tools and of files, and no keys.
    """

    text: RunText | None = None

    def note(self, event: str, **facts: Fact) -> None:
        """Record an event with the current time."""
        if self.text is None:
            return
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        rounded = {
            name: float(f"{fact:.6g}") if isinstance(fact, float) else fact
            for name, fact in facts.items()
        }
        with suppress(Exception):
            self.text.add(json.dumps({"time": now, "event": event} | rounded) + "\n")


NO_LOG = RolloutLog()
"""Discards events."""
