"""The oracle as SWE-Agent: it knows its way around the shell, but only by chance which of its
candidate patches is right."""

from __future__ import annotations

from collect.agents.repair.swe_agent import SUBMIT
from collect.messages import Message
from collect.models.oracle.candidates import Candidate
from collect.models.oracle.current_code import newest_code, program
from collect.models.oracle.patching import Patching
from collect.models.oracle.scripted import Turns, say

NO_HINT = ""
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
    """Look, run the test, edit, run the test, submit; and again after each attempt that failed."""

    def __init__(self, patching: Patching) -> None:
        self._patching = patching

    def turns(self, task: str) -> Turns:
        """The attempts, for as long as there are new tasks."""
        instance = self._patching.instance
        path, test = instance.solution, instance.public_tests[0]
        run = f"python -m pytest -q {test}"
        while True:
            chosen = self._chosen(newest_code(task))
            yield _act("Let me look at the program first.", f"nl -ba {path}")
            yield _act("Now I run the test, to see it fail.", run)
            yield _act(f"I suspect {chosen.place}, and change it.", _edit(path, chosen))
            yield _act("Does the test pass now?", run)
            task = "".join((yield _act("I submit the program as it is now.", SUBMIT)))

    def last_word(self) -> str:
        """The submission."""
        return _act("I submit the program as it is now.", SUBMIT).content

    def _chosen(self, code: str) -> Candidate:
        now = self._patching.now(code or program(self._patching.instance))
        return self._patching.choose(now, NO_HINT)


def _act(thought: str, command: str) -> Message:
    return say(f"THOUGHT: {thought}\n\n```bash\n{command}\n```")


def _edit(path: str, chosen: Candidate) -> str:
    edits = "\n".join(REPLACE.format(old=edit.old, new=edit.new) for edit in chosen.edits)
    return EDIT.format(path=path, edits=edits)
