"""The Program Inspector: finds the root cause in a debug session (InspectCoder, section 2.3)."""

from __future__ import annotations

import re

from collect.agents.conversation import AgentSpec
from collect.agents.inspectcoder.ablations import Ablation
from collect.agents.inspectcoder.inspector_tools import RULES, ProposeRepair, open_workbench
from collect.agents.inspectcoder.patching import (
    OneFileRepair,
    Patch,
    Round,
    numbered,
    write_patch,
)
from collect.agents.inspectcoder.react import (
    InspectorTools,
    UnreadableAction,
    action_block,
    parse_actions,
)
from collect.agents.prompts import fill, prompt
from collect.agents.rollout_context import RolloutContext
from collect.agents.tools import Toolbox
from collect.store.records import SESSION_START, TASK_MESSAGE, EventRow, Role

DEMONSTRATIONS = ("inspection", "missing_logic", "flawed_logic", "proposal")
LEFT_OUT = {
    Ablation.NO_INSPECTION: ("inspection",),
    Ablation.NO_MODIFICATION: ("missing_logic", "flawed_logic"),
    Ablation.NO_INSPECTWARE: ("flawed_logic",),
}
INTERACT_USES = {
    Ablation.NO_INSPECTION: ("Print variables or any expression over them to see the state."),
    Ablation.NO_MODIFICATION: (
        "Assign to variables to change the state, and then continue. To try a changed line to the "
        "end of the test, `exec` the whole patched code in `globals()` where the test begins, "
        "which does nothing if the test loads the program anew; or stop in the program before the "
        "line and replace what it uses: `globals()['sorted'] = ...`, `Class.method = patched`."
    ),
}
"""Uses of interact_code that remain in each ablation."""
PRINTS = re.compile(r"\ninteract_code\(\"print\(.*?\)\"\)|; print\([^)\n]*\)")
"""Calls in demonstrations that only print, and prints after other code."""
TERMINAL_DEMONSTRATIONS = ("inspection", "missing_logic")
REMINDER = "Call propose_repair with your plan, or another tool if something is still open."


class Inspector:
    """One conversation per round; all rounds share a budget of reasoning steps."""

    def __init__(self, context: RolloutContext) -> None:
        self._context = context
        self._ablation = Ablation(context.variant)
        self._steps_left = context.config.repair.max_reasoning_steps

    @property
    def exhausted(self) -> bool:
        return self._steps_left <= 0

    def repair(self, current: Round) -> Patch:
        """Find the root cause and a repair plan, and let the Patch Coder write the patch
        (InspectCoder, figure 2)."""
        context, instance = self._context, self._context.instance
        with open_workbench(context, self._ablation, current) as bench:
            by_tools = context.config.repair.inspector_form == "tools"
            steps = self._steps_left
            spec = AgentSpec(
                inspector_prompt(self._ablation, by_tools, steps, instance.solution),
                Toolbox(bench.tools),
                max_steps=steps,
                forced_answer=prompt("inspectcoder/forced_plan"),
                follow_up=lambda answer: REMINDER,
                max_follow_ups=1,
                concluding=ProposeRepair.name,
                form=InspectorTools(bench.form.state) if by_tools else bench.form,
            )
            agent = context.agent(spec, Role.INSPECTOR, patch_attempt=current.number)
            if bench.started is not None:
                agent.log.add_event(EventRow(TASK_MESSAGE, SESSION_START, bench.started))
            try:
                agent.run(inspector_task(instance.problem_statement, current, bench.state))
            finally:
                self._steps_left -= agent.log.steps
        return write_patch(context, current, plan_of(agent.log.final_answer))


