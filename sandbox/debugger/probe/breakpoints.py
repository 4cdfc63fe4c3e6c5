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
        """Those on exceptions under the empty path."""
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
        self.untold: Set[int] = set()
        """The numbers of those that were set, hit, changed or removed since `news`."""

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
        for other in self.by_path.get(path, ()):
            if point.same_place(other):
                other.temporary = point.temporary
                self.untold.add(other.number)
                return other, [f"breakpoint {other.number} is there already"]
            if path and other.line == point.line:
                notes.append(f"breakpoint {other.number} is at this line too")
        self.breakpoints[number] = point
        self.next_number = max(self.next_number, number + 1)
        self.by_path.setdefault(path, []).append(point)
        self.untold.add(number)
        self._forget_plans()
        self._sort_raised()
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
        point = self.breakpoints[number]
        self.discard(point)
        return point

    def discard(self, point: Breakpoint) -> bool:
        """Remove one, as after it is hit for its only time; False where that has been done."""
        if self.breakpoints.pop(point.number, None) is None:
            return False
        self.by_path[point.path] = [p for p in self.by_path[point.path] if p is not point]
        self.untold.add(point.number)
        if point.exception:
            self._forget_plans()
            self._sort_raised()
        else:
            self._forget_plans_with(point)
        return True

    def count_hit(self, point: Breakpoint) -> None:
        point.hits += 1
        self.untold.add(point.number)

    def news(self) -> Json:
        """What has changed since this was asked last."""
        self.untold.update(p.number for p in self.by_path.get("", ()) if self._has_come(p))
        # What another thread adds meanwhile stays for the next time.
        numbers = sorted(self.untold)
        self.untold.difference_update(numbers)
        changed = [self.breakpoints[number] for number in numbers if number in self.breakpoints]
        gone = [number for number in numbers if number not in self.breakpoints]
        return {"changed": [self.describe(point) for point in changed], "gone": gone}

    def holds(self, point: Breakpoint) -> bool:
        """Whether one that was hit has not been removed since."""
        return point.temporary or point.number in self.breakpoints

    def _sort_raised(self) -> None:
        raised = self.by_path.get("", [])
        self.raised = KindCache([point for point in raised if not point.uncaught])
        self.uncaught = KindCache([point for point in raised if point.uncaught])

    def arm_entry(self, code: Optional[types.CodeType]) -> None:
        self.entry_code = code
        self._forget_plans()

    def _forget_plans(self) -> None:
        self.plans.clear()
        self.quiet.clear()
        self.only_raising.clear()

    def _forget_plans_with(self, point: Breakpoint) -> None:
        """Those of other code stay as they are, where one point of many is removed."""
        for key, plan in list(self.plans.items()):
            if point in plan.points:
                self.plans.pop(key, None)
                self.only_raising.pop(key, None)

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

    @staticmethod
    def _has_come(point: Breakpoint) -> bool:
        """Whether the class of a pending one has been loaded meanwhile."""
        if not point.pending or point.exception is None or not is_loaded(point.exception):
            return False
        point.pending = False
        return True

    def describe(self, point: Breakpoint) -> Json:
        self._has_come(point)
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
