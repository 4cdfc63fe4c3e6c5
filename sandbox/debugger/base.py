"""The debugger seam: one session on one failing test, the same for every language."""

from __future__ import annotations

from typing import Protocol

from sandbox.debugger.records import (
    Action,
    BreakpointRequest,
    DebugEvent,
    Launch,
    Snapshot,
    State,
)


class Debugger(Protocol):
    """One debug session in one sandbox.

    Every method answers with a DebugEvent, also where the action is refused or fails. Only the
    sandbox's own death raises (SandboxDead), and a broken protocol (DebuggerError).
    """

    @property
    def state(self) -> State: ...

    def start(self, launch: Launch) -> DebugEvent:
        """Launch the test suspended, set the breakpoints, run to the first stop.

        Atomic (Debug2Fix, section 4.2): it answers with the first stop, or with why there is
        none. A session that runs already is closed first.
        """

    def control(self, action: Action, timeout: float | None = None) -> DebugEvent:
        """Continue, step over, step into or step out, to the next stop.

        Past `timeout` seconds (None: the limits' `action_timeout`) the program is interrupted,
        and the event shows where it was.
        """

    def restart(self) -> DebugEvent:
        """Launch the same test again with the breakpoints kept, to its first stop."""

    def locals(self, frame: int = 0, start: int = 0) -> DebugEvent:
        """The local variables of a frame, index 0 the innermost, from the `start`-th on."""

    def evaluate(self, expression: str, frame: int = 0, start: int = 0) -> DebugEvent:
        """The value of one expression in a frame, its text from the `start`-th character on."""

    def fields(self, expression: str, frame: int = 0, start: int = 0) -> DebugEvent:
        """The fields of the object that an expression gives: attributes, or items by key or
        index, from the `start`-th on."""

    def stack(self, start: int = 0) -> DebugEvent:
        """The program's stack from the `start`-th frame outwards, the debugger's and the test
        runner's own frames left out."""

    def threads(self) -> DebugEvent:
        """Every thread of the program, and its stack."""

    def run_code(self, code: str, frame: int = 0) -> DebugEvent:
        """Run statements in a frame; assignments to its variables take effect."""

    def set_breakpoint(self, request: BreakpointRequest) -> DebugEvent: ...

    def remove_breakpoint(self, number: int) -> DebugEvent: ...

    def list_breakpoints(self) -> DebugEvent: ...

    def snapshot(self) -> Snapshot:
        """The session's state, the stack and the breakpoints, whatever the state allows."""

    def close(self) -> None:
        """End the program and the session. Safe to call twice."""
