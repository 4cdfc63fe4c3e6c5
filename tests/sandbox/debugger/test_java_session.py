"""Java sessions as a whole: entry, post mortem, output, input, threads, ends."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from sandbox import SandboxConfig
from sandbox.debugger import (
    Action,
    BreakpointRequest,
    DebugEvent,
    ErrorKind,
    KillReason,
    State,
    StopReason,
)
from tests.sandbox.debugger.conftest import interrupted_by_another
from tests.sandbox.debugger.java_bench import LIMITS, JavaBench, java_benches
from tests.sandbox.users import USERS, run_as

CALCULATOR = """
    package demo;

    public class Calculator {
        int total(int[] items) {
            int sum = 0;
            for (int item : items) {
                sum += item;
            }
            return sum; // @sum
        }

        int parse(String text) {
            try {
                return Integer.parseInt(text); // @parse
            } finally {
                total(new int[0]); // @finally
            }
        }

        synchronized int locked(int[] items) {
            return items[3]; // @locked
        }

        static void refuse() {
            throw new IllegalArgumentException("refused"); // @refuse
        }

        static int tolerate(int times) {
            int caught = 0;
            for (int turn = 0; turn < times; turn++) {
                try {
                    refuse();
                } catch (IllegalArgumentException error) {
                    caught++;
                }
            }
            return caught;
        }
    }
"""
JUNIT4 = """
    package demo;

    import static org.junit.Assert.*;
    import org.junit.*;
    import org.junit.rules.*;

    public class OldTest {
        @Rule public ExpectedException thrown = ExpectedException.none();
        Calculator calculator = new Calculator();

        @Test public void fails() {
            int total = calculator.total(new int[] {1, 2, 3}); // @fails
            assertEquals(7, total); // @assert
        }
        @Test public void parses() {
            calculator.parse("six");
        }
        @Test public void locks() {
            calculator.locked(new int[2]);
        }
        @Test(expected = RuntimeException.class) public void expects() {
            Calculator.refuse();
        }
        @Test public void wants() {
            thrown.expect(IllegalArgumentException.class);
            Calculator.refuse();
        }
        @Test public void asserts() {
            assertThrows(IllegalArgumentException.class, Calculator::refuse);
            assertEquals(50, Calculator.tolerate(50));
            assertEquals(0, Calculator.tolerate(100000));
        }
        @Test(timeout = 60000) public void limited() {
            Calculator.refuse();
        }
        @Test public void skips() {
            Assume.assumeTrue("not today", false);
        }
    }
"""
JUNIT5 = """
    package demo;

    import static org.junit.jupiter.api.Assertions.*;
    import org.junit.jupiter.api.*;

    class NewTest {
        int number;

        @BeforeEach void prepare() {
            number = 6;
        }
        @Test void fails() {
            assertThrows(IllegalArgumentException.class, () -> Calculator.refuse());
            assertEquals(7, number, "number"); // @assert
        }
        @Test void passes() {
            number++; // @passes
        }
    }
