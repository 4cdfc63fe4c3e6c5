"""The oracle as AutoSD, LDB and SWE-Agent, which use the Patch Coder's own model throughout."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from collect.agents.baselines.autosd import DONE, NO_EXCEPTION, NOT_COVERED
from collect.agents.baselines.swe_agent import SUBMIT
from collect.benchmarks.base import Instance
from collect.code.patches import changed_ranges
from collect.code.source import changed_code, place_of, read_source
from collect.oracle.candidates import (
    OraclePatchCoder,
    Patching,
    as_it_is,
    correct_program,
    newest_code,
    numbered_code,
    program,
)
from collect.oracle.scripted import PHRASES, Turns, say
from collect.store.messages import Message
from sandbox.text import source_lines

LOG = "# Debugging Log"
"""First line of a debugging task; other tasks ask for a patch."""


class OracleAutoSD(OraclePatchCoder):
    """Debugs, or writes the patch from a debugging log, depending on the task.

    It reads the values on the buggy line, then tries the correct text. It knows the correct
    program, but states only values that its experiments showed.
    """

    _debugs = False

    def turns(self, task: str) -> Turns:
        self._debugs = task.startswith(LOG)
        return self._debug(numbered_code(task)) if self._debugs else super().turns(task)

    def last_word(self) -> str:
        return f"Conclusion: {DONE}" if self._debugs else super().last_word()

    def _debug(self, code: str) -> Turns:
        now = as_it_is(self._patching.instance, code)
        place = place_of(now.files, changed_code(now.files, now.gold_patch))
        where = f"{place.path}:{place.line}"
        source = read_source(place.path, program(now).encode())
        probes = source.probes(place.line, place.function)
        expression = probes[0] if probes else "locals()"
        opening = self._patching.rng.choice(PHRASES["autosd_opening"]).format(place=where)
        seen = yield say(
            f"Hypothesis: {opening}.\n"
            f"Prediction: When the program is stopped there, `{expression}` shows what the line "
            "works on, and that it does not make of it what the task asks.\n"
            f"Experiment: `b {where} ;; c ;; p {expression}`"
        )
        concluded = f"supported: the test comes to `{where}` with the value shown"
        if NOT_COVERED in "".join(seen):
            concluded = f"undecided: the test did not come to `{where}`"
        tried = yield say(
            f"Conclusion: The hypothesis is {concluded}.\n\n"
            f"Hypothesis: What `{where}` does is not what the task asks; with the text that I put "
            "in its place the program is correct.\n"
            "Prediction: If I change it, the test will pass.\n"
            f"Experiment: `{edit_script(now)}`"
        )
        passed = NO_EXCEPTION in "".join(tried)
        verdict = "supported: the test passed" if passed else "undecided: the test did not pass"
        yield say(f"Conclusion: The hypothesis is {verdict} with the edit. {DONE}")


def edit_script(now: Instance) -> str:
    """An edit script that replaces the buggy lines with the correct ones."""
    buggy, correct = source_lines(program(now)), source_lines(correct_program(now))
    edits = []
    for before, after in changed_ranges(now.gold_patch):
        old = buggy[before.start - 1 : before.end]
        new = correct[after.start - 1 : after.end] if not after.insertion else []
        if before.insertion:
            new = [*new, *old] if after.start == 1 else [old[0], *new, *old[1:]]
        # A blank line has no text to replace, so add a line that has some.
        for line in buggy[before.end :] if not "".join(old).strip() else []:
            old, new = [*old, line], [*new, line]
            if line.strip():
                break
        quoted = [json.dumps("\n".join(lines), ensure_ascii=False) for lines in (old, new)]
        edits.append(f"REPLACE({before.start}, {', '.join(quoted)})")
    return " AND ".join([*edits, "RUN"])


BLOCK = re.compile(r"^\[BLOCK-(\d+)\]\n(.*?)(?=^\[BLOCK-|^\.\.\. \(|\Z)", re.MULTILINE | re.DOTALL)
VALUES = re.compile(r"^[ \t]*# (.+)$", re.MULTILINE)
TRACE = "## Execution Trace\n"


class OracleLdb(OraclePatchCoder):
    """One conversation over all patch attempts. It knows where the correct program differs and
    judges the blocks by that, but chooses the patch by its own verdicts.
    """

    def turns(self, task: str) -> Turns:
        """For each attempt, the verdicts if there is a trace, then the program."""
        said = task
        while True:
            before, _, trace = said.partition(TRACE)
            code = newest_code(before)
            now = as_it_is(self._patching.instance, code)
            verdicts = "\n".join(json.dumps(each) for each in _verdicts(now, trace))
            if trace:
                yield say(verdicts)
            self._reply = self._patching.reply(code, verdicts)
            said = "".join((yield say(self._reply)))


def _verdicts(now: Instance, trace: str) -> Iterator[dict[str, object]]:
    """One JSON object per block."""
    place = place_of(now.files, changed_code(now.files, now.gold_patch))
    line = source_lines(program(now))[place.line - 1].strip()
    for number, text in BLOCK.findall(trace):
        has_it = line in (each.strip() for each in source_lines(text))
        explanation = "What it does with these values is what the task asks."
        if has_it:
            seen = " then ".join(f"`{values}`" for values in VALUES.findall(text))
            where = f"`{line}` at {place.path}:{place.line}"
            explanation = f"{where} does not do what the task asks: the values are {seen}."
        yield {"block": f"BLOCK-{number}", "correct": not has_it, "explanation": explanation}


EDIT = """\
python - <<'EOF'
from pathlib import Path

path = Path({path!r})
code = path.read_text()
{edits}
path.write_text(code)
EOF"""
REPLACE = "code = code.replace({old!r}, {new!r}, 1)"


class OracleSweAgent:
    """Look, run the test, edit, run the test, submit; repeat after each failed attempt. It knows
    the shell, but picks the right candidate patch only by chance.
    """

    def __init__(self, patching: Patching) -> None:
        self._patching = patching

    def turns(self, task: str) -> Turns:
        instance = self._patching.instance
        path = instance.solution
        run = f"python -m pytest -q {instance.public_tests[0]}"
        while True:
            now = as_it_is(instance, newest_code(task) or program(instance))
            chosen = self._patching.choose(now, hint="")
            replaces = [REPLACE.format(old=edit.old, new=edit.new) for edit in chosen.edits]
            edit = EDIT.format(path=path, edits="\n".join(replaces))
            yield _act("Let me look at the program first.", f"nl -ba {path}")
            yield _act("Now I run the test, to see it fail.", run)
            yield _act(f"I suspect {chosen.place}, and change it.", edit)
            yield _act("Does the test pass now?", run)
            task = "".join((yield _act("I submit the program as it is now.", SUBMIT)))

    def last_word(self) -> str:
        return _act("I submit the program as it is now.", SUBMIT).content


def _act(thought: str, command: str) -> Message:
    return say(f"THOUGHT: {thought}\n\n```bash\n{command}\n```")
