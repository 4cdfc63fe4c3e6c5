"""Run solution.py on one case, in this process, and compare what it gives with what is expected.

This file is laid out beside the tests and runs inside the sandbox: standard library only, CPython
3.8 or later. The comparisons are LiveCodeBench's own (lcb_runner/evaluation/testing_util.py).
"""

from __future__ import annotations

import builtins
import contextlib
import importlib
import importlib.util
import io
import os
import runpy
import sys
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

SOLUTION = os.path.join(os.path.dirname(os.path.abspath(__file__)), "solution.py")
SHOWN = 400
"""Characters of an input or output in a message."""


def load_solution() -> Any:
    """solution.py as a fresh module; what prelude.py defines is there from the start."""
    spec = importlib.util.spec_from_file_location("solution", SOLUTION)
    if spec is None or spec.loader is None:
        raise ImportError(f"{SOLUTION} can't be loaded")
    module = importlib.util.module_from_spec(spec)
    vars(module).update(_prelude())
    sys.modules["solution"] = module
    spec.loader.exec_module(module)
    return module


def check_call(
    name: str, arguments: Sequence[object] | Mapping[str, object], expected: object
) -> None:
    """Call a function of solution.py, or a method of its class Solution."""
    # First, since the prelude also sets how long integers may be to be shown.
    module = load_solution()
    positional, named = ((), arguments) if isinstance(arguments, Mapping) else (arguments, {})
    each = [*map(repr, positional), *(f"{key}={value!r}" for key, value in named.items())]
    shown = _shortened(", ".join(each))
    holder = module.Solution() if hasattr(module, "Solution") else module
    got = getattr(holder, name)(*positional, **named)
    if isinstance(got, tuple):
        got = list(got)
    if got != expected:
        raise AssertionError(
            f"{name}({shown}) gave {_shortened(repr(got))}, expected {_shortened(repr(expected))}"
        )


def check_program(stdin: str, expected: str) -> None:
    """Run solution.py as the main program on this standard input, and compare what it prints."""
    printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="\n", write_through=True)
    given = io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8")
    earlier = sys.stdin
    sys.stdin = given
    try:
        with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit), _opened(stdin):
            runpy.run_path(SOLUTION, init_globals=_prelude(), run_name="__main__")
    finally:
        sys.stdin = earlier
    got = printed.buffer.getvalue().decode("utf-8", "replace")
    difference = _difference(got, expected)
    if difference:
        raise AssertionError(
            f"{difference}\n"
            f"  input:    {_shortened(repr(stdin))}\n"
            f"  printed:  {_shortened(repr(got))}\n"
            f"  expected: {_shortened(repr(expected))}"
        )


@contextlib.contextmanager
def _opened(stdin: str) -> Iterator[None]:
    """Give what is opened as standard input the text too: `open(0)`, `open("/dev/stdin")`."""
    earlier = builtins.open

    def opening(file: Any, mode: str = "r", *arguments: Any, **named: Any) -> Any:
        if file not in (0, "/dev/stdin"):
            return earlier(file, mode, *arguments, **named)
        data = io.BytesIO(stdin.encode())
        return data if "b" in mode else io.TextIOWrapper(data, encoding="utf-8")

    builtins.open = opening
    try:
        yield
    finally:
        builtins.open = earlier


def _prelude() -> dict[str, Any]:
    path = os.path.join(os.path.dirname(SOLUTION), "prelude.py")
    if not os.path.exists(path):
        return {}
    prelude = vars(importlib.import_module("prelude"))
    return {name: value for name, value in prelude.items() if not name.startswith("__")}


def _difference(got: str, expected: str) -> str:
    got_lines, expected_lines = _lines(got), _lines(expected)
    pairs = zip(got_lines, expected_lines)  # noqa: B905 - CPython 3.8 knows no `strict`
    for number, (line, wanted) in enumerate(pairs, start=1):
        if line != wanted and not _same_numbers(line, wanted):
            return (
                f"wrong answer in line {number}: {_shortened(repr(line))} "
                f"instead of {_shortened(repr(wanted))}"
            )
    if len(got_lines) != len(expected_lines):
        return f"{len(got_lines)} lines printed, expected {len(expected_lines)}"
    return ""


def _same_numbers(line: str, wanted: str) -> bool:
    numbers = wanted.split()
    # The program may have printed millions of words in a line.
    words = line.split(None, len(numbers))
    with contextlib.suppress(InvalidOperation):
        return [*map(Decimal, words)] == [*map(Decimal, numbers)]
    return False


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().split("\n")]


def _shortened(text: str) -> str:
    if len(text) <= SHOWN:
        return text
    return text[: SHOWN // 2] + " ... " + text[-SHOWN // 2 :]
