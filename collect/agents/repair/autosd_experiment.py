"""AutoSD's experiments, carried out: scripts in a debug session of their own, and edits that are
taken back."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import Field

from collect.agents.repair.autosd_edits import EditScript, UnreadableExperiment, apply_edits
from collect.agents.repair.autosd_form import EXPERIMENT_TOOL
from collect.agents.repair.autosd_run import ScriptRun
from collect.agents.repair.autosd_script import DebuggerScript, parse_experiment
from collect.agents.repair.failing import shortened
from collect.agents.rollout_context import RolloutContext
from collect.agents.tools import Arguments, ToolReply
from collect.benchmarks.base import TestStatus
from collect.benchmarks.pytest_output import section_of
from collect.benchmarks.running import run_tests
from collect.records import ToolOutcome

EDIT = "experiment/edit"
NO_EXCEPTION = "[No exception triggered]"
NAMED = re.compile(r"E {3}(?! )")


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
        """How the test ends, in one line."""
        context, test = self.context, self.test
        # An edit may make the program endless: it gets the time that a debug session has to start.
        seconds = context.config.debugger.start_timeout
        results = run_tests(context.instance, context.sandbox, [test], seconds)
        if results.statuses[test] is TestStatus.PASSED:
            return NO_EXCEPTION
        if results.timed_out:
            return f"[The test did not end within {seconds:g} seconds and was killed.]"
        return error_line(section_of(test, results.output))


def error_line(section: str) -> str:
    """The exception in what pytest says of a test: where the last lines marked `E` name it."""
    lines = section.splitlines()
    # What belongs to an exception is set in below it; a SyntaxError's source stands above it.
    named = [bool(NAMED.match(line)) for line in lines]
    first = [n for n, line in enumerate(lines) if named[n] and not (n and named[n - 1])]
    if first:
        return lines[first[-1]].removeprefix("E").strip()
    return lines[-1].strip() if lines else "[The test failed without a message.]"
