"""Where a Java program stops: breakpoints of every kind, and steps."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sandbox.debugger import (
    Action,
    BreakpointRequest,
    DebugEvent,
    ErrorKind,
    Launch,
    State,
    StopReason,
)
from tests.sandbox.debugger.java_bench import PROGRAM, JavaBench, java_benches, main_program

SHAPES = """
    import java.util.*;
    import java.util.function.*;

    public class Program {
        static int counter;

        static {
            counter = 7; // @static
        }

        static class Box {
            final int side;

            Box(int side) {
                this.side = side; // @constructor
            }

            int area() {
                return side * side; // @area
            }

            class Lid {
                int shut() {
                    return side; // @lid
                }
            }
        }

        static int add(int a, int b) {
            return a + b; // @ints
        }

        static String add(String a, List<String> b) {
            return a + b; // @texts
        }

        static int fib(int n) {
            if (n < 2) { // @fib
                return n; // @leaf
            }
            int left = fib(n - 1); // @left
            return left + fib(n - 2); // @right
        }

        static void each(List<Integer> items) {
            items.forEach(item -> {
                int twice = item * 2; // @lambda
                counter += twice;
            });
            counter++; // @behind
        }

        /** Begins its task once the thread that made it waits. */
        static class Late extends Thread {
            private final Thread maker = Thread.currentThread();

            Late(Runnable task, String name) {
                super(task, name);
            }

            public void run() {
                while (maker.getState() != Thread.State.WAITING) {
                    Thread.yield();
                }
                super.run();
            }
        }

        public static void main(String[] args) throws Exception {
            String who = "main"; // @main
            int sum = add(1, 2); // @sum
            add("a", new ArrayList<>());

            Box box = new Box(3); // @box
            box.area();
            box.new Lid().shut(); // @shut
            Runnable task = new Runnable() {
                public void run() {
                    counter += 1; // @anonymous
                }
            };
            task.run();
            each(Arrays.asList(1, 2, 3)); // @each
            Thread worker = new Late(() -> counter++, "worker-1"); // @worker
            worker.start();
            worker.join();
            fib(5); // @fib5
            int number = 0;
            try { // @try
                number = Integer.parseInt("nine"); // @parse
            } catch (NumberFormatException error) {
                number = -1; // @caught
            }
            System.out.println(sum + who + number); // @last
        }
    }
"""


@pytest.fixture(scope="module")
def shapes() -> Iterator[JavaBench]:
    """One program for all tests: it compiles longer than it runs."""
    with java_benches() as open_one:
        bench = open_one()
        bench.write({"Program.java": SHAPES})
        yield bench


def go_on(bench: JavaBench, times: int = 1) -> DebugEvent:
    for _ in range(times):
        event = bench.debugger.control(Action.CONTINUE)
    return event


def places(bench: JavaBench) -> list[str | None]:
    """The functions of every stop to the program's end."""
    found = []
    while (event := go_on(bench)).state is State.RUNTIME:
        found.append(event.function)
    return found


@pytest.mark.slow
def test_lines_in_every_kind_of_body(shapes: JavaBench) -> None:
    marks = ["constructor", "lid", "anonymous", "lambda", "static", "worker"]
    event = shapes.start(*(shapes.at(mark) for mark in marks))
    assert event.stop_reason is StopReason.BREAKPOINT
    assert event.function == "Program.<clinit>"
    assert places(shapes) == [
        "Program.Box.<init>",
        "Program.Box.Lid.shut",
        "Program$1.run",
        *["Program.each.<lambda>"] * 3,
        "Program.main",
    ]


def test_functions_by_name_class_and_file(shapes: JavaBench) -> None:
    """Of an overloaded function every overload, also if one's signature is given."""
    wanted = ["area", "Program.add(String, List<String>)", "Box.<init>", "Program.java:fib"]
    event = shapes.start(*(BreakpointRequest(function=name) for name in wanted))
    assert (event.function, event.line) == ("Program.add", shapes.line("ints"))
    assert sorted(point.function or "" for point in event.breakpoints) == [
        "Program.Box.<init>",
        "Program.Box.area",
        "Program.add",
        "Program.fib",
    ]
    assert [go_on(shapes).line for _ in range(4)] == [
        shapes.line("texts"),
        shapes.line("constructor") - 1,
        shapes.line("area"),
        shapes.line("fib"),
    ]


