"""Traces of programs that really run, in sandboxes, and their text at each level."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator

import pytest

from collect.agents.baselines.ldb import (
    Level,
    Step,
    TraceUnavailable,
    blocks_of,
    trace_test,
    trace_text,
)
from sandbox import Sandbox, SandboxConfig, open_sandbox
from tests.interpreters import find_interpreter

Tracer = Callable[..., list[Step]]
Limits = tuple[int, int, int]
WIDE: Limits = (100, 100, 1_000)
"""Blocks, lines per block, and characters per comment."""
LOOP = textwrap.dedent("""\
    def total(values):
        result = 0
        for value in values:
            if value > 0:
                result += value
        return result
    """)
GENERATOR = """
    def numbers():
        yield 7
    def first():
        for number in numbers():
            return number
    """


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with open_sandbox(SandboxConfig()) as opened:
        yield opened


def trace(sandbox: Sandbox, code: str, test: str, timeout: float = 60) -> list[Step]:
    files = {"solution.py": code, "test_solution.py": test}
    sandbox.write_files({path: text.encode() for path, text in files.items()})
    try:
        return trace_test(sandbox, "solution.py", code, "test_solution.py::test_it", timeout)
    finally:
        assert set(sandbox.read_tree()) == set(files), "the tracer leaves nothing behind"


def text(
    sandbox: Sandbox, code: str, call: str, level: Level = Level.BLOCK, limits: Limits = WIDE
) -> str:
    """The trace of a test that asserts something about a call."""
    code = textwrap.dedent(code)
    test = f"from solution import *\n\n\ndef test_it():\n    assert {call} == 'never'\n"
    return trace_text(blocks_of(trace(sandbox, code, test), code, level), code, *limits)


def expected(block: str) -> str:
    return textwrap.dedent(block).strip("\n")


@pytest.mark.parametrize(
    "version", ["3.8", *(pytest.param(each, marks=pytest.mark.slow) for each in ("3.12", "3.13"))]
)
def test_a_loop_in_basic_blocks_on_several_pythons(version: str) -> None:
    interpreter = find_interpreter(version)
    if interpreter is None or not interpreter.has_pytest:
        pytest.skip(f"no CPython {version} with pytest; run python -m tests.interpreters")
    config = SandboxConfig(python=interpreter.path, readable_paths=interpreter.readable_paths)
    with open_sandbox(config) as sandbox:
        assert text(sandbox, LOOP, "total([4, -1])") == expected("""
            [BLOCK-0]
                # values=[4, -1]
                result = 0
                # values=[4, -1]  result=0
            [BLOCK-1]
                # values=[4, -1]  result=0
                for value in values:
                # values=[4, -1]  result=0  value=4
            [BLOCK-2]
                    # values=[4, -1]  result=0  value=4
                    if value > 0:
                    # values=[4, -1]  result=0  value=4
            [BLOCK-3]
                        # values=[4, -1]  result=0  value=4
                        result += value
                        # values=[4, -1]  result=4  value=4
            [BLOCK-4]
                # values=[4, -1]  result=4  value=4
                for value in values:
                # values=[4, -1]  result=4  value=-1
            [BLOCK-5]
                    # values=[4, -1]  result=4  value=-1
                    if value > 0:
                    # values=[4, -1]  result=4  value=-1
            [BLOCK-6]
                # values=[4, -1]  result=4  value=-1
                for value in values:
                # values=[4, -1]  result=4  value=-1
            [BLOCK-7]
                # values=[4, -1]  result=4  value=-1
                return result
                # values=[4, -1]  result=4  value=-1  return=4
            """)
        shown = text(sandbox, GENERATOR, "first()", Level.LINE)
        assert "yield 7\n    # yield=7\n" in shown
        assert shown.endswith("return=7")


def test_line_level_makes_every_executed_line_a_block(sandbox: Sandbox) -> None:
    shown = text(sandbox, LOOP, "total([4])", Level.LINE)
    assert shown.count("[BLOCK-") == 6
    assert "[BLOCK-0]\n    # values=[4]\n    result = 0\n    # values=[4]  result=0\n" in shown


def test_function_level_gives_entry_and_exit_values(sandbox: Sandbox) -> None:
    assert text(sandbox, LOOP, "total([4])", Level.FUNCTION) == expected("""
        [BLOCK-0]
            # values=[4]
            result = 0
            for value in values:
                if value > 0:
                    result += value
            for value in values:
            return result
            # values=[4]  result=4  value=4  return=4
        """)


@pytest.mark.slow
def test_sampling_keeps_the_first_and_the_last(sandbox: Sandbox) -> None:
    blocks = text(sandbox, LOOP, "total(range(400))", Level.LINE, (4, 30, 60))
    assert "    result = 0\n" in blocks
    assert blocks.count("[BLOCK-") == 4
    assert "blocks left out) ..." in blocks
    assert blocks.endswith("return=79800")
    lines = text(sandbox, LOOP, "total([4, 5, 6])", Level.FUNCTION, (1, 4, 60))
    assert "    for value in values:\n...\n" in lines
    assert len(lines.splitlines()) == 8


def test_a_long_run_keeps_its_beginning_and_its_end(sandbox: Sandbox) -> None:
    code = "def count(n):\n    while n:\n        n -= 1\n    return n\n"
    test = "from solution import count\n\n\ndef test_it():\n    assert count(5_000)\n"
    found = trace(sandbox, code, test)
    assert len(found) == 1_000
    assert (found[0].before, found[-1].gave) == ({"n": "5000"}, "return=0")


@pytest.mark.slow
def test_recursion_nests(sandbox: Sandbox) -> None:
    code = "def fact(n):\n    if n == 0:\n        return 0\n    return n * fact(n - 1)\n"
    shown = text(sandbox, code, "fact(1)")
    assert "# n=1\n    return n * fact(n - 1)\n    # n=1  return=0\n[BLOCK-2]\n    # n=0" in shown


def test_endless_recursion_has_a_trace(sandbox: Sandbox) -> None:
    shown = text(sandbox, "def down(n):\n    return down(n + 1)\n", "down(0)")
    assert "[BLOCK-99]" in shown
    assert "# n=1\n" in shown


def test_exceptions_and_what_is_left_on_their_way(sandbox: Sandbox) -> None:
    code = """
        import contextlib
        def read(text):
            with contextlib.suppress(KeyError):
                value = {}[text]
            try:
                return 1 / 0
            except ZeroDivisionError:
                raise ValueError(text)
            finally:
                done = True
        """
    shown = text(sandbox, code, "read('x')")
    assert "raised KeyError('x')" in shown
    assert shown.count("with contextlib") == 1
    assert "return 1 / 0\n        # text='x'  raised ZeroDivisionError(" in shown
    assert shown.endswith("done = True\n        # text='x'  done=True  raised ValueError('x')")


def test_generators_yield_between_their_callers_lines(sandbox: Sandbox) -> None:
    shown = text(sandbox, GENERATOR, "first()")
    assert "yield 7\n    # yield=7\n[BLOCK-2]" in shown
    assert shown.endswith("return number\n        # number=7  return=7")


@pytest.mark.slow
def test_threads_and_prints_are_no_obstacle(sandbox: Sandbox) -> None:
    code = """
        import os, sys, threading
        def work(out):
            out.append(1)
        def run(out):
            print("x" * 100_000)
            os.write(1, b'{"head": []}')
            thread = threading.Thread(target=work, args=(out,))
            thread.start()
            thread.join()
            return out
        """
    shown = text(sandbox, code, "run([])")
    assert "# out=[]\n    out.append(1)\n    # out=[1]  return=None" in shown


def test_only_what_the_failing_statement_set_off_is_kept(sandbox: Sandbox) -> None:
    code = "def double(n):\n    return n + n\n"
    test = (
        "from solution import double\n\n\ndef test_it():\n    for n in range(3):\n"
        "        assert double(n) == n * n\n"
    )
    [step] = trace(sandbox, code, test)
    assert (step.before, step.gave) == ({"n": "1"}, "return=2")


def test_an_object_s_earlier_calls_are_kept(sandbox: Sandbox) -> None:
    code = """\
