"""Replies of jdb that come in pieces, out of a real terminal."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sandbox import Command, Sandbox, SandboxConfig, open_sandbox
from sandbox.debugger import prompts
from sandbox.debugger.jdb_parsing import recognise
from sandbox.debugger.prompts import End, Prompt, PromptTerminal

PIECES = [
    "Method arguments:\n  rows = instance of int[3] ",
    ' text = "a[1] ',
    "  [1] ",
    "12        return rows[0] ",
]
STOPPED = 'Breakpoint hit: "thread=main", A.b(), line=12 bci=0\n'
JDB = """
stty -echo
while read -r line; do printf '%s' "$0"; sleep 0.3; printf '(id=431)\nmain[1] '; done
"""


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    with open_sandbox(SandboxConfig()) as opened:
        yield opened


@pytest.mark.parametrize("piece", PIECES)
def test_a_piece_that_looks_like_a_prompt_is_none(
    box: Sandbox, piece: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompts, "QUIET", 5)
    terminal = box.spawn(Command(["sh", "-c", JDB, piece]))
    try:
        reply = PromptTerminal(terminal, recognise).ask("locals", 10)
    finally:
        terminal.close()
    assert reply.end is End.PROMPT
    assert reply.text.endswith(f"{piece}(id=431)\nmain[1] ")


@pytest.mark.parametrize("name", ["main", "> main", "Test worker", "pool-1-thread-2", "été"])
@pytest.mark.parametrize("running", [True, False])
def test_prompts_of_usual_threads_are_sure(name: str, running: bool) -> None:
    text = f"{STOPPED}12        return rows[0];\n\n{name}[1] "
    assert recognise(text, running) is Prompt.SURE


def test_a_line_of_source_is_no_prompt_of_a_stop() -> None:
    assert recognise(f"{STOPPED}12        return rows[0] ", True) is Prompt.PERHAPS