LOOPS = """
    List<Integer> items = Arrays.asList(4, 5);
    for (int item : items) { // @each
        if (item == 4) {
            continue;
        }
        System.out.println(item);
    }
    int[] numbers = {1, 2};
    for (int number : numbers) System.out.println(number); // @array
    for (int n = 0; n < 2; n++) { // @classic
        for (int item : items) // @inner
            System.out.println(item);
    }
    int left = 2;
    while (left > 0) { // @while
        left--;
    }
"""


@pytest.mark.slow
def test_every_loops_head_is_reached_before_each_turn_and_at_the_end(java_bench: JavaBench) -> None:
    bench = java_bench
    heads = ["each", "array", "classic", "inner", "while"]
    stop = bench.main(LOOPS, *heads)
    found = list[int | None]()
    while stop.state is State.RUNTIME:
        found.append(stop.line)
        stop = go_on(bench)
    counts = [found.count(bench.line(mark)) for mark in heads]
    assert counts == [3, 3, 3, 6, 3]
    event = bench.debugger.restart()
    assert (event.line, event.function) == (bench.line("each"), "Program.main")
    assert [bench.debugger.control(Action.STEP_OVER).line for _ in range(4)] == [
        *(bench.line("each") + 1, bench.line("each") + 2, bench.line("each")),
        bench.line("each") + 1,
    ]


@pytest.mark.slow
def test_a_bridge_is_no_place_to_stop(java_bench: JavaBench) -> None:
    """javac adds `compareTo(Object)`, which calls the own one, at the line of the class."""
    bench = java_bench
    bench.write(
        {
            PROGRAM: """
            public class Program {
                static class Card implements Comparable<Card> { // @class
                    final int rank;

                    Card(int rank) { // @made
                        this.rank = rank;
                    }

                    public int compareTo(Card other) {
                        return rank - other.rank; // @compared
                    }
                }

                public static void main(String[] args) {
                    java.util.List<Card> cards = java.util.Arrays.asList(new Card(2), new Card(1));
                    java.util.Collections.sort(cards);
                }
            }
            """
        }
    )
    condition = "other.rank > 0"
    function = BreakpointRequest(function="Card.compareTo", condition=condition)
    event = bench.start(bench.at("class"), function)
    assert event.notes == (
        f"breakpoint 1 moved from line {bench.line('class')} to {bench.line('made')}, "
        "in Program.Card.<init>",
    )
    again = bench.debugger.set_breakpoint(bench.at("class"))
    assert again.notes == (*event.notes, "breakpoint 1 is there already")
    stops = [event, *(go_on(bench) for _ in range(3))]
    assert [stop.function for stop in stops] == [
        *["Program.Card.<init>"] * 2,
        *("Program.Card.compareTo", None),
    ]


def test_a_class_that_is_not_loaded_is_pending_then_bound(shapes: JavaBench) -> None:
    shapes.start()
    event = shapes.debugger.set_breakpoint(shapes.at("area"))
    assert event.breakpoints[0].pending
    event = go_on(shapes)
    assert event.line == shapes.line("area")
    assert "breakpoint 1 is bound now" in event.notes
    assert not event.breakpoints[0].pending


def test_a_line_without_code_moves_on(shapes: JavaBench) -> None:
    shapes.start()
    line = shapes.line("box") - 1
    event = shapes.debugger.set_breakpoint(BreakpointRequest(file="Program.java", line=line))
    assert event.breakpoints[0].line == line + 1
    inside = "Program.main"
    assert f"breakpoint 1 moved from line {line} to {line + 1}, in {inside}" in event.notes


