"""All breakpoints: what to do at the lines of each code object, and for which exceptions.

From CPython 3.12 on `sys.monitoring` reports exceptions, at no other cost. Before that each
function of the program is traced, without its lines, while there is such a breakpoint. Measured, a
loop takes 1.6 to 2.7 times as long, deep recursion 7 to 8 times, and a loop that only calls a tiny
function 12 times.
"""

from __future__ import annotations

import dis
import types
from typing import Iterable

from .exceptions import KindCache, check_exception, is_loaded
from .functions import find_functions
from .interpreter import (
    body_lines,
    entry_offset,
    line_at,
    releasing_lines,
)
from .sources import NOT_COMPILED, Function, SourceFile, lines_of
from .statements import Flow, Statement
from .wire import Json, Refusal
from .workspace import (
    Workspace,
    find_source,
)

MAX_SHOWN = 200
"""Characters of a refused expression that are repeated."""


def parsed(what: str, expression: str) -> types.CodeType:
    """The code of an expression. Raises Refusal, which says what it was to be."""
    try:
        return compile(expression.strip(), "<stepinto-condition>", "eval")
    except NOT_COMPILED as error:
        why = getattr(error, "msg", error) or "it is nested too deeply"
        shown = expression if len(expression) <= MAX_SHOWN else expression[:MAX_SHOWN] + "..."
        raise Refusal(f"the {what} {shown!r} is not an expression: {why}") from None


class Breakpoint:
    """One breakpoint, bound to the code objects in which it stops."""

    def __init__(self, number: int, arguments: Json) -> None:
        self.number = number
        self.condition: str | None = arguments.get("condition") or None
        self.temporary = bool(arguments.get("temporary"))
        self.watch: list[str] = list(arguments.get("watch") or ())
        self.function: str | None = None
        self.exception: str | None = arguments.get("exception") or None
        self.uncaught = bool(arguments.get("uncaught"))
        self.pending = False
        self.path = ""
        self.line = 0
        """In the version of the file that runs; 0 if it is not there."""
        self.present: tuple[int, list[str]] | None = None
        """The line and its surroundings in the file now, if that was edited before it was set."""
        self.owners: set[tuple[str, int]] = set()
        self.at_entry = False
        """Only the first line of each call counts, even if a loop comes back to it."""
        self.hits = 0
        self.unseen = ""
        """Why it may miss executions of its line, if it may."""
        self.false_conditions = 0
        """How often its condition was false."""
        self.codes: dict[int, tuple[types.CodeType, types.CodeType]] = {}
        """By id: the program's code, and the condition compiled for it."""
        if self.condition is not None:
            parsed("condition", self.condition)
        for expression in (*self.watch, *arguments.get("collect", ())):
            parsed("watch", expression)

    def on_line(self, path: str, line: int, source: SourceFile, asked: Json) -> list[str]:
        """Bind to a line, or to the next executable one; returns notes on where it stops, if that
        is not where one would expect."""
        self.path = path
        function = source.function_at(line)
        if function is not None:
            self._bind(function, source)
        else:
            later = [number for number in source.owners if number >= line]
            if not later:
                last = max(source.owners, default=0)
                told = "line {} of {} holds no code; the last that does is {}"
                raise Refusal(told.format(line, asked["file"], last))
            self.line = min(later)
            follower = source.function_at(self.line)
            self.owners = source.owners[self.line]
            if follower is not None:
                self._bind(follower, source)
        notes = []
        if self.line != asked["line"]:
            inside = " and ".join(sorted({name for name, _ in self.owners}))
            moved = f"moved from line {asked['line']} to {self.line}, in {inside}"
            once = ", and stops once in each call" if self.at_entry else ""
            notes.append(f"breakpoint {self.number} {moved}{once}")
        self.unseen = source.unseen.get(self.line, "")
        if self.unseen:
            notes.append(f"breakpoint {self.number} {self.unseen}")
        if self.line in source.lambdas:
            stops = f"stops when line {self.line} runs, not when its lambda is called"
            instead = f"to stop in it, set {asked['file']}:{source.lambdas[self.line]}"
            notes.append(f"breakpoint {self.number} {stops}: {instead}")
        return notes

    def on_functions(self, path: str, found: list[Function], source: SourceFile) -> list[str]:
        """Bind to a function's entry, or to those of all lambdas of a name, which a note tells."""
        self.path = path
        self.function = found[0].qualified
        self._bind(found[0], source)
        self.owners = {(each.name, each.first_line) for each in found}
        lines = " and ".join(str(line) for line in sorted({each.body_line for each in found}))
        told = f"breakpoint {self.number} stops in each {self.function}: at lines {lines}"
        return [told] if len(found) > 1 else []

    def on_exception(self, workspace: Workspace, kept: bool) -> None:
        """Bind to a class by its name, which is known to exist if `kept` from an earlier run."""
        assert self.exception is not None
        self.exception = self.exception.strip()
        if not kept:
            check_exception(workspace, self.exception)
        self.pending = not is_loaded(self.exception)

    def same_place(self, other: Breakpoint) -> bool:
        names = ["path", "line", "owners", "at_entry", "condition", "exception", "uncaught"]
        if not self.line:
            names.append("present")
        return all(getattr(self, name) == getattr(other, name) for name in names)

    def in_newer(self, code: types.CodeType) -> bool:
        """Whether it is in code of a newer text of its file: in the function of the same name, or
        at the same line."""
        inner = {each.co_firstlineno for each in code.co_consts if isinstance(each, types.CodeType)}
        if not self.at_entry:
            return self.line in body_lines(code) and self.line not in inner
        qualified = getattr(code, "co_qualname", code.co_name).replace("<locals>.", "")
        wanted = self.function or qualified
        if not hasattr(code, "co_qualname"):
            wanted = wanted.rpartition(".")[2]
        return qualified == wanted and any(name == code.co_name for name, _ in self.owners)

    def take(self, watch: list[str]) -> str:
        """Take expressions to watch, if there are any. Returns what to say of it."""
        if not watch or watch == self.watch:
            return "is there already"
        done = "replaced" if self.watch else "added"
        self.watch = watch
        return f"was there; watches {done}"

    def _bind(self, function: Function, source: SourceFile) -> None:
        """Stop at the function's entry."""
        key = (function.name, function.first_line)
        self.owners = {key}
        self.at_entry = True
        self.line = source.entry_lines.get(key, function.body_line)


