"""The two tables of a run: one row a rollout, one row a conversation.

`collect.store.schema` gives their Parquet form. Read them back with
`collect.store.run_store.RunStore`, or with `datasets.load_dataset("parquet", data_files=...)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from collect.errors import FailureKind
from collect.store.messages import Message, ToolCall
from sandbox.debugger import DebugEvent

SCHEMA_VERSION = 4
ORACLE_TEACHER = "oracle"
MODEL_TEACHER = "model"
SESSION_START = "session_start"
"""Stands for the call of an event with which a session was started before any call of the
model's: InspectCoder's sessions are open when the Inspector begins."""


class StopReason(StrEnum):
    """Why an agent, and so its conversation, ended."""

    FINISHED = "finished"
    """It answered without calling a tool."""
    STEP_LIMIT = "step_limit"
    """It used up its steps; the debug subagent is then made to answer."""
    ATTEMPT_LIMIT = "attempt_limit"
    """Of a rollout: the system that repairs a program used up its patch attempts."""
    FAILURE = "failure"
    """Something failed; the rollout's failure columns say what."""


class ToolOutcome(StrEnum):
    """What became of one tool call."""

    OK = "ok"
    ERROR = "error"
    """Carried out, and failed: no such file, an expression that raised ..."""
    INVALID = "invalid"
    """Not carried out: arguments are not JSON or not of the tool's schema, or no such tool."""
    REFUSED = "refused"
    """Not carried out: the debugger's state or the tool limit forbids it."""


class Role(StrEnum):
    """Which agent holds a conversation."""

    MAIN = "main"
    DEBUG_SUBAGENT = "debug_subagent"
    INSPECTOR = "inspector"
    """InspectCoder's Program Inspector."""
    PATCH_CODER = "patch_coder"
    """What writes the patches of InspectCoder, and of the baselines it is compared with."""
    SIMULATOR = "simulator"
    """Makes up what a debugger would answer (InspectCoder's ablation "without debugger tool")."""


@dataclass(frozen=True, slots=True)
class TestRow:
    """One test of the instance."""

    __test__ = False

    name: str
    group: str
    """fail_to_pass or pass_to_pass."""
    before: str
    """Status with the buggy code, as the benchmark states it."""
    after: str
    """Status with the agent's patch, measured in a fresh sandbox."""


@dataclass(frozen=True)
class Rollout:
    """One attempt of one system at one bug."""

    schema_version: int
    rollout_id: str
    """16 hex digits, a hash of everything that says which rollout this is."""
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
    """Empty where the variant has no subagent."""
    teacher: str
    """oracle where any of the models is the scripted oracle, which knows the gold patch; else
    model."""
    sampling: str
    """JSON, by role."""
    sandbox: str
    image_digest: str | None
    code_version: str
    code_commit: str | None
    config_hash: str

    resolved: bool
    """Every fail_to_pass and pass_to_pass test passes with the patch, and nothing tampered with
    them."""
    tampered: str | None
    """What showed that the patched code interfered with the run of its own tests, whatever `tests`
    say; null if nothing did. The model's doing: never resolved, and not done again."""
    tests: tuple[TestRow, ...]
    patch: str
    """Unified diff of what the agent changed outside the tests and what steers them."""
    patch_marks: tuple[str, ...]
    """What the patch adds that reaches for the test runner and the gold patch does not have, by the
    names in `collect.patch_marks`."""
    stop_reason: StopReason
    failure_kind: FailureKind | None
    failure_type: str | None
    failure_message: str | None

    patch_attempts: int
    """Patches tried on the public tests, the last one standing; 0 where a system tries none."""
    actions: str
    """JSON object: how often each action was called, by its name (InspectCoder, figure 8)."""
    main_steps: int
    """Completions of the agents that edit: the main agent, or the Patch Coder."""
    sub_steps: int
    """Completions of all those that debug for it."""
    sub_calls: int
    """How often one of those was asked."""
    debug_calls: int
    """Calls of debug tools, by whichever agent."""
    debug_stops: int
    """How often the debugged program stopped."""
    invalid_tool_calls: int
    refused_tool_calls: int
    main_prompt_tokens: int
    main_completion_tokens: int
    sub_prompt_tokens: int
    sub_completion_tokens: int
    dollars: float
    started_at: float
    """Unix time, seconds."""
    seconds: float
    """Wall time of the whole rollout, scoring included; where it has gone on with replies that were
    made in an earlier start, with the time that these took then."""
    scoring_seconds: float

    @property
    def failure(self) -> str:
        """What a rollout with a `failure_kind` failed of, as `type: message`."""
        return f"{self.failure_type}: {self.failure_message}"

    @property
    def main_tokens(self) -> int:
        """Of the main agent, read and written."""
        return self.main_prompt_tokens + self.main_completion_tokens

    @property
    def sub_tokens(self) -> int:
        """Of the subagents, read and written."""
        return self.sub_prompt_tokens + self.sub_completion_tokens

    @property
    def tokens(self) -> int:
        """Of all agents."""
        return self.main_tokens + self.sub_tokens


@dataclass(frozen=True)
class MessageRow:
    """One message, and for a reply or a tool's answer what it took."""

    message: Message
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    dollars: float = 0.0
    seconds: float = 0.0
    """Latency of the completion, or of the tool."""
    finish_reason: str | None = None
    tool_outcome: ToolOutcome | None = None


@dataclass(frozen=True)
class EventRow:
    """One debugger event, and the message whose tool call caused it."""

    message_index: int
    """Index into the conversation's messages of the assistant message with the call."""
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
    conversation_id: str
    """`ROLLOUT_ID-INDEX`."""
    rollout_id: str
    index: int
    """In the order in which they were begun."""
    role: Role
    parent_conversation_id: str | None
    parent_call_id: str | None
    """The tool call of the parent that this conversation answers."""
    patch_attempt: int
    """Which patch it worked towards, from 1; 0 where a system does not count them."""
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
    """The last message's text; empty where there is none."""
    answer: DebugAnswer | None
    """None where this is no subagent, or its answer has no well-formed block."""
    steps: int
    """Completions."""
    stop_reason: StopReason

    @property
    def calls(self) -> dict[str, ToolCall]:
        """All calls of its tools, by their ids."""
        return {call.id: call for row in self.messages for call in row.message.tool_calls}
