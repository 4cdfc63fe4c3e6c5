"""AutoSD: debugging by the scientific method (Kang et al., "Explainable automated debugging via
large language model-driven scientific debugging", arXiv:2304.02195), with edits of several lines
(InspectCoder, section 3.5)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import Field

from collect.agents.baselines.autosd_script import (
    EXPERIMENT_TOOL,
    DebuggerScript,
    Print,
    ScientificForm,
    UnreadableExperiment,
    apply_edits,
    debugging_log,
    parse_experiment,
    trials_of,
)
from collect.agents.inspectcoder.failing import numbered, shortened
from collect.agents.inspectcoder.patching import write_patch
from collect.agents.inspectcoder.records import Patch, Round
from collect.agents.loop import AgentSpec
from collect.agents.prompts import prompt
from collect.agents.rollout_context import RolloutContext
from collect.agents.tools import Arguments, Toolbox, ToolReply
from collect.benchmarks.base import TestStatus
from collect.benchmarks.pytest_run import section_of
from collect.benchmarks.running import run_tests
from collect.store.records import Role, ToolOutcome
from sandbox.debugger import Action, BreakpointRequest, DebugEvent, Debugger, Launch, StopReason
from sandbox.debugger.rendering import render

ACTION, EDIT = "experiment/debugger", "experiment/edit"
NOT_COVERED = "[The breakpoint line was not covered by the test.]"
NO_EXCEPTION = "[No exception triggered]"
ENDLESS = (StopReason.INTERRUPTED, StopReason.KILLED)


@dataclass(frozen=True)
class Shown:
    """What a `p` printed at one hit."""

    expression: str
    text: str
    ok: bool


def run_script(
    debugger: Debugger, script: DebuggerScript, solution: str, test: str, max_hits: int
) -> ToolReply:
    """Run to each hit of the script's breakpoints, and print the requested values there.

    `solution` is the file for breakpoints that name none. The reply's debugger record is that of
    the first stop.
    """

    def placed(point: BreakpointRequest) -> BreakpointRequest:
        return replace(point, file=point.file or solution) if point.line else point

    points = tuple(map(placed, script.breakpoints))
    started = debugger.start(Launch(test, points, stop_at_entry=False))
    notes = [f"[Note: {note}]" for note in started.notes]
    if started.stop_reason is not StopReason.BREAKPOINT:
        told = [NOT_COVERED, *notes]
        if started.stop_reason is None:
            told = [f"[{render(started)}]"]
        elif started.stop_reason in ENDLESS:
            told = [NOT_COVERED, _stopped(started)]
        return ToolReply("\n".join(told), ToolOutcome.ERROR, started, action=ACTION)
    event, hits, shown = started, 0, list[Shown]()
    while event.stop_reason is StopReason.BREAKPOINT and hits < max_hits:
        for command in script.at_hits[min(hits, len(script.at_hits) - 1)]:
            if isinstance(command, Print):
                each = _printed(debugger, command.expression)
                if len(script.breakpoints) > 1:
                    each = replace(each, text=f"(line {event.line}) {each.text}")
                shown.append(each)
            elif isinstance(command, BreakpointRequest):
                debugger.set_breakpoint(placed(command))
            else:
                debugger.control(command)
        hits += 1
        event = debugger.control(Action.CONTINUE)
    told = [*_values(shown), *notes]
    if event.stop_reason is StopReason.BREAKPOINT:
        told.append(f"[These are the first {max_hits} executions; there are more.]")
    elif event.stop_reason in ENDLESS:
        told.append(_stopped(event))
    outcome = ToolOutcome.OK if any(each.ok for each in shown) else ToolOutcome.ERROR
    return ToolReply("\n".join(told), outcome, started, action=ACTION)


def _printed(debugger: Debugger, expression: str) -> Shown:
    # Evaluated as an expression `locals()` would include the module's names.
    names = expression == "locals()"
    event = debugger.locals() if names else debugger.evaluate(expression)
    if event.error_kind is not None:
        return Shown(expression, f"*** {event.error}", ok=False)
    if names:
        values = ", ".join(f"{value.name!r}: {value.text}" for value in event.values)
        return Shown(expression, f"{{{values}}}", ok=True)
    return Shown(expression, "\n".join(value.text for value in event.values), ok=True)


def _values(shown: list[Shown]) -> Iterator[str]:
    """By expression, as in AutoSD's paper: the value, or a list if there are several."""
    expressions = dict.fromkeys(each.expression for each in shown)
    if not expressions:
        yield "[The test ended before the script came to what it prints.]"
    for expression in expressions:
        of_it = [each for each in shown if each.expression == expression]
        label = f"{expression}: " if len(expressions) > 1 else ""
        # An expression that fails each time is itself wrong.
        if len(of_it) == 1 or not any(each.ok for each in of_it):
            yield f"{label}{of_it[0].text}"
        else:
            values = ", ".join(each.text for each in of_it)
            yield f"{label}At each loop execution, the expression was: [{values}]"