"""


@pytest.fixture(scope="module")
def tests() -> Iterator[JavaBench]:
    """JUnit 4 and 5 tests of one class, compiled once.

    Two virtual machines have some 40 threads; a test runner loads a thousand classes, and no event
    of theirs may leave another one behind.
    """
    with java_benches() as open_one:
        bench = open_one(config=SandboxConfig(pids=64))
        files = {"Calculator": CALCULATOR, "OldTest": JUNIT4, "NewTest": JUNIT5}
        bench.write({f"src/demo/{name}.java": text for name, text in files.items()})
        yield bench


def run(bench: JavaBench, test: str) -> DebugEvent:
    """What a test comes to after its entry."""
    event = bench.start(test=test)
    assert (event.stop_reason, event.depth) == (StopReason.ENTRY, 1), event
    return bench.debugger.control(Action.CONTINUE)


def test_a_failing_assertion_is_post_mortem_in_the_test(tests: JavaBench) -> None:
    event = run(tests, "demo.OldTest#fails")
    assert (event.state, event.stop_reason) == (State.POST_MORTEM, StopReason.EXCEPTION)
    file = "src/demo/OldTest.java"
    assert (event.file, event.line) == (file, tests.line("assert", file))
    assert event.function == "OldTest.fails"
    assert event.exception is not None
    assert event.exception.type == "java.lang.AssertionError"
    assert event.exception.message == "expected:<7> but was:<6>"
    assert tests.text_of("total + 1") == "7"
    assert tests.text_of("calculator.total(new int[] {4, 5})") == "9"
    event = tests.debugger.control(Action.CONTINUE)
    assert event.error_kind is ErrorKind.NOT_ALLOWED
    assert Action.RESTART in event.allowed
    assert tests.debugger.restart().stop_reason is StopReason.ENTRY


@pytest.mark.slow
def test_an_exception_of_a_library_is_found_by_its_simple_name(tests: JavaBench) -> None:
    raised = BreakpointRequest(exception="AssertionFailedError")
    event = tests.start(raised, test="demo.NewTest#fails")
    assert [point.hits for point in event.breakpoints] == [1], event
    assert event.exception is not None
    assert event.exception.type == "org.opentest4j.AssertionFailedError"


@pytest.mark.slow
def test_jupiter_fails_alike(tests: JavaBench) -> None:
    event = run(tests, "demo.NewTest#fails")
    assert (event.state, event.function) == (State.POST_MORTEM, "NewTest.fails")
    assert event.exception is not None
    assert event.exception.type == "org.opentest4j.AssertionFailedError"
    passed = run(tests, "demo.NewTest#passes")
    assert passed.exit_code == 0
    assert "demo.NewTest#passes passed in this run" in passed.notes


@pytest.mark.slow
@pytest.mark.parametrize(
    ("test", "mark", "depth"), [("parses", "parse", 2), ("locks", "locked", 2)]
)
def test_finally_and_locks_do_not_hide_where_it_was_raised(
    tests: JavaBench, test: str, mark: str, depth: int
) -> None:
    event = run(tests, f"demo.OldTest#{test}")
    assert (event.state, event.depth) == (State.POST_MORTEM, depth)
    assert event.line == tests.line(mark, "src/demo/Calculator.java")
    frames = tests.debugger.stack().frames
    assert [frame.function for frame in frames] == [event.function, f"OldTest.{test}"]
    assert tests.debugger.locals(1).values[0].name == "this"


@pytest.mark.parametrize("test", ["expects", pytest.param("wants", marks=pytest.mark.slow)])
def test_an_expected_exception_is_no_failure(tests: JavaBench, test: str) -> None:
    event = run(tests, f"demo.OldTest#{test}")
    assert (event.state, event.exit_code) == (State.DONE, 0)


@pytest.mark.slow
def test_many_caught_exceptions_cost_little_and_the_note_says_so(tests: JavaBench) -> None:
    event = run(tests, "demo.OldTest#asserts")
    assert event.state is State.POST_MORTEM
    assert event.exception is not None
    assert event.exception.message == "expected:<0> but was:<100000>"
    assert any("are not watched" in note for note in event.notes)


@pytest.mark.slow
def test_a_test_in_a_thread_of_its_own(tests: JavaBench) -> None:
    event = run(tests, "demo.OldTest#limited")
    assert (event.state, event.thread) == (State.POST_MORTEM, None)
    assert event.line == tests.line("refuse", "src/demo/Calculator.java")


def test_a_skipped_test_says_so(tests: JavaBench) -> None:
    event = run(tests, "demo.OldTest#skips")
    assert event.state is State.DONE
    assert any(note.startswith("the test was skipped") for note in event.notes)


@pytest.mark.slow
def test_a_step_into_the_failure_stops_there_and_then_is_post_mortem(tests: JavaBench) -> None:
    tests.start(tests.at("assert", "src/demo/OldTest.java"), test="demo.OldTest#fails")
    event = tests.debugger.control(Action.STEP_OVER)
    assert (event.state, event.stop_reason) == (State.RUNTIME_ERROR, StopReason.EXCEPTION)
    assert event.function == "OldTest.fails"
    event = tests.debugger.control(Action.CONTINUE)
    assert (event.state, event.function) == (State.POST_MORTEM, "OldTest.fails")


STEPS = [Action.STEP_OVER, Action.STEP_INTO, Action.STEP_OUT]
FAILURES = [
    ("OldTest#fails", "assert", "OldTest.fails"),
    ("OldTest#limited", "refuse", "Calculator.refuse"),
    ("NewTest#fails", "assert", "NewTest.fails"),
]
QUICK = list(zip(FAILURES, STEPS, strict=True))
"""Each failure and each step once."""


@pytest.mark.parametrize(
    ("test", "mark", "place", "step"),
    [
        pytest.param(*failure, step, marks=[] if (failure, step) in QUICK else [pytest.mark.slow])
        for failure in FAILURES
        for step in STEPS
    ],
)
def test_a_step_from_the_exception_that_ends_the_test_is_post_mortem(
    tests: JavaBench, test: str, mark: str, place: str, step: Action
) -> None:
    file = f"src/demo/{place.partition('.')[0]}.java"
    tests.start(tests.at(mark, file), test=f"demo.{test}")
    event = tests.debugger.control(step if step is Action.STEP_OUT else Action.STEP_OVER)
    assert (event.state, event.function) == (State.RUNTIME_ERROR, place)
    event = tests.debugger.control(step)
    assert (event.state, event.function, event.notes) == (State.POST_MORTEM, place, ())


@pytest.mark.slow
def test_a_step_from_an_exception_ends_in_the_finally_block_on_its_way(tests: JavaBench) -> None:
    file = "src/demo/Calculator.java"
    tests.start(tests.at("parse", file), test="demo.OldTest#parses")
    states: list[tuple[State, str | None]] = []
    while (event := tests.debugger.control(Action.STEP_OVER)).state is not State.POST_MORTEM:
        states.append((event.state, event.function))
        assert event.state is not State.DONE, states
    assert (State.RUNTIME, "Calculator.parse") in states
    assert len(event.notes) == 1, "where it was raised before"


@pytest.mark.slow
def test_a_step_from_an_expected_exception_stops_nowhere_in_the_runner(tests: JavaBench) -> None:
    tests.start(tests.at("refuse", "src/demo/Calculator.java"), test="demo.OldTest#expects")
    event = tests.debugger.control(Action.STEP_OVER)
    assert (event.state, event.function) == (State.RUNTIME_ERROR, "Calculator.refuse")
    states: list[tuple[State, str | None]] = []
    while event.state is not State.DONE and len(states) < 5:
        event = tests.debugger.control(Action.STEP_OVER)
        states.append((event.state, event.function))
    assert all(function in ("OldTest.expects", None) for _, function in states), states
    assert states[-1][0] is State.DONE


@pytest.mark.slow
def test_breakpoints_before_the_entry_are_reached(tests: JavaBench) -> None:
    event = tests.start(BreakpointRequest(function="prepare"), test="demo.NewTest#passes")
    assert event.function == "NewTest.prepare"
    event = tests.debugger.control(Action.STEP_OUT)
    assert event.state is State.DONE
    assert "NewTest.prepare ended and no caller in the program goes on" in event.notes[0]


PROGRAM = """
    import java.util.*;

    public class Program {
        static int spin(long turns) {
            int odd = 0;
            for (long turn = 0; turn < turns; turn++) {
                odd += turn % 2; // @spin
            }
            return odd;
        }

        static int deep(int level) {
            return deep(level + 1) + 1; // @deep
        }

        static void nap(long millis) {
            try {
                Thread.sleep(millis); // @nap
            } catch (InterruptedException error) {
                System.out.println("interrupted");
            }
        }

        static void deadlock() throws Exception {
            Object left = new Object(), right = new Object();
            Thread other = new Thread(() -> {
                synchronized (right) {
                    nap(100);
                    synchronized (left) {} // @other
                }
            }, "other");
            other.start();
            synchronized (left) {
                nap(100);
                synchronized (right) {} // @locks
            }
        }

        static void crash() throws Exception {
            java.lang.reflect.Field field =
                    Class.forName("sun.misc.Unsafe").getDeclaredField("theUnsafe");
            field.setAccessible(true);
            ((sun.misc.Unsafe) field.get(null)).putAddress(0, 0); // @crash
        }

        public static void main(String[] args) throws Exception {
            switch (args[0]) {
                case "read":
                    Scanner scanner = new Scanner(System.in);
                    while (scanner.hasNextInt()) {
                        System.out.println(2 * scanner.nextInt()); // @read
                    }
                    break;
                case "spin":
                    spin(Long.MAX_VALUE);
                    break;
                case "worker":
                    Thread worker = new Thread(() -> spin(Long.MAX_VALUE), "worker");
                    worker.start();
                    worker.join(); // @join
                    break;
                case "nap":
                    nap(100000);
                    break;
                case "deadlock":
                    deadlock();
                    break;
                case "deep":
                    deep(0);
                    break;
                case "memory":
                    long[][] blocks = new long[100][];
                    for (int index = 0; index < blocks.length; index++) {
                        blocks[index] = new long[Integer.MAX_VALUE - 8]; // @memory
                    }
                    break;
                case "exit":
                    System.exit(4);
                    break;
                case "halt":
                    Runtime.getRuntime().halt(5);
                    break;
                case "crash":
                    crash();
                    break;
                case "kill":
                    new ProcessBuilder("sh", "-c", "kill -9 $PPID").start().waitFor();
                    nap(100000);
                    break;
                case "freeze":
                    new ProcessBuilder("sh", "-c", "kill -STOP $PPID").start().waitFor();
                    nap(100000);
                    break;
                case "dies":
                    Thread dying = new Thread(() -> {
                        throw new IllegalStateException("in a thread"); // @dies
                    }, "dying");
                    dying.start();
                    dying.join();
                    break;
                case "flood":
                    for (int line = 0; line < 200000; line++) {
                        System.out.println("line " + line);
                    }
                    System.err.print("the end");
                    break;
                case "leave":
                    new ProcessBuilder("setsid", "sleep", "4321").start();
                    new ProcessBuilder("sleep", "4321").start();
                    nap(100000);
                    break;
                case "terminal":
                    try {
                        new java.io.FileOutputStream("/dev/tty").write(10);
                        System.out.println("reached");
                    } catch (java.io.IOException error) {
                        System.out.println("no terminal");
                    }
                    break;
                default:
                    throw new IllegalArgumentException(args[0]);
            }
        }
    }
