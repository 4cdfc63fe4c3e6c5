"""Which breakpoints stop the program at a place, and how often each was hit."""

from __future__ import annotations

import types
from typing import Iterable, List, NamedTuple, Optional

from .breakpoints import BreakpointTable
from .conditions import condition_holds
from .exceptions import first_reached
from .frames import keep_cells
from .points import Breakpoint
from .workspace import Workspace


class Hits(NamedTuple):
    """The breakpoints that were hit, and notes about their conditions."""

    points: List[Breakpoint]
    notes: List[str]


class HitCounter:
    """Finds the breakpoints that are hit: those due whose conditions hold."""

    def __init__(self, workspace: Workspace, table: BreakpointTable) -> None:
        self.workspace = workspace
        self.table = table

    def at_line(self, frame: types.FrameType) -> Hits:
        """At a line that is about to run."""
        plan = self.table.plan(frame.f_code)
        return self._count(plan.due(frame, frame.f_lineno) if plan else (), frame)

    def at_raise(
        self,
        frame: types.FrameType,
        error: BaseException,
        trace: Optional[types.TracebackType],
    ) -> Hits:
        """In a frame that an exception has reached: only at the first of the program's own."""
        points = self.table.raised.matching(type(error))
        if not points or not first_reached(frame, error, trace, self.workspace.mine):
            return Hits([], [])
        return self._count(points, frame, error)

    def at_end(self, frame: Optional[types.FrameType], error: BaseException) -> Hits:
        """At an exception that has ended the program, or its test."""
        points = self.table.uncaught.matching(type(error)) if frame is not None else ()
        return self._count(points, frame, error)

    def _count(
        self,
        due: Iterable[Breakpoint],
        frame: Optional[types.FrameType],
        error: Optional[BaseException] = None,
    ) -> Hits:
        hits = Hits([], [])
        for point in due:
            assert frame is not None
            holds, note = condition_holds(point, frame, error)
            keep_cells(frame if point.code else None)
            hits.notes.extend([note] if note else [])
            # Another thread may have been the first to hit a temporary one.
            if holds and (not point.temporary or self.table.discard(point)):
                self.table.count_hit(point)
                hits.points.append(point)
        return hits
