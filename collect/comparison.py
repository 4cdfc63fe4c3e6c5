"""Where the runs of a test on the buggy and on the fixed program part.

Both run under the debugger and stop at every line of the functions that the gold patch changes.
Before the first difference both have done the same, so the last visit of changed code before it is
the one that goes wrong: earlier visits gave the right result. What the oracle says of place and
value is checked against both runs.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from itertools import zip_longest

from collect.benchmarks.base import Instance
from collect.code.patches import ChangedRange, PatchError, apply_patch
from collect.code.source import (
    Place,
    SourceFile,
    changed_code,
    function_at,
    place_to_stop,
    read_source,
)
from collect.questions.claims import places, same_file, visits
from collect.questions.comparing import same_text
from collect.store.records import DebugAnswer
from sandbox import Sandbox
from sandbox.debugger import (
    Action,
    BreakpointRequest,
    DebugEvent,
    Debugger,
    Launch,
    State,
    open_debugger,
)
from sandbox.text import source_lines

Workspace = Callable[[str], AbstractContextManager[Sandbox]]
"""Opens a fresh sandbox with the bug, and a patch applied to it."""
MAX_VISITS = 3_000
TIMEOUT = 90.0
"""Seconds of one run."""
IDENTITY = re.compile(r"(?: at 0x|@)[0-9a-fA-F]+")
"""Of an object; it differs between runs."""


@dataclass(frozen=True)
class Visit:
    """One stop before a line of a changed function."""

    file: str
    line: int
    function: str
    hit: int
    """Which stop at that line, from 1."""
    depth: int
    values: Mapping[str, str]
    """By name or expression."""

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass
class Run:
    """What one run showed, in order."""

    visits: list[Visit] = field(default_factory=list)
    steps: list[tuple[int, str | None]] = field(default_factory=list)
    """Indexes of visits, each first alone, and with what its function returns after its last one.
    """
    ended: bool = False


@dataclass(frozen=True)
class _Fault:
    """Changed code in the buggy program, and where to stop for it."""

    changed: ChangedRange
    place: Place

    @property
    def runs(self) -> bool:
        """Whether the place itself is changed; else the values are wrong when it is reached, such
        as before a statement where another one is missing.
        """
        within = self.changed.start <= self.place.line <= self.changed.end
        return within and not self.changed.insertion


@dataclass(frozen=True)
class Comparison:
    """Where the buggy run goes wrong, as far as it is known."""

    visit: Visit | None = None
    """The visit of changed code that goes wrong."""
    returned: str | None = None
    """What that visit returned, if it did."""
    faults: tuple[_Fault, ...] = ()
    """The changed code where it is."""

    @property
    def place(self) -> Place | None:
        """Where it goes wrong."""
        return self.faults[0].place if self.faults else None


def compare_runs(instance: Instance, workspace: Workspace, test: str) -> Comparison | None:
    """Compare a test's runs without and with the gold patch; None if it can't be debugged. Raises
    SandboxError."""
    files = instance.files
    try:
        fixed = apply_patch(files, instance.gold_patch)
        changes = changed_code(files, instance.gold_patch)
    except PatchError:
        return None
    faults = [
        _Fault(each, place_to_stop(read_source(each.path, files.get(each.path, b"")), each))
        for each in changes
    ]
    names = {(fault.place.path, fault.place.function) for fault in faults}
    runs = []
    for tree, patch in ((files, ""), (fixed, instance.gold_patch)):
        watched = _Watched(tree, names, [fault.place for fault in faults if not patch])
        with workspace(patch) as sandbox, closing(open_debugger(instance.language, sandbox)) as it:
            run = watched.run(it, test)
        if run is None:
            return None
        runs.append(run)
    buggy, right = runs
    common = {path: _common_lines(files[path], fixed.get(path, b"")) for path, _ in names}
    wrong = _wrong_visit(buggy, right, faults, common)
    if wrong is None:
        return Comparison()
    visit = buggy.visits[wrong]
    returned = next(
        (text for index, text in buggy.steps if index == wrong and text is not None), None
    )
    there = [f for f in faults if (f.place.path, f.place.line) == (visit.file, visit.line)]
    return Comparison(visit, returned, tuple(there))


class _Watched:
    """The lines of one program at which it stops."""

    def __init__(
        self, files: Mapping[str, bytes], names: set[tuple[str, str]], faults: Sequence[Place]
    ) -> None:
        """`names` are files and functions. At `faults` the line's expressions are read, too."""
        self._sources: dict[str, SourceFile] = {}
        self._returns: set[tuple[str, int]] = set()
        self._points = {(place.path, place.line) for place in faults}
        self._faults = set(self._points)
        for path, name in names:
            data = files.get(path, b"")
            source = self._sources[path] = read_source(path, data)
            own = [each for each in source.functions if name and each.name == name]
            lines = {(path, line) for each in own for line in source.stops(each)}
            text = source_lines(data.decode("utf-8", "replace"))
            self._points |= lines
            self._returns |= {at for at in lines if text[at[1] - 1].lstrip().startswith("return")}

    def run(self, debugger: Debugger, test: str) -> Run | None:
        """One run of the test; None if it can't be started."""
        points = tuple(BreakpointRequest(file=path, line=line) for path, line in self._points)
        event = debugger.start(Launch(test, points, stop_at_entry=False))
        if event.state is State.START:
            return None
        run, hits, latest = Run(), Counter[tuple[str, int]](), dict[int, int]()
        deadline = time.monotonic() + TIMEOUT
        while event.state in (State.RUNTIME, State.RUNTIME_ERROR):
            left = deadline - time.monotonic()
            if left <= 0 or len(run.visits) >= MAX_VISITS:
                return run
            place, depth = (event.file or "", event.line or 0), event.depth or 0
            if event.return_value is not None and depth + 1 in latest:
                run.steps.append((latest.pop(depth + 1), _steady(event.return_value.text)))
            if event.hit and place in self._points:
                hits[place] += 1
                latest[depth] = len(run.visits)
                run.steps.append((latest[depth], None))
                run.visits.append(self._visit(debugger, event, hits[place]))
            # A return value is seen only by a step, back to the callers that wait for it.
            action = Action.STEP_OVER if place in self._returns else Action.CONTINUE
            event = debugger.control(action, timeout=left)
        run.ended = True
        return run

    def _visit(self, debugger: Debugger, event: DebugEvent, hit: int) -> Visit:
        file, line, function = event.file or "", event.line or 0, event.function or ""
        seen = list(debugger.locals().values)
        own = "this" if file.endswith(".java") else "self"
        if own == "this" or any(value.name == own for value in seen):
            fields = debugger.fields(own).values
            seen += (replace(each, name=f"{own}.{each.name}") for each in fields)
        if (file, line) in self._faults:
            source = self._sources[file]
            around = function_at(source, line)
            for probe in source.probes(line, around.name if around else ""):
                seen += debugger.evaluate(probe).values
        values = {each.name: _steady(each.text) for each in seen if not each.failed}
        return Visit(file, line, function, hit, event.depth or 0, values)


