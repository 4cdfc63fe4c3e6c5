"""One execution of a Java statement is one hit, and a step into enters each call of a line."""

from __future__ import annotations

from collections import Counter

import pytest

from sandbox.debugger import Action, DebugEvent, State
from tests.sandbox.debugger.java_bench import JavaBench

STATEMENTS = """
    import java.util.*;
    import java.util.function.*;

    public class Program {
        static int calls;

        static int call(int... numbers) {
            calls++;
            return numbers.length;
        }

        static class Closing implements AutoCloseable {
            public void close() {
                calls++;
            }
        }

        static void all(int number, String word) {
            int sum = call( // @call
                call(1),
                call(2, 3));
            if (call(number) > 0 // @if
                    && call(
                        number) > 0) {
                calls++;
            }
            try (Closing one = new Closing(); // @resources
                    Closing two = new Closing()) {
                calls += 6 / number; // @body
            } catch (ArithmeticException error) { // @catch
                calls++;
            } finally {
                calls++; // @finally
            }
            switch (word) { // @switch
                case "Aa": calls++; break;
                case "BB": calls++; break;
                default: calls--;
            }
            for (int i = call(); // @for
                    i < 2;
                    i++) {
                calls++; // @turn
            }
            List<Integer> found = new ArrayList<>();
            Arrays.asList(1, 2, 3).forEach(each -> found.add(each)); // @lambda
            Runnable later = new Runnable() { public void run() { calls++; } }; // @anonymous
            later.run();
            found.stream()
                .filter(each -> each > 1) // @filter
                .forEach(each -> {
                    calls += each; // @each
                });
            found.forEach(one -> {
                found.forEach(two -> call(one, two)); // @nested
            });
        }

        public static void main(String[] args) {
            all(1, "Aa");
            all(2, "BB");
            all(0, "C");
        }
    }
"""
HITS = {
    **dict.fromkeys(("call", "if", "resources", "body", "finally", "switch", "for"), 3),
    **dict.fromkeys(("lambda", "anonymous"), 3),
    **{"catch": 1, "turn": 6, "filter": 9, "each": 6, "nested": 9},
}
CALLS = """
    import java.lang.reflect.*;
    import java.util.*;
    import java.util.function.*;

    public class Program {
        static int use(int number) {
            return number + 1;
        }

        static int kind(int number) {
            return number * 2;
        }

        static class Key implements Comparable<Key> {
            public int hashCode() {
                return 1;
            }

            public boolean equals(Object other) {
                return true;
            }

            public int compareTo(Key other) {
                return -1;
            }
        }

        static class Handler implements InvocationHandler {
            public Object invoke(Object proxy, Method method, Object[] arguments) {
                return 7;
            }
        }

        public static void main(String[] args) throws Exception {
            Map<Object, Integer> map = new HashMap<>();
            Key key = new Key();
            Key other = new Key();
            map.put(key, 1);
            IntSupplier proxy = (IntSupplier) Proxy.newProxyInstance(
                Program.class.getClassLoader(), new Class<?>[] {IntSupplier.class}, new Handler());
            Supplier<Integer> supplier = () -> kind(4);
            int a = use(Optional.of(3).map(Program::kind).get()); // @optional
            int b = use(map.computeIfAbsent("q", word -> kind(4))); // @map
            int c = use(proxy.getAsInt()); // @proxy
            Method method = Program.class.getDeclaredMethod("kind", int.class);
            int d = use((int) method.invoke(null, 8)); // @reflect
            int e = use(map.get(other)); // @keys
            int f = use(supplier.get()); // @supplier
            int g = use(Arrays.asList(1, 2).stream().mapToInt(Program::kind).sum()); // @stream
            System.out.println(a + b + c + d + e + f + g);
        }
    }
"""
ENTERED = {
    "optional": ["kind", "use"],
    "map": ["main.<lambda>", "kind", "main.<lambda>", "use"],
    "proxy": ["Handler.invoke", "use"],
    "reflect": ["kind", "use"],
    "keys": ["Key.hashCode", "Key.equals", "use"],
    "supplier": ["main.<lambda>", "kind", "main.<lambda>", "use"],
    "stream": ["kind", "use"],
}


def test_one_execution_of_a_statement_is_one_hit(java_bench: JavaBench) -> None:
    event = java_bench.program(STATEMENTS, *HITS)
    found, stops = Counter[int](), 0
    function = "Program.all.<lambda>"
    assert sum(f"takes a function breakpoint on {function}" in note for note in event.notes) == 2
    while event.state is State.RUNTIME:
        found[event.line or 0] += 1
        stops += 1
        event = java_bench.debugger.control(Action.CONTINUE)
    assert {mark: found[java_bench.line(mark)] for mark in HITS} == HITS
    points = {
        point.line: point.hits for point in java_bench.debugger.list_breakpoints().breakpoints
    }
    assert {mark: points[java_bench.line(mark)] for mark in HITS} == HITS
    assert stops == sum(HITS.values())


