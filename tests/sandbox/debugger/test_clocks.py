"""Time limits of a program that is paused for longer than they allow."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import pytest

from sandbox.debugger import Action, DebugEvent, State
from tests.interpreters import Interpreter
from tests.sandbox.debugger.conftest import Workbench

LIMITS = """
    import asyncio, signal, threading, time

    class TooSlow(Exception):
        pass

    def handler(number, frame):
        raise TooSlow("limit")

    def work():
        a = 1
        return a  # @work

    def by_event_loop():
        async def slow():
            await asyncio.sleep(0.01)
            work()
            await asyncio.sleep(0.01)

        async def limited():
            await asyncio.wait_for(slow(), 2)

        asyncio.run(limited())

    def by_timer():
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 2)
        try:
            work()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def by_timer_that_passes():
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        work()
        time.sleep(5)

    def by_thread():
        worker = threading.Thread(target=work)
        worker.start()
        worker.join(1)
        if worker.is_alive():
            raise TimeoutError("work did not end")
"""
PAUSE = 2.2
"""Seconds, longer than the limits."""


def after_a_pause(bench: Workbench, way: str) -> DebugEvent:
    bench.write({"program.py": LIMITS + f"\n    {way}()\n"})
    event = bench.start(bench.at("work"))
    assert event.line == bench.line("work")
    time.sleep(PAUSE)
    assert bench.text_of("a") == "1"
    return bench.debugger.control(Action.CONTINUE)


def tells_pause(event: DebugEvent) -> bool:
    return any("the program was paused for " in note for note in event.notes)


@pytest.mark.parametrize("way", ["by_event_loop", "by_timer"])
def test_a_limit_that_stands_still(some_bench: Workbench, way: str) -> None:
    event = after_a_pause(some_bench, way)
    assert (event.state, event.exit_code) == (State.DONE, 0)
    assert not tells_pause(event)


@pytest.mark.parametrize("way", ["by_timer_that_passes", "by_thread"])
def test_a_limit_that_passes_is_told_with_the_pause(some_bench: Workbench, way: str) -> None:
    event = after_a_pause(some_bench, way)
    assert event.state is State.POST_MORTEM
    assert tells_pause(event)


def test_a_deadline_of_hypothesis(open_bench: Callable[..., Workbench]) -> None:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    interpreter = Interpreter(version, sys.executable, has_pytest=True)
    bench = open_bench(interpreter, readable=(sys.prefix,))
    bench.write(
        {
            "test_it.py": """
                import time
                from hypothesis import given, settings, strategies

                @settings(max_examples=5, database=None)
                @given(strategies.integers())
                def test_it(n):
                    assert n == n  # @here

                @settings(max_examples=5, database=None)
                @given(strategies.none())
                def test_slow(n):
                    time.sleep(0.4)  # @slow
            """
        }
    )
    bench.start(bench.at("here", "test_it.py", temporary=True), test="test_it.py::test_it")
    time.sleep(0.5)
    event = bench.debugger.control(Action.CONTINUE)
    assert (event.state, event.exit_code) == (State.DONE, 0)
    bench.start(bench.at("slow", "test_it.py", temporary=True), test="test_it.py::test_slow")
    event = bench.debugger.control(Action.CONTINUE)
    assert event.exception is not None
    assert "DeadlineExceeded" in event.exception.type