def test_what_does_not_exist_is_refused_with_the_nearest(shapes: JavaBench) -> None:
    shapes.start()
    wrong = {
        BreakpointRequest(file="Progam.java", line=5): "nearest: Program.java",
        BreakpointRequest(file="Program.java", line=5000): "the last that does is",
        BreakpointRequest(function="Program.ad"): "nearest: Program.add",
        BreakpointRequest(function="areas"): "nearest: area",
        BreakpointRequest(function="List.of"): "functions of libraries can't be named",
        BreakpointRequest(exception="NoSuchProblem"): "no exception class NoSuchProblem",
        BreakpointRequest(condition="true"): "a breakpoint needs a file and a line",
    }
    for request, told in wrong.items():
        event = shapes.debugger.set_breakpoint(request)
        assert event.error_kind is ErrorKind.BAD_REQUEST
        assert told in (event.error or ""), event.error
    assert shapes.debugger.list_breakpoints().breakpoints == ()
    event = shapes.debugger.remove_breakpoint(9)
    assert event.error == "there is no breakpoint 9; set: none"


@pytest.mark.parametrize(
    "name", ["each.<lambda>", "Program.each.<lambda>", "Program.lambda$each$0"]
)
def test_a_lambda_by_the_name_that_its_stops_tell(shapes: JavaBench, name: str) -> None:
    event = shapes.start(BreakpointRequest(function=name, condition="item > 1"))
    assert event.function == "Program.each.<lambda>"
    assert event.line == shapes.line("lambda")
    assert shapes.text_of("item") == "2"
    event = shapes.debugger.set_breakpoint(BreakpointRequest(function="eahc.<lambda>"))
    assert "nearest: each.<lambda>" in (event.error or "")


def test_conditions_hits_and_temporaries(shapes: JavaBench) -> None:
    conditional = shapes.at("lambda", condition="item > 1 && item.toString().length() == 1")
    event = shapes.start(conditional, shapes.at("leaf", temporary=True))
    assert shapes.text_of("item") == "2"
    assert event.breakpoints[0].hits == 1
    event = go_on(shapes)
    assert (shapes.text_of("item"), event.breakpoints[0].hits) == ("3", 2)
    event = go_on(shapes)
    assert event.line == shapes.line("leaf")
    assert [point.number for point in shapes.debugger.list_breakpoints().breakpoints] == [1]
    assert go_on(shapes).state is State.DONE


@pytest.mark.slow
def test_a_condition_that_runs_methods_in_a_long_loop(java_bench: JavaBench) -> None:
    """No hit is lost to what watches over the methods, which takes events meanwhile."""
    body = """
        int total = 0;
        for (int turn = 0; turn < 500; turn++) {
            String text = "turn " + turn;
            total += text.length();  // @turn
        }
        System.out.println(total);  // @end
    """
    java_bench.write({PROGRAM: main_program(body)})
    last = java_bench.at("turn", condition='text.equals("turn 499")')
    event = java_bench.start(last, java_bench.at("end"))
    assert (event.stop_reason, event.line) == (StopReason.BREAKPOINT, java_bench.line("turn"))
    assert go_on(java_bench).line == java_bench.line("end")


@pytest.mark.slow
def test_a_condition_that_calls_a_method_does_not_end_a_step(java_bench: JavaBench) -> None:
    java_bench.write(
        {
            "Program.java": """
            public class Program {
                static int inner(StringBuilder text) {
                    int size = text.length();
                    return size + 1; // @inner
                }

                static int outer(StringBuilder text) {
                    int first = inner(text);
                    int second = inner(text);
                    return first + second;
                }

                public static void main(String[] args) {
                    int total = outer(new StringBuilder("ab")); // @call
                    System.out.println(total); // @after
                }
            }
            """
        }
    )
    java_bench.start(java_bench.at("call"))
    condition = 'text.toString().startsWith("x")'
    java_bench.debugger.set_breakpoint(java_bench.at("inner", condition=condition))
    event = java_bench.debugger.control(Action.STEP_OVER)
    assert (event.stop_reason, event.line) == (StopReason.STEP, java_bench.line("after"))
    assert java_bench.text_of("total") == "6"


