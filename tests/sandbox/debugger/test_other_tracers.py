"""Programs that call a debugger, or that start tracers of their own."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from sandbox.debugger import Action, DebugEvent, State, StopReason, render
from tests.interpreters import Interpreter
from tests.sandbox.debugger.conftest import Workbench

CALLS = """
    import pdb
    from pdb import set_trace

    def total(x):
        y = x * 2
        breakpoint()
        return y  # @hook

    def more(x):
        pdb.set_trace()
        x += 1  # @module
        set_trace()
        x += 1  # @name
        return x

    def last():
        pdb.Pdb().set_trace()

    def test_it():
        total(2)
        more(2)
        last()
        done = True  # @after
        assert done

    if __name__ == "__main__":
        test_it()
"""


@pytest.fixture
def own_bench(open_bench: Callable[..., Workbench]) -> Workbench:
    """A bench on the interpreter of the tests, which has coverage and hypothesis."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return open_bench(Interpreter(version, sys.executable, has_pytest=True), readable=(sys.prefix,))


def in_the_code(event: DebugEvent, bench: Workbench, mark: str) -> None:
    assert (event.stop_reason, event.hit) == (StopReason.BREAKPOINT, ())
    assert event.line == bench.line(mark)
    assert "(breakpoint() in the code)" in render(event)
    assert "calls a debugger, as breakpoint() does" in event.notes[0]
    assert event.output == ""


@pytest.mark.parametrize("test", ["program.py", "pytest program.py::test_it"])
def test_each_call_of_a_debugger_is_a_stop(some_bench: Workbench, test: str) -> None:
    bench = some_bench
    bench.write({"program.py": CALLS})
    event = bench.start(test=test, stop_at_entry=False)
    for mark in ("hook", "module", "name"):
        in_the_code(event, bench, mark)
        event = bench.debugger.control(Action.CONTINUE)
    # Its call was the last in its function.
    assert (event.function, event.return_value and event.return_value.name) == ("test_it", "last")
    assert bench.debugger.control(Action.CONTINUE).exit_code == 0


def test_breakpoints_and_steps_go_on_after_one(some_bench: Workbench) -> None:
    bench = some_bench
    event = bench.script(CALLS, "hook", "name")
    assert [point.number for point in event.hit] == [1]
    event = bench.debugger.control(Action.STEP_OVER)
    assert (event.stop_reason, event.line) == (StopReason.STEP, bench.line("after") - 3)
    bench.debugger.control(Action.STEP_OVER)
    event = bench.debugger.control(Action.STEP_OVER)
    in_the_code(event, bench, "module")
    assert bench.debugger.control(Action.STEP_OVER).line == bench.line("name") - 1
    event = bench.debugger.control(Action.STEP_OVER)
    assert [point.number for point in event.hit] == [2]


def test_an_expression_that_calls_a_debugger_has_its_value(some_bench: Workbench) -> None:
    bench = some_bench
    bench.script(CALLS, "after")
    while bench.debugger.control(Action.CONTINUE).line != bench.line("after"):
        pass
    assert bench.text_of("total(4)") == "8"
    assert bench.debugger.control(Action.CONTINUE).state is State.DONE


def test_capture_goes_on_after_a_call_of_a_debugger(some_bench: Workbench) -> None:
    bench = some_bench
    bench.write(
        {
            "test_it.py": """
                import pytest

                def test_it(capsys):
                    print("seen")
                    breakpoint()
                    pytest.set_trace()
                    assert capsys.readouterr().out == "seen\\n"
            """
        }
    )
    event = bench.start(test="test_it.py::test_it", stop_at_entry=False)
    assert (event.line, event.output) == (7, "")
    assert bench.debugger.control(Action.CONTINUE).line == 8
    assert bench.debugger.control(Action.CONTINUE).exit_code == 0


