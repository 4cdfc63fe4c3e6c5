"""What a program does by itself is the same under the debugger, and no event of its own."""

from __future__ import annotations

import pytest

from sandbox import Command
from sandbox.debugger import Action, BreakpointRequest, StopReason
from tests.sandbox.debugger.conftest import Workbench

DEEP = """
    import sys


    def deepest(depth):
        try:
            return deepest(depth + 1)  # @call
        except RecursionError:
            return depth


    def main():
        print(deepest(0), sys.getrecursionlimit())  # @first
        sys.setrecursionlimit(3000)
        print(deepest(0), sys.getrecursionlimit())
        try:
            sys.setrecursionlimit(0)
        except ValueError as error:
            print(error)


    main()
"""


@pytest.mark.parametrize("condition", [None, "depth < 0"])
def test_the_recursion_limit_is_the_programs(bench: Workbench, condition: str | None) -> None:
    bench.script(DEEP, "first")
    plain = bench.sandbox.run(Command([bench.interpreter.path, "program.py"])).output
    if condition is not None:
        bench.debugger.set_breakpoint(bench.at("call", condition=condition))
    ended = bench.debugger.control(Action.CONTINUE)
    assert ended.stop_reason is StopReason.EXITED
    expected, printed = plain.split(), ended.output.split()
    at_depths = [(int(printed[at]), int(expected[at])) for at in (0, 2)]
    # A condition's evaluation takes some levels of the last call.
    most = 1 if condition is None else 12
    assert all(abs(debugged - alone) <= most for debugged, alone in at_depths), at_depths
    assert [printed[1], *printed[3:]] == [expected[1], *expected[3:]]


ITERATIONS = """
    import asyncio


    def evens(items):
        yield from (item for item in items if item % 2 == 0)


    async def counted(number):
        for each in range(number):
            await asyncio.sleep(0)
            yield each


    async def gathered():
        found = []
        async for each in counted(3):
            found.append(each)
        return found + [each async for each in counted(2)]


    def main():
        first, *rest = evens([2, 3, 4])
        print(first, rest, dict(zip("ab", evens([2, 4]))), asyncio.run(gathered()))
        try:
            next(evens([]))  # @raised
        except StopIteration:
            pass


    main()
"""


def test_the_end_of_an_iteration_is_no_exception(bench: Workbench) -> None:
    bench.script(ITERATIONS)
    for name in ("StopIteration", "StopAsyncIteration"):
        bench.debugger.set_breakpoint(BreakpointRequest(exception=name))
    stop = bench.debugger.control(Action.CONTINUE)
    assert (stop.line, stop.output) == (
        bench.line("raised"),
        "2 [4] {'a': 2, 'b': 4} [0, 1, 2, 0, 1]\n",
    )
    assert bench.debugger.control(Action.CONTINUE).stop_reason is StopReason.EXITED
    listed = bench.debugger.list_breakpoints().breakpoints
    assert [point.hits for point in listed] == [1, 0]


JUMPED_OVER = """
    def main():
        count = 0
        for number in range(4):
            if number and (number > 2 or number < 2):
                continue  # @continue
            count += 1
        return count


    main()
"""


def test_a_continue_that_is_jumped_over_is_told(bench: Workbench) -> None:
    stop = bench.script(JUMPED_OVER)
    told = bench.debugger.set_breakpoint(bench.at("continue")).notes
    is_told = any("can jump over a `continue`" in note for note in told)
    assert is_told == (bench.interpreter.version in ("3.8", "3.9"))
    assert stop.stop_reason is not None
    hits = 0
    while bench.debugger.control(Action.CONTINUE).stop_reason is StopReason.BREAKPOINT:
        hits += 1
    assert hits == 2 or is_told
