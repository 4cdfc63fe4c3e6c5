"""How the oracle patches a program of one file: it can write patches, but not tell which is right.

Its systems differ in what they know when they choose.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from collect.benchmarks.base import Instance
from collect.models.oracle.candidates import Candidate, choose, make_candidates
from collect.models.oracle.current_code import as_it_is, program


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
