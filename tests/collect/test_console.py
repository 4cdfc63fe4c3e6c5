"""Messages of the command line, also if nobody can read them any more."""

from __future__ import annotations

import logging
import os
import sys

import pytest
from rich.table import Table

from collect.console import VisibleConsole, log_to_stderr, visible
from configs.command_line.shared import console, heading

logger = logging.getLogger("collect.anything")


def test_a_command_prints_each_message_once(capsys: pytest.CaptureFixture[str]) -> None:
    log_to_stderr()
    log_to_stderr()
    logger.info("a notice")
    logging.getLogger("another.program").info("not ours")
    assert capsys.readouterr() == ("", "stepinto: a notice\n")


def test_it_is_named_and_whole(capsys: pytest.CaptureFixture[str]) -> None:
    logger.warning("a [b] line")
    assert capsys.readouterr() == ("", "stepinto: a [b] line\n")


@pytest.mark.parametrize("text", ["\x1b[2J", "\x1b]0;title\x07", "\r", "\x9b1m", "\u202e"])
def test_it_steers_no_terminal(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    logger.warning(f"the server said {text}")
    table = Table("why")
    table.add_row(text)
    console.print(text, highlight=False)
    console.print(table)
    heading(text)
    VisibleConsole(stderr=True).print(text)
    shown = capsys.readouterr()
    assert (shown.err + shown.out).count(visible(text)) == 5
    assert text not in shown.err + shown.out


@pytest.mark.parametrize("text", ["[red]x[/red]", "[link=http://127.0.0.1]x[/link]", ":smile:"])
def test_no_text_is_markup(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    table = Table(text, title=text)
    table.add_row(text)
    for each in (console, VisibleConsole(width=100, force_terminal=True)):
        each.print(text, highlight=False)
        each.print(table, highlight=False)
    assert capsys.readouterr().out.count(text) == 8


def test_nobody_needs_to_read_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a pipe whose reader has ended."""
    theirs, ours = os.pipe()
    os.close(theirs)
    with open(ours, "w", buffering=1) as gone:
        monkeypatch.setattr(sys, "stderr", gone)
        logger.error("to nobody")
        with pytest.raises(BrokenPipeError):
            print("which is so", file=gone, flush=True)
        os.dup2(os.open(os.devnull, os.O_WRONLY), ours)
