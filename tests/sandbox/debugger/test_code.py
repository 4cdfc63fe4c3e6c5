"""Code run in a paused frame: what it sees, and what it changes."""

from __future__ import annotations

import pytest

from sandbox.debugger import Action, ErrorKind, State
from sandbox.debugger.rendering import render
from tests.sandbox.debugger.conftest import Workbench

PROGRAM = """
    RATE = 2
    SEEN = []

    def show():
        SEEN.append(RATE)
        return RATE

    def run(items, code=1):
        total = 0
        count = 0

        def bump(by=1):
            nonlocal count
            count += by
            return count

        bump()
        spare = "spare"
        done = total + count  # @here
        return total, count, RATE, items, code, bump()

    while True:
        RATE = 2
        print(run([1, 2, 3]))
"""

CODE = {
    "total = 5": "(5, 1, 2, [1, 2, 3], 1, 2)",
    "total += 5; total *= 2": "(10, 1, 2, [1, 2, 3], 1, 2)",
    "for n in items:\n    if n > 1:\n        total += n\nelse:\n    code = n": (
        "(5, 1, 2, [1, 2, 3], 3, 2)"
    ),
    "items = [n * RATE for n in items if n > total]": "(0, 1, 2, [2, 4, 6], 1, 2)",
    "total = sum(map(lambda n: n + count, items))": "(9, 1, 2, [1, 2, 3], 1, 2)",
    "items.append(total)": "(0, 1, 2, [1, 2, 3, 0], 1, 2)",
    "total: int = 3": "(3, 1, 2, [1, 2, 3], 1, 2)",
    "global RATE\nRATE = 7\ntotal = show()": "(7, 1, 7, [1, 2, 3], 1, 2)",
    "count = 10": "(0, 10, 2, [1, 2, 3], 1, 11)",
    "nonlocal count\ncount += 4": "(0, 5, 2, [1, 2, 3], 1, 6)",
    "bump(3)": "(0, 4, 2, [1, 2, 3], 1, 5)",
    "def twice(n):\n    return n if n > 20 else twice(2 * n + RATE)\ntotal = twice(count)": (
        "(22, 1, 2, [1, 2, 3], 1, 2)"
    ),
    "def add():\n    nonlocal total\n    total += count\nadd(); add()": (
        "(2, 1, 2, [1, 2, 3], 1, 2)"
    ),
    "class Box:\n    size = count\n    def grow(self):\n        return total + self.size\n"
    "code = Box().grow()": "(0, 1, 2, [1, 2, 3], 1, 2)",
    "import math as m\ntotal = m.floor(2.5)": "(2, 1, 2, [1, 2, 3], 1, 2)",
    "with open('x.txt', 'w') as file:\n    total = file.write('abc')": (
        "(3, 1, 2, [1, 2, 3], 1, 2)"
    ),
    "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    total = 1": (
        "(1, 1, 2, [1, 2, 3], 1, 2)"
    ),
    "(total := 4)": "(4, 1, 2, [1, 2, 3], 1, 2)",
    "any((total := n) for n in items)": "(1, 1, 2, [1, 2, 3], 1, 2)",
    "": "(0, 1, 2, [1, 2, 3], 1, 2)",
    "# nothing": "(0, 1, 2, [1, 2, 3], 1, 2)",
}


def test_code_takes_effect_when_the_program_goes_on(bench: Workbench) -> None:
    bench.script(PROGRAM, "here")
    for code, expected in CODE.items():
        event = bench.debugger.run_code(code)
        assert event.error_kind is None, (code, event.error)
        event = bench.debugger.control(Action.CONTINUE)
        assert (event.state, event.output) == (State.RUNTIME, expected + "\n"), code


def test_code_that_fails_is_told_and_harmless(some_bench: Workbench) -> None:
    bench = some_bench
    bench.script(PROGRAM, "here")
    failing = {
        "total = 9\n[][1]": "IndexError: list index out of range",
        "for n in items: yield n": "SyntaxError: 'yield' outside function",
        "return 5": "SyntaxError: 'return' outside function",
        "await total": "SyntaxError: 'await' outside",
        "if total": "SyntaxError",
        "nothing += 1": "nothing",
        "raise SystemExit(3)": "SystemExit: 3",
    }
    for code, expected in failing.items():
        event = bench.debugger.run_code(code)
        assert (event.error_kind, event.state) == (ErrorKind.EVALUATION, State.RUNTIME)
        assert expected in (event.error or "")
    assert bench.text_of("total") == "9"
    event = bench.debugger.control(Action.CONTINUE)
    assert event.output == "(9, 1, 2, [1, 2, 3], 1, 2)\n"
    assert event.line == bench.line("here")


