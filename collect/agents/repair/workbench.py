"""What the Program Inspector works with: a debug session, and in the ablations of InspectCoder's
section 4.3 a restricted one, a simulated one, or the raw pdb terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from collect.agents.config import Variant
from collect.agents.forms import ActionForm, ToolCalling
from collect.agents.raw_terminal import raw_terminal
from collect.agents.repair.actions import ActionCall, call_text, parse_actions
from collect.agents.repair.code_rules import only_inspection, only_modification
from collect.agents.repair.inspector_tools import (
    STATE_HEADING,
    InspectorSession,
    InteractCode,
    Limits,
    ProposeRepair,
    any_code,
    inspector_tools,
)
from collect.agents.repair.react import BlockLanguage, ReactForm
from collect.agents.repair.records import Round
from collect.agents.repair.simulated import Simulator, first_state, simulated_tools
from collect.agents.rollout_context import RolloutContext
from collect.agents.tools import Arguments, Tool, ToolReply
from sandbox.debugger import DebugEvent
from sandbox.debugger.opening import open_terminal

RULES = {
    Variant.INSPECTCODER_NO_INSPECTION: only_modification,
    Variant.INSPECTCODER_NO_MODIFICATION: only_inspection,
}
TERMINAL_STATE = "A PDB terminal is ready; it starts with your first command."


@dataclass(frozen=True)
class Workbench:
    """Tools, how they are called, and what the session is like at the start."""

    tools: Sequence[Tool]
    form: ActionForm
    state: str
    started: DebugEvent | None = None
    """The event of the session's start, where there is one."""


@contextmanager
def open_workbench(
    context: RolloutContext, variant: Variant, current: Round
) -> Iterator[Workbench]:
    """The workbench of a variant, on the failing test of a round."""
    context.reset(current.version.code)
    if variant is Variant.INSPECTCODER_NO_DEBUGGER:
        yield _simulated(context, current)
    elif variant is Variant.INSPECTCODER_NO_INSPECTWARE:
        with _terminal(context, current) as bench:
            yield bench
    else:
        with _session(context, variant, current) as bench:
            yield bench


@contextmanager
def _session(context: RolloutContext, variant: Variant, current: Round) -> Iterator[Workbench]:
    config, instance = context.config, context.instance
    with context.debugger("probe") as debugger:
        session = InspectorSession(
            debugger,
            current.version.failing.id,
            instance.solution,
            reset=lambda: context.reset(current.version.code),
        )
        started = session.begin()
        tools = inspector_tools(session, _limits(context), RULES.get(variant, any_code))
        form: ActionForm = ReactForm(session.state_text)
        if config.repair.inspector_form == "tools":
            form, tools = ToolCalling(), [WithState(tool, session) for tool in tools]
        yield Workbench(tools, form, session.state_text(), started)


def _simulated(context: RolloutContext, current: Round) -> Workbench:
    simulator = Simulator(context, current)
    form = ToolCalling() if context.config.repair.inspector_form == "tools" else ReactForm(None)
    return Workbench(simulated_tools(simulator), form, first_state(current))


@contextmanager
def _terminal(context: RolloutContext, current: Round) -> Iterator[Workbench]:
    instance, limits = context.instance, context.config.debugger
    with closing(open_terminal(instance.language, context.sandbox, limits)) as terminal:
        tools = [*raw_terminal(terminal, current.version.failing.id), ProposeRepair()]
        by_tools = context.config.repair.inspector_form == "tools"
        form = ToolCalling() if by_tools else ReactForm(None, TERMINAL_COMMANDS)
        yield Workbench(tools, form, TERMINAL_STATE)


def _limits(context: RolloutContext) -> Limits:
    config = context.config.repair
    return Limits(config.observation_lines, config.observation_chars)


@dataclass(frozen=True)
class WithState:
    """A tool whose answers end with the session's state, as the ReAct form's observations do."""

    tool: Tool
    session: InspectorSession

    @property
    def name(self) -> str:
        return self.tool.name

    @property
    def description(self) -> str:
        return self.tool.description

    @property
    def arguments(self) -> type[Arguments]:
        return self.tool.arguments

    def call(self, arguments: Any, call_id: str) -> ToolReply:
        answer = self.tool.call(arguments, call_id)
        if isinstance(self.tool, InteractCode | ProposeRepair):
            return answer
        state = f"{STATE_HEADING}\n{self.session.state_text()}"
        return replace(answer, text=f"{answer.text}\n\n{state}")


def read_terminal_commands(block: str) -> list[ActionCall]:
    """A block of pdb commands, one a line, up to a proposal. Raises UnreadableAction."""
    calls: list[ActionCall] = []
    lines = [line for line in block.splitlines() if line.strip()]
    for number, line in enumerate(lines):
        if line.strip().startswith("propose_repair("):
            return [*calls, *parse_actions("\n".join(lines[number:]))]
        calls.append(ActionCall("debugger", {"command": line.rstrip()}))
    return calls


def write_terminal_command(call: ActionCall) -> str:
    """What was typed."""
    return str(call.arguments["command"]) if call.name == "debugger" else call_text(call)


TERMINAL_COMMANDS = BlockLanguage(
    read_terminal_commands, write_terminal_command, stops_at_error=False
)
