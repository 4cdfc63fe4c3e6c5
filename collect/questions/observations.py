"""Everything that a conversation observed: tool answers and debugger events, in order."""

from __future__ import annotations

import ast
import json
import posixpath
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from collect.code.patches import TestFiles
from collect.code.syntax import expression, source_of, split_outside
from collect.questions.claims import places, same_file
from collect.questions.comparing import without_addresses
from collect.store.messages import arguments_object
from collect.store.records import Conversation, EventRow
from sandbox.debugger import Action, DebugEvent, Frame, Value

READ_FILE = "read_file"
NUMBERED = re.compile(r"^(?:->)?[ *]*(?P<line>\d{1,9})(?:\s|$)", re.MULTILINE)
"""A line of a listing from `read_file` or a stop."""
TRACEBACK = re.compile(r'File "(?P<file>[^"\n]+)", line (?P<line>\d{1,9})(?!\d)')
ASSERTION = re.compile(r"\bAssert(?:ion(?:Failed)?)?Error\b|^E\s+assert\b", re.MULTILINE)
UNEQUAL = re.compile(r"(?:assert |[A-Z]\w+ differ: )?(?P<one>.+?) [!=]= (?P<other>.+)")
"""The first line of a failed assertion's message, by pytest or unittest."""
PRINTING = {
    Action.RUN_CODE: ("code", re.compile(r"print\((?P<expression>[^'\"\n]+)\)")),
    Action.RAW: ("command", re.compile(r"(?:pp?|print|dump)\s+(?P<expression>.+)")),
}
"""By action: the argument that asks for one value, and its pattern."""
DOTTED = re.compile(r"[\w.]+")
FILE = re.compile(r"(?<![\w./$-])[\w./$-]{0,200}\w\.(?:py|java)\b")
QUALIFIED = re.compile(r"(?<=<)(?:(?:\w+|<locals>)\.)+(?=\w)| object(?=>)")
"""What representations of the same object differ in: `<Cart>`, `<shop.Cart object>`."""
COMPACTED = re.compile(
    r"expected:<((?:(?!expected:<)[^][])*+)\[([^][]*+)]((?:(?!> but was:<)[^][])*+)"
    r"> but was:<([^][]*+)\[([^][]*+)]([^][]*)>"
)
"""JUnit's message for unequal texts, with brackets around the difference."""
MODULE = re.compile(r"(?<!\w)\w++(?:\.\w++)++|(?<=import )\w+|(?<=from )\w+")
"""A module or class, whose file has the same name."""
FUNCTION = re.compile(r"\bin (?P<function>[\w.<>]+)")


@dataclass(frozen=True)
class Sighting:
    """Where something was seen."""

    where: int
    """Index of the message."""
    in_test: bool
    """In a test's frame, source or assertion message."""


