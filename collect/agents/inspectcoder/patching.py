"""Repair rounds: the public test that a version of the program fails, and the Patch Coder, from a
root cause and its evidence to a patch (InspectCoder, section 2.4)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from collect.agents.conversation import AgentSpec
from collect.agents.inspectcoder.code_blocks import program_of, with_imports_of
from collect.agents.prompts import prompt
from collect.agents.rollout_context import RolloutContext
from collect.agents.system import System
from collect.agents.tools import Toolbox
from collect.benchmarks.base import Benchmark, Instance, TestStatus
from collect.benchmarks.pytest_run import section_of
from collect.code.source import read_source
from collect.errors import InfrastructureFailure
from collect.store.records import Role, StopReason
from sandbox import Sandbox
from sandbox.base import SOURCE_LIMIT
from sandbox.errors import SandboxFileError
from sandbox.text import source_lines

CUT_BEFORE = re.compile(r"\.\.\. \(?(\d[\w ]*?)(?: left out\)| cut) \.\.\.")
"""A note that a part of an output was cut."""
FROZEN = re.compile(r"^<frozen .*\n    \?\?\?\n", re.MULTILINE)
"""Frames of the interpreter's own code in pytest's traceback."""
MAX_ERROR_LINES = 60
MAX_ERROR_CHARS = 6_000


def first_failing(benchmark: Benchmark, instance: Instance, sandbox: Sandbox) -> FailingTest | None:
    """Run the public tests of the workspace. Returns the first that fails, or None if all pass.

    Raises InfrastructureFailure if the bug has no public test, SandboxError.
    """
    tests = instance.public_tests
    if not tests:
        raise InfrastructureFailure(
            f"{instance.id} has no public test to repair by; leave it out with benchmark.instances"
        )
    results = benchmark.run_tests(instance, sandbox, tests)
    failing = next((t for t in tests if results.statuses[t] is not TestStatus.PASSED), None)
    if failing is None:
        return None
    if results.timed_out and results.statuses[failing] is TestStatus.MISSING:
        error = f"The test did not end within {results.seconds:.0f} seconds and was killed."
    else:
        error = FROZEN.sub("", section_of(failing, results.output))
    return FailingTest(failing, test_source(sandbox, failing), shortened(error))


def shortened(text: str, max_lines: int = MAX_ERROR_LINES, max_chars: int = MAX_ERROR_CHARS) -> str:
    """A text without its middle if it is too long, with a note about it."""
    lines = text.splitlines()
    if len(lines) > max_lines:
        head, tail = max_lines // 2, max_lines - max_lines // 2
        left_out = _left_out("\n".join(lines[head:-tail]), f"{len(lines) - max_lines} lines")
        lines = [*lines[:head], left_out, *lines[-tail:]]
    text = "\n".join(lines)
    if len(text) <= max_chars:
        return text
    half = max_chars // 2
    left_out = _left_out(text[half:-half], f"{len(text) - 2 * half} characters")
    return f"{text[:half]}\n{left_out}\n{text[-half:]}"


def _left_out(middle: str, count: str) -> str:
    """The note about a middle that is left out, with what was cut out of it before."""
    return f"... ({' and '.join([count, *CUT_BEFORE.findall(middle)])} left out) ..."


def test_source(sandbox: Sandbox, test: str) -> str:
    """The code of a pytest test with line numbers; empty if it is not found."""
    path, _, name = test.partition("[")[0].partition("::")
    try:
        data = sandbox.read_file(path, SOURCE_LIMIT)
    except SandboxFileError:
        return ""
    for each in reversed(read_source(path, data).functions):
        if each.name == name.replace("::", "."):
            return numbered(data.decode("utf-8", "replace"), each.line, each.last)
    return ""


def numbered(code: str, first: int = 1, last: int | None = None) -> str:
    """Lines of a program with their numbers."""
    lines = source_lines(code)[first - 1 : last]
    return "\n".join(f"{number:>4}  {line}" for number, line in enumerate(lines, first))


@dataclass(frozen=True)
class FailingTest:
    """The test that a round works on: the first public one that fails."""

    id: str
    source: str
    """Its code with line numbers."""
    error: str
    """The test runner's output about it."""


@dataclass(frozen=True)
class CodeVersion:
    """A version of the program and how it fails."""

    number: int
    """1 is the given buggy code; each patch makes the next."""
    code: str
    failing: FailingTest


