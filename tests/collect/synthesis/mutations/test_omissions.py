"""The kinds whose result reads like correct code, and what edits leave behind."""

from __future__ import annotations

import textwrap

import pytest

from collect.synthesis.difficulty import _AT_SIGHT, is_natural
from collect.synthesis.java_mutations.finding import JAVA_KINDS
from collect.synthesis.mutations.finding import KINDS, find_project_mutations, leaves_trace

CODE = """\
class Base:
    limit = 3

    def close(self):
        return None


class Table(Base):
    limit = 5

    def __init__(self, rows):
        self.rows = list(map(str, rows))
        self.first_row, self.last_row = 0, 1

    def __eq__(self, other):
        return self.rows == other.rows

    def close(self):
        return self.rows

    def put(self, key, item):
        key = key.strip()
        self.seen[key] = item
        self.last = item
        self.notify(item)

    def first(self, node):
        return node.first_child + node.last_child + self.row_key(node)

    def row_keys(self, node):
        return [each.name for each in node]

    def row_key(self, node):
        return (node.row, node.column)
"""


def changes(kind: str) -> list[tuple[str, str]]:
    """What the kind's edits remove and add, without what is left."""
    found = []
    for edit in find_project_mutations(CODE):
        if edit.kind == kind:
            found.append((CODE[edit.start : edit.end].strip(), edit.text.strip()))
    return found


def test_what_is_left_out() -> None:
    removed = [
        "key = key.strip()",
        "self.seen[key] = item",
        "self.last = item",
        "self.notify(item)",
    ]
    assert changes("dropped_update") == [(text, "") for text in removed]


def test_what_is_inherited_instead() -> None:
    headers = [text.split("\n")[0] for text, _ in changes("dropped_override")]
    assert headers == ["limit = 5", "def __eq__(self, other):", "def close(self):"]


def test_lists_that_become_iterators() -> None:
    texts = [text for text, _ in changes("lazy_result")]
    assert len(texts) == 2
    assert texts[0].startswith("list(map")


TRACES = [
    ("import os\nos.getcwd()", "import os\n", True),
    ("def f(a, b):\n    a = b\n    return a", "def f(a, b):\n    return a", True),
    ("def f(a):\n    b = a\n    return b", "def f(a):\n    b = a\n    return a", True),
    ("def _g(): pass\n_g()", "def _g(): pass", True),
    ("def f(a, b):\n    g(a)\n    return a", "def f(a, b):\n    return a", False),
    ("import os", "import os\nx = 1", False),
    ("def f():\n    # count it\n    count()\n    g()", "def f():\n    # count it\n    g()", True),
]


@pytest.mark.parametrize(("before", "after", "expected"), TRACES)
def test_what_is_left_unused(before: str, after: str, expected: bool) -> None:
    assert leaves_trace(textwrap.dedent(before), textwrap.dedent(after)) is expected


def test_kinds_that_look_wrong_are_known_ones() -> None:
    assert set(_AT_SIGHT["python"].split()) <= KINDS.keys()
    assert set(_AT_SIGHT["java"].split()) <= {kind.name for kind in JAVA_KINDS}
    assert is_natural("lost_update", "java")
    assert not is_natural("lost_update", "python")
