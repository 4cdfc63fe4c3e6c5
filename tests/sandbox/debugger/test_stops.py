"""Where a session stops: entry, breakpoints of every kind, steps, exceptions."""

from __future__ import annotations

import pytest

from sandbox import Command
from sandbox.debugger import Action, BreakpointRequest, ErrorKind, State, StopReason
from sandbox.debugger.rendering import render
from tests.sandbox.debugger.conftest import Workbench

CART = """
    import functools

    class Cart:
        def __init__(self):
            self.items = []

        def add(self, price):
            '''Adds.'''
            self.items.append(price)  # @add
            return len(self.items)

        def total(self):
            total = 0  # @total
            for price in self.items:
                total += price  # @loop

            # A comment that holds no code.
            return total  # @return

    def main():
        cart = Cart()  # @main
        cart.add(3)  # @first
        cart.add(4)
        result = cart.total()  # @call
        return result  # @end

    main()  # @start
"""


def test_a_script_stops_at_its_first_line(bench: Workbench) -> None:
    event = bench.script(CART)
    assert (event.state, event.stop_reason) == (State.RUNTIME, StopReason.ENTRY)
    assert (event.file, event.line, event.function) == ("program.py", 2, "<module>")
    assert event.depth == 1


def test_line_breakpoints_stop_and_count(bench: Workbench) -> None:
    event = bench.script(CART, "loop")
    assert (event.stop_reason, event.line) == (StopReason.BREAKPOINT, bench.line("loop"))
    assert (event.function, event.depth) == ("Cart.total", 3)
    assert [(point.number, point.hits) for point in event.breakpoints] == [(1, 1)]
    event = bench.debugger.control(Action.CONTINUE)
    assert [point.hits for point in event.breakpoints] == [2]
    event = bench.debugger.control(Action.CONTINUE)
    assert (event.state, event.stop_reason, event.exit_code) == (State.DONE, StopReason.EXITED, 0)


def test_a_statement_of_several_lines_stops_once(bench: Workbench) -> None:
    event = bench.script(
        """
        def pair(a, b):
            return a, b


        def run(n):
            try:
                both = pair(  # @call
                    n,
                    n + 1,
                )
                return both[
                    n  # @index
                ]
            finally:
                pair(  # @cleanup
                    0,
                    both,
                )


        for turn in range(2):
            run(turn)
        try:
            run(2)
        except IndexError:
            pass
        """,
        *("call", "index", "cleanup"),
    )
    seen = []
    while event.state is State.RUNTIME:
        seen.append(event.line)
        event = bench.debugger.control(Action.CONTINUE)
    assert seen == [bench.line(mark) for mark in ("call", "index", "cleanup")] * 3


def test_a_header_of_several_lines_stops_for_each_execution(bench: Workbench) -> None:
    event = bench.script(
        """
        def items(start, end):
            return list(range(start, end))


        def run():
            for item in items(  # @for
                0,
                2,
            ):
                while (item  # @while
                       < 1):
                    item += 1


        run()
        """,
        *("for", "while"),
    )
    seen = []
    while event.state is State.RUNTIME:
        seen.append(event.line)
        event = bench.debugger.control(Action.CONTINUE)
    head, test = bench.line("for"), bench.line("while")
    # A stop when the loop is entered, one at each turn; the test is made twice in the first turn.
    assert [line for line in seen if line == test] == [test] * 3
    assert seen[0] == head
    assert seen.count(head) == 3


def test_a_script_outside_of_the_workspace_is_the_programs_own(some_bench: Workbench) -> None:
    bench = some_bench
    script = "def grow(n):\n    return n + 1\n\n\nprint(grow(1))\n"
    run = ["sh", "-c", 'printf %s "$0" > /tmp/try.py', script]
    assert bench.sandbox.run(Command(run)).exit_code == 0
    event = bench.start(BreakpointRequest(function="grow"), test="/tmp/try.py")
    assert (event.file, event.line, event.function) == ("/tmp/try.py", 2, "grow")
    bench.start(test="/tmp/try.py")
    bench.debugger.control(Action.STEP_OVER)
    event = bench.debugger.control(Action.STEP_INTO)
    assert (event.file, event.line, event.function) == ("/tmp/try.py", 2, "grow")


def test_function_breakpoints_stop_after_the_docstring(bench: Workbench) -> None:
    bench.write({"program.py": CART})
    event = bench.start(BreakpointRequest(function="Cart.add"), BreakpointRequest(function="main"))
    assert (event.function, event.line) == ("main", bench.line("main"))
    event = bench.debugger.control(Action.CONTINUE)
    assert (event.function, event.line) == ("Cart.add", bench.line("add"))
    assert bench.text_of("price") == "3"