class Plan:
    """What to do at the lines of one code object."""

    def __init__(
        self,
        code: types.CodeType,
        points: list[Breakpoint],
        entry: bool,
        statements: dict[int, Statement],
    ) -> None:
        self.code = code
        self.points = points
        self.notes: list[str] = []
        """What to say at each hit."""
        self.offset = entry_offset(code)
        self.releasing = releasing_lines(code)
        self.at_entry = [point for point in points if point.at_entry]
        self.by_line: dict[int, list[Breakpoint]] = {}
        for point in points:
            if not point.at_entry:
                self.by_line.setdefault(point.line, []).append(point)
        self.lines = set(self.by_line)
        self.repeated: set[int] = set()
        """Offsets where an event of a line is no hit."""
        self.silent: dict[int, int] = {}
        """Jumps that are a hit though `sys.monitoring` reports no line, with their targets."""
        if self.by_line:
            flow = Flow(code)
            for line in self.by_line:
                statement = statements.get(line, Statement({line}, set(), {line}))
                self.repeated |= flow.repeats(line, statement)
                self.silent.update(flow.silent(line, statement))
        if self.at_entry or entry:
            self.lines.add(line_at(code, self.offset))
        self.eventful = self.lines | self.releasing
        """Lines at whose event the trace function has something to do."""
        labels = dis.findlabels(code.co_code) if self.at_entry else []  # type: ignore[arg-type]  # it takes bytes
        self.reentered = self.offset in labels
        """Whether a loop comes back to the first line, which is no call."""
        self.called: set[int] = set()
        """If so, the ids of frames that were called and have not come to it yet."""

    def call(self, frame: types.FrameType) -> None:
        """Called before a frame begins, or goes on after a `yield`."""
        if self.reentered and frame.f_lasti < self.offset:
            self.called.add(id(frame))

    def due(self, frame: types.FrameType, line: int, offset: int) -> list[Breakpoint]:
        """The breakpoints for this line event, regardless of conditions."""
        due = [] if offset in self.repeated else list(self.by_line.get(line, ()))
        if not self.at_entry or offset != self.offset:
            return due
        if self.reentered and id(frame) not in self.called:
            return due
        self.called.discard(id(frame))
        return [*due, *self.at_entry]


REACH = 3
"""Lines above and below that tell a line from others with the same text."""
OWN_WEIGHT = 4


