"""The oracle as Patch Coder: it can write patches, but has to be told which is right."""

from __future__ import annotations

from collect.models.oracle.current_code import newest_code
from collect.models.oracle.patching import Patching
from collect.models.oracle.scripted import Turns, say

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
