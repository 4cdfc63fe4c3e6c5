"""Which changes of a patch change the program."""

from __future__ import annotations

import pytest

from collect.code.patches import ChangedRange, diff_trees
from collect.code.source import changed_code

PYTHON = '''\
"""Numbers."""


def total(numbers):
    """Their sum."""

    # Add them.
    result = 1
    for number in numbers:
        result += number   # one by one

    return result
'''
JAVA = """\
class Sum {
    /** Their sum. */
    int total(int[] numbers) {
        int result = 1;  // the sum
        for (int number : numbers)
            result += number;

        return result;
    }
}
"""


def changed(path: str, text: str, *edits: tuple[str, str]) -> list[tuple[int, int, bool]]:
    """First and last line of what the edits change, and whether something is inserted there."""
    fixed = text
    for old, new in edits:
        assert old in fixed
        fixed = fixed.replace(old, new)
    files, after = {path: text.encode()}, {path: fixed.encode()}
    found = changed_code(files, diff_trees(files, after))
    return [(each.start, each.end, each.insertion) for each in found]


FAULT = ("result = 1", "result = 0")


@pytest.mark.parametrize(
    "edit",
    [
        ('"""Numbers."""', '"""Sums of numbers."""'),
        ("\n    # Add them.\n", "\n"),
        ("# Add them.", "# Add all of them."),
        ("   # one by one", ""),
        ("\n\n    return", "\n    return"),
        (" in numbers:\n        ", " in numbers:\n            "),
    ],
)
def test_in_python(edit: tuple[str, str]) -> None:
    assert changed("sums.py", PYTHON, FAULT, edit) == [(8, 8, False)]


@pytest.mark.parametrize(
    "edit",
    [
        ("/** Their sum. */", "/** The sum of all. */"),
        ("  // the sum", ""),
        ("\n\n        return", "\n        return"),
        ("            result +=", "        result  +="),
        ("return result;", "return\n            result;"),
    ],
)
def test_in_java(edit: tuple[str, str]) -> None:
    fault = ("int result = 1;", "int result = 0;")
    assert changed("Sum.java", JAVA, fault, edit) == [(4, 4, False)]


def test_a_line_that_moves_into_a_block_changes() -> None:
    moved = ("\n    return", "\n        return")
    assert changed("sums.py", PYTHON, moved) == [(12, 12, False)]


def test_what_is_put_in_place_of_a_comment_is_an_insertion() -> None:
    added = ("    # Add them.\n", "    numbers = list(numbers)\n")
    assert changed("sums.py", PYTHON, added) == [(6, 8, True)]


def test_a_text_is_not_a_comment() -> None:
    text = 'def shown():\n    return """\n# a\n"""\n'
    assert changed("shown.py", text, ("# a", "# b")) == [(3, 3, False)]


def test_without_other_changes_comments_count() -> None:
    assert changed("sums.py", PYTHON, ("# Add them.", "# Add all.")) == [(7, 7, False)]


def test_a_file_that_can_not_be_read_changes_as_the_patch_says() -> None:
    assert changed("sums.py", "def f(:\n    # a\n", ("# a", "# b")) == [(2, 2, False)]
    files = {"other.py": b""}
    patch = diff_trees({"sums.py": b"# a\n"}, {"sums.py": b"# b\n"})
    assert changed_code(files, patch) == [ChangedRange("sums.py", 1, 1)]
