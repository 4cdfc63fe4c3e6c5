"""AutoSD's edit scripts: `REPLACE(12, "c>b", "c>=b") AND REPLACE(14, "x", "y") AND RUN`.

Models quote carelessly, so a quoted text can be read in more than one way; the one that the
program holds, and that leaves it a program, is meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from collect.agents.repair.code_blocks import syntax_problem
from collect.syntax import literal
from sandbox.text import source_lines

# With its number, and after no dot: the texts to replace may hold calls of `str.replace`.
REPLACE = re.compile(
    r"(?<![.\w])REPLACE\s*\(\s*(?:line(?:no)?\s*=?\s*)?(\d+)\s*,\s*", re.IGNORECASE
)
JOINED = r"(?:AND|;;?|,|&&?)?\s*"
BETWEEN = re.compile(rf",?\s*\)\s*{JOINED}$", re.IGNORECASE)
AND_RUN = re.compile(rf",?\s*\)\s*{JOINED}(?:RUN\s*(?:\(\s*\))?)?\s*[;.]?$", re.IGNORECASE)
COMMA = re.compile(r"\s*,\s*(?=(?:new\s*=\s*)?[\"'])")
NAME = re.compile(r"^(?:old|new)\s*=\s*")
QUOTES = ('"""', "'''", '"', "'")
ESCAPES = (("", ""), ('""', '"'), ('\\"', '"'), ("\\'", "'"), ("\\n", "\n"))
"""What a text that Python does not read as it was meant may hold, and what it stands for."""

MAX_COMMAS = 50
"""At which the two texts of a replacement may part."""
MAX_QUOTED = 200
"""Characters of a script that a message repeats."""


class UnreadableExperiment(Exception):
    """A script that can't be carried out; the message tells the model why."""


@dataclass(frozen=True)
class Replacement:
    """Text to be replaced on one line, or from that line on."""

    line: int
    readings: tuple[tuple[str, str], ...]
    """Old and new text, in each way in which the quotes can be read."""


@dataclass(frozen=True)
class EditScript:
    """Replacements to be made together, before the test is run. Lines count as in the original."""

    replacements: tuple[Replacement, ...]


def quoted(text: str) -> str:
    """What a message repeats of a script."""
    return text if len(text) <= MAX_QUOTED else f"{text[:MAX_QUOTED]}..."


def is_edit_script(text: str) -> bool:
    """Whether a script is to change the program."""
    return REPLACE.search(text) is not None


def parse_edits(text: str) -> EditScript:
    """Read an edit script. Raises UnreadableExperiment."""
    starts = list(REPLACE.finditer(text))
    ends = [*(start.start() for start in starts[1:]), len(text)]
    closings = [BETWEEN] * (len(starts) - 1) + [AND_RUN]
    return EditScript(
        tuple(
            Replacement(int(start[1]), _readings(start[0], text[start.end() : end], closing))
            for start, end, closing in zip(starts, ends, closings, strict=True)
        )
    )


def apply_edits(code: str, script: EditScript) -> str:
    """The program with all replacements made.

    Raises UnreadableExperiment where the program does not hold what is to be replaced.
    """
    lines = source_lines(code, keepends=True)
    for edit in script.replacements:
        if not 1 <= edit.line <= len(lines):
            raise UnreadableExperiment(
                f"There is no line {edit.line}: the program has {len(lines)} lines."
            )
        lines = _edited(lines, edit)
    return "".join(lines)


def _edited(lines: list[str], edit: Replacement) -> list[str]:
    """Each entry stays the line that it was, whatever its text becomes."""
    results = [
        result for old, new in edit.readings if (result := _replaced(lines, edit.line, old, new))
    ]
    if not results:
        raise UnreadableExperiment(
            f"`{quoted(edit.readings[0][0])}` was not found in line {edit.line}, which reads "
            f"`{quoted(lines[edit.line - 1].rstrip())}`."
        )
    valid = (result for result in results if syntax_problem("".join(result)) is None)
    return next(valid, results[0])


def _replaced(lines: list[str], line: int, old: str, new: str) -> list[str] | None:
    """None where the line does not hold the old text, nor begins it."""
    first = line - 1
    covered = lines[first : line + old.count("\n")]
    text = "".join(covered)
    if not old or old not in text:
        return None
    changed = [text.replace(old, new), *[""] * (len(covered) - 1)]
    return [*lines[:first], *changed, *lines[first + len(covered) :]]


def _readings(opening: str, rest: str, closing: re.Pattern[str]) -> tuple[tuple[str, str], ...]:
    """What a replacement's two texts can mean."""
    rest = rest.strip()
    end = closing.search(rest)
    found = list(_pairs(rest[: end.start()])) if end else []
    if not found:
        raise UnreadableExperiment(
            f"`{quoted(opening + rest)}` could not be read; give REPLACE a line number and two "
            'quoted texts, the old and the new one: REPLACE(12, "c>b", "c>=b") AND RUN.'
        )
    return tuple(dict.fromkeys(found))


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    """Two quoted texts: as Python reads them, and as they stand between their quotes."""
    try:
        value: object = literal(f"({text})")
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        value = None
    if isinstance(value, tuple) and [type(item) for item in value] == [str, str]:
        yield value[0], value[1]
    for comma in islice(COMMA.finditer(text), MAX_COMMAS):
        old, new = _inside(text[: comma.start()]), _inside(text[comma.end() :])
        if old is not None and new is not None:
            yield from ((old.replace(*each), new.replace(*each)) for each in ESCAPES)


def _inside(text: str) -> str | None:
    """What stands between the outermost quotes."""
    text = NAME.sub("", text.strip())
    for quotes in QUOTES:
        if text.startswith(quotes) and text.endswith(quotes) and len(text) >= 2 * len(quotes):
            return text[len(quotes) : -len(quotes)]
    return None
