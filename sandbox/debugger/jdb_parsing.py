"""What jdb prints, read: prompts, events, stacks, values. JDK 8 to 21."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sandbox.debugger.prompts import Prompt

THREAD_PROMPT = re.compile(r"(?:^|\n|> )(?P<thread>[^\n]*)\[\d+\] $")
THREAD_NAME = re.compile(r"""[^\s"=:]+(?: [^\s"=:]+)*""")
"""What the text before a frame's number is in all but odd programs. In values, sources and stacks
`[1] ` stands behind other text."""
BARE_PROMPT = re.compile(r"(?:^|\n)(?:> )+$")
NUMBER = r"[\d,.\u00a0\u202f]+"
"""jdb groups the digits of numbers from 1000 on."""
EVENT = re.compile(
    r"(?P<kind>Breakpoint hit|Step completed|Exception occurred|Field \(.*?\) is .*?):?"
    r"(?: (?P<exception>[\w.$]+) \((?P<caught>[^\n]*?)\))?[ ,]*"
    rf'"thread=(?P<thread>[^"\n]*)", (?P<function>[^\n]+?)\(\), line=(?P<line>{NUMBER}) bci=',
)
AFTER_EVENT = re.compile(r"[^\n]*\n(?:[^\n]*\n){0,3}?[^\n]*\[\d+\] $")
STARTED = re.compile(r"VM Started:[^\n]*\n+[^\n]*\[\d+\] $")
NOT_RUNNING = re.compile(
    r"(?:Nothing suspended\.|Command '.*' is not valid until|Unrecognized command|No thread)"
)
EXITED = re.compile(r"The application (?:exited|has been disconnected)")
FRAME = re.compile(
    rf"^ *\[(?P<index>\d+)\] (?P<function>\S+) \((?P<file>[^:)]*)(?::(?P<line>{NUMBER}))?\)", re.M
)
THREAD_HEADER = re.compile(r"^(?P<name>\S.*):$", re.M)
THREAD_LINE = re.compile(
    r"^ +\((?P<type>[^)]*)\)(?P<id>0x[\da-f]+|\d+) +(?P<name>.+?) {1,}(?P<doing>"
    r"running|sleeping|cond\. waiting|waiting in a monitor|unknown|zombie|not started).*$",
    re.M,
)
GROUP = re.compile(r"^Group (?P<name>.*):$", re.M)
BOUND = re.compile(r"Set deferred breakpoint (?P<spec>\S+(?:\([^)\n]*\))?)")
UNBOUND = re.compile(
    r"Unable to set (?:deferred )?breakpoint (?P<spec>\S+(?:\([^)\n]*\))?) : (?P<why>[^\n]*)"
)
FAILURE = re.compile(
    r"^(?:(?:com\.sun|java|javax|jdk|sun)\.[\w.$]+(?:: ?(?P<message>.*))?|"
    r"Exception in expression: .*|operation not yet supported)$",
    re.M,
)
LEXICAL_ERROR = re.compile(
    r'Exception in thread "asynchronous jdb command" \S+Error: (?P<message>.*)'
)
"""jdb's own thread dies of it, and prints no prompt behind it."""
UNREADABLE = re.compile(r"Encountered |Lexical error|operation not yet supported")
"""Begins the failure of what is no expression in jdb's language, wherever it is evaluated."""
VARIABLE = re.compile(r"^(?P<name>[\w$]+) = (?P<text>.*)$")
FIELD = re.compile(r"^ {4}(?P<name>[\w.$]+): (?P<text>.*)$")
INSTANCE = re.compile(r"^instance of (?P<type>[\w.$\[\]]+?)(?:\[\d+\])?\s*\(id=\d+\)")
OWN_LINES = re.compile(
    r"(?:Set deferred |Unable to set |Stopping due to deferred |All threads suspended\.|"
    r"The application (?:exited|has been disconnected)|Group .*:$|  \(.*\)(?:0x)?[\da-f]+ )"
)
SOURCE_LINE = re.compile(rf"(?:{NUMBER} .*)?$")
RUN_COMMANDS = frozenset(["cont", "step", "next", "stepi", "resume", "run"])


@dataclass(frozen=True)
class Event:
    """Why and where jdb says that the program stopped."""

    kind: str
    thread: str
    function: str
    """The class's binary name and the method."""
    line: int
    exception: str | None
    uncaught: bool


@dataclass(frozen=True)
class StackFrame:
    """One frame of `where`, with how often `up` leads to it."""

    up: int
    function: str
    file: str
    line: int


