"""One recorded rollout, driven again in fresh sandboxes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from collect.agents.conversation import ConversationLog
from collect.agents.rollout_context import Player
from collect.errors import ModelFailure
from collect.models.base import Sampling
from collect.models.replay import ReplayBackend, recording_of
from collect.observations import Difference, first_difference
from collect.records import Conversation, MessageRow, StopReason
from collect.replaying.records import ReplayRow, ReplayStatus
from collect.rollout import RolloutSettings, RolloutTrace

Drive = Callable[[RolloutSettings, RolloutTrace], object]
"""Does the rollout once more with the models of the settings, into the trace. What comes of it is
no part of a replay."""


@dataclass(frozen=True)
class Recorded:
    """One rollout of a run."""

    rollout_id: str
    models: tuple[str, ...]
    """The names of those that play in it."""
    conversations: tuple[Conversation, ...]
    drive: Drive

    def players(self) -> dict[str, Player]:
        """Models that say what was said."""
        recordings = [recording_of(each) for each in self.conversations]
        backends = {name: ReplayBackend(name, recordings) for name in self.models}
        return {
            name: Player(backend, Sampling(), backend.of_oracle)
            for name, backend in backends.items()
        }


def verify(
    recorded: Recorded, settings: Callable[[dict[str, Player]], RolloutSettings]
) -> list[ReplayRow]:
    """Drive the rollout once, and where anything differs once more.

    Raises ConfigError, RolloutError other than the model's, RolloutStopped, SandboxError.
    """
    first = _driven(recorded, settings)
    differences = dict(_differences(recorded, first))
    again = _driven(recorded, settings) if any(differences.values()) else first
    return [
        _row(conversation, differences[conversation.index], _between(conversation, first, again))
        for conversation in recorded.conversations
    ]


def _driven(
    recorded: Recorded, settings: Callable[[dict[str, Player]], RolloutSettings]
) -> list[ConversationLog]:
    trace = RolloutTrace()
    # Where the record ends early, the model's failure once ended it.
    with suppress(ModelFailure):
        recorded.drive(settings(recorded.players()), trace)
    return trace.logs


def _differences(
    recorded: Recorded, logs: Sequence[ConversationLog]
) -> Iterator[tuple[int, Difference | None]]:
    failed = {
        each.parent_call_id or ""
        for each in recorded.conversations
        if each.stop_reason is StopReason.FAILURE
    }
    for each in recorded.conversations:
        # Where a subagent failed, its caller was told why, which no replay can say again.
        yield each.index, first_difference(each.messages, _rows(each, logs), failed)


def _between(
    conversation: Conversation, first: Sequence[ConversationLog], again: Sequence[ConversationLog]
) -> Difference | None:
    return first_difference(_rows(conversation, first), _rows(conversation, again))


def _rows(conversation: Conversation, logs: Sequence[ConversationLog]) -> Sequence[MessageRow]:
    """The same conversation in a replay; empty where it never came to that."""
    return logs[conversation.index].rows if conversation.index < len(logs) else ()


def _row(
    conversation: Conversation, difference: Difference | None, unsteady: Difference | None
) -> ReplayRow:
    status, shown = ReplayStatus.VERIFIED, difference
    if difference is not None:
        status = ReplayStatus.NONDETERMINISTIC if unsteady else ReplayStatus.DIFFERENT
        shown = unsteady or difference
    return ReplayRow(
        rollout_id=conversation.rollout_id,
        conversation_id=conversation.conversation_id,
        instance_id=conversation.instance_id,
        status=status,
        message_index=shown.message_index if shown else None,
        recorded=shown.recorded if shown else "",
        replayed=shown.replayed if shown else "",
    )