@dataclass
class Observations:
    """Everything seen before the answer, indexed for lookups."""

    texts: list[tuple[str, Sighting]] = field(default_factory=list)
    """With whitespace collapsed, without addresses."""
    values: dict[str, list[tuple[str, Sighting]]] = field(default_factory=lambda: defaultdict(list))
    """Representations by the expression's last part: `total` for `self.total`."""
    lines: dict[tuple[str, int], list[tuple[str, Sighting]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """Paths by file name and line."""
    functions: dict[str, Sighting] = field(default_factory=dict)
    exceptions: list[tuple[str, str, Sighting]] = field(default_factory=list)
    """Types without their modules, and messages."""

    def add_text(self, text: str, sighting: Sighting) -> None:
        """Add a tool's answer."""
        for each in {text, COMPACTED.sub(r"expected:<\1\2\3> but was:<\4\5\6>", text)}:
            self.texts.append((plain(each), sighting))
        # Only lines with a file name: the search for places is slow in other text.
        naming = "\n".join(each for each in text.splitlines() if ".py" in each or ".java" in each)
        for file, line, _ in places(naming):
            self.add_line(file, line, sighting)
        for found in TRACEBACK.finditer(naming):
            self.add_line(found["file"], int(found["line"]), sighting)
        for found in FUNCTION.finditer(text):
            self.functions.setdefault(found["function"], sighting)

    def add_event(self, event: DebugEvent, sighting: Sighting, tests: TestFiles) -> None:
        """Add a debugger event, with what was collected at hits of breakpoints."""
        self.add_text(event.output, sighting)
        stopped = Frame(0, event.file or "", event.line or 0, event.function or "", "")
        for frame in (stopped, *event.frames, *(f for t in event.threads for f in t.frames)):
            self._add_place(frame.file, frame.line, frame.function, sighting)
        for each in event.exception.related if event.exception is not None else ():
            if each.file is not None:
                self._add_place(each.file, each.line or 0, each.function or "", sighting)
        for point in event.breakpoints:
            self.add_line(point.file, point.line, sighting)
        self.add_listing(event.file or "", "\n".join(event.source), sighting)
        inside = _asked(event, "expression") if event.action is Action.FIELDS else None
        for value in event.values:
            dot = "" if value.name.startswith("[") else "."
            name = value.name if inside is None else f"{inside}{dot}{value.name}"
            self._add_value(replace(value, name=name), sighting)
        argument, pattern = PRINTING.get(event.action, ("", None))
        printed = pattern.fullmatch(str(_asked(event, argument) or "").strip()) if pattern else None
        if printed:
            text = event.output.strip()
            shown = [(text, sighting), (repr(text), sighting)]
            self.values[last_part(printed["expression"])] += shown
        if event.return_value is not None:
            # What a program function returns belongs to the program, even if a test receives it.
            self._add_value(event.return_value, replace(sighting, in_test=False))
        if event.exception is not None:
            raised = event.exception.type.rpartition(".")[2]
            self.exceptions.append((raised, plain(event.exception.message), sighting))
            for name, text in _compared(event.source, event.exception.message):
                self.values[last_part(name)].append((text, sighting))
        for hit in event.collected:
            own = replace(sighting, in_test=hit.file in tests)
            self._add_place(hit.file, hit.line, hit.function, own)
            for value in hit.values:
                self._add_value(value, own)

    def add_listing(self, file: str, text: str, sighting: Sighting) -> None:
        """Add the numbered lines of a file."""
        for found in NUMBERED.finditer(text):
            self.add_line(file, int(found["line"]), sighting)

    def add_line(self, file: str, line: int, sighting: Sighting) -> None:
        """Add one place."""
        if file and line:
            self.lines[posixpath.basename(file), line].append((file.removeprefix("./"), sighting))

    def _add_place(self, file: str, line: int, function: str, sighting: Sighting) -> None:
        self.add_line(file, line, sighting)
        self.functions.setdefault(function, sighting)

    def _add_value(self, value: Value, sighting: Sighting) -> None:
        if not value.failed:
            # A tool's answer cuts long expressions.
            self.texts.append((plain(value.name), sighting))
            for name, text in ((value.name, value.text), *_elements(value)):
                self.values[last_part(name)].append((text, sighting))


def _elements(value: Value) -> Iterator[tuple[str, str]]:
    """The expressions in `(total, lines[0])` or `[total, lines[0]]` with their values."""
    if "," not in value.name or not value.text.startswith(("(", "[")):
        return
    source = value.name.strip()
    names = expression(source)
    texts, _ = split_outside(value.text[1:-1], ",", "([{<)]}>")
    if isinstance(names, ast.Tuple | ast.List) and len(names.elts) == len(texts):
        for name, text in zip(names.elts, texts, strict=True):
            yield ast.get_source_segment(source, name) or "", text.strip()


def _compared(source: Sequence[str], message: str) -> Iterator[tuple[str, str]]:
    """The sides of a failed equality with their values, which its message shows in their order."""
    line = next((each for each in source if each.startswith("->")), "")
    shown = UNEQUAL.match(message)
    names: tuple[ast.expr, ...] = ()
    match expression(NUMBERED.sub("", line).strip().removeprefix("assert ")):
        case ast.Compare(left=one, ops=[ast.Eq()], comparators=[other]):
            names = one, other
        case ast.Call(func=ast.Attribute(attr="assertEqual"), args=[one, other, *_]):
            names = one, other
    yield from zip(map(source_of, names), shown.groups() if shown else (), strict=False)


def plain(text: str) -> str:
    """A text in the form used for comparison."""
    return " ".join(QUALIFIED.sub("", without_addresses(text)).split())


def last_part(name: str) -> str:
    """The last part of an expression, as its key: `total` for `self.total`, with uniform quotes."""
    if DOTTED.fullmatch(name):
        return name.rpartition(".")[2]
    node = expression(name)
    return (source_of(node) if node is not None else "") or name


def observed(conversation: Conversation, end: int, tests: TestFiles) -> Observations:
    """Everything seen before the message with index `end`."""
    seen = Observations()
    events = list(_events(conversation, tests))
    from_test: dict[str | None, bool] = {}
    for row, tested in events:
        # A call is from a test if all its events are.
        from_test[row.tool_call_id] = from_test.get(row.tool_call_id, True) and tested
    calls = conversation.calls
    for index, held in enumerate(conversation.messages[:end]):
        message = held.message
        if message.role != "tool" and held.tool_outcome is None:
            continue
        call = calls.get(message.tool_call_id or "")
        path = call.text("path") if call is not None and call.name == READ_FILE else ""
        in_test = path in tests if path else from_test.get(message.tool_call_id, False)
        sighting = Sighting(index, in_test)
        seen.add_text(message.content, sighting)
        if path:
            seen.add_listing(path, message.content, sighting)
    for row, tested in events:
        where = _answer_index(conversation, row)
        if where < end:
            seen.add_event(row.event, Sighting(where, tested), tests)
    return seen


def _events(conversation: Conversation, tests: TestFiles) -> Iterator[tuple[EventRow, bool]]:
    """The events, and whether each shows a test's frame or an assertion's message."""
    place: str | None = None
    frames: Sequence[Frame] = ()
    for row in conversation.events:
        event = row.event
        if event.stops_program:
            place, frames = event.file, ()
        if event.action is Action.STACK and event.frames:
            frames = event.frames
        asked = _asked(event, "frame")
        index = asked if isinstance(asked, int) else 0
        file = next((f.file for f in frames if f.index == index), place)
        says = event.exception is not None and ASSERTION.search(event.exception.type) is not None
        yield row, says or (file or "") in tests


def _asked(event: DebugEvent, name: str) -> object:
    """An argument of an action, or None if it has none of that name."""
    try:
        arguments = json.loads(event.arguments)
    except ValueError:
        return None
    return arguments.get(name) if isinstance(arguments, dict) else None


def _answer_index(conversation: Conversation, row: EventRow) -> int:
    """The message that reports an event; at the earliest the one after its call's."""
    first = row.message_index + 1
    for index, later in enumerate(conversation.messages[first:], first):
        if later.message.role == "assistant":
            break
        if later.message.tool_call_id == row.tool_call_id:
            return index
    return first


def sets_unnamed_breakpoint(conversation: Conversation) -> bool:
    """Whether a breakpoint is in a file that nothing shown before it names."""
    shown: list[str] = []
    for message in (row.message for row in conversation.messages):
        if message.role in ("user", "tool"):
            shown.append(message.content)
        for call in message.tool_calls:
            given = arguments_object(call.arguments)
            points = given.get("breakpoints")
            for point in (given.get("location"), *(points if isinstance(points, list) else ())):
                for file, _, _ in places(str(point or "")):
                    if not any(same_file(file, name) for name in _named_files(shown)):
                        return True
    return False


def _named_files(texts: Sequence[str]) -> Iterator[str]:
    """The files that texts name, then those of the modules that they name."""
    for text in texts:
        yield from (found[0] for found in FILE.finditer(text))
    for text in texts:
        for module in MODULE.findall(text):
            stem = module.replace(".", "/")
            yield from (f"{stem}.py", f"{stem}.java")
