"""What an issue tells of a Java test's failure."""

from __future__ import annotations

import pytest

from collect.benchmarks.projects.issue_text import Outcome
from collect.synthesis.java.symptoms import (
    JavaSymptom,
    java_snippet,
    read_failure,
    read_java_claim,
    read_java_symptom,
    stands_alone,
)

TEST = """\
package shop;

class StockTest {
    private final Stock shared = new Stock();
    private Unit unit;
    private Stock opened;
    private Stock given;

    @BeforeEach
    void open() {
        unit = new Unit("kg");
        opened = new Stock(unit);
        opened.open();
    }

    void test(int wanted) {
        Stock stock = new Stock(3);
        assertTrue(stock.isOpen());
        STATEMENT
    }
}
"""
JUPITER = "org.junit.jupiter.api.AssertEquals.assertEquals(AssertEquals.java:9)"
LINE = TEST[: TEST.index("STATEMENT")].count("\n") + 1
OWN = f"shop.StockTest.test(StockTest.java:{LINE})"


def symptom(statement: str, message: str, *frames: str) -> JavaSymptom:
    path = "src/test/java/shop/StockTest.java"
    trace = "\n\tat ".join([message, *(frames or (JUPITER,)), OWN]) + "\n"
    files = {path: TEST.replace("STATEMENT", statement).encode()}
    return read_java_symptom("shop.StockTest#test", read_failure(trace), files, [path])


FAILED = "org.opentest4j.AssertionFailedError: "
CLAIMS = [
    (
        'assertEquals("a", stock.name(), "the name");',
        FAILED + "the name ==> expected: <a> but was: <b>",
        (Outcome.WRONG_VALUE, "stock.name()", "name", "a", "b"),
    ),
    (
        "assertFalse(stock.has(1));",
        FAILED + "expected: <false> but was: <true>",
        (Outcome.UNMET, "stock.has(1)", "has", "", ""),
    ),
    (
        "assertThrows(IllegalArgumentException.class, () -> stock.take(4));",
        FAILED + "Expected java.lang.IllegalArgumentException to be thrown, but nothing was thrown",
        (Outcome.NO_ERROR, "stock.take(4)", "take", "IllegalArgumentException", ""),
    ),
    (
        "assertEquals(1, stock.total());",
        "java.lang.IllegalStateException: closed",
        (Outcome.ERROR, "stock.total()", "total", "", ""),
    ),
]


@pytest.mark.parametrize(("statement", "message", "expected"), CLAIMS)
def test_a_claim(statement: str, message: str, expected: tuple[object, ...]) -> None:
    claim = read_java_claim(symptom(statement, message))
    assert (claim.outcome, claim.call, claim.function, claim.expected, claim.actual) == expected


def test_junit_4_takes_the_message_first() -> None:
    seen = symptom(
        'assertEquals("the name", "a", stock.name());',
        "org.junit.ComparisonFailure: the name expected:<[a]> but was:<[b]>",
        "org.junit.Assert.assertEquals(Assert.java:117)",
    )
    claim = read_java_claim(seen)
    assert (claim.call, claim.expected, claim.actual) == ("stock.name()", "a", "b")


def test_names_that_only_the_stack_trace_shows_are_not_told() -> None:
    message = "java.lang.IllegalStateException: Shelf.sort failed"
    seen = symptom("stock.total();", message, "shop.Shelf.sort(Shelf.java:7)")
    assert {"Shelf", "sort"} <= seen.hidden
    assert read_java_claim(seen).message == ""


def test_a_snippet_has_what_leads_to_the_failure() -> None:
    seen = symptom("assertEquals(1, stock.total());", FAILED + "expected: <1> but was: <2>")
    shown = "Stock stock = new Stock(3);\nSystem.out.println(stock.total());"
    assert java_snippet(seen, read_java_claim(seen)) == shown


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("shared", ["Stock shared = new Stock();"]),
        (
            "opened",
            ['Unit unit = new Unit("kg");', "Stock opened = new Stock(unit);", "opened.open();"],
        ),
    ],
)
def test_a_snippet_gives_fields_their_values(name: str, lines: list[str]) -> None:
    seen = symptom(f"assertEquals(1, {name}.total());", FAILED + "expected: <1> but was: <2>")
    last = f"System.out.println({name}.total());"
    shown = "\n".join([*lines, "Stock stock = new Stock(3);", last])
    assert java_snippet(seen, read_java_claim(seen)) == shown


@pytest.mark.parametrize("call", ["given.total()", "stock.total(wanted)", "made().total()"])
def test_no_snippet_where_it_would_name_what_it_does_not_show(call: str) -> None:
    seen = symptom(f"assertEquals(1, {call});", FAILED + "expected: <1> but was: <2>")
    assert java_snippet(seen, read_java_claim(seen)) == ""


@pytest.mark.parametrize(
    ("call", "alone"),
    [
        ("Stock.of(1, Unit.KILO).name()", True),
        ('new Stock(3).count("pen")', True),
        ("stock.name()", False),
        ("Stock.of(count)", False),
        ("stocked(3)", False),
        ("", False),
    ],
)
def test_a_call_stands_alone_without_variables_and_helpers(call: str, alone: bool) -> None:
    assert stands_alone(call) is alone
