"""How good each of an assistant's turns was, from what is recorded of its calls."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import groupby

from collect.agents.shell_tool import read_failure
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
"""What changes nothing: the same again, with nothing else between, tells nothing new."""
GOES_ON = (
    Action.CONTINUE,
    Action.STEP_OVER,
    Action.STEP_INTO,
    Action.STEP_OUT,
    Action.RUN_CODE,
    Action.RAW,
)
"""What gets the program on, also where it answers the same again."""
TIMEOUTS = (ErrorKind.TIMEOUT, ErrorKind.UNRESPONSIVE)
VARIES = re.compile(r"0x[0-9a-fA-F]+|\b\d+\.\d+ ?s(?:econds)?\b")
"""Addresses and times, in which two equal answers differ."""


class TurnQuality(StrEnum):
    """What became of a turn; of several labels that fit, the first."""

    INVALID = "invalid"
    """A call was invalid: no such tool, or arguments that are not of its schema; or the turn held
    neither a call nor the answer that was due."""
    REFUSED = "refused"
    """The session's state, or a limit on the tools, forbade a call."""
    REPEATED = "repeated"
    """The same calls in the same state as before, and the same answers."""
    TIMEOUT = "timeout"
    """A call ran out of time."""
    TOOL_ERROR = "tool_error"
    """A call was carried out, and failed."""
    RECOVERY = "recovery"
    """Calls that went well, directly after a turn that did not."""
    OK = "ok"


ANSWER_ONCE = (Role.DEBUG_SUBAGENT, Role.INSPECTOR)
"""Who is only told to go on where an answer was not what was due."""
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
    """One message of the assistant, and what came of it."""

    row: MessageRow
    answers: tuple[MessageRow, ...]
    """The messages up to the assistant's next."""
    events: tuple[EventRow, ...]

    @property
    def calls(self) -> Sequence[ToolCall]:
        """Its calls, where they are recorded as such."""
        return self.row.message.tool_calls

    @property
    def acts(self) -> bool:
        """Whether it called for anything, in tool calls or in its text."""
        return bool(self.calls) or any(row.tool_outcome is not None for row in self.answers)

    @property
    def outcomes(self) -> Sequence[ToolOutcome | None]:
        """What became of its calls."""
        return [row.tool_outcome for row in self.answers]

    @property
    def asked_again(self) -> bool:
        """Whether it neither acted nor ended the conversation: what it said was not enough."""
        return bool(self.answers) and not self.acts

    @property
    def only_looks(self) -> bool:
        """Whether it changes nothing, in the files or in the session."""
        seen = {row.tool_call_id for row in self.events}
        silent = [call for call in self.calls if call.id not in seen]
        looked = all(row.event.action in LOOKS for row in self.events)
        read = all(call.name in FILE_TOOLS for call in silent)
        return looked and read and bool(self.calls or self.events)

    @property
    def goes_on(self) -> bool:
        """Whether it has let the program run."""
        return any(row.event.action in GOES_ON for row in self.events)

    @property
    def key(self) -> tuple[str, ...]:
        """What was called and answered, without ids, addresses and times."""
        calls = [f"{call.name} {_normal(call.arguments)}" for call in self.calls]
        said = [] if calls else [self.row.message.content]
        answers = [VARIES.sub("", row.message.content) for row in self.answers]
        return (*calls, *said, *answers)

    @property
    def timed_out(self) -> bool:
        """Whether a call ran out of time."""
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
        if turn.asked_again and ends_once:
            labels.append(TurnQuality.INVALID)
        else:
            labels.append(_label(turn, repeated, labels[-1] if labels else TurnQuality.OK))
    return tuple(labels)


def trained_turns(labels: Sequence[TurnQuality], masked: Sequence[TurnQuality]) -> tuple[bool, ...]:
    """Which turns are trained on; the others stay as context."""
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
    """What was called since something last changed."""

    looks: set[tuple[str, ...]] = field(default_factory=set)
    last_change: tuple[str, ...] = ()

    def repeats(self, turn: Turn) -> bool:
        """Whether a turn did and saw what one before it had, with no change between."""
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
    """Whether nothing of it was carried out, so that nothing has changed."""
    outcomes = [outcome for outcome in turn.outcomes if outcome is not None]
    void = (ToolOutcome.INVALID, ToolOutcome.REFUSED)
    return bool(outcomes) and all(each in void for each in outcomes)


def _normal(arguments: str) -> str:
    """Arguments whatever their order and spaces."""
    try:
        return json.dumps(json.loads(arguments), sort_keys=True)
    except (ValueError, RecursionError):
        return arguments


def _message_index(row: EventRow) -> int:
    return row.message_index
