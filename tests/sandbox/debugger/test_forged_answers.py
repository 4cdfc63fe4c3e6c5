"""Programs that answer in the debugger's place, or break the debugger in their own process."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox import Command
from sandbox.debugger import (
    Action,
    DebugEvent,
    DebugLimits,
    ErrorKind,
    KillReason,
    State,
    StopReason,
)
from tests.interpreters import find_interpreter
from tests.sandbox.debugger.conftest import Workbench
from tests.sandbox.users import AS_ORDINARY, run_tests_as_ordinary

QUICK = DebugLimits(start_timeout=30, action_timeout=2, interrupt_grace=1)

# Readers that already wait get a request before the probe, which waits again after each answer.
THIEF = """
import json, os, threading

def steal(fd):
    forged = {"state": "runtime", "values": [{"name": "y", "type": "int", "text": "99"}]}
    while True:
        try:
            data = os.read(fd, 65536)
        except OSError:
            return
        if not data:
            return
        for line in filter(None, data.splitlines()):
            if b"{" not in line:
                continue
            start = line.index(b"{")
            request = json.loads(line[start:])
            answer = {**request, **forged, "answer": forged}
            text = b"\\n" + line[:start] + json.dumps(answer).encode() + b"\\n"
            for other in range(3, 1100):
                try:
                    os.write(other, text)
                except OSError:
                    continue

y = 1
for fd in map(int, os.listdir("/proc/self/fd")):
    if fd > 2:
        threading.Thread(target=steal, args=(fd,), daemon=True).start()
