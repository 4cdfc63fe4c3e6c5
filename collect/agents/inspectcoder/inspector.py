"""The Program Inspector: finds the root cause in a debug session (InspectCoder, section 2.3)."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from collect.agents.config import Variant
from collect.agents.conversation import AgentRun, AgentSpec
from collect.agents.debug_tools import reply
from collect.agents.inspectcoder.inspector_tools import (
    INSPECTION,
    MODIFICATION,
    ControlExecution,
    InspectorSession,
    InteractArguments,
    InteractCode,
    ProposeRepair,
    SetBreakpoint,
    calls,
    is_inspection,
    parsed,
    patches_program,
)
from collect.agents.inspectcoder.patching import Patch, Round, numbered, write_patch
from collect.agents.inspectcoder.react import (
    ActionCall,
    ReactForm,
    UnreadableAction,
    action_block,
    call_text,
    parse_actions,
)
from collect.agents.prompts import fill, prompt
from collect.agents.rollout_context import RolloutContext
from collect.agents.tools import ActionForm, Arguments, Tool, Toolbox, ToolReply
from collect.store.records import SESSION_START, TASK_MESSAGE, EventRow, Role
from sandbox.debugger import DebugEvent, Launch
from sandbox.debugger.pdb_terminal import PdbTerminal


class RawTerminalArguments(Arguments):
    command: Annotated[
        str, Field(description="What to type at the debugger's prompt, such as 'where'.")
    ]


@dataclass(frozen=True)
class RawTerminal:
    """The only tool of the ablation "without InspectWare": types at pdb's prompt. pdb starts with
    the first command, before the program's first line, and restarts with the next command after it
    has ended.
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


@dataclass(frozen=True)
class Simulated:
    """An action of the Inspector in the ablation "without debugger tool": a model imagines the
    debugger's answer, in one conversation in which each action is a message."""

    simulator: AgentRun
    current: Round
    name: str
    description: str
    arguments: type[Arguments]

    def call(self, arguments: Any, call_id: str) -> ToolReply:
        text = f"> {call_text(ActionCall(self.name, json.loads(arguments.model_dump_json())))}"
        action = ""
        if isinstance(arguments, InteractArguments):
            action = INSPECTION if is_inspection(arguments.code) else MODIFICATION
        log, version = self.simulator.log, self.current.version
        if not log.rows:
            text = prompt(
                "simulator/program",
                code=numbered(version.code),
                test=version.failing.id,
                test_source=version.failing.source,
                action=text,
            )
        self.simulator.run(text)
        return ToolReply(log.final_answer.strip() or "(no output)", action=action)


NO_PRINTS = "values can't be inspected here: print calls and bare expressions were left out"
NO_CHANGES = (
    "the running program can't be modified here: interact_code may only print variables and "
    "expressions, not assign, delete, import or define anything, nor call methods for their effect"
)
SHOWS = ("print", "pprint", "display")
CHANGES = (
    *(ast.Assign, ast.AugAssign, ast.AnnAssign, ast.NamedExpr, ast.Delete, ast.Global),
    *(ast.Nonlocal, ast.Import, ast.ImportFrom),
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef),
)


def only_modification(code: str) -> tuple[str | None, str]:
    """Without breakpoint inspection: drop statements that only show something."""
    tree = parsed(code)
    if tree is None:
        return code, ""
    shown = _Silenced()
    tree = shown.visit(tree)
    if not shown.removed:
        return code, ""
    kept = [node for node in tree.body if not isinstance(node, ast.Pass)]
    return (ast.unparse(tree) if kept else None), NO_PRINTS


def only_inspection(code: str) -> tuple[str | None, str]:
    """Without runtime modification: allow only expressions that show something."""
    tree = parsed(code)
    if tree is None:
        return code, ""
    for node in ast.walk(tree):
        called = node.value if isinstance(node, ast.Expr) else None
        effect = isinstance(called, ast.Call) and not calls(called, SHOWS)
        if effect or isinstance(node, CHANGES):
            return None, NO_CHANGES
    return (None, NO_CHANGES) if patches_program(tree) else (code, "")


class _Silenced(ast.NodeTransformer):
    """Removes statements that only show something."""

    def __init__(self) -> None:
        self.removed = False

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        if calls(node.value, SHOWS) or not isinstance(node.value, ast.Call | ast.Await | ast.Yield):
            self.removed = True
            return ast.copy_location(ast.Pass(), node)
        return node


RULES = {
    Variant.INSPECTCODER_NO_INSPECTION: only_modification,
    Variant.INSPECTCODER_NO_MODIFICATION: only_inspection,
}


@dataclass(frozen=True)
class Workbench:
    """The tools, the form in which they are called, and the session's first state."""

    tools: Sequence[Tool]
    form: ActionForm
    state: str
    started: DebugEvent | None = None
    """The event that started the session, if there is one."""


