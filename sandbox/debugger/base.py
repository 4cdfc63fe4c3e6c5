"""The debugger interface: one session on one failing test, the same for every language."""

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

    Every method returns a DebugEvent, even if the action is refused or fails. Raises only
    SandboxDead if the sandbox dies, and DebuggerError if the protocol breaks.
    """

    @property
    def state(self) -> State: ...

    def start(self, launch: Launch) -> DebugEvent:
        """Launch the test suspended, set the breakpoints, run to the first stop. At every stop of
        the session `launch.watch` is evaluated.

        Atomic (Debug2Fix, section 4.2): it returns the first stop, or why there is none. Closes a
        session that is already running.
        """

    def control(self, action: Action, timeout: float | None = None) -> DebugEvent:
        """Continue, step over, step into or step out, to the next stop.

        After `timeout` seconds (None: the limits' `action_timeout`) the program is interrupted, and
        the event shows where it was.
        """

    def collect(self, request: BreakpointRequest, hits: int) -> DebugEvent:
        """Run to the `hits`-th hit of a breakpoint and evaluate `request.watch` at each, by default
        what is watched there. An exception breakpoint, an exception that ends the test, the
        program's end and the limits end it earlier; other breakpoints only count their hits.

        The breakpoint is removed afterwards, unless it was there before.
        """

    def restart(self) -> DebugEvent:
        """Launch the same test again with the breakpoints kept, to its first stop."""

    def locals(self, frame: int = 0, start: int = 0) -> DebugEvent:
        """The local variables of a frame, index 0 the innermost, from the `start`-th on."""

    def evaluate(self, expression: str, frame: int = 0, start: int = 0) -> DebugEvent:
        """The value of one expression in a frame, as text from the `start`-th character on."""

    def fields(self, expression: str, frame: int = 0, start: int = 0) -> DebugEvent:
        """The fields of an expression's object: attributes, or items by key or index, from the
        `start`-th on."""

    def stack(self, start: int = 0) -> DebugEvent:
        """The program's stack from the `start`-th frame outwards, without frames of the debugger
        and the test runner."""

    def threads(self) -> DebugEvent:
        """Every thread of the program, and its stack."""

    def run_code(self, code: str, frame: int = 0) -> DebugEvent:
        """Run statements in a frame; assignments to its variables take effect."""

    def set_breakpoint(self, request: BreakpointRequest) -> DebugEvent: ...

    def remove_breakpoint(self, number: int) -> DebugEvent: ...

    def list_breakpoints(self) -> DebugEvent: ...

    def snapshot(self) -> Snapshot:
        """The session's state, the stack and the breakpoints; allowed in every state."""

    def close(self) -> None:
        """End the program and the session. Safe to call twice."""