def test_no_function_of_a_text_is_named_as_the_nearest(some_bench: Workbench) -> None:
    text = '''
        SOURCE = """
        def made(n):
            return n
        """
        def make(n):
            return n
        x = 1  # @x
    '''
    some_bench.script(text, "x")
    for name in ("made", "program.py:made", "program.made"):
        event = some_bench.debugger.set_breakpoint(BreakpointRequest(function=name))
        told = f"the program has no function {name}; nearest: program.py:make"
        assert (event.error or "").startswith(told)


def test_a_function_breakpoint_counts_calls_and_not_turns_of_a_loop(bench: Workbench) -> None:
    bench.script(
        """
        def spin(n):
            while n:
                n -= 1

        spin(3)
        spin(2)
        """
    )
    bench.debugger.set_breakpoint(BreakpointRequest(function="spin"))
    seen = []
    while bench.debugger.control(Action.CONTINUE).state is State.RUNTIME:
        seen.append(bench.text_of("n"))
    assert seen == ["3", "2"]


def test_conditions_and_temporary_breakpoints(bench: Workbench) -> None:
    bench.write({"program.py": CART})
    bench.start(bench.at("loop", condition="price > 3"), bench.at("add", temporary=True))
    listed = bench.debugger.list_breakpoints().breakpoints
    assert [point.condition for point in listed] == ["price > 3"]
    event = bench.debugger.control(Action.CONTINUE)
    assert event.line == bench.line("loop")
    assert bench.text_of("price") == "4"
    assert event.breakpoints[0].hits == 1


def test_a_condition_that_raises_stops_and_says_so(bench: Workbench) -> None:
    bench.write({"program.py": CART})
    event = bench.start(bench.at("add", condition="nothing > 3"))
    assert event.stop_reason is StopReason.BREAKPOINT
    assert "NameError" in event.notes[0]


def test_a_breakpoint_moves_to_the_next_line_with_code(bench: Workbench) -> None:
    bench.script(CART)
    event = bench.debugger.set_breakpoint(
        BreakpointRequest(file="program.py", line=bench.line("return") - 2)
    )
    assert event.breakpoints[0].line == bench.line("return")
    assert event.notes[0].endswith(f" to {bench.line('return')}, in total")
    header = bench.line("total") - 1
    event = bench.debugger.set_breakpoint(BreakpointRequest(file="program.py", line=header))
    assert event.breakpoints[1].line == bench.line("total")


def test_unknown_places_are_answered_with_the_nearest(some_bench: Workbench) -> None:
    bench = some_bench
    bench.script(CART)
    bench.debugger.set_breakpoint(BreakpointRequest(file="program.py", line=bench.line("total")))
    wanted = {
        BreakpointRequest(function="Cart.totl"): "nearest: program.py:Cart.total, ",
        BreakpointRequest(function="Cart.nothing"): "nearest: program.py:Cart.__init__, program.py"
        ":Cart.add, program.py:Cart.total",
        BreakpointRequest(file="progam.py", line=3): "program.py",
        BreakpointRequest(file="program.py", line=900): "the last that does is",
        BreakpointRequest(file="program.py", line=9, condition="a b"): "not an expression",
    }
    for request, expected in wanted.items():
        event = bench.debugger.set_breakpoint(request)
        assert event.error_kind is ErrorKind.BAD_REQUEST
        assert expected in (event.error or "")
        assert "hit 0 times" not in render(event), "a breakpoint that is not this one"
    assert bench.debugger.remove_breakpoint(7).error_kind is ErrorKind.BAD_REQUEST
    assert len(bench.debugger.list_breakpoints().breakpoints) == 1


def test_removed_breakpoints_no_longer_stop(some_bench: Workbench) -> None:
    bench = some_bench
    bench.script(CART, "loop", "first")
    bench.debugger.remove_breakpoint(1)
    event = bench.debugger.control(Action.CONTINUE)
    assert event.stop_reason is StopReason.EXITED


def test_a_breakpoint_set_in_a_frame_that_runs_is_seen(bench: Workbench) -> None:
    bench.script(CART, "add")
    bench.debugger.remove_breakpoint(1)
    bench.debugger.set_breakpoint(bench.at("call"))
    event = bench.debugger.control(Action.CONTINUE)
    assert (event.function, event.line) == ("main", bench.line("call"))


