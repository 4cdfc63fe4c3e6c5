"""What is said of a run of Java tests that ended: its results, or what ended it before."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sandbox.debugger import DebugEvent, StopReason
from tests.sandbox.debugger.java_bench import JavaBench, java_benches

FILE = "EndsTest.java"
TESTS = """
    import static org.junit.jupiter.api.Assertions.*;

    import org.junit.jupiter.api.*;
    import org.junit.jupiter.params.ParameterizedTest;
    import org.junit.jupiter.params.provider.ValueSource;

    class EndsTest {
        static int check(int number) {
            if (number > 2) {
                System.exit(0); // @exit
            }
            return number;
        }

        @Test void exits() {
            for (int number = 0; number < 5; number++) {
                check(number);
            }
            fail("not reached");
        }
        @Test void halts() throws Exception {
            Thread worker = new Thread(() -> Runtime.getRuntime().halt(3)); // @halt
            worker.start();
            worker.join();
        }
        @ParameterizedTest @ValueSource(ints = {1, 2, 3})
        void each(int number) {
            assertTrue(number > 0);
        }
        @Test void passes() { }
        @Test void assumes() {
            Assumptions.assumeTrue(false, "no net");
        }
        @Test @Disabled("too slow") void skips() { }

        @Nested class Inner {
            @Test void one() { }
            @Test @Disabled void two() { }
        }
    }
"""
OLD = """
    import org.junit.*;

    public class OldTest {
        @Test public void exits() {
            System.exit(7); // @old
        }
        @Test public void exitsAsIf() {
            System.exit(2); // @two
        }
        @Test(expected = IllegalStateException.class) public void raises() {
            throw new IllegalStateException();
        }
    }
"""
UNFINISHED = "the test run did not come to its end: "


@pytest.fixture(scope="module")
def tests() -> Iterator[JavaBench]:
    with java_benches() as open_one:
        bench = open_one()
        bench.write({FILE: TESTS, "OldTest.java": OLD})
        yield bench


def run(bench: JavaBench, test: str) -> DebugEvent:
    """The end of a run without a stop."""
    event = bench.start(test=test, stop_at_entry=False)
    assert event.stop_reason is StopReason.EXITED
    return event


@pytest.mark.parametrize(
    ("test", "code", "said"),
    [
        ("EndsTest#passes", 0, ["EndsTest#passes passed in this run"]),
        ("EndsTest#each", 0, ["3 tests passed in this run"]),
        ("EndsTest#each[2]", 0, ["EndsTest#each[2] passed in this run"]),
        ("EndsTest#skips", 0, ["EndsTest#skips was skipped"]),
        (
            "EndsTest#assumes",
            0,
            ["the test was skipped: Assumption failed: no net", "EndsTest#assumes was skipped"],
        ),
        ("EndsTest$Inner", 0, ["1 test passed in this run", "1 test was skipped"]),
        ("OldTest#raises", 0, ["OldTest#raises passed in this run"]),
    ],
)
def test_the_results_are_counted(tests: JavaBench, test: str, code: int, said: list[str]) -> None:
    event = run(tests, test)
    assert (event.exit_code, list(event.notes)) == (code, said)


@pytest.mark.parametrize(
    ("test", "mark", "said"),
    [
        ("EndsTest#exits", "exit", "System.exit(0) at {} in EndsTest.check"),
        ("EndsTest#halts", "halt", "Runtime.halt(3) at {} in EndsTest.halts.<lambda>"),
        ("OldTest#exits", "old", "System.exit(7) at {} in OldTest.exits"),
        ("OldTest#exitsAsIf", "two", "System.exit(2) at {} in OldTest.exitsAsIf"),
    ],
)
def test_what_ended_the_program_before_its_test_is_told(
    tests: JavaBench, test: str, mark: str, said: str
) -> None:
    event = run(tests, test)
    file = f"{test.partition('#')[0]}.java"
    end = said.format(f"{file}:{tests.line(mark, file)}")
    assert event.notes == (f"{UNFINISHED}{end} ended the program",)