def test_deleted_names_stay_and_this_is_told(bench: Workbench) -> None:
    bench.script(PROGRAM, "here")
    event = bench.debugger.run_code("del spare\nfresh = 4")
    assert event.error_kind is None
    assert bench.text_of("fresh") == "4"
    assert "can't be deleted: spare stay" in event.notes[0]
    assert bench.debugger.control(Action.CONTINUE).line == bench.line("here")


def test_the_last_expression_is_shown(bench: Workbench) -> None:
    bench.script(PROGRAM, "here")
    shown = {
        "bump(2)": ["bump(2) = 3"],
        "count = 1; print(len(items)); items.copy()\ntotal + RATE": ["total + RATE = 2"],
        "items; total = 4": [],
        "items.append(4)": [],
        "{}.get('a')": ["{}.get('a') = None"],
        "exec('a = 1', {}); total = 4": [],
    }
    for code, values in shown.items():
        event = bench.debugger.run_code(code)
        assert [f"{value.name} = {value.text}" for value in event.values] == values, code
        assert any("last statement" in note for note in event.notes) == code.startswith("items;")
        text = render(event)
        assert ("printed nothing" in text) == (not values), text
    assert bench.debugger.control(Action.CONTINUE).output == "(4, 1, 2, [1, 2, 3, 4], 1, 2)\n"


def test_a_local_that_hides_a_global_is_told(bench: Workbench) -> None:
    bench.script(PROGRAM, "here")
    event = bench.debugger.run_code("RATE = 9\nsum = len\ntotal = 1")
    for name in ("RATE", "sum"):
        told = f"the program's own {name} is global and unchanged: use `global {name}`"
        assert told in event.notes
    assert len(event.notes) == 2
    assert not bench.debugger.run_code("global RATE\nRATE = 9\nSEEN.append(1)").notes
    assert bench.debugger.control(Action.CONTINUE).output == "(1, 1, 9, [1, 2, 3], 1, 2)\n"


def test_a_failure_after_code_is_told(bench: Workbench) -> None:
    bench.script("total = 1\nprint(1 // total)  # @here\n", "here")
    bench.debugger.run_code("total = 0")
    event = bench.debugger.control(Action.CONTINUE)
    assert event.state is State.POST_MORTEM
    assert any("code that you ran" in note for note in event.notes)


def test_code_in_a_class_body_and_in_a_module(bench: Workbench) -> None:
    bench.script(
        """
        class Cart:
            size = 1
            spare = 2
            limit = size * 2  # @body

        print(Cart.size, Cart.limit, hasattr(Cart, "spare"))
        done = 1  # @module
        print(done, sorted(name for name in globals() if name[0] == "m"))
        """,
        "body",
        "module",
    )
    event = bench.debugger.run_code("size = [size + n for n in range(3)][-1]\ndel spare\nsize")
    assert event.values[0].text == "3"
    assert bench.debugger.run_code("__hidden = 7").error_kind is None
    assert bench.text_of("__hidden") == bench.text_of("_Cart__hidden") == "7"
    event = bench.debugger.control(Action.CONTINUE)
    assert event.output == "3 6 False\n"
    bench.debugger.run_code(
        "mine = [Cart.size for _ in range(1)]\ndel Cart\ndef made(): return mine"
    )
    assert bench.debugger.run_code("mine").values[0].text == "[3]"
    event = bench.debugger.control(Action.CONTINUE)
    assert event.output == "1 ['made', 'mine']\n"


def test_code_in_generators_and_coroutines(some_bench: Workbench) -> None:
    bench = some_bench
    bench.script(
        """
        import asyncio

        def numbers(limit):
            n = 0
            while n < limit:
                yield n  # @yield
                n += 1

        async def work(n):
            await asyncio.sleep(0)
            result = n + 1  # @await
            return result

        print(list(numbers(2)))
        print(asyncio.run(work(1)))
        """,
        "yield",
        "await",
    )
    bench.debugger.run_code("n = 40; limit = max(limit, 42)")
    bench.debugger.control(Action.CONTINUE)
    event = bench.debugger.control(Action.CONTINUE)
    assert event.output == "[40, 41]\n"
    assert event.line == bench.line("await")
    bench.debugger.run_code("n = [n for n in range(9)][-1]")
    assert bench.debugger.control(Action.CONTINUE).output == "9\n"


@pytest.mark.parametrize("length", [1, 200_000])
def test_what_code_prints_is_its_answer_and_bounded(some_bench: Workbench, length: int) -> None:
    bench = some_bench
    bench.script(PROGRAM, "here")
    event = bench.debugger.run_code(f"print('x' * {length})\nprint('end')")
    assert event.output.startswith("x")
    assert event.output.endswith("end\n")
    assert event.output_truncated == (length > 1)
    assert len(event.output) < 5000
