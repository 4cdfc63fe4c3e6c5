"""How often a breakpoint is hit: once for each execution of its statement, on every CPython."""

from __future__ import annotations

import re

import pytest

from sandbox.debugger import Action, BreakpointRequest, State
from tests.sandbox.debugger.conftest import Workbench

WITHS = """
    import asyncio


    class Lock:
        def __enter__(self):
            return 1

        def __exit__(self, *error):
            return True

        async def __aenter__(self):
            await asyncio.sleep(0)
            return 1

        async def __aexit__(self, *error):
            await asyncio.sleep(0)


    def locked(items):
        for item in items:  # 4
            with Lock() as one, \\
                    Lock() as two:  # 3
                if item == 2:  # 3
                    continue  # 1
                item += one + two  # 2
            with Lock():  # 2
                raise ValueError(  # 2
                    item  # 2
                )
            with Lock(): item += 1  # 2
        while True:
            with Lock():  # 3
                item -= 3  # 3
                if item < 0:  # 3
                    break  # 1
        with Lock() as one:  # 1
            return (  # 1
                one  # 1
                + item)  # 1


    async def awaited():
        for item in range(2):  # 3
            async with Lock() as one:  # 2
                item += one  # 2
        async with Lock():  # 1
            return await asyncio.gather(  # 1
                asyncio.sleep(0),  # 1
                asyncio.sleep(0))  # 1


    locked([1, 2, 3])
    asyncio.run(awaited())
"""
FINALLY = """
    def last(n):
        for item in range(n):  # 3
            try:
                if item == 1:  # 3
                    continue  # 1
                if item == 2:  # 2
                    raise ValueError(  # 1
                        item)  # 1
                total = item  # 1
            except (
                ValueError,  # 1
                KeyError,  # 1
            ) as error:
                total = str(  # 1
                    error)  # 1
                break  # 1
            else:
                total = [  # 1
                    item,  # 1
                ]
            finally:
                max(  # 3
                    item,  # 3
                    n)  # 3
                for turn in range(2):  # 9
                    item += turn  # 6
        try:
            try:
                return total  # 1
            finally:
                total = 2  # 1
        finally:
            total = 3  # 1


    last(3)
"""
CONDITIONS = """
    def decide(a, b):
        both = (a  # 4
                and b  # 2
                or not a)  # 3
        if (a  # 4
                and b  # 2
                or both):  # 3
            a += 1  # 3
        elif (b  # 1
                or both):  # 1
            a -= 1  # 0
        while (a > 0  # 9
               and a < 3):  # 5
            a -= 1  # 5
        assert (
            a  # 4
            or not both  # 4
            or both)  # 3
        return (a  # 4
                <= b  # 4
                < 3)  # 4


    for pair in ((0, 0), (0, 1), (1, 0), (1, 1)):  # 5
        decide(*pair)  # 4
"""
DEFINITIONS = """
    import dataclasses


    def mark(*_):
        return lambda found: found  # 7


    def define(turns):
        for turn in range(turns):  # 3
            @mark(  # 2
                1,  # 2
            )
            @dataclasses.dataclass
            class Point:  # 2
                x: int = 1  # 2
                y: list = dataclasses.field(  # 2
                    default_factory=list)  # 2

                @mark(
                    2)
                def size(
                    self,
                    by=3,
                ):
                    return by + self.x  # 2

            Point().size()  # 2
            grown = map(  # 2
                lambda n: n + 1,  # 2
                [1, 2])  # 2
            list(grown)  # 2


    @mark()
    @mark()
    @mark(1)
    def main():
        define(2)  # 1


    main()
"""
COMPREHENSIONS = """
    import asyncio


    async def numbers():
        for n in range(3):  # 8
            yield n  # 6


    async def main(values):
        one = [n for n in values for m in values]  # 1
        two = [  # 1
            n + 1  # 2
            for n in values  # 1
            if n != 2  # 3
        ]
        made = {  # 1
            n: m  # 2
            for n, m in zip(  # 1
                values,  # 1
                values)  # 1
            if (n  # 3
                and m != 2)  # 3
        }
        some = sum(  # 1
            n  # 3
            for n in values)  # 1
        later = [  # 1
            n  # 2
            async for n in numbers()  # 1
            if n]  # 3
        async for n in numbers():  # 4
            later.append(n)  # 3
        return [one, two,  # 1
                made, some,  # 1
                later]  # 1


    asyncio.run(main([1, 2, 3]))
"""
LOOPS = """
    def loop(rows):
        total = 0  # 1
        for row in zip(  # 3
            rows,  # 1
            rows,  # 1
        ):
            total += sum(  # 2
                row)  # 2
        for row in rows: total += 1  # 3
        for row in rows: total += sum([n for n in rows])  # 3
        key = lambda n: -n  # 1
        made = sorted(rows, key=lambda n: n + total)  # 1
        return key(  # 1
            total,  # 1
        ), made  # 1


    loop([1, 2])
"""
MATCHES = """
    def kind(value):
        match value:  # 4
            case {"n": int(n)} if n > (  # 4
                3  # 2
            ):
                return "big"  # 1
            case [first, *rest]:  # 3
                return (  # 1
                    first,  # 1
                    rest)  # 1
            case str() | bytes():  # 2
                found = "text"  # 1
            case _:  # 1
                found = None  # 1
        return found  # 2


    for value in ({"n": 5}, [1, 2], "text", {"n": 1}):  # 5
        kind(value)  # 4
"""
PROGRAMS = {
    "with": WITHS,
    "finally": FINALLY,
    "conditions": CONDITIONS,
    "definitions": DEFINITIONS,
    "comprehensions": COMPREHENSIONS,
    "loops": LOOPS,
    "match": MATCHES,
}