def _stopped(event: DebugEvent) -> str:
    if event.stop_reason is StopReason.KILLED:
        return f"[The test did not end, and was killed: {event.error}]"
    return f"[The test did not end, and was interrupted at {event.file}:{event.line}.]"


NAMED = re.compile(r"E {3}(?! )")


class ExperimentArguments(Arguments):
    script: Annotated[str, Field(description="A debugger script or an edit script.")]


@dataclass(frozen=True)
class Experiment:
    """Runs one experiment on the failing test; the program stays as it is."""

    context: RolloutContext
    test: str
    name: str = EXPERIMENT_TOOL
    description: str = "Run a debugger script, or an edit script, on the failing test."
    arguments: type[Arguments] = ExperimentArguments

    def call(self, arguments: ExperimentArguments, call_id: str) -> ToolReply:
        context, solution = self.context, self.context.instance.solution
        config = context.config.repair
        original = context.sandbox.read_file(solution).decode("utf-8", "replace")
        try:
            script = parse_experiment(arguments.script)
            if isinstance(script, DebuggerScript):
                with context.debugger() as debugger:
                    most = config.max_experiment_hits
                    done = run_script(debugger, script, solution, self.test, most)
            else:
                edited = apply_edits(original, script)
                context.sandbox.write_file(solution, edited.encode())
                done = ToolReply(self._result(), action=EDIT)
        except UnreadableExperiment as error:
            return ToolReply(f"[{error}]", ToolOutcome.INVALID)
        finally:
            context.reset(original)
        text = shortened(done.text, config.observation_lines, config.observation_chars)
        return replace(done, text=text)

    def _result(self) -> str:
        """The test's result, in one line."""
        context, test = self.context, self.test
        # An edit may cause an endless loop, so it gets the time that a session has to start.
        seconds = context.config.debugger.start_timeout
        results = run_tests(context.instance, context.sandbox, [test], seconds)
        if results.statuses[test] is TestStatus.PASSED:
            return NO_EXCEPTION
        if results.timed_out:
            return f"[The test did not end within {seconds:g} seconds and was killed.]"
        return error_line(section_of(test, results.output))


def error_line(section: str) -> str:
    """The exception in pytest's output, named by the last lines marked `E`."""
    lines = section.splitlines()
    # Lines that belong to an exception are indented below it; a SyntaxError's source is above it.
    named = [bool(NAMED.match(line)) for line in lines]
    first = [n for n, line in enumerate(lines) if named[n] and not (n and named[n - 1])]
    if first:
        return lines[first[-1]].removeprefix("E").strip()
    return lines[-1].strip() if lines else "[The test failed without a message.]"


class ScientificDebugger:
    """One conversation per round; all rounds share a budget of reasoning steps."""

    def __init__(self, context: RolloutContext) -> None:
        self._context = context
        self._steps_left = context.config.repair.max_reasoning_steps

    @property
    def exhausted(self) -> bool:
        return self._steps_left <= 0

    def repair(self, current: Round) -> Patch:
        """Let the Patch Coder write the patch from the debugging log."""
        context, failing = self._context, current.version.failing
        spec = AgentSpec(
            prompt("autosd/system", steps=str(self._steps_left)),
            Toolbox([Experiment(context, failing.id)]),
            max_steps=self._steps_left,
            form=ScientificForm(),
        )
        agent = context.agent(spec, Role.PATCH_CODER, patch_attempt=current.number)
        task = prompt(
            "autosd/task",
            coding_task=context.instance.problem_statement,
            code=numbered(current.version.code),
            test=failing.id,
            test_source=failing.source,
            error=failing.error,
        )
        try:
            agent.run(task)
        finally:
            self._steps_left -= agent.log.steps
        # After the system prompt and the task.
        plan = debugging_log(trials_of(agent.log.sent()[2:]))
        return write_patch(context, current, plan)
