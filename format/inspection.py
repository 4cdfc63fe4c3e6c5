"""What a Program Inspector did, independent of vocabulary."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from collect.agents.inspectcoder.react import ActionCall
from collect.store.records import Conversation, EventRow, MessageRow
from sandbox.debugger import Action, DebugEvent, ErrorKind, State, StopReason
from sandbox.debugger.rendering import read_paused_frame

# Translate the Program Inspector's actions to Debug2Fix's debug tools.
#
# `MAPPING` is the table. A `print(x)` does not become `debug_inspect`, which shows `repr(x)` and
# its type: a print has neither. `debug_run_code` is the fifth debug tool (`agents.debug_run_code`).


MAPPING = """\
| InspectCoder's Program Inspector | Debug2Fix's Debug Subagent |
| --- | --- |
| the session that is open beforehand | `debug_start_session{test, stop_at_test: true}` |
| `set_breakpoint(line)` | `debug_breakpoint{action: set, location: FILE:LINE, temporary: true}` |
| `control_execution("continue")` | `debug_control{action: continue}` |
| `control_execution("restart")` | `debug_control{action: restart}` |
| a test that has ended is begun again | `debug_control{action: restart}`, before the next call |
| `interact_code(code)` | `debug_run_code{code}` |
| `propose_repair(plan)` | the final `<debug_answer>`, its answer the plan |"""

START_SESSION = "debug_start_session"
PROPOSE = "propose_repair"


class Vocabulary(StrEnum):
    """The vocabulary of Program Inspectors' rows."""

    NATIVE = "native"
    """As recorded: actions in the text, or the four actions as tools."""
    DEBUG2FIX = "debug2fix"
    """As Debug2Fix's Debug Subagent would have done it, so that one model can learn from both."""


class Untranslatable(Exception):
    """The other vocabulary can't express a conversation; the message says why."""


def debug_call(action: ActionCall, file: str) -> tuple[str, dict[str, Any]]:
    """The debug tool and arguments that do the same as an action in the program `file`.

    Raises Untranslatable.
    """
    match action:
        case ActionCall("set_breakpoint", {"line": int(line)}):
            place = f"{file}:{line}"
            return "debug_breakpoint", {"action": "set", "location": place, "temporary": True}
        case ActionCall("control_execution", {"cmd": "continue" | "restart" as command}):
            return "debug_control", {"action": command}
        case ActionCall("interact_code", {"code": str(code)}):
            return "debug_run_code", {"code": code}
    raise Untranslatable(f"no debug tool does what {action.name} with {action.json} does")


def recorded_call(event: DebugEvent, arguments: Mapping[str, Any]) -> ActionCall:
    """The action that caused an event; `arguments` are the event's. Raises Untranslatable."""
    match event.action, arguments:
        case Action.SET_BREAKPOINT, {"file": str(), "line": int(line), "temporary": True}:
            if len(arguments) == 3:
                return ActionCall("set_breakpoint", {"line": line})
        case ((Action.CONTINUE | Action.RESTART), _):
            return ActionCall("control_execution", {"cmd": str(event.action)})
        case Action.RUN_CODE, {"code": str(code), "frame": 0}:
            return ActionCall("interact_code", {"code": code})
    raise Untranslatable(f"no action of the Program Inspector causes {event.action}")


@dataclass(frozen=True)
class Step:
    """One executed action."""

    call_id: str
    events: tuple[DebugEvent, ...]
    """The action's own event, and the session's restart if the action ended it."""

    @property
    def event(self) -> DebugEvent:
        """The action's own event."""
        return self.events[0]

    @property
    def action(self) -> ActionCall:
        """The call, reconstructed from the event. Raises Untranslatable."""
        return recorded_call(self.event, arguments_of(self.event))

    @property
    def ends_session(self) -> bool:
        """Whether the Inspector's session restarts after it."""
        done = self.event.state is State.DONE and self.event.action is not Action.RESTART
        refused = self.event.error_kind is ErrorKind.NOT_ALLOWED
        return done and not (refused and self.event.action is Action.RUN_CODE)


@dataclass(frozen=True)
class Turn:
    """A reply and the actions that it caused, at least one."""

    thought: str
    steps: tuple[Step, ...]
    reply: MessageRow
    """The original message, for its costs."""


@dataclass(frozen=True)
class Conclusion:
    """The root cause and the repair plan."""

    thought: str
    plan: str
    forced: bool
    """Whether it was requested because the steps were used up."""
    reply: MessageRow


@dataclass(frozen=True)
class Inspection:
    """One Inspector's work on one failing test."""

    context: str
    """The task in the prompt, without the session's state."""
    test: str
    opening: DebugEvent
    """The session's first stop."""
    opening_recorded: bool
    """If false, it was read from the prompt and is not an event of the conversation."""
    turns: tuple[Turn, ...]
    conclusion: Conclusion

    @property
    def steps(self) -> Iterator[Step]:
        """All actions, in order."""
        return (step for turn in self.turns for step in turn.steps)

    @property
    def events(self) -> Iterator[DebugEvent]:
        """All events of the session, its opening first."""
        yield self.opening
        yield from (event for step in self.steps for event in step.events)

    def checked(self) -> Inspection:
        """Returns itself if it has every restart that a later step needs. Raises Untranslatable."""
        steps = list(self.steps)
        for step, following in zip(steps, [*steps[1:], None], strict=True):
            going_on = following is not None and following.event.action is not Action.RESTART
            if going_on and step.ends_session and len(step.events) == 1:
                raise Untranslatable(
                    "the test ended and was begun again, which no event of the conversation tells"
                )
        return self


def arguments_of(event: DebugEvent) -> dict[str, object]:
    """The arguments of an event's action, as an object."""
    arguments: dict[str, object] = json.loads(event.arguments)
    return arguments


def events_by_call(conversation: Conversation) -> dict[tuple[int, str], tuple[DebugEvent, ...]]:
    """The events of each call, by message index and call id."""
    found: dict[tuple[int, str], tuple[DebugEvent, ...]] = {}
    for row in conversation.events:
        key = row.message_index, row.tool_call_id
        found[key] = (*found.get(key, ()), row.event)
    return found


def recorded_start(conversation: Conversation) -> EventRow | None:
    """The session's start event, if the conversation has one."""
    return next((row for row in conversation.events if row.event.action is Action.START), None)


def shown_opening(state: str, test: str) -> DebugEvent:
    """The first stop as shown in an Inspector's prompt. Raises Untranslatable."""
    frame = read_paused_frame(state)
    if frame is None:
        raise Untranslatable("the session was not paused at its beginning")
    return opening_at(test, frame.file, frame.line, frame.function, frame.source)


def opening_at(test: str, file: str, line: int, function: str, source: str) -> DebugEvent:
    """A session's first stop, from the known facts."""
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
