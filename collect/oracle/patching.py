"""How the oracle patches a one-file program: it can write patches, but can't tell which is right.

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

FENCED = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"^ *\d+  ?", re.MULTILINE)
NOT_YET = "Don't write a repaired program yet"
THOUGHT = "I can't tell from reading alone which of the lines that I suspect is the wrong one."


def numbered_code(task: str) -> str:
    """The program in an Inspector's task, without its line numbers."""
    # A coding task may itself contain code blocks.
    found = FENCED.search(task.rpartition("## Buggy Code\n")[2])
    return NUMBER.sub("", found[1]) if found else ""


def newest_code(task: str) -> str:
    """The program in a Patch Coder's task: the last block, since versions come in order."""
    blocks = FENCED.findall(task)
    return str(blocks[-1]) if blocks else ""


def as_it_is(instance: Instance, code: str) -> Instance:
    """The bug with this version of its program, and a gold patch for that version.

    Raises ModelFailure if no correct program is known.
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
    """The program after the gold patch."""
    return program(replace(instance, files=apply_patch(instance.files, instance.gold_patch)))


@dataclass(frozen=True)
class Patching:
    """The candidate patches of one bug, and how to choose one."""

    instance: Instance
    count: int
    """Number of candidates, including the correct one."""
    rng: random.Random

    def now(self, code: str) -> Instance:
        """The bug with this version of its program. Raises ModelFailure if none is correct."""
        return as_it_is(self.instance, code)

    def choose(self, now: Instance, hint: str) -> Candidate:
        """The candidate that a text points at, or a random one."""
        return choose(hint, make_candidates(now, self.count, self.rng), self.rng)

    def reply(self, now: Instance, hint: str) -> str:
        """A reply with the whole program, patched with the chosen candidate."""
        chosen, code = self.choose(now, hint), program(now)
        for edit in chosen.edits:
            code = code.replace(edit.old, edit.new, 1)
        return f"I change {chosen.place}.\n\n```python\n{code.rstrip()}\n```"


class OraclePatchCoder:
    """Chooses from the correct patch and wrong ones, by the given plan or at random: it can write
    patches, but must be told which is right.
    """

    def __init__(self, patching: Patching) -> None:
        self._patching = patching
        self._reply = ""

    def turns(self, task: str) -> Turns:
        """The whole patched program; a message without a program gets a comment on the last one."""
        said = task
        while True:
            code = newest_code(said)
            if code:
                plan = said.rpartition("### Repair Plan")[2]
                self._reply = self._patching.reply(self._patching.now(code), plan)
            said = "".join((yield say(THOUGHT if NOT_YET in said else self._reply)))

    def last_word(self) -> str:
        """The same program."""
        return self._reply
