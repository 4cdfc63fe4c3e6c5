"""The Program Inspector: finds the root cause in a debug session (InspectCoder, section 2.3)."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from collect.agents.config import Variant
from collect.agents.forms import ActionForm, ToolCalling
from collect.agents.loop import AgentSpec
from collect.agents.prompts import prompt
from collect.agents.repair.actions import UnreadableAction, parse_actions
from collect.agents.repair.code_rules import only_inspection, only_modification
from collect.agents.repair.failing import numbered
from collect.agents.repair.inspector_tools import (
    InspectorSession,
    InteractCode,
    Limits,
    ProposeRepair,
    any_code,
    inspector_tools,
)
from collect.agents.repair.react import ReactForm, action_block
from collect.agents.repair.records import Round
from collect.agents.rollout_context import RolloutContext
from collect.agents.tools import Arguments, Tool, Toolbox, ToolReply
from collect.records import Role

RULES = {
    Variant.INSPECTCODER_NO_INSPECTION: only_modification,
    Variant.INSPECTCODER_NO_MODIFICATION: only_inspection,
}
DEMONSTRATIONS = ("inspection", "missing_logic", "flawed_logic", "proposal")
LEFT_OUT = {
    Variant.INSPECTCODER_NO_INSPECTION: ("inspection",),
    Variant.INSPECTCODER_NO_MODIFICATION: ("missing_logic", "flawed_logic"),
}
RESTRICTIONS = {
    Variant.INSPECTCODER_NO_INSPECTION: "inspectcoder/no_inspection",
    Variant.INSPECTCODER_NO_MODIFICATION: "inspectcoder/no_modification",
}
REMINDER = "Call propose_repair with your plan, or another tool if something is still open."


class Inspector:
    """One conversation a round; all rounds share the reasoning steps."""

    def __init__(self, context: RolloutContext, variant: Variant) -> None:
        self._context = context
        self._variant = variant
        self._steps_left = context.config.repair.max_reasoning_steps

    @property
    def exhausted(self) -> bool:
        return self._steps_left <= 0

    def diagnose(self, current: Round) -> str:
        """The root cause and a repair plan."""
        context = self._context
        with closing(context.debugger()) as debugger:
            session = InspectorSession(
                debugger, current.version.failing.id, context.instance.solution
            )
            session.begin()
            agent = context.agent(self._spec(session), Role.INSPECTOR, patch_attempt=current.number)
            try:
                agent.run(self.task(current, session.state_text()))
            finally:
                self._steps_left -= agent.log.steps
        return plan_of(agent.log.final_answer)

    def task(self, current: Round, state: str) -> str:
        """The user prompt of listing 1."""
        return inspector_task(self._context.instance.problem_statement, current, state)

    def _spec(self, session: InspectorSession) -> AgentSpec:
        config = self._context.config.repair
        limits = Limits(config.observation_lines, config.observation_chars)
        tools = inspector_tools(session, limits, RULES.get(self._variant, any_code))
        form: ActionForm = ReactForm(session.state_text)
        if config.inspector_form == "tools":
            form, tools = ToolCalling(), [WithState(tool, session) for tool in tools]
        return AgentSpec(
            inspector_prompt(self._variant, form.by_tools, config.max_reasoning_steps),
            Toolbox(tools),
            max_steps=self._steps_left,
            forced_answer=prompt("inspectcoder/forced_plan"),
            follow_up=lambda answer: REMINDER,
            max_follow_ups=1,
            form=form,
        )


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
        state = f"## PDB Session State\n{self.session.state_text()}"
        return replace(answer, text=f"{answer.text}\n\n{state}")


def inspector_prompt(variant: Variant, by_tools: bool, steps: int) -> str:
    """The Inspector's system prompt: role, actions, form, demonstrations, what is forbidden."""
    parts = [prompt("inspectcoder/inspector")]
    parts.append(prompt("inspectcoder/actions"))
    parts.append(prompt(f"inspectcoder/{'tools' if by_tools else 'react'}_format"))
    left_out = LEFT_OUT.get(variant, ())
    parts.append("Examples of a step:")
    parts += [demonstration(name, by_tools) for name in DEMONSTRATIONS if name not in left_out]
    parts.append(prompt("inspectcoder/tips", steps=str(steps)))
    if variant in RESTRICTIONS:
        parts.append(prompt(RESTRICTIONS[variant]))
    return "\n\n".join(parts)


def demonstration(name: str, by_tools: bool) -> str:
    """One example of a step, in the form in which the model is to act."""
    thought, calls = prompt(f"inspectcoder/demonstration_{name}").split("\n---\n")
    if by_tools:
        return f"<example>\n{thought}\nThe calls of this step, in order:\n{calls}\n</example>"
    block = f"### THOUGHT\n{thought}\n### ACTION\n```debugger\n{calls}\n```"
    return f"<example>\n{block}\n</example>"


def inspector_task(coding_task: str, current: Round, state: str) -> str:
    """The user prompt of listing 1, with the repairs that earlier rounds have tried."""
    failing = current.version.failing
    return prompt(
        "inspectcoder/task",
        coding_task=coding_task,
        buggy_code=numbered(current.version.code),
        test=failing.id,
        test_source=failing.source,
        error=failing.error,
        earlier=earlier_repairs(current),
        state=state,
    )


def earlier_repairs(current: Round) -> str:
    """The plans of the rounds before; empty in the first."""
    plans = [f"{number}. {patch.plan}" for number, (_, patch) in enumerate(current.history, 1)]
    if not plans:
        return ""
    return "\n" + prompt("inspectcoder/earlier", repairs="\n".join(plans)) + "\n"


def plan_of(answer: str) -> str:
    """The plan in a final answer: of a propose_repair where it calls one, else all of it."""
    try:
        actions = parse_actions(action_block(answer))
    except UnreadableAction:
        return answer.strip()
    plans = [
        str(call.arguments.get("plan", "")) for call in actions if call.name == "propose_repair"
    ]
    return plans[-1] if plans else answer.strip()
