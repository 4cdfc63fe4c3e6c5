"""Breakpoints on exceptions: raised, uncaught, by class, conditional, temporary."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox.debugger import Action, BreakpointRequest, DebugEvent, ErrorKind, State, StopReason
from tests.sandbox.debugger.conftest import Workbench

SHOP = """
    import json

    class ShopError(Exception):
        pass

    class Empty(ShopError, KeyError):
        pass

    def find(cart, name):
        if name not in cart:
            raise Empty(name)  # @raise
        return cart[name]

    def price(cart, name):
        try:
            return find(cart, name)  # @find
        finally:
            cart.pop("used", None)

    def guarded(cart, name):
        try:
            return price(cart, name)  # @price
        except KeyError:
            return 0  # @handler

    def load(text):
        try:
            return json.loads(text)  # @json
        except ValueError:
            return None

    total = guarded({}, "pear") + guarded({"pear": 1}, "pear")
    load("{")
    again = guarded({}, "plum")
    print(total, again)  # @end
"""


def on(exception: str, **more: Any) -> BreakpointRequest:
    return BreakpointRequest(exception=exception, **more)


def stops(bench: Workbench, event: DebugEvent) -> list[tuple[int | None, str]]:
    """Where the program stops, to its end."""
    found = []
    while event.state is State.RUNTIME_ERROR:
        assert event.stop_reason is StopReason.EXCEPTION
        assert event.exception is not None
        found.append((event.line, event.exception.type))
        event = bench.debugger.control(Action.CONTINUE)
    assert event.state is State.DONE
    return found


@pytest.mark.parametrize("name", ["KeyError", "Empty", "__main__.ShopError"])
def test_an_exception_stops_where_it_is_raised_and_once(some_bench: Workbench, name: str) -> None:
    bench = some_bench
    bench.write({"program.py": SHOP})
    event = bench.start(on(name))
    assert event.state is State.RUNTIME_ERROR
    assert [point.hits for point in event.breakpoints] == [1]
    assert bench.text_of("name") == "'pear'"
    raised = (bench.line("raise"), "Empty")
    assert stops(bench, event) == [raised, raised]


def test_an_exception_of_a_library_stops_in_the_programs_frame(bench: Workbench) -> None:
    bench.write({"program.py": SHOP})
    event = bench.start(on("json.JSONDecodeError"), on("ValueError", temporary=True))
    assert [point.hits for point in event.breakpoints] == [1, 1]
    assert (event.function, event.line) == ("load", bench.line("json"))
    assert bench.text_of("text") == "'{'"
    assert stops(bench, event) == [(bench.line("json"), "json.decoder.JSONDecodeError")]


def test_an_uncaught_exception_is_a_hit_at_the_post_mortem(some_bench: Workbench) -> None:
    bench = some_bench
    bench.write({"program.py": SHOP.replace('load("{")', 'price({}, "fig")')})
    raising, uncaught = on("LookupError"), on("KeyError", uncaught=True)
    event = bench.start(uncaught, on("ValueError", uncaught=True), raising)
    bench.debugger.remove_breakpoint(3)
    event = bench.debugger.control(Action.CONTINUE)
    assert (event.state, event.stop_reason) == (State.POST_MORTEM, StopReason.EXCEPTION)
    assert [(point.number, point.hits) for point in event.breakpoints] == [(1, 1)]
    listed = bench.debugger.list_breakpoints().breakpoints
    assert [(point.number, point.hits, point.uncaught) for point in listed] == [
        (1, 1, True),
        (2, 0, True),
    ]


def test_an_uncaught_exception_of_a_test(some_bench: Workbench) -> None:
    if not some_bench.interpreter.has_pytest:
        pytest.skip(f"no pytest for CPython {some_bench.interpreter.version}")
    some_bench.write(
        {
            "test_price.py": """
            import pytest

            def price(cart):
                return cart["pear"]  # @raise

            def test_price():
                with pytest.raises(KeyError):
                    price({})
                assert price({})
            """
        }
    )
    event = some_bench.start(on("KeyError", uncaught=True), test="test_price.py::test_price")
    assert event.state is State.POST_MORTEM
    assert [point.hits for point in event.breakpoints] == [1]
    assert event.line == some_bench.line("raise", "test_price.py")


RAISES = """
    import contextlib

    STOP = RuntimeError("kept")

    def fail(n):
        raise ValueError(n)  # @fail

    @contextlib.contextmanager
    def noted():
        try:
            yield
        except ValueError:
            raise

    def again(n):
        try:
            fail(n)
        except ValueError as error:
            raise error

    def twice():
        for _ in range(2):
            try:
                raise STOP  # @kept
            except RuntimeError:
                pass

    for n in range(4):
        try:
            with noted():
                again(n)
        except ValueError:
            pass
    list(map(lambda n: n, (n for n in ())))
    twice()
    print("end")  # @end
