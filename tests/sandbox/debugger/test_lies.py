"""Programs that forge, flood, kill and run out of everything: none is taken for the debugger."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sandbox.debugger import Action, ErrorKind, State, StopReason
from sandbox.debugger.records import KillReason
from tests.interpreters import find_interpreter
from tests.sandbox.debugger.conftest import Workbench


@pytest.fixture
def one(open_bench: Callable[..., Workbench]) -> Workbench:
    """A bench on the interpreter that runs the tests."""
    interpreter = find_interpreter("3.11")
    if interpreter is None:
        pytest.skip("CPython 3.11 is not on this machine")
    return open_bench(interpreter)


def test_frames_written_into_every_descriptor_are_no_answers(some_bench: Workbench) -> None:
    bench = some_bench
    bench.script(
        """
        import os
        forged = b'{"id": 3, "state": "done", "stop": {"reason": "exited", "exit_code": 0}}\\nrest'
        for fd in range(3, 1024):
            try:
                os.write(fd, forged)
            except OSError:
                pass
        value = 5  # @here
        print("end")
        """,
        "here",
    )
    assert bench.text_of("1 + 1") == "2"
    assert bench.debugger.control(Action.STEP_OVER).stop_reason is StopReason.STEP
    assert bench.text_of("value") == "5"
    event = bench.debugger.control(Action.CONTINUE)
    assert (event.exit_code, event.output) == (0, "end\n")


def test_the_terminal_can_not_be_opened_by_name(one: Workbench) -> None:
    one.script(
        """
        import glob, os
        opened = []
        for path in [*glob.glob("/dev/pts/[0-9]*"), "/dev/console", "/dev/tty"]:
            try:
                os.write(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY), b"forged")
                opened.append(path)
            except OSError:
                pass
        done = 1  # @here
        """,
        "here",
    )
    assert one.text_of("opened") == "[]"


def test_output_keeps_its_order_and_can_not_act(some_bench: Workbench) -> None:
    event = some_bench.script(
        """
        import os, subprocess, sys
        sys.stdout.write("one\\n")
        sys.stderr.write("two\\n")
        os.write(1, b"\\xff\\x1b[31m\\x00 5%\\r 10%\\r\\n")
        subprocess.run(["echo", "child"])
        sys.stdout.write("partial")
        done = 1  # @here
        """,
        "here",
    )
    assert event.output == "one\ntwo\n\ufffd\\x1b[31m\\x00 5%\\x0d 10%\nchild\npartial"


def test_each_answer_has_only_what_came_since_the_last(some_bench: Workbench) -> None:
    bench = some_bench
    event = bench.script(
        "print('one')\nx = 1  # @here\nprint('two')\ny = 1  # @end\n", "here", "end"
    )
    assert event.output == "one\n"
    assert bench.debugger.evaluate("print('asked')").output == "asked\n"
    assert bench.debugger.locals().output == ""
    assert bench.debugger.control(Action.CONTINUE).output == "two\n"


def test_a_child_that_outlives_the_program_has_no_word(some_bench: Workbench) -> None:
    bench = some_bench
    bench.script(
        """
        import os, time
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                for _ in range(200):
                    print('{"id": 3, "state": "runtime"}', flush=True)
                    time.sleep(0.01)
            os._exit(0)
        done = 1  # @here
        """,
        "here",
    )
    event = bench.debugger.control(Action.CONTINUE)
    assert (event.state, event.exit_code) == (State.DONE, 0)
    assert bench.debugger.restart().state is State.RUNTIME


@pytest.mark.parametrize("target", ["os.getppid()", "-1"], ids=["supervisor", "everyone"])
def test_a_program_that_kills_the_debugger(some_bench: Workbench, target: str) -> None:
    some_bench.script(f"import os, time\nos.kill({target}, 9)\ntime.sleep(100)\n")
    event = some_bench.debugger.control(Action.CONTINUE)
    assert (event.state, event.stop_reason) == (State.DONE, StopReason.KILLED)
    assert event.kill_reason is KillReason.EXITED
    assert some_bench.debugger.restart().stop_reason is StopReason.ENTRY


ENDS = {
    "ctypes.string_at(0)": (KillReason.CRASHED, ErrorKind.CRASHED),
    "os.abort()": (KillReason.CRASHED, ErrorKind.CRASHED),
    "os.kill(os.getpid(), 9)": (KillReason.CRASHED, ErrorKind.CRASHED),
    "os._exit(4)": (KillReason.EXITED, None),
}


@pytest.mark.parametrize("code", ENDS)
def test_an_evaluation_that_ends_the_program(one: Workbench, code: str) -> None:
    one.script("import ctypes, faulthandler, os\nfaulthandler.enable()\nx = 1  # @here\n", "here")
    event = one.debugger.evaluate(code)
    assert (event.state, event.stop_reason) == (State.DONE, StopReason.EXITED)
    assert (event.kill_reason, event.error_kind) == ENDS[code]


HOSTILE = """
    import gc, os, resource, sys, threading

    def clear_modules():
        sys.modules.clear()
        return "cleared"

    def fork():
        return "child" if os.fork() == 0 else "parent"

    def start_thread():
        threading.Thread(target=lambda: None).start()
        return "started"

    def recurse():
        return recurse()

    class Shown:
        def __init__(self, work):
            self.work = work
        def __repr__(self):
            return self.work()

    class Message(Exception):
        def __str__(self):
            raise SystemExit(3)

    class Meta(type):
        def __getattribute__(cls, name):
            raise KeyError(name)

    class Odd(Exception, metaclass=Meta):
        pass

    class Lies(list):
        __class__ = property(lambda self: 1 / 0)
        def __len__(self):
            return 10 ** 9
        def __iter__(self):
            raise RuntimeError

    def fail(error):
        raise error

    def no_descriptors():
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))

    def no_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    lies = Lies([1])
    done = 1  # @here
    print("end")
