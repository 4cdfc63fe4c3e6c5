"""Debug2Fix with an adaptive tool limit, which its authors leave to future work (section 7).

Editing is open until a patch has failed the tests, and then closed until the subagent was asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from collect.agents.debug2fix import BASELINE, Debug2Fix, run_main_agent
from collect.agents.file_tools import EditGate
from collect.agents.inspectcoder.patching import shortened
from collect.agents.rollout_context import RolloutContext
from collect.agents.tools import Arguments, ToolReply
from collect.benchmarks.base import Benchmark, TestStatus
from collect.benchmarks.running import build_outputs
from collect.benchmarks.workspace import Snapshot, snapshot
from collect.code.patches import outside
from collect.quantities import first_of
from collect.store.records import Role, StopReason, ToolOutcome

REFUSAL = (
    "Refused: your patch failed the tests, and file editing is disabled until you have called "
    "debug_subagent. Ask it what happens at run time, then edit."
)
CLOSED = (
    "Your patch failed: file editing is disabled until you have called debug_subagent. Ask it what "
    "happens at run time."
)
MAX_NAMES = 10
"""Failing tests that are named."""


class RunTestsArguments(Arguments):
    pass


@dataclass
class RunTests:
    """Runs the bug's public tests. A patch that fails them closes the gate, once."""

    context: RolloutContext
    benchmark: Benchmark
    gate: EditGate
    start: Snapshot
    """The code that the agent was given."""
    failed: Mapping[str, bytes] = field(default_factory=dict)
    """The last patch that failed: the files as they were then."""
    name: str = "run_tests"
    description: str = "Run the tests that must pass once the issue is resolved."
    arguments: type[Arguments] = RunTestsArguments

    def call(self, arguments: RunTestsArguments, call_id: str) -> ToolReply:
        instance, sandbox = self.context.instance, self.context.sandbox
        before, after = self._trees()
        results = self.benchmark.run_tests(instance, sandbox, instance.public_tests)
        if results.build_failure is not None:
            # The patch is not at fault.
            text = f"Error: the tests can't be built here: {results.build_failure}"
            return ToolReply(text, ToolOutcome.ERROR)
        passing = [TestStatus.PASSED]
        if instance.skips_count:
            passing.append(TestStatus.SKIPPED)
        tests = instance.public_tests
        failing = [test for test in tests if results.statuses[test] not in passing]
        if not failing:
            return ToolReply(f"All {len(tests)} tests pass.")
        parts = [f"{len(failing)} of {len(tests)} tests fail: {first_of(failing, MAX_NAMES)}"]
        if results.output.strip():
            parts.append(shortened(results.output))
        if after not in (before, self.failed):
            self.failed = after
            self.gate.is_open = False
            parts.append(CLOSED)
        return ToolReply("\n\n".join(parts))

    def _trees(self) -> tuple[Mapping[str, bytes], Mapping[str, bytes]]:
        """The code before and after the agent's changes, as far as they can be its patch."""
        instance = self.context.instance
        ignored = [*instance.test_paths, *build_outputs(instance)]
        before, after = self.start.changes(self.context.sandbox)
        return outside(before, ignored), outside(after, ignored)


@dataclass(frozen=True, kw_only=True)
class AdaptiveLimit(Debug2Fix):
    """Debug2Fix, with a tool that runs the tests and may close the edit gate."""

    needs_public_tests: bool = True

    def run(self, context: RolloutContext, benchmark: Benchmark) -> StopReason:
        gate = EditGate(refusal=REFUSAL)
        start = snapshot(context.instance, context.sandbox)
        return run_main_agent(self, context, gate, [RunTests(context, benchmark, gate, start)])


SYSTEMS = (
    AdaptiveLimit(
        name="debug2fix_adaptive_limit",
        title="Debug2Fix (w/ Adaptive Limit)",
        roles=(Role.MAIN, Role.DEBUG_SUBAGENT),
        prompts=("main", "main_debug_subagent", "main_adaptive_limit"),
        without_subagent=BASELINE.name,
    ),
)
