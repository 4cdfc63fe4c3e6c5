"""Code whose file is no file of the program's: compiled modules, generated and executed text,
templates, archives. It is never a place of the program, and exceptions pass through it."""

from __future__ import annotations

import io
import zipfile

import pytest

from sandbox.debugger import Action, BreakpointRequest, DebugEvent, State
from tests.sandbox.debugger.conftest import Workbench

ON_VALUE_ERROR = BreakpointRequest(exception="ValueError")
MADE_UP = """
    import dataclasses
    import sys
    import types

    RULES = "def check(n):\\n    if n < 0:\\n        raise ValueError(n)\\n"

    def executed(name):
        space = {}
        exec(compile(RULES, name, "exec"), space)
        return space["check"]

    @dataclasses.dataclass
    class Price:
        value: int

        def __post_init__(self):
            if self.value < 0:
                raise ValueError(self.value)  # @price

    def guarded(check, value):
        try:
            check(value)  # @guarded
        except ValueError:
            return "caught"

    NAMES = ["rules.txt", "lib/rules.py", "<rules>", "/nowhere/rules.py", "", "page.html", "lib",
             HERE + "/rules.py", HERE + "/page.html", "library.zip/rules.py", "a\\\\b", "x\\ny"]
    for name in NAMES:
        check = executed(name)
        guarded(check, -1)
    guarded(Price, -1)
    sys.path.insert(0, HERE + "/library.zip")
    import zipped
    guarded(zipped.check, -1)
"""
PAGE = "<ul>\n{% for n in numbers %}\n<li>{{ check(n) }}</li>\n{% endfor %}\n</ul>\n"


def archive() -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as packed:
        packed.writestr("zipped.py", "def check(n):\n    raise ValueError(n)\n")
    return data.getvalue()


def lay_out(bench: Workbench, text: str) -> None:
    bench.write({"program.py": "    import os\n    HERE = os.getcwd()\n" + text, "page.html": PAGE})
    bench.sandbox.write_files({"library.zip": archive()})


def stops(bench: Workbench, event: DebugEvent) -> list[tuple[str | None, int | None]]:
    found = []
    while event.state is State.RUNTIME_ERROR:
        found.append((event.file, event.line))
        event = bench.debugger.control(Action.CONTINUE)
    assert event.state is State.DONE
    return found


def test_an_exception_stops_in_the_caller_that_is_the_programs(bench: Workbench) -> None:
    lay_out(bench, MADE_UP)
    event = bench.start(ON_VALUE_ERROR)
    guarded, price = bench.line("guarded"), bench.line("price")
    places = [("program.py", guarded)] * 12 + [("program.py", price), ("program.py", guarded)]
    assert stops(bench, event) == places


def test_stacks_show_that_it_is_no_file(some_bench: Workbench) -> None:
    bench = some_bench
    lay_out(bench, MADE_UP + "\n    executed('rules.txt')(-1)")
    bench.start()
    event = bench.debugger.control(Action.CONTINUE)
    assert (event.state, event.file, event.line) == (State.POST_MORTEM, "<rules.txt>", 3)
    assert event.frames[0].source == ""
    assert event.source == ()
    assert event.frames[1].file == "program.py"


COMPILED = """
    from xml.parsers import expat

    def parse(handler):
        parser = expat.ParserCreate()
        parser.StartElementHandler = handler
        text = "<cart/>"
        parser.Parse(text)  # @parse

    try:
        parse(ord)
    except TypeError:
        print("caught")
    parse(ord)
"""


def test_compiled_code(bench: Workbench) -> None:
    """`expat` adds an entry with its C file to the traceback, as Cython does."""
    bench.write({"program.py": COMPILED})
    event = bench.start(BreakpointRequest(exception="TypeError"))
    assert (event.state, event.line) == (State.RUNTIME_ERROR, bench.line("parse"))
    assert any("raised in compiled code" in note and "pyexpat.c" in note for note in event.notes)
    bench.debugger.control(Action.CONTINUE)
    event = bench.debugger.control(Action.CONTINUE)
    assert (event.state, event.line) == (State.POST_MORTEM, bench.line("parse"))
    assert bench.text_of("text") == "'<cart/>'"
    assert any("raised in compiled code" in note and "pyexpat.c" in note for note in event.notes)
    assert [frame.function for frame in bench.debugger.stack().frames] == ["parse", "<module>"]


OWN_COMPILED = """
    import asyncio
    import ctypes
    import types

    api = ctypes.pythonapi
    api.PyCode_NewEmpty.restype = api.PyFrame_New.restype = ctypes.py_object
    api.PyThreadState_Get.restype = ctypes.c_void_p

    def compiled(error, file):
        # What mypyc and Cython do when an exception leaves a function of theirs.
        code = api.PyCode_NewEmpty(file.encode(), b"fast", 2)
        state = ctypes.c_void_p(api.PyThreadState_Get())
        space = ctypes.py_object(globals())
        frame = api.PyFrame_New(state, ctypes.py_object(code), space, None)
        entry = types.TracebackType(None, frame, max(frame.f_lasti, 0), 2)
        future = asyncio.new_event_loop().create_future()
        future.set_exception(error.with_traceback(entry))
        return future.result

    def check(n):
        fast = compiled(ValueError(n), FILE)
        fast()  # @check

    try:
        check(1)
    except ValueError:
        print("caught")
    check(2)
"""


@pytest.mark.parametrize("name", ["fast.py", "fast.pyx"])
def test_compiled_code_of_the_program(some_bench: Workbench, name: str) -> None:
    """It names the program's own source, but no event comes of it."""
    bench = some_bench
    bench.write({"program.py": OWN_COMPILED.replace("FILE", repr(name)), name: "\nreturn n\n"})
    event = bench.start(ON_VALUE_ERROR)
    assert (event.state, event.line) == (State.RUNTIME_ERROR, bench.line("check"))
    bench.debugger.control(Action.CONTINUE)
    event = bench.debugger.control(Action.CONTINUE)
    assert (event.state, event.line) == (State.POST_MORTEM, bench.line("check"))
    assert bench.text_of("n") == "2"
    shown = name if name.endswith(".py") else f"<{name}>"
    assert event.notes[0] == f"it was raised in compiled code: fast at {shown}:2"


def test_a_script_without_a_suffix_is_the_programs(some_bench: Workbench) -> None:
    bench = some_bench
    bench.write(
        {
            "tool": "def check(n):\n    raise ValueError(n)\n",
            "program.py": """
                import runpy

                check = runpy.run_path("tool")["check"]
                try:
                    check(-1)
                except ValueError:
                    pass
                check(0)
            """,
        }
    )
    event = bench.start(ON_VALUE_ERROR, BreakpointRequest(file="tool", line=2))
    assert (event.file, event.line) == ("tool", 2)
    event = bench.debugger.control(Action.CONTINUE)
    assert (event.file, event.line, event.state) == ("tool", 2, State.RUNTIME_ERROR)


def test_modules_of_a_relative_folder_are_the_programs(bench: Workbench) -> None:
    """Before CPython 3.10 their code has a relative name, also after a change of folder."""
    bench.write(
        {
            "src/shop.py": "def check(n):\n    raise ValueError(n)\n",
            "program.py": """
                import os
                import sys

                sys.path.insert(0, "src")
                import shop

                os.chdir("/")
                try:
                    shop.check(-1)
                except ValueError:
                    pass
            """,
        }
    )
    event = bench.start(ON_VALUE_ERROR)
    assert (event.file, event.line) == ("src/shop.py", 2)
