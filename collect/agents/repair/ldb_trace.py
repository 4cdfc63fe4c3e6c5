"""Real traces for LDB: a failing test, run in the sandbox with a tracer (see `ldb_tracer`)."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from collect.agents.repair.basic_blocks import Statement, statements_of
from sandbox import Command, CommandResult, Sandbox
from sandbox.errors import SandboxFileError
from sandbox.scratch import scratch_folder

PACKAGE = "stepinto_tracing"
MODULES = ("ldb_tracer.py", "ldb_values.py")
OPTIONS = ("-p", "no:cacheprovider", "--color=no", "--tb=no", "-q")
MAX_STEPS = 500
"""Steps kept of the trace's beginning, and as many of its end."""
VALUE_CHARS = 200
"""Longest text of one value."""
_LAUNCHER = f"""\
import os, sys

if __name__ == "__main__":
    import pytest
    from {PACKAGE} import ldb_tracer

    folder, sys.path[0] = sys.path[0], os.getcwd()
    sys.exit(ldb_tracer.main(folder))
"""


class TraceUnavailable(Exception):
    """There is no trace; the message tells the model why, as the rest of a sentence."""


class Step(BaseModel):
    """One executed statement."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    activation: int
    """Which call of a function it belongs to."""
    root: int
    """The outermost function call that led to it."""
    is_function: bool
    """Whether it lies in a function, not in a module's or class's body."""
    function: str
    line: int
    """The statement's first, from 1."""
    before: dict[str, str]
    """The local variables before it, as text."""
    after: dict[str, str] | None
    """The same after it; None where the run was over before."""
    gave: str | None
    """What the function returned by it, or the generator yielded: `return=3`."""
    raised: str | None
    """The exception that came of it."""


class Trace(BaseModel):
    """What the program did when the test failed: what the test's last statement set off in it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    head: tuple[Step, ...]
    tail: tuple[Step, ...]
    """The last steps, where there are more than fit into the head."""
    dropped: int
    """Steps between the two that were not kept."""

    @property
    def steps(self) -> tuple[Step, ...]:
        """Those that were kept, in order."""
        return (*self.head, *self.tail)


def trace_test(sandbox: Sandbox, program: str, code: str, test: str, timeout: float) -> Trace:
    """Trace a pytest test through the file `program`, which holds `code`.

    `timeout` in seconds. Raises TraceUnavailable, SandboxError.
    """
    statements = _statements(code)
    with scratch_folder(sandbox) as folder:
        sandbox.write_files(_files(folder, _job(sandbox, program, statements, test)))
        result = sandbox.run(_command(sandbox, folder, timeout))
        trace = _read(sandbox, folder, result, timeout)
    told = (statements.get(step.line) for step in trace.steps)
    if all(each is None or each.declares for each in told):
        raise TraceUnavailable("the test ends before it runs any line of the program")
    return trace


def _statements(code: str) -> Mapping[int, Statement]:
    try:
        return statements_of(code)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise TraceUnavailable(f"the program is not valid Python: {error}") from None


def _job(
    sandbox: Sandbox, program: str, statements: Mapping[int, Statement], test: str
) -> dict[str, object]:
    spread = {
        line: each.first
        for each in statements.values()
        for line in range(each.first, each.last + 1)
        if each.last > each.first and (line == each.first or line not in statements)
    }
    path = test.partition("::")[0]
    return {
        "program": posixpath.join(sandbox.workspace, program),
        "test": posixpath.join(sandbox.workspace, path),
        "starts": spread,
        "value_chars": VALUE_CHARS,
        "max_steps": MAX_STEPS,
        "arguments": [*OPTIONS, f"--rootdir={sandbox.workspace}", test],
    }


def _files(folder: str, job: dict[str, object]) -> dict[str, bytes]:
    here = Path(__file__).parent
    package = f"{folder}/{PACKAGE}"
    return {
        f"{folder}/launch.py": _LAUNCHER.encode(),
        f"{folder}/job.json": json.dumps(job).encode(),
        f"{package}/__init__.py": b"",
        **{f"{package}/{name}": (here / name).read_bytes() for name in MODULES},
    }


def _command(sandbox: Sandbox, folder: str, timeout: float) -> Command:
    environment = {"PYTHONDONTWRITEBYTECODE": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    argv = [sandbox.python, f"{folder}/launch.py"]
    return Command(argv, env=environment, timeout=timeout)


def _read(sandbox: Sandbox, folder: str, result: CommandResult, timeout: float) -> Trace:
    """The trace; the program under test may have ended before it, or have broken the file."""
    try:
        return Trace.model_validate_json(sandbox.read_file(f"{folder}/trace.json"))
    except (SandboxFileError, ValidationError):
        if result.timed_out:
            raise TraceUnavailable(f"the traced run exceeds the limit of {timeout:g} s") from None
        raise TraceUnavailable(
            f"the traced run ended with exit code {result.exit_code} before it had a trace"
        ) from None
