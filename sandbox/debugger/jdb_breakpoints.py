"""The breakpoints of a jdb session.

jdb knows classes, not files; sets what is not loaded yet later, and tells only then that it can't;
and knows no conditions and no temporary ones: those are kept here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sandbox.debugger import jdb_parsing
from sandbox.debugger.channel import Json
from sandbox.debugger.java_sources import JavaSources
from sandbox.debugger.jdb_parsing import Event
from sandbox.debugger.prompts import Reply
from sandbox.debugger.terminal_session import Refused


@dataclass
class Point:
    """One breakpoint."""

    number: int
    spec: str
    """As jdb has it: `demo.Calc:20`, `demo.Calc.total`, or an exception's class."""
    fields: Json
    """What an answer shows of it."""


class JdbBreakpoints:
    """Breakpoints by their numbers; jdb itself names them by class and line."""

    def __init__(self, ask: Callable[[str], Reply], sources: JavaSources) -> None:
        self._ask = ask
        self._sources = sources
        self._points: dict[int, Point] = {}
        self._next = 1

    def known(self) -> list[Json]:
        return [dict(point.fields) for point in self._points.values()]

    def lines(self, file: str) -> set[int]:
        return {p.fields["line"] for p in self._points.values() if p.fields["file"] == file}

    def set(self, arguments: Json) -> Json:
        return {"notes": self._add(arguments)}

    def restore(self, requests: list[Json]) -> list[str]:
        """Set those of a launch; gives a note for each that was moved or could not be set."""
        notes: list[str] = []
        self._next = max([point.get("number", 0) for point in requests], default=0) + 1
        for request in requests:
            try:
                notes += self._add(request)
            except Refused as refused:
                notes.append(f"a breakpoint was not set: {refused}")
        return notes

    def refresh(self, arguments: Json) -> Json:
        """Nothing to ask for: jdb counts no hits, so they are counted here."""
        return {}

    def remove(self, arguments: Json) -> Json:
        number = arguments["number"]
        if number not in self._points:
            known = ", ".join(map(str, self._points)) or "none"
            raise Refused(f"there is no breakpoint {number}; set: {known}")
        self._clear(self._points.pop(number))
        return {}

    def follow(self, text: str) -> list[str]:
        """Take in what jdb says of deferred breakpoints; gives notes."""
        notes = []
        for match in jdb_parsing.BOUND.finditer(text):
            for point in self._named(match["spec"]):
                point.fields["pending"] = False
                notes.append(f"breakpoint {point.number} is bound now")
        for match in jdb_parsing.UNBOUND.finditer(text):
            for point in self._named(match["spec"]):
                del self._points[point.number]
                notes.append(f"breakpoint {point.number} could not be set: {match['why']}")
        return notes

    def hit(self, event: Event, file: str) -> list[Point]:
        """Those at a stop, their conditions aside."""
        if event.exception is not None:
            return [
                point
                for point in self._points.values()
                if point.fields["exception"] and event.exception.endswith(point.spec)
            ]
        on_line = [
            point
            for point in self._points.values()
            if (point.fields["file"], point.fields["line"]) == (file, event.line)
        ]
        # Where a method begins is known once it was entered.
        return on_line or [
            point
            for point in self._points.values()
            if not point.fields["line"] and point.spec.partition("(")[0] == event.function
        ]

    def holding(
        self, hit: list[Point], evaluate: Callable[[Json], Json]
    ) -> tuple[list[Point], list[str]]:
        """Those of a stop whose conditions hold, or fail; and what is said of the latter."""
        due, problems = [], []
        for point in hit:
            condition = point.fields["condition"]
            try:
                asked = {"expression": condition, "frame": 0}
                holds = not condition or evaluate(asked)["values"][0]["text"] == "true"
            except Refused as refused:
                holds = True
                problems.append(self._condition_failed(point, str(refused)))
            if holds:
                due.append(point)
        return due, problems

    def count(self, points: list[Point], event: Event) -> list[Json]:
        """Count a hit of each, and drop the temporary ones."""
        for point in points:
            point.fields["hits"] += 1
            point.fields["line"] = point.fields["line"] or event.line * (event.exception is None)
            if point.fields["temporary"] and point.number in self._points:
                self._clear(self._points.pop(point.number))
        return [dict(point.fields) for point in points]

    def _condition_failed(self, point: Point, why: str) -> str:
        """What is said of it. What jdb can't read will fail at each hit: its breakpoint goes."""
        which = f"the condition `{point.fields['condition']}` of breakpoint {point.number}"
        if not jdb_parsing.UNREADABLE.match(why):
            return f"{which} failed: {why}"
        self.remove({"number": point.number})
        return (
            f"{which} is none that jdb can evaluate: {why}; the breakpoint was removed: set it "
            "again with a condition without &&, || and instanceof"
        )

    def _named(self, spec: str) -> list[Point]:
        return [point for point in self._points.values() if point.spec == spec]

    def _clear(self, point: Point) -> None:
        command = "ignore" if point.fields["exception"] else "clear"
        if not self._named(point.spec):
            self._ask(f"{command} {point.spec}")

    def _add(self, request: Json) -> list[str]:
        notes: list[str] = []
        file, line, function = "", 0, None
        if request.get("exception"):
            spec = request["exception"]
            command = f"catch {'uncaught' if request.get('uncaught') else 'all'} {spec}"
        elif request.get("function"):
            function, file, line = self._sources.find_method(request["function"])
            spec, command = function, f"stop in {function}"
        else:
            asked = self._sources.followed(
                request["file"], request["line"], request.get("source") or ""
            )
            file, line, owner = self._sources.find_line(request["file"], asked)
            if line != request["line"]:
                notes.append(f"the breakpoint moved from line {request['line']} to {line}")
            spec = f"{owner}:{line}"
            command = f"stop at {spec}"
        text = self._ask(command).text
        unbound = jdb_parsing.UNBOUND.search(text)
        if unbound:
            raise Refused(unbound["why"])
        pending = "Deferring" in text
        if not pending and not text.startswith("Set "):
            raise Refused(jdb_parsing.without_prompt(text).strip())
        number = request.get("number") or self._next
        self._next = max(self._next, number + 1)
        self._points[number] = Point(
            number,
            spec,
            {
                "number": number,
                "file": file,
                "line": line,
                "function": function,
                "condition": request.get("condition"),
                "temporary": bool(request.get("temporary")),
                "hits": 0,
                "exception": request.get("exception"),
                "uncaught": bool(request.get("uncaught")),
                "pending": pending,
                "source": self._sources.text(file, line),
            },
        )
        return notes
