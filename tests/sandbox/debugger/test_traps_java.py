"""Each trap of a plain jdb terminal, and that a session does not fall into it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sandbox.base import Command
from sandbox.debugger import Action, BreakpointRequest, ErrorKind, KillReason, State, StopReason
from tests.sandbox.debugger.java_bench import JavaBench, java_benches

FAR = "\n" * 1300
PROGRAM = f"""
    import java.util.*;

    public class Program {{
        static class Node {{
            int value = 13; // @node
        }}

        static class Thrower {{
            public String toString() {{
                throw new IllegalStateException("no text");
            }}
        }}

        static class Endless {{
            public String toString() {{
                while (true) {{}}
            }}
        }}

        static class Liar {{
            public String toString() {{
                return "main[1] \\n> Breakpoint hit: nowhere";
            }}
        }}

        static void spin() {{
            long turns = 0;
            while (turns >= 0) {{
                turns = turns + 2 & 0xff; // @spin
            }}
        }}

        public static void main(String[] args) throws Exception {{
            Object text = "seven", liar = new Liar();
            List<Integer> numbers = new ArrayList<>(Arrays.asList(1, 2, 3));
            Object thrower = new Thrower(), endless = new Endless();
            System.out.println("> main[1] Breakpoint hit"); // @ready
            if (args.length > 0) {{
                spin();
            }}
            new Node();
            far(1313);
        }}
        {FAR}
        static void far(int number) {{
            System.out.println(number); // @far
        }}
    }}
"""


@pytest.fixture(scope="module")
def program() -> Iterator[JavaBench]:
    with java_benches() as open_one:
        bench = open_one()
        bench.write({"Program.java": PROGRAM})
        yield bench


@pytest.fixture
def ready(program: JavaBench) -> JavaBench:
    """Paused with all variables set."""
    event = program.start(program.at("ready"))
    assert event.stop_reason is StopReason.BREAKPOINT
    return program


def test_no_answer_comes_a_command_late(ready: JavaBench) -> None:
    for number in range(30):
        assert ready.text_of(f"{number} + 1") == str(number + 1)
    event = ready.debugger.control(Action.STEP_OVER)
    assert event.output == "> main[1] Breakpoint hit\n"
    assert event.line == ready.line("ready") + 1
    assert ready.text_of("numbers.size()") == "3"


def test_breakpoints_are_answered_before_the_class_is_loaded(ready: JavaBench) -> None:
    event = ready.debugger.set_breakpoint(ready.at("node"))
    inner = event.breakpoints[-1]
    assert (inner.line, inner.pending) == (ready.line("node"), True)
    event = ready.debugger.set_breakpoint(BreakpointRequest(file="Program.java", line=9999))
    assert event.error_kind is ErrorKind.BAD_REQUEST
    event = ready.debugger.control(Action.CONTINUE)
    assert (event.function, event.line) == ("Program.Node.<init>", inner.line)


def test_numbers_have_no_separators(ready: JavaBench) -> None:
    line = ready.line("far")
    assert line > 1300
    ready.debugger.set_breakpoint(ready.at("far"))
    event = ready.debugger.control(Action.CONTINUE)
    assert event.line == line
    assert ready.debugger.stack().frames[0].line == line
    assert ready.text_of("number") == "1313"


def test_conditions_and_whole_expressions(ready: JavaBench) -> None:
    assert ready.text_of('text instanceof String && text.equals("seven")') == "true"
    assert ready.text_of("numbers.contains(3)") == "true"
    ready.debugger.set_breakpoint(ready.at("far", condition="number > 1000 && number != 5"))
    event = ready.debugger.control(Action.CONTINUE)
    assert event.line == ready.line("far")
    assert event.breakpoints[0].hits == 1


def test_errors_are_told_as_errors(ready: JavaBench) -> None:
    for expression in ("missing", "numbers.get(99)", "1 +", "text.nothing()"):
        event = ready.debugger.evaluate(expression)
        assert event.error_kind is ErrorKind.EVALUATION, expression
        assert event.values == ()
    assert ready.text_of("numbers.get(0)") == "1"


@pytest.mark.slow
def test_a_hostile_to_string_does_no_harm(ready: JavaBench) -> None:
    event = ready.debugger.locals()
    texts = {value.name: value.text for value in event.values}
    assert texts["text"] == '"seven"'
    assert texts["liar"] == "main[1] \n> Breakpoint hit: nowhere"
    assert {"thrower", "endless"} < texts.keys()
    assert event.error_kind is None
    assert ready.text_of("numbers") == "[1, 2, 3]"
    assert ready.debugger.control(Action.STEP_OVER).line == ready.line("ready") + 1


def test_an_interrupt_and_a_close_leave_nothing_spinning(program: JavaBench) -> None:
    program.start(test="Program spin")
    event = program.debugger.control(Action.CONTINUE, 0.5)
    assert (event.state, event.kill_reason) == (State.RUNTIME, KillReason.ENDLESS_LOOP)
    assert event.function == "Program.spin"
    assert program.debugger.locals().values[0].name == "turns"
    assert program.debugger.threads().threads[0].frames[1].function == "Program.main"
    assert program.debugger.control(Action.STEP_OUT, 0.5).stop_reason is StopReason.INTERRUPTED
    program.debugger.close()
    listed = program.sandbox.run(Command(["sh", "-c", "cat /proc/[0-9]*/comm"])).output
    assert "java" not in listed.split()


def test_a_test_runner_that_catches_everything_hides_nothing(java_bench: JavaBench) -> None:
    java_bench.write(
        {
            "ListTest.java": """
                import java.util.*;
                import org.junit.*;

                public class ListTest {
                    @Test public void gets() {
                        new ArrayList<String>().get(0); // @get
                    }
                }
            """
        }
    )
    java_bench.start(test="ListTest#gets")
    event = java_bench.debugger.control(Action.CONTINUE)
    assert (event.state, event.line) == (State.POST_MORTEM, java_bench.line("get", "ListTest.java"))
    assert event.exception is not None
    assert event.exception.type == "java.lang.IndexOutOfBoundsException"


LIBRARY = """
    package library;

    public class Thing {
        public static int use(int given) {
            int doubled = given * 2;
            return 1 / (doubled - 8);
        }
    }
"""
BUILD = """
mkdir -p lib made source/library && cat > source/library/Thing.java
javac -g:none -d made source/library/Thing.java && jar cf lib/thing.jar -C made library
rm -r made source
"""


@pytest.mark.slow
def test_a_class_without_debug_information_says_so(java_bench: JavaBench) -> None:
    command = Command(["sh", "-c", BUILD], stdin=LIBRARY.encode())
    assert java_bench.sandbox.run(command).exit_code == 0
    event = java_bench.main("int given = 4;\nlibrary.Thing.use(given);")
    event = java_bench.debugger.control(Action.CONTINUE)
    assert (event.state, event.function) == (State.POST_MORTEM, "Thing.use")
    event = java_bench.debugger.locals()
    assert any("compiled without -g" in note for note in event.notes)
    assert java_bench.text_of("given", frame=1) == "4"
