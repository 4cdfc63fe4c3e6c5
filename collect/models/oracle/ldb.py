"""The oracle in LDB: it knows where the correct program differs, and judges the trace's blocks by
that; which patch it then takes, it decides by its own verdicts."""

from __future__ import annotations

import json
import re

from collect.benchmarks.base import Instance
from collect.models.oracle.current_code import newest_code, program
from collect.models.oracle.patching import Patching
from collect.models.oracle.scripted import Turns, say
from collect.models.oracle.source import Place, place_of
from collect.patches import changed_lines
from sandbox.text import source_lines

BLOCK = re.compile(r"^\[BLOCK-(\d+)\]\n(.*?)(?=^\[BLOCK-|^\.\.\. \(|\Z)", re.MULTILINE | re.DOTALL)
VALUES = re.compile(r"^\s*# (.+)$", re.MULTILINE)
TRACE = "## Execution Trace\n"


class OracleLdb:
    """One conversation over all patch attempts."""

    def __init__(self, patching: Patching) -> None:
        self._patching = patching
        self._reply = ""

    def turns(self, task: str) -> Turns:
        """The verdicts where there is a trace, then the program, for each attempt."""
        said = task
        while True:
            before, _, trace = said.partition(TRACE)
            now = self._patching.now(newest_code(before))
            verdicts = self._verdicts(now, trace)
            if trace:
                yield say(verdicts)
            self._reply = self._patching.reply(now, verdicts)
            said = "".join((yield say(self._reply)))

    def last_word(self) -> str:
        """The same program."""
        return self._reply

    def _verdicts(self, now: Instance, trace: str) -> str:
        """One JSON object a block."""
        place = place_of(now.files, changed_lines(now.gold_patch))
        line = source_lines(program(now))[place.line - 1].strip()
        return "\n".join(
            json.dumps(_verdict(number, text, line, place)) for number, text in BLOCK.findall(trace)
        )


def _verdict(number: str, text: str, line: str, place: Place) -> dict[str, object]:
    has_it = line in (each.strip() for each in source_lines(text))
    explanation = "What it does with these values is what the task asks."
    if has_it:
        seen = " then ".join(f"`{values}`" for values in VALUES.findall(text))
        explanation = (
            f"`{line}` at {place.path}:{place.line} does not do what the task asks: the values "
            f"are {seen}."
        )
    return {"block": f"BLOCK-{number}", "correct": not has_it, "explanation": explanation}
