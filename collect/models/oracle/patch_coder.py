"""The oracle as Patch Coder: it can write patches, but has to be told which is right."""

from __future__ import annotations

import random

from collect.benchmarks.base import Instance
from collect.models.oracle.candidates import Candidate, choose, make_candidates
from collect.models.oracle.current_code import as_it_is, newest_code, program
from collect.models.oracle.scripted import Turns, say

NOT_YET = "Don't write a repaired program yet"
THOUGHT = "I can't tell from reading alone which of the lines that I suspect is the wrong one."


class OraclePatchCoder:
    """Chooses among the correct patch and wrong ones by the plan it is given, or by chance."""

    def __init__(self, instance: Instance, count: int, rng: random.Random) -> None:
        self._instance = instance
        self._count = count
        self._rng = rng
        self._reply = ""

    def turns(self, task: str) -> Turns:
        """The whole program, patched; where a message comes without one, a word on the last."""
        said = task
        while True:
            code = newest_code(said)
            if code:
                self._reply = self._patched(code, said)
            thinks = NOT_YET in said
            said = "".join((yield say(THOUGHT if thinks else self._reply)))

    def last_word(self) -> str:
        """The same program."""
        return self._reply

    def _patched(self, code: str, task: str) -> str:
        now = as_it_is(self._instance, code)
        candidates = make_candidates(now, self._count, self._rng)
        plan = task.rpartition("### Repair Plan")[2]
        return patched_reply(program(now), choose(plan, candidates, self._rng))


def patched_reply(code: str, chosen: Candidate) -> str:
    """A reply with the whole program, changed by a candidate."""
    for edit in chosen.edits:
        code = code.replace(edit.old, edit.new, 1)
    return f"I change {chosen.place}.\n\n```python\n{code.rstrip()}\n```"