def test_a_hook_of_the_program_is_called(some_bench: Workbench) -> None:
    bench = some_bench
    event = bench.script(
        """
        import os, sys
        os.environ["PYTHONBREAKPOINT"] = "0"
        breakpoint()
        sys.breakpointhook = print
        breakpoint("its own hook")
        """,
        stop_at_entry=False,
    )
    assert (event.state, event.output) == (State.DONE, "its own hook\n")


TAKEN = """
    import ctypes

    def work(x):
        y = x + 1
        return y  # @loop

    def test_it():
        ctypes.pythonapi.PyEval_SetTrace(None, None)  # @takes
        assert work(1) == 2
"""
HIDDEN = "ended the debugger's while the program ran, and hid what ran then"


def test_breakpoints_that_another_tracer_hides(some_bench: Workbench) -> None:
    """As coverage's does, it replaces the trace function by a call in C."""
    bench = some_bench
    bench.write({"test_it.py": TAKEN})
    event = bench.start(bench.at("loop", "test_it.py"), test="test_it.py::test_it")
    if bench.interpreter.version in ("3.8", "3.11"):
        listed = bench.debugger.list_breakpoints()
        assert (event.state, listed.breakpoints[0].hits) == (State.DONE, 0)
        assert HIDDEN in event.notes[-1]
        assert HIDDEN in listed.notes[-1]
    else:
        assert event.line == bench.line("loop", "test_it.py")
        event = bench.debugger.control(Action.CONTINUE)
        assert not any(HIDDEN in note for note in event.notes)


def test_a_step_that_another_tracer_ends(some_bench: Workbench) -> None:
    bench = some_bench
    bench.write({"test_it.py": TAKEN})
    bench.start(bench.at("takes", "test_it.py"), test="test_it.py::test_it")
    event = bench.debugger.control(Action.STEP_OVER)
    assert event.state is State.DONE
    assert any("the step was lost" in note for note in event.notes)


def test_coverage_measured_by_the_program(own_bench: Workbench) -> None:
    bench = own_bench
    bench.write(
        {
            "lib.py": "def work(x):\n    return x + 1  # @work\n",
            "test_it.py": """
                import coverage
                import lib

                def test_it():
                    measured = coverage.Coverage(data_file=None)
                    measured.start()
                    got = lib.work(1)
                    measured.stop()
                    files = measured.get_data().measured_files()
                    assert any(name.endswith("lib.py") for name in files)
                    assert got == 2
            """,
        }
    )
    event = bench.start(bench.at("work", "lib.py"), test="test_it.py::test_it")
    if event.state is not State.DONE:
        assert event.line == bench.line("work", "lib.py")
        event = bench.debugger.control(Action.CONTINUE)
    else:
        assert HIDDEN in event.notes[-1]
    assert event.exit_code == 0


def test_a_trace_function_that_a_library_sets_unasked(own_bench: Workbench) -> None:
    bench = own_bench
    bench.write(
        {
            "test_it.py": """
                from hypothesis import given, strategies

                @given(strategies.integers())
                def test_it(n):
                    assert n < 5

                if __name__ == "__main__":
                    test_it()
            """
        }
    )
    for test in ("test_it.py::test_it", "test_it.py"):
        event = bench.start(test=test, stop_at_entry=False)
        assert event.state is State.POST_MORTEM
        assert not any("trace function" in note for note in event.notes)


@pytest.mark.parametrize("how", ["sys.settrace", "threading.settrace"])
def test_a_failure_tells_that_trace_functions_are_not_called(
    some_bench: Workbench, how: str
) -> None:
    bench = some_bench
    bench.script(
        f"""
        import sys, threading
        seen = []
        {how}(lambda *event: seen.append(event))
        before = 1  # @before
        thread = threading.Thread(target=str)
        thread.start()
        thread.join()
        assert seen
        """,
        "before",
    )
    event = bench.debugger.control(Action.STEP_OVER)
    assert event.notes == ()
    event = bench.debugger.control(Action.CONTINUE)
    assert event.state is State.POST_MORTEM
    assert "the program sets a trace function, which is not called while" in " ".join(event.notes)
