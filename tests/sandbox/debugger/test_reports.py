"""What a test runner reports beside a failure reaches the answer, and what it says of the run."""

from __future__ import annotations

import pytest

from sandbox.debugger import Action, DebugEvent, Launch, State
from tests.sandbox.debugger.conftest import Workbench

CONFTEST = """
    import logging
    import pytest

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(item, call):
        outcome = yield
        if call.excinfo is not None:
            outcome.get_result().sections.append(("page", "<html>"))

    def pytest_terminal_summary(terminalreporter):
        terminalreporter.write_line("42 widgets made")

    @pytest.fixture
    def unready():
        logging.warning("no server")
        raise OSError("refused")

    @pytest.fixture
    def dirty():
        yield
        raise OSError("still open")
"""
TESTS = """
    import asyncio, gc, logging, threading, unittest, warnings
    import pytest

    def in_a_thread():
        def work():
            raise KeyError("lost")
        thread = threading.Thread(target=work, name="worker")
        thread.start()
        thread.join()

    class Holder:
        def __del__(self):
            raise KeyError("lost")

    async def bad():
        raise KeyError("lost")

    async def forget():
        asyncio.get_running_loop().create_task(bad())
        await asyncio.sleep(0.01)

    def test_logs():
        logging.getLogger("shop").warning("price %s", 3)
        assert False

    def test_warns():
        warnings.warn("old way", DeprecationWarning)
        assert False

    def test_thread():
        in_a_thread()
        assert False

    def test_thread_passes():
        in_a_thread()

    def test_finaliser():
        Holder()
        gc.collect()
        assert False

    def test_task():
        asyncio.run(forget())
        gc.collect()
        assert False

    def test_floods():
        for n in range(5000):
            logging.warning("line %s", n)
        assert False

    def test_many_warnings():
        for n in range(90):
            warnings.warn(f"old way {n}")

    def test_set_up(unready):
        pass

    def test_torn_down(dirty):
        logging.warning("in the test")

    def test_leaves():
        pytest.exit("enough")

    class SumTest(unittest.TestCase):
        def test_parts(self):
            for n in range(3):
                with self.subTest(n=n):
                    self.assertNotEqual(n, 1)

    @pytest.mark.parametrize("n", range(3))
    def test_each(n):
        pass
"""


@pytest.fixture
def suite(some_bench: Workbench) -> Workbench:
    if not some_bench.interpreter.has_pytest:
        pytest.skip(f"no pytest for CPython {some_bench.interpreter.version}")
    some_bench.write({"conftest.py": CONFTEST, "test_it.py": TESTS})
    return some_bench


def ended(suite: Workbench, test: str) -> DebugEvent:
    """How the run of a test ends."""
    event = suite.debugger.start(Launch(f"test_it.py::{test}", stop_at_entry=False))
    assert event.state in (State.POST_MORTEM, State.DONE, State.RUNTIME_ERROR), event.error
    return event


@pytest.mark.parametrize(
    ("test", "reported"),
    [
        ("test_logs", "--- Captured log call ---\nWARNING  shop:test_it.py:24 price 3\n"),
        ("test_logs", "--- page ---\n<html>\n"),
        ("test_warns", "--- warnings ---\ntest_it.py:28: DeprecationWarning: old way\n"),
        ("test_thread", "Exception in thread worker\n"),
        ("test_thread", "\nKeyError: 'lost'\n"),
        ("test_thread_passes", "Exception in thread worker\n"),
        ("test_thread_passes", "42 widgets made\n"),
        ("test_finaliser", "Exception ignored "),
        ("test_task", "Task exception was never retrieved\n"),
        ("test_set_up", "--- Captured log setup ---\nWARNING  root:conftest.py:16 no server\n"),
        ("test_torn_down", "--- Captured log call ---\nWARNING  root:test_it.py:61 in the test\n"),
    ],
)
def test_what_pytest_reports(suite: Workbench, test: str, reported: str) -> None:
    assert reported in ended(suite, test).output


def test_reports_are_bounded(suite: Workbench) -> None:
    output = ended(suite, "test_floods").output
    assert "characters cut" in output
    assert "line 0\n" in output
    assert "line 4999\n" in output
    assert len(output) < 4000
    output = ended(suite, "test_many_warnings").output
    assert ("old way 19" in output, "old way 20" in output) == (True, False)
    assert "... 70 more\n" in output


def test_fixtures_that_fail_are_told_from_their_test(suite: Workbench) -> None:
    said = "it was raised in the set-up of the test, which itself did not run"
    assert said in ended(suite, "test_set_up").notes
    said = "it was raised after the test itself, in its teardown"
    assert said in ended(suite, "test_torn_down").notes


def test_what_a_run_passed(suite: Workbench) -> None:
    assert ended(suite, "test_each").notes[-1] == "3 tests passed in this run"
    ended(suite, "SumTest::test_parts")
    event = suite.debugger.control(Action.CONTINUE)
    if event.state is State.DONE:  # with a plugin, or pytest 9: the subtests after it have run
        assert event.exit_code == 1
        assert "test_it.py::SumTest::test_parts failed in this run" in event.notes
        assert not any("passed" in note for note in event.notes)


def test_a_run_that_its_program_ends(suite: Workbench) -> None:
    suite.start(test="test_it.py::test_leaves", stop_at_entry=True)
    event = suite.debugger.control(Action.CONTINUE)
    assert event.exit_code == 2
    assert any(note.startswith("pytest ended early: Exit: enough\n") for note in event.notes)


def test_a_warning_that_pytest_makes_an_error_leads_to_its_exception(suite: Workbench) -> None:
    event = suite.start(test="pytest -W error test_it.py::test_thread_passes", stop_at_entry=False)
    assert event.state is State.POST_MORTEM
    if event.function != "in_a_thread.work":  # before pytest 8.4 only its text is known
        assert event.exception is not None
        assert "KeyError: 'lost'" in event.exception.message
        return
    assert event.exception is not None
    assert event.exception.type == "KeyError"
    assert any(note.startswith("it was raised in a thread; ") for note in event.notes)


def test_logs_that_pytest_shows_live(suite: Workbench) -> None:
    suite.write({"pytest.ini": "[pytest]\nlog_cli = true\nlog_cli_level = INFO\n"})
    suite.write({"test_b.py": "import logging\ndef test_it():\n    logging.info('seen')\n"})
    event = suite.start(test="test_b.py", stop_at_entry=False)
    assert "INFO     root:test_b.py:3 seen\n" in event.output


def test_what_unittest_warns_of(some_bench: Workbench) -> None:
    test = """
        import unittest, warnings

        class SumTest(unittest.TestCase):
            def test_sum(self):
                warnings.warn("old way", DeprecationWarning)
                for n in range(3):
                    with self.subTest(n=n):
                        self.assertNotEqual(n, 1)
    """
    some_bench.write({"sums.py": test})
    event = some_bench.start(test="python -m unittest sums", stop_at_entry=False)
    assert "DeprecationWarning: old way" in event.output
    while event.state is not State.DONE:
        event = some_bench.debugger.control(Action.CONTINUE)
    assert event.exit_code == 1
    assert event.notes[-1].startswith("test_sum (sums.SumTest")
    assert event.notes[-1].endswith(" failed in this run")
