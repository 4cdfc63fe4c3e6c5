"""The one tool of the papers' "without InspectWare" ablation: the debugger's terminal itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from collect.agents.debug_tools import reply
from collect.agents.tools import Arguments, Tool, ToolReply
from sandbox.debugger import Launch, State
from sandbox.debugger.terminal_session import TerminalDebugger


class RawTerminalArguments(Arguments):
    command: Annotated[
        str, Field(description="What to type at the debugger's prompt, such as 'where'.")
    ]


@dataclass(frozen=True)
class RawTerminal:
    """Types at a debugger's prompt. The debugger starts with the first command, before the first
    line of the program, and again with the next one after it has ended."""

    debugger: TerminalDebugger
    launch: Launch
    name: str = "debugger"
    description: str = (
        "Type a command at the prompt of the debugger (pdb for Python, jdb for Java), which is "
        "paused before the program that runs the failing test. Answers with what the terminal "
        "prints up to the next prompt."
    )
    arguments: type[Arguments] = RawTerminalArguments

    def call(self, arguments: RawTerminalArguments, call_id: str) -> ToolReply:
        banner = ""
        if self.debugger.state in (State.START, State.DONE):
            opened = self.debugger.open(self.launch)
            if opened.error_kind is not None:
                return reply(opened)
            banner = opened.output
        event = self.debugger.command(arguments.command)
        shown = f"{banner}{event.output}"
        if event.error is not None:
            shown = f"{shown}\nError ({event.error_kind}): {event.error}".lstrip("\n")
        return ToolReply(shown, reply(event).outcome, event)


def raw_terminal(debugger: TerminalDebugger, test: str) -> list[Tool]:
    """The tool, on one test."""
    return [RawTerminal(debugger, Launch(test))]
