"""Watched expressions, at every stop or collected over many hits, in Python and in Java."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from sandbox.debugger import (
    Action,
    BreakpointRequest,
    DebugEvent,
    ErrorKind,
    State,
    StopReason,
)
from sandbox.debugger.rendering import render
from sandbox.debugger.session import ALREADY_HERE
from tests.interpreters import find_interpreter
from tests.sandbox.debugger.conftest import LIMITS, Workbench
from tests.sandbox.debugger.java_bench import JavaBench, java_benches

PYTHON = """
    def add(total, n):
        total += n  # @add
        return total

    total = 0
    for n in range(1, 9):
        total = add(total, n)  # @call
    print(total)  # @end
"""
JAVA = """
public class Program {
    static int add(int total, int n) {
        total += n; // @add
        return total;
    }

    public static void main(String[] args) {
        int total = 0;
        for (int n = 1; n < 9; n++) {
            total = add(total, n); // @call
        }
        System.out.println(total); // @end
    }
}
"""


@pytest.fixture
def open_python(open_bench: Callable[..., Workbench]) -> Callable[..., Workbench]:
    interpreter = find_interpreter("3.11")
    if interpreter is None:
        pytest.skip("CPython 3.11 is not on this machine")
    return lambda *limits: open_bench(interpreter, *limits)


@pytest.fixture(scope="module")
def java() -> Iterator[JavaBench]:
    """Compiled once."""
    with java_benches() as open_one:
        made = open_one()
        made.write({"Program.java": JAVA})
        yield made


@pytest.fixture(params=["python", "java"])
def bench(
    request: pytest.FixtureRequest, open_python: Callable[..., Workbench]
) -> Workbench | JavaBench:
    """A program that adds up 1 to 8, not started."""
    found: Workbench | JavaBench
    if request.param == "python":
        found = open_python()
        found.write({"program.py": PYTHON})
    else:
        found = request.getfixturevalue("java")
    return found


def shown(event: DebugEvent) -> list[tuple[str, str]]:
    """The values of a stop, "failed" for those that have none."""
    return [(each.name, "failed" if each.failed else each.text) for each in event.values]


def test_watches_are_shown_at_every_stop(bench: Workbench | JavaBench) -> None:
    where = bench.at("add", watch=("n * 2", "gone", "lost + 1"))
    event = bench.start(where, watch=("total", "n"))
    expected = [
        ("total", "0"),
        ("n", "1"),
        ("n * 2", "2"),
        ("gone", "failed"),
        ("lost + 1", "failed"),
    ]
    assert shown(event) == expected
    assert event.error_kind is None
    listed = bench.debugger.list_breakpoints()
    assert [point.watch for point in listed.breakpoints] == [("n * 2", "gone", "lost + 1")]
    text = render(event)
    assert "\nWatched:\ntotal = 0" in text
    assert "\nnot available here: gone, lost + 1" in text
    assert "watching n * 2, gone, lost + 1" in render(listed)
    stepped = bench.debugger.control(Action.STEP_OVER)
    assert shown(stepped) == [("total", "1"), ("n", "1")], "the breakpoint's are for its stops"
    assert shown(bench.debugger.control(Action.CONTINUE))[:2] == [("total", "1"), ("n", "2")]
    assert shown(bench.debugger.restart()) == expected, "a restart keeps them"


def test_a_watch_that_fails_says_why(bench: Workbench | JavaBench) -> None:
    """Only names that the place does not have are summed up."""
    event = bench.start(bench.at("add", watch=("n / (n - 1)", "gone")), watch=("total +", "n"))
    text = render(event)
    python = isinstance(bench, Workbench)
    error = "ZeroDivisionError: division by zero" if python else "ArithmeticException: / by zero"
    assert f"\nn / (n - 1): {error}" in text
    assert "\nnot available here: gone\n" in text
    given = "'total +' is not an expression: "
    assert f"Note: not watched: the watch {given}" in text
    assert [name for name, _ in shown(event)] == ["n", "n / (n - 1)", "gone"]
    refused = [
        bench.debugger.set_breakpoint(bench.at("call", watch=("n", "total +"))),
        bench.debugger.collect(bench.at("add", watch=("total +",)), 2),
    ]
    for event in refused:
        assert event.error_kind is ErrorKind.BAD_REQUEST
        assert given in str(event.error)
    assert bench.text_of("n") == "1", "nothing ran"
    assert [name for name, _ in shown(bench.debugger.restart())][:1] == ["n"]


def test_hits_are_collected_in_one_table(bench: Workbench | JavaBench) -> None:
    bench.start(bench.at("add", condition="n == 2"))
    bench.debugger.remove_breakpoint(1)
    event = bench.debugger.collect(bench.at("add", watch=("total", "n", "gone")), 3)
    assert (event.state, event.line) == (State.RUNTIME, bench.line("add"))
    assert [[value.text for value in hit.values[:2]] for hit in event.collected] == [
        ["3", "3"],
        ["6", "4"],
        ["10", "5"],
    ]
    assert all(hit.values[2].failed for hit in event.collected)
    assert event.values == ()
    assert bench.debugger.list_breakpoints().breakpoints == (), "it is removed again"
    lines = render(event).splitlines()
    assert lines[0].endswith("(collected hit 3)")
    heading = next(n for n, line in enumerate(lines) if line.startswith("Collected at "))
    assert lines[heading + 1] == "hit | total | n | gone"
    assert lines[heading + 2].startswith("1 | 3 | 3 | (")
    assert bench.text_of("n") == "5", "it stays at the last hit"


def test_other_breakpoints_do_not_end_collecting(bench: Workbench | JavaBench) -> None:
    bench.start(bench.at("call"))
    event = bench.debugger.collect(bench.at("add", watch=("n",)), 3)
    assert (event.action, event.line) == (Action.COLLECT, bench.line("add"))
    assert [hit.values[0].text for hit in event.collected] == ["1", "2", "3"]
    assert event.notes[-1].endswith("hit on the way, and not stopped at: 1 (2 hits)")
    (passed,) = bench.debugger.list_breakpoints().breakpoints
    assert passed.hits == 3, "those that were passed count"
    assert bench.debugger.control(Action.CONTINUE).line == bench.line("call"), "it stops again"
    event = bench.debugger.collect(bench.at("call", watch=("n",)), 2)
    assert [(hit.number, hit.values[0].text) for hit in event.collected] == [(5, "5"), (6, "6")]
    assert "hits before 5 came before this collection" in event.notes
    ended = bench.debugger.collect(bench.at("add"), 20)
    assert (ended.stop_reason, len(ended.collected)) == (StopReason.EXITED, 3)


def test_the_stop_where_it_is_does_not_count(bench: Workbench | JavaBench) -> None:
    for place, is_told in (("end", True), ("call", False)):
        bench.start(bench.at(place), stop_at_entry=False)
        event = bench.debugger.collect(bench.at("end" if is_told else "add"), 3)
        assert (event.collected == (), ALREADY_HERE in event.notes) == (is_told, is_told)


@pytest.mark.slow
def test_collecting_passes_the_tests_entry(java_bench: JavaBench) -> None:
    text = JAVA.replace("static int add", "static { add(0, 0); } // @early\n    static int add")
    java_bench.write({"Program.java": text})
    java_bench.start(java_bench.at("early"), stop_at_entry=True)
    event = java_bench.debugger.collect(java_bench.at("add", watch=("n",)), 3)
    assert [hit.values[0].text for hit in event.collected] == ["0", "1", "2"]
    java_bench.debugger.restart()
    first = BreakpointRequest(file="Program.java", line=java_bench.line("call") - 2)
    event = java_bench.debugger.collect(first, 1)
    assert len(event.collected) == 1, "the entry's own line"


def test_an_exception_breakpoint_ends_collecting(open_python: Callable[..., Workbench]) -> None:
    bench = open_python()
    bench.script("""
        for n in range(5):
            try:
                n = 6 / (n - 2)  # @divide
            except ZeroDivisionError:
                pass
    """)
    bench.debugger.set_breakpoint(BreakpointRequest(exception="ZeroDivisionError"))
    event = bench.debugger.collect(bench.at("divide", watch=("n",)), 5)
    assert event.stop_reason is StopReason.EXCEPTION
    assert [hit.values[0].text for hit in event.collected] == ["0", "1", "2"]
    came_first = "exception breakpoint 1, which is still set, came first"
    assert f"3 of 5 hits: {came_first}" in event.notes
    text = render(event)
    assert "in <module>, before the line ran:" in text, "although an exception has ended it"
    assert f"-> *{bench.line('divide'):>6} " not in text, "its breakpoint is removed"


def test_collected_exceptions_are_told_as_such(open_python: Callable[..., Workbench]) -> None:
    bench = open_python()
    bench.script("""
        for n in range(3):
            try:
                n = 6 / 0
            except ZeroDivisionError:
                pass
    """)
    request = BreakpointRequest(exception="ZeroDivisionError", watch=("n",))
    event = bench.debugger.collect(request, 5)
    assert event.stop_reason is StopReason.EXITED
    assert [hit.values[0].text for hit in event.collected] == ["0", "1", "2"]
    assert ", when it was raised:" in render(event)


def test_a_condition_that_was_false_each_time_is_told(bench: Workbench | JavaBench) -> None:
    bench.start(bench.at("add"))
    other = bench.at("add", condition="n > 99")
    event = bench.debugger.collect(other, 5)
    reached = "the place was reached 7 times from that stop on"
    assert event.notes == (
        f"{reached}, and its condition was false each time",
        "other breakpoints hit on the way, and not stopped at: 1 (7 hits)",
    )
    assert not event.collected


def test_an_exception_that_is_not_raised_again_has_no_place(bench: Workbench | JavaBench) -> None:
    bench.start(bench.at("add"))
    kind = "KeyError" if isinstance(bench, Workbench) else "IllegalStateException"
    event = bench.debugger.collect(BreakpointRequest(exception=kind), 5)
    assert not event.collected
    assert "the place" not in "".join(event.notes)


def test_a_condition_that_fails_ends_collecting(bench: Workbench | JavaBench) -> None:
    bench.start()
    event = bench.debugger.collect(bench.at("add", condition="gone > 1", watch=("n",)), 5)
    assert [hit.values[0].text for hit in event.collected] == ["1"]
    assert any(note.startswith("the condition ") for note in event.notes)
    bench.debugger.set_breakpoint(bench.at("call", condition="gone > 1"))
    event = bench.debugger.collect(bench.at("add", watch=("n",)), 3)
    assert len(event.collected) == 3
    assert any("condition of breakpoint 2 " in note for note in event.notes)
    assert not any("not stopped at" in note for note in event.notes), "those are no hits"


def test_a_time_out_ends_collecting_at_another_breakpoint(
    open_python: Callable[..., Workbench],
) -> None:
    bench = open_python(replace(LIMITS, action_timeout=0.3))
    event = bench.script(
        """
        def f(n):
            return n  # @never

        n = 0
        while True:
            n += 1  # @busy
    """,
        "busy",
    )
    assert event.stop_reason is StopReason.BREAKPOINT
    event = bench.debugger.collect(bench.at("never"), 2)
    assert event.collected == ()
    assert event.stop_reason in (StopReason.BREAKPOINT, StopReason.INTERRUPTED)


def test_collecting_ends_with_the_program(bench: Workbench | JavaBench) -> None:
    bench.start(watch=("total",))
    event = bench.debugger.collect(bench.at("add", condition="n > 6"), 20)
    assert (event.state, event.stop_reason) == (State.DONE, StopReason.EXITED)
    assert [[value.text for value in hit.values] for hit in event.collected] == [["21"], ["28"]]
    assert event.output.strip() == "36"
    assert "2 of 20 hits: the program ended before the next" in event.notes
    lines = render(event).splitlines()
    assert lines[0] == "Program ended with exit code 0"
    assert "1 | 21" in lines
    assert bench.debugger.collect(bench.at("add"), 1).error_kind is ErrorKind.NOT_ALLOWED
    again = bench.debugger.restart()
    assert again.breakpoints == (), "it is not set again"


def test_a_breakpoint_that_was_there_stays(bench: Workbench | JavaBench) -> None:
    bench.start(bench.at("add", watch=("n",)))
    event = bench.debugger.collect(bench.at("add"), 2)
    assert [(hit.number, hit.values[0].text) for hit in event.collected] == [(2, "2"), (3, "3")]
    (point,) = bench.debugger.list_breakpoints().breakpoints
    assert (point.number, point.watch) == (1, ("n",))
    other = bench.debugger.collect(bench.at("add", condition="n > 5"), 1)
    told = "".join([*event.notes, *other.notes])
    assert "already" not in told
    assert "are at line" not in told
    assert other.notes[-1].endswith(": 1 (3 hits)"), "also where both are"


def test_watches_are_set_at_a_breakpoint_that_is_there(bench: Workbench | JavaBench) -> None:
    bench.start(bench.at("add"))
    bench.debugger.restart()
    for watch, told in (
        ((), "breakpoint 1 is there already"),
        (("n",), "breakpoint 1 was there; watches added"),
        (("n",), "breakpoint 1 is there already"),
        (("total",), "breakpoint 1 was there; watches replaced"),
        ((), "breakpoint 1 is there already"),
    ):
        event = bench.debugger.set_breakpoint(bench.at("add", watch=watch))
        assert event.notes == (told,)
    assert event.breakpoints[0].watch == ("total",)


def test_what_cannot_be_set_collects_nothing(bench: Workbench | JavaBench) -> None:
    start = bench.start()
    event = bench.debugger.collect(BreakpointRequest(function="no_such_function"), 2)
    assert (event.action, event.error_kind) == (Action.COLLECT, ErrorKind.BAD_REQUEST)
    assert json.loads(event.arguments) == {"function": "no_such_function", "hits": 2}
    assert render(event).startswith("Error (bad_request): ")
    assert bench.debugger.control(Action.STEP_OVER).depth == start.depth, "it has not run on"


def test_one_answer_holds_so_much(open_python: Callable[..., Workbench]) -> None:
    limits = replace(LIMITS, max_values=3, value_chars=40, collected_chars=25)
    bench = open_python(limits)
    bench.script(PYTHON)
    few = bench.debugger.collect(bench.at("add", watch=("n",)), 20)
    assert [hit.values[0].text for hit in few.collected] == ["1", "2", "3"]
    assert "collect again" in render(few)
    wide = bench.debugger.collect(bench.at("add", watch=("'x' * 30",)), 3)
    assert [hit.values[0].text for hit in wide.collected] == ["'xxxxxxxxx"] * 3
    assert wide.collected[0].values[0].truncated
    assert "1 | 'xxxxxxxxx ..." in render(wide)
    full = bench.debugger.collect(bench.at("add", watch=("'x' * 30",) * 3), 3)
    assert len(full.collected) == 1


def test_a_time_out_leaves_what_was_collected(open_python: Callable[..., Workbench]) -> None:
    bench = open_python(replace(LIMITS, action_timeout=1.0))
    bench.script("""
        def f(n):
            return n  # @hit

        for n in range(3):
            f(n)
        while True:
            pass
    """)
    event = bench.debugger.collect(bench.at("hit", watch=("n",)), 20)
    assert event.stop_reason is StopReason.INTERRUPTED
    assert [hit.values[0].text for hit in event.collected] == ["0", "1", "2"]


def test_hits_at_several_places_say_where(open_python: Callable[..., Workbench]) -> None:
    bench = open_python()
    bench.script("""
        def risky(n):
            if n == 1:
                return {}["a"]  # @key
            return [][n]  # @index

        for n in (1, 2):
            try:
                risky(n)
            except LookupError:
                pass
    """)
    event = bench.debugger.collect(BreakpointRequest(exception="LookupError", watch=("n",)), 2)
    key, index = bench.line("key"), bench.line("index")
    table = render(event).splitlines()[-5:]
    assert table == [
        "Collected, when it was raised:",
        "hit | place | n",
        f"1 | program.py:{key} | 1",
        f"2 | program.py:{index} | 2",
        "Note: more hits may follow: collect again to go on",
    ]


def test_hits_in_several_functions_say_which(java_bench: JavaBench) -> None:
    java_bench.program("""
        public class Program {
            int half(int end) { return end / 2; } int twice(int n) { return n * 2; } // @line

            public static void main(String[] args) {
                Program program = new Program();
                System.out.println(program.half(9) + program.twice(4));
            }
        }
    """)
    event = java_bench.debugger.collect(java_bench.at("line", watch=("end", "n")), 2)
    rows = render(event).splitlines()
    place = f"Program.java:{java_bench.line('line')} in Program"
    header = rows.index("hit | place | end | n")
    assert rows[header + 1].startswith(f"1 | {place}.half | 9 | (")
    assert rows[header + 2].startswith(f"2 | {place}.twice | (")
    assert rows[header + 2].endswith(" | 4")


def test_a_lambda_has_the_this_that_it_captures(java_bench: JavaBench) -> None:
    java_bench.program("""
        import java.util.stream.IntStream;

        public class Program {
            int sum(int end) {
                return IntStream.range(1, end).map(n -> {
                    return n * 2; // @line
                }).sum();
            }

            public static void main(String[] args) {
                System.out.println(new Program().sum(9));
            }
        }
    """)
    event = java_bench.debugger.collect(java_bench.at("line", watch=("n",)), 1)
    assert event.function == "Program.sum.<lambda>"
    assert java_bench.debugger.evaluate("this").error == "this lambda does not capture this"
    assert java_bench.debugger.evaluate("this", 1).error is None


def test_watches_that_are_not_where_collecting_ended_are_left_out(
    open_python: Callable[..., Workbench],
) -> None:
    bench = open_python()
    bench.write(
        {
            "test_it.py": """
            def double(n):
                return n * 2  # @double

            def test_it():
                double(1)
                raise ValueError(double(2))
        """
        }
    )
    bench.start(test="test_it.py::test_it", watch=("n",))
    event = bench.debugger.collect(bench.at("double", "test_it.py"), 5)
    assert event.state is State.POST_MORTEM
    assert "2 of 5 hits: the test failed before the next" in event.notes
    text = render(event)
    assert "hit | n\n1 | 1\n2 | 2\n" in text
    assert "not available here" not in text
    assert "Watched:" not in text


def test_a_watch_that_never_ends_costs_little_of_a_stop(
    open_python: Callable[..., Workbench],
) -> None:
    bench = open_python(replace(LIMITS, watch_timeout=0.2))
    endless = "[x for x in iter(int, 1)]"
    event = bench.script(PYTHON, "add", watch=(endless, "n"))
    assert event.stop_reason is StopReason.BREAKPOINT
    assert [(value.failed, value.text) for value in event.values][1:] == [(False, "1")]
    assert event.values[0].failed


def test_a_watch_that_ends_the_program_is_told(open_python: Callable[..., Workbench]) -> None:
    bench = open_python()
    event = bench.script(PYTHON, "add", watch=("__import__('os')._exit(3)",))
    assert (event.action, event.state) == (Action.START, State.DONE)
    assert "this came of evaluating the watched expression" in render(event)
    assert bench.debugger.state is State.DONE


def test_watches_are_shown_post_mortem(open_python: Callable[..., Workbench]) -> None:
    bench = open_python()
    bench.write({"test_it.py": "def test_it():\n    n = 3\n    assert n == 4\n"})
    event = bench.start(test="test_it.py::test_it", stop_at_entry=False, watch=("n",))
    assert event.state is State.POST_MORTEM
    assert shown(event) == [("n", "3")]