def expected_hits(text: str) -> dict[int, int]:
    """The numbers in the comments, by line."""
    lines = enumerate(text.splitlines(), 1)
    found = {number: re.search(r"# (\d+)$", line) for number, line in lines}
    return {number: int(match[1]) for number, match in found.items() if match}


def hits_by_line(bench: Workbench) -> dict[int, int]:
    return {point.line: point.hits for point in bench.debugger.list_breakpoints().breakpoints}


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_execution_of_a_statement_is_one_hit(bench: Workbench, name: str) -> None:
    if name == "match" and bench.interpreter.version in ("3.8", "3.9"):
        pytest.skip("`match` is new in 3.10")
    bench.write({"program.py": PROGRAMS[name]})
    expected = expected_hits(bench.files["program.py"])
    event = bench.start(*map(bench.at_line, expected))
    stops = dict.fromkeys(expected, 0)
    while event.state is State.RUNTIME:
        assert event.line is not None
        stops[event.line] += 1
        event = bench.debugger.control(Action.CONTINUE)
    assert event.exit_code == 0
    assert stops == expected


def test_collecting_and_conditions_count_executions(some_bench: Workbench) -> None:
    bench = some_bench
    bench.script(
        """
        import contextlib


        def total(items):
            found = 0
            for item in items:
                with contextlib.nullcontext(item) as value:  # @with
                    found += value
            return found  # @end


        total([1, 0, 2])
        """
    )
    event = bench.debugger.collect(bench.at("with", watch=("item", "found")), hits=30)
    assert [hit.number for hit in event.collected] == [1, 2, 3]
    values = [[value.text for value in hit.values] for hit in event.collected]
    assert values == [["1", "0"], ["0", "1"], ["2", "1"]]
    bench.start(bench.at("with", condition="item == 2"), bench.at("end"))
    assert bench.text_of("found") == "1"
    bench.debugger.control(Action.CONTINUE)
    assert [p.hits for p in bench.debugger.list_breakpoints().breakpoints] == [1, 1]
    bench.start(bench.at("with", condition="item == 7"), bench.at("end"))
    event = bench.debugger.control(Action.CONTINUE)
    assert "breakpoint 1 was reached 3 times" in event.notes[0]


def test_a_loop_back_to_the_first_line_is_no_call(bench: Workbench) -> None:
    bench.script(
        """
        def down(n):
            while n > 0:
                down(n - 1)
                n -= 1


        down(3)
        """
    )
    bench.debugger.set_breakpoint(BreakpointRequest(function="down"))
    calls = []
    while bench.debugger.control(Action.CONTINUE).state is State.RUNTIME:
        calls.append(bench.text_of("n"))
    assert calls == ["3", "2", "1", "0", "0", "1", "0", "0"]


