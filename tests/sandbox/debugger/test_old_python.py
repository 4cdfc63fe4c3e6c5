"""A CPython that is too old to be debugged is told as such."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sandbox.debugger import DebugLimits, ErrorKind, Launch
from tests.interpreters import Interpreter, find_interpreter
from tests.sandbox.debugger.conftest import Workbench


@pytest.fixture(params=["3.6", "3.7"])
def old(request: pytest.FixtureRequest) -> Interpreter:
    interpreter = find_interpreter(request.param)
    if interpreter is None:
        pytest.skip(f"CPython {request.param} is not on this machine")
    return interpreter


def test_a_session_says_what_it_needs(
    old: Interpreter, open_bench: Callable[..., Workbench]
) -> None:
    bench = open_bench(old, DebugLimits(start_timeout=30))
    bench.write({"program.py": "print(1)"})
    event = bench.debugger.start(Launch("program.py"))
    assert event.error_kind is ErrorKind.LAUNCH_FAILED
    assert event.error is not None
    assert event.error.startswith("the debugger needs CPython 3.8 or later, and ")
    assert f" is {old.version}." in event.error