done = 1  # @here
"""


@pytest.fixture
def quick(open_bench: Callable[..., Workbench]) -> Workbench:
    """A bench whose actions time out after two seconds."""
    interpreter = find_interpreter("3.12") or find_interpreter("3.11")
    assert interpreter is not None
    return open_bench(interpreter, QUICK)


def test_a_thread_that_reads_requests_can_not_answer_them(quick: Workbench) -> None:
    quick.script(THIEF, "here")
    for _ in range(1000):
        event = quick.debugger.evaluate("y")
        if event.state is State.DONE:
            break
        assert [value.text for value in event.values] == ["1"]
    assert (event.error_kind, event.values) == (ErrorKind.UNRESPONSIVE, ())
    assert quick.debugger.restart().stop_reason is StopReason.BREAKPOINT


def test_requests_that_the_program_writes_are_not_carried_out(some_bench: Workbench) -> None:
    """The end of a pipe that reads can be opened again for writing."""
    some_bench.script(
        """
        import json, os
        for fd in map(int, os.listdir("/proc/self/fd")):
            for number in range(2, 9):
                asked = {"expression": "99", "frame": 0}
                request = {"id": number, "action": "evaluate", "arguments": asked, "timeout": 9}
                text = json.dumps({**request, "token": "", "grace": 1})
                for mark in ("", "0 ", "0" * 32 + " "):
                    try:
                        with open(f"/proc/self/fd/{fd}", "wb", buffering=0) as pipe:
                            pipe.write(("\\n" + mark + text + "\\n").encode() if fd > 2 else b"")
                    except OSError:
                        continue
        y = 1
        done = 1  # @here
        """,
        "here",
    )
    assert [some_bench.text_of("y") for _ in range(8)] == ["1"] * 8
    assert some_bench.debugger.control(Action.CONTINUE).exit_code == 0


def test_gc_lists_neither_key_nor_link(bench: Workbench) -> None:
    bench.script(
        """
        import gc, threading, time
        found, over = [], threading.Event()

        def search():
            while not over.is_set():
                for each in gc.get_objects():
                    if type(each) is dict and "id" in each and "action" in each:
                        found.append(each.keys() & {"token", "key"})
                    elif type(each).__name__ in ("Link", "Seal", "Session", "LineReader"):
                        found.append(each)
                time.sleep(0.001)

        threading.Thread(target=search, daemon=True).start()
        done = 1  # @here
        """,
        "here",
    )
    for _ in range(50):
        bench.text_of("over.is_set()")
    assert bench.text_of("[each for each in found if each]") == "[]"


def test_no_frame_and_no_module_holds_the_key(some_bench: Workbench) -> None:
    text = """
        import __main__, sys

        def test_key():
            held, frame = [vars(__main__)], sys._getframe().f_back
            while frame is not None:
                held += [frame.f_locals, frame.f_globals]
                frame = frame.f_back
            values = [value for each in held for value in list(each.values())]
            values += [inner for each in values if type(each) is list for inner in each]
            texts = [repr(each) for each in values if type(each) in (dict, str, bytes)]
            found = sum('"key"' in each or "'key'" in each for each in texts)
            done = 1  # @here
        """
    some_bench.write({"test_key.py": text})
    some_bench.start(some_bench.at("here", "test_key.py"), test="test_key.py")
    assert some_bench.text_of("found") == "0"


def test_the_supervisor_is_closed_to_the_program(some_bench: Workbench) -> None:
    some_bench.script(
        """
        import os
        opened = []
        for name in ("mem", "environ", "maps", "fd", "fd/0", "fd/1", "fd/3", "fd/10"):
            path = f"/proc/{os.getppid()}/{name}"
            try:
                opened.append(os.listdir(path) if name == "fd" else open(path, "rb"))
            except OSError:
                continue
        done = 1  # @here
        """,
        "here",
    )
    assert some_bench.text_of("opened") == "[]"


def test_a_program_that_kills_its_supervisor(quick: Workbench) -> None:
    """Between two requests, when the next finds nobody to read it."""
    quick.script(
        """
        import os, threading
        killer = threading.Timer(0.1, os.kill, (os.getppid(), 9))
        killer.start()
        done = 1  # @here
        """,
        "here",
    )
    event = quick.debugger.evaluate("done")
    while event.state is State.RUNTIME:
        event = quick.debugger.evaluate("done")
    assert (event.stop_reason, event.kill_reason) == (StopReason.KILLED, KillReason.EXITED)
    assert quick.debugger.restart().stop_reason is StopReason.BREAKPOINT


def test_a_program_that_ends_before_a_collection(quick: Workbench) -> None:
    """There is no breakpoint to collect at."""
    quick.script(
        """
        import os, threading
        threading.Timer(0.1, os._exit, (3,)).start()
        done = 1  # @here
        """,
        "here",
    )
    time.sleep(0.5)
    event = quick.debugger.collect(quick.at("here"), 2)
    assert (event.action, event.state, event.exit_code) == (Action.COLLECT, State.DONE, 3)
    assert not event.collected
    assert quick.debugger.restart().stop_reason is StopReason.BREAKPOINT


# In the program's own process its code can change the debugger's: frames lead there.
INSIDE = """
import sys

frame = sys._getframe()
while "session" not in frame.f_locals:
    frame = frame.f_back
session = frame.f_locals["session"]
session = getattr(session, "session", session)
link, Link = session.link, type(session.link)
real = Link.answer
y = 1
{}
done = 1  # @here
more = 2
"""
STATED = {
    "wrong types": {"values": 5},
    "a wrong item": {"values": [5]},
    "a missing field": {"values": [{"name": "y"}]},
    "an unknown field": {"forged": True},
    "an unknown part of a stop": {"stop": {"reason": "step", "forged": 1}},
    "an unknown state": {"state": "fine"},
    "an unknown reason": {"kill_reason": "boredom"},
    "an unknown error": {"error": {"kind": "boredom", "message": ""}},
    "a broken probe": {"error": {"kind": "internal", "message": "Traceback"}},
    "a number for text": {"notes": [5]},
    "text for a number": {"next_start": "5"},
    "a huge number": {"next_start": 10**40},
    "a list": [],
    "breakpoints": {"breakpoint_news": {"changed": [{"number": 1}], "gone": []}},
    "no change": {"breakpoint_news": 5},
    "half a place": {"stop": {"reason": "exited", "file": "a"}, "state": "done", "signal": "S"},
}
SENT = {
    "no number": '{"id": 3, "answer": {"state": "runtime", "next_start": NaN}}',
    "no end of nesting": '{"id": 3, "answer": {"state": "runtime", "values": %s}}'
    % ("[" * 200_000),
    "another request": '{"id": 99, "answer": {"state": "runtime"}}',
    "no request": '{"id": "3", "answer": {"state": "runtime"}}',
    "no answer": '{"id": 3, "answer": 5}',
    "no object": "5",
    "no JSON": "]",
    "no text": "\\xff",
}
CHANGES = {
    **{
        name: f"""
