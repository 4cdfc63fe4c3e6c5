"""Breakpoints on exceptions that nothing in the program handles, wherever they are raised."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from sandbox.debugger import Action, BreakpointRequest, DebugEvent, State, StopReason
from tests.sandbox.debugger.conftest import Workbench

UNCAUGHT = BreakpointRequest(exception="LookupError", uncaught=True)

FAILING = """
    import asyncio
    import atexit
    import concurrent.futures
    import contextlib
    import gc
    import threading
    import _thread
    import time

    def fail(key):
        data = {"size": 3}
        return data[key]  # @raise

    def suppressed():
        with contextlib.suppress(KeyError):
            fail("handled")

    class Held:
        def __del__(self):
            fail("del")

    def numbers():
        try:
            yield 1
        finally:
            fail("generator")

    async def task(key):
        await asyncio.sleep(0)
        fail(key)

    async def drop():
        asyncio.ensure_future(task("task"))
        await asyncio.sleep(0.01)
        gc.collect()

    async def call_soon():
        asyncio.get_running_loop().call_soon(fail, "callback")
        await asyncio.sleep(0.01)

    async def awaited():
        await asyncio.gather(task("awaited"), return_exceptions=True)

    def executor(ask):
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            future = pool.submit(fail, "executor")
        if ask:
            with contextlib.suppress(KeyError):
                future.result()
        del future
        gc.collect()

    def thread():
        worker = threading.Thread(target=fail, args=("thread",), name="worker")
        worker.start()
        worker.join()

    def handled():
        suppressed()
        executor(True)
        asyncio.run(awaited())
        quiet = threading.Thread(target=suppressed)
        quiet.start()
        quiet.join()

    def bare():
        _thread.start_new_thread(fail, ("bare",))
        time.sleep(0.1)

    def held():
        Held()

    def generator():
        next(numbers())

    def at_exit():
        atexit.register(fail, "exit")
"""
CALLS = {
    "thread": "thread()",
    "bare": "bare()",
    "task": "asyncio.run(drop())",
    "callback": "asyncio.run(call_soon())",
    "executor": "executor(False)",
    "del": "held()",
    "generator": "generator()",
}
REPORTS = {
    "thread": "it ended this thread",
    "task": "no code awaited",
    "callback": "asyncio reports it",
    "executor": "no code asked for it",
}


class Stopped(NamedTuple):
    """One stop at an unhandled exception."""

    key: str
    line: int | None
    hits: int


def stops(bench: Workbench, event: DebugEvent) -> list[Stopped]:
    """The stops at unhandled exceptions, to the program's end."""
    found = []
    while event.state is State.RUNTIME_ERROR:
        assert event.stop_reason is StopReason.EXCEPTION
        key = bench.text_of("key").strip("'")
        (point,) = event.breakpoints
        found.append(Stopped(key, event.line, point.hits))
        assert REPORTS.get(key, "Python called this") in event.notes[0]
        assert bench.text_of("data") == "{'size': 3}"
        event = bench.debugger.control(Action.CONTINUE)
    assert event.state is State.DONE
    return found


def test_each_way_to_leave_an_exception_unhandled(some_bench: Workbench) -> None:
    bench = some_bench
    bench.write({"program.py": FAILING + "\n    handled()\n    " + "\n    ".join(CALLS.values())})
    event = bench.start(UNCAUGHT)
    place = bench.line("raise")
    expected = [Stopped(key, place, number) for number, key in enumerate(CALLS, 1)]
    assert stops(bench, event) == expected


def test_an_exit_handler(bench: Workbench) -> None:
    bench.write({"program.py": FAILING + "\n    at_exit()\n    print('end')"})
    event = bench.start(UNCAUGHT)
    assert (event.state, event.line) == (State.RUNTIME_ERROR, bench.line("raise"))
    assert "an exit handler raised it" in event.notes[0]
    assert bench.debugger.control(Action.CONTINUE).state is State.DONE


def test_the_thread_that_dies_is_the_one_that_stops(some_bench: Workbench) -> None:
    bench = some_bench
    bench.write({"program.py": FAILING + "\n    thread()\n    print('went on')  # @end"})
    event = bench.start(UNCAUGHT, bench.at("end"))
    assert event.thread == "worker"
    assert [frame.function for frame in event.frames] == ["fail"]
    event = bench.debugger.control(Action.CONTINUE)
    assert (event.stop_reason, event.line) == (StopReason.BREAKPOINT, bench.line("end"))


FREED = """
    import threading
    import weakref

    class Thing:
        pass

    def fail(thing):
        raise KeyError("size")

    def freed():
        thing = Thing()
        thread = threading.Thread(target=fail, args=(thing,))
        thread.start()
        thread.join()
        return weakref.ref(thing)

    print(freed()())
"""


def test_a_stop_keeps_nothing_alive(some_bench: Workbench) -> None:
    some_bench.write({"program.py": FREED})
    assert some_bench.start(UNCAUGHT).state is State.RUNTIME_ERROR
    event = some_bench.debugger.control(Action.CONTINUE)
    assert event.output.startswith("None") or event.output.endswith("None\n")


