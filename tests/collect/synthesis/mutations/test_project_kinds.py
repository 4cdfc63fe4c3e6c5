"""Each kind of mistake of real projects: what it makes of a few lines."""

from __future__ import annotations

import ast
import textwrap

import pytest

from collect.synthesis.mutations.base import Mutation
from collect.synthesis.mutations.finding import PROJECT_KINDS, find_project_mutations


def found(code: str, kind: str) -> list[Mutation]:
    return [one for one in find_project_mutations(textwrap.dedent(code)) if one.kind == kind]


def changed(code: str, kind: str) -> list[str]:
    """The lines that each mutation of the kind writes anew, joined where there are several."""
    before = textwrap.dedent(code).splitlines()
    texts = []
    for mutation in found(code, kind):
        ast.parse(mutation.apply())
        after = mutation.apply().splitlines()
        texts.append("\n".join(line.strip() for line in after if line not in before))
    return texts


LINES = [
    ("def f(n=100): pass", "wrong_default", ["def f(n=10): pass"]),
    ("def f(a, b=True): pass", "wrong_default", ["def f(a, b=False): pass"]),
    ("def f(a, b=','): pass", "wrong_default", ['def f(a, b=", "): pass']),
    ("def f(n=None):\n    return n is None", "wrong_default", ["def f(n=0):"]),
    (
        "def f(how='left'):\n    return how == 'right'",
        "wrong_default",
        ["def f(how='right'):"],
    ),
    ("f(a, deep=True)", "wrong_flag", ["f(a, deep=False)"]),
    ("isinstance(a, True)", "wrong_flag", []),
    ("y = a[:]", "shared_object", ["y = a"]),
    ("y = {**a}", "shared_object", ["y = a"]),
    ("y = [*a]", "shared_object", ["y = a"]),
    ("y = copy.deepcopy(a)", "shared_object", ["y = a"]),
    ("y = dict(a)", "shared_object", ["y = a"]),
    ("if a is None: f()", "empty_taken_for_none", ["if not a: f()"]),
    ("if a is not None and b: f()", "empty_taken_for_none", ["if a and b: f()"]),
    ("y = a is None", "empty_taken_for_none", []),
    (
        "y = isinstance(a, (int, str))",
        "missing_case",
        ["y = isinstance(a, int)", "y = isinstance(a, str)"],
    ),
    ("y = a in [1, 2]", "missing_case", ["y = a in [1]", "y = a in [2]"]),
    ("y = m.search(text)", "confused_function", ["y = m.match(text)"]),
    ("y = zip_longest(a, b, fillvalue=0)", "confused_function", ["y = zip(a, b)"]),
    ("y = a[:n]", "wrong_slice_end", ["y = a[:n - 1]"]),
    ("y = {**a, **b}", "swapped_merge", ["y = {**b, **a}"]),
    ("a, b = f()", "swapped_results", ["b, a = f()"]),
    ("y = a < b", "wrong_boundary", ["y = a <= b"]),
    ("y = a < b", "inverted_test", []),
    ("y = a[:-1]", "off_by_one", ["y = a[:-2]"]),
    ("f(a, 1)", "swapped_arguments", []),
    ("f(a, b)", "swapped_arguments", ["f(b, a)"]),
    ("map(a, b)", "swapped_arguments", []),
    ("y = args + more", "wrong_arithmetic_operator", []),
    ("y = start + more", "wrong_arithmetic_operator", ["y = start - more"]),
    ("y = d.values()", "wrong_function", []),
]


@pytest.mark.parametrize(("code", "kind", "expected"), LINES)
def test_one_line(code: str, kind: str, expected: list[str]) -> None:
    assert changed(code, kind) == expected


CACHE = """\
class Table:
    def __init__(self):
        super().__init__()
        self._rows = []
        self._row_count = None

    def add(self, row):
        self._rows.append(row)
        self._row_count = None
        self._index.clear()

    def drop(self, name):
        row = self.find(name)
        del self._index[name]
        return row
"""


def test_what_lasts_too_long() -> None:
    assert [one.line for one in found(CACHE, "stale_cache")] == [10, 14]
    assert [one.line for one in found(CACHE, "dropped_reset")] == [9]


def test_names_alike() -> None:
    code = """\
    class Window:
        def __init__(self, start_row, end_row, title):
            self.first_row = start_row
            self.last_row = end_row
            self.title = title

        def size(self):
            return self.last_row
    """
    assert "self.first_row = end_row" in changed(code, "confused_variable")
    assert changed(code, "confused_attribute") == ["return self.first_row"]
    assert not any("title" in text for text in changed(code, "confused_variable"))


def test_keys_of_the_same_mapping() -> None:
    code = """\
    def f(row, other):
        return row["width"] + row["height"] + other["size"]
    """
    assert len(found(code, "confused_key")) == 2


def test_errors() -> None:
    code = """\
    def f(a):
        try:
            return g(a)
        except (KeyError, ValueError) as error:
            raise Wrong from error
        except OSError:
            clean()
            raise
    """
    swallowed = found(code, "swallowed_exception")
    assert [one.line for one in swallowed] == [5, 8]
    assert "        pass\n" in swallowed[0].apply()


def test_loops() -> None:
    code = """\
    def f(rows):
        # of all rows
        total = 0
        for row in rows:
            total += row
        return total
    """
    (mutation,) = found(code, "reset_in_loop")
    assert "    # of all rows\n    for row in rows:\n        total = 0\n" in mutation.apply()


def test_a_forgotten_break() -> None:
    code = """\
    def f(rows):
        for row in rows:
            if row.size:
                first = row
                break
        return first
    """
    (forgotten,) = found(code, "wrong_loop_control")
    assert "first = row\n    return first" in forgotten.apply()


def test_results() -> None:
    code = """\
    def walk(node):
        yield from node.rows
    """
    assert changed(code, "nested_yield") == ["yield node.rows"]


def test_kinds_have_names_of_their_own() -> None:
    assert len({kind.name for kind in PROJECT_KINDS}) == len(PROJECT_KINDS)
    assert len(PROJECT_KINDS) > 35
