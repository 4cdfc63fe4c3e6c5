"""The two tables of a run, one row per rollout and one per conversation, and what made a row.

Read them with `collect.store.run_store.RunStore`, or with `datasets.load_dataset("parquet",
data_files=...)`.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from collect.errors import FailureKind
from collect.store.messages import Message, ReplyTokens, ToolCall
from sandbox.debugger import DebugEvent

SCHEMA_VERSION = 9
READ_VERSIONS = (6, 7, 8, SCHEMA_VERSION)
"""In version 6 messages have no `tokens`, up to version 7 exceptions have no `notes`, `related` and
`unlisted`, up to version 8 messages have no `carried_out`, and calls no `said_id` and `said_name`:
these are read as null."""
ORACLE_TEACHER = "oracle"
"""The scripted teacher, which knows the gold patch."""
PLAYED_TEACHER = "played"
"""A person, or a program that stood in for one (`backend: manual`)."""
MODEL_TEACHER = "model"
SESSION_START = "session_start"
"""Replaces the call id of an event that started a session before the model's first call. The
task, message `TASK_MESSAGE`, shows it.
"""
TASK_MESSAGE = 1
"""Index of a conversation's first user message."""


def combined_teacher(teachers: Iterable[str]) -> str:
    """The `teacher` of work that several took part in: the oracle counts most, then a player."""
    present = set(teachers)
    ranked = (ORACLE_TEACHER, PLAYED_TEACHER)
    return next((teacher for teacher in ranked if teacher in present), MODEL_TEACHER)


ROLLOUT_ID = r"^[0-9a-f]{16}$"
RolloutId = Annotated[str, Field(pattern=ROLLOUT_ID)]
"""Names files, and is checked where a row is read."""


class StopReason(StrEnum):
    """Why an agent's conversation ended."""

    FINISHED = "finished"
    """It answered without calling a tool."""
    STEP_LIMIT = "step_limit"
    """It used up its steps, or repeated one call too often (`agents.sub_max_repeats`); a debug
    subagent is then asked for its answer."""
    ATTEMPT_LIMIT = "attempt_limit"
    """For a rollout: the repair system used up its patch attempts."""
    FAILURE = "failure"
    """Something failed; see the rollout's failure columns."""


class ToolOutcome(StrEnum):
    """The result of a tool call."""

    OK = "ok"
    ERROR = "error"
    """Executed, but failed: no such file, an expression that raised ..."""
    INVALID = "invalid"
    """Not executed: unknown tool, or arguments that are not JSON or violate the schema."""
    REFUSED = "refused"
    """Not executed: the debugger's state or the tool limit forbids it."""


class Role(StrEnum):
    """The agent that a conversation belongs to."""

    MAIN = "main"
    DEBUG_SUBAGENT = "debug_subagent"
    INSPECTOR = "inspector"
    """InspectCoder's Program Inspector."""
    PATCH_CODER = "patch_coder"
    """Writes the patches in InspectCoder and its baselines."""
    SIMULATOR = "simulator"
    """Simulates a debugger (InspectCoder's ablation "without debugger tool")."""


@dataclass(frozen=True, slots=True)
class TestRow:
    """One test of the instance."""

    __test__ = False

    name: str
    group: str
    """fail_to_pass or pass_to_pass."""
    before: str
    """Status with the buggy code, according to the benchmark."""
    after: str
    """Status with the agent's patch, measured in a fresh sandbox."""


@dataclass(frozen=True)
class Rollout:
    """One attempt of one system on one bug."""

    schema_version: int
    rollout_id: RolloutId
    """16 hex digits, a hash of everything that identifies the rollout."""
    run: str
    system: str
    """debug2fix, inspectcoder ..."""
    variant: str
    benchmark: str
    instance_id: str
    instance_hash: str
    repository: str
    language: str
    category: str | None
    attempt: int
    """0-based."""
    seed: int
    main_model: str
    sub_model: str
    """Empty if the variant has no subagent."""
    teacher: str
    """oracle if any model is the scripted oracle, which knows the gold patch; else model."""
    sampling: str
    """JSON object with the sampling settings of each role."""
    sandbox: str
    image_digest: str | None
    code_version: str
    code_commit: str | None
    config_hash: str

    resolved: bool
    """All fail_to_pass and pass_to_pass tests pass with the patch, without tampering."""
    tampered: str | None
    """Evidence that the patched code interfered with its own test run, regardless of `tests`; null
    if there is none. The model is responsible: such a rollout is never resolved, and not repeated.
    """
    tests: tuple[TestRow, ...]
    patch: str
    """Unified diff of the agent's changes, except tests and test configuration."""
    patch_marks: tuple[str, ...]
    """Names from `collect.rollouts.rows` for code in the patch, but not in the gold patch, that
    accesses the test runner.
    """
    stop_reason: StopReason
    failure_kind: FailureKind | None
    failure_type: str | None
    failure_message: str | None

    patch_attempts: int
    """Patches tried on the public tests, including the final one; 0 if the system tries none."""
    actions: str
    """JSON object: number of calls by action name (InspectCoder, figure 8)."""
    main_steps: int
    """Completions of the editing agents: the main agent or the Patch Coder."""
    sub_steps: int
    """Completions of all debugging agents."""
    sub_calls: int
    """Number of requests to debugging agents."""
    debug_calls: int
    """Calls of debug tools by any agent."""
    debug_stops: int
    """Number of stops of the debugged program."""
    invalid_tool_calls: int
    refused_tool_calls: int
    main_prompt_tokens: int
    main_completion_tokens: int
    sub_prompt_tokens: int
    sub_completion_tokens: int
    dollars: float
    sub_dollars: float
    """Part of `dollars` that the debugging agents cost."""
    started_at: float
    """Unix time, seconds."""
    seconds: float
    """Wall time of the whole rollout, scoring included. If it reused replies from an earlier start,
    their time is included.
    """
    scoring_seconds: float

    @property
    def failure(self) -> str:
        """The error of a rollout with a `failure_kind`, as `type: message`."""
        return f"{self.failure_type}: {self.failure_message}"

    @property
    def main_tokens(self) -> int:
        """Input and output tokens of the main agent."""
        return self.main_prompt_tokens + self.main_completion_tokens

    @property
    def sub_tokens(self) -> int:
        """Input and output tokens of the subagents."""
        return self.sub_prompt_tokens + self.sub_completion_tokens

    @property
    def tokens(self) -> int:
        """Tokens of all agents."""
        return self.main_tokens + self.sub_tokens