@dataclass(frozen=True)
class Patch:
    """The result of a round."""

    code: str | None
    """The whole program, or None if the model's reply has none."""
    plan: str = ""
    """The root cause and the repair plan made before it."""
    problem: str | None = None
    """Why there is no code; told to the model in the next round."""


@dataclass(frozen=True)
class Round:
    """One patch attempt."""

    number: int
    """From 1."""
    version: CodeVersion
    history: tuple[tuple[CodeVersion, Patch], ...] = ()
    """The earlier rounds: their start versions and patches."""


class Repair(Protocol):
    """A way to make patches for one bug."""

    def repair(self, current: Round) -> Patch:
        """The next version of the program.

        Raises RolloutError, RolloutStopped, SandboxError.
        """

    @property
    def exhausted(self) -> bool:
        """Whether its reasoning steps are used up, so that no further round may start."""


@dataclass(frozen=True, kw_only=True)
class OneFileRepair(System):
    """A system from InspectCoder's paper: it patches a program of one file, in rounds."""

    open_repair: Callable[[RolloutContext], Repair]
    family: Literal["inspectcoder"] = "inspectcoder"
    roles: tuple[Role, ...] = (Role.PATCH_CODER,)
    one_file: bool = True

    def run(self, context: RolloutContext, benchmark: Benchmark) -> StopReason:
        return run_repair(context, self.open_repair, benchmark)


def run_repair(
    context: RolloutContext,
    open_repair: Callable[[RolloutContext], Repair],
    benchmark: Benchmark,
) -> StopReason:
    """Repair the instance's program: patch it, and continue with the first public test that fails
    (InspectCoder, section 2.4.2). The result stays in the sandbox.

    Raises RolloutError, RolloutStopped, SandboxError.
    """
    failing = first_failing(benchmark, context.instance, context.sandbox)
    if failing is None:
        raise InfrastructureFailure(
            f"{context.instance.id}: all public tests pass before the repair; check the bug with "
            "`stepinto bench verify`"
        )
    repair = open_repair(context)
    program = context.sandbox.read_file(context.instance.solution).decode("utf-8", "replace")
    version = CodeVersion(1, program, failing)
    history: list[tuple[CodeVersion, Patch]] = []
    # With several, a scripted Patch Coder would find the right one of its candidates by trying.
    scripted = context.role_models[Role.PATCH_CODER].is_oracle
    attempts = 1 if scripted else context.config.repair.max_patch_attempts
    for number in range(1, attempts + 1):
        patch = repair.repair(Round(number, version, tuple(history)))
        history.append((version, patch))
        if patch.code is None:
            context.reset(version.code)
        else:
            context.reset(patch.code)
            still_failing = first_failing(benchmark, context.instance, context.sandbox)
            if still_failing is None:
                return StopReason.FINISHED
            version = CodeVersion(version.number + 1, patch.code, still_failing)
        if repair.exhausted:
            return StopReason.STEP_LIMIT
    return StopReason.ATTEMPT_LIMIT


def write_patch(context: RolloutContext, current: Round, plan: str) -> Patch:
    """Let the Patch Coder write the next version of the program, from a plan. It sees every version
    so far, how it failed, and its plan."""

    def remind(reply: str) -> str | None:
        problem = program_of(reply, current.version.code)[1]
        return prompt("inspectcoder/patch_reminder", problem=problem) if problem else None

    reminders = context.config.repair.max_reminders
    spec = AgentSpec(
        prompt("inspectcoder/patch_coder"),
        Toolbox([]),
        max_steps=1 + reminders,
        follow_up=remind,
        max_follow_ups=reminders,
    )
    agent = context.agent(spec, Role.PATCH_CODER, patch_attempt=current.number)
    versions = []
    for version, patch in (*current.history, (current.version, Patch(None, plan))):
        told = patch.plan or "(none)"
        if patch.problem:
            told += f"\n\nThis attempt gave no patch. {patch.problem}"
        text = prompt(
            "inspectcoder/patch_version",
            version=str(version.number),
            code=version.code.rstrip("\n"),
            error=version.failing.error,
            plan=told,
        )
        versions.append(text)
    task = context.instance.problem_statement
    agent.run(prompt("inspectcoder/patch_task", coding_task=task, versions="\n\n".join(versions)))
    return patch_of(agent.log.final_answer, current.version.code, plan)


def patch_of(reply: str, previous: str, plan: str = "") -> Patch:
    """The patch in a model's reply."""
    code, problem = program_of(reply, previous)
    return Patch(code and with_imports_of(previous, code), plan, problem)
