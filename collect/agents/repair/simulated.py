"""The ablation "without debugger tool": a model makes up what a debugger would show
(InspectCoder, section 4.3)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from collect.agents.loop import AgentRun, AgentSpec
from collect.agents.prompts import prompt
from collect.agents.repair.actions import ActionCall, call_text
from collect.agents.repair.failing import numbered
from collect.agents.repair.inspector_tools import (
    INSPECTION,
    MODIFICATION,
    ControlExecution,
    InteractArguments,
    InteractCode,
    ProposeRepair,
    SetBreakpoint,
    has_print,
)
from collect.agents.repair.records import Round
from collect.agents.rollout_context import RolloutContext
from collect.agents.tools import Arguments, Tool, Toolbox, ToolReply
from collect.records import Role

NO_ANSWER = "(no output)"


class Simulator:
    """One conversation, in which each action of the Inspector's is a message."""

    def __init__(self, context: RolloutContext, current: Round) -> None:
        self._current = current
        spec = AgentSpec(prompt("simulator/system"), Toolbox([]), max_steps=1)
        self._agent: AgentRun = context.agent(spec, Role.SIMULATOR, patch_attempt=current.number)

    def answer(self, action: str) -> str:
        """What the model says that the debugger would show."""
        message = action if self._agent.log.rows else self._first(action)
        self._agent.run(message)
        return self._agent.log.final_answer.strip() or NO_ANSWER

    def _first(self, action: str) -> str:
        version = self._current.version
        return prompt(
            "simulator/program",
            code=numbered(version.code),
            test=version.failing.id,
            test_source=version.failing.source,
            action=action,
        )


@dataclass(frozen=True)
class Simulated:
    """An action of the Inspector's that the simulator answers."""

    simulator: Simulator
    name: str
    description: str
    arguments: type[Arguments]

    def call(self, arguments: Any, call_id: str) -> ToolReply:
        call = ActionCall(self.name, json.loads(arguments.model_dump_json()))
        action = ""
        if isinstance(arguments, InteractArguments):
            action = INSPECTION if has_print(arguments.code) else MODIFICATION
        return ToolReply(self.simulator.answer(f"> {call_text(call)}"), action=action)


def simulated_tools(simulator: Simulator) -> list[Tool]:
    """The Inspector's actions, all but the proposal answered by the simulator."""
    kinds = (SetBreakpoint, ControlExecution, InteractCode)
    simulated: list[Tool] = [
        Simulated(simulator, kind.name, kind.description, kind.arguments) for kind in kinds
    ]
    return [*simulated, ProposeRepair()]


def first_state(current: Round) -> str:
    """The state that a session begins in, as far as it can be told without one."""
    return f"Paused at the first line of {current.version.failing.id}."
