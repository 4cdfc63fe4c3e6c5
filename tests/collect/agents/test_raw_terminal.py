"""pdb's terminal as a tool, for the ablation without InspectWare."""

from __future__ import annotations

from contextlib import closing

import pytest

from collect.agents.inspectcoder.inspector_tools import RawTerminal, RawTerminalArguments
from collect.store.records import ToolOutcome
from sandbox import SandboxConfig, open_sandbox
from sandbox.debugger import DebugLimits
from sandbox.debugger.pdb_terminal import PdbTerminal

PROGRAM = b"""\
def test_total():
    prices = [3, 4]
    assert sum(prices) == 8
"""


@pytest.mark.slow
def test_commands_are_typed_at_the_prompt() -> None:
    with (
        open_sandbox(SandboxConfig()) as sandbox,
        closing(PdbTerminal(sandbox, "test_cart.py::test_total", DebugLimits())) as terminal,
    ):
        sandbox.write_files({"test_cart.py": PROGRAM})
        tool = RawTerminal(terminal)

        def typed(command: str) -> tuple[str, ToolOutcome]:
            answer = tool.call(RawTerminalArguments(command=command), "c")
            return answer.text, answer.outcome

        text, _ = typed("b test_cart.py:3")
        assert text.count("(Pdb) ") == 2
        assert "Breakpoint 1 at" in text
        assert "-> assert sum(prices) == 8" in typed("c")[0]
        assert typed("p prices") == ("[3, 4]\n(Pdb) ", ToolOutcome.OK)
        assert "control characters" in typed("p 1\x03")[0]
        typed("c")
        typed("q")
        typed("q")
        assert "pytest entry point" in typed("p 1")[0]
