"""The programs of issues, which run in the buggy and in the correct project."""

from __future__ import annotations

import re

import pytest

from collect.benchmarks.projects.config import FactoryConfig, ProjectConfig
from collect.benchmarks.projects.project import arrange, fetch
from collect.synthesis.workbench import PythonWorkbench
from sandbox import SandboxConfig
from tests.collect.synthesis.sample import write_project

SHELVES = """\
import enum


class Order(enum.Enum):
    UP = 1
    DOWN = 2


class Shelf:
    def __init__(self, rows):
        self.rows = rows

    def __copy__(self):
        return Shelf(list(self.rows))

    def total(self):
        return sum(self.rows)


def ordered(rows, order):
    if not isinstance(order, Order):
        raise TypeError("no order")
    return sorted(rows, reverse=order is Order.DOWN)
"""
TESTS = """\
import copy

import pytest

from shelves import Order, Shelf, ordered


class TestShelf:
    kind = Shelf

    def filled(self, *rows):
        return self.kind(list(rows))

    def counted(self):
        self.count = getattr(self, "count", 0) + 1
        return self.count

    def test_copy(self):
        one = self.filled(1, 2)
        other = copy.copy(one)
        assert other.total() == 3
        other.rows.append(4)
        assert one.total() == 3

    def test_needs_its_object(self):
        assert ordered([self.counted(), 2], Order.DOWN) == [2, 1]


@pytest.fixture
def rows():
    return lambda: [3, 1]


@pytest.mark.parametrize("order", [Order.DOWN])
def test_order(rows, order):
    numbers = rows()
    assert ordered(numbers, order) == [3, 1]


def test_refused():
    with pytest.raises(TypeError):
        ordered([], 1)

"""
FILES = {
    "pyproject.toml": '[project]\nname = "shelves"\nversion = "1.0"\n',
    "shelves.py": SHELVES,
    "tests/test_shelves.py": TESTS,
}
COPIED = """\
import copy
from shelves import Shelf

def filled(*rows):
    return Shelf(list(rows))

shelf = filled(1, 2)
shelf_2 = copy.copy(shelf)
shelf_2.rows.append(4)
print(shelf.total())"""


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> PythonWorkbench:
    folder = write_project(tmp_path_factory.mktemp("shelves"), FILES)
    wanted, config = ProjectConfig(folder=str(folder), name="shelves"), FactoryConfig()
    project = arrange(wanted, fetch(wanted, config), SandboxConfig())
    return PythonWorkbench(project, SandboxConfig(), config)


def issue(bench: PythonWorkbench, test: str, old: str, new: str) -> str:
    source = bench.project.source.files
    files = {**source, "shelves.py": source["shelves.py"].replace(old.encode(), new.encode())}
    test = f"tests/test_shelves.py::{test}"
    run = bench.run(files, [test], 60, ([], test))
    return bench.write_issue([test], run, files, "0")


@pytest.mark.parametrize(
    ("test", "edit", "code", "values"),
    [
        ("TestShelf::test_copy", ("list(self.rows)", "self.rows"), COPIED, ["`7`", "`3`"]),
        pytest.param(
            "test_order[Order.DOWN]",
            ("is Order.DOWN", "is Order.UP"),
            "from shelves import Order, ordered\n\nprint(ordered([3, 1], Order.DOWN))",
            ["`[1, 3]`", "`[3, 1]`"],
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "test_refused",
            ("if not isinstance", "if isinstance"),
            "from shelves import ordered\n\nordered([], 1)",
            ["`TypeError`"],
            marks=pytest.mark.slow,
        ),
    ],
)
def test_an_issue_tells_what_its_program_does(
    bench: PythonWorkbench, test: str, edit: tuple[str, str], code: str, values: list[str]
) -> None:
    text = issue(bench, test, *edit)
    shown = re.search(r"```python\n(.*)\n```", text, re.DOTALL)
    assert shown is not None, text
    assert shown[1] == code
    assert [value for value in values if value not in text] == []


def test_no_issue_without_a_program_that_shows_the_bug(bench: PythonWorkbench) -> None:
    assert issue(bench, "TestShelf::test_needs_its_object", "is Order.DOWN", "is Order.UP") == ""
