"""pdb's own terminal, driven through its prompts on each CPython that the machine has."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from sandbox import Command, SandboxConfig, open_sandbox
from sandbox.base import Sandbox
from sandbox.container import ContainerSandbox
from sandbox.debugger import (
    Action,
    BreakpointRequest,
    DebugEvent,
    DebugLimits,
    ErrorKind,
    Launch,
    State,
    StopReason,
)
from sandbox.debugger.pdb_terminal import PdbTerminal
from tests.interpreters import VERSIONS, Interpreter, find_interpreter

LIMITS = DebugLimits(start_timeout=30, action_timeout=15, interrupt_grace=2)


class Bench:
    """A sandbox with a program, and pdb on it."""

    def __init__(self, interpreter: Interpreter, limits: DebugLimits = LIMITS) -> None:
        config = SandboxConfig(python=interpreter.path, readable_paths=interpreter.readable_paths)
        self.version = tuple(int(part) for part in interpreter.version.split("."))
        self.sandbox: Sandbox = open_sandbox(config)
        self.debugger = PdbTerminal(self.sandbox, limits)

    def start(
        self, text: str, *points: BreakpointRequest, test: str = "program.py", **launch: object
    ) -> DebugEvent:
        """Write a program, and start it."""
        self.write(text, test.partition("::")[0].partition(" ")[0])
        launch.setdefault("stop_at_entry", not points)
        return self.debugger.start(Launch(test, points, **launch))  # type: ignore[arg-type]

    def write(self, text: str, file: str = "program.py") -> None:
        self.sandbox.write_files({file: textwrap.dedent(text).encode()})

    def text_of(self, expression: str, frame: int = 0) -> str:
        event = self.debugger.evaluate(expression, frame)
        assert event.error_kind is None, event.error
        return event.values[0].text


def at(line: int, file: str = "program.py", condition: str | None = None) -> BreakpointRequest:
    return BreakpointRequest(file=file, line=line, condition=condition)


@pytest.fixture
def open_bench() -> Iterator[Callable[..., Bench]]:
    opened: list[Bench] = []

    def open_one(version: str, limits: DebugLimits = LIMITS) -> Bench:
        interpreter = find_interpreter(version)
        if interpreter is None:
            pytest.skip(f"CPython {version} is not on this machine")
        opened.append(Bench(interpreter, limits))
        return opened[-1]

    yield open_one
    for bench in opened:
        bench.debugger.close()
        bench.sandbox.close()


@pytest.fixture(params=VERSIONS)
def bench(request: pytest.FixtureRequest, open_bench: Callable[..., Bench]) -> Bench:
    return open_bench(request.param)


@pytest.fixture(params=["3.8", "3.13"])
def some_bench(request: pytest.FixtureRequest, open_bench: Callable[..., Bench]) -> Bench:
    return open_bench(request.param)


@pytest.fixture
def bench_311(open_bench: Callable[..., Bench]) -> Bench:
    return open_bench("3.11")


CART = """\
    import pytest

    def total(prices):
        result = 0
        for price in prices:
            result += price
        return result

    @pytest.mark.parametrize("expected", [8])
    def test_total(expected):
        prices = [3, 4]
        found = total(prices)
        assert found == expected
