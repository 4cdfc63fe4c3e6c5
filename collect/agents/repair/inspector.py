"""The Program Inspector: finds the root cause in a debug session (InspectCoder, section 2.3)."""

from __future__ import annotations

import re

from collect.agents.config import Variant
from collect.agents.loop import AgentSpec
from collect.agents.prompts import fill, prompt
from collect.agents.repair.actions import UnreadableAction, parse_actions
from collect.agents.repair.failing import numbered
from collect.agents.repair.inspector_tools import ProposeRepair
from collect.agents.repair.react import action_block
from collect.agents.repair.records import Round
from collect.agents.repair.workbench import Workbench, open_workbench
from collect.agents.rollout_context import RolloutContext
from collect.agents.tools import Toolbox
from collect.records import SESSION_START, EventRow, Role

DEMONSTRATIONS = ("inspection", "missing_logic", "flawed_logic", "proposal")
LEFT_OUT = {
    Variant.INSPECTCODER_NO_INSPECTION: ("inspection",),
    Variant.INSPECTCODER_NO_MODIFICATION: ("missing_logic", "flawed_logic"),
    Variant.INSPECTCODER_NO_INSPECTWARE: ("flawed_logic",),
}
INTERACT_USES = {
    Variant.INSPECTCODER_NO_INSPECTION: (
        "Print variables or any expression over them to see the state."
    ),
    Variant.INSPECTCODER_NO_MODIFICATION: (
        "Assign to variables to change the state, and then continue."
    ),
}
"""By the ablation that goes without."""
PRINTS = re.compile(r"\ninteract_code\(\"print\(.*?\)\"\)|; print\([^)\n]*\)")
"""In demonstrations: calls that only print, and prints after other code."""
RESTRICTIONS = {
    Variant.INSPECTCODER_NO_INSPECTION: "inspectcoder/no_inspection",
    Variant.INSPECTCODER_NO_MODIFICATION: "inspectcoder/no_modification",
}
TERMINAL_DEMONSTRATIONS = ("inspection", "missing_logic")
REMINDER = "Call propose_repair with your plan, or another tool if something is still open."
TASK_MESSAGE = 1
"""The message that shows the state after the session was started."""


class Inspector:
    """One conversation a round; all rounds share the reasoning steps."""

    def __init__(self, context: RolloutContext, variant: Variant) -> None:
        self._context = context
        self._variant = variant
        self._steps_left = context.config.repair.max_reasoning_steps

    @property
    def exhausted(self) -> bool:
        """Whether no reasoning step is left for another round."""
        return self._steps_left <= 0

    def diagnose(self, current: Round) -> str:
        """The root cause and a repair plan."""
        with open_workbench(self._context, self._variant, current) as bench:
            agent = self._context.agent(
                self._spec(bench), Role.INSPECTOR, patch_attempt=current.number
            )
            if bench.started is not None:
                agent.log.add_event(EventRow(TASK_MESSAGE, SESSION_START, bench.started))
            task = self._context.instance.problem_statement
            try:
                agent.run(inspector_task(task, current, bench.state))
            finally:
                self._steps_left -= agent.log.steps
        return plan_of(agent.log.final_answer)

    def _spec(self, bench: Workbench) -> AgentSpec:
        config = self._context.config.repair
        by_tools = bench.form.by_tools
        solution = self._context.instance.solution
        return AgentSpec(
            inspector_prompt(self._variant, by_tools, config.max_reasoning_steps, solution),
            Toolbox(bench.tools),
            max_steps=self._steps_left,
            forced_answer=prompt("inspectcoder/forced_plan"),
            follow_up=lambda answer: REMINDER,
            max_follow_ups=1,
            concluding=ProposeRepair.name,
            form=bench.form,
        )


def inspector_prompt(variant: Variant, by_tools: bool, steps: int, solution: str) -> str:
    """The Inspector's system prompt: role, actions, form, demonstrations, what is forbidden."""
    in_terminal = variant is Variant.INSPECTCODER_NO_INSPECTWARE
    form = "inspectcoder/tools_format" if by_tools else "inspectcoder/react_format"
    parts = [
        prompt("inspectcoder/inspector"),
        prompt("pdb/actions" if in_terminal else "inspectcoder/actions", uses=_uses(variant)),
        prompt("pdb/format" if in_terminal and not by_tools else form),
        "Examples of a step:",
        *(
            demonstration(name, by_tools, variant)
            for name in DEMONSTRATIONS
            if name not in LEFT_OUT.get(variant, ())
        ),
        prompt("inspectcoder/tips", steps=str(steps)),
    ]
    if variant in RESTRICTIONS:
        parts.append(prompt(RESTRICTIONS[variant]))
    return fill("\n\n".join(parts), {"solution": solution})


def _uses(variant: Variant) -> str:
    """What interact_code is good for, as far as the variant has it."""
    uses = [text for ablated, text in INTERACT_USES.items() if ablated is not variant]
    return " ".join(uses)


def demonstration(name: str, by_tools: bool, variant: Variant) -> str:
    """One example of a step, in the form in which the model is to act."""
    in_terminal = variant is Variant.INSPECTCODER_NO_INSPECTWARE
    folder = "pdb" if in_terminal and name in TERMINAL_DEMONSTRATIONS else "inspectcoder"
    thought, calls = prompt(f"{folder}/demonstration_{name}").split("\n---\n")
    if variant is Variant.INSPECTCODER_NO_INSPECTION:
        calls = PRINTS.sub("", calls)
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