@pytest.mark.slow
def test_a_step_out_of_the_end_of_a_recursion_leaves_one_call(java_bench: JavaBench) -> None:
    text = """
        public class Program {
            static int gcd(int a, int b) {
                return b == 0 ? a : gcd(b, a % b);  // @gcd
            }
            public static void main(String[] args) {
                System.out.println(gcd(48, 18));
            }
        }
    """
    java_bench.write({PROGRAM: text})
    java_bench.start(java_bench.at("gcd", condition="b == 0"))
    event = java_bench.debugger.control(Action.STEP_OUT)
    assert (event.function, event.depth) == ("Program.gcd", 4)
    assert event.return_value is not None
    assert event.return_value.text == "6"
    assert java_bench.text_of("b") == "6"


FINALLY = """
    import java.util.*;

    public class Program {
        static int swallows() {
            try {
                throw new IllegalStateException("lost");
            } finally {
                return 7;
            }
        }
        static void tidies(List<Integer> items) {
            try {
                items.get(3);  // @raises
            } finally {
                items.clear();  // @finally
            }
        }
        public static void main(String[] args) {
            int seven = swallows();
            tidies(new ArrayList<>());  // @call
        }
    }
"""


@pytest.mark.slow
def test_a_finally_block_that_swallows_or_holds_a_breakpoint(java_bench: JavaBench) -> None:
    event = java_bench.program(FINALLY, "call")
    assert (event.state, event.line) == (State.RUNTIME, java_bench.line("call"))
    assert java_bench.text_of("seven") == "7"
    event = go_on(java_bench)
    assert (event.state, event.line) == (State.POST_MORTEM, java_bench.line("raises"))
    java_bench.debugger.set_breakpoint(java_bench.at("finally"))
    java_bench.debugger.restart()
    event = go_on(java_bench)
    assert (event.stop_reason, event.line) == (StopReason.BREAKPOINT, java_bench.line("finally"))
    event = go_on(java_bench)
    assert (event.state, event.function) == (State.POST_MORTEM, "Program.tidies")


PASSED_ON = """
    public class Program {
        static void deep(int n) {
            if (n == 0) {
                throw new IllegalStateException("bottom");  // @bottom
            }
            try {
                deep(n - 1);
            } finally {
                System.out.println(n);  // @finally
            }
        }
        public static void main(String[] args) {
            try {
                deep(2);
            } catch (IllegalStateException error) {
                System.out.println(error);  // @caught
            }
        }
    }
"""


def test_an_exception_that_finally_blocks_pass_on_stops_once(java_bench: JavaBench) -> None:
    java_bench.write({PROGRAM: PASSED_ON})
    event = java_bench.start(BreakpointRequest(exception="IllegalStateException"))
    assert event.line == java_bench.line("bottom")
    out = [java_bench.debugger.control(Action.STEP_OUT) for _ in range(3)]
    assert [(event.stop_reason, event.line, event.depth) for event in out] == [
        (StopReason.STEP, java_bench.line("finally"), 3),
        (StopReason.STEP, java_bench.line("finally"), 2),
        (StopReason.STEP, java_bench.line("caught"), 1),
    ]
    assert out[0].notes == ("Program.deep was left; this is an outer call of it",)
    (point,) = java_bench.debugger.list_breakpoints().breakpoints
    assert point.hits == 1
    assert go_on(java_bench).state is State.DONE


@pytest.mark.slow
def test_a_step_out_passes_what_a_finally_block_raises_again(java_bench: JavaBench) -> None:
    java_bench.write({PROGRAM: PASSED_ON})
    java_bench.start(java_bench.at("bottom"))
    java_bench.debugger.control(Action.STEP_OVER)
    out = [java_bench.debugger.control(Action.STEP_OUT) for _ in range(2)]
    assert [(event.stop_reason, event.depth) for event in out] == [
        (StopReason.STEP, 3),
        (StopReason.STEP, 2),
    ]


