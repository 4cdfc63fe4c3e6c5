"""Exceptions in Java: of other threads, with causes, and as what expressions see."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sandbox.debugger import Action, BreakpointRequest, DebugEvent, State, StopReason, render
from tests.sandbox.debugger.java_bench import JavaBench, java_benches

FILE = "FailsTest.java"
TESTS = """
    import static org.junit.jupiter.api.Assertions.*;

    import java.io.IOException;
    import java.time.Duration;
    import java.util.*;
    import java.util.concurrent.*;
    import org.junit.jupiter.api.*;

    class FailsTest {
        static int parse(String text) {
            return Integer.parseInt(text); // @parse
        }

        static class Coded extends RuntimeException {
            final int code;

            Coded(int code, Throwable cause) {
                super("code " + code, cause);
                this.code = code;
            }
        }

        static int load(String text) {
            int size = text.length();
            try {
                return parse(text);
            } catch (NumberFormatException error) {
                throw new Coded(size, error); // @coded
            }
        }

        static class Closing implements AutoCloseable {
            public void close() throws IOException {
                throw new IOException("can't be closed"); // @close
            }
        }

        @Test void threads() throws Exception {
            Thread worker = new Thread(() -> parse("in a thread"), "worker");
            worker.start();
            worker.join();
            Thread handled = new Thread(() -> parse("handled"));
            handled.setUncaughtExceptionHandler((thread, error) -> { });
            handled.start();
            handled.join();
            ExecutorService pool = Executors.newSingleThreadExecutor();
            pool.execute(() -> parse("executed"));
            Future<?> future = pool.submit(() -> parse("submitted"));
            assertThrows(ExecutionException.class, () -> future.get());
            pool.shutdown();
            assertTrue(pool.awaitTermination(9, TimeUnit.SECONDS));
            ForkJoinTask<?> task = new ForkJoinPool(1).submit(() -> parse("forked"));
            assertThrows(NumberFormatException.class, () -> task.join());
            assertEquals(7, CompletableFuture.supplyAsync(() -> parse("completed"))
                    .exceptionally(error -> 7).join());
        }
        @Test void one() throws Exception {
            Thread worker = new Thread(() -> parse("in a thread"), "worker");
            worker.start();
            worker.join();
            assertEquals(1, 2); // @one
        }
        @Test void submitted() throws Exception {
            ExecutorService pool = Executors.newSingleThreadExecutor();
            Future<?> future = pool.submit(() -> parse("submitted"));
            assertThrows(ExecutionException.class, () -> future.get());
            pool.shutdown();
        }
        @Test void forgotten() throws Exception {
            ExecutorService pool = Executors.newSingleThreadExecutor();
            pool.submit(() -> parse("forgotten"));
            pool.shutdown();
            assertTrue(pool.awaitTermination(9, TimeUnit.SECONDS));
        }
        @Test void executed() throws Exception {
            ExecutorService pool = Executors.newSingleThreadExecutor();
            pool.execute(() -> parse("executed"));
            pool.shutdown();
            assertTrue(pool.awaitTermination(9, TimeUnit.SECONDS));
        }
        @Test void asked() throws Exception {
            ExecutorService pool = Executors.newSingleThreadExecutor();
            Future<?> future = pool.submit(() -> parse("asked"));
            pool.shutdown();
            try {
                future.get(); // @asked
            } catch (ExecutionException error) {
                assertNotNull(error.getCause());
            }
        }
        @Test void severalTimes() {
            IOException shared = new IOException("shared");
            List<IOException> kept = new ArrayList<>();
            for (String text : Arrays.asList("first", "second")) {
                try {
                    throw new IOException(text);
                } catch (IOException error) {
                    kept.add(error);
                }
            }
            kept.forEach(error -> again(error));
            for (int turn = 0; turn < 2; turn++) {
                try {
                    throw shared;
                } catch (IOException error) {
                    again(error);
                }
            }
        }
        static void again(IOException error) {
            try {
                throw error;
            } catch (IOException same) {
                assertSame(error, same);
            }
        }
        @Test @Timeout(value = 60, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
        void elsewhere() {
            parse("in a thread of the runner's"); // @elsewhere
        }
        @Test void chain() {
            try {
                load("six");
            } catch (Coded error) {
                throw new IllegalStateException("outer", error); // @outer
            }
        }
        @Test void completed() throws Exception {
            CompletableFuture.supplyAsync(() -> load("seven")).get(); // @get
        }
        @Test void suppressed() throws Exception {
            try (Closing closing = new Closing()) {
                load("eight");
            }
        }
        @Test void passedOn() {
            try {
                load("nine");
            } catch (Coded error) {
                System.out.println("failed: " + error.code);
                throw error; // @again
            }
        }
        @Test void sometimes() {
            try {
                load("nine");
            } catch (Coded error) {
                if (error.code != 4) {
                    throw error;
                }
            }
            assertEquals(1, 2); // @later
        }
        @Test void carried() throws Throwable {
            Throwable[] raised = new Throwable[1];
            Thread worker = new Thread(() -> {
                try {
                    load("nine"); // @work
                } catch (Coded error) {
                    error.addSuppressed(new IOException("can't be kept")); // @kept
                    raised[0] = error;
                }
            });
            worker.start();
            worker.join();
            throw raised[0]; // @carried
        }
        @Test void limited() {
            assertTimeoutPreemptively(Duration.ofSeconds(60), () -> {
                int size = "three".length();
                assertEquals(2, size);
            });
        }
        @Test void limitedAndHandled() {
            assertThrows(Coded.class, () ->
                assertTimeoutPreemptively(Duration.ofSeconds(60), () -> load("nine")));
            try {
                assertTimeoutPreemptively(Duration.ofSeconds(60), () -> load("nine"));
            } catch (Coded error) {
                assertEquals(4, error.code);
            }
        }
        @Test void circle() {
            Exception first = new Exception("first\\nNote: not ours");
            IllegalStateException second = new IllegalStateException("second", first);
            first.initCause(second);
            for (int number = 0; number < 100; number++) {
                second.addSuppressed(new Exception("number " + number));
            }
            throw second;
        }
        @Test void plain() {
            parse("ten");
        }
    }
"""
SEE_THEM = "to see the frames and variables of a cause, set an exception breakpoint on its class "
ANY = BreakpointRequest(exception="NumberFormatException", uncaught=True)


@pytest.fixture(scope="module")
def tests() -> Iterator[JavaBench]:
    with java_benches() as open_one:
        bench = open_one()
        bench.write({FILE: TESTS})
        yield bench


def run(bench: JavaBench, test: str, *breakpoints: BreakpointRequest) -> DebugEvent:
    """What a test comes to, without a stop at its entry."""
    return bench.start(*breakpoints, test=f"FailsTest#{test}", stop_at_entry=False)


def behind(event: DebugEvent) -> list[str]:
    """The lines that tell of the exceptions behind the one that was raised."""
    lines = render(event).splitlines()
    first = next(n for n, line in enumerate(lines) if line.startswith("Exception: ")) + 1
    assert event.exception is not None
    related = event.exception.related
    return lines[first : first + len(related) + (event.exception.unlisted > 0)]


def created(bench: JavaBench, mark: str, function: str) -> str:
    return f"created at {FILE}:{bench.line(mark, FILE)} in FailsTest.{function}"


def test_an_exception_of_another_thread_is_not_the_tests_end(tests: JavaBench) -> None:
    event = run(tests, "threads")
    assert (event.state, event.exit_code) == (State.DONE, 0), event
    assert "NumberFormatException" in event.output
    event = run(tests, "one")
    assert (event.state, event.line) == (State.POST_MORTEM, tests.line("one", FILE))
    assert event.thread is None


@pytest.mark.slow
def test_uncaught_is_a_stop_in_each_thread_and_not_the_end(tests: JavaBench) -> None:
    event = run(tests, "threads", ANY)
    seen = []
    while event.state is State.RUNTIME_ERROR:
        assert event.exception is not None
        assert (event.stop_reason, event.line) == (
            StopReason.EXCEPTION,
            tests.line("parse", FILE),
        )
        seen.append(event.exception.message.split('"')[1])
        event = tests.debugger.control(Action.CONTINUE)
    assert seen == ["in a thread", "handled", "executed"]
    assert (event.state, event.exit_code) == (State.DONE, 0)
    (kept,) = [note for note in event.notes if note.startswith("breakpoint 1 ")]
    place = f"raised at {FILE}:{tests.line('parse', FILE)} in thread "
    assert kept.startswith(f"breakpoint 1 does not count java.lang.NumberFormatException, {place}")
    assert kept.endswith(
        "CompletableFuture kept it, and it is not known whether the program handled it"
    )


def test_an_exception_that_a_future_keeps_is_uncaught_if_nothing_asks(tests: JavaBench) -> None:
    event = run(tests, "submitted", ANY)
    assert (event.state, event.exit_code) == (State.DONE, 0)
    assert [point.hits for point in tests.debugger.list_breakpoints().breakpoints] == [0]
    event = run(tests, "forgotten", ANY)
    assert (event.state, event.exit_code) == (State.DONE, 0)
    place = f"{FILE}:{tests.line('parse', FILE)} in thread pool-1-thread-1"
    assert (
        f"breakpoint 1 counts java.lang.NumberFormatException, raised at {place}:"
        " java.util.concurrent.FutureTask kept it, and nothing asked for the task's result"
    ) in event.notes
    assert [point.hits for point in tests.debugger.list_breakpoints().breakpoints] == [1]
    event = run(tests, "asked", ANY, BreakpointRequest(exception="ExecutionException"))
    assert (event.state, event.line) == (State.RUNTIME_ERROR, tests.line("asked", FILE))
    assert [point.number for point in event.hit] == [2]


def test_an_exception_is_counted_once_however_often_it_is_raised_again(tests: JavaBench) -> None:
    event = run(tests, "severalTimes", BreakpointRequest(exception="IOException"))
    raised = []
    while event.state is State.RUNTIME_ERROR:
        assert event.exception is not None
        raised.append(event.exception.message)
        event = tests.debugger.control(Action.CONTINUE)
    assert raised == ["first", "second", "shared", "shared"]


def test_a_stop_says_what_becomes_of_an_exception_that_no_frame_handles(tests: JavaBench) -> None:
    event = run(tests, "one", ANY)
    assert (event.state, event.thread) == (State.RUNTIME_ERROR, "worker")
    assert "no frame catches it: it ends this thread, and the run goes on" in event.notes
    event = run(tests, "executed", ANY)
    fate = "java.util.concurrent.ThreadPoolExecutor.runWorker, outside the program, catches it"
    assert f"{fate} and may hand it on to the program" in event.notes


def test_a_test_may_run_in_a_thread_of_its_runner(tests: JavaBench) -> None:
    event = run(tests, "elsewhere")
    assert (event.state, event.line) == (State.POST_MORTEM, tests.line("parse", FILE))
    assert [frame.function for frame in tests.debugger.stack().frames][1] == "FailsTest.elsewhere"


def test_the_causes_of_an_exception_are_told_with_their_places(tests: JavaBench) -> None:
    event = run(tests, "chain")
    assert event.line == tests.line("outer", FILE)
    message = 'java.lang.NumberFormatException: For input string: "six"'
    assert behind(event) == [
        f"    caused by FailsTest$Coded: code 3, {created(tests, 'coded', 'load')}",
        f"        caused by {message}, {created(tests, 'parse', 'parse')}",
    ]
    assert tests.text_of("((Coded) __exception__.getCause()).code") == "3"
    cause = tests.debugger.fields("__exception__.getCause().getCause()")
    assert cause.values[0].text == r'"For input string: \"six\""'
    assert f"{SEE_THEM}and restart" in event.notes
    event = run(tests, "chain", BreakpointRequest(exception="java.lang.NumberFormatException"))
    assert (event.state, event.function) == (State.RUNTIME_ERROR, "FailsTest.parse")
    assert tests.text_of("text") == '"six"'
    assert tests.text_of("size", frame=1) == "3"


@pytest.mark.parametrize("test", ["suppressed", "passedOn"])
def test_what_only_passes_an_exception_on_does_not_hide_where_it_was_raised(
    tests: JavaBench, test: str
) -> None:
    event = run(tests, test, BreakpointRequest(exception="Coded", uncaught=True))
    assert (event.state, event.line) == (State.POST_MORTEM, tests.line("coded", FILE))
    assert [point.hits for point in event.hit] == [1]
    functions = [frame.function for frame in tests.debugger.stack().frames]
    assert functions == ["FailsTest.load", f"FailsTest.{test}"]


def test_a_handler_that_may_go_on_is_no_end(tests: JavaBench) -> None:
    event = run(tests, "sometimes")
    assert (event.state, event.line) == (State.POST_MORTEM, tests.line("later", FILE))


def test_an_exception_under_a_preemptive_time_limit_stops_where_it_is_raised(
    tests: JavaBench,
) -> None:
    event = run(tests, "limited")
    assert event.state is State.POST_MORTEM
    assert event.function == "FailsTest.limited.<lambda>"
    assert [value.name for value in tests.debugger.locals().values] == ["size"]
    event = run(tests, "limitedAndHandled")
    assert (event.stop_reason, event.exit_code) == (StopReason.EXITED, 0)


@pytest.mark.slow
def test_what_an_exception_suppressed_and_where_it_was_first_is_told(tests: JavaBench) -> None:
    event = run(tests, "carried")
    place = created(tests, "coded", "load")
    caller = f"{FILE}:{tests.line('work', FILE)} in FailsTest.carried.<lambda>"
    note = f"this exception was raised before; it was {place}, called from {caller}"
    assert (event.line, note in event.notes) == (tests.line("carried", FILE), True)
    lines = behind(event)
    assert lines[0].startswith("    caused by java.lang.NumberFormatException: ")
    kept = created(tests, "kept", "carried.<lambda>")
    assert lines[1:] == [f"    suppressed java.io.IOException: can't be kept, {kept}"]
    event = run(tests, "completed")
    assert event.line == tests.line("get", FILE)
    assert [line.split(":")[0].strip() for line in behind(event)] == [
        "caused by FailsTest$Coded",
        "caused by java.lang.NumberFormatException",
    ]


@pytest.mark.slow
def test_causes_are_bounded_and_look_like_no_other_line(tests: JavaBench) -> None:
    event = run(tests, "circle")
    lines = behind(event)
    assert event.exception is not None
    assert (len(event.exception.related), event.exception.unlisted) == (8, 53)
    assert lines[0].startswith("    caused by java.lang.Exception: first, created at")
    assert lines[-2] == "    ... 53 more, and the last:"
    assert not any(line.startswith("Note: not ours") for line in render(event).splitlines())
    assert behind(run(tests, "plain")) == []


def test_expressions_and_conditions_see_the_exception(tests: JavaBench) -> None:
    point = BreakpointRequest(
        exception="RuntimeException",
        condition='__exception__.getMessage().startsWith("code")',
        watch=("__exception__", "size"),
    )
    event = run(tests, "chain", point)
    assert event.line == tests.line("coded", FILE)
    assert [value.text for value in event.values] == ["FailsTest.Coded: code 3", "3"]
    assert tests.text_of("((Coded) __exception__).code + 1") == "4"
    assert tests.text_of("Optional.of(__exception__).map(each -> each.getMessage()).get()") == (
        '"code 3"'
    )
    tests.debugger.run_code("String said = __exception__.getMessage();")
    assert tests.text_of("said") == '"code 3"'
    event = tests.debugger.control(Action.STEP_OVER)
    assert event.state is State.RUNTIME
    error = tests.debugger.evaluate("__exception__").error
    assert error is not None
    assert error.startswith("no variable, field or class is named __exception__ here")


INITIALISERS = """
    public class Program {
        static int compute() {
            Object missing = null;
            return missing.hashCode(); // @raised
        }

        static class First {
            static int value = compute();
        }

        static class Second {
            static int value = compute();
        }

        public static void main(String[] args) {
            try {
                System.out.println(First.value);
            } catch (ExceptionInInitializerError error) {
                System.out.println("caught");
            }
            try {
                System.out.println(Second.value); // @used
            } catch (CAUGHT error) {
                System.out.println("never");
            }
        }
    }
"""
ERROR = "java.lang.ExceptionInInitializerError"


def test_an_exception_that_ends_a_static_initialiser_ends_the_run_as_an_error(
    java_bench: JavaBench,
) -> None:
    java_bench.program(INITIALISERS.replace("CAUGHT", "IllegalStateException"))
    event = java_bench.debugger.control(Action.CONTINUE)
    assert (event.state, event.output) == (State.POST_MORTEM, "caught\n")
    assert event.line == java_bench.line("raised")
    assert (
        f"this exception ends the static initialiser of Program.Second, so {ERROR}, caused by it,"
        f" ends the run; it is raised at Program.java:{java_bench.line('used')} in Program.main"
    ) in event.notes


def test_a_handler_of_the_exception_does_not_catch_the_error_of_the_initialiser(
    java_bench: JavaBench,
) -> None:
    java_bench.program(INITIALISERS.replace("CAUGHT", "NullPointerException"))
    event = java_bench.debugger.control(Action.CONTINUE)
    assert (event.state, event.line) == (State.POST_MORTEM, java_bench.line("used"))
    assert event.exception is not None
    assert event.exception.type == ERROR
    [cause] = event.exception.related
    assert (cause.type, cause.line) == (
        "java.lang.NullPointerException",
        java_bench.line("raised"),
    )
