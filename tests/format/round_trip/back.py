"""From the vocabulary of Debug2Fix to a Program Inspector's."""

from __future__ import annotations

from collect.store.records import Conversation
from tests.format.round_trip.inspector_writing import Form, write_inspector
from tests.format.round_trip.subagent_reading import read_subagent


def to_inspector(conversation: Conversation, form: Form = "react") -> Conversation:
    """A Debug Subagent's conversation as an Inspector's.

    Raises Untranslatable where it calls what an Inspector has no action for: a step, an
    inspection, a breakpoint that stays or has a condition, a look into a file.
    """
    return write_inspector(read_subagent(conversation), conversation, form)
