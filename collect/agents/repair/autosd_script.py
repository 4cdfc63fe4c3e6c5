"""AutoSD's experiments, read by a real parser: debugger scripts and edit scripts.

A debugger script is a line of PDB commands, `b 12 ;; c ;; p total`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from collect.agents.repair.autosd_edits import (
    EditScript,
    UnreadableExperiment,
    is_edit_script,
    parse_edits,
    quoted,
)
from sandbox.debugger import Action, BreakpointRequest

BREAK = ("b", "break", "tbreak")
PRINT = ("p", "pp", "print")
CONTINUE = ("c", "cont", "continue")
STEPS = {
    "n": Action.STEP_OVER,
    "next": Action.STEP_OVER,
    "s": Action.STEP_INTO,
    "step": Action.STEP_INTO,
    "r": Action.STEP_OUT,
    "return": Action.STEP_OUT,
}
ENDS = ("q", "quit", "exit")
HOW_TO = (
    "An experiment is either a debugger script such as `b 12 ;; c ;; p total`, or an edit script "
    'such as `REPLACE(12, "c>b", "c>=b") AND RUN`.'
)
MAX_SCRIPT = 50_000
"""Characters."""
WORD = re.compile(r"(?:\(?pdb\)\s*)?([A-Za-z]+)(?![\w.])(.*)", re.DOTALL | re.IGNORECASE)
PLACE = re.compile(r"(?:(?P<file>[^\s:,]+):|line\s+)?(?P<line>[0-9]{1,9})$")
FUNCTION = re.compile(r"[A-Za-z_][\w.:/]*")


@dataclass(frozen=True)
class Print:
    """Show the value of an expression where the program stands."""

    expression: str


Command = Print | BreakpointRequest | Action


@dataclass(frozen=True)
class DebuggerScript:
    """Breakpoints, and what to do where they are hit."""

    breakpoints: tuple[BreakpointRequest, ...]
    at_hits: tuple[tuple[Command, ...], ...]
    """By hit: what to do there. The last entry is for all further ones as well."""


def parse_experiment(text: str) -> DebuggerScript | EditScript:
    """Read an experiment. Raises UnreadableExperiment."""
    text = text.strip().strip("`").strip()
    if not text:
        raise UnreadableExperiment(f"The experiment is empty. {HOW_TO}")
    if len(text) > MAX_SCRIPT:
        raise UnreadableExperiment(
            f"The experiment has more than {MAX_SCRIPT} characters. {HOW_TO}"
        )
    return parse_edits(text) if is_edit_script(text) else _debugger_script(text)


def _debugger_script(text: str) -> DebuggerScript:
    breakpoints: list[BreakpointRequest] = []
    hits: list[list[Command]] = []
    for piece in _pieces(text):
        command = _command(piece)
        if command is Action.CLOSE:
            break
        if isinstance(command, BreakpointRequest) and not hits:
            breakpoints.append(command)
        elif command is Action.CONTINUE:
            hits.append([])
        elif hits:
            hits[-1].append(command)
        else:
            # What is to be done at a breakpoint is clear, also where nothing continues to it.
            hits.append([command])
    if not breakpoints:
        raise UnreadableExperiment(f"The script sets no breakpoint before it goes on. {HOW_TO}")
    if not any(isinstance(command, Print) for hit in hits for command in hit):
        raise UnreadableExperiment(f"The script prints nothing. {HOW_TO}")
    return DebuggerScript(tuple(breakpoints), tuple(map(tuple, hits)))


def _command(piece: str) -> Command:
    mark = WORD.match(piece)
    word, rest = (mark[1].lower(), mark[2].strip()) if mark else ("", "")
    if word in BREAK and rest:
        return _breakpoint(rest, temporary=word == "tbreak")
    if word in PRINT and rest:
        return Print(rest)
    if word in CONTINUE and not rest:
        return Action.CONTINUE
    if word in STEPS and not rest:
        return STEPS[word]
    if word in ENDS and not rest:
        return Action.CLOSE
    raise UnreadableExperiment(f"`{quoted(piece)}` is not a command of a debugger script. {HOW_TO}")


def _breakpoint(text: str, temporary: bool) -> BreakpointRequest:
    """`12`, `solution.py:12` or a function's name, each with a condition after a comma."""
    where, _, condition = (part.strip() for part in text.partition(","))
    request = BreakpointRequest(condition=condition or None, temporary=temporary)
    place = PLACE.match(where)
    if place:
        return replace(request, file=place["file"], line=int(place["line"]))
    name = where.removesuffix("()")
    if not FUNCTION.fullmatch(name):
        raise UnreadableExperiment(f"`b {quoted(text)}` names no line to stop at. {HOW_TO}")
    return replace(request, function=name)


def _pieces(text: str) -> list[str]:
    """The commands: split at `;`, `;;` and line ends, but not within quotes or brackets."""
    pieces, quote, depth, start, escaped = list[str](), "", 0, 0, False
    for index, character in enumerate(text):
        if quote:
            quote = "" if character == quote and not escaped else quote
            escaped = character == "\\" and not escaped
        elif character in "\"'":
            quote = character
        elif character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif character in ";\n" and depth <= 0:
            pieces.append(text[start:index])
            start = index + 1
    # Quotes or brackets that never close hide no separator.
    pieces = re.split(r"[;\n]", text) if quote or depth > 0 else [*pieces, text[start:]]
    return [piece.strip() for piece in pieces if piece.strip()]