class Stack:
    def __init__(self):
        self.items = []

    def push(self, item):
        self.items.append(item)

    def top(self):
        return self.items[0]
"""
    test = (
        "from solution import Stack\n\n\ndef test_it():\n    stack = Stack()\n"
        "    stack.push(1)\n    stack.push(2)\n    assert stack.top() == 2\n"
    )
    shown = trace_text(blocks_of(trace(sandbox, code, test), code, Level.BLOCK), code, *WIDE)
    assert shown.count("[BLOCK-") == 4
    assert shown.endswith("# self=Stack(items=[1, 2])  return=1")


def test_a_script_is_traced_without_its_definitions(sandbox: Sandbox) -> None:
    code = "import sys\ndef half(n):\n    return n // 2\nn = int(input())\nprint(half(n))\n"
    test = (
        "import io, runpy, sys\n\n\ndef test_it():\n    sys.stdin = io.StringIO('6')\n"
        "    given = {'n': sum, 'e': 2.7}\n"
        "    runpy.run_path('solution.py', init_globals=given, run_name='__main__')\n"
        "    assert False\n"
    )
    found = trace(sandbox, code, test)
    shown = trace_text(blocks_of(found, code, Level.BLOCK), code, *WIDE)
    assert shown.startswith("[BLOCK-0]\nn = int(input())\nprint(half(n))\n# n=6\n[BLOCK-1]")
    assert "import sys" not in shown
    called = trace_text(blocks_of(found, code, Level.FUNCTION), code, *WIDE)
    assert called == "[BLOCK-0]\n    # n=6\n    return n // 2\n    # n=6  return=3"


def test_values_are_bounded_and_run_no_code_of_the_program(sandbox: Sandbox) -> None:
    code = """
        from collections import namedtuple
        class Raising:
            def __init__(self):
                self.x = 1
            def __repr__(self):
                raise RuntimeError
        class Endless(int):
            def __repr__(self):
                while True:
                    pass
        Pair = namedtuple("Pair", "left right")
        def work():
            raising = Raising()
            endless = Endless(3)
            pair = Pair(1, {2})
            number = 10 ** 50_000
            text = "x" * 10_000_000
            nested = [list(range(1_000_000))] * 1_000
            itself = []
            itself.append(itself)
            empty = set()
            return None
        """
    lines = text(sandbox, code, "work()").splitlines()
    [shown] = [line for line in lines if line.endswith("return=None") and "empty" in line]
    assert "raising=Raising(x=1)  endless=Endless(3)  pair=Pair(left=1, right={2})" in shown
    assert "number=<int of 166097 bits>  text='xxx" in shown
    assert "nested=[[0, 1, 2" in shown
    assert "itself=[[[[[...]]]]]  empty=set()" in shown


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "call", "reason"),
    [
        ("def f():\n    while True:\n        pass\n", "f()", "exceeds the limit of 3 s"),
        ("import os\ndef f():\n    os._exit(3)\n", "f()", "ended with exit code 3 before"),
        ("def f():\n    pass\n", "1", "before it runs any line"),
        ("def f(:\n", "f()", "not valid Python"),
    ],
    ids=["endless", "gone", "unreached", "syntax"],
)
def test_where_there_is_no_trace_it_says_why(
    code: str, call: str, reason: str, sandbox: Sandbox
) -> None:
    test = f"from solution import f\n\n\ndef test_it():\n    assert {call} == 2\n"
    with pytest.raises(TraceUnavailable, match=reason):
        trace(sandbox, code, test, timeout=3 if "while" in code else 60)


def test_a_program_that_fails_on_import_is_traced_to_there(sandbox: Sandbox) -> None:
    shown = text(sandbox, "LIMIT = 3\nDOUBLE = LIMIT + MISSING\n", "LIMIT")
    assert "DOUBLE = LIMIT + MISSING\n# LIMIT=3  raised NameError(" in shown


@pytest.mark.slow
def test_a_test_that_replaces_the_standard_library_is_traced(sandbox: Sandbox) -> None:
    code = "import os\n\n\ndef size(path):\n    return os.stat(path).st_size\n"
    test = (
        "import builtins, os, time\nfrom solution import size\n\n\n"
        "def test_it(monkeypatch):\n"
        "    for module, name in [(builtins, 'open'), (os, 'stat'), (os, 'lstat'),\n"
        "                         (os.path, 'realpath'), (time, 'perf_counter')]:\n"
        "        monkeypatch.setattr(module, name, None)\n"
        "    size('a')\n"
    )
    [step] = [step for step in trace(sandbox, code, test) if step.is_function]
    assert step.raised == "TypeError(\"'NoneType' object is not callable\")"
