"""A question's workspace and debug session, for callers that run the conversation themselves.

The caller makes the Debug Subagent's tool calls one by one, and handles model, messages and end.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import cast

from collect.agents.config import AgentsConfig
from collect.agents.debug2fix import start_session, subagent_tools
from collect.agents.file_tools import prepare_java_workspace
from collect.agents.prompts import prompt, wording
from collect.agents.subagent_task import STARTED
from collect.agents.tools import Toolbox
from collect.benchmarks.base import Benchmark, Instance
from collect.benchmarks.workspace import open_instance_sandbox, patch_workspace
from collect.config import RuntimeConfig
from collect.question_records import Question
from collect.questions.rows import arguments_for
from collect.store.messages import ToolCall, ToolSchema
from collect.store.records import ToolOutcome
from sandbox import Sandbox, SandboxConfig
from sandbox.debugger import Debugger, open_debugger
from sandbox.text import storable


def reproducible(runtime: RuntimeConfig) -> RuntimeConfig:
    """Adds a hash seed if the sandbox has none, so that set order is the same in all runs."""
    sandbox = runtime.sandbox
    environment = {"PYTHONHASHSEED": "0", **sandbox.environment}
    return runtime.model_copy(
        update={"sandbox": sandbox.model_copy(update={"environment": environment})}
    )


def lay_out(benchmark: Benchmark, instance: Instance, sandbox: Sandbox, patch: str) -> None:
    """Prepare the buggy tree and apply the question's change.

    Raises PatchError, SandboxError.
    """
    benchmark.prepare(instance, sandbox)
    if patch:
        patch_workspace(sandbox, patch)
    if instance.language == "java":
        prepare_java_workspace(sandbox)


@dataclass(frozen=True)
class EpisodeSettings:
    """What all episodes share."""

    benchmark: Benchmark
    sandbox: SandboxConfig
    agents: AgentsConfig


def tool_schemas(language: str, agents: AgentsConfig) -> list[ToolSchema]:
    """The schemas of the Debug Subagent's tools."""
    # A schema needs only the tool's class.
    tools = subagent_tools(cast(Debugger, None), cast(Sandbox, None), agents.debug_run_code)
    return Toolbox(tools, wording(language)).schemas()


class Episode:
    """One attempt at a question, starting from a clean workspace."""

    def __init__(self, settings: EpisodeSettings, instance: Instance, question: Question) -> None:
        """Open the sandbox and apply the question's change. Raises PatchError, SandboxError."""
        self.question = question
        self.outcomes: list[ToolOutcome] = []
        self.has_session = False
        """Whether a call has reached a debug session."""
        self.opening = ""
        """What the task says of a session that is open before the first call."""
        self._max_calls = settings.agents.sub_max_steps
        agents, arguments = settings.agents, arguments_for(question)
        with ExitStack() as opened:
            sandbox = opened.enter_context(open_instance_sandbox(settings.sandbox, instance))
            lay_out(settings.benchmark, instance, sandbox, question.patch)
            debugger = open_debugger(instance.language, sandbox, agents.debugger)
            opened.enter_context(closing(debugger))
            tools = subagent_tools(debugger, sandbox, agents.debug_run_code, arguments.test)
            self._toolbox = Toolbox(tools, wording(instance.language))
            if agents.start_session == "auto":
                reply = start_session(self._toolbox, arguments)
                self.opening = STARTED + storable(reply.text)
            self._open = opened.pop_all()

    def call(self, name: str, arguments: str) -> str:
        """A tool's answer to JSON arguments. Raises SandboxError.

        From the last allowed call on, the answer ends with a request for the final answer, since
        the caller has no user message for it.
        """
        call = ToolCall(f"call_{len(self.outcomes)}", name, arguments)
        reply = self._toolbox.call(call)
        self.outcomes.append(reply.outcome)
        if reply.event is not None and reply.event.error_kind is None:
            self.has_session = True
        text = storable(reply.text)
        if len(self.outcomes) < self._max_calls:
            return text
        return f"{text}\n\n{prompt('subagent_forced_answer')}"

    def close(self) -> None:
        """End the session and remove the sandbox; safe to call twice."""
        self._open.close()


def invalid(outcomes: Sequence[ToolOutcome]) -> int:
    """The number of calls that were not executed because they were invalid."""
    return sum(outcome is ToolOutcome.INVALID for outcome in outcomes)
