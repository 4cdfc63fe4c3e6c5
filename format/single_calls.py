"""Conversations with one call in each message, for chat templates that refuse several."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from collect.store.messages import Message, ToolCall
from collect.store.records import Conversation, EventRow, MessageRow


@dataclass
class Divided:
    """The messages of a conversation while its replies are divided."""

    rows: list[MessageRow] = field(default_factory=list)
    places: dict[int, int] = field(default_factory=dict)
    """The new index of each message; of a divided reply that of its first part."""
    calls: dict[tuple[int, str], int] = field(default_factory=dict)
    """The new index of the message with a call, by the old index and the call's id."""

    def add(self, index: int, row: MessageRow) -> None:
        """Add the message that was at this index."""
        self.places.setdefault(index, len(self.rows))
        for call in row.message.tool_calls:
            self.calls.setdefault((index, call.id), len(self.rows))
        self.rows.append(row)

    def event(self, row: EventRow) -> EventRow:
        """An event of the conversation, at the new index of its call."""
        first = self.places[row.message_index]
        place = self.calls.get((row.message_index, row.tool_call_id), first)
        return replace(row, message_index=place)


def with_single_calls(conversation: Conversation) -> Conversation:
    """The conversation with a message for each call, followed by the call's result.

    The first message of a reply has its text, its reasoning and its costs. A reply that had several
    calls loses its token ids: no part of it was sampled alone.
    """
    divided = Divided()
    rows = conversation.messages
    starts = [index for index, row in enumerate(rows) if row.message.role == "assistant"]
    for index, row in enumerate(rows[: starts[0] if starts else None]):
        divided.add(index, row)
    for start, end in zip(starts, [*starts[1:], len(rows)], strict=True):
        _add_turn(divided, rows, range(start, end))
    messages = [
        replace(row, elided=tuple(divided.places[at] for at in row.elided)) for row in divided.rows
    ]
    events = tuple(map(divided.event, conversation.events))
    return replace(conversation, messages=tuple(messages), events=events)


def _add_turn(divided: Divided, rows: tuple[MessageRow, ...], turn: range) -> None:
    """Add a reply and the messages up to the next one, which are at the indexes `turn`."""
    results = defaultdict[str | None, list[int]](list)
    for index in turn[1:]:
        results[rows[index].message.tool_call_id].append(index)
    for part in _parts(rows[turn[0]]):
        divided.add(turn[0], part)
        for call in part.message.tool_calls:
            if results[call.id]:
                index = results[call.id].pop(0)
                divided.add(index, rows[index])
    for index in turn[1:]:
        if index not in divided.places:
            divided.add(index, rows[index])


def _parts(reply: MessageRow) -> Iterator[MessageRow]:
    first, *others = reply.message.tool_calls or (None,)
    if not others or first is None:
        yield reply
        return
    message = replace(reply.message, tool_calls=(first,))
    yield replace(reply, message=message, text_calls=min(reply.text_calls, 1), tokens=None)
    for call in others:
        yield _further(reply, call)


def _further(reply: MessageRow, call: ToolCall) -> MessageRow:
    """A further call of a reply, without text or costs."""
    return MessageRow(
        Message("assistant", tool_calls=(call,)),
        finish_reason=reply.finish_reason,
        served_model=reply.served_model,
        text_calls=min(reply.text_calls, 1),
        elided=reply.elided,
        player=reply.player,
    )
