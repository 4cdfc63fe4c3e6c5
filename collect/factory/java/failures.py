"""Why Java tests failed, from the stack traces that the runner reports."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from collect.benchmarks.java_testing import enclosing_classes
from collect.factory.reasons import Reason

_FRAME = re.compile(r"^\tat (?:[\w.@/-]+/)?([\w.$<>]+)\.([\w$<>]+)\(([\w$-]+\.java):(\d+)\)", re.M)
_IDENTITY = re.compile(r"@[0-9a-f]{4,}\b")
_EXCEPTION = re.compile(r"([A-Za-z_][\w.$]*)(?::|\s*$)")
_LAMBDA = re.compile(r"lambda\$(\w+)\$\d+")


@dataclass(frozen=True)
class Frame:
    """One line of a stack trace."""

    class_name: str
    """With its package."""
    method: str
    """Of a lambda, the method that it stands in."""
    file: str
    """Relative to the root of its sources."""
    line: int


@dataclass(frozen=True)
class Failure:
    """How one test failed."""

    type: str
    """The exception's class, without its package."""
    message: str
    frames: tuple[Frame, ...]
    """Those of the exception and its causes, innermost first."""
    whole: bool
    """Whether the stack trace was not cut."""

    def reason(self, sources: Sequence[str]) -> Reason:
        """In the form that is compared: its place is the innermost of these files."""
        if self.type == "StackOverflowError":
            # Where the stack ends depends on what else is on it.
            return Reason(self.type, "", "")
        places = (frame for frame in self.frames if source_of(frame, sources) is not None)
        place = next(places, None)
        return Reason(self.type, self.message, f"{place.file}:{place.line}" if place else "")


def read_traces(tests: Sequence[str], reports: Sequence[Mapping[str, object]]) -> dict[str, str]:
    """The first stack trace of each failing test: its own, or the one of a class around it."""
    traces: dict[str, str] = {}
    for report in reports:
        if report["status"] == "failed":
            traces.setdefault(str(report["test"]), str(report.get("message", "")))
    around = {test: [test, *reversed(enclosing_classes(test))] for test in tests}
    return {
        test: next(traces[name] for name in names if name in traces)
        for test, names in around.items()
        if any(name in traces for name in names)
    }


def read_failure(trace: str) -> Failure:
    """A stack trace as Java prints it."""
    text = _IDENTITY.sub("@...", trace.partition("\n\tat ")[0]).strip()
    named = _EXCEPTION.match(text)
    kind = re.split(r"[.$]", named[1])[-1] if named else "Exception"
    message = text[named.end() :].strip() if named else text
    return Failure(kind, message, tuple(_frames(trace)), not trace.endswith("..."))


def _frames(trace: str) -> Iterator[Frame]:
    for found in _FRAME.finditer(trace):
        class_name, method, name, line = found.groups()
        inside = _LAMBDA.fullmatch(method)
        folder = class_name.rpartition(".")[0].replace(".", "/")
        yield Frame(
            class_name, inside[1] if inside else method, posixpath.join(folder, name), int(line)
        )


def source_of(frame: Frame, sources: Sequence[str]) -> str | None:
    """The path, of these, of the file that a frame is in."""
    return next((path for path in sources if f"/{path}".endswith(f"/{frame.file}")), None)