"""


def test_passing_an_exception_on_is_no_raise(bench: Workbench) -> None:
    bench.write({"program.py": RAISES})
    event = bench.start(on("ValueError"), on("RuntimeError"))
    places = [line for line, _ in stops(bench, event)]
    assert places == [bench.line("fail")] * 4 + [bench.line("kept")] * 2


def test_conditions_see_the_frame_and_the_exception(some_bench: Workbench) -> None:
    bench = some_bench
    bench.write({"program.py": RAISES})
    condition = "n > 0 and __exception__.args == (2,)"
    event = bench.start(on("ValueError", condition=condition))
    assert bench.text_of("n") == "2"
    assert bench.debugger.restart().line == bench.line("fail")
    assert bench.text_of("n") == "2"
    points = bench.debugger.list_breakpoints().breakpoints
    assert [(p.exception, p.condition, p.hits) for p in points] == [("ValueError", condition, 1)]
    assert stops(bench, event)[1:] == []


def test_steps_go_on_from_a_raise(some_bench: Workbench) -> None:
    bench = some_bench
    bench.write({"program.py": SHOP})
    event = bench.start(on("KeyError"))
    lines: list[int | None] = []
    while event.line != bench.line("handler"):
        assert len(lines) < 12
        event = bench.debugger.control(Action.STEP_OVER)
        lines.append(event.line)
    raised = [bench.line("find"), bench.line("find") + 2, bench.line("price")]
    assert [line for line in lines if line in raised][:1] == [bench.line("find")]
    assert event.state is State.RUNTIME
    hits = [point.hits for point in bench.debugger.list_breakpoints().breakpoints]
    assert hits == [1]


def test_unknown_exceptions_are_answered_with_the_nearest(some_bench: Workbench) -> None:
    bench = some_bench
    bench.script(SHOP)
    wanted = {
        "KeyEror": "nearest: KeyError",
        "ShopErorr": "program.ShopError",
        "json.JSONDecodeErrr": "json.decoder.JSONDecodeError",
        "int": "not of an exception",
        "a b": "is not the name",
        "nowhere_to_be_found.Error": "there is no exception class",
    }
    for name, expected in wanted.items():
        event = bench.debugger.set_breakpoint(on(name))
        assert event.error_kind is ErrorKind.BAD_REQUEST
        assert expected in (event.error or "")
    # Of a module that is not imported yet.
    event = bench.debugger.set_breakpoint(on("SMTPDataError"))
    assert (event.error_kind, event.breakpoints[-1].pending) == (None, True)
    bench.debugger.remove_breakpoint(1)
    known = {"ShopError": True, "csv.Error": True, "KeyError": False, "OSError": False}
    for name, pending in known.items():
        event = bench.debugger.set_breakpoint(on(name))
        assert (event.error_kind, event.breakpoints[-1].pending) == (None, pending), name
    event = bench.debugger.set_breakpoint(on("KeyError"))
    assert "there already" in event.notes[0]
    assert len(event.breakpoints) == 4
    bench.debugger.set_breakpoint(bench.at("end"))
    bench.debugger.remove_breakpoint(4)
    event = bench.debugger.control(Action.CONTINUE)
    while event.state is State.RUNTIME_ERROR:
        event = bench.debugger.control(Action.CONTINUE)
    left = {p.exception: p.pending for p in bench.debugger.list_breakpoints().breakpoints}
    assert (left["ShopError"], left["csv.Error"]) == (False, True)


def test_an_exception_breakpoint_set_while_the_program_runs(bench: Workbench) -> None:
    bench.script(SHOP, "handler")
    bench.debugger.remove_breakpoint(1)
    bench.debugger.set_breakpoint(on("KeyError", temporary=True))
    event = bench.debugger.control(Action.CONTINUE)
    assert (event.state, event.line) == (State.RUNTIME_ERROR, bench.line("raise"))
    assert bench.text_of("name") == "'plum'"
    assert bench.debugger.list_breakpoints().breakpoints == ()
    assert bench.debugger.control(Action.CONTINUE).state is State.DONE


def test_a_recursion_that_reaches_its_limit(bench: Workbench) -> None:
    bench.write(
        {
            "program.py": """
            def down(n):
                return down(n + 1) + 1

            def main():
                try:
                    down(0)
                except RecursionError:
                    return "caught"

            print(main(), main())  # @end
            """
        }
    )
    event = bench.start(on("RecursionError"))
    for hits in (1, 2):
        assert (event.state, event.function) == (State.RUNTIME_ERROR, "down")
        assert [point.hits for point in event.breakpoints] == [hits]
        assert (event.depth or 0) > 900
        event = bench.debugger.control(Action.CONTINUE)
    assert (event.state, event.output) == (State.DONE, "caught caught\n")


def test_half_a_character_of_a_message_is_replaced(bench: Workbench) -> None:
    bench.write({"program.py": 'text = "cannot decode \\ud83d"\nraise ValueError(text)\n'})
    event = bench.start(on("ValueError"))
    assert event.exception is not None
    assert event.exception.message == "cannot decode \ufffd"
    assert bench.text_of("text").encode()


ENDS = """
    import asyncio

    async def numbers(count):
        for n in range(count):
            await asyncio.sleep(0)
            yield n
        await asyncio.sleep(0)

    def inner():
        return (yield 1)  # @thrown

    def outer():
        return (yield from inner())

    class Awaitable:
        def __await__(self):
            return outer()

    async def loops():
        assert [n for n in range(2)] == [n async for n in numbers(2)]
        async for n in numbers(3):
            for _ in outer():
                pass
        await asyncio.gather(asyncio.sleep(0), asyncio.sleep(0))

    async def first(iterator):
        try:
            return await iterator.__anext__()  # @anext
        except StopAsyncIteration:
            return None

    async def wait(event):
        try:
            await event.wait()  # @cancelled
        except asyncio.CancelledError:
            return None

    async def cancel():
        task = asyncio.ensure_future(wait(asyncio.Event()))
        await asyncio.sleep(0)
        task.cancel()
        await task

    async def stubborn():
        yield 1
        try:
            await asyncio.Event().wait()  # @swallowed
        except asyncio.CancelledError:
            pass

    async def end_at_cancel():
        async def loop():
            async for _ in stubborn():
                pass

        task = asyncio.ensure_future(loop())
        await asyncio.sleep(0)
        task.cancel()
        await task

    def closed():
        try:
            yield 1  # @closed
        except GeneratorExit:
            pass

    def returned(generator):
        next(generator)
        try:
            generator.send(None)  # @sent
        except StopIteration:
            pass

    def thrown(generator):
        next(generator)
        try:
            generator.throw(StopIteration())
        except RuntimeError:
            pass

    def main():
        asyncio.run(loops())
        asyncio.run(first(numbers(0)))
        asyncio.run(cancel())
        asyncio.run(end_at_cancel())
        generator = closed()
        next(generator)
        generator.close()
        returned(outer())
        thrown(inner())

    main()
