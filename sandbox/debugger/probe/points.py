"""One breakpoint, and the combined plan for those of one code object."""

from __future__ import annotations

import dis
import types
from typing import Dict, List, Optional, Set, Tuple

from .exceptions import check_exception, is_loaded
from .interpreter import entry_offset, inlined_comprehensions, line_at, resumed_lines
from .source import Function, SourceFile
from .wire import Json, Refusal
from .workspace import Workspace


class Breakpoint:
    """One breakpoint, bound to the code objects in which it stops."""

    def __init__(self, number: int, arguments: Json) -> None:
        self.number = number
        self.condition: Optional[str] = arguments.get("condition") or None
        self.temporary = bool(arguments.get("temporary"))
        self.watch: List[str] = list(arguments.get("watch") or ())
        self.function: Optional[str] = None
        self.exception: Optional[str] = arguments.get("exception") or None
        self.uncaught = bool(arguments.get("uncaught"))
        self.pending = False
        self.path = ""
        self.line = 0
        self.owners: Set[Tuple[str, int]] = set()
        self.at_entry = False
        """Only the first line of each call counts, even if a loop comes back to it."""
        self.hits = 0
        self.last_frame: Optional[types.FrameType] = None
        self.code = self._compiled()

    def _compiled(self) -> Optional[types.CodeType]:
        if self.condition is None:
            return None
        try:
            return compile(self.condition.strip(), "<stepinto-condition>", "eval")
        except (SyntaxError, ValueError) as error:
            message = "the condition {!r} is not an expression: {}"
            raise Refusal(message.format(self.condition, error)) from None

    def on_line(self, path: str, line: int, source: SourceFile) -> List[str]:
        """Bind to a line, or to the next executable one; returns a note if it was moved."""
        self.path = path
        function = source.function_at(line)
        if function is not None:
            self._bind(function, source)
        else:
            later = [number for number in source.owners if number >= line]
            if not later:
                last = max(source.owners, default=0)
                raise Refusal(f"line {line} holds no code; the last that does is {last}")
            self.line = min(later)
            follower = source.function_at(self.line)
            self.owners = source.owners[self.line]
            if follower is not None:
                self._bind(follower, source)
        if self.line == line:
            return []
        return [f"breakpoint {self.number} moved from line {line} to {self.line}"]

    def on_function(self, path: str, function: Function, source: SourceFile) -> None:
        self.path = path
        self.function = function.qualified
        self._bind(function, source)

    def on_exception(self, workspace: Workspace, kept: bool) -> None:
        """Bind to a class by its name. `kept` is from an earlier run, in which the class was
        known."""
        assert self.exception is not None
        self.exception = self.exception.strip()
        if not kept:
            check_exception(workspace, self.exception)
        self.pending = not is_loaded(self.exception)

    def same_place(self, other: Breakpoint) -> bool:
        return all(
            getattr(self, name) == getattr(other, name)
            for name in ("path", "line", "condition", "exception", "uncaught")
        )

    def _bind(self, function: Function, source: SourceFile) -> None:
        """Stop at the function's entry."""
        key = (function.name, function.first_line)
        self.owners = {key}
        self.at_entry = True
        self.line = source.entry_lines.get(key, function.body_line)


class Plan:
    """What to do at the lines of one code object."""

    def __init__(self, code: types.CodeType, points: List[Breakpoint], entry: bool) -> None:
        self.code = code
        self.points = points
        self.offset = entry_offset(code)
        self.reentered = self.offset in dis.findlabels(code.co_code)  # type: ignore[arg-type]  # it takes bytes
        self.at_entry = [point for point in points if point.at_entry]
        self.by_line: Dict[int, List[Breakpoint]] = {}
        for point in points:
            if not point.at_entry:
                self.by_line.setdefault(point.line, []).append(point)
        self.lines = set(self.by_line)
        self.repeated = inlined_comprehensions(code).repeated | resumed_lines(code)
        if self.at_entry or entry:
            self.lines.add(line_at(code, self.offset))

    def due(self, frame: types.FrameType, line: int) -> List[Breakpoint]:
        """The breakpoints for this line event, regardless of conditions."""
        if frame.f_lasti in self.repeated:
            return []
        due = list(self.by_line.get(line, ()))
        if self.at_entry and frame.f_lasti == self.offset:
            for point in self.at_entry:
                if self.reentered and point.last_frame is frame:
                    continue  # a loop came back to the first line, which is not a new call
                point.last_frame = frame if self.reentered else None
                due.append(point)
        return due
