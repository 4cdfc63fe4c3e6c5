"""Recorded or scripted completions, given back conversation by conversation.

A recording is a run folder, or a JSON-lines file with one conversation a line::

    {"role": "main", "replies": [
        {"content": "I look.", "tool_calls": [{"name": "bash", "arguments": "{...}"}]},
        {"content": "Done."}]}

A line may name the `instance_id`, `variant`, `attempt`, `role` and `index` that it is for; what it
leaves out fits any. The first line that fits a conversation is its recording.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from collect.errors import ConfigError, ModelFailure
from collect.field_errors import first_wrong_field
from collect.models.base import Completion, ConversationContext, Sampling, Usage
from collect.models.config import ReplayConfig
from collect.store.messages import Message, ToolCall, ToolSchema
from collect.store.records import MODEL_TEACHER, Conversation, MessageRow, combined_teacher
from collect.store.run_store import RunStore


@dataclass(frozen=True)
class Recording:
    """The completions of one conversation, or of every matching one."""

    completions: tuple[Completion, ...]
    instance_id: str | None = None
    """For this and the fields below, None matches any."""
    variant: str | None = None
    attempt: int | None = None
    role: str | None = None
    index: int | None = None
    teacher: str | None = None
    """The recorded teacher, or None if the record has none."""

    def fits(self, context: ConversationContext) -> bool:
        """Whether this recording matches a conversation."""
        wanted = (self.instance_id, self.variant, self.attempt, self.role, self.index)
        asked = (
            context.instance.id,
            context.variant,
            context.attempt,
            context.role,
            context.index,
        )
        return all(mine in (None, theirs) for mine, theirs in zip(wanted, asked, strict=True))


class ReplayBackend:
    """Gives every conversation the completions of the first recording that matches it."""

    def __init__(self, name: str, recordings: Iterable[Recording]) -> None:
        self._name = name
        self.teacher = MODEL_TEACHER
        """`oracle` if any recording comes from the oracle, which knows the gold patch."""
        self._by_instance: dict[str | None, list[tuple[int, Recording]]] = {}
        for place, recording in enumerate(recordings):
            self._by_instance.setdefault(recording.instance_id, []).append((place, recording))
            self.teacher = combined_teacher([self.teacher, recording.teacher or MODEL_TEACHER])

    @classmethod
    def from_config(cls, name: str, config: ReplayConfig) -> ReplayBackend:
        """Raises ConfigError if the recording is missing or malformed."""
        return cls(name, read_recordings(config.path))

    @property
    def name(self) -> str:
        """The model's name in the config."""
        return self._name

    def open(self, context: ConversationContext) -> ReplayModel:
        """A conversation without a recording fails at its first completion."""
        candidates = [
            *self._by_instance.get(context.instance.id, ()),
            *self._by_instance.get(None, ()),
        ]
        fitting = [(place, found) for place, found in candidates if found.fits(context)]
        completions = min(fitting, key=lambda pair: pair[0])[1].completions if fitting else ()
        what = (
            f"{context.role} conversation {context.index} of instance {context.instance.id}, "
            f"variant {context.variant}, attempt {context.attempt}"
        )
        return ReplayModel(completions, f"{self._name}: {what}")

    def close(self) -> None:
        """Nothing to close."""


class ReplayModel:
    """Returns its completions in order, regardless of the request."""

    def __init__(self, completions: Sequence[Completion], what: str) -> None:
        self._completions = completions
        self._what = what
        self._step = 0

    def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSchema], sampling: Sampling
    ) -> Completion:
        """Raises ModelFailure past the end of the recording."""
        if self._step == len(self._completions):
            raise ModelFailure(
                f"the recording has no step {self._step} of {self._what}; it has "
                f"{len(self._completions)} steps. Record the run again, with the same config"
            )
        self._step += 1
        return self._completions[self._step - 1]


