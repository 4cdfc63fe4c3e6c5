"""Recorded or scripted completions, given back conversation by conversation.

A recording is a run folder, or a JSON-lines file with one conversation a line::

    {"role": "main", "replies": [
        {"content": "I look.", "tool_calls": [{"name": "bash", "arguments": "{...}"}]},
        {"content": "Done."}]}

A line may name the `instance_id`, `variant`, `attempt`, `role` and `index` that it is for; what it
leaves out fits any. The first line that fits a conversation is its recording.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from collect.errors import ConfigError, ModelFailure
from collect.models.base import (
    Completion,
    ConversationContext,
    Sampling,
    Usage,
    scripted_completion,
)
from collect.models.config import ReplayConfig
from collect.quantities import first_of
from collect.store.files import StrictRecord, read_lines, refuse_links
from collect.store.messages import Message, ToolCall, ToolSchema
from collect.store.records import MODEL_TEACHER, Conversation, combined_teacher
from collect.store.run_store import RunStore

NAMED = ("variant", "attempt", "role", "index")
"""What a recording may name besides its bug."""


@dataclass(frozen=True)
class Recording:
    """The completions of one conversation, or of every matching one."""

    completions: tuple[Completion, ...]
    of: Mapping[str, object]
    """What it was recorded of, by the names of a line; what is left out fits any."""
    teacher: str = MODEL_TEACHER


class ReplayBackend:
    """Gives every conversation the completions of the first recording that matches it."""

    def __init__(self, name: str, recordings: Iterable[Recording]) -> None:
        self.name = name
        self._by_instance = defaultdict[object, list[tuple[int, Recording]]](list)
        teachers = set()
        for place, recording in enumerate(recordings):
            self._by_instance[recording.of.get("instance_id")].append((place, recording))
            teachers.add(recording.teacher)
        self.teacher = combined_teacher(teachers)
        """`oracle` if any recording comes from the oracle, which knows the gold patch."""

    @classmethod
    def from_config(cls, name: str, config: ReplayConfig) -> ReplayBackend:
        """Raises ConfigError if the recording is missing or malformed."""
        path = config.path
        if path.is_dir():
            refuse_links(path)
            if not (path / "conversations").is_dir():
                raise ConfigError(f"{path} is no run folder: it has no `conversations` folder")
            return cls(name, map(recording_of, RunStore(path).read_conversations()))
        return cls(name, _read_lines(path))

    def check(self, bugs: Collection[str]) -> None:
        """Raises ConfigError if there is no recording of one of these bugs."""
        missing = sorted(set(bugs) - self._by_instance.keys())
        if missing and None not in self._by_instance:
            raise ConfigError(
                f"{self.name}: nothing was recorded of {first_of(missing)}; leave them out by "
                "`instances` of the benchmark, or record them"
            )

    def open(self, context: ConversationContext) -> ReplayModel:
        """A conversation without a recording fails at its first completion."""
        asked = {name: getattr(context, name) for name in NAMED}
        asked["instance_id"] = context.instance.id
        candidates = [
            pair for key in (context.instance.id, None) for pair in self._by_instance.get(key, ())
        ]
        fitting = [pair for pair in candidates if pair[1].of.items() <= asked.items()]
        completions = min(fitting)[1].completions if fitting else ()
        what = (
            f"{context.role} conversation {context.index} of instance {context.instance.id}, "
            f"variant {context.variant}, attempt {context.attempt}"
        )
        return ReplayModel(completions, f"{self.name}: {what}")

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


def recording_of(row: Conversation) -> Recording:
    """The model's replies in a recorded conversation."""
    completions = tuple(
        Completion(
            reply.message,
            Usage(reply.prompt_tokens, reply.completion_tokens, reply.cached_tokens),
            0.0,  # paid before
            reply.seconds,
            reply.finish_reason or "stop",
            reply.served_model,
            reply.text_calls,
            reply.player,
        )
        for reply in row.messages
        if reply.message.role == "assistant"
    )
    of = {name: getattr(row, name) for name in ("instance_id", *NAMED)}
    return Recording(completions, of, row.teacher)


class _PlainCall(StrictRecord):
    name: str
    arguments: str
    """The raw JSON text."""
    id: str | None = None


class _PlainReply(StrictRecord):
    content: str = ""
    reasoning: str | None = None
    tool_calls: tuple[_PlainCall, ...] = ()


class _PlainConversation(StrictRecord):
    replies: tuple[_PlainReply, ...]
    instance_id: str | None = None
    variant: str | None = None
    attempt: int | None = None
    role: str | None = None
    index: int | None = None


def _read_lines(path: Path) -> list[Recording]:
    recordings = []
    for plain in read_lines(path, _PlainConversation, "give a run folder or a JSON-lines file"):
        completions = []
        for step, reply in enumerate(plain.replies):
            calls = tuple(
                ToolCall(call.id or f"call_{step}_{index}", call.name, call.arguments)
                for index, call in enumerate(reply.tool_calls)
            )
            message = Message("assistant", reply.content, reply.reasoning, calls)
            completions.append(scripted_completion(message))
        of = plain.model_dump(exclude={"replies"}, exclude_none=True)
        recordings.append(Recording(tuple(completions), of))
    return recordings
