"""The oracle as AutoSD: it looks at what the buggy line works on, then tries the correct text.

It knows the correct program; what it says of values is only what its experiments showed.
"""

from __future__ import annotations

import json

from collect.agents.repair.autosd_experiment import NO_EXCEPTION
from collect.agents.repair.autosd_form import DONE
from collect.agents.repair.autosd_run import NOT_COVERED
from collect.benchmarks.base import Instance
from collect.models.oracle.current_code import correct_program, numbered_code, program
from collect.models.oracle.patch_coder import OraclePatchCoder
from collect.models.oracle.patching import Patching
from collect.models.oracle.python_source import PythonSource
from collect.models.oracle.scripted import Turns, say
from collect.models.oracle.source import Place, place_of
from collect.patches import changed_lines, reverse_patch
from sandbox.text import source_lines

LOG = "# Debugging Log"
"""How the task of a debugging conversation begins; the other kind asks for a patch."""
ALL_NAMES = "locals()"
OPENINGS = (
    "Given that the failing test goes through `{place}`, I think that the line there is to blame",
    "The task and the error point at `{place}`: what that line does is probably wrong",
    "I suspect `{place}`, for what the test expects depends on it",
)


class OracleAutoSD:
    """Debugs, or writes the patch by a debugging log, as it is asked."""

    def __init__(self, patching: Patching) -> None:
        self._patching = patching
        self._coder = OraclePatchCoder(patching)
        self._debugs = False

    def turns(self, task: str) -> Turns:
        """Two experiments and the conclusion, or the patched program."""
        self._debugs = task.startswith(LOG)
        return self._debug(numbered_code(task)) if self._debugs else self._coder.turns(task)

    def last_word(self) -> str:
        """The end of the debugging, or the patched program."""
        return f"Conclusion: {DONE}" if self._debugs else self._coder.last_word()

    def _debug(self, code: str) -> Turns:
        now = self._patching.now(code)
        place = place_of(now.files, changed_lines(now.gold_patch))
        where = f"{place.path}:{place.line}"
        expression = _looked_at(now, place)
        seen = yield say(
            f"Hypothesis: {self._patching.rng.choice(OPENINGS).format(place=where)}.\n"
            f"Prediction: When the program is stopped there, `{expression}` shows what the line "
            "works on, and that it does not make of it what the task asks.\n"
            f"Experiment: `b {where} ;; c ;; p {expression}`"
        )
        tried = yield say(
            f"Conclusion: {_concluded(seen, where)}\n\n"
            f"Hypothesis: What `{where}` does is not what the task asks; with the text that I put "
            "in its place the program is correct.\n"
            "Prediction: If I change it, the test will pass.\n"
            f"Experiment: `{edit_script(now)}`"
        )
        passed = NO_EXCEPTION in "".join(tried)
        verdict = "supported: the test passed" if passed else "undecided: the test did not pass"
        yield say(f"Conclusion: The hypothesis is {verdict} with the edit. {DONE}")


def _concluded(seen: list[str], where: str) -> str:
    observed = "".join(seen)
    if NOT_COVERED in observed:
        return f"The hypothesis is undecided: the test did not come to `{where}`."
    return f"The hypothesis is supported: the test comes to `{where}` with the value shown."


def _looked_at(now: Instance, place: Place) -> str:
    source = PythonSource.read(program(now).encode())
    probes = source.probes(place.line, place.function) if source else []
    return probes[0] if probes else ALL_NAMES


def edit_script(now: Instance) -> str:
    """The correct program's lines in place of the buggy one's, as an edit script."""
    buggy, correct = source_lines(program(now)), source_lines(correct_program(now))
    edits = []
    ranges, targets = changed_lines(now.gold_patch), changed_lines(reverse_patch(now.gold_patch))
    for before, after in zip(ranges, targets, strict=True):
        old = buggy[before.start - 1 : before.end]
        new = correct[after.start - 1 : after.end] if not after.insertion else []
        if before.insertion:
            new = [*new, *old] if after.start == 1 else [old[0], *new, *old[1:]]
        # Text is replaced, and a blank line has none: the next one that has some comes along.
        for line in buggy[before.end :] if not "".join(old).strip() else []:
            old, new = [*old, line], [*new, line]
            if line.strip():
                break
        edits.append(f"REPLACE({before.start}, {_quoted(old)}, {_quoted(new)})")
    return " AND ".join([*edits, "RUN"])


def _quoted(lines: list[str]) -> str:
    return json.dumps("\n".join(lines), ensure_ascii=False)
