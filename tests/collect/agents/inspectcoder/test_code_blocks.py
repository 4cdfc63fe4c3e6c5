"""Programs read out of replies."""

from __future__ import annotations

import pytest

from collect.agents.inspectcoder.code_blocks import fenced_blocks, program_of, with_imports_of

PROGRAM = "def f(x):\n    return x + 1\n"


@pytest.mark.parametrize(
    "reply",
    [
        f"```python\n{PROGRAM}```",
        f"Here it is:\n```\n{PROGRAM}```\nIt adds one.",
        f"```python\n{PROGRAM}",
        f"```python\n{PROGRAM.rstrip()}```",
        f"The old one:\n```python\ndef f(x): return x\n```\nThe new one:\n```python\n{PROGRAM}```",
        f"```python\n{PROGRAM}```\nRun it:\n```\n$ python f.py\n```",
        f"````python\n{PROGRAM}````",
        f"  ```py\n{PROGRAM}  ```",
        PROGRAM,
    ],
)
def test_a_program_is_found(reply: str) -> None:
    assert program_of(reply) == (PROGRAM, None)


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        ("", "no fenced code block"),
        ("I can't repair this.", "no fenced code block"),
        ("sorry", "no fenced code block"),
        ("```python\ndef f(:\n```", r"invalid syntax \(line 1: def f\(:\)"),
        ("```python\ndef f():\nreturn 1\n```", "expected an indented block"),
        ("```diff\n- return x\n+ return y\n```", "not usable"),
        ("```text\nok\n```", "it defines nothing"),
        ("```python\nx = '\0'\n```", "null"),
        ("```python\n" + "(" * 5000 + "\n```", "not usable"),
    ],
)
def test_what_is_wrong_is_told(reply: str, problem: str) -> None:
    code, told = program_of(reply)
    assert code is None
    assert told is not None
    with pytest.raises(AssertionError, match=problem):
        raise AssertionError(told)


def test_a_docstring_may_hold_a_fence() -> None:
    text = '````python\ndef f():\n    """\n    ```\n    f()\n    ```\n    """\n````'
    assert fenced_blocks(text) == ['def f():\n    """\n    ```\n    f()\n    ```\n    """']


def test_imports_that_were_left_out_come_back_where_they_are_used() -> None:
    before = "from __future__ import annotations\nimport re\nfrom heapq import nlargst\nx = re\n"
    after = '"""About."""\nfrom math import pi\n\nx = re.compile(pi)\n'
    assert with_imports_of(before, after) == (
        '"""About."""\nfrom __future__ import annotations\nimport re\n'
        "from math import pi\n\nx = re.compile(pi)\n"
    )


def test_imports_come_after_those_from_the_future() -> None:
    code = "from __future__ import annotations\nx = re.I\n"
    assert with_imports_of("import re\n", code) == (
        "from __future__ import annotations\nimport re\nx = re.I\n"
    )


def test_an_example_of_use_is_not_the_program() -> None:
    reply = f"```python\n{PROGRAM}```\nFor example:\n```python\nprint(f(3))\n```\n```\nx = 4\n```"
    assert program_of(reply, PROGRAM) == (PROGRAM, None)
    assert program_of(reply) == (PROGRAM, None)
