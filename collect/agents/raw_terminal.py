"""The only tool of InspectCoder's ablation "without InspectWare": pdb's terminal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from collect.agents.debug_tools import reply
from collect.agents.tools import Arguments, ToolReply
from sandbox.debugger.pdb_terminal import PdbTerminal


class RawTerminalArguments(Arguments):
    command: Annotated[
        str, Field(description="What to type at the debugger's prompt, such as 'where'.")
    ]


@dataclass(frozen=True)
class RawTerminal:
    """Types at pdb's prompt. pdb starts with the first command, before the program's first line,
    and restarts with the next command after it has ended.
    """

    terminal: PdbTerminal
    name: str = "debugger"
    description: str = (
        "Type a command at the prompt of the debugger, pdb, which is paused before the program "
        "that runs the failing test. Answers with what the terminal prints up to the next prompt."
    )
    arguments: type[Arguments] = RawTerminalArguments

    def call(self, arguments: RawTerminalArguments, call_id: str) -> ToolReply:
        banner = ""
        if not self.terminal.running:
            opened = self.terminal.open()
            if not self.terminal.running:
                return reply(opened)
            banner = opened.output
        event = self.terminal.command(arguments.command)
        shown = f"{banner}{event.output}"
        if event.error is not None:
            shown = f"{shown}\nError ({event.error_kind}): {event.error}".lstrip("\n")
        return ToolReply(shown, reply(event).outcome, event)
