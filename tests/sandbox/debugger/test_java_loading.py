"""Breakpoints in Java code that is loaded, set up or started in unusual ways."""

from __future__ import annotations

import pytest

from sandbox.debugger import Action, DebugEvent, State, StopReason
from tests.sandbox.debugger.java_bench import JavaBench

LOADED = """
    import java.net.*;
    import java.nio.file.*;
    import java.util.function.*;

    public class Program {
        static int made;

        static class Plug implements Supplier<String> {
            static final int START = made++; // @static

            private final int size = made; // @field

            Plug() {
                made++; // @made
            }

            Plug(int more) {
                made += more;
            }

            public String get() {
                return "plug" + size; // @get
            }
        }

        static Supplier<String> lazily() {
            return new Supplier<String>() { // @outer
                public String get() {
                    return "lazy"; // @anonymous
                }
            };
        }

        static String late(int turn) {
            Supplier<String> found = () -> turn > 0 ? lazily().get() : "early";
            return found.get();
        }

        public static void main(String[] args) throws Exception {
            URL here = Program.class.getProtectionDomain().getCodeSource().getLocation();
            for (int turn = 0; turn < 2; turn++) {
                try (URLClassLoader loader = new URLClassLoader(new URL[] {here}, null)) {
                    Class<?> type = loader.loadClass("Program$Plug");
                    java.lang.reflect.Constructor<?> maker = type.getDeclaredConstructor();
                    maker.setAccessible(true);
                    System.out.println(((Supplier<?>) maker.newInstance()).get());
                }
            }
            new Plug().get();
            new Plug(3).get();
            int last = made; // @ready
            lazily().get();
            late(1);
        }
    }
"""


def stops(bench: JavaBench, event: DebugEvent) -> list[str]:
    """The marks of the lines at which the program stops until its end."""
    marks = {
        number: text.rpartition("// @")[2]
        for number, text in enumerate(bench.files["Program.java"].splitlines(), 1)
        if "// @" in text
    }
    found = []
    while event.state is State.RUNTIME:
        found.append(marks[event.line or 0])
        event = bench.debugger.control(Action.CONTINUE)
    assert event.stop_reason is StopReason.EXITED, event
    return found


def test_each_version_of_a_class_and_each_constructor_counts(java_bench: JavaBench) -> None:
    event = java_bench.program(LOADED, "static", "field", "made", "get")
    one = ["static", "field", "made", "get"]
    assert stops(java_bench, event) == [*one, *one, *one, "field", "get"]
    listed = java_bench.debugger.list_breakpoints()
    assert [point.hits for point in listed.breakpoints] == [3, 4, 3, 4]


@pytest.mark.parametrize("evaluates", [False, True])
def test_a_class_that_an_evaluation_loads_is_bound_as_well(
    java_bench: JavaBench, evaluates: bool
) -> None:
    java_bench.program(LOADED, "ready")
    for mark in ("anonymous", "outer"):
        java_bench.debugger.set_breakpoint(java_bench.at(mark))
    if evaluates:
        assert java_bench.text_of("lazily().get()") == '"lazy"'
    event = java_bench.debugger.control(Action.CONTINUE)
    assert stops(java_bench, event) == ["outer", "anonymous"] * 2


SPINNING = """
    public class Program {
        static volatile boolean over;
        static volatile int turns;

        static void spin() {
            while (!over) {
                turns++; // @turn
            }
        }

        static int down(int number) {
            if (number == 0) {
                return 0; // @zero
            }
            int below = down(number - 1); // @down
            return below + 1; // @up
        }

        public static void main(String[] args) throws Exception {
            Thread early = new Thread(Program::spin, "early");
            early.start();
            while (turns == 0) {
                Thread.yield();
            }
            int depth = down(3); // @started
            int goal = turns + 20;
            while (turns < goal) {
                Thread.yield();
            }
            over = true; // @over
            early.join();
        }
    }
"""


def test_a_thread_that_runs_already_stops_at_a_new_breakpoint(java_bench: JavaBench) -> None:
    java_bench.program(SPINNING, "started")
    java_bench.debugger.remove_breakpoint(1)
    java_bench.debugger.set_breakpoint(java_bench.at("turn", watch=("turns",)))
    seen = list[int]()
    for number in range(1, 6):
        event = java_bench.debugger.control(Action.STEP_OVER if number % 2 else Action.CONTINUE)
        if event.hit:
            assert (event.thread, event.hit[0].hits) == ("early", len(seen) + 1)
            seen.append(int(event.values[0].text))
    assert seen == list(range(seen[0], seen[0] + len(seen)))


def test_a_step_over_a_recursion_stops_at_each_breakpoint_in_it(java_bench: JavaBench) -> None:
    java_bench.program(SPINNING, "started", "zero", "up")
    marks = []
    for _ in range(4):
        event = java_bench.debugger.control(Action.STEP_OVER)
        marks.append(event.line)
    zero, up = java_bench.line("zero"), java_bench.line("up")
    assert marks[0] == zero
    assert up in marks
    event = java_bench.debugger.control(Action.CONTINUE)
    while event.state is State.RUNTIME:
        event = java_bench.debugger.control(Action.CONTINUE)
    listed = java_bench.debugger.list_breakpoints()
    assert [point.hits for point in listed.breakpoints] == [1, 1, 3]


def test_a_breakpoint_that_was_removed_in_a_hot_loop_costs_nothing_more(
    java_bench: JavaBench,
) -> None:
    java_bench.main(
        """
        int sum = 0;
        for (int turn = 0; turn < 3_000_000; turn++) {
            sum += turn % 3; // @turn
        }
        System.out.println(sum); // @end
        """,
        "turn",
        "end",
    )
    java_bench.debugger.remove_breakpoint(1)
    event = java_bench.debugger.control(Action.CONTINUE)
    assert event.line == java_bench.line("end")
