"""What a Program Inspector did, whatever the vocabulary that it was said in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from collect.agents.repair.actions import ActionCall
from collect.records import Conversation, EventRow, MessageRow
from format.vocabulary import Untranslatable, recorded_call
from sandbox.debugger import Action, DebugEvent, ErrorKind, State, StopReason
from sandbox.debugger.rendering import read_paused_frame


@dataclass(frozen=True)
class Step:
    """One action that was carried out."""

    call_id: str
    events: tuple[DebugEvent, ...]
    """The action's own, and the restart of the session where that has ended by it."""

    @property
    def event(self) -> DebugEvent:
        """The action's own."""
        return self.events[0]

    @property
    def action(self) -> ActionCall:
        """The call, told from the event. Raises Untranslatable."""
        return recorded_call(self.event, arguments_of(self.event))

    @property
    def ends_session(self) -> bool:
        """Whether the Inspector's session is begun again after it."""
        done = self.event.state is State.DONE and self.event.action is not Action.RESTART
        refused = self.event.error_kind is ErrorKind.NOT_ALLOWED
        return done and not (refused and self.event.action is Action.RUN_CODE)


@dataclass(frozen=True)
class Turn:
    """One reply, and the actions it led to: at least one."""

    thought: str
    steps: tuple[Step, ...]
    reply: MessageRow
    """As it was, for what it took."""


@dataclass(frozen=True)
class Conclusion:
    """The root cause and the repair plan."""

    thought: str
    plan: str
    forced: bool
    """It was asked for, the steps being used up."""
    reply: MessageRow


@dataclass(frozen=True)
class Inspection:
    """One Inspector's work on one failing test."""

    context: str
    """The task as the prompt gives it, without the session's state."""
    test: str
    opening: DebugEvent
    """The session's first stop."""
    opening_recorded: bool
    """Else it is read off the prompt, and is no event of the conversation."""
    turns: tuple[Turn, ...]
    conclusion: Conclusion

    @property
    def steps(self) -> Iterator[Step]:
        """All actions, in order."""
        return (step for turn in self.turns for step in turn.steps)

    @property
    def events(self) -> Iterator[DebugEvent]:
        """Everything that the session answered, its opening first."""
        yield self.opening
        yield from (event for step in self.steps for event in step.events)

    def checked(self) -> Inspection:
        """Itself, where it has every restart that a later step needs. Raises Untranslatable."""
        steps = list(self.steps)
        for step, following in zip(steps, [*steps[1:], None], strict=True):
            going_on = following is not None and following.event.action is not Action.RESTART
            if going_on and step.ends_session and len(step.events) == 1:
                raise Untranslatable(
                    "the test ended and was begun again, which no event of the conversation tells"
                )
        return self


def arguments_of(event: DebugEvent) -> dict[str, object]:
    """What an event's action was asked, as an object."""
    arguments: dict[str, object] = json.loads(event.arguments)
    return arguments


def events_by_call(conversation: Conversation) -> dict[tuple[int, str], tuple[DebugEvent, ...]]:
    """The events of each call, by the index of its message and its id."""
    found: dict[tuple[int, str], tuple[DebugEvent, ...]] = {}
    for row in conversation.events:
        key = row.message_index, row.tool_call_id
        found[key] = (*found.get(key, ()), row.event)
    return found


def recorded_start(conversation: Conversation) -> EventRow | None:
    """The start of the session, where it is an event of the conversation."""
    return next((row for row in conversation.events if row.event.action is Action.START), None)


def shown_opening(state: str, test: str) -> DebugEvent:
    """The first stop as an Inspector's prompt shows it. Raises Untranslatable."""
    frame = read_paused_frame(state)
    if frame is None:
        raise Untranslatable("the session was not paused at its beginning")
    return opening_at(test, frame.file, frame.line, frame.function, frame.source)


def opening_at(test: str, file: str, line: int, function: str, source: str) -> DebugEvent:
    """A session's first stop, by what is known of it."""
    return DebugEvent(
        action=Action.START,
        arguments=json.dumps({"test": test, "breakpoints": []}),
        state=State.RUNTIME,
        stop_reason=StopReason.ENTRY,
        file=file,
        line=line,
        function=function,
        source=(f"->{line:>8}  {source}",),
    )