def _steady(text: str) -> str:
    return IDENTITY.sub("", text)


def _common_lines(old: bytes, new: bytes) -> dict[int, int]:
    """The unchanged lines' numbers in the fixed file, and those in the buggy one."""
    before, after = (source_lines(data.decode("utf-8", "replace")) for data in (old, new))
    blocks = SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks()
    return {each.b + i + 1: each.a + i + 1 for each in blocks for i in range(each.size)}


@dataclass(frozen=True)
class _Step:
    """A visit of an unchanged line, or a return: what both programs do."""

    visit: int
    what: tuple[str, ...]
    values: Mapping[str, str]
    is_return: bool = False

    def differs(self, other: _Step) -> bool:
        shared = self.values.keys() & other.values.keys()
        values = any(self.values[name] != other.values[name] for name in shared)
        return self.what != other.what or values


def _steps(run: Run, lines: Mapping[str, Mapping[int, int]]) -> Iterator[_Step]:
    """The steps to compare; `lines` are the unchanged ones, with their numbers before the patch."""
    for index, returned in run.steps:
        visit = run.visits[index]
        line = lines[visit.file].get(visit.line)
        if returned is not None:
            yield _Step(index, (visit.function,), {"": returned}, is_return=True)
        elif line is not None:
            yield _Step(index, (visit.file, str(line), visit.function), visit.values)


