"""The Program Inspector's action space (InspectCoder, section 2.3.1) over one debug session."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Annotated, Literal, cast

from pydantic import Field

from collect.agents.config import RepairConfig
from collect.agents.debug_tools import reply
from collect.agents.inspectcoder.patching import shortened
from collect.agents.tools import Arguments, ToolReply
from collect.code.syntax import parse
from collect.store.records import ToolOutcome
from sandbox.debugger import Action, BreakpointRequest, DebugEvent, Debugger, ErrorKind, State
from sandbox.debugger.rendering import render, render_snapshot

INSPECTION = "interact_code/inspection"
MODIFICATION = "interact_code/modification"
RAN_OUT = (
    "The test ran to its end without an exception and was started again: the session is paused "
    "where the test begins, and nothing that interact_code changed is left."
)
STATE_HEADING = "## PDB Session State"
"""Heading of `InspectorSession.state_text` in answers and in the task's prompt."""
STARTED_AGAIN = "The test was started again: the session is paused where it begins."


CodeRule = Callable[[str], tuple[str | None, str]]
"""Which code interact_code accepts: the code to run (None for none), and a message for the model
(empty for none)."""


@dataclass
class InspectorSession:
    """A debug session on one failing test; it restarts whenever it ends."""

    debugger: Debugger
    test: str
    solution: str
    config: RepairConfig
    reset: Callable[[], None] = lambda: None
    """Resets the workspace, since a killed test does not clean up after itself."""

    def restart(self) -> DebugEvent:
        """Restart on a clean workspace, unless the session's state forbids it."""
        if self.debugger.state is not State.START:
            self.reset()
        return self.debugger.restart()

    def state_text(self) -> str:
        """The session's state, as in listing 3."""
        if self.debugger.state is State.START:
            return "The debug session could not be started."
        return render_snapshot(self.debugger.snapshot())

    def shown(self, event: DebugEvent) -> ToolReply:
        """A stop as an answer, without its stack, which the session's state shows. Of the program
        and of the test, which are in the task, it has the current line alone, and nothing of tests
        that the task does not show.
        """
        kept = replace(event, frames=())
        if event.file in (self.solution, self.test.partition("::")[0]):
            current = (line for line in event.source if line.startswith("->"))
            kept = replace(kept, source=tuple(current))
        return replace(reply(kept, {}), event=event)

    def after_run(self, event: DebugEvent) -> ToolReply:
        """The answer to an action that ran the program; an ended session restarts."""
        answer = self.shown(event)
        if event.state is not State.DONE:
            return answer
        again = self.restart()
        ended = RAN_OUT if event.exit_code == 0 and event.error is None else STARTED_AGAIN
        text = f"{render(event)}\n{ended if again.error_kind is None else render(again)}"
        return replace(answer, text=text, later_events=(again,))

    def moved(self, answer: ToolReply) -> ToolReply:
        """The answer to a breakpoint or a move; in a tool's answer with the session's state, which
        the ReAct form shows after all actions of a reply.
        """
        answer = self.cut(answer)
        if self.config.inspector_form == "react":
            return answer
        return replace(answer, text=f"{answer.text}\n\n{STATE_HEADING}\n{self.state_text()}")

    def cut(self, answer: ToolReply) -> ToolReply:
        """An answer of at most the lines and characters that an observation may have."""
        lines, chars = self.config.observation_lines, self.config.observation_chars
        return replace(answer, text=shortened(answer.text, lines, chars))


class SetBreakpointArguments(Arguments):
    line: Annotated[int, Field(ge=1, description="Line of the buggy code to pause before.")]


@dataclass(frozen=True)
class SetBreakpoint:
    session: InspectorSession
    name: str = "set_breakpoint"
    description: str = (
        "Set a breakpoint at a line of the buggy code: the program pauses before that line is "
        "executed. The breakpoint is removed once it is hit."
    )
    arguments: type[Arguments] = SetBreakpointArguments

    def call(self, arguments: SetBreakpointArguments, call_id: str) -> ToolReply:
        session = self.session
        request = BreakpointRequest(file=session.solution, line=arguments.line, temporary=True)
        return session.moved(reply(session.debugger.set_breakpoint(request), {}))


