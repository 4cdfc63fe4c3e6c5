from __future__ import annotations

import ast
import textwrap

import pytest

from collect.errors import ConfigError
from collect.synthesis.mutations.finding import PROGRAM_KINDS, find_mutations, shuffled

PROGRAM = '''\
import math


def summary(rows, limit=0):
    """Leave `a and b` alone here."""
    total = 0
    seen = set()
    for row in sorted(rows):  # a comment
        if row["size"] <= limit or row["name"].strip() in seen:
            continue
        else:
            seen.add(row["name"])
        total += row["size"] * 2
        total = total // len(rows)
    if not seen:
        return None
    for index in range(1, len(rows)):
        total = max(total, rows[index - 1][0])
    return total and math.pow(total, limit)
'''


def mutants(code: str, kind: str) -> list[str]:
    """The lines that each mutation of the kind makes, joined where it changes several."""
    code = textwrap.dedent(code)
    before = code.splitlines()
    return [
        "\n".join(line.strip() for line in mutation.apply().splitlines() if line not in before)
        for mutation in find_mutations(code)
        if mutation.kind == kind
    ]


@pytest.mark.parametrize(
    ("code", "kind", "expected"),
    [
        ("if a < b:\n    x()", "wrong_comparison", ["if a <= b:", "if a > b:"]),
        ("if a not in b: x()", "wrong_comparison", ["if a in b: x()"]),
        ("y = a and b", "wrong_boolean_operator", ["y = a or b"]),
        ("if not a: x()", "negated_condition", ["if a: x()"]),
        ("if a or b: x()", "negated_condition", ["if not (a or b): x()"]),
        ("y = [a for a in b if a]", "dropped_condition", ["y = [a for a in b]"]),
        ("y = (a ==\n  1 and b)", "dropped_condition", ["1)"]),
        ("y = a + b", "wrong_arithmetic_operator", ["y = a - b"]),
        ("y = 'x' + b", "wrong_arithmetic_operator", []),
        ("y = a  //  b", "wrong_division", ["y = a  /  b"]),
        ("y += f(x)", "lost_update", ["y = f(x)"]),
        ("y = x[a - 1]", "off_by_one", ["y = x[a]", "y = x[a - 2]", "y = x[a - 0]"]),
        ("range(n)", "off_by_one", ["range(n - 1)", "range(1, n)"]),
        ("total = 0", "wrong_start", ["total = 1"]),
        ("found = False", "wrong_start", ["found = True"]),
        ("y = x[0]", "wrong_key", ["y = x[-1]"]),
        ("y = {'a': x['b']}", "wrong_key", ["y = {'b': x['b']}", "y = {'a': x['a']}"]),
        ("f(a, b, k=c)", "swapped_arguments", ["f(b, a, k=c)"]),
        ("f(a, *b)", "swapped_arguments", []),
        ("y = a.strip().lower()", "dropped_call", ["y = a.strip()", "y = a.lower()"]),
        ("y = sorted(a)", "dropped_call", ["y = a"]),
        ("y = set(a)", "missing_deduplication", ["y = list(a)"]),
        ("y = min(a)", "wrong_function", ["y = max(a)"]),
        ("for a in b:\n    if a:\n      break", "wrong_loop_control", ["continue"]),
        ("for a in b:\n    if a:\n      continue", "wrong_loop_control", ["break"]),
        ("for a in b:\n    while a:\n      break", "wrong_loop_control", []),
        ("while b:\n    for a in b:\n      break", "wrong_loop_control", ["continue"]),
    ],
)
def test_each_kind(code: str, kind: str, expected: list[str]) -> None:
    assert sorted(mutants(code, kind)) == sorted(expected)


def test_a_variable_that_is_bound_before() -> None:
    code = """\
    def f(a, b):
        c = a
        later = c
        return b.size
    """
    assert mutants(code, "wrong_variable") == ["c = b", "later = b", "later = a"]


def test_statements_are_dropped_whole() -> None:
    code = """\
    def f(rows):
        found = []
        if not rows:
            return 0
        for row in rows:
            found.append(row)
            print(row)
        return found
    """
    changed = {
        mutation.kind: (mutation.line, mutation.apply())
        for mutation in find_mutations(textwrap.dedent(code))
    }
    assert changed["dropped_guard"][0] == 3
    assert "return 0" not in changed["dropped_guard"][1]
    assert changed["dropped_statement"][0] == 6
    assert "append" not in changed["dropped_statement"][1]
    assert "    print(row)\n        return found" in changed["early_return"][1]


def test_an_else_is_dropped_and_an_elif() -> None:
    code = "if a:\n    x()\nelif b:\n    y()\nelse:\n    z()\n"
    whole = [m.apply() for m in find_mutations(code) if m.kind == "dropped_branch"]
    assert whole == [
        "if a:\n    x()\nelse:\n    z()\n",
        "if a:\n    x()\nelif b:\n    y()\n",
    ]


def test_every_mutation_is_one_edit_that_parses() -> None:
    found = find_mutations(PROGRAM)
    assert len({mutation.kind for mutation in found}) >= 12
    for mutation in found:
        broken = mutation.apply()
        ast.parse(broken)
        assert broken != PROGRAM
        old, new = PROGRAM.splitlines(), broken.splitlines()
        assert old[: mutation.line - 1] == new[: mutation.line - 1]
        assert abs(len(new) - len(old)) <= 2
        assert "Leave `a and b` alone here." in broken
        assert broken.startswith("import math\n")


def test_the_order_is_the_seeds_and_kinds_take_turns() -> None:
    found = find_mutations(PROGRAM)
    kinds = {mutation.kind for mutation in found}
    first = list(shuffled(found, "a"))
    assert first == list(shuffled(found, "a"))
    assert first != list(shuffled(found, "b"))
    assert len(first) == len(found)
    assert {mutation.kind for mutation in first[: len(kinds)]} == kinds


def test_kinds_have_names_of_their_own() -> None:
    assert len({kind.name for kind in PROGRAM_KINDS}) == len(PROGRAM_KINDS)
    assert all(kind.category and kind.name == kind.name.lower() for kind in PROGRAM_KINDS)


def test_what_is_not_python_is_refused() -> None:
    with pytest.raises(ConfigError, match="not Python"):
        find_mutations("def f(:\n")