def recognise(text: str, running: bool) -> Prompt:
    """Whether jdb waits for a command and, where the program was set running, has stopped."""
    thread = THREAD_PROMPT.search(text)
    if thread is not None:
        named = THREAD_NAME.fullmatch(thread["thread"])
        return Prompt.SURE if named and (not running or _stopped(text)) else Prompt.PERHAPS
    if BARE_PROMPT.search(text) and (not running or NOT_RUNNING.search(text)):
        return Prompt.SURE
    if running:
        return Prompt.NONE
    return Prompt.PASSED if LEXICAL_ERROR.search(text) else Prompt.NONE


def _stopped(text: str) -> bool:
    """Whether a text that ends with a prompt tells of a stop right before it."""
    events = list(EVENT.finditer(text))
    told = events and AFTER_EVENT.fullmatch(text[events[-1].end() :])
    return bool(told or STARTED.search(text))


def without_prompt(text: str) -> str:
    """A reply up to the prompt that ends it."""
    found = THREAD_PROMPT.search(text)
    return BARE_PROMPT.sub("", text[: found.start("thread")] if found else text)


def number(text: str) -> int:
    return int(re.sub(r"\D", "", text))


def last_event(text: str) -> Event | None:
    """The last stop that a reply tells of."""
    events = list(EVENT.finditer(text))
    if not events:
        return None
    found = events[-1]
    return Event(
        found["kind"],
        found["thread"],
        found["function"],
        number(found["line"]),
        found["exception"],
        found["caught"] == "uncaught",
    )


def stack(text: str) -> list[StackFrame]:
    """The frames of `where`, innermost first."""
    return [
        StackFrame(
            int(match["index"]) - 1,
            match["function"],
            match["file"],
            number(match["line"]) if match["line"] else 0,
        )
        for match in FRAME.finditer(text)
    ]


def stacks(text: str) -> list[tuple[str, list[StackFrame]]]:
    """The threads of `where all`."""
    headers = list(THREAD_HEADER.finditer(text))
    ends = [header.start() for header in headers[1:]] + [len(text)]
    return [
        (header["name"], stack(text[header.end() : end]))
        for header, end in zip(headers, ends, strict=True)
    ]


def threads(text: str) -> list[tuple[str, str, str, str]]:
    """The group, identifier, name and doing of each thread of `threads`."""
    found = []
    group = ""
    for line in text.splitlines():
        header = GROUP.match(line)
        match = THREAD_LINE.match(line)
        if header:
            group = header["name"]
        elif match:
            found.append((group, match["id"], match["name"].strip(), match["doing"]))
    return found


def program_thread(known: list[tuple[str, str, str, str]]) -> str | None:
    """The thread to look at: the main one, or else the first that is not the JVM's own."""
    own = ("system", "InnocuousThreadGroup")
    program = [(name, number) for group, number, name, _ in known if group not in own]
    program.sort(key=lambda thread: thread[0] != "main")
    return program[0][1] if program else None


def variables(text: str) -> list[tuple[str, str]]:
    """The names and values of `locals`; a value may run over lines."""
    return _items(text, VARIABLE)


def fields(text: str) -> list[tuple[str, str]]:
    """The names and values inside the braces of `dump`; empty where it gave no object."""
    inside = text.partition(" = {\n")[2].rpartition("}")[0]
    return _items(inside, FIELD)


def _items(text: str, pattern: re.Pattern[str]) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for line in text.splitlines():
        match = pattern.match(line)
        if match:
            found.append((match["name"], match["text"]))
        elif found and line not in ("Local variables:", "Method arguments:"):
            found[-1] = (found[-1][0], f"{found[-1][1]}\n{line}")
    return found


def value_type(text: str) -> str:
    """The type of a rendered value; empty where its text does not tell."""
    match = INSTANCE.match(text)
    if match:
        return match["type"]
    if text.startswith('"'):
        return "String"
    return "boolean" if text in ("true", "false") else ""


def program_text(text: str) -> str:
    """A reply without the lines that jdb is known to print."""
    kept = []
    after_event = False
    for whole in text.splitlines(keepends=True):
        line = whole.removeprefix("> ")
        if EVENT.search(line):
            after_event = True
        elif not OWN_LINES.match(line) and not (after_event and SOURCE_LINE.match(line)):
            after_event = False
            kept.append(line)
    return "".join(kept).strip("\n")


def failure(text: str) -> str | None:
    """The error that a reply holds: jdb flags none, and goes on to print ` EXPRESSION = null`."""
    before, _, last = text.rstrip().rpartition("\n")
    match = LEXICAL_ERROR.search(text)
    if match is None and last.endswith(" = null"):
        match = FAILURE.search(before)
    return (match["message"] or match.group()) if match else None