def test_stepping_and_running_count_a_loop_on_one_line_alike(bench: Workbench) -> None:
    text = (
        "def main(rows):\n    for row in rows: row += 1  # @loop\n    return rows\n\nmain([1, 2])\n"
    )
    bench.script(text, "loop")
    bench.debugger.control(Action.STEP_OVER)
    bench.debugger.control(Action.STEP_OVER)
    bench.debugger.control(Action.STEP_OVER)
    assert [p.hits for p in bench.debugger.list_breakpoints().breakpoints] == [3]
    event = bench.debugger.control(Action.CONTINUE)
    assert event.state is State.DONE


ONE_LINE = """
    def main(a):
        while a < 10: a += 4  # @while
        while a < 20:  # @two
            a += 4
        while a < 20 or a < 0: a += 4  # @never
        while a < 30 and a > 0: a += 4  # @and
        while True: a += 1; break  # @true
        return a

    main(5)
    """


def test_the_last_test_of_a_while_is_a_hit(bench: Workbench) -> None:
    bench.script(ONE_LINE, "while", "two", "never", "and", "true")
    event = bench.debugger.control(Action.CONTINUE)
    while event.state is State.RUNTIME:
        event = bench.debugger.control(Action.CONTINUE)
    unseen = bench.interpreter.version in ("3.10", "3.11", "3.12")
    hits = [point.hits for point in bench.debugger.list_breakpoints().breakpoints]
    assert hits == ([2, 3, 1, 3, 1] if unseen else [3, 3, 1, 4, 1])


SUSPENDED = """
    from contextlib import contextmanager


    def numbers():
        try:
            yield 1
        except ValueError:
            yield 2  # @thrown
        finally:
            print("closed")  # @closed


    @contextmanager
    def opened():
        try:
            yield
        except KeyError:
            print("handled")  # @handled


    def main():
        made = numbers()
        next(made)
        with opened():
            made.throw(ValueError())  # @main
            made.close()
            raise KeyError


    main()
"""


def test_a_breakpoint_set_in_what_is_suspended_is_hit_by_an_exception(bench: Workbench) -> None:
    bench.script(SUSPENDED, "main")
    marks = ("thrown", "closed", "handled")
    for mark in marks:
        bench.debugger.set_breakpoint(bench.at(mark))
    stops = [bench.debugger.control(Action.CONTINUE).line for _ in marks]
    assert stops == [bench.line(mark) for mark in marks]


DROPPED = """
    def sort(values):
        small = 0
        for value in values:
            if value < 10:
                small += 1
            else:
                pass  # @pass
        while small:
            small -= 1
            if small == 1 or small == 5:
                break  # @break
        if small == 1:
            assert True  # @assert
        else:
            value += 1
        for value in values:
            pass  # @only
        for value in values:
            if value:
                break  # @for
        return small

    def end(value):
        if value:
            value += 1
        else:
            "nothing"  # @nothing

    sort([1, 20, 3, 40])
    end(1)
    """
MARKS = {"pass": 2, "break": 1, "assert": 1, "only": 4, "for": 1, "nothing": 0}
SEEN = ("only", "for")


def test_a_line_that_cpython_may_jump_over_says_so(bench: Workbench) -> None:
    bench.write({"program.py": DROPPED})
    bench.start(stop_at_entry=True)
    old = bench.interpreter.version in ("3.8", "3.9")
    for mark in MARKS:
        told = bench.debugger.set_breakpoint(bench.at(mark))
        expected = old and mark not in SEEN
        assert told.breakpoints[-1].line == bench.line(mark)
        assert any("may miss executions" in note for note in told.notes) == expected, mark
    bench.debugger.set_breakpoint(bench.at("pass", condition="value > 50"))
    bench.debugger.set_breakpoint(bench.at("break", condition="small == 5"))
    event = bench.debugger.control(Action.CONTINUE)
    while event.state is State.RUNTIME:
        event = bench.debugger.control(Action.CONTINUE)
    listed = bench.debugger.list_breakpoints()
    hits = {mark: point.hits for mark, point in zip(MARKS, listed.breakpoints, strict=False)}
    exact = {mark: hits[mark] for mark in SEEN} if old else hits
    assert exact == {mark: MARKS[mark] for mark in exact}
    for note in (*listed.notes, *event.notes):
        if "not reached" in note or "was false each time" in note:
            assert ("; it may miss executions" in note) == old, note
