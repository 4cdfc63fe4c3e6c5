"""A question put to a Debug Subagent without a main agent: its task, its rollout's rows, and its
workspace and debug session, for callers that run the conversation themselves."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path

from collect.agents.config import AgentsConfig
from collect.agents.conversation import ConversationLog
from collect.agents.debug2fix import (
    DEBUG2FIX,
    answer_prompt,
    start_session,
    subagent_prompt,
    subagent_toolbox,
)
from collect.agents.file_tools import prepare_java_workspace
from collect.agents.prompts import wording
from collect.agents.subagent_task import DebugSubagentArguments, subagent_task
from collect.benchmarks.base import Benchmark, Instance
from collect.benchmarks.workspace import open_instance_sandbox, patch_workspace
from collect.config import RuntimeConfig
from collect.question_records import Question
from collect.questions.scoring import Verdict
from collect.rollouts.rollout import RolloutSpec
from collect.store.messages import STARTED, Message, ToolCall
from collect.store.records import (
    MODEL_TEACHER,
    SESSION_START,
    TASK_MESSAGE,
    Conversation,
    EventRow,
    Role,
    Rollout,
)
from sandbox import Sandbox, SandboxConfig
from sandbox.debugger.session import open_debugger
from sandbox.text import storable

VARIANT = "questions"
STUDENT = "student"
"""The model of an episode, in its conversation."""


@dataclass(frozen=True)
class QuestionSpec(RolloutSpec):
    """A rollout that asks one question."""

    question_id: str = ""

    @property
    def id(self) -> str:
        return question_rollout_id(self.question_id, self.instance.hash, self.main, self.attempt)


def question_spec(question: Question, bug: Instance, model: str, attempt: int) -> QuestionSpec:
    """The rollout in which a model, by its config name, answers a question."""
    return QuestionSpec(bug, DEBUG2FIX.name, model, model, attempt, question.id)


def question_rollout_id(question_id: str, instance_hash: str, model: str, attempt: int) -> str:
    """The id of the rollout in which a model, by its config name, answers a question."""
    key = "\0".join((VARIANT, question_id, instance_hash, model, str(attempt)))
    return hashlib.sha256(key.encode()).hexdigest()[:16]


def rollouts_of(
    questions: Iterable[Question], answering: Collection[tuple[str, int]]
) -> Iterator[tuple[str, Question]]:
    """Rollout ids for questions answered by models, each at an attempt."""
    for question in questions:
        for model, attempt in answering:
            yield question_rollout_id(question.id, question.instance_hash, model, attempt), question


def as_question(
    question: Question, right: bool, rollout: Rollout, conversations: list[Conversation]
) -> tuple[Rollout, list[Conversation]]:
    """The rows of a rollout without a main agent."""
    category = question.category.value
    row = replace(rollout, variant=VARIANT, category=category, main_model="", resolved=right)
    return row, [replace(conversation, variant=VARIANT) for conversation in conversations]


@dataclass(frozen=True)
class Answered:
    """A question and the verdict on its answer."""

    question: Question
    verdict: Verdict
    rollout: Rollout | None = None
    """The rollout's row, or None if there was no conversation."""
    tool_calls: int = 0
    """Number of tool calls in the conversation, whatever their outcome."""
    grounding: float | None = None
    """Share of the answer's claims that the conversation observed, 0..1; None if it has none."""

    @property
    def steps(self) -> int:
        """Completions."""
        return self.rollout.sub_steps if self.rollout is not None else 0


@dataclass(frozen=True)
class Answers:
    """All answers in a run's folder."""

    answered: tuple[Answered, ...]
    missing: int
    """Questions without an answer because the run was stopped or they failed."""
    conversations: Path | None
    """The conversations' Parquet files, or None if there are none."""
    reasons: tuple[str, ...] = ()
    """Distinct infrastructure or budget failures, as `type: message`."""
    stopped: bool = False
    """Whether the user, the budget or too many failures in a row stopped it early."""