@contextmanager
def open_workbench(
    context: RolloutContext, variant: Variant, current: Round
) -> Iterator[Workbench]:
    """The variant's workbench for the failing test of a round: a debug session, or what one of the
    ablations of section 4.3 has (restricted, simulated, or pdb's terminal)."""
    context.reset(current.version.code)
    repair, test = context.config.repair, current.version.failing.id
    form: ActionForm
    by_tools = repair.inspector_form == "tools"
    if variant is Variant.INSPECTCODER_NO_DEBUGGER:
        spec = AgentSpec(prompt("simulator/system"), Toolbox([]), max_steps=1)
        simulator = context.agent(spec, Role.SIMULATOR, patch_attempt=current.number)
        simulated = [
            Simulated(simulator, current, kind.name, kind.description, kind.arguments)
            for kind in (SetBreakpoint, ControlExecution, InteractCode)
        ]
        form = ActionForm() if by_tools else ReactForm()
        state = f"Paused at the first line of {test}."
        yield Workbench([*simulated, ProposeRepair()], form, state)
    elif variant is Variant.INSPECTCODER_NO_INSPECTWARE:
        with closing(PdbTerminal(context.sandbox, test, context.config.debugger)) as terminal:
            form = ActionForm() if by_tools else TerminalForm()
            state = "A PDB terminal is ready; it starts with your first command."
            yield Workbench([RawTerminal(terminal), ProposeRepair()], form, state)
    else:
        with context.debugger() as debugger:
            session = InspectorSession(
                debugger,
                test,
                context.instance.solution,
                repair,
                reset=lambda: context.reset(current.version.code),
            )
            started = debugger.start(Launch(test, stop_at_entry=True))
            form = ActionForm() if by_tools else ReactForm(session.state_text)
            interact = InteractCode(session, RULES.get(variant, InteractCode.rule))
            moves = [SetBreakpoint(session), ControlExecution(session)]
            tools: list[Tool] = [*moves, interact, ProposeRepair()]
            yield Workbench(tools, form, session.state_text(), started)


class TerminalForm(ReactForm):
    """Blocks of pdb commands, one per line, up to a proposal."""

    stops_at_error = False

    @staticmethod
    def read(block: str) -> list[ActionCall]:
        commands: list[ActionCall] = []
        lines = [line for line in block.splitlines() if line.strip()]
        for number, line in enumerate(lines):
            if line.strip().startswith("propose_repair("):
                return [*commands, *parse_actions("\n".join(lines[number:]))]
            commands.append(ActionCall("debugger", {"command": line.rstrip()}))
        return commands

    @staticmethod
    def write(action: ActionCall) -> str:
        typed = action.name == "debugger"
        return str(action.arguments["command"]) if typed else call_text(action)


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
"""Uses of interact_code that remain in each ablation."""
PRINTS = re.compile(r"\ninteract_code\(\"print\(.*?\)\"\)|; print\([^)\n]*\)")
"""Calls in demonstrations that only print, and prints after other code."""
TERMINAL_DEMONSTRATIONS = ("inspection", "missing_logic")
REMINDER = "Call propose_repair with your plan, or another tool if something is still open."


class Inspector:
    """One conversation per round; all rounds share a budget of reasoning steps."""

    def __init__(self, context: RolloutContext) -> None:
        self._context = context
        self._variant = Variant(context.variant)
        self._steps_left = context.config.repair.max_reasoning_steps

    @property
    def exhausted(self) -> bool:
        """Whether no reasoning steps are left for another round."""
        return self._steps_left <= 0

    def repair(self, current: Round) -> Patch:
        """Find the root cause and a repair plan, and let the Patch Coder write the patch
        (InspectCoder, figure 2)."""
        context, instance = self._context, self._context.instance
        with open_workbench(context, self._variant, current) as bench:
            by_tools, steps = bench.form.by_tools, self._steps_left
            spec = AgentSpec(
                inspector_prompt(self._variant, by_tools, steps, instance.solution),
                Toolbox(bench.tools),
                max_steps=steps,
                forced_answer=prompt("inspectcoder/forced_plan"),
                follow_up=lambda answer: REMINDER,
                max_follow_ups=1,
                concluding=ProposeRepair.name,
                form=bench.form,
            )
            agent = context.agent(spec, Role.INSPECTOR, patch_attempt=current.number)
            if bench.started is not None:
                agent.log.add_event(EventRow(TASK_MESSAGE, SESSION_START, bench.started))
            try:
                agent.run(inspector_task(instance.problem_statement, current, bench.state))
            finally:
                self._steps_left -= agent.log.steps
        return write_patch(context, current, plan_of(agent.log.final_answer))


def inspector_prompt(variant: Variant, by_tools: bool, steps: int, solution: str) -> str:
    """The Inspector's system prompt: role, actions, form, demonstrations, prohibitions."""
    in_terminal = variant is Variant.INSPECTCODER_NO_INSPECTWARE
    form = "inspectcoder/tools_format" if by_tools else "inspectcoder/react_format"
    # The uses of interact_code that the variant leaves.
    uses = " ".join(text for ablated, text in INTERACT_USES.items() if ablated is not variant)
    parts = [
        prompt("inspectcoder/inspector"),
        prompt("pdb/actions" if in_terminal else "inspectcoder/actions", uses=uses),
        prompt("pdb/format" if in_terminal and not by_tools else form),
        "Examples of a step:",
        *(
            demonstration(name, by_tools, variant)
            for name in DEMONSTRATIONS
            if name not in LEFT_OUT.get(variant, ())
        ),
        prompt("inspectcoder/tips", steps=str(steps)),
    ]
    if variant in RULES:
        parts.append(prompt(variant.replace("_", "/", 1)))
    return fill("\n\n".join(parts), {"solution": solution})


def demonstration(name: str, by_tools: bool, variant: Variant) -> str:
    """One example step, in the form that the model must use."""
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