"""


@pytest.fixture(scope="module")
def programs() -> Iterator[JavaBench]:
    """One program with many ways to end, compiled once."""
    with java_benches() as open_one:
        bench = open_one(replace(LIMITS, interrupt_grace=2.0))
        bench.write({"Program.java": PROGRAM})
        yield bench


def launch(bench: JavaBench, way: str, timeout: float | None = None) -> DebugEvent:
    """What the program comes to on one of its ways."""
    event = bench.start(test=f"Program {way}")
    assert event.stop_reason is StopReason.ENTRY
    return bench.debugger.control(Action.CONTINUE, timeout)


@pytest.mark.slow
def test_the_program_reads_what_the_launch_gives(programs: JavaBench) -> None:
    event = programs.start(programs.at("read"), test="Program read", stdin="3 4\n")
    programs.debugger.control(Action.CONTINUE)
    assert programs.debugger.control(Action.CONTINUE).output == "8\n"
    assert event.output == ""


def test_another_thread_interrupts(programs: JavaBench) -> None:
    assert programs.start(test="Program spin").stop_reason is StopReason.ENTRY
    for _ in range(2):
        event = interrupted_by_another(programs.debugger)
        assert (event.state, event.stop_reason) == (State.RUNTIME, StopReason.INTERRUPTED)
        assert programs.text_of("spin(4)") == "2"


def test_an_endless_loop_is_interrupted_and_goes_on(programs: JavaBench) -> None:
    event = launch(programs, "spin", 0.5)
    assert (event.stop_reason, event.state) == (StopReason.INTERRUPTED, State.RUNTIME)
    assert (event.error_kind, event.kill_reason) == (ErrorKind.TIMEOUT, KillReason.ENDLESS_LOOP)
    assert event.function == "Program.spin"
    assert programs.text_of("spin(4)") == "2"
    assert programs.debugger.control(Action.STEP_OVER).stop_reason is StopReason.STEP
    programs.debugger.set_breakpoint(programs.at("spin"))
    assert programs.debugger.control(Action.CONTINUE).stop_reason is StopReason.BREAKPOINT
    assert programs.debugger.run_code("turns = turn;").error is None
    programs.debugger.remove_breakpoint(1)
    assert programs.debugger.control(Action.CONTINUE).state is State.DONE


@pytest.mark.slow
def test_a_waiting_main_thread_names_the_busy_one(programs: JavaBench) -> None:
    event = launch(programs, "worker", 0.5)
    assert event.kill_reason is KillReason.ENDLESS_LOOP
    assert event.line == programs.line("join")
    assert any("thread worker is running in Program.spin" in note for note in event.notes)


def test_a_deadlock_tells_who_holds_what(programs: JavaBench) -> None:
    event = launch(programs, "deadlock", 1.5)
    assert event.kill_reason is KillReason.DEADLOCK
    assert event.line == programs.line("locks")
    held = "blocked on the lock of an object of Object, held by thread other"
    assert any(note.startswith(f"thread main is {held}") for note in event.notes)
    threads = {thread.name: thread for thread in programs.debugger.threads().threads}
    assert threads["other"].frames[0].line == programs.line("other")


@pytest.mark.slow
def test_a_sleep_is_interrupted_and_looked_at(programs: JavaBench) -> None:
    event = launch(programs, "nap", 0.5)
    assert event.kill_reason is KillReason.NATIVE_CODE
    assert event.line == programs.line("nap")
    assert programs.text_of("millis") == "100000"
    event = programs.debugger.evaluate("spin(3)")
    assert event.error_kind is ErrorKind.EVALUATION


def test_a_stack_overflow_shows_its_innermost_frames(programs: JavaBench) -> None:
    event = launch(programs, "deep")
    assert event.state is State.POST_MORTEM
    assert event.exception is not None
    assert event.exception.type == "java.lang.StackOverflowError"
    assert event.depth is not None
    assert event.depth > 1000
    assert len(event.frames) == event.next_start == 40
    page = programs.debugger.stack(start=event.depth - 1)
    assert [frame.function for frame in page.frames] == ["Program.main"]


@pytest.mark.slow
def test_running_out_of_memory_is_post_mortem(programs: JavaBench) -> None:
    event = launch(programs, "memory")
    assert event.state is State.POST_MORTEM
    assert event.line == programs.line("memory")
    assert event.exception is not None
    assert event.exception.type == "java.lang.OutOfMemoryError"


@pytest.mark.parametrize(
    ("way", "code"), [("exit", 4), pytest.param("halt", 5, marks=pytest.mark.slow)]
)
def test_an_exit_is_told(programs: JavaBench, way: str, code: int) -> None:
    event = launch(programs, way)
    assert (event.state, event.stop_reason) == (State.DONE, StopReason.EXITED)
    assert (event.exit_code, event.error_kind) == (code, None)


@pytest.mark.parametrize(
    ("way", "signal"),
    [pytest.param("crash", "SIGABRT", marks=pytest.mark.slow), ("kill", "SIGKILL")],
)
def test_a_crash_is_told(programs: JavaBench, way: str, signal: str) -> None:
    event = launch(programs, way)
    assert (event.state, event.error_kind) == (State.DONE, ErrorKind.CRASHED)
    assert event.kill_reason is KillReason.CRASHED
    assert signal in (event.error or "")
    assert programs.debugger.restart().stop_reason is StopReason.ENTRY


@pytest.mark.slow
def test_a_frozen_process_is_killed_in_the_end(programs: JavaBench) -> None:
    event = launch(programs, "freeze", 1)
    assert (event.state, event.stop_reason) == (State.DONE, StopReason.KILLED)
    assert event.error_kind is ErrorKind.UNRESPONSIVE
    assert "its process is stopped" in (event.error or "")


def test_an_exception_that_ends_a_thread(programs: JavaBench) -> None:
    event = launch(programs, "dies")
    assert (event.state, event.exit_code) == (State.DONE, 0)
    assert 'Exception in thread "dying"' in event.output
    raised = BreakpointRequest(exception="IllegalStateException", uncaught=True)
    event = programs.start(raised, test="Program dies")
    assert (event.state, event.thread) == (State.RUNTIME_ERROR, "dying")
    assert event.line == programs.line("dies")
    assert programs.debugger.control(Action.CONTINUE).exit_code == 0


def test_a_flood_of_output_is_bounded_and_in_order(programs: JavaBench) -> None:
    event = launch(programs, "flood")
    assert event.state is State.DONE
    assert event.output_truncated
    assert event.output.startswith("line 0\nline 1\n")
    assert event.output.endswith("line 199999\nthe end")
    assert len(event.output) < 4200


def test_the_program_can_not_reach_the_terminal(programs: JavaBench) -> None:
    assert launch(programs, "terminal").output == "no terminal\n"


# Opens what holds the session's secret, and the probe's way to the host.
SEARCH = r"""
import java.io.*;
import java.nio.file.*;

