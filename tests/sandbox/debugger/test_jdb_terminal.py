"""jdb's own terminal, driven through its prompts and its asynchronous events."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox import Command, Sandbox, SandboxConfig, open_sandbox
from sandbox.debugger import (
    Action,
    BreakpointRequest,
    DebugEvent,
    DebugLimits,
    ErrorKind,
    Launch,
    State,
    StopReason,
)
from sandbox.debugger.channel import Json
from sandbox.debugger.java_places import JavaFile
from sandbox.debugger.jdb_terminal import JdbConnection, JdbTerminal
from sandbox.debugger.rendering import render

needs_jdb = pytest.mark.skipif(shutil.which("jdb") is None, reason="there is no JDK here")

LIMITS = DebugLimits(start_timeout=30, action_timeout=15, interrupt_grace=3)
CALC = """\
    package demo;
    import java.util.*;

    public class Calc {
        private final List<Integer> items = new ArrayList<>();

        static class Node {
            int value;
            Node(int value) { this.value = value; }
            int twice() {
                return value * 2;
            }
        }

        static class Throwing {
            public String toString() { throw new IllegalStateException("no text"); }
        }

        static class Endless {
            public String toString() { while (true) { } }
        }

        Object nothing() { return null; }

        int total(int start) {
            int sum = start;
            for (int item : items) {
                sum += item;
            }
            return sum;
        }

        public static void main(String[] args) {
            Calc calc = new Calc();
            calc.items.add(3);
            calc.items.add(4);
            System.out.println("fake> main[1] ");
            int total = calc.total(1);
            Node node = new Node(total);
            System.out.println("twice " + node.twice());
            try {
                Integer.parseInt("x");
            } catch (NumberFormatException expected) {
                total++;
            }
            Throwing throwing = new Throwing();
            Endless endless = new Endless();
            String line = new Scanner(System.in).nextLine();
            System.out.println("read " + line);
            long count = 0;
            while (!line.equals("end")) {
                count++;
            }
            Runnable task = () -> {
                System.out.println("in a lambda");
            };
            task.run();
            throw new IllegalArgumentException("too bad");
        }
    }
