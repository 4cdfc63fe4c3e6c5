"""Run solution.py on cases, each in a process of its own, and write down what it answers.

What is expected is in no process and no file of the sandbox, so nothing that the program does here
makes a wrong answer right. This file is laid out with `cases.json` in a folder of its own:
standard library only, CPython 3.8 or later. Only the workspace's `checking.py` knows how a solution
is loaded.
"""

from __future__ import annotations

import ast
import contextlib
import json
import os
import runpy
import sys
import tempfile
import traceback
from collections.abc import Mapping
from typing import IO, Any

FOLDER = os.path.dirname(os.path.abspath(__file__))
MAX_ANSWER = 16 * 1024 * 1024
"""Bytes of the longest answer that is kept whole."""


def main() -> None:
    """Answer the cases in order, one line each: a time-out loses only those that are left."""
    with open(os.path.join(FOLDER, "cases.json"), encoding="utf-8") as file:
        cases = json.load(file)
    sys.path[0] = os.getcwd()
    import checking  # type: ignore[import-not-found, unused-ignore]

    prelude = checking._prelude()
    sys.argv = [checking.SOLUTION]
    with open(os.path.join(FOLDER, "answers.jsonl"), "w", encoding="utf-8") as answers:
        for case in cases:
            answers.write(json.dumps(ask(checking, prelude, case)) + "\n")
            answers.flush()


def ask(checking: Any, prelude: Mapping[str, Any], case: Mapping[str, str]) -> str | None:
    """The answer to one case; None if the solution raised, or ended its process otherwise."""
    with tempfile.TemporaryFile(dir=FOLDER) as answer:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                if "stdin" in case:
                    run_program(checking.SOLUTION, prelude, case["stdin"], answer)
                else:
                    call(checking.load_solution(), case["function"], case["arguments"], answer)
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        _, ended = os.waitpid(child, 0)
        answer.seek(0)
        return answer.read(MAX_ANSWER).decode("utf-8", "replace") if ended == 0 else None


def run_program(solution: str, prelude: Mapping[str, Any], stdin: str, answer: IO[bytes]) -> None:
    with tempfile.TemporaryFile(dir=FOLDER) as given:
        given.write(stdin.encode())
        given.seek(0)
        os.dup2(given.fileno(), 0)
    os.dup2(answer.fileno(), 1)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = printed = open(1, "w", encoding="utf-8", newline="\n", closefd=False)  # noqa: SIM115
    with contextlib.suppress(SystemExit):
        runpy.run_path(solution, init_globals=dict(prelude), run_name="__main__")
    printed.flush()


def call(module: Any, function: str, arguments: str, answer: IO[bytes]) -> None:
    given = ast.literal_eval(arguments)
    positional, named = ((), given) if isinstance(given, Mapping) else (given, {})
    holder = module.Solution() if hasattr(module, "Solution") else module
    got = getattr(holder, function)(*positional, **named)
    answer.write(spelling(list(got) if isinstance(got, tuple) else got).encode())
    answer.flush()


def spelling(value: object) -> str:
    """A text that is the same for two values of JSON's types exactly if they are equal."""
    if value is None:
        return "null"
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, dict):
        pairs = sorted(f"{spelling(key)}:{spelling(item)}" for key, item in value.items())
        return "{" + ",".join(pairs) + "}"
    if isinstance(value, (list, tuple)):
        left, right = "[]" if isinstance(value, list) else "()"
        return left + ",".join(map(spelling, value)) + right
    return f"<{ratio(value) or type(value).__name__}>"


def ratio(value: Any) -> str | None:
    """A number as a fraction: equal numbers of different types have the same one."""
    with contextlib.suppress(AttributeError, TypeError, ValueError, OverflowError):
        number = value.item() if hasattr(value, "item") else value  # one of NumPy's
        above, below = number.as_integer_ratio()
        return f"{above:x}/{below:x}"
    return None


if __name__ == "__main__":
    main()
