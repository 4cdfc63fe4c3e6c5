"""A Program Inspector's conversations in the vocabulary of Debug2Fix.

Nothing of calls and events is lost: each call has its name and arguments, each event its message
and the id of its call. What only the words around them tell is made anew: prompts, observations
(rendered from the events) and the frames around the innermost one.
"""

from __future__ import annotations

from collect.records import Conversation
from format.inspector_reading import read_inspector
from format.subagent_writing import write_subagent


def to_debug2fix(conversation: Conversation) -> Conversation:
    """An Inspector's conversation, in either native form, as a Debug Subagent's.

    Raises Untranslatable where an action was invalid or refused, where there is no plan, or where
    the session went on in a way that no event tells.
    """
    return write_subagent(read_inspector(conversation), conversation)
