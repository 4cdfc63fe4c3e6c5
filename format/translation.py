"""A Program Inspector's conversations in the vocabulary of Debug2Fix, and back.

Calls and events come back exactly, in both native forms: each call with its name and arguments,
each event with its message and the id of its call. What only the words around them tell is made
anew: prompts, observations (rendered from the events) and the frames around the innermost one.
"""

from __future__ import annotations

from collect.records import Conversation
from format.inspector_reading import read_inspector
from format.inspector_writing import Form, write_inspector
from format.subagent_reading import read_subagent
from format.subagent_writing import write_subagent


def to_debug2fix(conversation: Conversation) -> Conversation:
    """An Inspector's conversation, in either native form, as a Debug Subagent's.

    Raises Untranslatable where an action was invalid or refused, where there is no plan, or where
    the session went on in a way that no event tells.
    """
    return write_subagent(read_inspector(conversation), conversation)


def to_inspector(conversation: Conversation, form: Form = "react") -> Conversation:
    """A Debug Subagent's conversation as an Inspector's.

    Raises Untranslatable where it calls what an Inspector has no action for: a step, an
    inspection, a breakpoint that stays or has a condition, a look into a file.
    """
    return write_inspector(read_subagent(conversation), conversation, form)
