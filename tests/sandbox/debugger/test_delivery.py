"""How the probe's modules reach an interpreter, and that they leave nothing there."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox.debugger import Action, StopReason, probe
from sandbox.debugger.python_session import probe_message
from tests.interpreters import VERSIONS, find_interpreter
from tests.sandbox.debugger.conftest import Workbench

FOLDER = Path(probe.__file__).parent
MODULES = {*probe.SUPERVISOR, *probe.DEBUGGEE}


def imports(module: str) -> list[ast.Import | ast.ImportFrom]:
    """All imports that are ever executed."""
    tree = ast.parse((FOLDER / f"{module}.py").read_text("utf-8"))
    for_types = [
        node
        for node in tree.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    unused = {id(node) for branch in for_types for node in branch.body}
    found = [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
    return [node for node in found if id(node) not in unused]


def test_all_modules_are_sent_each_after_those_it_imports() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} - {"__init__"} == MODULES
    for names in (probe.SUPERVISOR, probe.DEBUGGEE):
        for index, module in enumerate(names):
            nodes = [node for node in imports(module) if isinstance(node, ast.ImportFrom)]
            needed = {node.module for node in nodes if node.level}
            assert needed <= set(names[:index]), module
            assert all(node.col_offset == 0 for node in nodes if node.level), module


@pytest.mark.parametrize("module", sorted(MODULES))
def test_modules_need_the_standard_library_alone(module: str) -> None:
    needed: set[str] = set()
    for node in imports(module):
        if isinstance(node, ast.Import):
            needed |= {alias.name.partition(".")[0] for alias in node.names}
        elif not node.level:
            needed.add(str(node.module).partition(".")[0])
    assert needed - sys.stdlib_module_names <= {"pytest"}


MAGIC = "import _frozen_importlib_external as e; print(e.MAGIC_NUMBER.hex())"
KINDS = """\
import base64, marshal, sys, zlib
modules = marshal.loads(zlib.decompress(base64.b64decode(sys.stdin.read())))
print(*(f"{name}:{type(code).__name__}" for name, code in modules))
"""


def output_of(python: str, code: str, message: bytes = b"") -> list[bytes]:
    """The words that an interpreter prints."""
    command = [python, "-I", "-c", code]
    return subprocess.run(command, input=message, capture_output=True, check=True).stdout.split()


@pytest.mark.parametrize("version", VERSIONS)
def test_the_message_is_one_line_of_byte_code(version: str) -> None:
    interpreter = find_interpreter(version)
    if interpreter is None:
        pytest.skip(f"CPython {version} is not on this machine")
    [magic] = output_of(interpreter.path, MAGIC)
    # Of another magic number there are only sources.
    for number, kind in ((magic.decode(), "code"), ("00000d0a", "str")):
        message = probe_message(probe.DEBUGGEE, number, version)
        assert message.isascii()
        assert all(byte >= 32 for byte in message)
        sent = output_of(interpreter.path, KINDS, message)
        assert sent == [f"{name}:{kind}".encode() for name in probe.DEBUGGEE]


def test_imports_on_the_host_start_nothing() -> None:
    code = "\n".join(f"import sandbox.debugger.probe.{module}" for module in sorted(MODULES))
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_the_program_finds_nothing_of_the_probe(bench: Workbench) -> None:
    event = bench.script(
        """
        import linecache, sys, traceback

        try:
            import _stepinto_probe
        except ImportError:
            _stepinto_probe = None
        traceback.format_stack()
        modules = [name for name in sys.modules if "stepinto" in name]
        lines = [name for name, entry in linecache.cache.items() if "stepinto" in name]
        here = 1  # @here
        """,
        "here",
    )
    assert event.depth == 1
    assert bench.text_of("_stepinto_probe, modules, lines") == "(None, [], [])"


def test_a_program_that_clears_its_modules_is_debugged_on(bench: Workbench) -> None:
    bench.script(
        """
        import sys

        for name in list(sys.modules):
            if name not in ("sys", "builtins"):
                del sys.modules[name]
        one = 1  # @one
        two = 2  # @two
        """,
        "one",
        "two",
    )
    event = bench.debugger.control(Action.CONTINUE)
    assert (event.stop_reason, event.line) == (StopReason.BREAKPOINT, bench.line("two"))
    assert bench.text_of("one") == "1"