public class Program {
    public static void main(String[] args) {
        int probes = 0;
        for (File process : new File("/proc").listFiles()) {
            String command;
            try {
                command = new String(Files.readAllBytes(new File(process, "cmdline").toPath()));
            } catch (IOException error) {
                continue;
            }
            if (!command.matches("[^\0]*/java\0.*\0stepinto.probe.Main\0")) continue;
            probes++;
            for (String name : new String[] {"mem", "environ", "fd/0", "fd/1", "fd/2"}) {
                try (FileInputStream file = new FileInputStream(new File(process, name))) {
                    System.out.println("opened " + name);
                } catch (IOException closed) {
                }
            }
        }
        System.out.println(probes > 0 ? "looked" : "nothing there"); // @end
    }
}
"""
SEARCHED = f"""
from sandbox import SandboxConfig, open_sandbox
from sandbox.debugger import DebugLimits, Launch, open_debugger

with open_sandbox(SandboxConfig()) as sandbox:
    sandbox.write_file("Program.java", {SEARCH!r}.encode())
    debugger = open_debugger("java", sandbox, DebugLimits(start_timeout=60))
    print(debugger.start(Launch("Program", stop_at_entry=False)).output)
    debugger.close()
"""


@pytest.mark.parametrize("user", USERS)
def test_the_program_finds_no_way_to_the_probes_memory_and_terminal(user: str) -> None:
    if shutil.which("javac") is None:
        pytest.skip("there is no JDK on this machine")
    assert run_as(user, SEARCHED).strip() == "looked"


@pytest.mark.docker
@pytest.mark.slow
def test_nor_in_a_container(open_java_bench: Callable[..., JavaBench], java_image: str) -> None:
    bench = open_java_bench(config=SandboxConfig(backend="docker", image=java_image))
    assert bench.program(SEARCH, stop_at_entry=False).output == "looked\n"


def test_nothing_is_left_running(programs: JavaBench) -> None:
    launch(programs, "leave", 1)
    programs.debugger.close()
    assert programs.debugger.state is State.START
    assert processes(programs) == []


def processes(bench: JavaBench) -> list[str]:
    """What runs in the sandbox of the program's own."""
    from sandbox.base import Command

    script = "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -o 's[l]eep 4321' || true"
    return bench.sandbox.run(Command(["sh", "-c", script])).output.split("\n")[:-1]


@pytest.mark.slow
def test_a_breakpoint_that_can_not_be_is_refused_after_the_end_too(java_bench: JavaBench) -> None:
    bench = java_bench
    bench.main("int x = 1; // @first\nx++; // @second", "first")
    requests = [
        BreakpointRequest(file="Progam.java", line=2),
        BreakpointRequest(file="Program.java", line=99),
        BreakpointRequest(function="Program.mian"),
        BreakpointRequest(exception="NoSuchError"),
    ]
    paused = [bench.debugger.set_breakpoint(request).error for request in requests]
    assert bench.debugger.control(Action.CONTINUE).state is State.DONE
    ended = [bench.debugger.set_breakpoint(request) for request in requests]
    assert [event.error for event in ended] == paused
    assert {event.error_kind for event in ended} == {ErrorKind.BAD_REQUEST}
    accepted = bench.debugger.set_breakpoint(bench.at("second"))
    assert [point.number for point in accepted.breakpoints] == [1, 2]
    assert bench.debugger.restart().line == bench.line("first")
    assert bench.debugger.control(Action.CONTINUE).line == bench.line("second")