TOGETHER = """
    import threading

    gate = threading.Barrier(4)

    def fail(key):
        gate.wait()
        raise KeyError(key)

    threads = [threading.Thread(target=fail, args=(key,)) for key in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


def test_threads_that_die_together_stop_one_after_the_other(some_bench: Workbench) -> None:
    bench = some_bench
    bench.write({"program.py": TOGETHER})
    event = bench.start(UNCAUGHT)
    seen = {}
    while event.state is State.RUNTIME_ERROR:
        seen[bench.text_of("key")] = event.breakpoints[0].hits
        event = bench.debugger.control(Action.CONTINUE)
    assert sorted(seen) == ["0", "1", "2", "3"]
    assert sorted(seen.values()) == [1, 2, 3, 4]


def test_without_such_a_breakpoint_nothing_stops(some_bench: Workbench) -> None:
    bench = some_bench
    calls = "\n    ".join(CALLS.values())
    bench.write({"program.py": FAILING + f"\n    start = 0  # @start\n    {calls}\n    at_exit()"})
    event = bench.start(BreakpointRequest(exception="OSError", uncaught=True), bench.at("start"))
    assert event.line == bench.line("start")
    assert bench.debugger.control(Action.CONTINUE).state is State.DONE


def test_one_that_is_set_later(some_bench: Workbench) -> None:
    bench = some_bench
    calls = "\n    ".join(CALLS.values())
    bench.script(FAILING + f"\n    start = 0  # @start\n    {calls}", "start")
    bench.debugger.set_breakpoint(UNCAUGHT)
    event = bench.debugger.control(Action.CONTINUE)
    assert [stopped.key for stopped in stops(bench, event)] == [*CALLS]


def test_only_the_failure_of_the_test_is_its_end(some_bench: Workbench) -> None:
    if not some_bench.interpreter.has_pytest:
        pytest.skip(f"no pytest for CPython {some_bench.interpreter.version}")
    bench = some_bench
    calls = "\n        ".join(CALLS.values())
    test = f"\n    def test_all():\n        handled()\n        {calls}\n        fail('test')"
    bench.write({"test_all.py": FAILING + test})
    event = bench.start(UNCAUGHT, test="test_all.py::test_all")
    seen = []
    while event.state is State.RUNTIME_ERROR:
        seen.append(bench.text_of("key").strip("'"))
        event = bench.debugger.control(Action.CONTINUE)
    assert seen == [*CALLS]
    assert event.state is State.POST_MORTEM
    assert bench.text_of("key") == "'test'"
    assert [point.hits for point in event.breakpoints] == [len(CALLS) + 1]


def test_an_exception_in_a_thread_fails_no_test(some_bench: Workbench) -> None:
    if not some_bench.interpreter.has_pytest:
        pytest.skip(f"no pytest for CPython {some_bench.interpreter.version}")
    bench = some_bench
    bench.write({"test_all.py": FAILING + "\n    def test_thread():\n        thread()"})
    bench.start(test="test_all.py::test_thread")
    event = bench.debugger.control(Action.CONTINUE)
    assert (event.state, event.exit_code) == (State.DONE, 0)


@pytest.mark.parametrize(("call", "cause"), [("thread()", "thread"), ("held()", "del")])
def test_pytest_may_make_a_failure_of_one(some_bench: Workbench, call: str, cause: str) -> None:
    bench = some_bench
    if not bench.interpreter.has_pytest or bench.interpreter.version == "3.8":
        pytest.skip("pytest knows the cause from version 8.4 on, which needs CPython 3.9")
    settings = "[pytest]\nfilterwarnings = error\n"
    text = FAILING + f"\n    def test_one():\n        {call}"
    bench.write({"pytest.ini": settings, "test_one.py": text})
    event = bench.start(UNCAUGHT, test="test_one.py::test_one")
    assert event.state is State.RUNTIME_ERROR
    event = bench.debugger.control(Action.CONTINUE)
    assert (event.state, event.line) == (State.POST_MORTEM, bench.line("raise", "test_one.py"))
    assert bench.text_of("key") == repr(cause)
    assert any("pytest makes an error of its warning" in note for note in event.notes)
    assert [point.hits for point in bench.debugger.list_breakpoints().breakpoints] == [1]


def test_frames_are_those_of_the_thread_that_raised(some_bench: Workbench) -> None:
    bench = some_bench
    calls = "executor(False)  # @executor\n    asyncio.run(drop())\n    Held()  # @held"
    bench.write({"program.py": FAILING + f"\n    {calls}"})
    event = bench.start(UNCAUGHT)
    assert (event.thread or "").startswith("ThreadPoolExecutor")
    first, second = bench.debugger.threads().threads[:2]
    assert (first.name, first.current, second.current) == (event.thread, True, False)
    assert [frame.line for frame in first.frames][:1] == [bench.line("raise")]
    assert (second.name, second.doing) == ("MainThread", "stopped")
    assert second.frames[-1].line == bench.line("executor")
    event = bench.debugger.control(Action.CONTINUE)
    assert event.thread is None
    assert "no code awaited Task-2, which raised it" in event.notes[0]
    first, second = bench.debugger.threads().threads[:2]
    assert first.frames[0].function == "fail"
    assert second.frames[-1].function == "<module>"
    event = bench.debugger.control(Action.CONTINUE)
    first, second = bench.debugger.threads().threads[:2]
    assert first.doing == "before: an exception has left these frames"
    assert [frame.line for frame in second.frames] == [bench.line("held")]


def test_a_threads_own_name_does_not_run(some_bench: Workbench) -> None:
    text = """
        import threading
        from concurrent.futures import Future

        class Worker(threading.Thread):
            @property
            def name(self):
                raise RuntimeError("of the program")

            def run(self):
                future = Future()
                try:
                    raise KeyError(1)
                except KeyError as error:
                    future.set_exception(error)
                kept.append(future)

        kept = []
        worker = Worker()
        worker.start()
        worker.join()
        assert kept
        print("end")
    """
    some_bench.write({"program.py": text})
    event = some_bench.start(UNCAUGHT)
    assert event.exception is not None
    assert event.exception.type == "KeyError"
    assert event.output + some_bench.debugger.control(Action.CONTINUE).output == "end\n"