def test_a_condition_that_fails_stops_and_says_so(shapes: JavaBench) -> None:
    event = shapes.start(shapes.at("area", condition="missing > 1"))
    assert event.line == shapes.line("area")
    assert any("condition of breakpoint 1" in note and "missing" in note for note in event.notes)


def test_several_breakpoints_and_a_step_make_one_stop(shapes: JavaBench) -> None:
    shapes.start()
    shapes.debugger.set_breakpoint(shapes.at("sum"))
    shapes.debugger.set_breakpoint(shapes.at("sum", condition="true"))
    event = shapes.debugger.control(Action.STEP_OVER)
    assert event.stop_reason is StopReason.BREAKPOINT
    assert [point.number for point in event.breakpoints] == [1, 2]
    event = shapes.debugger.set_breakpoint(shapes.at("sum"))
    assert "breakpoint 1 is there already" in event.notes
    assert shapes.debugger.control(Action.STEP_OVER).line == shapes.line("sum") + 1


def test_exception_breakpoints(shapes: JavaBench) -> None:
    event = shapes.start(BreakpointRequest(exception="IllegalArgumentException"))
    assert (event.stop_reason, event.state) == (StopReason.EXCEPTION, State.RUNTIME_ERROR)
    assert event.line == shapes.line("parse")
    assert event.exception is not None
    assert event.exception.type == "java.lang.NumberFormatException"
    assert event.breakpoints[0].hits == 1
    assert shapes.debugger.control(Action.STEP_OVER).line == shapes.line("caught")
    assert go_on(shapes).state is State.DONE
    uncaught = BreakpointRequest(exception="java.lang.NumberFormatException", uncaught=True)
    assert shapes.start(uncaught).state is State.DONE


def test_a_breakpoint_in_another_thread_names_it(shapes: JavaBench) -> None:
    task = BreakpointRequest(function="Program.main.<lambda>")
    event = shapes.start(shapes.at("worker"), task, stop_at_entry=False)
    assert event.thread is None
    event = go_on(shapes)
    assert (event.thread, event.function) == ("worker-1", "Program.main.<lambda>")
    threads = shapes.debugger.threads().threads
    assert [(thread.name, thread.current) for thread in threads] == [
        ("worker-1", True),
        ("main", False),
    ]
    assert threads[1].doing == "waiting for thread worker-1 to end"
    assert threads[1].frames[0].function == "Program.main"


def test_steps_stay_in_the_program(shapes: JavaBench) -> None:
    event = shapes.start(shapes.at("each"))
    into = [shapes.debugger.control(Action.STEP_INTO) for _ in range(3)]
    assert [event.function for event in into] == [
        "Program.each",
        "Program.each.<lambda>",
        "Program.each.<lambda>",
    ]
    assert into[1].line == shapes.line("lambda")
    event = shapes.debugger.control(Action.STEP_OUT)
    assert event.line == shapes.line("behind"), "out of a lambda, past the library's loop"


def test_recursion_steps_in_its_own_frame_and_tells_what_returned(shapes: JavaBench) -> None:
    shapes.start(shapes.at("left", temporary=True))
    event = shapes.debugger.control(Action.STEP_OVER)
    assert (event.line, event.depth) == (shapes.line("right"), 2)
    event = shapes.debugger.control(Action.STEP_OVER)
    assert (event.line, event.depth) == (shapes.line("fib5"), 1)
    assert event.return_value is not None
    assert (event.return_value.name, event.return_value.text) == ("fib", "5")


def test_step_out_tells_what_returned(shapes: JavaBench) -> None:
    shapes.start(shapes.at("area"))
    event = shapes.debugger.control(Action.STEP_OUT)
    assert (event.function, event.depth) == ("Program.main", 1)
    assert event.return_value is not None
    assert (event.return_value.name, event.return_value.text) == ("area", "9")


