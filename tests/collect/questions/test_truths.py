"""Which values make a question, and when two runs agree on one."""

from __future__ import annotations

import pytest

from collect.config import RuntimeConfig
from collect.questions.asking import reproducible
from collect.questions.comparing import is_comparable
from sandbox import Command, SandboxConfig, open_sandbox


@pytest.mark.parametrize(
    ("text", "comparable"),
    [
        ("[1, 'two']", True),
        ("<Rate 0.5>", True),
        ("<shop.Cart>", False),
        ("<T.test_it.<locals>.Size>", False),
        ("<T.test_it.<locals>.Size n=1>", True),
        ("<Cart at 0x7f00>", False),
        ("[1, 2, ...]", False),
        ("'/tmp/pytest-of-user/pytest-0/test_it0/a'", False),
        ("'/tmp/a'", True),
    ],
)
def test_a_value_says_what_it_is_and_stays_so(text: str, comparable: bool) -> None:
    assert is_comparable(text) is comparable


def test_sets_have_one_order_on_all_runs() -> None:
    runtime = reproducible(RuntimeConfig())
    show = ("-c", "print({'north', 'east', 'south', 'west', 'up', 'down'})")
    shown = []
    for _ in range(3):
        with open_sandbox(runtime.sandbox) as sandbox:
            shown.append(sandbox.run(Command((sandbox.python, *show))).output)
    assert len(set(shown)) == 1
    own = RuntimeConfig(sandbox=SandboxConfig(environment={"PYTHONHASHSEED": "7"}))
    assert reproducible(own).sandbox.environment == {"PYTHONHASHSEED": "7"}
