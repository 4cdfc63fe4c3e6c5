"""Programs and evaluations that do not end: each is interrupted, or killed with the reason."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sandbox.debugger import Action, DebugEvent, DebugLimits, ErrorKind, State, StopReason
from sandbox.debugger.records import BreakpointRequest, KillReason
from tests.interpreters import find_interpreter, some_versions
from tests.sandbox.debugger.conftest import Workbench, interrupted_by_another

QUICK = DebugLimits(start_timeout=30, action_timeout=0.4, interrupt_grace=3)


@pytest.fixture(params=some_versions())
def quick(request: pytest.FixtureRequest, open_bench: Callable[..., Workbench]) -> Workbench:
    """A bench whose actions soon time out."""
    interpreter = find_interpreter(request.param)
    if interpreter is None:
        pytest.skip(f"CPython {request.param} is not on this machine")
    return open_bench(interpreter, QUICK)


@pytest.fixture
def one(open_bench: Callable[..., Workbench]) -> Workbench:
    """A quick bench on the interpreter that runs the tests."""
    interpreter = find_interpreter("3.11")
    if interpreter is None:
        pytest.skip("CPython 3.11 is not on this machine")
    return open_bench(interpreter, QUICK)


def interrupted(bench: Workbench, timeout: float | None = None) -> DebugEvent:
    """Continue into what does not end; the session stays usable."""
    event = bench.debugger.control(Action.CONTINUE, timeout)
    assert (event.state, event.stop_reason) == (State.RUNTIME, StopReason.INTERRUPTED), event
    assert event.error_kind is ErrorKind.TIMEOUT
    assert bench.text_of("1 + 1") == "2"
    return event


def ended(bench: Workbench) -> str:
    """Continue to the end; what the program printed."""
    event = bench.debugger.control(Action.CONTINUE, 20)
    assert (event.state, event.exit_code) == (State.DONE, 0), event
    return event.output


WAITS = {
    "import time\nwhile True: pass": (KillReason.ENDLESS_LOOP, "busy"),
    "import time\nwhile True: time.sleep(0.005)": (KillReason.ENDLESS_LOOP, "short turns"),
    "import time\ntime.sleep(1000)": (KillReason.NATIVE_CODE, "slept"),
    "import socket\npair = socket.socketpair()\npair[0].recv(1)": (
        KillReason.NATIVE_CODE,
        "descriptor",
    ),
    "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)": (
        KillReason.NATIVE_CODE,
        "stopped itself",
    ),
    "import asyncio\nasync def main(): await asyncio.Event().wait()\nasyncio.run(main())": (
        KillReason.NATIVE_CODE,
        "every task waits",
    ),
    "import pty, os\nos.read(pty.openpty()[1], 1)": (KillReason.WAITING_FOR_STDIN, "/dev/pts"),
    "import subprocess\nsubprocess.run(['sleep', '1000'])": (KillReason.NATIVE_CODE, "sleep 1000"),
    "import subprocess\nsubprocess.Popen(['cat'], stdin=subprocess.PIPE).wait()": (
        KillReason.WAITING_FOR_STDIN,
        "cat), which waited for its standard input",
    ),
    "import threading\nlock = threading.Lock()\nlock.acquire()\nlock.acquire()": (
        KillReason.DEADLOCK,
        "no other thread",
    ),
}


@pytest.mark.parametrize("code", WAITS, ids=lambda code: code.splitlines()[-1][:40])
def test_an_interrupt_says_what_the_program_was_at(one: Workbench, code: str) -> None:
    one.write({"program.py": code})
    one.start(one.at_line(code.count("\n") + 1))  # imports take long on a busy machine
    one.debugger.remove_breakpoint(1)
    event = interrupted(one)
    reason, words = WAITS[code]
    assert (event.kill_reason, words in (event.error or "")) == (reason, True), event.error
    assert event.file is not None
    assert len(event.notes) == 2


def test_another_thread_interrupts(quick: Workbench) -> None:
    quick.script("while True: pass")
    for _ in range(2):
        event = interrupted_by_another(quick.debugger)
        assert (event.state, event.stop_reason) == (State.RUNTIME, StopReason.INTERRUPTED)
        assert quick.text_of("1 + 1") == "2"


def test_a_deadlock_of_threads(quick: Workbench) -> None:
    quick.script(
        """
        import threading

        one, two = threading.Lock(), threading.Lock()
        ready = threading.Barrier(2)

        def work(first, second):
            with first:
                ready.wait()
                with second:
                    pass

        threads = [threading.Thread(target=work, args=pair) for pair in ((one, two), (two, one))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()  # @join
        """
    )
    event = interrupted(quick)
    assert event.kill_reason is KillReason.DEADLOCK
    assert "all its 3 threads waited for locks" in (event.error or "")


def test_another_thread_may_be_the_busy_one(quick: Workbench) -> None:
    quick.script(
        """
        import threading

        def spin():
            while True:
                count = 1  # @spin

        thread = threading.Thread(target=spin, name="spinner", daemon=True)
        thread.start()
        thread.join()
        """
    )
    event = interrupted(quick)
    assert event.kill_reason is KillReason.ENDLESS_LOOP
    assert "thread spinner at program.py:" in (event.error or "")


@pytest.mark.slow
def test_an_interrupted_sleep_goes_on(quick: Workbench) -> None:
    quick.script(
        """
        import time
        began = time.monotonic()
        time.sleep(3)
        print(time.monotonic() - began >= 3)
        """
    )
    interrupted(quick, 0.2)
    interrupted(quick, 0.2)
    assert ended(quick) == "True\n"


def test_an_interrupted_lock_goes_on(quick: Workbench) -> None:
    quick.script(
        """
        import threading
        lock = threading.Lock()
        lock.acquire()
        print(lock.acquire())
        """
    )
    assert interrupted(quick).kill_reason is KillReason.DEADLOCK
    assert quick.debugger.run_code("lock.release()").error_kind is None
    assert ended(quick) == "True\n"


def test_an_interrupted_input_goes_on(quick: Workbench) -> None:
    quick.script(
        """
        import os
        reader, writer = os.pipe()
        os.dup2(reader, 0)
        print(input())
        """
    )
    assert interrupted(quick).kill_reason is KillReason.WAITING_FOR_STDIN
    quick.debugger.run_code("os.write(writer, b'hello\\n')")
    assert ended(quick) == "hello\n"


def test_an_interrupted_wait_for_a_process_goes_on(quick: Workbench) -> None:
    quick.script(
        """
        import subprocess
        process = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
        print(process.wait())
        """
    )
    assert interrupted(quick).kill_reason is KillReason.WAITING_FOR_STDIN
    frames = quick.debugger.stack().frames
    own = next(frame.index for frame in frames if frame.file == "program.py")
    assert quick.debugger.run_code("process.stdin.close()", own).error_kind is None
    assert ended(quick) == "0\n"


SIGNALS = {
    "handled": "for n in signal.valid_signals() - {9, 19}: signal.signal(n, lambda *_: None)",
    "ignored": "for n in signal.valid_signals() - {9, 19}: signal.signal(n, signal.SIG_IGN)",
}


@pytest.mark.parametrize("way", SIGNALS)
def test_a_program_that_takes_all_signals_is_interrupted(quick: Workbench, way: str) -> None:
    quick.script(f"import signal\n{SIGNALS[way]}\nprint('set', flush=True)\nwhile True: pass\n")
    event = interrupted(quick)
    assert (event.output, event.line) == ("set\n", 4)


@pytest.mark.slow
def test_a_program_that_blocks_all_signals_is_killed(one: Workbench) -> None:
    one.debugger._limits = DebugLimits(action_timeout=0.3, interrupt_grace=0.5)
    one.script(
        """
        import signal
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        while True:
            pass
        """
    )
    event = one.debugger.control(Action.CONTINUE)
    assert (event.stop_reason, event.kill_reason) == (
        StopReason.KILLED,
        KillReason.ENDLESS_LOOP,
    )
    assert "blocked the debugger's signal" in (event.error or "")


EVALUATED = """
    import time

    def swallowing():
        while True:
            try:
                while True:
                    pass
            except:
                pass

    class Shown:
        def __repr__(self):
            while True:
                pass

    lock = __import__("threading").Lock()

    def holding():
        with lock:
            time.sleep(1000)

    done = 1  # @here
    print("end")
"""


def test_an_endless_evaluation_is_left(bench: Workbench) -> None:
    bench.script(EVALUATED, "here")
    bench.debugger._limits = QUICK
    event = bench.debugger.evaluate("holding()")
    assert (event.error_kind, event.state) == (ErrorKind.TIMEOUT, State.RUNTIME)
    assert event.kill_reason is not None
    assert bench.text_of("lock.locked()") == "False"
    assert bench.text_of("[Shown(), 7]").startswith("<repr did not end")
    assert bench.text_of("[n for n in range(3)]") == "[0, 1, 2]"
    assert ended(bench) == "end\n"


def test_an_evaluation_that_swallows_its_interrupt_is_killed(one: Workbench) -> None:
    one.script(EVALUATED, "here")
    one.debugger._limits = DebugLimits(action_timeout=0.4, interrupt_grace=0.6)
    event = one.debugger.evaluate("swallowing()")
    assert (event.stop_reason, event.error_kind) == (StopReason.KILLED, ErrorKind.UNRESPONSIVE)
    assert "went on after each interrupt" in (event.error or "")
    assert one.debugger.restart().stop_reason is StopReason.BREAKPOINT


def test_a_condition_that_never_ends_is_interrupted(quick: Workbench) -> None:
    quick.script(
        """
        def spin():
            while True:
                pass

        for n in range(2):
            total = n  # @here
        print("end")
        """
    )
    point = BreakpointRequest(file="program.py", line=quick.line("here"), condition="spin()")
    quick.debugger.set_breakpoint(point)
    event = quick.debugger.control(Action.CONTINUE)
    assert (event.stop_reason, event.line) == (StopReason.BREAKPOINT, quick.line("here"))
    assert event.notes == ("the condition of breakpoint 1 did not end and was interrupted",)
    quick.debugger.remove_breakpoint(1)
    assert ended(quick) == "end\n"


def test_a_condition_that_exits_does_not_end_the_program(quick: Workbench) -> None:
    quick.script("import sys\nfor n in range(2):\n    total = n  # @here\nprint('end')\n")
    point = BreakpointRequest(file="program.py", line=quick.line("here"), condition="sys.exit(3)")
    quick.debugger.set_breakpoint(point)
    event = quick.debugger.control(Action.CONTINUE, 10)
    assert event.notes == ("the condition of breakpoint 1 raised SystemExit: 3",)


def test_streams_that_never_flush(one: Workbench) -> None:
    one.script(
        """
        import sys

        class Endless:
            def write(self, text):
                return len(text)
            def flush(self):
                while endless:
                    pass

        endless = True
        sys.stdout = Endless()
        done = 1  # @here
        """,
        "here",
    )
    assert one.text_of("done if 'done' in dir() else 0") == "0"
    one.debugger.run_code("endless = False")
    assert one.debugger.control(Action.CONTINUE, 20).state is State.DONE


def test_a_program_that_ends_as_its_time_does(one: Workbench) -> None:
    one.script("import time\ntime.sleep(0.5)\n")
    for _ in range(3):
        event = one.debugger.control(Action.CONTINUE, 0.5)
        if event.state is State.DONE:
            break
        assert event.stop_reason is StopReason.INTERRUPTED
    assert event.stop_reason is StopReason.EXITED
    assert event.error_kind is None