@pytest.mark.slow
def test_an_exception_on_the_way_of_a_step_stops_it(shapes: JavaBench) -> None:
    shapes.start(shapes.at("parse"))
    event = shapes.debugger.control(Action.STEP_OVER)
    assert (event.stop_reason, event.state) == (StopReason.EXCEPTION, State.RUNTIME_ERROR)
    assert event.line == shapes.line("parse")
    assert shapes.debugger.control(Action.STEP_OVER).line == shapes.line("caught")


def test_a_step_off_the_end_runs_on(shapes: JavaBench) -> None:
    shapes.start(shapes.at("last"))
    event = shapes.debugger.control(Action.STEP_OVER)
    assert event.output == "3main-1\n"
    event = shapes.debugger.control(Action.STEP_OVER)
    assert event.state is State.DONE
    assert (event.exit_code, event.output) == (0, "")
    assert event.notes[0].startswith("Program.main ended and no caller in the program goes on")


def test_breakpoints_survive_a_restart_and_an_edit(java_bench: JavaBench) -> None:
    shapes = java_bench
    shapes.write({"Program.java": SHAPES})
    shapes.start(shapes.at("area", condition="side == 3"))
    shapes.debugger.set_breakpoint(BreakpointRequest(function="Program.each"))
    line = shapes.line("area")
    edited = shapes.files["Program.java"].replace("static int counter;", "static int counter;\n\n")
    shapes.write({"Program.java": edited})
    event = shapes.debugger.restart()
    assert event.line == line + 2
    moved = f"breakpoint 1 moved from line {line} to {line + 2}, in Program.Box.area"
    assert moved in event.notes
    assert [point.condition for point in event.breakpoints] == ["side == 3", None]
    assert go_on(shapes).function == "Program.each"


@pytest.mark.slow
def test_a_breakpoint_set_after_an_edit_is_at_the_line_of_the_edited_file(
    java_bench: JavaBench,
) -> None:
    bench, written = java_bench, "Program.java was written after the program started: "
    body = "for (int n = 0; n < 2; n++) {\n    int m = n * 2; // @double\n}"
    bench.main(body)
    bench.write({"Program.java": "// new\n// lines\n" + bench.files["Program.java"]})
    event = bench.debugger.set_breakpoint(bench.at("double"))
    line = bench.line("double")
    assert event.notes == (f"{written}line {line} is line {line - 2} of the version that runs",)
    assert event.breakpoints[0].line == line
    assert (go_on(bench).line, bench.text_of("n")) == (line - 2, "0")
    more = body + "\nSystem.out.println(); // @print"
    bench.write({"Program.java": main_program(more)})
    event = bench.debugger.set_breakpoint(bench.at("print"))
    assert event.notes == (f"{written}breakpoint 2 takes effect after a restart",)
    assert not event.breakpoints[-1].pending
    bench.debugger.restart()
    places = [point.line for point in bench.debugger.list_breakpoints().breakpoints]
    assert places == [bench.line("double"), bench.line("print")]


@pytest.mark.slow
def test_a_program_that_has_ended_keeps_its_session(java_bench: JavaBench) -> None:
    shapes = java_bench
    shapes.write({"Program.java": SHAPES})
    shapes.start(shapes.at("area", condition="side == 99"))
    assert shapes.debugger.state is State.DONE
    shapes.debugger.set_breakpoint(BreakpointRequest(function="Program.each"))
    shapes.debugger.set_breakpoint(BreakpointRequest(exception="RuntimeException"))
    shapes.debugger.remove_breakpoint(1)
    event = shapes.debugger.restart()
    assert event.function == "Program.each"
    assert [point.number for point in event.breakpoints] == [2, 3]
    event = shapes.debugger.start(Launch("Programm"))
    assert (event.error_kind, event.state) == (ErrorKind.NO_SUCH_TEST, State.RUNTIME)
    assert shapes.text_of("1 + 1") == "2"


def test_the_source_around_a_stop_is_marked(shapes: JavaBench) -> None:
    event = shapes.start(shapes.at("sum"))
    line = shapes.line("sum")
    assert [text for text in event.source if text.startswith("->")] == [
        f"-> *{line:>6}          int sum = add(1, 2); // @sum"
    ]