def inspector_prompt(ablation: Ablation, by_tools: bool, steps: int, solution: str) -> str:
    """The Inspector's system prompt: role, actions, form, demonstrations, prohibitions."""
    in_terminal = ablation is Ablation.NO_INSPECTWARE
    form = "inspectcoder/tools_format" if by_tools else "inspectcoder/react_format"
    # The uses of interact_code that the ablation leaves.
    uses = " ".join(text for other, text in INTERACT_USES.items() if other is not ablation)
    parts = [
        prompt("inspectcoder/inspector"),
        prompt("pdb/actions" if in_terminal else "inspectcoder/actions", uses=uses),
        prompt("pdb/format" if in_terminal and not by_tools else form),
        "Examples of a step:",
        *(
            demonstration(name, by_tools, ablation)
            for name in DEMONSTRATIONS
            if name not in LEFT_OUT.get(ablation, ())
        ),
        prompt("inspectcoder/tips", steps=str(steps)),
    ]
    if ablation in RULES:
        parts.append(prompt(ablation.replace("_", "/", 1)))
    return fill("\n\n".join(parts), {"solution": solution})


def demonstration(name: str, by_tools: bool, ablation: Ablation) -> str:
    """One example step, in the form that the model must use."""
    in_terminal = ablation is Ablation.NO_INSPECTWARE
    folder = "pdb" if in_terminal and name in TERMINAL_DEMONSTRATIONS else "inspectcoder"
    thought, calls = prompt(f"{folder}/demonstration_{name}").split("\n---\n")
    if ablation is Ablation.NO_INSPECTION:
        calls = PRINTS.sub("", calls)
    if by_tools:
        return f"<example>\n{thought}\nThe calls of this step, in order:\n{calls}\n</example>"
    block = f"### THOUGHT\n{thought}\n### ACTION\n```debugger\n{calls}\n```"
    return f"<example>\n{block}\n</example>"


def inspector_task(coding_task: str, current: Round, state: str) -> str:
    """The user prompt of listing 1, with the plans of earlier rounds, and what became of them."""
    failing, earlier = current.version.failing, ""
    if current.history:
        versions = [*(version for version, _ in current.history[1:]), current.version]
        repairs: list[str] = []
        for (_, patch), version in zip(current.history, versions, strict=True):
            then = patch.problem or "no patch was written from it."
            if patch.code is not None:
                lines = version.failing.error.splitlines()
                told = [line.removeprefix("E").strip() for line in lines if line.startswith("E ")]
                then = f"{version.failing.id} failed: {(told or lines or ['without a message'])[0]}"
            repairs.append(f"{len(repairs) + 1}. {patch.plan}\nThen: {then}")
        earlier = "\n" + prompt("inspectcoder/earlier", repairs="\n".join(repairs)) + "\n"
    return prompt(
        "inspectcoder/task",
        coding_task=coding_task,
        buggy_code=numbered(current.version.code),
        test=failing.id,
        test_source=failing.source,
        error=failing.error,
        earlier=earlier,
        state=state,
    )


def plan_of(answer: str) -> str:
    """The plan in a final answer: the argument of propose_repair if it is called, else the whole
    text.
    """
    try:
        actions = parse_actions(action_block(answer))
    except UnreadableAction:
        return answer.strip()
    plans = [
        str(call.arguments.get("plan", "")) for call in actions if call.name == "propose_repair"
    ]
    return plans[-1] if plans else answer.strip()


AGENTS = (Role.PATCH_CODER, Role.INSPECTOR)
SYSTEMS = (
    OneFileRepair(
        name=Ablation.NOTHING.value,
        title="InspectCoder",
        roles=AGENTS,
        open_repair=Inspector,
        without_subagent="simple_debugging",
    ),
    OneFileRepair(
        name=Ablation.NO_INSPECTION.value,
        title="w/o BI Strategy",
        roles=AGENTS,
        open_repair=Inspector,
        is_ablation=True,
    ),
    OneFileRepair(
        name=Ablation.NO_MODIFICATION.value,
        title="w/o RM Strategy",
        roles=AGENTS,
        open_repair=Inspector,
        is_ablation=True,
    ),
    OneFileRepair(
        name=Ablation.NO_DEBUGGER.value,
        title="w/o debugger tool",
        roles=(*AGENTS, Role.SIMULATOR),
        open_repair=Inspector,
        debugging="simulated",
        is_ablation=True,
    ),
    OneFileRepair(
        name=Ablation.NO_INSPECTWARE.value,
        title="w/o InspectWare",
        roles=AGENTS,
        open_repair=Inspector,
        debugging="terminal",
        is_ablation=True,
    ),
)
"""In the order of table 1; the others beside them are the baselines."""
