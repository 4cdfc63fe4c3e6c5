"""Debug sessions on a small bug, written call by call."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any

from collect.agents.debug_tools import reply
from collect.store.messages import Message, ToolCall
from collect.store.records import Conversation, DebugAnswer, EventRow, MessageRow, ToolOutcome
from sandbox.debugger import Action, DebugEvent, ErrorKind, ExceptionInfo, Frame, State, Value
from sandbox.debugger import StopReason as DebugStopReason
from tests.records import make_conversations, make_rollout

TEST_FILE = "tests/test_cart.py"
TASK = 'Question: What is `rate` at shop/cart.py:42 with "summer"?\nTest: tests/test_cart.py::test'


@dataclass
class Session:
    """A Debug Subagent's conversation while it is written."""

    task: str = TASK
    rows: list[MessageRow] = field(default_factory=list)
    events: list[EventRow] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rows += [MessageRow(Message("system", "You debug. For instance `hint` = 77."))]
        self.rows += [MessageRow(Message("user", self.task))]

    def call(
        self,
        name: str,
        answer: str,
        outcome: ToolOutcome = ToolOutcome.OK,
        saying: str = "",
        **arguments: Any,
    ) -> Session:
        """A call of a tool that is no debugger's."""
        call = ToolCall(f"call_{len(self.rows)}", name, json.dumps(arguments))
        self.rows.append(MessageRow(Message("assistant", saying, tool_calls=(call,))))
        message = Message("tool", answer, tool_call_id=call.id, name=name)
        self.rows.append(MessageRow(message, tool_outcome=outcome))
        return self

    def debug(self, event: DebugEvent, **arguments: Any) -> Session:
        """A call of a debug tool, and its event."""
        name = "debug_inspect" if event.stop_reason is None else "debug_control"
        told = reply(event)
        self.call(name, told.text, told.outcome, **arguments)
        self.events.append(EventRow(len(self.rows) - 2, f"call_{len(self.rows) - 2}", event))
        return self

    def say(self, text: str) -> Session:
        """A message of the user's."""
        self.rows.append(MessageRow(Message("user", text)))
        return self

    def answer(self, answer: str, evidence: str = "none", location: str = "none") -> Conversation:
        """The conversation, ended by this answer."""
        self.rows.append(MessageRow(Message("assistant", f"<debug_answer>{answer}")))
        _, sub = make_conversations(make_rollout())
        return replace(
            sub,
            messages=tuple(self.rows),
            events=tuple(self.events),
            answer=DebugAnswer("q", answer, evidence, location),
        )


def stop(
    file: str = "shop/cart.py", line: int = 42, function: str = "Cart.total", **more: Any
) -> DebugEvent:
    """The program stops."""
    event = DebugEvent(
        Action.CONTINUE,
        json.dumps({"action": "continue"}),
        State.RUNTIME,
        stop_reason=DebugStopReason.BREAKPOINT,
        file=file,
        line=line,
        function=function,
        source=(f"      {line - 1}  def total(self):", f"-> *  {line}      return rate * total"),
    )
    return replace(event, **more)


def see(*values: tuple[str, str], action: Action = Action.LOCALS, frame: int = 0) -> DebugEvent:
    """Values are read."""
    shown = tuple(Value(name, "", text) for name, text in values)
    return DebugEvent(action, json.dumps({"frame": frame}), State.RUNTIME, values=shown)


def stack(*frames: tuple[str, int, str]) -> DebugEvent:
    """The stack is read, innermost frame first."""
    listed = tuple(Frame(i, *frame, "") for i, frame in enumerate(frames))
    return DebugEvent(Action.STACK, "{}", State.RUNTIME, frames=listed)


def raised(kind: str, message: str, file: str = TEST_FILE) -> DebugEvent:
    """An exception ends the test."""
    info = ExceptionInfo(kind, message)
    return stop(file, 9, "test", exception=info, stop_reason=DebugStopReason.EXCEPTION, source=())


def failed(kind: ErrorKind, action: Action = Action.EVALUATE) -> DebugEvent:
    """An action is not carried out, or fails."""
    return DebugEvent(action, "{}", State.RUNTIME, error_kind=kind, error="it did not work")