def test_steps(bench: Workbench) -> None:
    bench.script(CART, "call")
    step = bench.debugger.control
    event = step(Action.STEP_INTO)
    assert (event.stop_reason, event.function) == (StopReason.STEP, "Cart.total")
    assert event.line == bench.line("total")
    assert step(Action.STEP_OVER).line == bench.line("total") + 1
    event = step(Action.STEP_OUT)
    assert (event.function, event.line) == ("main", bench.line("call"))
    assert event.return_value is not None
    assert (event.return_value.name, event.return_value.text) == ("total", "7")
    event = step(Action.STEP_OVER)
    assert event.line == bench.line("end")
    assert bench.text_of("result") == "7"
    event = step(Action.STEP_OVER)
    assert (event.function, event.line) == ("<module>", bench.line("start"))
    event = step(Action.STEP_OVER)
    assert event.state is State.DONE
    assert "ran on" in event.notes[0]


def test_stepping_over_a_call_stops_at_breakpoints_in_it(bench: Workbench) -> None:
    bench.script(CART, "call", "loop")
    event = bench.debugger.control(Action.STEP_OVER)
    assert (event.stop_reason, event.line) == (StopReason.BREAKPOINT, bench.line("loop"))


COMPREHENSIONS = [
    "[n + 1 for n in values]",
    "[n for n in values if n != 2]",
    "{n: [m for m in values if m < n] for n in values}",
    "{n + m for n in values for m in values if m for _ in values}",
    "[[n for n in values] for _ in values]",
]


@pytest.mark.parametrize("comprehension", COMPREHENSIONS)
def test_a_line_with_a_comprehension_is_one_step(bench: Workbench, comprehension: str) -> None:
    bench.script(
        f"""
        def main(values):
            for turn in range(2):
                made = {comprehension}  # @made
                last = made
            return last  # @end

        main([1, 2, 3])
        """,
        "made",
    )
    made = bench.line("made")
    lines = [bench.debugger.control(Action.STEP_OVER).line for _ in range(6)]
    assert lines == [made + 1, made - 1, made, made + 1, made - 1, made + 2]
    points = bench.debugger.list_breakpoints().breakpoints
    assert [point.hits for point in points] == [2]


def test_a_comprehension_on_several_lines_is_no_step_a_turn(bench: Workbench) -> None:
    bench.script(
        """
        def main(values):
            made = [  # @made
                n + 1  # @turn
                for n in values
                if n % 2
            ]
            again = {  # @again
                n: [m for m in values
                    if m < n]  # @inner
                for n in values
            }
            return made, again  # @end

        main(list(range(20)))
        """,
        "made",
        "turn",
    )
    made, event = bench.line("made"), bench.debugger.control(Action.STEP_OVER)
    while event.line != bench.line("turn"):
        assert event.line in (made, made + 2)
        event = bench.debugger.control(Action.STEP_OVER)
    assert event.stop_reason is StopReason.BREAKPOINT
    bench.debugger.remove_breakpoint(2)
    bench.debugger.set_breakpoint(bench.at("again"))
    steps, event = 0, bench.debugger.control(Action.CONTINUE)
    while event.line != bench.line("end"):
        event = bench.debugger.control(Action.STEP_OVER)
        steps += 1
    assert steps <= 4
    hits = {p.line: p.hits for p in bench.debugger.list_breakpoints().breakpoints}
    assert hits[bench.line("again")] in (1, 2)


def test_a_step_into_a_comprehension_enters_what_it_calls(bench: Workbench) -> None:
    bench.script(
        """
        def double(n):
            return 2 * n  # @double

        def main(values):
            made = [double(n) for n in values]  # @made
            return made  # @end

        main([1, 2])
        """,
        "made",
    )
    seen: list[int | None] = []
    while not seen or seen[-1] != bench.line("end"):
        event = bench.debugger.control(Action.STEP_INTO)
        seen.append(event.line)
    assert seen.count(bench.line("double")) == 2


def test_a_loop_on_one_line_stops_at_each_turn(bench: Workbench) -> None:
    bench.script(
        """
        def main(values):
            total = 0
            for n in values: total += sum([m for m in range(n)])  # @loop
            return total  # @end

        main([1, 2, 3])
        """,
        "loop",
    )
    lines = [bench.debugger.control(Action.STEP_OVER).line for _ in range(4)]
    assert lines == [bench.line("loop")] * 3 + [bench.line("end")]
    assert bench.text_of("total") == "4"


def test_stepping_onto_a_breakpoint_counts_it_once(bench: Workbench) -> None:
    bench.script(CART, "call", "end")
    event = bench.debugger.control(Action.STEP_OVER)
    assert (event.stop_reason, event.line) == (StopReason.BREAKPOINT, bench.line("end"))
    assert bench.debugger.control(Action.CONTINUE).state is State.DONE