@dataclass(frozen=True)
class MessageRow:
    """One message, with the cost of a reply or a tool's answer."""

    message: Message
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    dollars: float = 0.0
    seconds: float = 0.0
    """Latency of the completion or the tool."""
    finish_reason: str | None = None
    served_model: str | None = None
    """The name that the server gave for the model of a reply; `Conversation.model` is the config's.
    """
    text_calls: int = 0
    """How many of a reply's calls were read from its text (`models.NAME.text_calls`)."""
    elided: tuple[int, ...] = ()
    """Indexes of the earlier tool results that the model was not sent for this reply, since its
    context was full.
    """
    tool_outcome: ToolOutcome | None = None
    player: str | None = None
    """The model that wrote a reply, by its name in the config, if several play one role (relay);
    else null, and it is `Conversation.model`."""
    tokens: ReplyTokens | None = None
    """Of a reply, if `models.NAME.logprobs` asks for it."""
    carried_out: str | None = None
    """In a tool's answer: the arguments as JSON as they were carried out, if the call's break the
    tool's schema and were read by it, such as `"4"` as 4."""


@dataclass(frozen=True)
class EventRow:
    """A debugger event, and the message whose tool call caused it."""

    message_index: int
    """Index of the assistant message with the call in the conversation."""
    tool_call_id: str
    event: DebugEvent


@dataclass(frozen=True)
class DebugAnswer:
    """The parsed `<debug_answer>` block (Debug2Fix, figure 3)."""

    question: str
    answer: str
    evidence: str
    location: str


@dataclass(frozen=True)
class Conversation:
    """One agent's conversation with its model."""

    schema_version: int
    conversation_id: Annotated[str, Field(pattern=r"^[0-9a-f]{16}-[0-9]+$")]
    """`ROLLOUT_ID-INDEX`."""
    rollout_id: RolloutId
    index: int
    """Position in the order of the conversations' starts."""
    role: Role
    parent_conversation_id: str | None
    parent_call_id: str | None
    """The parent's tool call that this conversation answers."""
    patch_attempt: int
    """The patch that it worked on, from 1; 0 if the system does not count patches."""
    benchmark: str
    instance_id: str
    repository: str
    variant: str
    attempt: int
    model: str
    teacher: str
    sampling: str
    """JSON."""
    messages: tuple[MessageRow, ...]
    tools: str
    """JSON, exactly as sent with every request."""
    events: tuple[EventRow, ...]
    final_answer: str
    """What the last message says, without reasoning; empty if there is none."""
    answer: DebugAnswer | None
    """None for agents other than subagents, or without a valid answer block."""
    steps: int
    """Number of completions."""
    stop_reason: StopReason

    @property
    def task(self) -> str:
        """The first message from the user; empty if there is none."""
        return next((m.message.content for m in self.messages if m.message.role == "user"), "")

    @property
    def calls(self) -> dict[str, ToolCall]:
        """All tool calls by id."""
        return {call.id: call for row in self.messages for call in row.message.tool_calls}


# The StepInto version that made a row.


REPOSITORY = Path(__file__).resolve().parents[2]


@cache
def code_version() -> str:
    """The installed package's version."""
    try:
        return version("stepinto")
    except PackageNotFoundError:
        return "uninstalled"


@cache
def code_commit() -> str | None:
    """The commit of a source checkout, with `-dirty` if it was changed; None for an installed
    package.
    """
    if not (REPOSITORY / ".git").exists():
        return None
    git, quiet = ["git", "-C", str(REPOSITORY)], subprocess.DEVNULL
    try:
        commit = subprocess.check_output(
            [*git, "rev-parse", "HEAD"], text=True, stderr=quiet
        ).strip()
        changed = subprocess.check_output([*git, "status", "--porcelain"], stderr=quiet)
    except (OSError, subprocess.CalledProcessError):
        return None
    return f"{commit}-dirty" if changed else commit


def digest(facts: Any) -> str:
    """16 hexadecimal digits that depend only on the facts, given as JSON."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
