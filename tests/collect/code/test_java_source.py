"""What the oracle reads out of Java source."""

from __future__ import annotations

import pytest

from collect.code.patches import ChangedRange
from collect.code.source import SourceFile, function_at, place_to_stop, read_source

SOURCE = b"""\
package demo;

import java.util.*;

/** Things to buy. */
public class Cart {
    private static final double RATE = 0.19 * 2;
    private final List<Integer> prices = new ArrayList<>();
    private int limit;

    Cart(int limit) {
        this.limit = limit + 1;
    }

    @Deprecated
    public int total(Map<String, Integer> rates, String name) {
        int net = prices.size() - 1;
        String label;
        label = name + net;
        for (int i = 0; i < net && rates.get(name) > limit; i++) {
            net += prices.get(i) / 2;
        }
        if (net > limit && !prices.contains(3)
                || name.length() == net) {
            net++;
        }
        int big = prices.stream()
                .filter(price -> price > limit)
                .mapToInt(price -> {
                    return price * 2;
                })
                .sum();
        rates.replaceAll((key, rate) -> rate + big);
        Runnable later = new Runnable() {
            public void run() {
                log(limit);
            }
        };
        return big > net ? Math.max(big, 0) : this.limit;
    }

    enum Size {
        SMALL(1),
        LARGE(40 + 2);

        Size(int weight) {
        }
    }

    interface Shape {
        int area();

        default int twice() {
            return area() + area();
        }
    }
}
"""


def source(data: bytes = SOURCE) -> SourceFile:
    return read_source("src/main/java/demo/Cart.java", data)


def line_of(text: str) -> int:
    return next(n for n, line in enumerate(SOURCE.decode().splitlines(), 1) if text in line)


def test_functions_have_the_debuggers_names() -> None:
    assert [(found.name, found.first, found.line) for found in source().functions] == [
        ("Cart.<clinit>", 7, 7),
        ("Cart.<init>", 8, 8),
        ("Cart.<init>", 11, 11),
        ("Cart.total", 15, 16),
        ("Cart.1.run", 35, 35),
        ("Cart.Size.<clinit>", 43, 43),
        ("Cart.Size.<clinit>", 44, 44),
        ("Cart.Size.<init>", 46, 46),
        ("Cart.Shape.twice", 53, 53),
    ]


@pytest.mark.parametrize(
    ("text", "function"),
    [
        ("this.limit = limit + 1", "Cart.<init>"),
        ("RATE = 0.19", "Cart.<clinit>"),
        ("@Deprecated", "Cart.total"),
        ("return price * 2", "Cart.total"),
        ("log(limit)", "Cart.1.run"),
        ("LARGE(40", "Cart.Size.<clinit>"),
    ],
)
def test_the_function_of_a_line(text: str, function: str) -> None:
    found = function_at(source(), line_of(text))
    assert found is not None
    assert found.name == function


@pytest.mark.parametrize("text", ["private int limit;", "int area();", "import java.util"])
def test_lines_outside_all_functions(text: str) -> None:
    assert function_at(source(), line_of(text)) is None


@pytest.mark.parametrize(
    ("changed", "stop"),
    [
        ("int net = prices", "int net = prices"),
        ("|| name.length()", "if (net > limit"),
        ("String label;", "int net = prices"),
        ("public int total", "int net = prices"),
        (".filter(price", ".filter(price"),
        ("return price * 2", "return price * 2"),
        (".sum()", "return price * 2"),
        ("RATE = 0.19", "RATE = 0.19"),
    ],
)
def test_where_to_stop(changed: str, stop: str) -> None:
    line = line_of(changed)
    assert place_to_stop(source(), ChangedRange("Cart.java", line, line)).line == line_of(stop)


@pytest.mark.parametrize(
    ("text", "expressions"),
    [
        ("label = name + net", ["name + net", "name", "net"]),
        # Its own variable is not there yet, and reading a map may reorder it.
        ("for (int i", ["net", "limit", "rates", "name"]),
        ("net += prices", ["prices.get(i) / 2", "prices.get(i)", "prices", "i"]),
        # Here the lambda is made, not run.
        (".filter(price", []),
        ("int big = prices", ["prices"]),
        ("Runnable later", []),
        # It stops at the statement, where a lambda's variable has no value.
        ("rates.replaceAll", ["rates"]),
        ("this.limit = limit", ["limit + 1", "limit"]),
        ("LARGE(40", ["40 + 2"]),
    ],
)
def test_probes_change_nothing(text: str, expressions: list[str]) -> None:
    assert source().probes(line_of(text)) == expressions


def test_probes_inside_a_lambda() -> None:
    expressions = ["price > limit", "price", "limit"]
    assert source().probes(line_of(".filter(price"), "Cart.total.<lambda>") == expressions
    inside = source().probes(line_of("return price * 2"), "Cart.total.<lambda>")
    assert inside == ["price * 2", "price"]


def test_an_expression_over_two_lines_is_one() -> None:
    [whole, *_] = source().probes(line_of("if (net > limit"))
    assert whole == "net > limit && !prices.contains(3) || name.length() == net"


@pytest.mark.parametrize(
    ("text", "targets"),
    [
        ("this.limit = limit", ["this.limit"]),
        ("int net = prices", ["net"]),
        ("net += prices", ["net"]),
        ("net++;", ["net"]),
        ("log(limit)", []),
    ],
)
def test_assigned_targets(text: str, targets: list[str]) -> None:
    assert source().assigned(line_of(text)) == targets


def test_mutations_change_one_line_and_keep_sums_of_strings() -> None:
    read = source()
    total = next(found for found in read.functions if found.name == "Cart.total")
    lines = SOURCE.decode().splitlines()
    changed: dict[int, list[str]] = {}
    for mutation in read.mutations(total):
        new = mutation.text.splitlines()
        assert [n for n in range(len(lines)) if lines[n] != new[n]] == [mutation.line - 1]
        changed.setdefault(mutation.line, []).append(new[mutation.line - 1].strip())
    assert changed[line_of("int net")] == [
        "int net = prices.size() + 1;",
        "int net = prices.size() - 2;",
    ]
    assert changed[line_of(".filter(price")] == [".filter(price -> price >= limit)"]
    assert line_of("label = name") not in changed


def test_resources_are_opened_where_the_try_begins() -> None:
    text = b"class A {\n void f(Path p) {\n  try (Reader r = open(p)) {\n   r.read();\n  }\n }\n}\n"
    read = source(text)
    assert read.stops(read.functions[0]) == [3, 4]
    assert read.probes(3) == ["p"]


def test_mutations_leave_loops_and_rules_whole() -> None:
    text = (
        "class A {\n void f(boolean b, int k) {\n  while (true) { step(); }\n  b = true;\n"
        "  switch (k) { case 1 -> step(); default -> k--; }\n }\n}\n"
    )
    read = source(text.encode())
    [function] = read.functions
    lines = [
        mutation.text.splitlines()[mutation.line - 1].strip()
        for mutation in read.mutations(function)
    ]
    assert lines == ["while (true) { ; }", "b = false;"]


def test_what_is_no_java_is_not_read() -> None:
    assert not read_source("Cart.java", b"total = 1\n").functions
    assert not read_source("README.md", SOURCE).functions


def test_a_mistake_is_read_around() -> None:
    broken = source(SOURCE.replace(b"net++;", b"net++"))
    assert "Cart.total" in {found.name for found in broken.functions}
