"""What a breakpoint or a test names in a Python workspace, looked up by the probe's own modules.

They run in the sandbox, in a process of their own: pdb's `break` knows only what is imported, and
answers a line without code with "Blank or comment".
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sandbox.base import Sandbox
from sandbox.debugger.channel import Json
from sandbox.debugger.delivery import probe_message
from sandbox.debugger.terminal_session import Refused
from sandbox.errors import DebuggerError, SandboxFileError
from sandbox.shell import capture

LOOKUP = """\
import json, sys
if sys.path[:1] == [""]:
    sys.path.pop(0)
package = sys.modules["_stepinto_probe"] = type(sys)("_stepinto_probe")
package.__path__ = []
for name, source in json.loads(sys.stdin.buffer.readline()).items():
    module = type(sys)("_stepinto_probe." + name)
    module.__spec__ = type(sys.__spec__)(module.__name__, None)
    module.__package__ = module.__spec__.parent
    sys.modules[module.__name__] = module
    exec(compile(source, "<stepinto " + name + ">", "exec", dont_inherit=True), module.__dict__)
    if name == "breakpoints":
        break
from _stepinto_probe.breakpoints import BreakpointTable
from _stepinto_probe.lookup import find_tests
from _stepinto_probe.wire import Refusal
from _stepinto_probe.workspace import Workspace
import os
workspace = Workspace(os.getcwd())

def answer(request):
    if "test" in request:
        return {"tests": find_tests(workspace, request["test"])}
    table = BreakpointTable(workspace)
    request = {key: value for key, value in request.items() if key != "number"}
    point, notes = table.add(request)
    text = workspace.line(point.path, point.line)
    moved = [note.replace("breakpoint 1 ", "the breakpoint ") for note in notes]
    return {"file": workspace.relative(point.path), "path": point.path, "line": point.line,
            "function": point.function, "source": text, "notes": moved}

answers = []
for request in json.loads(sys.stdin.buffer.readline()):
    try:
        answers.append(answer(request))
    except Refusal as refusal:
        answers.append({"error": str(refusal)})
print(json.dumps(answers))
"""


def look_up(sandbox: Sandbox, requests: Sequence[Json]) -> list[Json]:
    """For each request where it lies, or an `error` that says what is nearest.

    A request is a breakpoint's fields (file, line, function, condition, source) or a bare `test`.
    Raises DebuggerError where the interpreter of the sandbox can't tell, and Refused where the
    program has left no way to read what it tells.
    """
    if not requests:
        return []
    stdin = probe_message() + b"\n" + json.dumps(list(requests)).encode("ascii") + b"\n"
    argv = (sandbox.python, "-c", LOOKUP)
    try:
        result = capture(sandbox, '"$@"', *argv, stdin=stdin, timeout=60.0)
    except SandboxFileError as error:
        raise Refused(f"the breakpoints could not be looked up: {error}") from error
    if result.exit_code != 0:
        raise DebuggerError(f"the breakpoints could not be looked up: {result.output[-2000:]}")
    answers: list[Json] = json.loads(result.output.splitlines()[-1])
    return answers


def place(sandbox: Sandbox, request: Json) -> dict[str, Any]:
    """Where one breakpoint lies. Raises Refused with the nearest names."""
    found = look_up(sandbox, [request])[0]
    if "error" in found:
        raise Refused(found["error"])
    return found
