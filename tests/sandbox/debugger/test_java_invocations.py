"""One invocation of a Java test that runs several times: debugged alone, or refused."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sandbox.debugger import Action, DebugEvent, ErrorKind, Launch, State
from tests.sandbox.debugger.java_bench import JavaBench, java_benches

JUPITER = """
    import static org.junit.jupiter.api.Assertions.*;

    import java.util.*;
    import org.junit.jupiter.api.*;
    import org.junit.jupiter.params.ParameterizedTest;
    import org.junit.jupiter.params.provider.*;

    class ManyTest {
        @ParameterizedTest(name = "{0} squared")
        @CsvSource({"1, 1", "2, 5", "3, 9"})
        void squares(int number, int square) {
            assertEquals(square, number * number);
        }
        @Nested class Inner {
            @ParameterizedTest
            @ValueSource(ints = {7, 8})
            void sevens(int number) {
                assertEquals(7, number);
            }
        }
        @RepeatedTest(3) void repeated(RepetitionInfo info) {
            int number = info.getCurrentRepetition();
            assertTrue(number < 3); // @repeated
        }
        @TestFactory List<DynamicTest> made() {
            return Arrays.asList(
                DynamicTest.dynamicTest("good", () -> assertEquals(1, 1)),
                DynamicTest.dynamicTest("bad", () -> assertEquals(1, 2)));
        }
        @Test void plain() {
        }
    }
"""
OLD = """
    import static org.junit.Assert.*;

    import java.util.*;
    import org.junit.*;
    import org.junit.runner.RunWith;
    import org.junit.runners.Parameterized;

    @RunWith(Parameterized.class)
    public class OldTest {
        @Parameterized.Parameters(name = "{index}: number {0}")
        public static Collection<Object[]> data() {
            return Arrays.asList(new Object[][] {{1}, {2}, {3}});
        }
        @Parameterized.Parameter public int number;
        @Test public void small() {
            assertTrue(number < 3);
        }
    }
"""
TESTNG = """
    import org.testng.Assert;
    import org.testng.annotations.*;

    public class NewTest {
        @DataProvider Object[][] data() {
            return new Object[][] {{1}, {2}, {3}};
        }
        @Test(dataProvider = "data") public void small(int number) {
            Assert.assertTrue(number < 3);
        }
    }
"""


@pytest.fixture(scope="module")
def tests() -> Iterator[JavaBench]:
    with java_benches() as open_one:
        bench = open_one()
        bench.write({"ManyTest.java": JUPITER, "OldTest.java": OLD, "NewTest.java": TESTNG})
        yield bench


def entry(bench: JavaBench, test: str) -> DebugEvent:
    return bench.debugger.start(Launch(test))


@pytest.mark.parametrize(
    ("test", "number", "passes"),
    [
        ("ManyTest#squares[3]", "3", True),
        pytest.param("ManyTest#squares(int, int)[2]", "2", False, marks=pytest.mark.slow),
        pytest.param("ManyTest$Inner#sevens[2]", "8", False, marks=pytest.mark.slow),
        pytest.param("NewTest#small[2]", "3", False, marks=pytest.mark.slow),
        pytest.param("NewTest#small[0]", "1", True, marks=pytest.mark.slow),
        pytest.param("OldTest#small[2]", "3", False, marks=pytest.mark.slow),
        pytest.param("OldTest#small[0: number 1]", "1", True, marks=pytest.mark.slow),
    ],
)
def test_one_invocation_is_debugged_alone(
    tests: JavaBench, test: str, number: str, passes: bool
) -> None:
    event = entry(tests, test)
    assert event.state is State.RUNTIME, event.error
    assert tests.text_of("number") == number
    event = tests.debugger.control(Action.CONTINUE)
    assert event.state is (State.DONE if passes else State.POST_MORTEM)
    assert not passes or event.exit_code == 0


@pytest.mark.slow
def test_repeated_and_dynamic_tests_have_invocations_too(tests: JavaBench) -> None:
    event = tests.start(tests.at("repeated", "ManyTest.java"), test="ManyTest#repeated[3]")
    assert tests.text_of("number") == "3"
    assert entry(tests, "ManyTest#made[2]").function == "ManyTest.made"
    event = tests.debugger.control(Action.CONTINUE)
    assert (event.state, event.function) == (State.POST_MORTEM, "ManyTest.made.<lambda>")
    entry(tests, "ManyTest#made[1]")
    assert tests.debugger.control(Action.CONTINUE).exit_code == 0


@pytest.mark.parametrize(
    ("test", "number"),
    [
        ("ManyTest#squares", 2),
        pytest.param("ManyTest#squares[2]", 2, marks=pytest.mark.slow),
        pytest.param("ManyTest#repeated", 3, marks=pytest.mark.slow),
        ("ManyTest#made", 2),
        pytest.param("NewTest#small", None, marks=pytest.mark.slow),
    ],
)
def test_the_failing_invocation_is_named(tests: JavaBench, test: str, number: int | None) -> None:
    event = tests.debugger.start(Launch(test, stop_at_entry=False))
    assert event.state is State.POST_MORTEM
    notes = [note for note in event.notes if "invocation" in note]
    wanted = f"this is invocation [{number}] of the test; any after it were not run"
    assert notes == ([wanted] if number else [])


@pytest.mark.parametrize(
    ("test", "said"),
    [
        ("ManyTest#squares[4]", "has no such invocation"),
        pytest.param(
            "ManyTest#squares[1 squared]",
            "an invocation of squares is named by its number, from 1 on: squares[1]",
            marks=pytest.mark.slow,
        ),
        pytest.param("ManyTest#squares[0]", "from 1 on", marks=pytest.mark.slow),
        pytest.param("ManyTest#plain[1]", "no test of several", marks=pytest.mark.slow),
        pytest.param("OldTest#small[3]", "has no such invocation", marks=pytest.mark.slow),
        pytest.param("NewTest#small[3]", "has no such invocation", marks=pytest.mark.slow),
    ],
)
def test_an_invocation_that_is_not_there_is_refused(tests: JavaBench, test: str, said: str) -> None:
    event = entry(tests, test)
    assert (event.state, event.error_kind) == (State.START, ErrorKind.NO_SUCH_TEST)
    assert said in (event.error or "")
