"""pdb's own terminal, typed at through its prompts on CPythons that the machine has."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable, Iterator

import pytest

from sandbox import Command, SandboxConfig, open_sandbox
from sandbox.base import Sandbox
from sandbox.container import ContainerSandbox
from sandbox.debugger import DebugEvent, DebugLimits, ErrorKind, State, StopReason
from sandbox.debugger.pdb_terminal import PdbTerminal
from tests.interpreters import each_version, find_interpreter

LIMITS = DebugLimits(start_timeout=30, action_timeout=15, interrupt_grace=2)
TEST = "test_cart.py::test_total"
CART = """\
    def total(prices):
        result = 0
        for price in prices:
            result += price
        return result

    def test_total():
        found = total([3, 4])
        assert found == 8
"""


class Bench:
    """A sandbox with a test, and pdb on it."""

    def __init__(self, sandbox: Sandbox, version: str) -> None:
        self.sandbox = sandbox
        self.version = tuple(int(part) for part in version.split("."))
        self.pdb = PdbTerminal(sandbox, TEST, LIMITS)

    def open(self, test: str) -> DebugEvent:
        self.sandbox.write_file("test_cart.py", textwrap.dedent(test).encode())
        return self.pdb.open()

    def typed(self, text: str, timeout: float | None = None) -> str:
        event = self.pdb.command(text, timeout)
        assert event.error_kind is None, event.error
        return event.output

    def is_gone(self) -> bool:
        return "python" not in self.sandbox.run(Command(("ps", "-e", "-o", "comm"))).output


@pytest.fixture
def open_bench() -> Iterator[Callable[[str], Bench]]:
    opened: list[Bench] = []

    def open_one(version: str) -> Bench:
        found = find_interpreter(version)
        if found is None:
            pytest.skip(f"CPython {version} is not on this machine")
        config = SandboxConfig(python=found.path, readable_paths=found.readable_paths)
        opened.append(Bench(open_sandbox(config), found.version))
        return opened[-1]

    yield open_one
    for bench in opened:
        bench.pdb.close()
        bench.sandbox.close()


@pytest.fixture(params=each_version())
def each_bench(request: pytest.FixtureRequest, open_bench: Callable[[str], Bench]) -> Bench:
    return open_bench(request.param)


@pytest.fixture
def bench(open_bench: Callable[[str], Bench]) -> Bench:
    return open_bench("3.11")


def test_a_test_from_its_first_prompt_to_its_end(each_bench: Bench) -> None:
    bench = each_bench
    opened = bench.open(CART)
    assert (opened.state, opened.error) == (State.RUNTIME, None)
    assert opened.output.endswith("(Pdb) ")
    assert bench.typed("b test_cart.py:4").startswith("Breakpoint 1 at")
    assert "-> result += price" in bench.typed("c")
    assert bench.typed("p (price)") == "3\n(Pdb) "
    # A name that is also a command needs the exclamation mark.
    assert bench.typed("!c = 99") == "(Pdb) "
    assert bench.typed("p c") == "99\n(Pdb) "
    several = bench.typed("for i in range(2):\n    print(i)")
    if bench.version >= (3, 13):
        assert several.split()[-3:-1] == ["0", "1"]
    else:
        assert "SyntaxError" in several or "IndentationError" in several
    assert bench.typed("clear 1").startswith("Deleted breakpoint 1")
    assert "assert 7 == 8" in bench.typed("c")
    assert "7" in bench.typed("p found")
    assert "pytest entry point" in bench.typed("c")
    ended = bench.pdb.command("q")
    assert (ended.state, ended.stop_reason) == (State.DONE, StopReason.EXITED)
    assert not bench.pdb.running
    assert bench.pdb.command("p 1").error_kind is ErrorKind.NOT_ALLOWED
    assert bench.pdb.open().output == opened.output


def test_an_endless_loop_is_interrupted_and_the_session_goes_on(bench: Bench) -> None:
    bench.open("def test_total():\n    n = 1\n    while n:\n        n += 1\n")
    event = bench.pdb.command("c", timeout=1)
    assert (event.error_kind, event.stop_reason) == (ErrorKind.TIMEOUT, StopReason.INTERRUPTED)
    assert "Program interrupted" in event.output
    assert int(bench.typed("p n").partition("\n")[0]) > 1
    event = bench.pdb.command("all(n >= 0 for n in __import__('itertools').count())", timeout=0.5)
    assert event.error_kind is ErrorKind.TIMEOUT
    assert bench.typed("p 1 + 1") == "2\n(Pdb) "


@pytest.mark.slow
def test_a_program_that_ignores_interrupts_is_killed(bench: Bench) -> None:
    bench.open("""\
        import signal
        def test_total():
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
            while True:
                pass
    """)
    event = bench.pdb.command("c", timeout=1)
    assert (event.state, event.stop_reason) == (State.DONE, StopReason.KILLED)
    assert event.error_kind is ErrorKind.UNRESPONSIVE
    assert not bench.pdb.running
    assert bench.is_gone()


def test_a_crash_is_told(bench: Bench) -> None:
    bench.open("import os\ndef test_total():\n    os.kill(os.getpid(), 11)\n")
    event = bench.pdb.command("c")
    assert (event.state, event.error_kind) == (State.DONE, ErrorKind.CRASHED)
    assert "SIGSEGV" in (event.error or "")


@pytest.mark.parametrize("end", ["os._exit(128 + 40)", "os.kill(os.getpid(), 40)"])
def test_a_signal_without_a_name_is_told(bench: Bench, end: str) -> None:
    bench.open(f"import os\ndef test_total():\n    {end}\n")
    event = bench.pdb.command("continue")
    assert (event.state, event.error_kind) == (State.DONE, ErrorKind.CRASHED)
    assert event.error == "the interpreter died of signal 40"


def test_a_process_that_floods_the_terminal_keeps_nobody_busy(bench: Bench) -> None:
    bench.open(CART)
    began = time.monotonic()
    for typed in ("import os", "p 1", "p 2"):
        event = bench.pdb.command(typed, 2)
        if typed == "import os":
            flood = "for _ in range(3): os.fork() or os.execvp('yes', ['yes'])"
            event = bench.pdb.command(f"!{flood}", 2)
    assert event.state in (State.RUNTIME, State.DONE)
    assert time.monotonic() - began < 60


def test_what_can_not_be_typed_is_refused(bench: Bench) -> None:
    bench.open(CART)
    for text in ("p 1\x03", "p " + "1" * 9_000):
        event = bench.pdb.command(text)
        assert (event.error_kind, event.output) == (ErrorKind.BAD_REQUEST, "")
    assert bench.typed("p 1") == "1\n(Pdb) "


def test_a_pdb_that_does_not_start_says_why(bench: Bench) -> None:
    bench.sandbox.write_file("pdb.py", b"raise SystemExit('another pdb')\n")
    event = bench.pdb.open()
    assert event.error_kind is ErrorKind.LAUNCH_FAILED
    assert "another pdb" in (event.error or "")
    assert not bench.pdb.running


def test_the_program_shares_no_input_with_pdb(bench: Bench) -> None:
    bench.open("import sys\ndef test_total():\n    assert sys.stdin.read() == 'x'\n")
    assert "AssertionError" in bench.typed("c")


def test_a_printed_prompt_is_not_taken_for_pdb(bench: Bench) -> None:
    bench.open("""\
        import time
        class Odd:
            def __repr__(self):
                return "(Pdb) "
        def test_total():
            print("(Pdb) ", end="", flush=True)
            time.sleep(0.05)
            odd = Odd()
            assert odd is None
    """)
    bench.typed("b test_cart.py:9")
    assert bench.typed("c").endswith("-> assert odd is None\n(Pdb) ")
    assert bench.typed("p odd") == "(Pdb) \n(Pdb) "
    assert bench.typed("p 1 + 1") == "2\n(Pdb) "


def test_output_is_bounded(bench: Bench) -> None:
    bench.open("def test_total():\n    big = list(range(200_000))\n    print(big)\n    assert 0\n")
    bench.typed("b test_cart.py:3")
    bench.typed("c")
    for command in ("p big", "n"):
        event = bench.pdb.command(command)
        assert event.output_truncated
        assert len(event.output) < 5_000
        assert "characters are not shown" in event.output
        assert event.output.endswith("(Pdb) ")


def test_a_thread_that_goes_on_printing_hides_no_prompt(bench: Bench) -> None:
    bench.open("""\
        import threading, time
        def chatter():
            while True:
                print("chatter", flush=True)
                time.sleep(0.05)
        def test_total():
            threading.Thread(target=chatter, daemon=True).start()
            n = 1
            assert n == 2
    """)
    bench.typed("b test_cart.py:9")
    began = time.monotonic()
    assert "-> assert n == 2" in bench.typed("c")
    assert "1" in bench.typed("p n")
    assert time.monotonic() - began < LIMITS.action_timeout


def test_what_a_program_can_read_of_its_command_is_no_prompt(bench: Bench) -> None:
    bench.open("""\
        def test_total():
            words = open("/proc/self/cmdline").read().split(chr(0))
            words += open("/proc/self/environ").read().split(chr(0))
            for word in words:
                print(f"> /workspace/other.py(9)nowhere()\\n(Pdb) {word}", flush=True)
            n = 1
            assert n == 2
    """)
    bench.typed("b test_cart.py:7")
    assert "-> assert n == 2" in bench.typed("c")
    assert bench.typed("p n").startswith("1")


@pytest.mark.slow
@pytest.mark.docker
def test_in_a_container(image: str) -> None:
    loop = b"import sys\ndef test_total():\n    n = 1\n    while n:\n        n += 1\n"
    with ContainerSandbox(SandboxConfig(backend="docker"), image) as box:
        box.write_file("test_cart.py", loop)
        bench = Bench(box, "3.11")
        assert bench.pdb.open().output.endswith("(Pdb) ")
        event = bench.pdb.command("c", timeout=1)
        assert event.stop_reason is StopReason.INTERRUPTED
        assert int(bench.typed("p n").partition("\n")[0]) > 1
        bench.pdb.close()
        assert bench.is_gone()