def arguments_for(question: Question) -> DebugSubagentArguments:
    """The arguments of the main agent's call for this question."""
    hints = question.hints
    return DebugSubagentArguments(
        question=question.question,
        test=question.test,
        path=hints.path,
        lines=hints.lines or None,
        variables=hints.variables or None,
    )


def opening_messages(question: Question, agents: AgentsConfig) -> tuple[Message, Message]:
    """The system message and the user message, as in a rollout with these settings."""
    system = Message("system", subagent_prompt(wording(question.language), agents))
    return system, Message("user", subagent_task(arguments_for(question)))


def reproducible(runtime: RuntimeConfig) -> RuntimeConfig:
    """Adds a hash seed if the sandbox has none, so that set order is the same in all runs."""
    environment = {"PYTHONHASHSEED": "0", **runtime.sandbox.environment}
    sandbox = runtime.sandbox.model_copy(update={"environment": environment})
    return runtime.model_copy(update={"sandbox": sandbox})


def lay_out(benchmark: Benchmark, instance: Instance, sandbox: Sandbox, patch: str) -> None:
    """Prepare the buggy tree and apply the question's change. Raises PatchError, SandboxError."""
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


class Episode:
    """One attempt at a question, starting from a clean workspace. The caller makes the tool calls
    one by one, and handles model, messages and end."""

    def __init__(self, settings: EpisodeSettings, instance: Instance, question: Question) -> None:
        """Open the sandbox and apply the question's change. Raises PatchError, SandboxError."""
        self.question = question
        self.opening = ""
        """What the task says of a session that is open before the first call."""
        agents, arguments = settings.agents, arguments_for(question)
        self._spec = question_spec(question, instance, STUDENT, attempt=0)
        self.calls = 0
        """Number of tool calls so far."""
        self._agents = agents
        with ExitStack() as opened:
            sandbox = opened.enter_context(open_instance_sandbox(settings.sandbox, instance))
            lay_out(settings.benchmark, instance, sandbox, question.patch)
            debugger = open_debugger(instance.language, sandbox, agents.debugger)
            opened.enter_context(closing(debugger))
            words = wording(instance.language)
            self._toolbox = subagent_toolbox(debugger, sandbox, agents, words, arguments.test)
            self.log = ConversationLog(
                0, Role.DEBUG_SUBAGENT, STUDENT, MODEL_TEACHER, "{}", self._toolbox.schemas()
            )
            system, task = opening_messages(question, agents)
            if agents.start_session == "auto":
                reply = start_session(self._toolbox, arguments)
                self.opening = STARTED + storable(reply.text)
                if reply.event is not None:
                    self.log.add_event(EventRow(TASK_MESSAGE, SESSION_START, reply.event))
            self.log.add(system)
            self.log.add(replace(task, content=task.content + self.opening))
            self._open = opened.pop_all()

    def call(self, name: str, arguments: str) -> str:
        """A tool's answer to JSON arguments. From the last allowed call on, it ends with a request
        for the final answer, since the caller has no user message for it. Raises SandboxError."""
        call = ToolCall(f"call_{self.calls}", name, arguments)
        self.calls += 1
        reply = self._toolbox.call(call)
        self.log.add(Message("assistant", "", tool_calls=(call,)))
        self.log.note(call, reply, len(self.log.rows) - 1, seconds=0.0)
        self.log.add_answer(call, reply)
        text = storable(reply.text)
        if self.calls < self._agents.sub_max_steps:
            return text
        return f"{text}\n\n{answer_prompt('forced_answer', self._agents)}"

    def answered(self, text: str) -> Conversation:
        """The whole conversation, with this as its last message."""
        self.log.add(Message("assistant", text))
        spec = self._spec
        return self.log.row(spec.instance, spec.variant, spec.attempt, spec.id)

    def close(self) -> None:
        """End the session and remove the sandbox; safe to call twice."""
        self._open.close()
