"""The Program Inspector's action space (InspectCoder, section 2.3.1) over one debug session, and
what its ablations have instead (section 4.3)."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, Literal, cast

from pydantic import Field

from collect.agents.config import RepairConfig
from collect.agents.conversation import AgentRun, AgentSpec
from collect.agents.debug_tools import reply
from collect.agents.inspectcoder.ablations import Ablation
from collect.agents.inspectcoder.patching import Round, numbered, shortened
from collect.agents.inspectcoder.react import ActionCall, ReactForm, TerminalForm, call_text
from collect.agents.prompts import prompt
from collect.agents.rollout_context import RolloutContext
from collect.agents.tools import Arguments, Tool, Toolbox, ToolReply
from collect.code.syntax import parse, source_of
from collect.store.records import Role, ToolOutcome
from sandbox.debugger import (
    Action,
    BreakpointRequest,
    DebugEvent,
    Debugger,
    ErrorKind,
    Launch,
    State,
    StopReason,
)
from sandbox.debugger.pdb_terminal import PdbTerminal
from sandbox.debugger.rendering import render, render_snapshot

ACTIONS = {
    Action.CONTINUE: "control_execution continue",
    Action.RESTART: "control_execution restart",
    Action.RUN_CODE: "interact_code",
    Action.SET_BREAKPOINT: "set_breakpoint",
    Action.CLOSE: "propose_repair",
}
"""The debugger's actions as the Inspector calls them."""
INSPECTION = "interact_code/inspection"
MODIFICATION = "interact_code/modification"
RAN_OUT = (
    "The test ran to its end without an exception and was started again: the session is paused "
    "where the test begins."
)
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
        if event.stop_reason is StopReason.ENTRY:
            kept = replace(kept, breakpoints=())
        if event.file in (self.solution, self.test.partition("::")[0]):
            current = (line for line in event.source if line.startswith("->"))
            kept = replace(kept, source=tuple(current))
        return replace(reply(kept, ACTIONS), event=event)

    def after_run(self, event: DebugEvent) -> ToolReply:
        """The answer to an action that ran the program; an ended session restarts."""
        answer = self.shown(event)
        if event.state is not State.DONE:
            return answer
        again = self.restart()
        ended = RAN_OUT if event.exit_code == 0 and event.error is None else STARTED_AGAIN
        then = ended if again.error_kind is None else render(again, ACTIONS)
        text = f"{render(event, ACTIONS)}\n{then}"
        return replace(answer, text=text, later_events=(again,))

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
        return session.cut(reply(session.debugger.set_breakpoint(request), ACTIONS))


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
            return session.cut(session.shown(session.restart()))
        return session.cut(session.after_run(session.debugger.control(Action.CONTINUE)))


class InteractArguments(Arguments):
    code: Annotated[
        str,
        Field(min_length=1, description="Python code, of any number of lines; no pdb commands."),
    ]


@dataclass(frozen=True)
class InteractCode:
    session: InspectorSession
    rule: CodeRule = lambda code: (code, "")
    name: str = "interact_code"
    description: str = (
        "Run Python code before the paused line, in the paused frame: print variables or "
        "expressions, or assign to variables to try a change and then continue. Answers with "
        "what it prints or raises, and the value of an expression that is the last statement; the "
        "program stays paused."
    )
    arguments: type[Arguments] = InteractArguments

    def call(self, arguments: InteractArguments, call_id: str) -> ToolReply:
        action = INSPECTION if is_inspection(arguments.code) else MODIFICATION
        code, remark = self.rule(arguments.code)
        if code is None:
            return ToolReply(f"Refused: {remark}", ToolOutcome.REFUSED, action=action)
        event = self.session.debugger.run_code(code)
        answer = reply(event, ACTIONS)
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
            description='"The root cause of the bug is that ..., to fix the bug, consider ...": '
            "quote the lines that you mean, since your colleague sees the code without numbers.",
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
        text = f"> {call_text(ActionCall(self.name, arguments.model_dump()))}"
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


PRINTS = {"print", "pprint"}
LIVE_PATCHES = {"exec", "setattr", "delattr"}
NAMESPACES = {"globals", "vars", "locals"}
TOO_DEEP = "the code is nested too deeply and was left out"
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


def is_inspection(code: str) -> bool:
    """Whether code inspects rather than modifies: it prints (InspectCoder, section 4.4.1), or ends
    in an expression other than a call, and does not replace the program's functions or attributes.
    """
    tree = _parsed(code)
    if tree is None:
        return "print(" in code
    last = tree.body[-1] if tree.body else None
    ends_in_value = isinstance(last, ast.Expr) and _is_value(last.value)
    prints = any(_calls(node, PRINTS) for node in ast.walk(tree))
    return (prints or ends_in_value) and not _patches_program(tree)


