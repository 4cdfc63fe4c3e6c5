"""Time limits of Java tests that a pause outlasts."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from sandbox.debugger import Action, DebugEvent, State
from sandbox.debugger.java_session import LIMITS_OFF
from tests.sandbox.debugger.java_bench import JavaBench, java_benches

PAUSE = 1.2
JUPITER = """
    import static org.junit.jupiter.api.Assertions.*;

    import org.junit.jupiter.api.*;

    class NewTest {
        @Test @Timeout(1) void annotated() throws Exception {
            int number = 1; // @annotated
            Thread.sleep(1);
        }
    }
"""
OLD = """
    import org.junit.*;

    public class OldTest {
        @Test(timeout = 1000) public void limited() throws Exception {
            int number = 1; // @limited
            while (!Thread.currentThread().isInterrupted()) {
                number++; // until the runner's clock ends it
            }
        }
    }
"""
TESTNG = """
    import org.testng.annotations.*;

    public class OtherTest {
        @Test(timeOut = 1000) public void limited() throws Exception {
            int number = 1; // @limited
            while (!Thread.currentThread().isInterrupted()) {
                number++; // until the runner's clock ends it
            }
        }
    }
"""


@pytest.fixture(scope="module")
def tests() -> Iterator[JavaBench]:
    with java_benches() as open_one:
        bench = open_one()
        bench.write({"NewTest.java": JUPITER, "OldTest.java": OLD, "OtherTest.java": TESTNG})
        yield bench


def paused_at(bench: JavaBench, mark: str, test: str) -> tuple[DebugEvent, DebugEvent]:
    """The stop, and what comes after a pause that is longer than the test's time limit."""
    file = f"{test.partition('#')[0]}.java"
    stop = bench.start(bench.at(mark, file), test=test)
    assert stop.state is State.RUNTIME
    time.sleep(PAUSE)
    return stop, bench.debugger.control(Action.CONTINUE)


def test_a_limit_of_junit_5_is_off(tests: JavaBench) -> None:
    stop, end = paused_at(tests, "annotated", "NewTest#annotated")
    assert LIMITS_OFF in stop.notes
    assert (end.state, end.exit_code) == (State.DONE, 0)


@pytest.mark.parametrize(
    ("test", "said"),
    [
        ("OldTest#limited", "TestTimedOutException"),
        pytest.param("OtherTest#limited", "ThreadTimeoutException", marks=pytest.mark.slow),
    ],
)
def test_a_limit_that_has_no_switch_is_told_with_the_pause(
    tests: JavaBench, test: str, said: str
) -> None:
    stop, end = paused_at(tests, "limited", test)
    assert LIMITS_OFF not in stop.notes
    assert (end.state, end.exit_code) == (State.DONE, 1)
    assert f"{test} failed: " in end.output
    assert said in end.output
    assert any(note.startswith("the program was paused for ") for note in end.notes)
