"""Which asyncio task waits for the one whose stack ends at the event loop."""

from __future__ import annotations

import pytest

from sandbox.debugger import Action
from tests.sandbox.debugger.conftest import Workbench

PROGRAM = """
    import asyncio

    async def price(name):
        await asyncio.sleep(0)
        return len(name)  # @price

    async def total():
        {waits}

    async def main():
        await total()

    asyncio.run(main())
"""
WAITS = {
    "gather": "return await asyncio.gather(price('pear'), price('fig'))  # @waits",
    "task": "return await asyncio.ensure_future(price('pear'))  # @waits",
    "wait": "await asyncio.wait([asyncio.ensure_future(price('pear'))])  # @waits",
    "shield": "await asyncio.shield(price('pear'))  # @waits",
    "wait_for": "await asyncio.wait_for(asyncio.ensure_future(price('pear')), 9)  # @waits",
}
IN_GROUP = """async with asyncio.TaskGroup() as group:  # @waits
            group.create_task(price('pear'))"""


@pytest.mark.parametrize("kind", [*WAITS, "group"])
def test_who_awaits_a_task_is_told(bench: Workbench, kind: str) -> None:
    if kind == "group" and bench.interpreter.version in ("3.8", "3.9", "3.10"):
        pytest.skip("there are task groups from CPython 3.11 on")
    if bench.interpreter.version == "3.14":
        pytest.skip("CPython 3.14 keeps its tasks elsewhere")
    bench.script(PROGRAM.format(waits=WAITS.get(kind, IN_GROUP)), "price")
    told = f"this task is awaited by task Task-1 at program.py:{bench.line('waits')} in total"
    assert told in bench.debugger.stack().notes
    assert told in bench.debugger.threads().notes


STEPS = """
    import asyncio

    async def price(name):
        await asyncio.sleep(0)
        return len(name)  # @price

    async def main():
        task = asyncio.ensure_future(price("pear"))
        total = await task
        total += 1  # @next
        return total

    asyncio.run(main())
"""


@pytest.mark.parametrize("action", [Action.STEP_OVER, Action.STEP_OUT, Action.STEP_INTO])
def test_a_step_out_of_a_task_goes_on_where_it_is_awaited(bench: Workbench, action: Action) -> None:
    if bench.interpreter.version == "3.14":
        pytest.skip("CPython 3.14 keeps its tasks elsewhere")
    bench.script(STEPS, "price")
    event = bench.debugger.control(action)
    assert (event.line, event.function) == (bench.line("next"), "main")
    assert not event.notes


BEHIND_A_LIBRARY = """
    import asyncio
    from contextlib import AsyncExitStack

    async def close():
        await asyncio.sleep(0)
        return 1  # @inner

    async def work():
        async with AsyncExitStack() as stack:
            stack.push_async_callback(close)
        return 2  # @next

    async def main():
        await asyncio.ensure_future(work())
        return 3

    asyncio.run(main())
"""


def test_a_step_goes_on_in_the_same_task_behind_a_librarys_coroutine(bench: Workbench) -> None:
    bench.script(BEHIND_A_LIBRARY, "inner")
    event = bench.debugger.control(Action.STEP_OUT)
    assert event.function == "work"


def test_a_task_that_no_other_awaits(some_bench: Workbench) -> None:
    some_bench.script(PROGRAM.format(waits="await price('pear')"), "price")
    assert some_bench.debugger.stack().notes == ()


HOSTILE = """
    import asyncio

    class Owner:
        __dict__ = property(lambda self: print("ran"))

        def __getattribute__(self, name):
            print("ran")
            return object.__getattribute__(self, name)

        def __eq__(self, other):
            print("ran")
            return True

        def done(self, task):
            pass

    async def price():
        owner, future = Owner(), asyncio.get_running_loop().create_future()
        task = next(iter(asyncio.all_tasks()))
        asyncio.ensure_future(wait(future))
        await asyncio.sleep(0)
        task.add_done_callback(owner.done)
        task.add_done_callback(lambda task: (owner, future))
        print("begins")
        await asyncio.sleep(0)  # @price
        future.set_result(1)

    async def wait(future):
        await future

    asyncio.run(price())
"""


def test_the_programs_callbacks_are_not_believed_and_no_code_of_it_runs(
    some_bench: Workbench,
) -> None:
    event = some_bench.script(HOSTILE, "price")
    output = event.output
    assert some_bench.debugger.stack().notes == ()
    output += some_bench.debugger.control(Action.CONTINUE).output
    assert output.endswith("begins\n")


def test_a_program_without_a_loop(some_bench: Workbench) -> None:
    some_bench.script("import asyncio\nprint(asyncio)  # @here", "here")
    assert some_bench.debugger.stack().notes == ()
