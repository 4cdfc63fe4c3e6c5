"""How the oracle patches a program of one file: it can write patches, but not tell which is right.

Its systems differ in what they know when they choose.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, replace

from collect.benchmarks.base import Instance
from collect.code.patches import apply_patch, diff_trees
from collect.errors import ModelFailure
from collect.oracle.candidates import Candidate, choose, make_candidates
from collect.oracle.scripted import Turns, say

# The program as it is in the middle of a repair, against the correct one.


FENCED = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"^ *\d+  ?", re.MULTILINE)


def numbered_code(task: str) -> str:
    """The program in an Inspector's task, without its line numbers."""
    # A coding task may hold blocks of code itself.
    found = FENCED.search(task.rpartition("## Buggy Code\n")[2])
    return NUMBER.sub("", found[1]) if found else ""


def newest_code(task: str) -> str:
    """The program in a Patch Coder's task: the last block, for versions come in order."""
    blocks = FENCED.findall(task)
    return str(blocks[-1]) if blocks else ""


def as_it_is(instance: Instance, code: str) -> Instance:
    """The bug with this version of its program, and a gold patch from there.

    Raises ModelFailure where no correct program is known: then the oracle knows nothing.
    """
    if not instance.gold_patch:
        raise ModelFailure(
            f"{instance.id} comes without a correct program, and the oracle knows no other; take "
            "a model instead, or bugs that have one"
        )
    correct = apply_patch(instance.files, instance.gold_patch)
    files = {**instance.files, instance.solution: code.encode()}
    patch = diff_trees(files, correct)
    if not patch:
        raise ModelFailure(
            f"{instance.id} still fails with its correct program, and the oracle knows no other"
        )
    return replace(instance, files=files, gold_patch=patch)


def program(instance: Instance) -> str:
    """The program of a bug."""
    return instance.files[instance.solution].decode("utf-8", "replace")


def correct_program(instance: Instance) -> str:
    """What the gold patch makes of it."""
    fixed = apply_patch(instance.files, instance.gold_patch)
    return fixed[instance.solution].decode("utf-8", "replace")


@dataclass(frozen=True)
class Patching:
    """The candidate patches of one bug, and the choice among them."""

    instance: Instance
    count: int
    """Candidates, the correct one among them."""
    rng: random.Random

    def now(self, code: str) -> Instance:
        """The bug with this version of its program. Raises ModelFailure where none is correct."""
        return as_it_is(self.instance, code)

    def choose(self, now: Instance, hint: str) -> Candidate:
        """The candidate that a text points at, or any one."""
        return choose(hint, make_candidates(now, self.count, self.rng), self.rng)

    def reply(self, now: Instance, hint: str) -> str:
        """A reply with the whole program, changed by the chosen candidate."""
        chosen, code = self.choose(now, hint), program(now)
        for edit in chosen.edits:
            code = code.replace(edit.old, edit.new, 1)
        return f"I change {chosen.place}.\n\n```python\n{code.rstrip()}\n```"


# The oracle as Patch Coder: it can write patches, but has to be told which is right.


NOT_YET = "Don't write a repaired program yet"
THOUGHT = "I can't tell from reading alone which of the lines that I suspect is the wrong one."


class OraclePatchCoder:
    """Chooses among the correct patch and wrong ones by the plan it is given, or by chance."""

    def __init__(self, patching: Patching) -> None:
        self._patching = patching
        self._reply = ""

    def turns(self, task: str) -> Turns:
        """The whole program, patched; where a message comes without one, a word on the last."""
        said = task
        while True:
            code = newest_code(said)
            if code:
                plan = said.rpartition("### Repair Plan")[2]
                self._reply = self._patching.reply(self._patching.now(code), plan)
            thinks = NOT_YET in said
            said = "".join((yield say(THOUGHT if thinks else self._reply)))

    def last_word(self) -> str:
        """The same program."""
        return self._reply
