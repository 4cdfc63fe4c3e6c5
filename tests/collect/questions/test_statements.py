"""What is read out of a program before it runs."""

from __future__ import annotations

from collect.benchmarks.base import Instance
from collect.questions.program import Program, PythonModule, Statement

SOURCE = b'''\
def f(rows, limit=3):
    """Text."""
    total = 0
    for row in rows:
        if row.size > limit:
            continue
        total += row.size
    names = [row.name for row in rows]
    return (
        total,
        names,
    )


class A:
    def g(self):
        def inner(x):
            return x + 1

        with open(self.path) as file:
            text = file.read()
        return inner(text)
'''
MODULE = PythonModule("m.py", SOURCE)


def at(line: int) -> Statement:
    found = MODULE.at(line)
    assert found is not None
    return found


def test_statements_of_functions_without_their_docstrings() -> None:
    lines = [(each.place.line, each.place.function) for each in MODULE.statements]
    assert lines == [
        *((line, "f") for line in (3, 4, 5, 6, 7, 8, 9)),
        (18, "A.g.inner"),
        *((line, "A.g") for line in (20, 21, 22)),
    ]


def test_a_statement_has_a_span() -> None:
    assert (at(11).place.line, at(11).place.last_line) == (9, 12)
    assert (at(5).place.line, at(5).place.last_line) == (5, 5)


def test_what_a_branch_decides() -> None:
    assert [each.place.line for each in MODULE.statements if each.conditional] == [5, 6, 7, 8, 9]
    assert not at(21).conditional


def test_where_visits_can_be_counted() -> None:
    assert [each.place.line for each in MODULE.statements if each.once] == [3, 5, 6, 7, 18, 21, 22]


def test_what_is_read_and_given() -> None:
    assert (at(7).assigned, at(7).used, at(7).attributes) == (("total",), ("row",), ("row.size",))
    assert at(4).assigned == ("row",)


def test_tests_are_no_part_of_the_program(shop: Instance) -> None:
    program = Program(shop, shop.files)
    assert list(program.modules) == ["shop.py"]
    assert list(program.tests) == ["tests/test_shop.py"]
