"""The breakpoints of a pdb session: looked up first, then typed as `break FILE:LINE, CONDITION`."""

from __future__ import annotations

from sandbox.debugger import pdb_parsing
from sandbox.debugger.channel import Json
from sandbox.debugger.pdb_parsing import Stop
from sandbox.debugger.pdb_places import place
from sandbox.debugger.terminal_session import Refused, TerminalConnection

NO_EXCEPTIONS = "pdb has no exception breakpoints; set one on the line that raises"


class PdbBreakpoints:
    """Breakpoints by the numbers that the session shows; pdb's own begin anew at each start."""

    def __init__(self, connection: TerminalConnection) -> None:
        self._connection = connection
        self._points: dict[int, Json] = {}
        self._next = 1

    def known(self) -> list[Json]:
        """All, as the fields of an answer."""
        return [
            {name: value for name, value in point.items() if name not in ("path", "typed")}
            for point in self._points.values()
        ]

    def lines(self, path: str) -> set[int]:
        return {point["line"] for point in self._points.values() if point["path"] == path}

    def set(self, arguments: Json) -> Json:
        if arguments.get("exception"):
            raise Refused(NO_EXCEPTIONS)
        notes = self._add(arguments, place(self._connection.sandbox, arguments))
        return {"notes": notes}

    def restore(self, requests: list[Json], places: list[Json]) -> list[str]:
        """Set those of a launch; gives a note for each that was moved or could not be set."""
        notes: list[str] = []
        self._next = max([point.get("number", 0) for point in requests], default=0) + 1
        for request, found in zip(requests, places, strict=True):
            try:
                if request.get("exception"):
                    raise Refused(NO_EXCEPTIONS)
                if "error" in found:
                    raise Refused(found["error"])
                notes += self._add(request, found)
            except Refused as refused:
                notes.append(f"a breakpoint was not set: {refused}")
        return notes

    def arm_entry(self, entry: Json) -> None:
        """A breakpoint of our own, unlisted, gone once hit."""
        self._connection.inspect(f"tbreak {entry['path']}:{entry['line']}")

    def remove(self, arguments: Json) -> Json:
        number = arguments["number"]
        if number not in self._points:
            known = ", ".join(map(str, self._points)) or "none"
            raise Refused(f"there is no breakpoint {number}; set: {known}")
        self._connection.inspect(f"clear {self._points.pop(number)['typed']}")
        return {}

    def refresh(self, arguments: Json) -> Json:
        """Take the hit counts from pdb's list."""
        text = self._connection.inspect("break").text
        hits = {
            int(match["number"]): pdb_parsing.HITS.search(match["details"])
            for match in pdb_parsing.LISTED.finditer(text)
        }
        for point in self._points.values():
            counted = hits.get(point["typed"])
            point["hits"] = int(counted.group(1)) if counted else 0
        return {}

    def hit(self, stop: Stop, text: str) -> list[Json]:
        """The breakpoints at a stop; those that pdb deleted there are forgotten."""
        here = [
            point
            for point in self._points.values()
            if (point["path"], point["line"]) == (stop.file, stop.line)
        ]
        deleted = {int(match["number"]) for match in pdb_parsing.DELETED.finditer(text)}
        for point in here:
            point["hits"] += 1
            if point["typed"] in deleted:
                del self._points[point["number"]]
        return [
            {name: value for name, value in point.items() if name not in ("path", "typed")}
            for point in here
        ]

    def _add(self, request: Json, found: Json) -> list[str]:
        condition = " ".join((request.get("condition") or "").split())
        command = "tbreak" if request.get("temporary") else "break"
        line = f"{command} {found['path']}:{found['line']}"
        text = self._connection.inspect(line + (f", {condition}" if condition else "")).text
        match = pdb_parsing.SET.search(text)
        if match is None:
            raise Refused(pdb_parsing.without_prompt(text).strip().removeprefix("*** "))
        number = request.get("number") or self._next
        self._next = max(self._next, number + 1)
        self._points[number] = {
            "number": number,
            "typed": int(match["number"]),
            "path": match["file"],
            "line": int(match["line"]),
            "file": found["file"],
            "function": found["function"],
            "condition": condition or None,
            "temporary": bool(request.get("temporary")),
            "hits": 0,
            "source": found["source"],
        }
        return list(found["notes"])