def test_stepping_over_a_line_that_raises_stops_there(bench: Workbench) -> None:
    bench.script(
        """
        def fail():
            raise ValueError("no price")

        def run():
            try:
                fail()  # @raises
            except ValueError:
                return 1  # @handler

        run()
        """,
        "raises",
    )
    event = bench.debugger.control(Action.STEP_OVER)
    assert (event.state, event.stop_reason) == (State.RUNTIME_ERROR, StopReason.EXCEPTION)
    assert event.exception is not None
    assert (event.exception.type, event.exception.message) == ("ValueError", "no price")
    assert event.line == bench.line("raises")
    assert bench.debugger.control(Action.STEP_OVER).line == bench.line("handler") - 1
    event = bench.debugger.control(Action.STEP_OVER)
    assert (event.state, event.line) == (State.RUNTIME, bench.line("handler"))


def test_recursion_steps_out_one_call_at_a_time(bench: Workbench) -> None:
    bench.script(
        """
        def fact(n):
            if n <= 1:
                return 1  # @base
            return n * fact(n - 1)

        fact(4)
        """,
        "base",
    )
    seen = [bench.debugger.control(Action.STEP_OUT) for _ in range(3)]
    assert [event.depth for event in seen] == [4, 3, 2]
    values = [event.return_value.text for event in seen if event.return_value]
    assert values == ["1", "2", "6"]


def test_generators_and_coroutines(bench: Workbench) -> None:
    bench.script(
        """
        import asyncio

        def numbers():
            yield 1  # @yield
            yield 2

        async def work():
            a = await asyncio.sleep(0, 5)  # @await
            return a  # @after

        total = sum(numbers())
        asyncio.run(work())
        """,
        "yield",
        "await",
    )
    event = bench.debugger.control(Action.CONTINUE)
    assert event.line == bench.line("await")
    event = bench.debugger.control(Action.STEP_OVER)
    assert event.line == bench.line("after")
    assert bench.text_of("a") == "5"


def test_a_yield_is_told_apart_from_an_end(bench: Workbench) -> None:
    bench.script(
        """
        def numbers():
            yield 1
            return  # @end

        for number in numbers():  # @loop
            pass
        """,
        "loop",
    )
    bench.debugger.control(Action.STEP_INTO)
    event = bench.debugger.control(Action.STEP_OUT)
    assert event.return_value is not None
    assert (event.line, event.return_value.text) == (bench.line("loop"), "1")
    assert event.notes == ("numbers yielded this and has not ended",)


def test_private_names_are_those_of_the_paused_method(bench: Workbench) -> None:
    bench.script(
        """
        class _Cart:
            def __init__(self):
                self.__items = [3, 4]

            def __sum(self):
                return sum(self.__items)

            def total(self):
                each = [item for item in self.__items]
                return self.__sum()  # @total

            @property
            def size(self):
                return len(self.__items)

            @size.setter
            def size(self, size):
                pass

        print(_Cart().total())
        """,
        "total",
    )
    assert bench.text_of("self.__items") == "[3, 4]"
    assert bench.text_of("self.__sum() + self._Cart__sum()") == "14"
    assert bench.text_of("self.__class__.__name__") == "'_Cart'"
    ran = bench.debugger.run_code(
        "def __last(): return self.__items[-1]\nself.__items.append(__last())"
    )
    assert ran.error_kind is None, ran.error
    assert bench.text_of("self.__items") == "[3, 4, 4]"
    line = bench.line("total")
    for condition in ("self.__items == [3, 4]", "self.__missing"):
        bench.debugger.set_breakpoint(
            BreakpointRequest(file="program.py", line=line - 4, condition=condition)
        )
    event = bench.debugger.control(Action.CONTINUE)
    assert event.line == line - 4
    assert [point.number for point in event.hit] == [3], event.notes
    assert "has no attribute '_Cart__missing'" in event.notes[0]
    refused = bench.debugger.set_breakpoint(BreakpointRequest(function="_Cart.size"))
    lines = [bench.line("total") + 4, bench.line("total") + 8]
    assert refused.error is not None
    for line in lines:
        assert f"program.py:{line} in _Cart.size" in refused.error


def test_fields_of_a_container_s_subclass(bench: Workbench) -> None:
    bench.script(
        """
        class Rules(dict):
            @property
            def size(self):
                return 1 / 0

        rules = Rules(a=1)
        rules.default = "b"
        print(rules)  # @here
        """,
        "here",
    )
    fields = {value.name: value.text for value in bench.debugger.fields("rules").values}
    assert (fields["['a']"], fields["default"]) == ("1", "'b'")
    assert list(fields)[2:] == ["size"]


