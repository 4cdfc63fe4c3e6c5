"""What a Java test still runs after the exception that ends it was raised: its hits count."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sandbox.debugger import Action, BreakpointRequest, DebugEvent, State, StopReason
from tests.sandbox.debugger.java_bench import JavaBench, java_benches

FILE = "EndTest.java"
TESTS = """
    import static org.junit.jupiter.api.Assertions.*;

    import java.io.IOException;
    import java.util.*;
    import org.junit.jupiter.api.*;

    class EndTest {
        static final List<String> log = new ArrayList<>();

        static class Door implements AutoCloseable {
            private final String name;

            Door(String name) {
                this.name = name;
            }

            public void close() throws IOException {
                log.add(name); // @close
                if (name.startsWith("stuck")) {
                    throw new IOException(name); // @stuck
                }
            }
        }

        interface Step {
            void take(String name);
        }

        static void note(String name) {
            log.add(name); // @note
        }

        static void each(List<String> names, Step step) {
            names.forEach(name -> step.take(name));
        }

        static void fail(String name) {
            int size = name.length();
            throw new IllegalStateException(name + size); // @fail
        }

        @Test void resources() throws IOException {
            try (Door first = new Door("first"); Door second = new Door("stuck")) {
                note("inside");
                fail("resources");
            }
        }
        @Test void nested() throws IOException {
            try {
                try (Door first = new Door("inner")) {
                    fail("nested");
                } finally {
                    each(Arrays.asList("a", "b"), name -> {
                        note(name);
                    });
                }
            } catch (IllegalStateException error) {
                new Door("outer").close();
                throw error;
            }
        }
        @Test void handsOver() {
            try {
                fail("handsOver");
            } finally {
                Arrays.asList("c", "d").forEach(new java.util.function.Consumer<String>() {
                    @Override public void accept(String name) {
                        note(name);
                    }
                });
            }
        }
        @Test void unrelated() throws IOException {
            note("before");
            try (Door first = new Door("closed")) {
                log.add("inside");
            }
            try {
                fail("unrelated");
            } finally {
                log.clear();
            }
        }

        @Nested class Cleaned {
            @AfterEach void clean() {
                note("after"); // @clean
            }

            @Test void cleaned() {
                note("cleaned");
                fail("cleaned");
            }
        }

        static class Base {
            @AfterAll static void last() {
                note("last");
            }
        }

        @Nested class Inherits extends Base {
            @Test void inherits() {
                fail("inherits");
            }
        }
    }
"""


@pytest.fixture(scope="module")
def tests() -> Iterator[JavaBench]:
    with java_benches() as open_one:
        bench = open_one()
        bench.write({FILE: TESTS})
        yield bench


def run(bench: JavaBench, test: str, *points: BreakpointRequest) -> list[DebugEvent]:
    """All stops of a test, by continuing until its end."""
    events = [bench.start(*points, test=test, stop_at_entry=False)]
    while events[-1].state in (State.RUNTIME, State.RUNTIME_ERROR):
        events.append(bench.debugger.control(Action.CONTINUE))
    return events


def hits(bench: JavaBench) -> list[int]:
    return [point.hits for point in bench.debugger.list_breakpoints().breakpoints]


CLOSE = BreakpointRequest(function="Door.close", watch=("name",))
NOTE = BreakpointRequest(function="EndTest.note", watch=("name",))


@pytest.mark.parametrize(
    ("test", "point", "names", "end"),
    [
        ("EndTest#resources", CLOSE, ["stuck", "first"], State.POST_MORTEM),
        ("EndTest#nested", CLOSE, ["inner", "outer"], State.POST_MORTEM),
        ("EndTest#nested", NOTE, ["a", "b"], State.POST_MORTEM),
        ("EndTest#handsOver", NOTE, ["c", "d"], State.POST_MORTEM),
        ("EndTest.Cleaned#cleaned", NOTE, ["cleaned", "after"], State.DONE),
        ("EndTest.Inherits#inherits", NOTE, ["last"], State.DONE),
    ],
)
def test_what_runs_until_the_tests_end_is_hit_and_collected(
    tests: JavaBench, test: str, point: BreakpointRequest, names: list[str], end: State
) -> None:
    events = run(tests, test, point)
    assert [event.values[0].text for event in events if event.hit] == [f'"{n}"' for n in names]
    (raised,) = [event for event in events if event.state is State.RUNTIME_ERROR]
    assert (raised.line, raised.hit) == (tests.line("fail", FILE), ())
    assert raised.notes[-1] == (
        "this exception ends the test; what runs before its end, such as finally blocks, close()"
        " and methods after the test, may still reach breakpoint 1"
    )
    assert (events[-1].state, hits(tests)) == (end, [len(names)])
    tests.start(test=test)
    event = tests.debugger.collect(point, 20)
    assert [hit.values[0].text for hit in event.collected] == [f'"{name}"' for name in names]
    assert event.state is end


def test_the_frames_are_there_before_the_rest_runs(tests: JavaBench) -> None:
    event = tests.start(CLOSE, test="EndTest#resources", stop_at_entry=False)
    assert event.state is State.RUNTIME_ERROR
    assert tests.text_of("size") == "9"
    event = tests.debugger.control(Action.STEP_OUT)
    assert (event.stop_reason, event.function) == (StopReason.STEP, "EndTest.resources")
    event = tests.debugger.control(Action.CONTINUE)
    assert (event.line, event.hit[0].hits) == (tests.line("close", FILE), 1)


def test_an_exception_of_what_runs_then_is_a_hit(tests: JavaBench) -> None:
    point = BreakpointRequest(exception="IOException")
    events = run(tests, "EndTest#resources", point)
    assert [event.line for event in events if event.hit] == [tests.line("stuck", FILE)]
    assert (events[-1].state, hits(tests)) == (State.POST_MORTEM, [1])


@pytest.mark.parametrize("point", [CLOSE, NOTE])
def test_what_cannot_be_reached_any_more_does_not_delay_the_post_mortem(
    tests: JavaBench, point: BreakpointRequest
) -> None:
    events = run(tests, "EndTest#unrelated", point)
    assert [event.state for event in events] == [State.RUNTIME, State.POST_MORTEM]
    assert (events[-1].line, tests.text_of("size")) == (tests.line("fail", FILE), "9")


OLD_TESTS = """
    import static org.junit.Assert.*;

    import org.junit.*;
    import org.junit.rules.ExternalResource;

    public class OldTest {
        @Rule public final ExternalResource resource = new ExternalResource() {
            @Override protected void after() {
                note("rule");
            }
        };

        static void note(String name) {
            System.out.println(name); // @note
        }

        @After public void clean() {
            note("after");
        }

        @Test public void fails() {
            int size = 3;
            assertEquals(4, size); // @fail
        }
    }
"""


@pytest.mark.slow
def test_methods_and_rules_of_junit_4_count_too(tests: JavaBench) -> None:
    tests.write({"OldTest.java": OLD_TESTS})
    point = BreakpointRequest(function="OldTest.note", watch=("name",))
    events = run(tests, "OldTest#fails", point)
    assert events[0].state is State.RUNTIME_ERROR
    names = [event.values[0].text for event in events if event.hit]
    assert names == ['"after"', '"rule"']
    assert (events[-1].state, events[-1].exit_code) == (State.DONE, 1)