"""


def test_how_the_interpreter_ends_a_loop_is_no_raise(bench: Workbench) -> None:
    bench.write({"program.py": ENDS})
    ends = ("StopIteration", "StopAsyncIteration", "GeneratorExit", "asyncio.CancelledError")
    event = bench.start(*map(on, ends))
    raised = [(line, kind.rpartition(".")[2]) for line, kind in stops(bench, event)]
    assert raised == [
        (bench.line("anext"), "StopAsyncIteration"),
        (bench.line("cancelled"), "CancelledError"),
        (bench.line("swallowed"), "CancelledError"),
        (bench.line("closed"), "GeneratorExit"),
        (bench.line("sent"), "StopIteration"),
        (bench.line("thrown"), "StopIteration"),
    ]


def test_no_class_attribute_of_an_exception_runs(some_bench: Workbench) -> None:
    text = """
        ran = []

        class Odd(Exception):
            @property
            def __class__(self):
                ran.append(1)
                return Odd

        def fail():
            for _ in range(1):
                len([])
                raise Odd

        try:
            fail()
        except Odd:
            print(ran)  # @end
    """
    some_bench.write({"program.py": text})
    points = BreakpointRequest(exception="Odd"), some_bench.at("end")
    some_bench.start(*points)
    some_bench.debugger.control(Action.CONTINUE)
    assert some_bench.text_of("ran") == "[]"
