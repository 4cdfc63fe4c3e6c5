"""AutoSD's experiments, carried out: scripts in a debug session of their own, and edits that are
taken back."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import Field

from collect.agents.repair.autosd_edits import EditScript, UnreadableExperiment, apply_edits
from collect.agents.repair.autosd_form import EXPERIMENT_TOOL
from collect.agents.repair.autosd_script import (
    Command,
    DebuggerScript,
    Print,
    parse_experiment,
)
from collect.agents.repair.failing import section_of, shortened
from collect.agents.rollout_context import RolloutContext
from collect.agents.tools import Arguments, ToolReply
from collect.benchmarks.base import TestStatus
from collect.benchmarks.running import run_tests
from collect.records import ToolOutcome
from sandbox.debugger import (
    Action,
    BreakpointRequest,
    DebugEvent,
    Debugger,
    Launch,
    StopReason,
)
from sandbox.debugger.rendering import render

DEBUGGER = "experiment/debugger"
EDIT = "experiment/edit"
NOT_COVERED = "[The breakpoint line was not covered by the test.]"
NO_EXCEPTION = "[No exception triggered]"


class ExperimentArguments(Arguments):
    script: Annotated[str, Field(description="A debugger script or an edit script.")]


@dataclass(frozen=True)
class Experiment:
    """Carries out one experiment on the failing test; the program stays as it is."""

    context: RolloutContext
    test: str
    name: str = EXPERIMENT_TOOL
    description: str = "Run a debugger script, or an edit script, on the failing test."
    arguments: type[Arguments] = ExperimentArguments

    def call(self, arguments: ExperimentArguments, call_id: str) -> ToolReply:
        try:
            script = parse_experiment(arguments.script)
            done = self._debug(script) if isinstance(script, DebuggerScript) else self._edit(script)
        except UnreadableExperiment as error:
            return ToolReply(f"[{error}]", ToolOutcome.INVALID)
        config = self.context.config.repair
        text = shortened(done.text, config.observation_lines, config.observation_chars)
        return replace(done, text=text)

    def _debug(self, script: DebuggerScript) -> ToolReply:
        solution, limit = self.context.instance.solution, self.context.config.repair
        with closing(self.context.debugger()) as debugger:
            run = ScriptRun(debugger, script, solution, limit.max_experiment_hits)
            return run.observe(self.test)

    def _edit(self, script: EditScript) -> ToolReply:
        sandbox, path = self.context.sandbox, self.context.instance.solution
        original = sandbox.read_file(path)
        edited = apply_edits(original.decode("utf-8", "replace"), script)
        try:
            sandbox.write_file(path, edited.encode())
            return ToolReply(self._result(), action=EDIT)
        finally:
            sandbox.write_file(path, original)

    def _result(self) -> str:
        """How the test ends: in one line, as the last of its error."""
        context, test = self.context, self.test
        seconds = context.config.debugger.start_timeout
        results = run_tests(context.instance, context.sandbox, [test], seconds)
        if results.statuses[test] is TestStatus.PASSED:
            return NO_EXCEPTION
        if results.timed_out:
            return f"[The test did not end within {seconds:g} seconds and was killed.]"
        return error_line(section_of(test, results.output))


def error_line(section: str) -> str:
    """The exception in what pytest says of a test: the first of the last lines marked `E`."""
    lines = section.splitlines()
    marked = [number for number, line in enumerate(lines) if line.startswith("E ")]
    first = [number for number in marked if number - 1 not in marked]
    if first:
        return lines[first[-1]].removeprefix("E").strip()
    return lines[-1].strip() if lines else "The test failed without a message."


@dataclass
class ScriptRun:
    """One debugger script in one session."""

    debugger: Debugger
    script: DebuggerScript
    solution: str
    max_hits: int

    def observe(self, test: str) -> ToolReply:
        """Run to each hit of a breakpoint, and give what the script printed there."""
        points = tuple(self._placed(point) for point in self.script.breakpoints)
        started = self.debugger.start(Launch(test, points, stop_at_entry=False))
        event, hits = started, list[list[Shown]]()
        while event.stop_reason is StopReason.BREAKPOINT and len(hits) < self.max_hits:
            hits.append(self._at_hit(len(hits)))
            event = self.debugger.control(Action.CONTINUE)
        shown = [each for hit in hits for each in hit]
        text = "\n".join([*self._values(shown), *self._remarks(event, bool(hits))])
        failed = not any(each.ok for each in shown)
        outcome = ToolOutcome.ERROR if failed and event is not None else ToolOutcome.OK
        return ToolReply(text, outcome, started, DEBUGGER)
