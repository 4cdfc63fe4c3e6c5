"""Issue texts of the failures of a small project, whose suite pytest really runs."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from collect.benchmarks.projects.issue_text import (
    Outcome,
    Symptom,
    failing_inputs,
    read_claim,
    read_symptom,
    write_issue,
)
from collect.synthesis.self_repair.building import read_failure

PACKAGE = {
    "stock/__init__.py": "from stock._ledger_store import Stock, load, merge\n",
    "stock/_ledger_store.py": """\
        from stock.unit_table import lookup_unit

        class Stock:
            def __init__(self, rows):
                self.rows = rows

            def total(self, name):
                return sum(_row_amounts(self.rows, name))

            def first(self):
                return lookup_unit(self.rows)

        def _row_amounts(rows, name):
            return [amount for key, amount in rows if key == name][:-1]

        def merge(one, other):
            return {**other, **one}

        def load(text):
            return text.split(",")
        """,
    "stock/unit_table.py": """\
        class UnitTableError(Exception):
            pass

        def lookup_unit(rows):
            if not rows:
                raise UnitTableError("lookup_unit() found no unit_code")
            return {}["unit"]
        """,
}
TESTS = textwrap.dedent('''\
    import copy
    import unittest

    import pytest

    import stock
    from stock import Stock, load, merge

    ROWS = [("a", 1), ("a", 2)]


    def test_total():
        """The amounts of one name are added up."""
        shelf = Stock([("a", 1), ("a", 2), ("b", 5)])
        assert shelf.total("b") == 5


    def test_constant_first():
        result = merge({"x": 1}, {"x": 2})
        assert {"x": 2} == result


    def test_other_error():
        Stock([]).first()


    def test_key_error():
        found = Stock([1]).first()
        assert found


    def test_refuses():
        with pytest.raises(ValueError):
            load("")


    def test_condition():
        assert "a" in stock.load("b,c")


    @pytest.mark.parametrize("text", ["a,b"])
    def test_parameter(text):
        assert load(text) == ("a", "b")


    def test_of_the_module():
        assert Stock(ROWS).total("a") == 3


    def test_name_read_before():
        load_it = merge_it
        merge_it = load_it
        assert merge_it


    def eq_(one, other):
        assert one == other


    def test_helper_of_the_tests():
        eq_(merge({"x": 1}, {"x": 2}), {"x": 2})


    def test_expected_by_name():
        expected = "\\n".join(["a", "c"])
        result = load("a,b")
        assert expected == result


    def test_identity():
        assert stock.merge({}, {}) is None


    def test_refused_by_call():
        with pytest.raises(ValueError, match="unit"):
            found = Stock([1]).first()


    def test_later_assignment():
        parts = load("a,b")
        assert sorted(parts) == []
        parts = merge(parts, [])


    def test_needs_its_class():
        class Named:
            def __init__(self, name):
                self.name = name
        assert self.make(Named("a")).total("a") == 1


    def test_both_are_computed():
        assert stock.merge({"x": 1}, {"x": 2}) == merge({"x": 2}, {"x": 1})


    def test_an_object_is_expected():
        assert Exception("a") == load("b")


    def test_library():
        assert copy.copy(load("a,b")) == []


    def test_own_function():
        both = lambda text: load(text)[1:]
        assert both("a,b") == []


    def test_decorated():
        @Stock
        def shelf():
            return 1
        shelf.total("a")


    def test_only_variables():
        wanted = ["c"]
        given = "a"
        assert given in wanted


    class TestMethods(unittest.TestCase):
        def test_inside(self):
            self.assertIn("a", merge({"y": [1]}, {}).get("y"))

        def test_refuses_nothing(self):
            self.assertRaises(KeyError, load, "a")

        def test_refuses_otherwise(self):
            self.assertRaises(ValueError, Stock([1]).first)

        def test_equal(self):
            self.assertEqual(merge({"y": 1}, {"y": 3})["y"], 3)
    ''')
INNER = ["_ledger_store", "_row_amounts", "unit_table", "lookup_unit", "UnitTableError"]
INNER += ["unit_code", "rows)", "E  ", "Traceback"]
"""What only the package's own files and the traceback show."""


@pytest.fixture(scope="module")
def symptoms(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Symptom]:
    folder = tmp_path_factory.mktemp("project")
    for name, text in {**PACKAGE, "tests/test_stock.py": TESTS}.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(text))
    output = run_tests(folder)
    tests = re.findall(r"^FAILED (\S+)", output, re.MULTILINE)
    return {test.rpartition("::")[2].partition("[")[0]: read(test, output) for test in tests}


def run_tests(folder: Path) -> str:
    options = ["-p", "no:cacheprovider", "--tb=short", "--color=no"]
    argv = [sys.executable, "-m", "pytest", *options, "tests"]
    return subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False).stdout


def read(test: str, output: str) -> Symptom:
    failure = read_failure(output, test)
    return read_symptom(
        "stock",
        [test],
        files={"tests/test_stock.py": TESTS.encode()},
        exception=failure.type,
        message=failure.message,
        output=output,
    )