class ScriptedBackend(ReplayBackend):
    """Hand-written replies, for tests and demos. Records the requests."""

    def __init__(self, name: str, replies: Mapping[str, Sequence[Message]]) -> None:
        """`replies` by role; each conversation of a role starts with the first."""
        recordings = [
            Recording(tuple(map(scripted_completion, script)), role=role)
            for role, script in replies.items()
        ]
        super().__init__(name, recordings)
        self.requests: list[tuple[str, tuple[Message, ...], tuple[ToolSchema, ...]]] = []
        """Role, messages and tools of every request, in order."""
        self._lock = threading.Lock()

    def open(self, context: ConversationContext) -> ReplayModel:
        """A model with the replies for the conversation's role."""
        return _ListeningModel(super().open(context), context.role, self)

    def note(self, role: str, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> None:
        """Record a request."""
        with self._lock:
            self.requests.append((role, tuple(messages), tuple(tools)))


class _ListeningModel(ReplayModel):
    def __init__(self, model: ReplayModel, role: str, backend: ScriptedBackend) -> None:
        super().__init__(model._completions, model._what)
        self._role = role
        self._backend = backend

    def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSchema], sampling: Sampling
    ) -> Completion:
        self._backend.note(self._role, messages, tools)
        return super().complete(messages, tools, sampling)


def scripted_completion(message: Message) -> Completion:
    """A completion without cost."""
    finish_reason = "tool_calls" if message.tool_calls else "stop"
    return Completion(message, Usage(), 0.0, 0.0, finish_reason)


def read_recordings(path: Path) -> list[Recording]:
    """Read a run folder or a JSON-lines file. Raises ConfigError."""
    if path.is_dir():
        if not (path / "conversations").is_dir():
            raise ConfigError(f"{path} is no run folder: it has no `conversations` folder")
        return [recording_of(row) for row in RunStore(path).read_conversations()]
    if path.is_file():
        return list(_read_lines(path))
    raise ConfigError(f"no recording at {path}; give a run folder or a JSON-lines file")


def recording_of(row: Conversation) -> Recording:
    """The model's replies in a recorded conversation."""
    replies = (message for message in row.messages if message.message.role == "assistant")
    return Recording(
        completions=tuple(map(_from_row, replies)),
        instance_id=row.instance_id,
        variant=row.variant,
        attempt=row.attempt,
        role=row.role.value,
        index=row.index,
        teacher=row.teacher,
    )


def _from_row(row: MessageRow) -> Completion:
    return Completion(
        row.message,
        Usage(row.prompt_tokens, row.completion_tokens, row.cached_tokens),
        row.dollars,
        row.seconds,
        row.finish_reason or "stop",
        row.served_model,
        row.text_calls,
    )


class _Plain(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _PlainCall(_Plain):
    name: str
    arguments: str
    """The raw JSON text."""
    id: str | None = None


class _PlainReply(_Plain):
    content: str = ""
    reasoning: str | None = None
    tool_calls: tuple[_PlainCall, ...] = ()


class _PlainConversation(_Plain):
    replies: tuple[_PlainReply, ...]
    instance_id: str | None = None
    variant: str | None = None
    attempt: int | None = None
    role: str | None = None
    index: int | None = None


def _read_lines(path: Path) -> Iterator[Recording]:
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1):
        if not line.strip():
            continue
        try:
            plain = _PlainConversation.model_validate_json(line)
        except ValidationError as error:
            told = first_wrong_field(error, _PlainConversation)
            raise ConfigError(
                f"{path}, line {number} is no recorded conversation: {told}"
            ) from error
        completions = tuple(
            scripted_completion(_plain_message(reply, step))
            for step, reply in enumerate(plain.replies)
        )
        yield Recording(completions, **plain.model_dump(exclude={"replies"}))


def _plain_message(reply: _PlainReply, step: int) -> Message:
    calls = tuple(
        ToolCall(call.id or f"call_{step}_{index}", call.name, call.arguments)
        for index, call in enumerate(reply.tool_calls)
    )
    return Message("assistant", reply.content, reply.reasoning, calls)
