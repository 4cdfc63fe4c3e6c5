"""One Java session for many looks at one stop: starting one for each would take minutes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sandbox import SandboxConfig, open_sandbox
from sandbox.debugger import open_debugger
from tests.sandbox.debugger.java_bench import LIMITS, JavaBench

PROGRAMS = Path(__file__).parent / "java_programs"


@contextmanager
def paused_at_here(program: str) -> Iterator[JavaBench]:
    """A session on `java_programs/PROGRAM.java`, paused at the line that carries `// @here`."""
    if shutil.which("javac") is None:
        pytest.skip("there is no JDK on this machine")
    file = f"{program}.java"
    with open_sandbox(SandboxConfig()) as sandbox:
        bench = JavaBench(sandbox, open_debugger("java", sandbox, LIMITS))
        try:
            bench.write({file: (PROGRAMS / file).read_text()})
            bench.start(bench.at("here", file), test=program)
            yield bench
        finally:
            bench.debugger.close()