@pytest.mark.slow
def test_no_text_has_what_only_the_traceback_shows(symptoms: dict[str, Symptom]) -> None:
    assert len(symptoms) == 25
    for name, symptom in symptoms.items():
        texts = {write_issue(symptom, f"{name}:{seed}") for seed in range(60)}
        assert len(texts) > 10
        for text in texts:
            assert not [inner for inner in INNER if inner in text.replace("UnitTableError`", "")]
            assert not re.search(r"\.py:\d", text)
            assert not symptom.hidden & set(re.findall(r"\w+", text)) - {symptom.exception}
            assert text.endswith("\n")
            assert len(text.splitlines()[0]) <= 90
            assert "{" not in re.sub(r"`[^`]*`|```.*?```", "", text, flags=re.DOTALL)


def test_the_same_seed_writes_the_same(symptoms: dict[str, Symptom]) -> None:
    assert write_issue(symptoms["test_total"], "a") == write_issue(symptoms["test_total"], "a")


@pytest.mark.parametrize(
    ("test", "claimed"),
    [
        ("test_total", (Outcome.WRONG_VALUE, "total", "5", "0")),
        ("test_constant_first", (Outcome.WRONG_VALUE, "merge", "{'x': 2}", "{'x': 1}")),
        ("test_other_error", (Outcome.ERROR, "first", "", "")),
        ("test_key_error", (Outcome.ERROR, "first", "", "")),
        ("test_refuses", (Outcome.NO_ERROR, "load", "ValueError", "")),
        ("test_condition", (Outcome.UNMET, "load", "", "")),
        ("test_parameter", (Outcome.WRONG_VALUE, "load", "('a', 'b')", "['a', 'b']")),
        ("test_equal", (Outcome.WRONG_VALUE, "merge", "3", "1")),
        ("test_helper_of_the_tests", (Outcome.WRONG_VALUE, "merge", "{'x': 2}", "{'x': 1}")),
        ("test_refused_by_call", (Outcome.WRONG_ERROR, "first", "ValueError", "")),
        ("test_both_are_computed", (Outcome.UNMET, "merge", "", "")),
        ("test_an_object_is_expected", (Outcome.WRONG_VALUE, "load", "Exception('a')", "['b']")),
        ("test_own_function", (Outcome.WRONG_VALUE, "load", "[]", "['b']")),
        ("test_library", (Outcome.WRONG_VALUE, "load", "[]", "['a', 'b']")),
        ("test_inside", (Outcome.UNMET, "merge", "", "")),
        ("test_refuses_nothing", (Outcome.NO_ERROR, "load", "KeyError", "")),
        ("test_refuses_otherwise", (Outcome.WRONG_ERROR, "first", "ValueError", "")),
        ("test_later_assignment", (Outcome.WRONG_VALUE, "load", "[]", "['a', 'b']")),
        ("test_only_variables", (Outcome.UNMET, "", "", "")),
        ("test_expected_by_name", (Outcome.WRONG_VALUE, "load", "'a\\nc'", "['a', 'b']")),
    ],
)
def test_what_a_failing_test_claims(
    symptoms: dict[str, Symptom], test: str, claimed: tuple[Outcome, str, str, str]
) -> None:
    claim = read_claim(symptoms[test])
    assert (claim.outcome, claim.function, claim.expected, claim.actual) == claimed


def test_a_message_is_told_unless_it_has_an_inner_name(symptoms: dict[str, Symptom]) -> None:
    assert read_claim(symptoms["test_key_error"]).message == "'unit'"
    assert read_claim(symptoms["test_other_error"]).message == ""


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        (
            "test_total",
            """\
            from stock import Stock

            shelf = Stock([('a', 1), ('a', 2), ('b', 5)])
            print(shelf.total('b'))""",
        ),
        ("test_other_error", "from stock import Stock\n\nprint(Stock([]).first())"),
        ("test_refuses", "from stock import load\n\nload('')"),
        ("test_condition", "import stock\n\nassert 'a' in stock.load('b,c')"),
        ("test_equal", "from stock import merge\n\nprint(merge({'y': 1}, {'y': 3})['y'])"),
        ("test_parameter", ""),
        ("test_name_read_before", ""),
        ("test_identity", "import stock\n\nprint(stock.merge({}, {}))"),
        ("test_of_the_module", ""),
        ("test_needs_its_class", ""),
        (
            "test_decorated",
            """\
            from stock import Stock

            @Stock
            def shelf():
                return 1
            print(shelf.total('a'))""",
        ),
        ("test_refuses_nothing", "from stock import load\n\nload('a')"),
    ],
)
def test_a_snippet_needs_nothing_but_imports(
    symptoms: dict[str, Symptom], test: str, expected: str
) -> None:
    symptom = symptoms[test]
    code = next(failing_inputs(symptom), "")
    assert code == textwrap.dedent(expected)
    compile(code, "snippet", "exec")


def test_where_there_is_no_snippet_the_test_is_named(symptoms: dict[str, Symptom]) -> None:
    texts = [write_issue(symptoms["test_parameter"], str(seed)) for seed in range(60)]
    named = [text for text in texts if "tests/test_stock.py::test_parameter[a,b]" in text]
    assert len(named) > 50


def test_a_failure_outside_the_test_still_gets_a_text() -> None:
    symptom = read_symptom(
        "stock",
        ["tests/test_stock.py::test_gone", "tests/test_stock.py::test_total"],
        files={"tests/test_stock.py": b"def f(:"},
        exception="OSError",
        message="OSError: no such file",
        output="nothing that is known",
    )
    texts = {write_issue(symptom, str(seed)) for seed in range(30)}
    assert any("no such file" in text for text in texts)
    assert any("2 tests" in text for text in texts)
