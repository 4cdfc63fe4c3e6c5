"""What pdb prints, read: prompts, stops, stacks, breakpoints. CPython 3.8 to 3.14."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sandbox.debugger.prompts import Prompt

# A recursive `debug` command adds brackets, `commands` has a prompt of its own.
PROMPT = re.compile(r"(?:\(+Pdb\)+|\(com\)|(?:^|\n|\.\.\.   )\.\.\.  ) $")
PASSED = re.compile(r"(?:^|\n)\(+Pdb\)+ ")
"""A prompt that something was printed behind."""
CONTINUED = re.compile(r"(?:^|\n|\.\.\.   )\.\.\.   $")
"""The prompt for the rest of a statement, from 3.13 on."""
PLACE = (
    r"> (?P<file>\S[^\n]*)\((?P<line>\d+)\)(?P<function>[\w<>.]+)\(\)(?:->(?P<returned>[^\n]*))?"
)
STOP = re.compile(rf"^{PLACE}\n(?:-> [^\n]*\n)?\(+Pdb\)+ ", re.M)
ANY_STOP = re.compile(rf"^{PLACE}$", re.M)
COMPLAINT = re.compile(r"(?:^|\n)\*\*\* [^\n]*\n\(+Pdb\)+ $")
FRAME = re.compile(
    r"^(?P<mark>[> ]) (?P<file>\S[^\n]*)\((?P<line>\d+)\)(?P<function>[\w<>.]+)\(\)(?:->[^\n]*)?\n"
    r"(?:-> (?P<source>[^\n]*)$)?",
    re.M,
)
SET = re.compile(r"^Breakpoint (?P<number>\d+) at (?P<file>.+):(?P<line>\d+)$", re.M)
DELETED = re.compile(r"^Deleted breakpoint (?P<number>\d+)\b.*$", re.M)
LISTED = re.compile(r"^(?P<number>\d+) +breakpoint .*\n(?P<details>(?:\t.*\n)*)", re.M)
HITS = re.compile(r"already hit (\d+) time")
EXITED = re.compile(r"The program exited via sys\.exit\(\)\. Exit status: *(?P<status>.*)")
FINISHED = "The program finished and will be restarted"
POST_MORTEM = re.compile(
    r"^Uncaught exception\. Entering post mortem debugging$|^>+ (?:entering PDB|PDB post_mortem)",
    re.M,
)
INTERRUPTED = "Program interrupted. (Use 'cont' to resume)."
ERROR_LINE = re.compile(r"^(?P<type>[A-Za-z_][\w.]*)(?:: (?P<message>.*))?$")
RAISED_IN_TEST = re.compile(r"^\S+:\d+: (?P<type>[A-Za-z_][\w.]*)$", re.M)
EXPLAINED = re.compile(r"^E {3,}(?P<message>\S.*)$", re.M)
OWN_LINES = re.compile(
    r"^(?:-> .*|--Return--|--Call--|Deleted breakpoint \d+.*|Program interrupted\. .*|"
    r"Uncaught exception\. Entering post mortem debugging|The program finished and will .*|"
    r"Running 'cont' or 'step' will restart the program|The program exited via sys\.exit\(\).*|"
    r"\(+Pdb\)+ ?)$\n?",
    re.M,
)
PYTEST_CODES = ("OK", "TESTS_FAILED", "INTERRUPTED", "INTERNAL_ERROR", "USAGE_ERROR", "NO_TESTS")
RUN_COMMANDS = frozenset(
    ["c", "cont", "continue", "n", "next", "s", "step", "r", "return", "unt", "until"]
)


@dataclass(frozen=True)
class Stop:
    """Where pdb says the program is."""

    file: str
    line: int
    function: str
    returned: str | None
    """What the function returns, where it is about to."""


@dataclass(frozen=True)
class StackFrame:
    """One frame of `where`."""

    file: str
    line: int
    function: str
    source: str
    current: bool


def recognise(text: str, running: bool) -> Prompt:
    """Whether pdb waits for a command. A program that was set running stops at a place."""
    stops = list(STOP.finditer(text))
    if not PROMPT.search(text):
        seen = stops or (not running and PASSED.search(text))
        return Prompt.PASSED if seen else Prompt.NONE
    if running and not (stops and stops[-1].end() == len(text)) and not COMPLAINT.search(text):
        return Prompt.PERHAPS
    return Prompt.SURE


def without_prompt(text: str) -> str:
    """A reply up to the prompt that ends it."""
    return PROMPT.sub("", text)


def last_stop(text: str) -> Stop | None:
    """The last place that pdb named."""
    places = list(ANY_STOP.finditer(text))
    if not places:
        return None
    found = places[-1]
    return Stop(found["file"], int(found["line"]), found["function"], found["returned"])


def stack(text: str) -> list[StackFrame]:
    """The frames of `where`, innermost first."""
    frames = [
        StackFrame(
            match["file"],
            int(match["line"]),
            match["function"],
            (match["source"] or "").strip(),
            match["mark"] == ">",
        )
        for match in FRAME.finditer(text)
    ]
    return frames[::-1]


def exit_code(text: str) -> int | None:
    """The exit code of a program that pdb says has ended; None where it says nothing of it."""
    match = EXITED.search(text)
    if match is None:
        return 0 if FINISHED in text else None
    status = match["status"].strip()
    name = status.removeprefix("ExitCode.")
    for code, known in enumerate(PYTEST_CODES):
        if name.startswith(known):
            return code
    if re.fullmatch(r"-?\d+", status):
        return int(status) & 255
    return 0 if status in ("None", "False", "") else 1


def post_mortem_exception(text: str) -> tuple[str, str] | None:
    """The exception that ended the program or, with pytest, the test: its type and message."""
    if "Uncaught exception. Entering" in text:
        before = text.partition("Uncaught exception. Entering")[0].rstrip().splitlines()
        match = ERROR_LINE.match(before[-1]) if before else None
        return (match["type"], match["message"] or "") if match else None
    raised = RAISED_IN_TEST.findall(text)
    if not raised:
        return None
    explained = EXPLAINED.search(text)
    message = explained["message"] if explained else ""
    return raised[-1], message.removeprefix(f"{raised[-1]}: ")


def line_before_stop(text: str) -> str:
    """The line above the last place: pdb puts an exception that was just raised there."""
    places = list(ANY_STOP.finditer(text))
    if not places:
        return ""
    lines = text[: places[-1].start()].rstrip("\n").splitlines()
    return lines[-1] if lines else ""


def program_text(text: str) -> str:
    """A reply without the lines that pdb is known to print."""
    written = OWN_LINES.sub("", ANY_STOP.sub("", without_prompt(text)))
    return written.strip("\n") and written.lstrip("\n")