def forge(self, fields):
    if self.request["action"] == "evaluate":
        stated = {stated!r}
        fields = {{**fields, **stated}} if isinstance(stated, dict) else stated
    real(self, fields)
Link.answer = forge
"""
        for name, stated in STATED.items()
    },
    **{
        f"as sent: {name}": f"""
import os
def forge(self, fields):
    if self.request["action"] != "evaluate":
        return real(self, fields)
    text = {text!r}.encode("latin-1")
    os.write(self.answers, b"\\n" + self.seal._mark(text) + b" " + text + b"\\n")
Link.answer = forge
"""
        for name, text in SENT.items()
    },
    "two answers": """
def forge(self, fields):
    real(self, fields)
    if self.request["action"] == "evaluate":
        real(self, fields)
Link.answer = forge
""",
    "nothing of what was asked": """
def forge(self, fields):
    fields.pop("values", None)
    real(self, fields)
Link.answer = forge
""",
}
SLOW = [name for name in CHANGES if name not in ("wrong types", "two answers")]


def evaluated_to_the_end(bench: Workbench) -> DebugEvent:
    """What ends the session; a second answer may come after the first was shown."""
    event = bench.debugger.evaluate("y")
    while event.state is State.RUNTIME:
        event = bench.debugger.evaluate("y")
    return event


@pytest.mark.parametrize(
    "name",
    ["wrong types", "two answers", *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)],
)
def test_what_no_debugger_can_have_answered_ends_the_session(quick: Workbench, name: str) -> None:
    quick.script(INSIDE.format(CHANGES[name]), "here")
    event = evaluated_to_the_end(quick)
    assert (event.state, event.stop_reason) == (State.DONE, StopReason.KILLED), event
    assert event.kill_reason is KillReason.INTERFERENCE, event
    assert event.error_kind is ErrorKind.UNRESPONSIVE
    assert not event.values
    assert quick.debugger.restart().stop_reason is StopReason.BREAKPOINT


def test_an_answer_that_nobody_asked_for_ends_the_session(quick: Workbench) -> None:
    late = """
import threading
threading.Timer(0.1, real, (link, {"state": "runtime"})).start()
"""
    quick.script(INSIDE.format(late), "here")
    event = evaluated_to_the_end(quick)
    assert event.kill_reason is KillReason.INTERFERENCE


@pytest.mark.parametrize(
    ("action", "stop"),
    [
        *(("launch", None), ("step_over", None), ("set_breakpoint", None), ("collect", None)),
        *(("set_breakpoint", "step"), ("collect", "step")),
    ],
)
def test_no_action_takes_an_answer_that_lacks_all(
    quick: Workbench, action: str, stop: str | None
) -> None:
    forge = """
def forge(self, fields):
    asked = self.request["action"]
    real(self, %s if asked == "%s" else fields)