def _parsed(code: str) -> ast.Module | None:
    """None if it does not parse: it then runs as it is, so that the error is shown."""
    try:
        return parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _patches_program(tree: ast.AST) -> bool:
    """Whether code replaces names or attributes of the running program through functions such as
    `setattr` or `globals`, or a `global` statement.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Global) or _calls(node, LIVE_PATCHES):
            return True
        stored = isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load)
        if stored and _calls(cast(ast.Subscript, node).value, NAMESPACES):
            return True
    return False


def _calls(node: ast.AST, names: Collection[str]) -> bool:
    """Whether it is a call of one of these functions."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names


def _is_value(node: ast.expr) -> bool:
    """Whether it only gives a value; what it calls could change something."""
    return not isinstance(node, ast.Call | ast.Await | ast.Yield)


def only_modification(code: str) -> tuple[str | None, str]:
    """Without breakpoint inspection: drop statements that only show something."""
    tree = _parsed(code)
    if tree is None:
        return code, ""
    shown = _Silenced()
    try:
        tree = shown.visit(tree)
    except RecursionError:
        return None, TOO_DEEP
    if not shown.removed:
        return code, ""
    kept = [node for node in tree.body if not isinstance(node, ast.Pass)]
    return (source_of(tree) if kept else "") or None, NO_PRINTS


def only_inspection(code: str) -> tuple[str | None, str]:
    """Without runtime modification: allow only expressions that show something."""
    tree = _parsed(code)
    if tree is None:
        return code, ""
    for node in ast.walk(tree):
        called = node.value if isinstance(node, ast.Expr) else None
        effect = isinstance(called, ast.Call) and not _calls(called, SHOWS)
        if effect or isinstance(node, CHANGES):
            return None, NO_CHANGES
    return (None, NO_CHANGES) if _patches_program(tree) else (code, "")


class _Silenced(ast.NodeTransformer):
    """Removes statements that only show something."""

    def __init__(self) -> None:
        self.removed = False

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        value = node.value
        if _calls(value, SHOWS) or _is_value(value):
            self.removed = True
            return ast.copy_location(ast.Pass(), node)
        return node


RULES = {
    Ablation.NO_INSPECTION: only_modification,
    Ablation.NO_MODIFICATION: only_inspection,
}


@dataclass(frozen=True)
class Workbench:
    """The tools, the form of calls in text, and the session's first state."""

    tools: Sequence[Tool]
    form: ReactForm
    state: str
    started: DebugEvent | None = None
    """The event that started the session, if there is one."""


@contextmanager
def open_workbench(
    context: RolloutContext, ablation: Ablation, current: Round
) -> Iterator[Workbench]:
    """The workbench for the failing test of a round: a debug session (also restricted or
    simulated), or pdb's terminal."""
    reset = partial(context.reset, current.version.code)
    reset()
    repair, test = context.config.repair, current.version.failing.id
    if ablation is Ablation.NO_DEBUGGER:
        spec = AgentSpec(prompt("simulator/system"), Toolbox([]), max_steps=1)
        simulator = context.agent(spec, Role.SIMULATOR, patch_attempt=current.number)
        simulated = [
            Simulated(simulator, current, kind.name, kind.description, kind.arguments)
            for kind in (SetBreakpoint, ControlExecution, InteractCode)
        ]
        state = f"Paused at the first line of {test}."
        yield Workbench([*simulated, ProposeRepair()], ReactForm(), state)
    elif ablation is Ablation.NO_INSPECTWARE:
        with closing(PdbTerminal(context.sandbox, test, context.config.debugger)) as terminal:
            state = "A PDB terminal is ready; it starts with your first command."
            yield Workbench([RawTerminal(terminal), ProposeRepair()], TerminalForm(), state)
    else:
        with context.debugger() as debugger:
            solution = context.instance.solution
            session = InspectorSession(debugger, test, solution, repair, reset)
            started = debugger.start(Launch(test, stop_at_entry=True))
            interact = InteractCode(session, RULES.get(ablation, InteractCode.rule))
            moves: list[Tool] = [SetBreakpoint(session), ControlExecution(session)]
            tools: list[Tool] = [*moves, interact, ProposeRepair()]
            yield Workbench(tools, ReactForm(session.state_text), session.state_text(), started)
