"""How tests ended beyond the exit code, as a model reads it."""

from __future__ import annotations

import pytest

from sandbox.debugger import Action, DebugEvent, ErrorKind, Launch, StopReason
from sandbox.debugger.probe.supervisor import UNFINISHED
from tests.sandbox.debugger.conftest import Workbench

SKIPPED = """
    import pytest

    @pytest.mark.skip(reason="too slow")
    @pytest.mark.parametrize("n", range(3))
    def test_each(n): pass

    @pytest.mark.skipif(True, reason="no numpy")
    def test_one(): pass

    def test_two():
        pytest.skip("too slow")

    @pytest.mark.xfail(reason="bug 7")
    @pytest.mark.parametrize("n", range(2))
    def test_fails(n):
        assert n is None
"""
MODULE = """
    import pytest
    pytest.importorskip("no_such_module")
    def test_it(): pass
"""


@pytest.fixture
def suite(some_bench: Workbench) -> Workbench:
    if not some_bench.interpreter.has_pytest:
        pytest.skip(f"no pytest for CPython {some_bench.interpreter.version}")
    some_bench.write({"test_it.py": SKIPPED, "test_other.py": MODULE})
    return some_bench


def test_the_same_outcome_is_told_once(suite: Workbench) -> None:
    event = suite.start(test="test_it.py", stop_at_entry=False)
    assert event.notes == (
        "each of 4 tests was skipped: too slow",
        "test_it.py::test_one was skipped: no numpy",
        "each of 2 tests failed as expected (xfail) (bug 7)",
    )


def test_a_file_that_is_skipped(suite: Workbench) -> None:
    event = suite.debugger.start(Launch("test_other.py"))
    assert event.error_kind is ErrorKind.LAUNCH_FAILED
    assert event.error is not None
    assert event.error.startswith("pytest has no test to run: test_other.py was skipped: could not")
    assert "no_such_module" in event.error
    event = suite.start(test="pytest test_other.py test_it.py", stop_at_entry=False)
    assert any(note.startswith("test_other.py was skipped: ") for note in event.notes)


def test_many_outcomes_are_cut(suite: Workbench) -> None:
    test = "import pytest\n@pytest.mark.parametrize('n', range(90))\n"
    suite.write({"test_it.py": f"{test}def test_each(n):\n    pytest.skip(f'no {{n}}')\n"})
    event = suite.start(test="test_it.py", stop_at_entry=False)
    assert event.notes[0] == "test_it.py::test_each[0] was skipped: no 0"
    assert event.notes[5:] == ("85 more tests were skipped, or ended otherwise than by passing",)


def test_tests_that_unittest_skips(some_bench: Workbench) -> None:
    test = """
        import unittest

        @unittest.skip("not now")
        class SumTest(unittest.TestCase):
            def test_one(self): pass
            def test_two(self): pass
    """
    some_bench.write({"sums.py": test})
    event = some_bench.start(test="python -m unittest sums", stop_at_entry=False)
    assert event.notes == ("each of 2 tests was skipped: not now",)


EXITS = """
    import os, unittest

    def check(number):
        if number == 2:
            os._exit(0)

    class ExitTest(unittest.TestCase):
        def test_all(self):
            for number in range(5):
                check(number)
"""


def test_a_program_that_ends_itself_in_a_test(some_bench: Workbench) -> None:
    some_bench.write({"exits.py": EXITS})
    event = some_bench.start(test="python -m unittest exits", stop_at_entry=False)
    assert (event.stop_reason, event.exit_code) == (StopReason.EXITED, 0)
    assert event.notes == (UNFINISHED,)


def test_the_test_that_runs_is_told_once(suite: Workbench) -> None:
    suite.write(
        {
            "test_it.py": """
                import pytest

                @pytest.mark.parametrize("number", range(3))
                def test_each(number):
                    assert number < 2  # @line
                    number += 1  # @next
            """
        }
    )
    points = suite.at("line", "test_it.py", condition="number != 1"), suite.at("next", "test_it.py")
    told = [note_of(suite.start(*points, test="test_it.py::test_each"))]
    told += [note_of(suite.debugger.control(Action.CONTINUE)) for _ in range(4)]
    assert told == [
        "the test that runs is test_it.py::test_each[0]",
        "",
        "the test that runs is test_it.py::test_each[1]",
        "the test that runs is test_it.py::test_each[2]",
        "the test that failed is test_it.py::test_each[2]",
    ]


def note_of(event: DebugEvent) -> str:
    return next((note for note in event.notes if note.startswith("the test that ")), "")


def test_errors_of_collecting_are_told_and_not_those_of_pytest(suite: Workbench) -> None:
    broken = "import no_such_module\n\ndef test_it(): pass\n"
    suite.write({"test_it.py": broken, "test_other.py": broken})
    event = suite.debugger.start(Launch("pytest ."))
    assert event.error_kind is ErrorKind.LAUNCH_FAILED
    assert "no_such_module" in (event.error or "")
