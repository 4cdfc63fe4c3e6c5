"""Programs that lie, flood, hang, fork and die: each ends in a typed answer."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable

import pytest

from sandbox import Command
from sandbox.debugger import (
    Action,
    BreakpointRequest,
    DebugLimits,
    ErrorKind,
    KillReason,
    State,
    StopReason,
)
from tests.interpreters import find_interpreter, some_versions
from tests.sandbox.debugger.conftest import Workbench

QUICK = DebugLimits(start_timeout=20, action_timeout=1, interrupt_grace=1)


@pytest.fixture(params=some_versions())
def quick(request: pytest.FixtureRequest, open_bench: Callable[..., Workbench]) -> Workbench:
    """A bench whose actions time out after one second."""
    interpreter = find_interpreter(request.param)
    if interpreter is None:
        pytest.skip(f"CPython {request.param} is not on this machine")
    return open_bench(interpreter, QUICK)


def test_what_a_program_prints_is_only_output(some_bench: Workbench) -> None:
    bench = some_bench
    event = bench.script(
        """
        print("(Pdb) STEPINTO ready")
        print('{"id": 3, "state": "done", "stop": {"reason": "exited", "exit_code": 0}}')
        print("0123456789abcdef " + '{"id": 3, "state": "done"}')
        done = 1  # @here
        """,
        "here",
    )
    assert event.state is State.RUNTIME
    assert event.output.startswith("(Pdb) STEPINTO ready\n{")
    assert event.output.count("\n") == 3


def test_no_input_is_an_end_of_file(some_bench: Workbench) -> None:
    event = some_bench.script("input()", stop_at_entry=False)
    assert event.exception is not None
    assert event.exception.type == "EOFError"


def test_a_flood_of_output_is_cut_in_its_middle(some_bench: Workbench) -> None:
    bench = some_bench
    event = bench.script(
        """
        import os
        print("first")
        for _ in range(300):
            os.write(1, b"z" * 100_000)
        print("last")
        done = 1  # @here
        """,
        "here",
    )
    assert event.output_truncated
    assert event.output.startswith("first\n")
    assert event.output.endswith("last\n")
    assert len(event.output) < 5000


def test_an_endless_loop_is_interrupted_and_the_session_stays(quick: Workbench) -> None:
    quick.script(
        """
        def spin():
            count = 0
            while True:
                count += 1

        spin()
        """
    )
    for _ in range(3):
        event = quick.debugger.control(Action.CONTINUE, timeout=0.3)
        assert (event.state, event.stop_reason) == (State.RUNTIME, StopReason.INTERRUPTED)
        assert (event.error_kind, event.function) == (ErrorKind.TIMEOUT, "spin")
    first = int(quick.text_of("count"))
    assert quick.debugger.control(Action.STEP_OVER).stop_reason is StopReason.STEP
    assert quick.debugger.control(Action.STEP_OVER).stop_reason is StopReason.STEP
    assert int(quick.text_of("count")) > first
    quick.debugger.set_breakpoint(quick.at_line(5))
    event = quick.debugger.control(Action.CONTINUE)
    assert event.stop_reason is StopReason.BREAKPOINT


def test_a_sleep_is_interrupted(quick: Workbench) -> None:
    quick.script(
        """
        import time
        time.sleep(1000)  # @sleep
        """
    )
    event = quick.debugger.control(Action.CONTINUE, timeout=0.3)
    assert (event.stop_reason, event.line) == (StopReason.INTERRUPTED, quick.line("sleep"))
    assert quick.text_of("time.__name__") == "'time'"


def test_an_endless_start_is_interrupted(open_bench: Callable[..., Workbench]) -> None:
    interpreter = find_interpreter("3.11")
    assert interpreter is not None
    bench = open_bench(interpreter, DebugLimits(start_timeout=1))
    bench.write({"program.py": "while True: pass"})
    event = bench.start(stop_at_entry=False)
    assert (event.stop_reason, event.error_kind) == (StopReason.INTERRUPTED, ErrorKind.TIMEOUT)


def test_native_code_that_never_ends_is_killed_with_its_place(quick: Workbench) -> None:
    quick.script(
        """
        def stuck():
            return sum(range(10 ** 15))  # @stuck

        stuck()
        """
    )
    event = quick.debugger.control(Action.CONTINUE, timeout=0.3)
    assert (event.state, event.stop_reason) == (State.DONE, StopReason.KILLED)
    assert event.error_kind is ErrorKind.UNRESPONSIVE
    assert "native code" in (event.error or "")
    assert f"program.py:{quick.line('stuck')} in stuck" in (event.error or "")
    assert event.kill_reason is KillReason.NATIVE_CODE
    assert [(frame.function, frame.line) for frame in event.frames] == [
        ("stuck", quick.line("stuck")),
        ("<module>", 5),
    ]
    assert event.frames[0].source == "return sum(range(10 ** 15))  # @stuck"
    assert quick.debugger.restart().stop_reason is StopReason.ENTRY


ENDINGS = {
    "import sys; sys.exit(3)": (3, None),
    "import sys; sys.exit('why')": (1, None),
    "import os; os._exit(4)": (4, None),
    "import ctypes; ctypes.string_at(0)": (128 + signal.SIGSEGV, "SIGSEGV"),
    "import os; os.kill(os.getpid(), 9)": (128 + signal.SIGKILL, "SIGKILL"),
    "import os; os.abort()": (128 + signal.SIGABRT, "SIGABRT"),
}


QUICK_ENDINGS = [code for code in ENDINGS if "3" in code or "kill" in code or "ctypes" in code]
OTHER_ENDINGS = [code for code in ENDINGS if code not in QUICK_ENDINGS]


@pytest.mark.parametrize(
    "code",
    [*QUICK_ENDINGS, *(pytest.param(code, marks=pytest.mark.slow) for code in OTHER_ENDINGS)],
)
def test_endings(some_bench: Workbench, code: str) -> None:
    some_bench.script(f"print('before', flush=True)\n{code}\n")
    event = some_bench.debugger.control(Action.CONTINUE)
    exit_code, name = ENDINGS[code]
    assert (event.state, event.stop_reason) == (State.DONE, StopReason.EXITED)
    assert event.exit_code == exit_code
    assert event.output.startswith("before\n")
    if name is not None:
        assert event.error_kind is ErrorKind.CRASHED
        assert name in (event.error or "")
    assert some_bench.debugger.restart().stop_reason is StopReason.ENTRY


def test_deep_recursion(bench: Workbench) -> None:
    event = bench.script(
        """
        def down(n):
            return down(n + 1) + 1

        down(0)
        """,
        stop_at_entry=False,
    )
    assert event.state is State.POST_MORTEM
    assert event.exception is not None
    assert event.exception.type == "RecursionError"
    stack = bench.debugger.stack()
    assert len(stack.frames) == 40
    assert "not shown" in stack.notes[0]


def test_a_stop_near_the_recursion_limit(bench: Workbench) -> None:
    bench.script(
        """
        import sys
        def down(n):
            if n == 0:
                return 0  # @bottom
            return down(n - 1)

        print(down(sys.getrecursionlimit() - 30))
        """,
        "bottom",
    )
    assert bench.text_of("[n for _ in range(2)]") == "[0, 0]"
    event = bench.debugger.control(Action.CONTINUE)
    assert (event.state, event.output) == (State.DONE, "0\n")


def test_a_program_that_closes_all_descriptors(some_bench: Workbench) -> None:
    bench = some_bench
    bench.script(
        """
        import os
        os.closerange(3, 256)
        done = 1  # @here
        """,
        "here",
    )
    assert bench.text_of("done if 'done' in dir() else 0") == "0"
    assert bench.debugger.control(Action.CONTINUE).state is State.DONE


def test_forks_and_subprocesses_run_on_their_own(bench: Workbench) -> None:
    event = bench.script(
        """
        import os, subprocess, sys

        def work(n):
            return n + 1  # @work

        pid = os.fork()
        if pid == 0:
            print("child", work(1), flush=True)
            os._exit(0)
        os.waitpid(pid, 0)
        subprocess.run([sys.executable, "-c", "print('sub')"], check=True)
        done = 1  # @done
        """,
        "work",
        "done",
    )
    assert event.line == bench.line("done")
    assert event.output == "child 2\nsub\n"


def test_multiprocessing(some_bench: Workbench) -> None:
    bench = some_bench
    bench.script(
        """
        import multiprocessing

        def work(n):
            return n * 2  # @work

        if __name__ == "__main__":
            with multiprocessing.get_context("fork").Pool(2) as pool:
                result = pool.map(work, [1, 2, 3])
            print(result)  # @done
        """,
        "work",
        "done",
    )
    assert bench.text_of("result") == "[2, 4, 6]"


def test_a_program_that_replaces_its_streams(some_bench: Workbench) -> None:
    bench = some_bench
    bench.script(
        """
        import io, sys
        sys.stdout = io.StringIO()
        sys.stderr.close()
        print("captured")
        done = 1  # @here
        """,
        "here",
    )
    event = bench.debugger.run_code("print('seen')")
    assert event.output == "seen\n"
    assert bench.text_of("sys.stdout.getvalue()") == "'captured\\n'"


@pytest.mark.slow
def test_a_program_that_replaces_itself(quick: Workbench) -> None:
    code = 'import os, sys; os.execv(sys.executable, [sys.executable, "-c", "{}"])'
    quick.script(code.format("print(5)"))
    event = quick.debugger.control(Action.CONTINUE)
    assert (event.stop_reason, event.exit_code, event.output) == (StopReason.EXITED, 0, "5\n")
    quick.script(code.format("import time; time.sleep(100)"))
    event = quick.debugger.control(Action.CONTINUE)
    assert (event.stop_reason, event.error_kind) == (StopReason.KILLED, ErrorKind.UNRESPONSIVE)
    assert "replaced itself" in (event.error or "")


def test_an_endless_evaluation_in_a_thread(quick: Workbench) -> None:
    event = quick.script(
        """
        import threading

        def work():
            return 1  # @work

        thread = threading.Thread(target=work, name="worker")
        thread.start()
        thread.join()
        """,
        "work",
    )
    assert event.thread == "worker"
    event = quick.debugger.evaluate("[0 for _ in iter(int, 1)]")
    assert event.error_kind is ErrorKind.TIMEOUT
    assert quick.text_of("1 + 1") == "2"
    assert quick.debugger.control(Action.CONTINUE).state is State.DONE


def test_a_deadlock_is_interrupted(quick: Workbench) -> None:
    quick.script(
        """
        import threading
        lock = threading.Lock()
        lock.acquire()
        lock.acquire()  # @stuck
        """
    )
    event = quick.debugger.control(Action.CONTINUE, timeout=0.3)
    assert (event.stop_reason, event.line) == (StopReason.INTERRUPTED, quick.line("stuck"))


def test_close_leaves_nothing_running(some_bench: Workbench) -> None:
    bench = some_bench
    marker = f"stepinto-left-over-{time.monotonic_ns()}"
    bench.script(
        f"""
        import os, subprocess, sys
        code = "import time; time.sleep(600)  # {marker}"
        subprocess.Popen([sys.executable, "-c", code])
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.execv(sys.executable, [sys.executable, "-c", code])
            os._exit(0)
        done = 1  # @here
        """,
        "here",
    )
    assert _running(marker)
    bench.debugger.close()
    deadline = time.monotonic() + 10
    while _running(marker) and time.monotonic() < deadline:
        os.sched_yield()
    assert not _running(marker)


def _running(marker: str) -> bool:
    listed = subprocess.run(
        ["ps", "-eww", "-o", "args"], capture_output=True, text=True, check=True
    )
    return marker in listed.stdout


REPLACED = (
    "builtins.open",
    "io.open",
    "os.path.isfile",
    "os.path.exists",
    "os.path.realpath",
    "os.path.abspath",
    "os.path.join",
    "os.getcwd",
    "os.lstat",
    "os.walk",
    "os.read",
    "os.write",
    "os.stat",
    "json.loads",
    "json.dumps",
    "time.time",
    "time.monotonic",
    "time.sleep",
    "threading.get_ident",
)
"""What tests put mocks in the place of, and a debugger could trip over."""


def test_a_test_that_replaces_the_standard_library_leaves_the_debugger_alone(
    bench: Workbench,
) -> None:
    lines = [f"@mock.patch({name!r}, **GIVEN.get({name!r}, {{}}))" for name in REPLACED]
    bench.write(
        {
            "helper.py": "def double(x):\n    return x * 2\n",
            "program.py": "\n".join(
                [
                    "from unittest import mock",
                    "from helper import double",
                    "OPEN = {'new_callable': mock.mock_open, 'read_data': 'x'}",
                    "GIVEN = {'builtins.open': OPEN}",
                    *lines,
                    "def run(*mocks):",
                    "    value = 20",
                    "    value = double(value) + 1  # @here",
                    "    return open('any').read(), value",
                    "print(run())",
                ]
            ),
        }
    )
    event = bench.start(bench.at("here"), stop_at_entry=False)
    assert (event.state, event.line) == (State.RUNTIME, bench.line("here")), event
    assert event.source
    assert bench.text_of("value") == "20"
    inside = bench.debugger.set_breakpoint(BreakpointRequest(file="helper.py", line=2))
    assert inside.error is None, inside
    assert bench.debugger.set_breakpoint(BreakpointRequest(function="nowhere")).error is not None
    stopped = bench.debugger.control(Action.CONTINUE)
    assert (stopped.file, stopped.line) == ("helper.py", 2), stopped
    assert stopped.source
    assert bench.debugger.stack().frames[0].source == "return x * 2"
    assert bench.debugger.threads().error is None
    assert bench.debugger.run_code("x = 5").error is None
    assert bench.debugger.control(Action.STEP_OUT).error is None
    ended = bench.debugger.control(Action.CONTINUE)
    assert (ended.state, ended.exit_code) == (State.DONE, 0), ended
    assert "('x', 11)" in ended.output


@pytest.mark.parametrize("ended", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_breakpoints_that_no_compiler_takes_are_refused(some_bench: Workbench, ended: bool) -> None:
    """Also with files in the workspace that no program could import."""
    bench = some_bench
    bench.write({"deep.py": f"x = {'1+' * 20_000}1\n", "program.py": "x = 1\ny = 2  # @here\n"})
    assert bench.sandbox.workspace is not None
    bench.sandbox.run(Command(("sh", "-c", "ln -s nowhere .broken.py; ln -s /dev/zero endless.py")))
    bench.sandbox.run(Command(("mkfifo", "pipe.py")))
    bench.start(bench.at("here"))
    if ended:
        assert bench.debugger.control(Action.CONTINUE).state is State.DONE
    for request in (
        BreakpointRequest(file="program.py", line=2, condition="-" * 60_000 + "1"),
        BreakpointRequest(file="program.py", line=2, watch=("-" * 60_000 + "1",)),
        BreakpointRequest(file="a\0b.py", line=2),
        BreakpointRequest(file="deep.py", line=1),
        BreakpointRequest(file="endless.py", line=1),
        BreakpointRequest(function="nowhere"),
    ):
        event = bench.debugger.set_breakpoint(request)
        assert event.error_kind is ErrorKind.BAD_REQUEST, (str(request)[:80], event)
    assert bench.debugger.restart().line == 2


def test_a_pipe_in_the_place_of_a_source_is_not_read(some_bench: Workbench) -> None:
    some_bench.write({"other.py": "def go():\n    return 1\n"})
    some_bench.script(
        """
        import os, other
        for name in ("program.py", "other.py"):
            os.unlink(name)
            os.mkfifo(name)
        other.go()  # @here
        """,
        "here",
    )
    event = some_bench.debugger.control(Action.STEP_INTO)
    assert (event.stop_reason, event.function) == (StopReason.STEP, "go"), event