class ControlArguments(Arguments):
    cmd: Annotated[
        Literal["continue", "restart"],
        Field(
            description="continue: run to the next breakpoint, or to the error. restart: begin "
            "again at the first line, without what interact_code changed."
        ),
    ]


@dataclass(frozen=True)
class ControlExecution:
    session: InspectorSession
    name: str = "control_execution"
    description: str = "Let the program run to the next breakpoint, or restart the session."
    arguments: type[Arguments] = ControlArguments

    def call(self, arguments: ControlArguments, call_id: str) -> ToolReply:
        session = self.session
        if arguments.cmd == "restart":
            return session.moved(session.shown(session.restart()))
        return session.moved(session.after_run(session.debugger.control(Action.CONTINUE)))


class InteractArguments(Arguments):
    code: Annotated[str, Field(min_length=1, description="Python code, of any number of lines.")]


@dataclass(frozen=True)
class InteractCode:
    session: InspectorSession
    rule: CodeRule = lambda code: (code, "")
    name: str = "interact_code"
    description: str = (
        "Run Python code before the paused line, in the paused frame: print variables or "
        "expressions, or assign to variables to try a change and then continue. Answers with "
        "what it prints or raises; the program stays paused."
    )
    arguments: type[Arguments] = InteractArguments

    def call(self, arguments: InteractArguments, call_id: str) -> ToolReply:
        action = INSPECTION if is_inspection(arguments.code) else MODIFICATION
        code, remark = self.rule(arguments.code)
        if code is None:
            return ToolReply(f"Refused: {remark}", ToolOutcome.REFUSED, action=action)
        event = self.session.debugger.run_code(code)
        answer = reply(event, {})
        if event.state is State.DONE and event.error_kind is not ErrorKind.NOT_ALLOWED:
            answer = self.session.after_run(event)
        answer = self.session.cut(answer)
        text = f"{answer.text}\nNote: {remark}" if remark else answer.text
        return replace(answer, text=text, action=action)


class ProposeArguments(Arguments):
    plan: Annotated[
        str,
        Field(
            min_length=1,
            description='"The root cause of the bug is that ..., to fix the bug, consider ..."',
        ),
    ]


@dataclass(frozen=True)
class ProposeRepair:
    name: str = "propose_repair"
    description: str = (
        "End the analysis with the root cause of the bug and a concrete repair plan, from which a "
        "colleague writes the patch."
    )
    arguments: type[Arguments] = ProposeArguments

    def call(self, arguments: ProposeArguments, call_id: str) -> ToolReply:
        return ToolReply("The repair plan is handed on.", conclusion=arguments.plan)


PRINTS = {"print", "pprint"}
LIVE_PATCHES = {"exec", "setattr", "delattr"}
NAMESPACES = {"globals", "vars", "locals"}


def is_inspection(code: str) -> bool:
    """Whether code inspects rather than modifies: it prints (InspectCoder, section 4.4.1), and does
    not replace the program's functions or attributes.
    """
    tree = parsed(code)
    if tree is None:
        return "print(" in code
    return any(calls(node, PRINTS) for node in ast.walk(tree)) and not patches_program(tree)


def parsed(code: str) -> ast.Module | None:
    """None if it does not parse: it then runs as it is, so that the error is shown."""
    try:
        return parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def patches_program(tree: ast.AST) -> bool:
    """Whether code replaces names or attributes of the running program through functions such as
    `setattr` or `globals`, or a `global` statement.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Global) or calls(node, LIVE_PATCHES):
            return True
        stored = isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load)
        if stored and calls(cast(ast.Subscript, node).value, NAMESPACES):
            return True
    return False


def calls(node: ast.AST, names: Collection[str]) -> bool:
    """Whether it is a call of one of these functions."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names
