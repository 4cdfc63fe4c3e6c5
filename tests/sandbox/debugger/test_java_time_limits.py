"""Time limits of Java tests that a pause outlasts."""

from __future__ import annotations

import re
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
    import org.junit.rules.Timeout;
    import java.util.concurrent.*;

    public class OldTest {
        @Test(timeout = 1000) public void limited() throws Exception {
            int number = 1; // @limited
            Thread.sleep(1);
        }
        @Test public void waits() throws Exception {
            CompletableFuture<Integer> future = new CompletableFuture<>();
            ScheduledExecutorService pool = Executors.newSingleThreadScheduledExecutor();
            pool.schedule(() -> future.completeExceptionally(new TimeoutException("late")),
                    1, TimeUnit.SECONDS);
            int number = 1; // @waits
            future.get();
        }

        public static class ByRule {
            @Rule public Timeout limit = Timeout.millis(1000);

            @Test public void limited() throws Exception {
                int number = 1; // @by_rule
                Thread.sleep(1);
            }
        }
    }
"""
TESTNG = """
    import org.testng.annotations.*;

    public class OtherTest {
        @Test(timeOut = 1000) public void limited() throws Exception {
            int number = 1; // @limited
            Thread.sleep(1);
        }
    }
"""
RUNNERS_LIMIT_OFF = (
    "the test runner's time limit is switched off in this session: a test that fails by it alone "
    "passes here"
)


@pytest.fixture(scope="module")
def tests() -> Iterator[JavaBench]:
    with java_benches() as open_one:
        bench = open_one()
        bench.write({"NewTest.java": JUPITER, "OldTest.java": OLD, "OtherTest.java": TESTNG})
        yield bench


def paused_at(bench: JavaBench, mark: str, test: str) -> tuple[DebugEvent, DebugEvent]:
    """The stop, and what comes after a pause that is longer than the test's time limit."""
    file = f"{re.split('[$#]', test)[0]}.java"
    stop = bench.start(bench.at(mark, file), test=test)
    assert stop.state is State.RUNTIME
    time.sleep(PAUSE)
    return stop, bench.debugger.control(Action.CONTINUE)


def test_a_limit_of_junit_5_is_off(tests: JavaBench) -> None:
    stop, end = paused_at(tests, "annotated", "NewTest#annotated")
    assert LIMITS_OFF in stop.notes
    assert (end.state, end.exit_code) == (State.DONE, 0)


@pytest.mark.parametrize(
    ("test", "mark"),
    [
        ("OldTest#limited", "limited"),
        ("OldTest$ByRule#limited", "by_rule"),
        ("OtherTest#limited", "limited"),
    ],
)
def test_a_limit_of_junit_4_or_testng_is_off(tests: JavaBench, test: str, mark: str) -> None:
    stop, end = paused_at(tests, mark, test)
    assert RUNNERS_LIMIT_OFF in stop.notes
    assert (end.state, end.exit_code) == (State.DONE, 0)


def test_a_limit_that_has_no_switch_is_told_with_the_pause(tests: JavaBench) -> None:
    _, end = paused_at(tests, "waits", "OldTest#waits")
    assert end.state is State.POST_MORTEM
    assert any(note.startswith("the program was paused for ") for note in end.notes)
