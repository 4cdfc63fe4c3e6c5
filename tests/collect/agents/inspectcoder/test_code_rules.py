"""What interact_code may do in the ablations."""

from __future__ import annotations

import pytest

from collect.agents.inspectcoder.inspector_tools import (
    is_inspection,
    only_inspection,
    only_modification,
)


@pytest.mark.parametrize(
    ("code", "kept"),
    [
        ("x = 1", "x = 1"),
        ("x = 1\nprint(x)", "x = 1\npass"),
        ("x", None),
        ("print(x); print(y)", None),
        ("if x:\n    print(x)\n    y = 2", "if x:\n    pass\n    y = 2"),
        ("xs.append(1)", "xs.append(1)"),
        ("no code at all!", "no code at all!"),
    ],
)
def test_without_inspection_nothing_is_shown(code: str, kept: str | None) -> None:
    assert only_modification(code)[0] == kept


@pytest.mark.parametrize(
    "code", ["print(x)", "x", "len(x) + 1", "print([y for y in x])", "for y in x: print(y)"]
)
def test_without_modification_values_can_be_shown(code: str) -> None:
    kept = only_inspection(code)
    assert kept[0] == code


@pytest.mark.parametrize(
    "code",
    [
        "x = 1",
        "x += 1",
        "x.append(1)",
        "del x",
        "import os",
        "print(x := 2)",
        "def f(): pass",
        "print(setattr(x, 'y', 1))",
    ],
)
def test_without_modification_nothing_is_changed(code: str) -> None:
    kept, remark = only_inspection(code)
    assert kept is None
    assert "can't be modified" in remark


@pytest.mark.parametrize(
    ("code", "inspects"),
    [
        ("print(x)", True),
        ("x, y[0]", True),
        ("x = 1\nx", True),
        ("x.append(1)", False),
        ("x = 1", False),
        ("y = 'print(x)'", False),
        ("print(", True),
        ("setattr(solution, 'f', g); print(f(1))", False),
        ("exec('def f(): return 1', globals())\nprint(f())", False),
        ("globals()['f'] = g; print(f())", False),
        ("del vars(solution)['f']; print(1)", False),
        ("global f\ndef f(): return 1\nprint(f())", False),
        ("print(globals()['f'])", True),
    ],
)
def test_code_that_shows_values_inspects(code: str, inspects: bool) -> None:
    assert is_inspection(code) is inspects
