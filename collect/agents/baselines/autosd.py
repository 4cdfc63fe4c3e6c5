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
    Command,
    DebuggerScript,
    EditScript,
    Print,
    ScientificForm,
    UnreadableExperiment,
    apply_edits,
    debugging_log,
    parse_experiment,
    trials_of,
)
from collect.agents.inspectcoder.failing import numbered, shortened
from collect.agents.inspectcoder.records import Round
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

# An AutoSD debugger script, run to the end of the test in its own session.


ACTION = "experiment/debugger"
NOT_COVERED = "[The breakpoint line was not covered by the test.]"


@dataclass(frozen=True)
class Shown:
    """What a `p` printed at one hit."""

    expression: str
    text: str
    ok: bool


@dataclass(frozen=True)
class ScriptRun:
    """Runs to each hit of the script's breakpoints and prints the requested values there."""

    debugger: Debugger
    script: DebuggerScript
    solution: str
    """The file for breakpoints that name none."""
    max_hits: int

    def observe(self, test: str) -> ToolReply:
        """Run a test under the script. The reply's debugger record is that of the first stop."""
        points = tuple(self._placed(point) for point in self.script.breakpoints)
        started = self.debugger.start(Launch(test, points, stop_at_entry=False))
        if started.stop_reason is not StopReason.BREAKPOINT:
            return ToolReply(_not_reached(started), ToolOutcome.ERROR, started, action=ACTION)
        event, hits, shown = started, 0, list[Shown]()
        while event.stop_reason is StopReason.BREAKPOINT and hits < self.max_hits:
            shown += self._at_hit(hits, event)
            hits += 1
            event = self.debugger.control(Action.CONTINUE)
        outcome = ToolOutcome.OK if any(each.ok for each in shown) else ToolOutcome.ERROR
        text = "\n".join([*_values(shown), *self._remarks(started, event)])
        return ToolReply(text, outcome, started, action=ACTION)

    def _placed(self, point: BreakpointRequest) -> BreakpointRequest:
        return replace(point, file=point.file or self.solution) if point.line else point

    def _at_hit(self, hit: int, stop: DebugEvent) -> Iterator[Shown]:
        for command in self.script.at_hits[min(hit, len(self.script.at_hits) - 1)]:
            shown = self._do(command)
            if shown is not None and len(self.script.breakpoints) > 1:
                shown = replace(shown, text=f"(line {stop.line}) {shown.text}")
            if shown is not None:
                yield shown

    def _do(self, command: Command) -> Shown | None:
        match command:
            case Print(expression="locals()"):
                # Evaluated as an expression it would include the module's names.
                return _shown_names(self.debugger.locals())
            case Print(expression=expression):
                return _shown(expression, self.debugger.evaluate(expression))
            case BreakpointRequest():
                self.debugger.set_breakpoint(self._placed(command))
            case _:
                self.debugger.control(command)
        return None

    def _remarks(self, started: DebugEvent, ended: DebugEvent) -> Iterator[str]:
        yield from (f"[Note: {note}]" for note in started.notes)
        if ended.stop_reason is StopReason.BREAKPOINT:
            yield f"[These are the first {self.max_hits} executions; there are more.]"
        elif ended.stop_reason in (StopReason.INTERRUPTED, StopReason.KILLED):
            yield _stopped(ended)


def _shown(expression: str, event: DebugEvent) -> Shown:
    if event.error_kind is not None:
        return Shown(expression, f"*** {event.error}", ok=False)
    return Shown(expression, "\n".join(value.text for value in event.values), ok=True)


def _shown_names(event: DebugEvent) -> Shown:
    if event.error_kind is not None:
        return _shown("locals()", event)
    names = ", ".join(f"{value.name!r}: {value.text}" for value in event.values)
    return Shown("locals()", f"{{{names}}}", ok=True)


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


def _not_reached(started: DebugEvent) -> str:
    if started.stop_reason is None:
        return f"[{render(started)}]"
    notes = [f"[Note: {note}]" for note in started.notes]
    if started.stop_reason in (StopReason.INTERRUPTED, StopReason.KILLED):
        return "\n".join([NOT_COVERED, _stopped(started)])
    return "\n".join([NOT_COVERED, *notes])


def _stopped(event: DebugEvent) -> str:
    if event.stop_reason is StopReason.KILLED:
        return f"[The test did not end, and was killed: {event.error}]"
    return f"[The test did not end, and was interrupted at {event.file}:{event.line}.]"


# Runs AutoSD's experiments: scripts in their own debug session, and temporary edits.


EDIT = "experiment/edit"
NO_EXCEPTION = "[No exception triggered]"
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
        program = self.context.sandbox.read_file(self.context.instance.solution)
        original = program.decode("utf-8", "replace")
        try:
            script = parse_experiment(arguments.script)
            if isinstance(script, DebuggerScript):
                done = self._debug(script)
            else:
                done = self._edit(original, script)
        except UnreadableExperiment as error:
            return ToolReply(f"[{error}]", ToolOutcome.INVALID)
        finally:
            self.context.reset(original)
        config = self.context.config.repair
        text = shortened(done.text, config.observation_lines, config.observation_chars)
        return replace(done, text=text)

    def _debug(self, script: DebuggerScript) -> ToolReply:
        context = self.context
        with context.debugger() as debugger:
            max_hits = context.config.repair.max_experiment_hits
            run = ScriptRun(debugger, script, context.instance.solution, max_hits)
            return run.observe(self.test)

    def _edit(self, original: str, script: EditScript) -> ToolReply:
        edited = apply_edits(original, script)
        self.context.sandbox.write_file(self.context.instance.solution, edited.encode())
        return ToolReply(self._result(), action=EDIT)

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


PREAMBLE = 2
"""Messages before the first reply: the system prompt and the task."""


class ScientificDebugger:
    """One conversation per round; all rounds share a budget of reasoning steps."""

    def __init__(self, context: RolloutContext) -> None:
        self._context = context
        self._steps_left = context.config.repair.max_reasoning_steps

    @property
    def exhausted(self) -> bool:
        return self._steps_left <= 0

    def diagnose(self, current: Round) -> str:
        """The debugging log, without rejected hypotheses."""
        context, test = self._context, current.version.failing.id
        spec = AgentSpec(
            prompt("autosd/system", steps=str(self._steps_left)),
            Toolbox([Experiment(context, test)]),
            max_steps=self._steps_left,
            form=ScientificForm(),
        )
        agent = context.agent(spec, Role.PATCH_CODER, patch_attempt=current.number)
        try:
            agent.run(autosd_task(context.instance.problem_statement, current))
        finally:
            self._steps_left -= agent.log.steps
        return debugging_log(trials_of(agent.log.sent()[PREAMBLE:]))


def autosd_task(coding_task: str, current: Round) -> str:
    """The bug to debug: the task, the program and the failing test."""
    failing = current.version.failing
    return prompt(
        "autosd/task",
        coding_task=coding_task,
        code=numbered(current.version.code),
        test=failing.id,
        test_source=failing.source,
        error=failing.error,
    )
