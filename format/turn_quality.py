"""Rate each of an assistant's turns from the records of its calls."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby

from collect.agents.file_tools import read_failure
from collect.models.finish_reasons import LENGTH
from collect.store.records import Conversation, EventRow, MessageRow, Role, ToolOutcome
from sandbox.debugger import Action, ErrorKind

FILE_TOOLS = ("read_file", "grep", "list_files")
LOOKS = (
    Action.LOCALS,
    Action.EVALUATE,
    Action.STACK,
    Action.THREADS,
    Action.FIELDS,
    Action.LIST_BREAKPOINTS,
)
"""Tools that change nothing: an identical repeated call returns nothing new."""
GOES_ON = (
    Action.CONTINUE,
    Action.COLLECT,
    Action.STEP_OVER,
    Action.STEP_INTO,
    Action.STEP_OUT,
    Action.RUN_CODE,
    Action.RAW,
)
"""Tools that advance the program, even if they return the same again."""
TIMEOUTS = (ErrorKind.TIMEOUT, ErrorKind.UNRESPONSIVE)
VARIES = re.compile(r"0x[0-9a-fA-F]+|\b\d+\.\d+ ?s(?:econds)?\b")
"""Addresses and times, which differ between otherwise equal answers."""
ANSWER_ONCE = (Role.DEBUG_SUBAGENT, Role.INSPECTOR)
"""Roles that are only told to continue if an answer is not the expected one."""


class TurnQuality(StrEnum):
    """The result of a turn; the first label that applies."""

    RELAYED = "relayed"
    """Of a student, before its teacher took over (relay)."""
    SHORTENED = "shortened"
    """The model was not sent all that precedes the turn, since its context was full."""
    CUT = "cut"
    """The reply reached the limit of its length."""
    INVALID = "invalid"
    """A call was invalid: no such tool, or arguments that don't match its schema; or the turn had
    neither a call nor the expected answer."""
    REFUSED = "refused"
    """The session's state, or a limit on the tools, did not allow a call."""
    REPEATED = "repeated"
    """The same calls in the same state as before, with the same answers."""
    TIMEOUT = "timeout"
    """A call timed out."""
    TOOL_ERROR = "tool_error"
    """A call was executed, and failed."""
    RECOVERY = "recovery"
    """Successful calls directly after a turn that was not."""
    OK = "ok"


@dataclass(frozen=True)
class Turn:
    row: MessageRow
    answers: tuple[MessageRow, ...]
    """The messages up to the assistant's next one."""
    events: tuple[EventRow, ...]

    @property
    def outcomes(self) -> list[ToolOutcome]:
        return [row.tool_outcome for row in self.answers if row.tool_outcome is not None]

    @property
    def acts(self) -> bool:
        """Whether it made any call, as tool call or in its text."""
        return bool(self.row.message.tool_calls or self.outcomes)

    @property
    def only_looks(self) -> bool:
        """Whether it changes nothing in the files or the session."""
        calls, debugged = self.row.message.tool_calls, {row.tool_call_id for row in self.events}
        looked = all(row.event.action in LOOKS for row in self.events)
        read = all(call.name in FILE_TOOLS for call in calls if call.id not in debugged)
        return looked and read and bool(calls or self.events)

    @property
    def key(self) -> tuple[str, ...]:
        """Calls and answers, without ids, addresses and times."""
        done = []
        for call in self.row.message.tool_calls:
            try:
                arguments = json.dumps(json.loads(call.arguments), sort_keys=True)
            except (ValueError, RecursionError):
                arguments = call.arguments
            done.append(f"{call.name} {arguments}")
        answers = [VARIES.sub("", row.message.content) for row in self.answers]
        return (*(done or [self.row.message.content]), *answers)

    @property
    def timed_out(self) -> bool:
        """Whether a call timed out, in the debugger or the shell."""
        debugged = {row.tool_call_id for row in self.events}
        shell = (
            read_failure(row.message.content)
            for row in self.answers
            if row.tool_outcome is ToolOutcome.ERROR and row.message.tool_call_id not in debugged
        )
        return any(row.event.error_kind in TIMEOUTS for row in self.events) or any(
            end is not None and end[1] is None for end in shell
        )


def turns(conversation: Conversation) -> Iterator[Turn]:
    starts = [i for i, row in enumerate(conversation.messages) if row.message.role == "assistant"]
    events = sorted(conversation.events, key=lambda row: row.message_index)
    groups = groupby(events, lambda row: row.message_index)
    by_message = {index: tuple(rows) for index, rows in groups}
    for start, end in zip(starts, [*starts[1:], len(conversation.messages)], strict=True):
        answers = conversation.messages[start + 1 : end]
        yield Turn(conversation.messages[start], answers, by_message.get(start, ()))


def turn_qualities(conversation: Conversation) -> tuple[TurnQuality, ...]:
    """A label for each of the assistant's messages, in order."""
    labels: list[TurnQuality] = []
    seen = _Seen()
    good = (TurnQuality.OK, TurnQuality.RECOVERY, TurnQuality.SHORTENED)
    for turn in turns(conversation):
        repeated, outcomes = seen.repeats(turn), turn.outcomes
        asked_again = bool(turn.answers) and not turn.acts
        if turn.row.elided:
            label = TurnQuality.SHORTENED
        elif turn.row.finish_reason == LENGTH:
            label = TurnQuality.CUT
        elif (asked_again and conversation.role in ANSWER_ONCE) or ToolOutcome.INVALID in outcomes:
            label = TurnQuality.INVALID
        elif ToolOutcome.REFUSED in outcomes:
            label = TurnQuality.REFUSED
        elif repeated:
            label = TurnQuality.REPEATED
        elif turn.timed_out:
            label = TurnQuality.TIMEOUT
        elif ToolOutcome.ERROR in outcomes:
            label = TurnQuality.TOOL_ERROR
        elif turn.acts and labels and labels[-1] not in good:
            label = TurnQuality.RECOVERY
        else:
            label = TurnQuality.OK
        labels.append(label)
    before = conversation.messages[: takeover(conversation)]
    relayed = sum(row.message.role == "assistant" for row in before)
    return (*[TurnQuality.RELAYED] * relayed, *labels[relayed:])


def takeover(conversation: Conversation) -> int:
    """Index of the first reply of the model that the conversation ends with."""
    replies = [
        (index, row.player)
        for index, row in enumerate(conversation.messages)
        if row.message.role == "assistant"
    ]
    return next((index for index, player in replies if player == replies[-1][1]), 0)


def trained_turns(labels: Sequence[TurnQuality], masked: Sequence[TurnQuality]) -> tuple[bool, ...]:
    """Which turns are trained on; the others remain as context."""
    return tuple(label not in masked for label in labels)


class _Seen:
    def __init__(self) -> None:
        self._looks: set[tuple[str, ...]] = set()
        self._last_change: tuple[str, ...] = ()

    def repeats(self, turn: Turn) -> bool:
        """Whether an earlier turn did and saw the same, with no change since."""
        key, outcomes = turn.key, turn.outcomes
        not_executed = (ToolOutcome.INVALID, ToolOutcome.REFUSED)
        if not turn.acts or (outcomes and all(each in not_executed for each in outcomes)):
            return False
        if turn.only_looks:
            known = key in self._looks
            self._looks.add(key)
            return known
        goes_on = any(row.event.action in GOES_ON for row in turn.events)
        if not goes_on and key == self._last_change:
            return True
        self._looks.clear()
        self._last_change = () if goes_on else key
        return False