def test_post_mortem_of_a_script(bench: Workbench) -> None:
    event = bench.script(
        """
        def inner(price):
            return 1 / price  # @raise

        def outer():
            price = 0
            return inner(price)  # @outer

        outer()
        """,
        stop_at_entry=False,
    )
    assert (event.state, event.stop_reason) == (State.POST_MORTEM, StopReason.EXCEPTION)
    assert event.exception is not None
    assert event.exception.type == "ZeroDivisionError"
    assert (event.function, event.line) == ("inner", bench.line("raise"))
    frames = bench.debugger.stack().frames
    assert [frame.function for frame in frames] == ["inner", "outer", "<module>"]
    assert frames[1].line == bench.line("outer")
    assert bench.text_of("price", 1) == "0"
    refused = bench.debugger.control(Action.STEP_OVER)
    assert refused.error_kind is ErrorKind.NOT_ALLOWED
    assert Action.RESTART in refused.allowed
    assert Action.STEP_OVER not in refused.allowed


@pytest.mark.parametrize("step", [Action.STEP_OVER, Action.STEP_INTO, Action.STEP_OUT])
def test_a_step_from_the_exception_that_ends_the_program_is_post_mortem(
    some_bench: Workbench, step: Action
) -> None:
    event = some_bench.script("def inner():\n    return 1 / 0  # @raise\n\ninner()\n", "raise")
    while event.state in (State.RUNTIME, State.RUNTIME_ERROR):
        event = some_bench.debugger.control(step)
    assert (event.state, event.function, event.notes) == (State.POST_MORTEM, "inner", ())


def test_breakpoints_in_threads(bench: Workbench) -> None:
    event = bench.script(
        """
        import threading

        def work(n):
            result = n * 2  # @work
            return result

        threads = [threading.Thread(target=work, args=(n,), name=f"worker-{n}") for n in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        done = 1  # @done
        """,
        "work",
        "done",
    )
    seen = set()
    while event.line == bench.line("work"):
        assert event.function == "work"
        assert event.depth == 1
        seen.add((event.thread, bench.text_of("n")))
        event = bench.debugger.control(Action.CONTINUE)
    assert seen == {(f"worker-{n}", str(n)) for n in range(3)}
    assert event.line == bench.line("done")
    assert event.thread is None


DEEP = """
    import sys

    def down(n):
        return down(n + 1) + 1

    def keyed(n):
        return sorted([n], key=lambda n: keyed(n + 1))

    def after(error):
        text = type(error).__name__  # @after
        return text

    def main(recursion):
        try:
            recursion(0)
        except RecursionError as error:
            caught = error  # @caught
            return after(error)

    for recursion in (down, keyed, down):
        print(main(recursion), sys.gettrace())
    done = 1  # @done
"""


def test_breakpoints_after_a_recursion_that_reached_its_limit(bench: Workbench) -> None:
    event = bench.script(DEEP, "after", "done")
    for _ in range(3):
        assert (event.state, event.line) == (State.RUNTIME, bench.line("after"))
        event = bench.debugger.control(Action.CONTINUE)
    assert event.line == bench.line("done")
    assert event.output == "RecursionError None\n"


TRACED = """
    import sys, threading

    class Coverage:
        def __init__(self):
            self.lines = set()

        def trace(self, frame, event, arg):
            if event == "line":
                self.lines.add((frame.f_code.co_name, frame.f_lineno))
            return self.trace

    def work(n):
        total = 0
        for value in range(n):
            total += value  # @loop
        return total  # @return

    coverage = Coverage()
    threading.settrace(coverage.trace)
    sys.settrace(coverage.trace)
    same = sys.gettrace() == coverage.trace
    work(1)  # @call
    thread = threading.Thread(target=work, args=(1,))
    thread.start()
    thread.join()
    sys.settrace(None)
    work(1)
    print(same, sys.gettrace(), coverage.lines)
"""


def test_a_program_that_traces_itself(bench: Workbench) -> None:
    event = bench.script(TRACED, "loop")
    assert "sets a trace function, which is not called" in event.notes[0]
    for thread in (None, "Thread", None):
        assert event.line == bench.line("loop")
        assert (event.thread or "").startswith(thread or "")
        event = bench.debugger.control(Action.STEP_OVER)
        assert event.line == bench.line("loop") - 1
        assert bench.debugger.control(Action.STEP_OVER).line == bench.line("return")
        event = bench.debugger.control(Action.CONTINUE)
    assert (event.state, event.output) == (State.DONE, "True None set()\n")
