"""All breakpoints, and for each code object what to do at its lines."""

from __future__ import annotations

import types
from typing import Dict, List, Optional, Set, Tuple

from .exceptions import KindCache, is_loaded
from .following import REACH, follow, surroundings
from .lookup import find_file, find_function
from .points import Breakpoint, Plan
from .source import Function
from .wire import Json, Refusal
from .workspace import Workspace

MANY_CODES = 200_000
"""So many code objects are remembered at most, for programs that compile without end."""


class BreakpointTable:
    """All breakpoints, and for each code object the lines to stop at."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.breakpoints: Dict[int, Breakpoint] = {}
        self.by_path: Dict[str, List[Breakpoint]] = {}
        self.raised = KindCache([])
        self.uncaught = KindCache([])
        self.trace_raises = False
        """Whether every function of the program is to be traced for what is raised in it."""
        self.entry_code: Optional[types.CodeType] = None
        self.plans: Dict[int, Plan] = {}
        self.quiet: Dict[int, types.CodeType] = {}
        """Code known to hold no stop. By id, for code objects hash by their content, slowly; the
        reference keeps an id from being used again."""
        self.only_raising: Dict[int, types.CodeType] = {}
        """Code that is traced for its exceptions and nothing else, kept in the same way."""
        self.next_number = 1

    def add(self, arguments: Json) -> Tuple[Breakpoint, List[str]]:
        """Set one. Raises Refusal where the file, line, function or condition is unknown."""
        number = arguments.get("number") or self.next_number
        point = Breakpoint(number, arguments)
        notes: List[str] = []
        path = ""
        if point.exception:
            point.on_exception(self.workspace, kept="number" in arguments)
        elif arguments.get("function"):
            path, function = self._function(arguments)
            point.on_function(path, function, self.workspace.source(path))
        elif arguments.get("file") and arguments.get("line"):
            path = find_file(self.workspace, arguments["file"])
            line, notes = self._line(path, arguments)
            notes += point.on_line(path, line, self.workspace.source(path))
        else:
            raise Refusal("a breakpoint needs a file and a line, a function, or an exception")
        for other in self.breakpoints.values():
            if point.same_place(other):
                other.temporary = point.temporary
                return other, [f"breakpoint {other.number} is there already"]
            if path and (other.path, other.line) == (path, point.line):
                notes.append(f"breakpoint {other.number} is at this line too")
        self.breakpoints[number] = point
        self.next_number = max(self.next_number, number + 1)
        self.changed()
        return point, notes

    def _function(self, arguments: Json) -> Tuple[str, Function]:
        name = arguments["function"]
        if arguments.get("file") and ".py:" not in name:
            name = "{}:{}".format(arguments["file"], name)
        return find_function(self.workspace, name)

    def _line(self, path: str, arguments: Json) -> Tuple[int, List[str]]:
        """The line now, where a restart gives what stood there when it was set."""
        line: int = arguments["line"]
        known = arguments.get("around")
        if not known:
            return line, self.workspace.written_since(path)
        now, same = follow(self.workspace.text(path), line, known)
        if not same:
            message = "the line of breakpoint {}, `{}`, is gone; it is set near where that was"
            return now, [message.format(arguments["number"], arguments["source"])]
        return now, [f"breakpoint at line {line} followed its text to {now}"] * (now != line)

    def remove(self, number: int) -> Breakpoint:
        if number not in self.breakpoints:
            known = ", ".join(str(known) for known in self.breakpoints) or "none"
            raise Refusal(f"there is no breakpoint {number}; set: {known}")
        point = self.breakpoints.pop(number)
        self.changed()
        return point

    def discard(self, point: Breakpoint) -> bool:
        """Remove one that is hit for its only time; False where that has been done."""
        if self.breakpoints.pop(point.number, None) is None:
            return False
        self.changed()
        return True

    def holds(self, point: Breakpoint) -> bool:
        """Whether one that was hit has not been removed since."""
        return point.temporary or point.number in self.breakpoints

    def changed(self) -> None:
        self._forget_plans()
        self.by_path = {}
        points = list(self.breakpoints.values())
        for point in points:
            if not point.exception:
                self.by_path.setdefault(point.path, []).append(point)
        self.raised = KindCache([p for p in points if p.exception and not p.uncaught])
        self.uncaught = KindCache([p for p in points if p.exception and p.uncaught])

    def arm_entry(self, code: Optional[types.CodeType]) -> None:
        self.entry_code = code
        self._forget_plans()

    def _forget_plans(self) -> None:
        self.plans.clear()
        self.quiet.clear()
        self.only_raising.clear()

    def plan(self, code: types.CodeType) -> Optional[Plan]:
        """The stops of one code object; None where there are none."""
        if id(code) in self.quiet:
            return None
        known = self.plans.get(id(code))
        if known is not None:
            return known
        plan = self._make_plan(code)
        if plan is not None:
            self.plans[id(code)] = plan
            if not plan.lines:
                self.only_raising[id(code)] = code
        else:
            if len(self.quiet) > MANY_CODES:
                self.quiet.clear()
            self.quiet[id(code)] = code
        return plan

    def _make_plan(self, code: types.CodeType) -> Optional[Plan]:
        points = self.by_path.get(self.workspace.canonical(code.co_filename), [])
        key = (code.co_name, code.co_firstlineno)
        own = [point for point in points if key in point.owners]
        raises = self.trace_raises and bool(self.raised.points)
        raises = raises and self.workspace.mine(code.co_filename)
        if not own and not raises and code is not self.entry_code:
            return None
        return Plan(code, own, code is self.entry_code)

    def lines(self, path: str) -> Set[int]:
        return {point.line for point in self.by_path.get(path, [])}

    def describe(self, point: Breakpoint) -> Json:
        if point.pending:
            assert point.exception is not None
            point.pending = not is_loaded(point.exception)
        return {
            "number": point.number,
            "file": self.workspace.relative(point.path) if point.path else "",
            "line": point.line,
            "function": point.function,
            "condition": point.condition,
            "temporary": point.temporary,
            "hits": point.hits,
            "exception": point.exception,
            "uncaught": point.uncaught,
            "pending": point.pending,
            **self._text(point),
        }

    def _text(self, point: Breakpoint) -> Json:
        """What stands at its line and around it, by which a restart finds it again."""
        if not point.path:
            return {"source": ""}
        around = surroundings(self.workspace.text(point.path), point.line)
        return {"source": around[REACH], "around": around}
