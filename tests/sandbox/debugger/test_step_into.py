"""`step_into` enters each call of the program on a line, whatever library code is between."""

from __future__ import annotations

import pytest

from sandbox.debugger import Action, State
from tests.sandbox.debugger.conftest import Workbench

PROGRAM = """
    import asyncio, contextlib, functools


    @functools.singledispatch
    def kind(value):
        return "other"


    @kind.register(int)
    def kind_of_int(value):
        return "int"


    @contextlib.contextmanager
    def opened(value):
        yield value


    def shown(call):
        @functools.wraps(call)
        def inner(*values):
            return call(*values)

        return inner


    class Box:
        @property
        def size(self):
            return 2

        @functools.lru_cache(None)
        def kept(self):
            return 3


    def least(a, b):
        return a - b


    @shown
    def use(value):
        return value


    async def wait():
        return 4


    async def run():
        return use(await asyncio.wait_for(wait(), 60))


    def main():
        {line}  # @line
        return None  # @end


    main()
"""
CALLED = {
    "use(kind(1))": ["kind_of_int", "inner", "use"],
    "with opened(3) as value: use(value)": ["opened", "inner", "use", "opened"],
    "use(Box().size)": ["size", "inner", "use"],
    "use(Box().kept())": ["kept", "inner", "use"],
    "use(sum(use(n) for n in (1,)))": ["<genexpr>", "inner", "use", "inner", "use"],
    "use(functools.reduce(least, [3, 1]))": ["least", "inner", "use"],
    "use(sorted([1, 2], key=functools.cmp_to_key(least)))": ["least", "inner", "use"],
    "asyncio.run(run())": ["run", "wait", "inner", "use"],
}


@pytest.mark.parametrize("line", CALLED)
def test_a_step_into_enters_each_call_of_the_program_on_a_line(bench: Workbench, line: str) -> None:
    event = bench.script(PROGRAM.replace("{line}", line), "line")
    entered = []
    known = {event.depth or 0: "main"}
    while event.line != bench.line("end"):
        assert event.state is State.RUNTIME
        assert event.depth is not None
        name = (event.function or "").rpartition(".")[2]
        if known.get(event.depth) != name:
            known[event.depth] = name
            entered.append(name)
        known = {depth: name for depth, name in known.items() if depth <= event.depth}
        event = bench.debugger.control(Action.STEP_INTO)
    assert list(dict.fromkeys(entered)) == list(dict.fromkeys(CALLED[line])), entered


def test_a_step_from_a_function_on_one_line_ends_in_its_caller(bench: Workbench) -> None:
    stop = bench.script(
        """
        def double(number): return number * 2  # @double

        total = double(1)
        print(total)  # @end
        """,
        "double",
    )
    assert (stop.line, bench.text_of("number")) == (bench.line("double"), "1")
    returned = bench.debugger.control(Action.STEP_OVER)
    assert returned.return_value is not None
    assert bench.debugger.control(Action.STEP_OVER).line == bench.line("end")
