"""A session's state, as far as its events tell of it."""

from __future__ import annotations

from sandbox.debugger import Action, DebugEvent, Frame, Snapshot, State
from sandbox.debugger.rendering import render_snapshot

LISTS_ALL = (Action.START, Action.RESTART, Action.SET_BREAKPOINT)
NUMBER_WIDTH = 12
"""Characters of a shown source line before its text: the mark, the number and two blanks."""


class SessionView:
    """Follows a session by its events. They tell the frame it is paused in, not those around."""

    def __init__(self, opening: DebugEvent) -> None:
        self._snapshot = Snapshot(State.START)
        self.follow(opening)

    @property
    def text(self) -> str:
        """The state as it is shown to an Inspector."""
        return render_snapshot(self._snapshot)

    def follow(self, event: DebugEvent) -> None:
        """Take in one event."""
        before, frames = self._snapshot, self._snapshot.frames
        if event.state is State.DONE:
            frames = ()
        elif event.file is not None and event.line is not None:
            frames = (Frame(0, event.file, event.line, event.function or "", _paused_line(event)),)
        points = before.breakpoints
        if event.action in LISTS_ALL and event.error_kind is None:
            points = event.breakpoints
        hit = {point.number for point in event.breakpoints if point.temporary and point.hits}
        points = tuple(point for point in points if point.number not in hit)
        self._snapshot = Snapshot(event.state, frames, points)


def _paused_line(event: DebugEvent) -> str:
    marked = next((line for line in event.source if line.startswith("->")), "")
    return marked[NUMBER_WIDTH:].strip()