"""
SOURCE = textwrap.dedent(CALC)
FILE = "src/demo/Calc.java"


def line_of(text: str) -> int:
    return next(n for n, line in enumerate(SOURCE.splitlines(), 1) if text in line)


def at(text: str, **more: object) -> BreakpointRequest:
    return BreakpointRequest(file="Calc.java", line=line_of(text), **more)  # type: ignore[arg-type]


class HandMade:
    """A launch target written by hand: classes that are compiled already."""

    def __init__(self, classes: str = "out", program: str = "demo.Calc") -> None:
        self.classes = f"/workspace/{classes}"
        self.program = program
        self.changes: Json = {}

    def target(self, sandbox: Sandbox, launch: Launch, limits: DebugLimits) -> Json:
        return {
            "kind": "java",
            "command": [shutil.which("java"), "-cp", self.classes, self.program],
            "cwd": "/workspace",
            "env": {},
            "source_roots": ["/workspace/src"],
            "entry": {"class": self.program, "method": "main"},
            **self.changes,
        }

    def connect(self, sandbox: Sandbox, limits: DebugLimits) -> JdbConnection:
        return JdbConnection(sandbox, limits)


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    """A sandbox with the program, compiled with and without debug information."""
    with open_sandbox(SandboxConfig()) as sandbox:
        far = "\n" * 1312 + "class Far { public static void main(String[] a) { int x = 1; } }\n"
        sandbox.write_files({FILE: SOURCE.encode(), "src/Far.java": far.encode()})
        script = f"javac -g -d out {FILE} src/Far.java && javac -d plain {FILE}"
        result = sandbox.run(Command(("sh", "-c", script)))
        assert result.exit_code == 0, result.output
        yield sandbox


@pytest.fixture
def debugger(box: Sandbox) -> Iterator[JdbTerminal]:
    opened = JdbTerminal(box, LIMITS, HandMade())
    yield opened
    opened.close()
    assert "java" not in box.run(Command(("ps", "-e", "-o", "comm"))).output


def text_of(debugger: JdbTerminal, expression: str, frame: int = 0) -> str:
    event = debugger.evaluate(expression, frame)
    assert event.error_kind is None, event.error
    return event.values[0].text


@needs_jdb
def test_breakpoints_are_deferred_bound_and_hit(debugger: JdbTerminal) -> None:
    points = (
        BreakpointRequest(function="total"),
        at("sum += item", condition="item == 4"),
        at("return value", temporary=True),
        BreakpointRequest(function="totl"),
    )
    event = debugger.start(Launch("demo.Calc", points))
    assert (event.stop_reason, event.file, event.function) == (
        StopReason.ENTRY,
        FILE,
        "demo.Calc.main",
    )
    assert "nearest: demo.Calc.total" in "".join(event.notes)
    assert [point.pending for point in event.breakpoints] == [False, False, True]

    event = debugger.control(Action.CONTINUE)
    assert (event.stop_reason, event.line) == (StopReason.BREAKPOINT, line_of("int sum"))
    assert event.output.strip() == "fake> main[1]"
    assert "->" in "".join(event.source)
    event = debugger.control(Action.CONTINUE)
    assert (event.line, text_of(debugger, "item")) == (line_of("sum += item"), "4")
    assert [(point.number, point.hits) for point in event.breakpoints] == [(2, 1)]
    names = {value.name: value.text for value in debugger.locals().values}
    assert names == {"start": "1", "sum": "4", "item": "4"}
    assert [frame.function for frame in debugger.stack().frames] == [
        "demo.Calc.total",
        "demo.Calc.main",
    ]
    calc = debugger.locals(frame=1).values[1]
    assert (calc.name, calc.type) == ("calc", "demo.Calc")

    assert debugger.run_code("sum = 50").error_kind is None
    event = debugger.control(Action.STEP_OUT)
    assert (event.stop_reason, event.function) == (StopReason.STEP, "demo.Calc.main")
    event = debugger.control(Action.CONTINUE)
    assert (event.function, event.line) == ("demo.Calc$Node.twice", line_of("return value"))
    assert "breakpoint 3 is bound now" in event.notes
    assert text_of(debugger, "value") == "54"
    assert [point.number for point in debugger.list_breakpoints().breakpoints] == [1, 2]

    event = debugger.restart()
    assert [point.number for point in event.breakpoints] == [1, 2], (event.error, event.notes)
    assert event.breakpoints[1].condition == "item == 4"
    assert debugger.remove_breakpoint(1).error_kind is None
    event = debugger.control(Action.CONTINUE)
    assert (event.line, text_of(debugger, "item")) == (line_of("sum += item"), "4")


@needs_jdb
def test_a_condition_that_jdb_can_not_read_is_refused_at_its_first_hit(
    debugger: JdbTerminal,
) -> None:
    points = (
        at("sum += item", condition="item ==="),
        at("return sum", condition="sum > 1 && sum > 2", temporary=True),
        at("return value", condition="nope == 1"),
    )
    event = debugger.start(Launch("demo.Calc", points, stop_at_entry=False))
    assert (event.stop_reason, event.line) == (StopReason.BREAKPOINT, line_of("sum += item"))
    assert "`item ===` of breakpoint 1 is none that jdb can evaluate" in "".join(event.notes)
    event = debugger.control(Action.CONTINUE)
    assert event.line == line_of("return sum")
    assert "operation not yet supported; the breakpoint was removed" in "".join(event.notes)
    event = debugger.control(Action.CONTINUE)
    assert event.line == line_of("return value")
    assert "`nope == 1` of breakpoint 3 failed: Name unknown: nope" in "".join(event.notes)
    assert [point.number for point in debugger.list_breakpoints().breakpoints] == [3]


@needs_jdb
def test_values_errors_and_methods_that_throw(debugger: JdbTerminal) -> None:
    debugger.start(Launch("demo.Calc", (at("String line"),), stop_at_entry=False))
    assert text_of(debugger, "calc.items") == '"[3, 4]"'
    assert text_of(debugger, "calc.total(2)") == "9"
    assert {value.name for value in debugger.fields("node").values} == {"value"}
    event = debugger.evaluate("nope")
    assert (event.error_kind, event.error) == (ErrorKind.EVALUATION, "Name unknown: nope")
    assert debugger.evaluate("throwing").error_kind is ErrorKind.EVALUATION
    assert text_of(debugger, "total") == "9"
    assert debugger.fields("total").error_kind is ErrorKind.EVALUATION
    assert text_of(debugger, "calc.nothing()") == "null"
    assert debugger.locals(frame=5).error_kind is ErrorKind.BAD_REQUEST
    threads = debugger.threads().threads
    assert (threads[0].name, threads[0].current) == ("main", True)
    assert threads[0].frames[0].line == line_of("String line")


@needs_jdb
def test_what_jdb_can_not_evaluate_is_no_value(debugger: JdbTerminal) -> None:
    debugger.start(Launch("demo.Calc", (at("try {"),), stop_at_entry=False))
    messages = {
        "calc.items.get(99)": "Exception in expression: java.lang.IndexOutOfBoundsException",
        "node instanceof Node": "operation not yet supported",
        "total > 3 && total < 9": "operation not yet supported",
        "total ===": "Encountered",
        "1 / 0": "/ by zero",
        '"open': "Lexical error",
    }
    for expression, message in messages.items():
        event = debugger.evaluate(expression)
        assert (event.error_kind, event.values) == (ErrorKind.EVALUATION, ())
        assert message in (event.error or "")
        assert text_of(debugger, "total") == "8"


@needs_jdb
def test_types_are_told_only_where_jdb_tells_them(debugger: JdbTerminal) -> None:
    debugger.start(Launch("demo.Calc", (at("try {"),), stop_at_entry=False))
    types = {value.name: value.type for value in debugger.locals().values}
    assert (types["total"], types["node"]) == ("", "demo.Calc$Node")
    assert "\ntotal = 8\n" in render(debugger.locals())
    assert render(debugger.evaluate("calc.items")) == 'calc.items = "[3, 4]"'
    assert render(debugger.evaluate("calc.nothing()")) == "calc.nothing() = null"
    points = debugger.set_breakpoint(BreakpointRequest(function="twice"))
    assert f"{FILE} in demo.Calc$Node.twice" in render(points)


@needs_jdb
def test_a_method_that_never_returns_ends_the_session(debugger: JdbTerminal, box: Sandbox) -> None:
    debugger.start(Launch("demo.Calc", (at("String line"),), stop_at_entry=False))
    debugger._limits = DebugLimits(action_timeout=0.5, interrupt_grace=0.5)
    event = debugger.evaluate("endless")
    assert (event.state, event.stop_reason) == (State.DONE, StopReason.KILLED)
    assert "java" not in box.run(Command(("ps", "-e", "-o", "comm"))).output


@needs_jdb
def test_an_endless_loop_is_suspended_and_goes_on(debugger: JdbTerminal) -> None:
    debugger.start(Launch("demo.Calc", (at("long count"),), stop_at_entry=False, stdin="on\n"))
    for _ in range(2):
        event = debugger.control(Action.CONTINUE, timeout=0.3)
        assert (event.state, event.stop_reason) == (State.RUNTIME, StopReason.INTERRUPTED)
        assert event.line in (line_of("while (!"), line_of("count++"))
        assert int(text_of(debugger, "count").replace(",", "")) > 0
    event = debugger.set_breakpoint(at("count++"))
    assert debugger.control(Action.CONTINUE).stop_reason is StopReason.BREAKPOINT


@needs_jdb
def test_an_uncaught_exception_is_looked_at_post_mortem(debugger: JdbTerminal) -> None:
    lambda_line = BreakpointRequest(file=FILE, line=line_of("in a lambda"))
    launch = Launch("demo.Calc", (lambda_line,), stop_at_entry=False, stdin="end\n")
    assert debugger.start(launch).line == line_of("in a lambda")
    event = debugger.control(Action.CONTINUE)
    assert (event.state, event.stop_reason) == (State.POST_MORTEM, StopReason.EXCEPTION)
    assert event.exception is not None
    assert event.exception.type == "java.lang.IllegalArgumentException"
    assert text_of(debugger, "line") == '"end"'
    refused = debugger.control(Action.CONTINUE)
    assert refused.error_kind is ErrorKind.NOT_ALLOWED


@needs_jdb
def test_a_breakpoint_follows_its_line_through_an_edit(box: Sandbox) -> None:
    debugger = JdbTerminal(box, LIMITS, HandMade())
    debugger.start(Launch("demo.Calc", (at("int total ="),)))
    try:
        box.write_files({FILE: SOURCE.replace("int total =", "\n\nint total =").encode()})
        assert debugger.restart().breakpoints[0].line == line_of("int total =") + 2
    finally:
        box.write_files({FILE: SOURCE.encode()})
        debugger.close()


@needs_jdb
def test_exception_breakpoints_and_the_end(debugger: JdbTerminal) -> None:
    point = BreakpointRequest(exception="java.lang.NumberFormatException")
    event = debugger.start(Launch("demo.Calc", (point,), stop_at_entry=False))
    assert (event.state, event.stop_reason) == (State.RUNTIME_ERROR, StopReason.EXCEPTION)
    assert (event.file, event.line) == (FILE, line_of("parseInt"))
    assert [hit.exception for hit in event.breakpoints] == ["java.lang.NumberFormatException"]
    event = debugger.control(Action.CONTINUE)
    assert event.state is State.POST_MORTEM
    assert event.exception is not None
    assert event.exception.type == "java.util.NoSuchElementException"


@needs_jdb
def test_numbers_with_separators_and_missing_debug_information(box: Sandbox) -> None:
    far = JdbTerminal(box, LIMITS, HandMade(program="Far"))
    event = far.start(Launch("Far"))
    assert (event.file, event.line) == ("src/Far.java", 1313)
    assert far.stack().frames[0].line == 1313
    event = far.control(Action.CONTINUE)
    assert (event.state, event.exit_code) == (State.DONE, 0)
    far.close()
    plain = JdbTerminal(box, LIMITS, HandMade(classes="plain"))
    plain.start(Launch("demo.Calc"))
    assert "compile them with -g" in "".join(plain.locals().notes)
    plain.close()


@needs_jdb
def test_what_can_not_be_launched_is_told(box: Sandbox) -> None:
    debugger = JdbTerminal(box, LIMITS, HandMade(program="demo.Absent"))
    event: DebugEvent = debugger.start(Launch("demo.Absent"))
    assert event.state is State.DONE
    assert "demo.Absent" in event.output
    broken = HandMade()
    broken.changes = {"command": [shutil.which("java"), "-XX:+NoSuchOption", "demo.Calc"]}
    event = JdbTerminal(box, LIMITS, broken).start(Launch("demo.Calc"))
    assert event.error_kind is ErrorKind.LAUNCH_FAILED
    assert "NoSuchOption" in (event.error or "")


@needs_jdb
def test_a_failing_junit_test_stops_where_it_fails(box: Sandbox) -> None:
    path = _junit_path()
    source = """\
        package demo;
        public class CartTest {
            @org.junit.Test public void testTotal() {
                int total = 3 + 4;
                org.junit.Assert.assertEquals(8, total);
            }
        }
    """
    debugger = JdbTerminal(box, LIMITS, _junit_launcher(box, path, "CartTest", source, "testTotal"))
    event = debugger.start(Launch("demo.CartTest#testTotal"))
    assert (event.stop_reason, event.line) == (StopReason.ENTRY, 4)
    event = debugger.control(Action.CONTINUE)
    assert (event.state, event.line) == (State.RUNTIME_ERROR, 5)
    assert event.exception is not None
    assert event.exception.type == "java.lang.AssertionError"
    event = debugger.control(Action.STEP_OVER)
    assert (event.state, event.exit_code) == (State.DONE, 1)
    debugger.close()


@needs_jdb
def test_steps_run_through_the_test_runner(box: Sandbox) -> None:
    path = _junit_path()
    source = """\
        package demo;
        public class TwoTest {
            @org.junit.Before public void setUp() {
                System.out.println("set up");
            }
            @org.junit.Test public void testFails() {
                String text = null;
                text.length();
            }
            @org.junit.After public void tearDown() {
                System.out.println("tear down");
            }
        }
    """
    debugger = JdbTerminal(box, LIMITS, _junit_launcher(box, path, "TwoTest", source, "testFails"))
    event = debugger.start(Launch("demo.TwoTest#testFails"))
    places = []
    while event.state is not State.DONE:
        assert event.function, render(event)
        places.append((event.function.rpartition(".")[2], event.line))
        event = debugger.control(Action.STEP_OVER)
    assert places[:2] == [("testFails", 7), ("testFails", 8)]
    assert ("tearDown", 11) in places, places
    assert event.exit_code == 1
    assert "NullPointerException" in event.output
    debugger.close()


def _junit_path() -> str:
    jars = [Path("/usr/share/java", name) for name in ("junit4.jar", "hamcrest.jar")]
    if not all(jar.exists() for jar in jars):
        pytest.skip("JUnit 4 is not in /usr/share/java")
    return ":".join(map(str, jars))


def _junit_launcher(box: Sandbox, path: str, name: str, source: str, test: str) -> HandMade:
    """JUnit on a test class, compiled now."""
    box.write_files({f"src/demo/{name}.java": textwrap.dedent(source).encode()})
    compile_test = ("javac", "-g", "-cp", path, "-d", "out", f"src/demo/{name}.java")
    assert box.run(Command(compile_test)).exit_code == 0
    launcher = HandMade()
    launcher.changes = {
        "command": f"java -cp out:{path} org.junit.runner.JUnitCore demo.{name}".split(),
        "entry": {"class": f"demo.{name}", "method": test},
        "test": True,
    }
    return launcher


@needs_jdb
def test_a_jvm_that_a_build_tool_starts_attaches_itself(box: Sandbox) -> None:
    launcher = HandMade()
    agent = "-agentlib:jdwp=transport=dt_socket,server=n,suspend=y,address=127.0.0.1:{port}"
    launcher.changes = {
        "kind": "attach",
        "command": [shutil.which("java"), agent, "-cp", launcher.classes, "demo.Calc"],
    }
    debugger = JdbTerminal(box, LIMITS, launcher)
    event = debugger.start(Launch("demo.Calc"))
    assert (event.stop_reason, event.function) == (StopReason.ENTRY, "demo.Calc.main")
    debugger.close()
    assert "java" not in box.run(Command(("ps", "-e", "-o", "comm"))).output


@needs_jdb
def test_the_raw_terminal(debugger: JdbTerminal) -> None:
    event = debugger.open(Launch("demo.Calc", stdin="on\n"))
    assert "VM Started" in event.output
    event = debugger.command("stop in demo.Calc$Node.twice")
    assert event.output.startswith("Deferring breakpoint")
    event = debugger.command("cont")
    assert "Set deferred breakpoint demo.Calc$Node.twice" in event.output
    assert 'Breakpoint hit: "thread=main", demo.Calc$Node.twice()' in event.output
    assert event.output.endswith("main[1] ")
    assert debugger.command("print value").output == " value = 8\nmain[1] "
    event = debugger.command("cont", timeout=0.3)
    assert (event.error_kind, event.stop_reason) == (ErrorKind.TIMEOUT, StopReason.INTERRUPTED)
    assert "All threads suspended" in event.output
    assert "demo.Calc.main (Calc.java:" in debugger.command("where").output
    assert debugger.command("quit").state is State.DONE


def test_classes_of_lines_are_read_off_the_source() -> None:
    text = """\
        package a.b;
        // class Fake {
        public class Outer {
            String text = "class Other {";
            enum Kind { ONE }
            record Point(int x, int y) {
                int sum() { return x + y; }
            }
            Object made = new Object() {
                public String toString() { return "}"; }
            };
            Outer() {
                int x = 1;
            }
            void work() throws Exception {

                run(() -> {
                    call();
                });
            }
        }
    """
    found = JavaFile(textwrap.dedent(text))
    assert [found.class_at(line) for line in (4, 5, 7, 10, 13, 18, 99)] == [
        "a.b.Outer",
        "a.b.Outer$Kind",
        "a.b.Outer$Point",
        "a.b.Outer$1",
        "a.b.Outer",
        "a.b.Outer",
        None,
    ]
    assert found.methods() == [
        "a.b.Outer$Point.sum",
        "a.b.Outer$1.toString",
        "a.b.Outer.<init>",
        "a.b.Outer.work",
    ]
    assert found.code_line(16) == 17