"""


def test_a_pytest_test_from_its_entry_to_its_post_mortem(bench: Bench) -> None:
    bench.write(CART, "tests/test_cart.py")
    debugger = bench.debugger
    points = (at(6, "test_cart.py", "price == 4"), BreakpointRequest(function="total"))
    event = debugger.start(Launch("tests/test_cart.py::test_total[8]", points))
    assert (event.stop_reason, event.line, event.function) == (StopReason.ENTRY, 11, "test_total")
    assert [point.line for point in event.breakpoints] == [6, 4]

    event = debugger.control(Action.CONTINUE)
    assert (event.stop_reason, event.file, event.line) == (
        StopReason.BREAKPOINT,
        "tests/test_cart.py",
        4,
    )
    assert "->" in "".join(event.source)
    event = debugger.control(Action.CONTINUE)
    assert (event.line, bench.text_of("price")) == (6, "4")
    assert {value.name: value.text for value in debugger.locals().values} == {
        "prices": "[3, 4]",
        "price": "4",
        "result": "3",
    }
    assert [frame.function for frame in debugger.stack().frames] == ["total", "test_total"]
    assert bench.text_of("expected", frame=1) == "8"
    event = debugger.control(Action.STEP_OUT)
    assert event.return_value is not None
    assert (event.function, event.return_value.text) == ("test_total", "7")

    event = debugger.control(Action.CONTINUE)
    assert (event.state, event.line) == (State.POST_MORTEM, 13)
    assert event.exception is not None
    assert event.exception.type == "AssertionError"
    refused = debugger.control(Action.STEP_OVER)
    assert refused.error_kind is ErrorKind.NOT_ALLOWED

    event = debugger.restart()
    assert event.stop_reason is StopReason.ENTRY
    kept = event.breakpoints[0]
    assert (kept.number, kept.line, kept.condition) == (1, 6, "price == 4")


def test_code_in_the_frame_takes_effect(bench: Bench) -> None:
    program = """\
        def work(c, n):
            factor = 2
            print("c is", c)
            return c * factor
        work(1, 3)
    """
    bench.start(program, at(3))
    debugger = bench.debugger
    # `c`, `n` and `b` are commands of pdb's own.
    assert (bench.text_of("c"), bench.text_of("n + 1")) == ("1", "4")
    assert bench.text_of("[i * factor for i in range(n)]") == "[0, 2, 4]"
    assert bench.text_of("(lambda x: x * factor)(n)") == "6"
    assert bench.text_of("'a;;b'") == "'a;;b'"
    event = debugger.run_code("c = 99\nfor i in range(2):\n    print('seen', i)")
    assert event.error_kind is None
    assert event.output.split() == ["seen", "0", "seen", "1"]
    event = debugger.run_code("1 / 0")
    assert event.error_kind is ErrorKind.EVALUATION
    assert event.error == "ZeroDivisionError: division by zero"
    event = debugger.control(Action.STEP_OVER)
    assert (event.line, event.output.strip()) == (4, "c is 99")


def test_a_program_ends_and_does_not_start_again(some_bench: Bench) -> None:
    event = some_bench.start("print('one')\nimport sys\nsys.exit(3)\n", at(2))
    assert (event.stop_reason, event.output.strip()) == (StopReason.BREAKPOINT, "one")
    event = some_bench.debugger.control(Action.CONTINUE)
    assert (event.state, event.stop_reason, event.exit_code) == (State.DONE, StopReason.EXITED, 3)
    assert some_bench.debugger.stack().error_kind is ErrorKind.NOT_ALLOWED


def test_an_escaping_exception_is_looked_at_post_mortem(some_bench: Bench) -> None:
    program = """\
        def look(key):
            return {}[key]
        look("absent")
    """
    event = some_bench.start(program, at(3))
    event = some_bench.debugger.control(Action.CONTINUE)
    assert (event.state, event.stop_reason) == (State.POST_MORTEM, StopReason.EXCEPTION)
    assert (event.line, event.function) == (2, "look")
    assert event.exception is not None
    assert (event.exception.type, event.exception.message) == ("KeyError", "'absent'")
    assert some_bench.text_of("key") == "'absent'"


def test_a_raised_exception_is_a_state_of_its_own(bench_311: Bench) -> None:
    program = """\
        def look():
            try:
                raise ValueError("no")
            except ValueError:
                return 1
        look()
    """
    bench_311.start(program, at(3))
    event = bench_311.debugger.control(Action.STEP_OVER)
    assert event.state is State.RUNTIME_ERROR
    assert event.exception is not None
    assert (event.exception.type, event.exception.message) == ("ValueError", "no")
    assert bench_311.debugger.control(Action.STEP_OVER).state is State.RUNTIME


def test_an_endless_loop_is_interrupted_and_the_session_goes_on(some_bench: Bench) -> None:
    program = """\
        n = 0
        while True:
            n += 1
    """
    some_bench.start(program)
    for _ in range(2):
        event = some_bench.debugger.control(Action.CONTINUE, timeout=0.3)
        assert (event.state, event.stop_reason) == (State.RUNTIME, StopReason.INTERRUPTED)
        assert event.error_kind is ErrorKind.TIMEOUT
        # Up to 3.9 pdb names the line where tracing was last on.
        assert event.line in (2, 3) or some_bench.version < (3, 10)
    assert int(some_bench.text_of("n")) > 0


def test_an_endless_evaluation_is_interrupted(open_bench: Callable[..., Bench]) -> None:
    bench = open_bench("3.11", DebugLimits(action_timeout=0.5, interrupt_grace=6))
    bench.start("x = 1\nprint(x)\n", at(2))
    event = bench.debugger.evaluate("all(n >= 0 for n in __import__('itertools').count())")
    assert event.error_kind is ErrorKind.TIMEOUT
    assert bench.text_of("x") == "1"


def test_a_program_that_ignores_interrupts_is_killed(bench_311: Bench) -> None:
    program = """\
        import signal
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        print("deaf")
        while True:
            pass
    """
    bench_311.start(program, at(3))
    event = bench_311.debugger.control(Action.CONTINUE, timeout=0.3)
    assert (event.state, event.stop_reason) == (State.DONE, StopReason.KILLED)
    assert event.error_kind is ErrorKind.UNRESPONSIVE
    assert "python" not in bench_311.sandbox.run(Command(("ps", "-e", "-o", "comm"))).output


def test_a_crash_is_told(bench_311: Bench) -> None:
    bench_311.start("import os\nos.kill(os.getpid(), 11)\n", at(2))
    event = bench_311.debugger.control(Action.CONTINUE)
    assert (event.state, event.error_kind) == (State.DONE, ErrorKind.CRASHED)


def test_the_program_has_a_standard_input_of_its_own(some_bench: Bench) -> None:
    program = """\
        import sys
        first = input()
        rest = sys.stdin.read()
        print(first, rest)
    """
    event = some_bench.start(program, at(4), stdin="one\ntwo\n")
    assert event.line == 4
    assert some_bench.text_of("(first, rest)") == "('one', 'two\\n')"
    event = some_bench.debugger.restart()
    assert event.line == 4


def test_a_printed_prompt_is_not_taken_for_pdb(bench_311: Bench) -> None:
    program = """\
        import time
        print("(Pdb) ", end="", flush=True)
        time.sleep(0.05)
        class Odd:
            def __repr__(self):
                return "(Pdb) "
        odd = Odd()
        print("end")
    """
    event = bench_311.start(program, at(8))
    assert event.line == 8
    assert bench_311.text_of("odd") == "(Pdb) "
    raw = bench_311.debugger.command("p odd")
    assert raw.output == "(Pdb) \n(Pdb) "
    assert bench_311.text_of("1 + 1") == "2"


def test_output_and_values_are_bounded(bench_311: Bench) -> None:
    program = """\
        big = list(range(200_000))
        print(big)
        print("end")
    """
    bench_311.start(program, at(2))
    event = bench_311.debugger.evaluate("big")
    assert (len(event.values[0].text), event.values[0].truncated) == (600, True)
    assert event.next_start == 600
    event = bench_311.debugger.evaluate("big", start=600)
    assert event.values[0].text == str(list(range(200_000)))[600:1200]
    event = bench_311.debugger.control(Action.STEP_OVER)
    assert (event.line, event.output_truncated) == (3, True)
    assert len(event.output) < 5_000
    raw = bench_311.debugger.command("p big")
    assert raw.output_truncated
    assert len(raw.output) < 5_000
    assert raw.output.endswith("(Pdb) ")


def test_a_repr_that_raises_spoils_no_other_local(bench_311: Bench) -> None:
    program = """\
        class Bad:
            def __repr__(self):
                raise ValueError("no repr")
        def work():
            bad, good = Bad(), 1
            return good
        work()
    """
    bench_311.start(program, at(6))
    texts = {value.name: value.text for value in bench_311.debugger.locals().values}
    assert texts == {"bad": "<repr raised ValueError: no repr>", "good": "1"}


def test_unittest_and_scripts_with_arguments(some_bench: Bench) -> None:
    program = """\
        import unittest
        class CartTest(unittest.TestCase):
            def test_total(self):
                found = sum([3, 4])
                self.assertEqual(found, 7)
    """
    some_bench.write(program, "test_cart.py")
    event = some_bench.debugger.start(
        Launch("test_cart.CartTest.test_total", (at(5, "test_cart.py"),))
    )
    assert (event.stop_reason, event.line) == (StopReason.ENTRY, 4)
    assert some_bench.debugger.control(Action.CONTINUE).line == 5
    event = some_bench.debugger.control(Action.CONTINUE)
    assert (event.state, event.exit_code) == (State.DONE, 0)
    event = some_bench.start("import sys\nprint(sys.argv)\n", at(2), test="program.py a b")
    assert some_bench.text_of("sys.argv[1:]") == "['a', 'b']"


def test_threads_are_listed(bench_311: Bench) -> None:
    program = """\
        import threading
        gate = threading.Event()
        worker = threading.Thread(target=gate.wait, name="worker")
        worker.start()
        print("up")
        gate.set()
    """
    bench_311.start(program, at(5))
    threads = bench_311.debugger.threads().threads
    assert [thread.name for thread in threads] == ["MainThread", "worker"]
    assert (threads[0].current, threads[0].frames[0].line) == (True, 5)


def test_a_thread_that_goes_on_printing_hides_no_prompt(open_bench: Callable[..., Bench]) -> None:
    # A prompt that output has passed takes a second of silence to be told.
    bench = open_bench("3.11", replace(LIMITS, interrupt_grace=6))
    program = """\
        import threading, time
        def chatter():
            while True:
                print("chatter", flush=True)
                time.sleep(0.05)
        threading.Thread(target=chatter, daemon=True).start()
        n = 1
        while n:
            n += 1
    """
    point = BreakpointRequest(file="program.py", line=8, temporary=True)
    event = bench.start(program, point)
    assert (event.stop_reason, event.line) == (StopReason.BREAKPOINT, 8)
    assert bench.text_of("n") == "1"
    event = bench.debugger.control(Action.CONTINUE, timeout=0.3)
    assert event.stop_reason is StopReason.INTERRUPTED
    assert int(bench.text_of("n")) > 1


@pytest.mark.parametrize(
    ("test", "kind", "told"),
    [
        ("test_a.py::test_tow", ErrorKind.NO_SUCH_TEST, "test_two"),
        ("absent.py", ErrorKind.LAUNCH_FAILED, "absent.py"),
        ("test_broken.py::test_x", ErrorKind.LAUNCH_FAILED, "SyntaxError"),
        ("nothing", ErrorKind.NO_SUCH_TEST, "no such test"),
        ("print('x')", ErrorKind.NO_SUCH_TEST, "names no test"),
    ],
)
def test_what_can_not_be_launched_is_told(
    bench_311: Bench, test: str, kind: ErrorKind, told: str
) -> None:
    bench_311.write("def test_two():\n    pass\n", "test_a.py")
    bench_311.write("def test_x(:\n", "test_broken.py")
    event = bench_311.debugger.start(Launch(test))
    assert event.error_kind is kind
    assert told in (event.error or "")


def test_bad_breakpoints_are_refused(bench_311: Bench) -> None:
    bench_311.start("def total():\n    return 1\n\n# a remark\nx = total()\n")
    debugger = bench_311.debugger
    event = debugger.set_breakpoint(BreakpointRequest(function="totl"))
    assert event.error_kind is ErrorKind.BAD_REQUEST
    assert "total" in (event.error or "")
    assert debugger.set_breakpoint(at(99)).error_kind is ErrorKind.BAD_REQUEST
    event = debugger.set_breakpoint(BreakpointRequest(exception="KeyError"))
    assert "no exception breakpoints" in (event.error or "")
    event = debugger.set_breakpoint(at(3))
    assert (event.breakpoints[0].line, len(event.notes)) == (5, 1)
    event = debugger.set_breakpoint(BreakpointRequest(function="total", temporary=True))
    assert debugger.control(Action.CONTINUE).line == 5
    event = debugger.control(Action.CONTINUE)
    assert (event.function, event.line) == ("total", 2)
    assert [point.number for point in debugger.list_breakpoints().breakpoints] == [1]
    assert debugger.remove_breakpoint(7).error_kind is ErrorKind.BAD_REQUEST
    assert debugger.remove_breakpoint(1).breakpoints == ()


def test_the_raw_terminal(some_bench: Bench) -> None:
    some_bench.write(CART, "test_cart.py")
    debugger = some_bench.debugger
    event = debugger.open(Launch("test_cart.py::test_total"))
    assert event.output.endswith("(Pdb) ")
    event = debugger.command("b test_cart.py:6")
    assert event.output.startswith("Breakpoint 1 at")
    event = debugger.command("c")
    assert "-> result += price" in event.output
    assert debugger.command("p (price)").output == "3\n(Pdb) "
    # A name that is also a command needs the exclamation mark.
    assert debugger.command("!c = 99").output == "(Pdb) "
    assert debugger.command("p c").output == "99\n(Pdb) "
    event = debugger.command("for i in range(2):\n    print(i)")
    if some_bench.version >= (3, 13):
        assert event.output.split()[-3:-1] == ["0", "1"]
    else:
        assert "SyntaxError" in event.output or "IndentationError" in event.output
    assert debugger.command("clear 1").output.startswith("Deleted breakpoint 1")
    event = debugger.command("c")
    assert (event.state, "assert 7 == 8" in event.output) == (State.POST_MORTEM, True)
    event = debugger.command("c")
    assert (event.state, event.stop_reason) == (State.RUNTIME, StopReason.EXITED)
    assert debugger.command("q").state is State.DONE
    assert debugger.command("p 1").error_kind is ErrorKind.NOT_ALLOWED


def test_a_raw_command_that_runs_too_long_is_interrupted(bench_311: Bench) -> None:
    bench_311.write("while True:\n    pass\n")
    bench_311.debugger.open(Launch("program.py"))
    event = bench_311.debugger.command("c", timeout=0.3)
    assert event.error_kind is ErrorKind.TIMEOUT
    assert "Program interrupted" in event.output
    assert bench_311.debugger.command("p 1 + 1").output == "2\n(Pdb) "
    event = bench_311.debugger.command("p 1\x03")
    assert event.error_kind is ErrorKind.BAD_REQUEST


def test_a_breakpoint_follows_its_line_through_an_edit(bench_311: Bench) -> None:
    bench_311.start("x = 1\ny = 2\nz = 3\n", at(2, condition="x == 1"))
    bench_311.write("x = 1\n\n\ny = 2\nz = 3\n")
    event = bench_311.debugger.restart()
    assert (event.line, event.breakpoints[0].condition) == (4, "x == 1")


@pytest.mark.docker
def test_in_a_container(image: str) -> None:
    with ContainerSandbox(SandboxConfig(backend="docker"), image) as box:
        box.write_files({"program.py": b"n = int(input())\nwhile n:\n    n += 1\n"})
        debugger = PdbTerminal(box, DebugLimits(start_timeout=60, action_timeout=20))
        event = debugger.start(Launch("program.py", stdin="5\n"))
        assert event.stop_reason is StopReason.ENTRY
        assert debugger.control(Action.STEP_OVER).line == 2
        event = debugger.control(Action.CONTINUE, timeout=0.5)
        assert event.stop_reason is StopReason.INTERRUPTED
        assert int(debugger.evaluate("n").values[0].text) > 5
        debugger.close()
        assert "python" not in box.run(Command(("ps", "-e", "-o", "comm"))).output