RETURNS = """
    public class Program {
        static int closed;

        static int value(int number) {
            try {
                return number * 10; // @value
            } finally {
                closed++;
            }
        }

        static int early(int number) {
            while (true) {
                try {
                    if (number == 2) break; // @break
                    if (number == 1) return number; // @if
                    number--;
                } finally {
                    closed++;
                }
            }
            try {
                return number; // @variable
            } finally {
                number = 0;
            }
        }

        static void nothing() {
            try {
                closed++;
                return; // @nothing
            } finally {
                closed++;
            }
        }

        static int last() {
            try {
                closed++;
            } finally {
                return closed; // @last
            }
        }

        public static void main(String[] args) {
            value(1);
            early(1);
            early(2);
            nothing();
            last();
        }
    }
"""
RETURNED = {"value": 1, "break": 2, "if": 1, "variable": 1, "nothing": 1, "last": 1}


def test_a_return_through_a_finally_block_is_one_hit(java_bench: JavaBench) -> None:
    event = java_bench.program(RETURNS, *RETURNED)
    found = Counter[int]()
    while event.state is State.RUNTIME:
        found[event.line or 0] += 1
        event = java_bench.debugger.control(Action.CONTINUE)
    assert {mark: found[java_bench.line(mark)] for mark in RETURNED} == RETURNED


def entered(bench: JavaBench, mark: str) -> list[str]:
    """The functions that steps into stop in, from a line to the next."""
    event: DebugEvent = bench.start(bench.at(mark))
    found = list[str]()
    while (event.function, event.line) != ("Program.main", bench.line(mark) + 1):
        event = bench.debugger.control(Action.STEP_INTO)
        function = (event.function or "").removeprefix("Program.")
        if function != "main" and found[-1:] != [function]:
            found.append(function)
        assert len(found) < 20, found
    return found


@pytest.mark.parametrize(
    "mark",
    [each if each == "map" else pytest.param(each, marks=pytest.mark.slow) for each in ENTERED],
)
def test_a_step_into_enters_what_is_called_behind_a_library(
    java_bench: JavaBench, mark: str
) -> None:
    java_bench.write({"Program.java": CALLS})
    assert entered(java_bench, mark) == ENTERED[mark]


BRANCHES = """
    public class Program {
        static int twice(int number) {
            return switch (number) { // @switch
                case 1 -> 10;
                case 2 -> {
                    int twice = number * 2;
                    yield twice; // @yield
                }
                default -> 0;
            };
        }

        static boolean both(int a, int b) {
            return a > 0 // @and
                && Math.abs(b) > 0
                && b > 1;
        }

        public static void main(String[] args) {
            int number = args.length;
            int chosen = number == 0 // @chosen
                ? Math.abs(-1)
                : Math.abs(-2);
            int got = twice(2); // @twice
            boolean all = both(0, 1); // @both
            for (int each : new int[] {1, 2}) { // @for
                number += each;
            }
            try {
                number /= args.length; // @raises
            } catch (ArithmeticException error) { number = 9; // @caught
            }
            System.out.println(chosen + got + number + " " + all); // @end
        }
    }
"""


def test_a_step_tells_no_line_of_a_branch_that_is_not_taken(java_bench: JavaBench) -> None:
    java_bench.write({"Program.java": BRANCHES})
    line = java_bench.line
    event = java_bench.start(java_bench.at("chosen"), java_bench.at("yield"), java_bench.at("and"))
    lines, returned = [event.line], list[str]()
    while event.line != line("end"):
        event = java_bench.debugger.control(Action.STEP_OVER)
        lines.append(event.line)
        returned += [event.return_value.text] if event.return_value else []
    head = line("chosen")
    assert lines == [
        *(head, head + 1, line("twice"), line("yield")),
        *(line("switch"), line("twice"), line("both"), line("and"), line("both")),
        *(line("for"), line("for") + 1, line("for"), line("for") + 1, line("for")),
        *(line("raises"), line("raises"), line("caught"), line("end")),
    ]
    assert returned == ["4", "false"]


RESTARTED = """
    public class Program {
        static int half(int number) {
            if (number < 0) {
                throw new IllegalStateException(); // @negative
            }
            return number / 2;
        }

        static class Never {
            static int number = 1; // @never
        }

        public static void main(String[] args) {
            half(-4);
        }
    }
"""


def test_a_restart_counts_anew_and_tells_what_was_never_loaded(java_bench: JavaBench) -> None:
    event = java_bench.program(RESTARTED, "negative", "never")
    assert [point.hits for point in event.breakpoints] == [1, 0]
    event = java_bench.debugger.control(Action.CONTINUE)
    assert event.state is State.POST_MORTEM
    fixed = "// fixed\n" + java_bench.files["Program.java"].replace("half(-4)", "half(4)")
    java_bench.write({"Program.java": fixed})
    event = java_bench.debugger.restart()
    assert (event.state, event.exit_code) == (State.DONE, 0)
    assert [(point.line, point.hits) for point in event.breakpoints] == [
        (java_bench.line("negative"), 0),
        (java_bench.line("never"), 0),
    ]
    assert "the class of breakpoint 2 was never loaded in this process" in event.notes
    listed = java_bench.debugger.list_breakpoints().breakpoints
    assert [point.hits for point in listed] == [0, 0]