def surroundings(lines: list[str], line: int) -> list[str]:
    """The texts of a line, in the middle, and of those around it; empty beyond the file."""
    numbers = range(line - REACH, line + REACH + 1)
    return [lines[n - 1].strip() if 0 < n <= len(lines) else "" for n in numbers]


def follow(lines: list[str], line: int, known: list[str]) -> tuple[int, bool]:
    """The current number of a line with known surroundings, and whether its text is still there."""

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


DESCRIBED = (
    *("number", "line", "function", "condition", "temporary", "hits", "exception", "uncaught"),
    *("pending", "watch", "unseen"),
)
"""Fields of a breakpoint that the host is told as they are."""
NEVER_HELD = (
    "breakpoint {} was reached {} time{} in this run, and its condition was false each time"
)
NEWER = (
    "{} was written while the program runs, and this code is of the newer text: breakpoints are at "
    "the same lines there, and in the functions of the same names"
)
MANY_CODES = 200_000
"""Most code objects remembered, for programs that compile without end."""


class BreakpointTable:
    """All breakpoints, and for each code object the lines to stop at."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.breakpoints: dict[int, Breakpoint] = {}
        self.by_path: dict[str, list[Breakpoint]] = {}
        """Exception breakpoints are under the empty path."""
        self.raised = KindCache([])
        self.uncaught = KindCache([])
        self.trace_raises = False
        """Whether all functions of the program are traced for exceptions."""
        self.entry_code: types.CodeType | None = None
        self.plans: dict[int, Plan] = {}
        self.quiet: dict[int, types.CodeType] = {}
        """Code known to hold no stop. Keyed by id, since code objects are slow to hash by content;
        the reference keeps an id from being reused."""
        self.only_raising: dict[int, types.CodeType] = {}
        """Code traced only for its exceptions, keyed in the same way."""
        self.next_number = 1
        self.untold: set[int] = set()
        """Numbers of the breakpoints set, hit, changed or removed since the last `news`."""

    def add(self, arguments: Json) -> tuple[Breakpoint, list[str]]:
        """Set a breakpoint. Raises Refusal if the file, line, function or condition is unknown."""
        number = arguments.get("number") or self.next_number
        point = Breakpoint(number, arguments)
        notes: list[str] = []
        path = ""
        if point.exception:
            point.on_exception(self.workspace, kept="source" in arguments)
        elif arguments.get("function"):
            name = arguments["function"]
            if arguments.get("file") and ".py:" not in name:
                name = "{}:{}".format(arguments["file"], name)
            path, functions = find_functions(self.workspace, name)
            notes = point.on_functions(path, functions, self.workspace.source(path))
        elif arguments.get("file") and arguments.get("line"):
            path = find_source(self.workspace, arguments["file"])
            notes = self._on_line(point, path, arguments)
        else:
            raise Refusal("a breakpoint needs a file and a line, a function, or an exception")
        others = self.by_path.get(path, ())
        for other in others:
            if point.same_place(other):
                other.temporary = point.temporary
                self.untold.add(other.number)
                own, its = f"breakpoint {number} ", f"breakpoint {other.number} "
                notes = [note.replace(own, its, 1) for note in notes]
                return other, [*notes, f"{its}{other.take(point.watch)}"]
        here = [str(other.number) for other in others if other.line and other.line == point.line]
        if here and "source" not in arguments:  # a restart has said it before
            notes.append(f"breakpoints {' and '.join(here)} and {number} are at line {point.line}")
        self.breakpoints[number] = point
        self.next_number = max(self.next_number, number + 1)
        self.by_path.setdefault(path, []).append(point)
        self.untold.add(number)
        self._forget_plans()
        return point, notes

    def _on_line(self, point: Breakpoint, path: str, arguments: Json) -> list[str]:
        """Bind to a line, found by its earlier text if a restart passes that."""
        asked: int = arguments["line"]
        line, known = asked, arguments.get("around")
        notes: list[str] = []
        if known:
            line, same = follow(self.workspace.text(path), asked, known)
            if not same:
                message = "the line of breakpoint {}, `{}`, is gone; it is set near where that was"
                notes.append(message.format(arguments["number"], arguments["source"]))
        else:
            edited = self.workspace.rewritten(path)
            if edited is not None:
                return self._on_edited_line(point, path, arguments, edited)
            notes += self.workspace.written_since(path)
        return notes + point.on_line(path, line, self.workspace.source(path), arguments)

    def _on_edited_line(
        self, point: Breakpoint, path: str, asked: Json, edited: bytes
    ) -> list[str]:
        """Bind to a line of the edited file, where that is in the version that runs."""
        moved = point.on_line(path, asked["line"], self.workspace.parsed(path, edited), asked)
        line = point.line
        point.present = line, surroundings(lines_of(edited), line)
        before, same = follow(self.workspace.text(path), *point.present)
        if same:
            point.on_line(path, before, self.workspace.source(path), {**asked, "line": before})
            found = f"line {line} is line {point.line} of the version that runs"
        else:
            point.line, point.owners = 0, set()
            found = f"breakpoint {point.number} takes effect after a restart"
        name = self.workspace.relative(path)
        return [f"{name} was written after the program started: {found}", *moved]

    def never_held(self) -> list[str]:
        """Notes on breakpoints that were reached, but never with a true condition; once each."""
        notes = []
        for point in self.breakpoints.values():
            if point.false_conditions and not point.hits:
                note = NEVER_HELD.format(
                    point.number, point.false_conditions, "s" * (point.false_conditions > 1)
                )
                notes.append(f"{note}; it {point.unseen}" if point.unseen else note)
                point.false_conditions = 0
        return notes

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
        else:  # the plans of other code stay, as one of many breakpoints is removed
            for key, plan in list(self.plans.items()):
                if point in plan.points:
                    self.plans.pop(key, None)
                    self.only_raising.pop(key, None)
        return True

    def hit(self, points: Iterable[Breakpoint]) -> list[Breakpoint]:
        """Count the hit of each breakpoint that has not been removed meanwhile. Called by one
        thread after the other, as each stops, so that no two have the same number."""
        hit = [p for p in points if p.temporary or p.number in self.breakpoints]
        for point in hit:
            point.hits += 1
            self.untold.add(point.number)
        return hit

    def news(self) -> Json:
        """Changes since the last call."""
        self.untold.update(p.number for p in self.by_path.get("", ()) if self._has_come(p))
        # What another thread adds meanwhile stays for the next call.
        numbers = sorted(self.untold)
        self.untold.difference_update(numbers)
        changed = [self.breakpoints[number] for number in numbers if number in self.breakpoints]
        gone = [number for number in numbers if number not in self.breakpoints]
        return {"changed": [self.describe(point) for point in changed], "gone": gone}

    def arm_entry(self, code: types.CodeType | None) -> None:
        self.entry_code = code
        self._forget_plans()

    def _forget_plans(self) -> None:
        raised = self.by_path.get("", [])
        self.raised = KindCache([point for point in raised if not point.uncaught])
        self.uncaught = KindCache([point for point in raised if point.uncaught])
        self.plans.clear()
        self.quiet.clear()
        self.only_raising.clear()

    def plan(self, code: types.CodeType) -> Plan | None:
        """The stops of one code object, or None."""
        if id(code) in self.quiet:
            return None
        known = self.plans.get(id(code))
        if known is not None:
            return known
        points = self.by_path.get(self.workspace.canonical(code.co_filename), [])
        key = (code.co_name, code.co_firstlineno)
        newer = bool(points) and self.workspace.runs_newer(code)
        if newer:
            own = [point for point in points if point.in_newer(code)]
        else:
            own = [point for point in points if key in point.owners]
        raises = self.trace_raises and bool(self.raised.points)
        raises = raises and self.workspace.mine(code.co_filename)
        plan = None
        if own or raises or code is self.entry_code:
            path = self.workspace.canonical(code.co_filename)
            statements = self.workspace.source(path).statements if own and not newer else {}
            plan = Plan(code, own, code is self.entry_code, statements)
            if newer:
                plan.notes.append(NEWER.format(self.workspace.relative(path)))
            self.plans[id(code)] = plan
            if not plan.lines:
                self.only_raising[id(code)] = code
        else:
            if len(self.quiet) > MANY_CODES:
                self.quiet.clear()
            self.quiet[id(code)] = code
        return plan

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
            line, around = point.present or (
                point.line,
                surroundings(self.workspace.text(point.path), point.line),
            )
            text = {"line": line, "source": around[REACH], "around": around}
        file = self.workspace.relative(point.path) if point.path else ""
        return {**{name: getattr(point, name) for name in DESCRIBED}, "file": file, **text}