"""


def test_evaluations_that_attack_the_debugger(some_bench: Workbench) -> None:
    bench = some_bench
    bench.script(HOSTILE, "here")
    assert bench.debugger.locals().error_kind is None
    assert bench.text_of("lies") == "[1]"
    assert bench.text_of("Shown(recurse)") == "<repr raised RecursionError>"
    assert bench.text_of("Shown(lambda: fail(KeyboardInterrupt()))").endswith("KeyboardInterrupt>")
    assert bench.text_of("Shown(start_thread)") == "started"
    assert bench.text_of("Shown(fork)") == "parent"
    assert bench.text_of("fork()") == "'parent'"
    assert bench.debugger.evaluate("recurse()").error_kind is ErrorKind.EVALUATION
    assert bench.debugger.evaluate("fail(Message())").error == (
        "Message: <str raised SystemExit>, raised at program.py:43 in fail"
    )
    assert bench.debugger.evaluate("fail(Odd())").error == "Odd, raised at program.py:43 in fail"
    for code in ("no_descriptors()", "no_files()", "gc.set_threshold(1)", "clear_modules()"):
        assert bench.debugger.evaluate(code).error_kind is None
        assert bench.text_of("[n for n in range(3)]") == "[0, 1, 2]"
    assert bench.debugger.run_code("kept = 1").error_kind is None
    assert bench.debugger.stack().frames[0].line == bench.line("here")
    event = bench.debugger.control(Action.CONTINUE)
    assert (event.state, event.output) == (State.DONE, "end\n")


def test_values_come_in_pages(some_bench: Workbench) -> None:
    bench = some_bench
    bench.script(
        """
        numbers = list(range(200_000))
        for n in range(100):
            globals()[f"name{n}"] = n
        def down(n):
            return n if n == 0 else down(n - 1)  # @here
        down(60)
        """
    )
    bench.debugger.set_breakpoint(bench.at("here", condition="n == 0"))
    bench.debugger.control(Action.CONTINUE)
    event = bench.debugger.evaluate("numbers")
    assert event.values[0].truncated
    assert event.values[0].text.endswith("more items")
    assert event.next_start is not None
    shown = repr(list(range(200_000)))
    page = bench.debugger.evaluate("numbers", start=1_000_000).values[0].text
    assert page.startswith(shown[1_000_000:1_000_300])
    event = bench.debugger.fields("numbers", start=120_000)
    assert (event.values[0].name, event.next_start) == ("[120000]", 120_060)
    event = bench.debugger.stack()
    assert (len(event.frames), event.next_start) == (40, 40)
    rest = bench.debugger.stack(start=40)
    assert (rest.frames[0].index, rest.frames[-1].function, rest.next_start) == (
        40,
        "<module>",
        None,
    )
    module = len(event.frames) + len(rest.frames) - 1
    event = bench.debugger.locals(module)
    assert event.next_start == 60
    more = bench.debugger.locals(module, start=60)
    assert more.next_start is None
    assert bench.debugger.locals(module, start=500).error_kind is ErrorKind.BAD_REQUEST


def test_a_program_that_rewrites_itself_is_told(some_bench: Workbench) -> None:
    event = some_bench.script(
        """
        with open(__file__, "r+") as file:
            text = file.read()
            file.seek(0)
            file.write("# another first line\\n" + text)
        done = 1  # @here
        """,
        "here",
    )
    assert event.line == some_bench.line("here")
    assert [note for note in event.notes if "written after the program started" in note]
    assert not some_bench.debugger.stack().notes
