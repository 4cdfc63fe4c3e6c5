"""Signals, and exceptions that other threads raise, while the program is paused."""

from __future__ import annotations

import time

import pytest

from sandbox.base import Command
from sandbox.debugger import Action, DebugEvent, State, StopReason
from tests.sandbox.debugger.conftest import Workbench

LIMITED = """
    import _thread, ctypes, os, signal, sys, threading, time

    class TooSlow(Exception):
        pass

    def handler(number, frame):
        raise TooSlow(frame.f_code.co_name)  # @raise

    def by_signal():
        signal.signal(signal.SIGUSR1, handler)
        later(lambda: os.kill(os.getpid(), signal.SIGUSR1))
        work()

    def by_interrupt():
        later(_thread.interrupt_main)
        work()

    def by_thread():
        raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
        raise_in.argtypes = ctypes.c_ulong, ctypes.py_object
        main = threading.get_ident()
        later(lambda: raise_in(main, TooSlow))
        work()

    def by_native_code():
        raise_in = ctypes.PyDLL(None).PyThreadState_SetAsyncExc
        main = threading.get_ident()
        later(lambda: raise_in(ctypes.c_ulong(main), ctypes.py_object(TooSlow)))
        work()

    def in_a_thread():
        worker = threading.Thread(target=work_there, name="worker")
        worker.start()
        wait_for_go()
        raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
        raise_in(ctypes.c_long(worker.ident), ctypes.py_object(TooSlow))
        open("sent", "w").close()
        worker.join()
        raise CAUGHT[0]

    CAUGHT = []

    def work_there():
        try:
            work()
        except TooSlow as error:
            CAUGHT.append(error)

    def wait_for_go():
        while not os.path.exists("go"):
            time.sleep(0.01)

    def go():
        open("go", "w").close()
        while not os.path.exists("sent"):
            time.sleep(0.01)
        return "sent"

    def later(act):
        def wait_and_act():
            wait_for_go()
            act()
            open("sent", "w").close()
        threading.Thread(target=wait_and_act, daemon=True).start()

    def work():
        a = 1  # @work
        for n in range(10):
            a = -a
        return a

    def test_it():
        globals()[WAY]()

    if __name__ == "__main__":
        globals()[sys.argv[1]]()
"""
WAYS = ("by_signal", "by_interrupt", "by_thread", "in_a_thread")


def paused(bench: Workbench, way: str, runner: str) -> DebugEvent:
    if runner == "pytest":
        bench.write({"test_it.py": LIMITED + f"\n    WAY = {way!r}\n"})
        return bench.start(bench.at("work", "test_it.py"), test="test_it.py::test_it")
    bench.write({"program.py": LIMITED})
    return bench.start(bench.at("work"), test=f"program.py {way}")


def send(bench: Workbench) -> None:
    """Have the exception sent while the debugger waits for a request."""
    bench.sandbox.write_file("go", b"")
    while bench.sandbox.run(Command(("test", "-e", "sent"))).exit_code:
        time.sleep(0.02)


@pytest.mark.parametrize("runner", ["pytest", "script"])
@pytest.mark.parametrize("way", WAYS)
def test_an_exception_that_comes_while_paused(some_bench: Workbench, way: str, runner: str) -> None:
    bench = some_bench
    paused(bench, way, runner)
    send(bench)
    assert bench.text_of("1 + 1") == "2"
    assert bench.debugger.locals().error_kind is None
    event = bench.debugger.control(Action.CONTINUE)
    assert event.state is State.POST_MORTEM, event
    assert event.exception is not None
    wanted = "KeyboardInterrupt" if way == "by_interrupt" else "TooSlow"
    assert event.exception.type.endswith(wanted)
    functions = [frame.function for frame in event.frames]
    assert "work" in functions or way == "in_a_thread"
    assert not any("stepinto" in frame.file for frame in event.frames)


