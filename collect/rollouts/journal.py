"""Keeps a model's replies until their rollout has its row.

A rollout that was stopped or killed, or whose endpoint failed, resumes: its tool calls run again in
a fresh sandbox, and as long as their results are the same as before, the model's recorded replies
are used. From the first difference on, the model is asked again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from threading import Lock

from pydantic import TypeAdapter

from collect.agents.rollout_context import RoleModel
from collect.models.base import Completion, ConversationContext, Model, ModelBackend, Sampling
from collect.models.replay import ReplayBackend, recording_of
from collect.relay import RelayBackend
from collect.rollouts.faults import RESUMED
from collect.rollouts.rollout import RolloutSpec
from collect.store.files import RunText, TextFile
from collect.store.messages import BROKEN, Message, ToolSchema
from collect.store.normalising import normalised
from collect.store.records import Conversation, Rollout


@dataclass(frozen=True)
class _Entry:
    conversation: int
    """Index of the conversation in its rollout."""
    step: int
    """0 for the first reply."""
    seen: str
    """Hash of everything that was sent, without what differs from run to run."""
    completion: Completion


ENTRY = TypeAdapter(_Entry)


def journal_name(rollout_id: str) -> str:
    """The path of a rollout's journal in its run's folder, where it is until the final row is
    stored."""
    return f"journal/{rollout_id}.jsonl"


def journal_header(settings_hash: str, spec: RolloutSpec) -> str:
    """What identifies everything that decides what a rollout does."""
    return f"{settings_hash} {spec.instance.hash}"


def forget_replies(folder: Path, row: Rollout) -> None:
    """Delete the journal of a rollout that has its row, unless the next start resumes it."""
    if row.failure_type not in RESUMED:
        TextFile(folder / journal_name(row.rollout_id)).replace(None)


class Journal:
    """The replies in one rollout. Each is stored before it is acted on."""

    def __init__(self, text: RunText, settings: str) -> None:
        """`settings` is its `journal_header`; replies recorded under another are dropped."""
        self._text, self._settings = text, settings
        self.seconds_given_back = 0.0
        """Seconds that the replayed replies took when they were made."""
        self._lock = Lock()
        self._entries: dict[tuple[int, int, str], _Entry] = {}
        """The newest reply to each request. In a relay two models have the same steps."""
        held = text.read() or ""
        recorded_under, *lines = held.split("\n")
        self._begun = bool(lines) and recorded_under == settings
        for line in lines if self._begun else ():
            # A line that a kill cut, or whose numbers are invalid, is requested again. Not
            # `validate_json`, which rejects lone surrogates.
            with suppress(*BROKEN):
                entry = ENTRY.validate_python(json.loads(line))
                self._entries[entry.conversation, entry.step, entry.seen] = entry
        readable = f"{settings}\n{''.join(map(_line, self._entries.values()))}"
        if not self._begun or held != readable:
            text.replace(readable if self._begun else None)

    def reply(self, conversation: int, step: int, seen: str) -> Completion | None:
        """The recorded reply to the same request at this step, or None."""
        entry = self._entries.get((conversation, step, seen))
        if entry is None:
            return None
        with self._lock:
            self.seconds_given_back += entry.completion.seconds
        return entry.completion

    def add(self, conversation: int, step: int, seen: str, completion: Completion) -> None:
        """Store a reply."""
        line = _line(_Entry(conversation, step, seen, completion))
        with self._lock:
            self._text.add(line if self._begun else f"{self._settings}\n{line}")
            self._begun = True


def _line(entry: _Entry) -> str:
    return json.dumps(asdict(entry)) + "\n"


def _seen(
    model: str,
    messages: Sequence[Message],
    tools: Sequence[ToolSchema],
    normalise: Callable[[str], str],
) -> str:
    """Hash of a request to a model, without what differs from run to run."""
    said = [asdict(replace(each, content=normalise(each.content))) for each in messages]
    return hashlib.sha256(json.dumps([model, said, tools]).encode()).hexdigest()


def fork(journal: Journal, recorded: Conversation) -> None:
    """Give a rollout's journal the replies of another rollout's conversation, which cost nothing
    again. The rollout uses them as long as its agent sees what that one saw."""
    tools, normalise = json.loads(recorded.tools), cache(normalised)
    messages = [row.message for row in recorded.messages]
    for step, reply in enumerate(recording_of(recorded).completions):
        end = [at for at, each in enumerate(messages) if each.role == "assistant"][step]
        seen = _seen(recorded.model, messages[:end], tools, normalise)
        journal.add(recorded.index, step, seen, reply)


def journaled(role_models: Mapping[str, RoleModel], journal: Journal) -> dict[str, RoleModel]:
    """The models with their replies journaled; scripted models don't need it."""

    def of_both(relay: RelayBackend) -> RelayBackend:
        student, teacher = journaled({"s": relay.student, "t": relay.teacher}, journal).values()
        return RelayBackend(relay.name, student, teacher)

    return {
        name: replace(each, backend=of_both(each.backend))
        if isinstance(each.backend, RelayBackend)
        else each
        if each.is_oracle or isinstance(each.backend, ReplayBackend)
        else replace(each, backend=JournaledBackend(each.backend, journal))
        for name, each in role_models.items()
    }


@dataclass(frozen=True)
class JournaledBackend:
    """A backend with the replies of one rollout journaled."""

    backend: ModelBackend
    journal: Journal

    @property
    def name(self) -> str:
        return self.backend.name

    def open(self, context: ConversationContext) -> Model:
        """A model that starts with its recorded replies."""
        return _JournaledModel(self.name, self.backend.open(context), self.journal, context)

    def close(self) -> None:
        """The backend is shared, and closed by its owner."""


class _JournaledModel:
    def __init__(
        self, name: str, model: Model, journal: Journal, context: ConversationContext
    ) -> None:
        self._name, self._model = name, model
        self._journal, self._context = journal, context
        self._step = 0
        # Every later request repeats all messages.
        self._normalised = cache(normalised)

    def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSchema], sampling: Sampling
    ) -> Completion:
        seen = _seen(self._name, messages, tools, self._normalised)
        conversation, step = self._context.index, self._step
        self._step += 1
        known = self._journal.reply(conversation, step, seen)
        if known is not None:
            self._context.log.note("reply_kept", conversation=conversation, step=step)
            return known
        completion = self._model.complete(messages, tools, sampling)
        self._journal.add(conversation, step, seen, completion)
        return completion
