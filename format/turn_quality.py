"""Rate each of an assistant's turns from the records of its calls."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import groupby

from collect.agents.file_tools import read_failure
from collect.store.messages import ToolCall
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


class TurnQuality(StrEnum):
    """The result of a turn; the first label that applies."""

    SHORTENED = "shortened"
    """The model was not sent all that precedes the turn, since its context was full."""
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


ANSWER_ONCE = (Role.DEBUG_SUBAGENT, Role.INSPECTOR)
"""Roles that are only told to continue if an answer is not the expected one."""
GONE_WRONG = (
    TurnQuality.INVALID,
    TurnQuality.REFUSED,
    TurnQuality.REPEATED,
    TurnQuality.TIMEOUT,
    TurnQuality.TOOL_ERROR,
)
OUTCOMES = {ToolOutcome.INVALID: TurnQuality.INVALID, ToolOutcome.REFUSED: TurnQuality.REFUSED}


@dataclass(frozen=True)
class Turn:
    """An assistant message, and its results."""

    row: MessageRow
    answers: tuple[MessageRow, ...]
    """The messages up to the assistant's next one."""
    events: tuple[EventRow, ...]

    @property
    def calls(self) -> Sequence[ToolCall]:
        """The calls that are recorded as tool calls."""
        return self.row.message.tool_calls

    @property
    def acts(self) -> bool:
        """Whether it made any call, as tool call or in its text."""
        return bool(self.calls) or any(row.tool_outcome is not None for row in self.answers)

    @property
    def outcomes(self) -> Sequence[ToolOutcome | None]:
        """The results of its calls."""
        return [row.tool_outcome for row in self.answers]

    @property
    def asked_again(self) -> bool:
        """Whether it neither acted nor ended the conversation, so that it was asked again."""
        return bool(self.answers) and not self.acts

    @property
    def only_looks(self) -> bool:
        """Whether it changes nothing in the files or the session."""
        seen = {row.tool_call_id for row in self.events}
        silent = [call for call in self.calls if call.id not in seen]
        looked = all(row.event.action in LOOKS for row in self.events)
        read = all(call.name in FILE_TOOLS for call in silent)
        return looked and read and bool(self.calls or self.events)

    @property
    def goes_on(self) -> bool:
        """Whether it let the program run."""
        return any(row.event.action in GOES_ON for row in self.events)

    @property
    def key(self) -> tuple[str, ...]:
        """Calls and answers, without ids, addresses and times."""
        calls = [f"{call.name} {_normal(call.arguments)}" for call in self.calls]
        said = [] if calls else [self.row.message.content]
        answers = [VARIES.sub("", row.message.content) for row in self.answers]
        return (*calls, *said, *answers)

    @property
    def timed_out(self) -> bool:
        """Whether a call timed out."""
        if any(row.event.error_kind in TIMEOUTS for row in self.events):
            return True
        failed = (row for row in self.answers if row.tool_outcome is ToolOutcome.ERROR)
        shell = (row for row in failed if row.message.tool_call_id not in self._debugged)
        ends = (read_failure(row.message.content) for row in shell)
        return any(end is not None and end.exit_code is None for end in ends)

    @property
    def _debugged(self) -> set[str]:
        return {row.tool_call_id for row in self.events}


def turns(conversation: Conversation) -> Iterator[Turn]:
    """The assistant's turns, in order."""
    starts = [i for i, row in enumerate(conversation.messages) if row.message.role == "assistant"]
    events = sorted(conversation.events, key=lambda row: row.message_index)
    by_message = {index: tuple(rows) for index, rows in groupby(events, _message_index)}
    for start, end in zip(starts, [*starts[1:], len(conversation.messages)], strict=True):
        answers = conversation.messages[start + 1 : end]
        yield Turn(conversation.messages[start], answers, by_message.get(start, ()))


def turn_qualities(conversation: Conversation) -> tuple[TurnQuality, ...]:
    """A label for each of the assistant's messages, in order."""
    labels: list[TurnQuality] = []
    seen = _Seen()
    ends_once = conversation.role in ANSWER_ONCE
    for turn in turns(conversation):
        repeated = seen.repeats(turn)
        if turn.row.elided:
            labels.append(TurnQuality.SHORTENED)
        elif turn.asked_again and ends_once:
            labels.append(TurnQuality.INVALID)
        else:
            labels.append(_label(turn, repeated, labels[-1] if labels else TurnQuality.OK))
    return tuple(labels)


def trained_turns(labels: Sequence[TurnQuality], masked: Sequence[TurnQuality]) -> tuple[bool, ...]:
    """Which turns are trained on; the others remain as context."""
    return tuple(label not in masked for label in labels)


def _label(turn: Turn, repeated: bool, before: TurnQuality) -> TurnQuality:
    for outcome, label in OUTCOMES.items():
        if outcome in turn.outcomes:
            return label
    if repeated:
        return TurnQuality.REPEATED
    if turn.timed_out:
        return TurnQuality.TIMEOUT
    if ToolOutcome.ERROR in turn.outcomes:
        return TurnQuality.TOOL_ERROR
    return TurnQuality.RECOVERY if turn.acts and before in GONE_WRONG else TurnQuality.OK


@dataclass
class _Seen:
    """The calls since the last change."""

    looks: set[tuple[str, ...]] = field(default_factory=set)
    last_change: tuple[str, ...] = ()

    def repeats(self, turn: Turn) -> bool:
        """Whether an earlier turn did and saw the same, with no change since."""
        key = turn.key
        if not turn.acts or _is_void(turn):
            return False
        if turn.only_looks:
            known = key in self.looks
            self.looks.add(key)
            return known
        if not turn.goes_on and key == self.last_change:
            return True
        self.looks.clear()
        self.last_change = () if turn.goes_on else key
        return False


def _is_void(turn: Turn) -> bool:
    """Whether none of its calls were executed, so that nothing has changed."""
    outcomes = [outcome for outcome in turn.outcomes if outcome is not None]
    void = (ToolOutcome.INVALID, ToolOutcome.REFUSED)
    return bool(outcomes) and all(each in void for each in outcomes)


def _normal(arguments: str) -> str:
    """Arguments in a canonical form, independent of order and spaces."""
    try:
        return json.dumps(json.loads(arguments), sort_keys=True)
    except (ValueError, RecursionError):
        return arguments


def _message_index(row: EventRow) -> int:
    return row.message_index
