"""Files that the program writes and runs again: breakpoints are in the newer code too."""

from __future__ import annotations

import pytest

from sandbox.debugger import Action, BreakpointRequest, State
from tests.sandbox.debugger.conftest import Workbench

PLUG = "VERSION = 1\ndef f(a):\n    b = a + 1\n    return b\n"
PROGRAM = """
    import importlib
    import pathlib
    import runpy
    import sys
    import plug

    ONE = "VERSION = 1\\ndef f(a):\\n    b = a + 1\\n    return b\\n"
    TWO = 'VERSION = 2\\n\\nEXTRA = "x"\\ndef f(a):\\n    b = a + 100\\n    return b\\n'
    sys.dont_write_bytecode = True

    def again(how):
        if how == "reload":
            return importlib.reload(plug).f
        if how == "runpy":
            return runpy.run_path(plug.__file__)["f"]
        names = {}
        exec(compile(path.read_text(), plug.__file__, "exec"), names)
        return names["f"]

    old = plug.f
    first = old(1)
    path = pathlib.Path(plug.__file__)
    path.write_text(TWO)
    importlib.invalidate_caches()
    newer = again(%r)
    got = first, newer(1), old(1)
    path.write_text(ONE)
    assert got == (2, 101, 2), got
"""


@pytest.mark.parametrize("how", ["reload", "runpy", "exec"])
def test_breakpoints_are_in_the_newer_code_too(some_bench: Workbench, how: str) -> None:
    bench = some_bench
    bench.write({"plug.py": PLUG, "program.py": PROGRAM % how})
    event = bench.start(bench.at_line(3, "plug.py"), BreakpointRequest(function="plug.py:f"))
    seen = []
    while event.state is State.RUNTIME:
        newer = any("this code is of the newer text" in note for note in event.notes)
        source = bench.debugger.stack().frames[0].source
        seen.append((event.function, event.line, source, newer))
        event = bench.debugger.control(Action.CONTINUE)
    old = ("f", 3, "b = a + 1", False)
    assert seen == [
        old,
        ("<module>", 3, 'EXTRA = "x"', True),
        ("f", 5, "b = a + 100", True),
        old,
    ]
    assert event.exit_code == 0
    points = bench.debugger.list_breakpoints().breakpoints
    assert [point.hits for point in points] == [3, 3]


TEST = """
    def helper(a):
        b = a + 1
        assert b > 1, "small"
        return b  # @helper

    def test_it():
        a = 1  # @first
        assert helper(a) == 2
"""


def test_a_test_that_pytest_has_rewritten_is_of_the_text_that_it_began_with(
    some_bench: Workbench,
) -> None:
    bench = some_bench
    bench.write({"test_it.py": TEST})
    bench.start(bench.at("first", "test_it.py"), test="test_it.py::test_it")
    text = bench.files["test_it.py"]
    bench.sandbox.write_files({"test_it.py": ("EXTRA = 1\n" + text).encode()})
    line = bench.line("helper", "test_it.py")
    bench.debugger.set_breakpoint(bench.at_line(line + 1, "test_it.py"))
    event = bench.debugger.control(Action.CONTINUE)
    assert (event.function, event.line) == ("helper", line)
    assert not any("newer text" in note for note in event.notes)
    assert "return b" in (bench.debugger.stack().frames[0].source or "")


CHANGED_CODE = """
    import pathlib
    import plug

    class Constant:
        def __repr__(self):
            print("ran")
            raise RuntimeError("of the program")

    path = pathlib.Path(plug.__file__)
    path.write_text(path.read_text() + "# newer")
    code = plug.f.__code__
    plug.f.__code__ = code.replace(co_consts=(*code.co_consts, Constant()))
    print(plug.f(1))
"""


def test_what_the_program_puts_in_place_of_constants_does_not_run(some_bench: Workbench) -> None:
    bench = some_bench
    bench.write({"plug.py": PLUG, "program.py": CHANGED_CODE})
    event = bench.start(bench.at_line(3, "plug.py"))
    assert (event.function, event.line) == ("f", 3)
    event = bench.debugger.control(Action.CONTINUE)
    assert (event.output, event.exit_code) == ("2\n", 0)