Link.answer = forge
"""
    named = "set_breakpoint" if action == "collect" else action
    said = {"state": "runtime", **({"stop": {"reason": stop}} if stop else {})}
    started = quick.script(INSIDE.format(forge % (said, named)), "here")
    calls = {
        "launch": lambda: started,
        "step_over": lambda: quick.debugger.control(Action.STEP_OVER),
        "set_breakpoint": lambda: quick.debugger.set_breakpoint(quick.at("here")),
        "collect": lambda: quick.debugger.collect(quick.at("here"), 1),
    }
    assert calls[action]().kill_reason is KillReason.INTERFERENCE
    assert quick.debugger.restart().error_kind in (None, ErrorKind.UNRESPONSIVE)


@pytest.mark.slow
@pytest.mark.parametrize("user", [AS_ORDINARY])
def test_nor_are_they_forged_where_stepinto_is_an_ordinary_user(user: str) -> None:
    told = run_tests_as_ordinary(Path(__file__), "thread or supervisor or wrong or nobody")
    passed = re.search(r"^(\d+) passed", told, re.MULTILINE)
    assert passed, told
    assert int(passed[1]) >= 5, told
    assert "failed" not in told, told


RECORD = "import os\nwith open('/tmp/ran', 'a') as file:\n    file.write(f'{os.getpid()} ')\n"
SHADOWS = ("sitecustomize", "usercustomize", "json", "tty", "select", "zlib", "traceback")


@pytest.mark.parametrize("where", ["src", "."])
def test_no_file_of_the_project_runs_in_the_supervisor(
    open_bench: Callable[..., Workbench], where: str
) -> None:
    interpreter = find_interpreter("3.12") or find_interpreter("3.11")
    assert interpreter is not None
    folder = f"/workspace/{where}".removesuffix("/.")
    bench = open_bench(interpreter, environment={"PYTHONPATH": folder})
    bench.write({f"{where}/{name}.py": RECORD for name in SHADOWS})
    bench.script("import os\ndone = 1  # @here\n", "here")
    ran = bench.text_of("set(open('/tmp/ran').read().split()) == {str(os.getpid())}")
    assert ran == "True", bench.text_of("open('/tmp/ran').read(), os.getpid(), os.getppid()")


STARTED = """
import json, os, sys, io

with open("/proc/self/cmdline") as file:
    flags = [word for word in file.read().split("\\0")[1:] if word.startswith("-")]
said = {
    "flags": str(sys.flags),
    "isolated": [flag for flag in flags if flag != "-c"],
    "path": sys.path,
    "environment": dict(os.environ),
    "hash": hash("a"),
    "custom": getattr(sys, "custom", None),
    "executable": sys.executable,
    "prefix": [sys.prefix, sys.base_prefix],
    "encodings": [s.encoding + " " + s.errors for s in (sys.stdin, sys.stdout, sys.stderr)],
    "options": [sys.warnoptions, sys._xoptions, sys.dont_write_bytecode],
    "site": "site" in sys.modules,
}
print(json.dumps(said, sort_keys=True))
"""


def test_the_program_starts_as_without_a_debugger(open_bench: Callable[..., Workbench]) -> None:
    """Its interpreter is set up by the environment and by the project."""
    for version in ("3.8", "3.11", "3.12", "3.13"):
        interpreter = find_interpreter(version)
        if interpreter is None:
            continue
        given = {
            "PYTHONPATH": "/workspace/src:/workspace/more:/workspace/src",
            "PYTHONHASHSEED": "7",
            "PYTHONWARNINGS": "ignore",
            "PYTHONNOUSERSITE": "1",
        }
        bench = open_bench(interpreter, environment=given)
        custom = "import sys\nsys.custom = list(sys.path)\nsys.path.append('/workspace/custom')\n"
        bench.write({"src/sitecustomize.py": custom, "more/a.py": "", "program.py": STARTED})
        plain = bench.sandbox.run(Command((interpreter.path, "program.py")))
        event = bench.start(stop_at_entry=False)
        assert event.exit_code == 0, event
        assert json.loads(event.output) == json.loads(plain.output)