def _wrong_visit(
    buggy: Run, fixed: Run, faults: Sequence[_Fault], common: Mapping[str, Mapping[int, int]]
) -> int | None:
    """The last visit of changed code before the runs differ, or before the end if they don't."""
    own = {path: {line: line for line in lines.values()} for path, lines in common.items()}
    last, inside = len(buggy.visits) - 1, True
    for ours, theirs in zip_longest(_steps(buggy, own), _steps(fixed, common)):
        if ours is not None and theirs is not None and ours.differs(theirs):
            last, inside = ours.visit, ours.is_return
            break
        if ours is None or theirs is None:
            if not (buggy if ours is None else fixed).ended:
                return None
            last = last if ours is None else ours.visit
            inside = ours is None or ours.is_return
            break
    known = {(each.place.path, each.place.line): each.runs for each in faults}
    for index in range(last, -1, -1):
        visit = buggy.visits[index]
        runs = known.get((visit.file, visit.line))
        # What goes wrong at a visit that only shows it, happened before.
        if runs is not None and (index < last or inside or not runs):
            return index
    return None


# Check an answer of the oracle.

BEFORE = r"(?:^|; |, | where )"
"""What precedes the name of a value."""
VALUE_END = re.compile(r"  \(|; |\.$|\. ", re.MULTILINE)
CUT = "..."
SOURCE = re.compile(r"`[^`]*`")
"""Quoted code, in which `total = 3` is no value seen."""


def false_claims(answer: DebugAnswer, comparison: Comparison) -> list[str]:
    """What the answer says of the place, the visit and the values and is not so. What the runs
    don't show is not counted, nor anything if it is not known where the bug goes wrong.
    """
    visit = comparison.visit
    if visit is None:
        return []
    return [
        *_wrong_places(answer, comparison, visit),
        *_wrong_visits(answer, visit),
        *_wrong_values(answer, comparison, visit),
    ]


def _wrong_places(answer: DebugAnswer, comparison: Comparison, visit: Visit) -> Iterator[str]:
    spans = [(each.changed.start, each.changed.end) for each in comparison.faults]
    spans.append((visit.line, visit.line))
    for file, line, _ in places(answer.location):
        if not (same_file(file, visit.file) and any(a <= line <= b for a, b in spans)):
            yield f"it goes wrong at {visit.place}, not at {file}:{line}"


def _wrong_visits(answer: DebugAnswer, visit: Visit) -> Iterator[str]:
    for number in visits(answer.answer):
        if number != visit.hit:
            yield f"{visit.place} goes wrong on visit {visit.hit}, not {number}"


def _wrong_values(answer: DebugAnswer, comparison: Comparison, visit: Visit) -> Iterator[str]:
    name = visit.function.rpartition(".")[2]
    returned = {name: comparison.returned} if comparison.returned is not None else {}
    for text in (answer.answer, answer.evidence):
        shown = _steady(SOURCE.sub("", text))
        yield from _unlike(shown, visit.values, " = ")
        yield from _unlike(shown, returned, " returned ")


def _unlike(text: str, values: Mapping[str, str], equals: str) -> Iterator[str]:
    for name, value in values.items():
        for found in re.finditer(f"{BEFORE}{re.escape(name)}{equals}", text):
            told = text[found.end() :]
            whole = VALUE_END.split(told, maxsplit=1)[0]
            is_start = CUT in told and value.startswith(told.partition(CUT)[0].rstrip())
            if not (told.startswith(value) or same_text(whole, value) or is_start):
                yield f"{name}{equals}{value[:200]}, not {whole[:200]}"