def test_one_that_native_code_raises(some_bench: Workbench) -> None:
    bench = some_bench
    paused(bench, "by_native_code", "script")
    time.sleep(0.3)  # until the debugger waits
    send(bench)
    assert bench.text_of("1 + 1") == "2"
    event = bench.debugger.control(Action.CONTINUE)
    assert event.exception is not None
    assert (event.exception.type, event.function) == ("TooSlow", "work")


@pytest.mark.parametrize("way", ["by_signal", "by_interrupt", "by_thread", "in_a_thread"])
def test_one_that_comes_while_an_expression_is_evaluated(some_bench: Workbench, way: str) -> None:
    bench = some_bench
    paused(bench, way, "script")
    event = bench.debugger.evaluate("(go(), [str(n) for n in range(1000)][-1])")
    assert event.values[0].text == "('sent', '999')"
    assert "while the program is paused" in event.notes[0]
    event = bench.debugger.control(Action.STEP_OVER)
    while event.state is State.RUNTIME:
        event = bench.debugger.control(Action.STEP_OVER)
    assert event.exception is not None
    assert event.exception.type in ("TooSlow", "KeyboardInterrupt")


def test_the_program_goes_on_after_it_caught_it(some_bench: Workbench) -> None:
    """Its breakpoints go on too."""
    bench = some_bench
    bench.write(
        {
            "program.py": LIMITED.replace(
                "globals()[sys.argv[1]]()",
                "\n".join(
                    (
                        "try:",
                        "            by_signal()",
                        "        except TooSlow as error:",
                        "            print('caught in', error)",
                        "        work()",
                    )
                ),
            )
        }
    )
    bench.start(bench.at("work"), bench.at("raise"))
    assert bench.text_of("go()") == "'sent'"
    event = bench.debugger.control(Action.CONTINUE)
    assert (event.line, event.function) == (bench.line("raise"), "handler")
    event = bench.debugger.control(Action.CONTINUE)
    assert (event.line, event.output) == (bench.line("work"), "caught in work\n")
    assert bench.debugger.control(Action.CONTINUE).exit_code == 0


def test_handlers_are_the_programs_own(some_bench: Workbench) -> None:
    bench = some_bench
    event = bench.script(
        """
        import signal

        def handler(number, frame):
            print("handled")

        print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
        first = signal.signal(signal.SIGUSR1, handler)
        print(first == signal.SIG_DFL, signal.getsignal(signal.SIGUSR1) is handler)
        signal.raise_signal(signal.SIGUSR1)
        print(signal.signal(signal.SIGUSR1, first) is handler)
        """,
        stop_at_entry=False,
    )
    assert event.output == "True\nTrue True\nhandled\nTrue\n"


def test_a_limit_that_an_expression_sets_is_its_own(some_bench: Workbench) -> None:
    bench = some_bench
    bench.script(
        """
        import signal, time

        def limited():
            def stop(number, frame):
                raise TimeoutError("limit")
            before = signal.signal(signal.SIGALRM, stop)
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            try:
                time.sleep(10)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
                signal.signal(signal.SIGALRM, before)

        print("here")  # @here
        """,
        "here",
    )
    event = bench.debugger.evaluate("limited()")
    assert (event.error or "").startswith("TimeoutError: limit")
    event = bench.debugger.control(Action.CONTINUE)
    assert (event.stop_reason, event.exit_code) == (StopReason.EXITED, 0)


def test_an_interrupt_ends_a_run_of_unittest_post_mortem(some_bench: Workbench) -> None:
    bench = some_bench
    bench.write(
        {
            "test_it.py": """
                import _thread, unittest

                class It(unittest.TestCase):
                    def test_it(self):
                        n = 1
                        _thread.interrupt_main()
                        for n in range(1000):
                            str(n)
            """
        }
    )
    event = bench.start(test="python -m unittest test_it.It.test_it", stop_at_entry=False)
    assert event.state is State.POST_MORTEM
    assert event.exception is not None
    assert (event.exception.type, event.function) == ("KeyboardInterrupt", "It.test_it")
