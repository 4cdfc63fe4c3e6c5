"""The main agent's shell."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

from collect.agents.file_tools import EDIT_REFUSED, EditGate
from collect.agents.tools import Arguments, ToolReply
from collect.store.records import ToolOutcome
from sandbox import Command, Sandbox

REFUSED_BY_KERNEL = ("Read-only file system", "Permission denied")
READ_ONLY_VARIABLES = {
    "COVERAGE_FILE": "/tmp/.coverage",
    "HYPOTHESIS_STORAGE_DIRECTORY": "/tmp/.hypothesis",
    "MYPY_CACHE_DIR": "/tmp/.mypy_cache",
    "PYTHONDONTWRITEBYTECODE": "1",
    "RUFF_CACHE_DIR": "/tmp/.ruff_cache",
    # pytest keeps its cache there. Its option for that warns if the cache is switched off.
    "TOX_ENV_DIR": "/tmp/.tox",
}
"""Where tests and linters write their caches if the workspace is read-only. Otherwise they report
that they can't write, and a harmless command would seem to be refused."""
ENDING = re.compile(r"\n?\[(?:exit code (?P<code>\d+)|killed after [\d.e+]+ s)\]$")


class BashArguments(Arguments):
    command: Annotated[str, Field(description="The command line.")]
    timeout: Annotated[float | None, Field(gt=0, description="Seconds until it is killed.")] = None


@dataclass(frozen=True)
class Bash:
    """Run a shell command in the repository.

    While the edit gate is closed, the kernel makes the workspace read-only for the command: reading
    and running tests works, and any edit fails. Each call starts a new shell; background processes
    are killed.
    """

    sandbox: Sandbox
    max_timeout: float
    gate: EditGate = field(default_factory=EditGate)
    name: str = "bash"
    description: str = (
        "Run a bash command in the repository root and get its output. Each call is a new shell; "
        "there is no network."
    )
    arguments: type[Arguments] = BashArguments

    def call(self, arguments: BashArguments, call_id: str) -> ToolReply:
        timeout = min(arguments.timeout or self.max_timeout, self.max_timeout)
        closed = not self.gate.is_open
        argv = ["bash", "-c", arguments.command]
        if closed:
            # If another user runs it, its build output must be writable for everyone.
            argv = ["sh", "-c", 'umask 0; exec "$@"', "sh", *argv]
        variables = READ_ONLY_VARIABLES if closed else {}
        result = self.sandbox.run(Command(argv, env=variables, timeout=timeout, read_only=closed))
        text = result.output
        if result.timed_out:
            text += f"\n[killed after {timeout:g} s]"
        elif result.exit_code:
            text += f"\n[exit code {result.exit_code}]"
        if closed and any(sign in result.output for sign in REFUSED_BY_KERNEL):
            return ToolReply(f"{text}\n{EDIT_REFUSED}".lstrip("\n"), ToolOutcome.REFUSED)
        failed = result.timed_out or result.exit_code
        outcome = ToolOutcome.ERROR if failed else ToolOutcome.OK
        return ToolReply(text.strip("\n") or "[no output]", outcome)


@dataclass(frozen=True)
class FailedCommand:
    """The shell's answer about a failed command."""

    output: str
    exit_code: int | None
    """None if it was killed at its timeout."""


def read_failure(answer: str) -> FailedCommand | None:
    """The failure in such an answer, or None if the command failed in another way."""
    ending = ENDING.search(answer)
    if ending is None:
        return None
    code = ending["code"]
    return FailedCommand(answer[: ending.start()], int(code) if code else None)
