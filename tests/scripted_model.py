"""Hand-written replies of a model, for tests."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from collect.models.base import Completion, ConversationContext, Sampling, scripted_completion
from collect.models.replay import Recording, ReplayBackend, ReplayModel
from collect.store.messages import Message, ToolSchema


class ScriptedBackend(ReplayBackend):
    """Hand-written replies. Records the requests."""

    def __init__(self, name: str, replies: Mapping[str, Sequence[Message]]) -> None:
        """`replies` by role; each conversation of a role starts with the first."""
        recordings = [
            Recording(tuple(map(scripted_completion, script)), {"role": role})
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
