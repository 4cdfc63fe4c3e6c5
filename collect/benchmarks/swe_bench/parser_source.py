"""Log parsers that come as Python source with a record (SWE-bench-Live/MultiLang).

A language model wrote them. They run inside a sandbox, never in StepInto's own process: in that of
the tests, or in a fresh local one where the image has no Python.
"""

from __future__ import annotations

import json
from contextlib import suppress

from collect.benchmarks.base import TestStatus
from sandbox import Command, Sandbox, SandboxConfig, open_sandbox
from sandbox.errors import SandboxFileError
from sandbox.scratch import scratch_folder

TIMEOUT = 120.0
"""Seconds to read one log."""
NOT_FOUND = (126, 127)
_RUN = """\
import json, sys

folder = sys.argv[1]
log = open(folder + "/log", encoding="utf-8", errors="replace", newline="").read()
namespace = {}
exec(compile(open(folder + "/parser.py", encoding="utf-8").read(), "parser", "exec"), namespace)
found = namespace["parser"](log) or {}
with open(folder + "/found.json", "w") as file:
    json.dump({str(name): str(status) for name, status in found.items()}, file)
"""


def is_source(parser: str) -> bool:
    """Whether a record's parser is source code, and not a name."""
    return "def parser" in parser


def run_source(sandbox: Sandbox, source: str, log: str) -> dict[str, TestStatus]:
    """What the parser makes of a log; nothing where it fails. Raises SandboxError."""
    found = _run(sandbox, source, log)
    if found is None:
        with open_sandbox(SandboxConfig(backend="local")) as local:
            found = _run(local, source, log)
    return {name: _status(word) for name, word in _pairs(found or "")}


def _run(sandbox: Sandbox, source: str, log: str) -> str | None:
    """The parser's answer as JSON, empty where it fails; None where there is no Python."""
    files = {"run.py": _RUN, "parser.py": source, "log": log}
    content = {name: text.encode("utf-8", "replace") for name, text in files.items()}
    with scratch_folder(sandbox) as folder, suppress(SandboxFileError):
        sandbox.write_files({f"{folder}/{name}": data for name, data in content.items()})
        argv = [sandbox.python, "-I", f"{folder}/run.py", folder]
        result = sandbox.run(Command(argv, timeout=TIMEOUT))
        if result.exit_code in NOT_FOUND:
            return None
        return sandbox.read_file(f"{folder}/found.json").decode()
    return ""


def _pairs(text: str) -> list[tuple[str, str]]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return []
    return [(name, str(word)) for name, word in found.items()] if isinstance(found, dict) else []


def _status(word: str) -> TestStatus:
    """Upstream looks for these in the word."""
    word = word.lower()
    if "pass" in word:
        return TestStatus.PASSED
    return TestStatus.FAILED if "fail" in word else TestStatus.SKIPPED
