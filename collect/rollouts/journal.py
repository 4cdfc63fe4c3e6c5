"""Replies that a model gave, kept until the rollout they are of has its row.

A rollout that was stopped or killed goes on where it was: its calls are driven again in a fresh
sandbox, and as long as they show what they had shown, the model's replies are those it gave. From
the first thing on that is different, it is asked again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Protocol

from pydantic import TypeAdapter

from collect.agents.rollout_context import RoleModel
from collect.models.base import Completion, ConversationContext, Model, ModelBackend, Sampling
from collect.models.replay import ReplayBackend
from collect.models.tool_parsing import BROKEN
from collect.rollouts.faults import goes_on
from collect.store.messages import Message, ToolSchema
from collect.store.normalising import normalised
from collect.store.records import Rollout

FOLDER = "journal"


@dataclass(frozen=True)
class _Entry:
    """One reply."""

    conversation: int
    """The conversation's index in its rollout."""
    step: int
    """0 for its first reply."""
    seen: str
    """Hash of all that was sent, without what differs from run to run."""
    completion: Completion


ENTRY = TypeAdapter(_Entry)


class JournalText(Protocol):
    """Where the lines of a journal are."""

    def read(self) -> str | None:
        """All of them; None where there are none."""

    def add(self, text: str) -> None:
        """Keep more, after the others."""

    def replace(self, text: str | None) -> None:
        """Keep others in their place, or none."""


@dataclass(frozen=True)
class JournalFile:
    """In a file."""

    path: Path

    def read(self) -> str | None:
        """See `JournalText`."""
        if not self.path.exists():
            return None
        return self.path.read_text(encoding="utf-8", errors="replace")

    def add(self, text: str) -> None:
        """See `JournalText`."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(text)

    def replace(self, text: str | None) -> None:
        """See `JournalText`."""
        self.path.unlink(missing_ok=True)
        if text is not None:
            self.add(text)


def kept_dollars(text: JournalText) -> float:
    """What the replies have cost that a journal keeps."""
    read = (_entry(line) for line in (text.read() or "").split("\n")[1:])
    newest = _by_step(each for each in read if each is not None)
    return sum(each.completion.dollars for each in newest.values())


class Journal:
    """The replies in one rollout. Each is kept before it is acted on."""

    def __init__(self, text: JournalText, settings: str) -> None:
        """`settings` stands for all that decides what the rollout does: replies under others are
        forgotten."""
        self._text = text
        self._settings = settings
        self._begun = False
        self.seconds_given_back = 0.0
        """What the replies took, when they were made, that were given instead of asking."""
        self._lock = Lock()
        self._entries = self._read()

    def reply(self, conversation: int, step: int, seen: str) -> Completion | None:
        """What was replied to the same at this step; None where nothing was."""
        entry = self._entries.get((conversation, step))
        if entry is None or entry.seen != seen:
            return None
        with self._lock:
            self.seconds_given_back += entry.completion.seconds
        return entry.completion

    def add(self, conversation: int, step: int, seen: str, completion: Completion) -> None:
        """Keep one more."""
        line = json.dumps(asdict(_Entry(conversation, step, seen, completion)))
        with self._lock:
            self._text.add(f"{line}\n" if self._begun else f"{self._settings}\n{line}\n")
            self._begun = True

    def _read(self) -> dict[tuple[int, int], _Entry]:
        """The replies, the newest of each step."""
        held = self._text.read() or ""
        settings, *lines = held.split("\n")
        if not lines or settings != self._settings:
            self._text.replace(None)
            return {}
        read = [(line, entry) for line in lines if (entry := _entry(line)) is not None]
        readable = "\n".join([settings, *(line for line, _ in read), ""])
        if readable != held:
            self._text.replace(readable)
        self._begun = True
        return _by_step(entry for _, entry in read)


def _by_step(entries: Iterable[_Entry]) -> dict[tuple[int, int], _Entry]:
    """The newest of each step of each conversation."""
    return {(each.conversation, each.step): each for each in entries}


def _entry(line: str) -> _Entry | None:
    """None where a kill has cut it, or its numbers can't be: that reply is asked for again."""
    try:
        # Not `validate_json`, which takes no half characters.
        return ENTRY.validate_python(json.loads(line))
    except BROKEN:
        return None


def journaled(role_models: Mapping[str, RoleModel], journal: Journal) -> dict[str, RoleModel]:
    """The same models, whose replies are kept; those that follow a script need none of it."""
    return {name: _journaled(role_model, journal) for name, role_model in role_models.items()}


def _journaled(role_model: RoleModel, journal: Journal) -> RoleModel:
    if role_model.is_oracle or isinstance(role_model.backend, ReplayBackend):
        return role_model
    return replace(role_model, backend=JournaledBackend(role_model.backend, journal))


class JournaledBackend:
    """A backend whose replies in one rollout are kept."""

    def __init__(self, backend: ModelBackend, journal: Journal) -> None:
        self._backend, self._journal = backend, journal

    @property
    def name(self) -> str:
        """The model's name in the config."""
        return self._backend.name

    def open(self, context: ConversationContext) -> Model:
        """A model that begins with what it has replied already."""
        return _JournaledModel(self._backend.open(context), self._journal, context)

    def close(self) -> None:
        """The backend is shared, and closed by its owner."""


class _JournaledModel:
    def __init__(self, model: Model, journal: Journal, context: ConversationContext) -> None:
        self._model, self._journal = model, journal
        self._conversation, self._log = context.index, context.log
        self._step = 0
        # Each message comes again with every later request.
        self._normalised = cache(normalised)

    def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSchema], sampling: Sampling
    ) -> Completion:
        """See `collect.models.base.Model`."""
        step, seen = self._step, self._digest(messages, tools)
        self._step += 1
        known = self._journal.reply(self._conversation, step, seen)
        if known is not None:
            self._log.note("reply_kept", conversation=self._conversation, step=step)
            return known
        completion = self._model.complete(messages, tools, sampling)
        self._journal.add(self._conversation, step, seen, completion)
        return completion

    def _digest(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> str:
        said = [asdict(replace(each, content=self._normalised(each.content))) for each in messages]
        return hashlib.sha256(json.dumps([said, tools]).encode()).hexdigest()


# Rollouts that go on where they were, after a stop, a kill, or a failure of the endpoint's.


def replies_of(folder: Path, rollout_id: str) -> JournalFile:
    """Where the replies in a rollout are kept until it has a row that stays."""
    return JournalFile(folder / FOLDER / f"{rollout_id}.jsonl")


def forget_replies(folder: Path, row: Rollout) -> None:
    """Of a rollout that has its row, unless the next start goes on with them."""
    if not goes_on(row.failure_type):
        replies_of(folder, row.rollout_id).replace(None)
