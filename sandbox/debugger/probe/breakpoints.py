"""All breakpoints, and what to do at the lines of each code object."""

from __future__ import annotations

import dis
import types
from typing import Dict, List, Optional, Set, Tuple

from .exceptions import KindCache, check_exception, is_loaded
from .interpreter import entry_offset, inlined_comprehensions, line_at, resumed_lines
from .lookup import find_file, find_function
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
        self.code: Optional[types.CodeType] = None
        try:
            if self.condition is not None:
                self.code = compile(self.condition.strip(), "<stepinto-condition>", "eval")
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


REACH = 3
"""Lines above and below that tell a line from others with the same text."""
OWN_WEIGHT = 4


def surroundings(lines: List[str], line: int) -> List[str]:
    """The texts of a line, in the middle, and of those around it; empty beyond the file."""
    numbers = range(line - REACH, line + REACH + 1)
    return [lines[n - 1].strip() if 0 < n <= len(lines) else "" for n in numbers]


def follow(lines: List[str], line: int, known: List[str]) -> Tuple[int, bool]:
    """The current number of a line with known surroundings, and whether its own text is still
    there."""

    def likeness(number: int) -> int:
        weights = [1] * REACH + [OWN_WEIGHT] + [1] * REACH
        now = surroundings(lines, number)
        return sum(w for w, old, new in zip(weights, known, now) if old and old == new)  # noqa: B905

    text = known[REACH]
    if surroundings(lines, line) == known:
        return line, True
    best = max(range(1, len(lines) + 1), key=lambda n: (likeness(n), -abs(n - line)), default=line)
    if not lines or not likeness(best):
        best = line
    return best, bool(text) and surroundings(lines, best)[REACH] == text


MANY_CODES = 200_000
"""Most code objects remembered, for programs that compile without end."""


class BreakpointTable:
    """All breakpoints, and for each code object the lines to stop at."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.breakpoints: Dict[int, Breakpoint] = {}
        self.by_path: Dict[str, List[Breakpoint]] = {}
        """Exception breakpoints are under the empty path."""
        self.raised = KindCache([])
        self.uncaught = KindCache([])
        self.trace_raises = False
        """Whether all functions of the program are traced for exceptions."""
        self.entry_code: Optional[types.CodeType] = None
        self.plans: Dict[int, Plan] = {}
        self.quiet: Dict[int, types.CodeType] = {}
        """Code known to hold no stop. Keyed by id, since code objects are slow to hash by content;
        the reference keeps an id from being reused."""
        self.only_raising: Dict[int, types.CodeType] = {}
        """Code traced only for its exceptions, keyed in the same way."""
        self.next_number = 1
        self.untold: Set[int] = set()
        """Numbers of the breakpoints set, hit, changed or removed since the last `news`."""

    def add(self, arguments: Json) -> Tuple[Breakpoint, List[str]]:
        """Set a breakpoint. Raises Refusal if the file, line, function or condition is unknown."""
        number = arguments.get("number") or self.next_number
        point = Breakpoint(number, arguments)
        notes: List[str] = []
        path = ""
        if point.exception:
            point.on_exception(self.workspace, kept="number" in arguments)
        elif arguments.get("function"):
            name = arguments["function"]
            if arguments.get("file") and ".py:" not in name:
                name = "{}:{}".format(arguments["file"], name)
            path, function = find_function(self.workspace, name)
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
                other.watch = point.watch or other.watch
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

    def _line(self, path: str, arguments: Json) -> Tuple[int, List[str]]:
        """The current line, found by its earlier text if a restart passes that."""
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
        """Remove a breakpoint, such as a temporary one on its hit; False if it is already gone."""
        if self.breakpoints.pop(point.number, None) is None:
            return False
        self.by_path[point.path] = [p for p in self.by_path[point.path] if p is not point]
        self.untold.add(point.number)
        if point.exception:
            self._forget_plans()
            self._sort_raised()
        else:  # the plans of other code stay, as one of many breakpoints is removed
            for key, plan in list(self.plans.items()):
                if point in plan.points:
                    self.plans.pop(key, None)
                    self.only_raising.pop(key, None)
        return True

    def count_hit(self, point: Breakpoint) -> None:
        point.hits += 1
        self.untold.add(point.number)

    def news(self) -> Json:
        """Changes since the last call."""
        self.untold.update(p.number for p in self.by_path.get("", ()) if self._has_come(p))
        # What another thread adds meanwhile stays for the next call.
        numbers = sorted(self.untold)
        self.untold.difference_update(numbers)
        changed = [self.breakpoints[number] for number in numbers if number in self.breakpoints]
        gone = [number for number in numbers if number not in self.breakpoints]
        return {"changed": [self.describe(point) for point in changed], "gone": gone}

    def holds(self, point: Breakpoint) -> bool:
        """Whether a breakpoint that was hit is still set."""
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

    def plan(self, code: types.CodeType) -> Optional[Plan]:
        """The stops of one code object, or None."""
        if id(code) in self.quiet:
            return None
        known = self.plans.get(id(code))
        if known is not None:
            return known
        points = self.by_path.get(self.workspace.canonical(code.co_filename), [])
        key = (code.co_name, code.co_firstlineno)
        own = [point for point in points if key in point.owners]
        raises = self.trace_raises and bool(self.raised.points)
        raises = raises and self.workspace.mine(code.co_filename)
        plan = None
        if own or raises or code is self.entry_code:
            plan = Plan(code, own, code is self.entry_code)
            self.plans[id(code)] = plan
            if not plan.lines:
                self.only_raising[id(code)] = code
        else:
            if len(self.quiet) > MANY_CODES:
                self.quiet.clear()
            self.quiet[id(code)] = code
        return plan

    def lines(self, path: str) -> Set[int]:
        return {point.line for point in self.by_path.get(path, [])}

    @staticmethod
    def _has_come(point: Breakpoint) -> bool:
        """Whether the class of a pending breakpoint has been loaded meanwhile."""
        if not point.pending or point.exception is None or not is_loaded(point.exception):
            return False
        point.pending = False
        return True

    def describe(self, point: Breakpoint) -> Json:
        self._has_come(point)
        # The text at and around its line, by which a restart finds it again.
        text: Json = {"source": ""}
        if point.path:
            around = surroundings(self.workspace.text(point.path), point.line)
            text = {"source": around[REACH], "around": around}
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
            "watch": point.watch,
            **text,
        }
