"""The ReAct form (InspectCoder, listing 1): a thought, then calls in a fenced block."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from textwrap import dedent

from collect.agents.forms import Answered, MalformedAction, TextForm
from collect.agents.inspectcoder.actions import (
    ActionCall,
    UnreadableAction,
    call_text,
    parse_actions,
)
from collect.agents.inspectcoder.code_blocks import FENCE, fenced_blocks, syntax_problem
from collect.agents.inspectcoder.inspector_tools import STATE_HEADING
from collect.store.messages import Message, ToolCall

ACTION = re.compile(r"^#{1,6}[ \t]*ACTIONS?[ \t]*:?[ \t]*$", re.MULTILINE | re.IGNORECASE)
OBSERVATION = re.compile(
    r"^(?:#{1,6}[ \t]*OBSERVATION\b|OBSERVATION[ \t]*:)", re.MULTILINE | re.IGNORECASE
)
HOW_TO_ACT = (
    'Respond with one "### THOUGHT" and one "### ACTION" that holds a ```...``` block of actions. '
)
WARN_AT = 2
MAX_FENCES = 50
"""Maximum fences to try as the end of a block."""


@dataclass(frozen=True)
class BlockLanguage:
    """The language of an action block."""

    read: Callable[[str], list[ActionCall]]
    """The actions of a block. Raises UnreadableAction."""
    write: Callable[[ActionCall], str]
    """Formats an action for a block."""
    stops_at_error: bool = True
    """Whether actions after a failed one are skipped."""


CALLS = BlockLanguage(parse_actions, call_text)


class ReactForm(TextForm):
    """Thought, action block, and one observation of all its calls, in order."""

    stop = ("\n### OBSERVATION", "\n### Observation", "\nObservation:")

    def __init__(self, state: Callable[[], str] | None, blocks: BlockLanguage = CALLS) -> None:
        """`state` returns the session's state, which is shown after each observation."""
        self._state = state
        self._blocks = blocks
        self.stops_at_error = blocks.stops_at_error

    def calls(self, reply: Message, step: int) -> Sequence[ToolCall]:
        try:
            actions = self._blocks.read(action_block(reply.content))
        except UnreadableAction as error:
            raise MalformedAction(f"### OBSERVATION\n{error} {HOW_TO_ACT}{self._shown()}") from None
        return [
            ToolCall(f"action_{step}_{index}", action.name, action.json)
            for index, action in enumerate(actions)
        ]

    def observation(self, answered: Sequence[Answered], left_out: int, steps_left: int) -> str:
        parts = []
        for each in answered:
            call = ActionCall(each.call.name, json.loads(each.call.arguments))
            parts.append(f"> {self._blocks.write(call)}\n{each.reply.text}")
        if left_out:
            parts.append(f"({left_out} more actions were left out after this error.)")
        if steps_left <= WARN_AT:
            parts.append(f"You have {steps_left} steps left; propose a repair within them.")
        return "### OBSERVATION\n" + "\n\n".join(parts) + self._shown()

    def _shown(self) -> str:
        return f"\n\n{STATE_HEADING}\n{self._state()}" if self._state else ""


def action_block(text: str) -> str:
    """The action block of a reply. Raises UnreadableAction if there is none.

    It is the first fenced block after the heading ACTION; models may omit the fence or the heading.
    Observations that they invent are ignored.
    """
    heading = ACTION.search(text)
    body = text[heading.end() :] if heading else text
    made_up = OBSERVATION.search(body)
    if made_up:
        body = body[: made_up.start()]
    blocks = [block for block in fenced_blocks(body) if block.strip()]
    if blocks:
        return _whole(blocks[0], body) if heading else blocks[-1]
    if heading and body.strip():
        return body.strip("\n`")
    raise UnreadableAction("There was no action in your response.")


def _whole(block: str, body: str) -> str:
    """The block, extended to a later fence if that makes it valid: a plan may contain fences."""
    start = body.index(block)
    marks = islice(FENCE.finditer(body, start + len(block)), MAX_FENCES)
    ends = [mark.start() for mark in marks]
    longer = (body[start:end].rstrip("\n") for end in ends)
    return next((text for text in (block, *longer) if not syntax_problem(dedent(text))), block)
