"""Java expressions and code in a paused frame."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sandbox.debugger import Action, DebugLimits, ErrorKind
from sandbox.java.jdk import find_jdk
from tests.sandbox.debugger.java_bench import JavaBench, java_benches
from tests.sandbox.debugger.java_shared import PROGRAMS, paused_at_here


@pytest.fixture(scope="module")
def bench() -> Iterator[JavaBench]:
    """One session for all that changes nothing."""
    with paused_at_here("Shop") as bench:
        yield bench


@pytest.fixture(scope="module")
def shop() -> Iterator[JavaBench]:
    """Another one, whose program is changed and started anew."""
    with java_benches() as open_one:
        bench = open_one()
        bench.write({"Shop.java": (PROGRAMS / "Shop.java").read_text()})
        yield bench


def paused(shop: JavaBench, *marks: str) -> JavaBench:
    shop.start(*(shop.at(mark, "Shop.java") for mark in marks), test="Shop")
    return shop


EXPRESSIONS = {
    "a + b * 2": ("5", "long"),
    "7 / 2 + 7 % 4": ("6", "int"),
    "-7 >> 1": ("-4", "int"),
    "-7 >>> 28": ("15", "int"),
    "1 << 33": ("2", "int"),
    "1L << 40": ("1099511627776", "long"),
    "Integer.MAX_VALUE + 1": ("-2147483648", "int"),
    "c / 0": ("Infinity", "double"),
    "100 * 1.5f": ("150.0", "float"),
    "0x1F + 0b11 + 017 + 1_000": ("1049", "int"),
    "e + 1": ("100", "int"),
    "(char) (e + 1)": ("'d'", "char"),
    "(byte) 300": ("44", "byte"),
    "(int) 3.9 + (int) 'a'": ("100", "int"),
    "1 + 2 + \"x\" + 1 + 'c' + null + 1.0f + true": ('"3x1cnull1.0true"', "String"),
    r'"a\tb\u0041\\"': (r'"a\tbA\\"', "String"),
    "a == 1 && b == 2 || fails() > 0": ("true", "boolean"),
    "d ? a : count": ("1", "int"),
    "(d ? a : -0.5) / 2": ("0.5", "double"),
    "(d ? a : c) / 2": ("0.5", "double"),
    "d ? boxed : b": ("42", "long"),
    "d ? a : text": ("1", "int"),
    "d ? 'x' : 0": ("'x'", "char"),
    "!d ^ true & ~a == -2": ("true", "boolean"),
    "a >= 1 == a < b": ("true", "boolean"),
    "count + this.count + secret(3)": ("24", "int"),
    "shared + LIMIT + Shop.LIMIT": ('"sh1010"', "String"),
    "stock[1] + stock.length": ("5", "int"),
    "item.price + item.doubled()": ("15", "int"),
    "new Item(4).doubled()": ("8", "int"),
    'new java.io.BufferedReader(new java.io.StringReader("x"))': (
        "BufferedReader{...}",
        "BufferedReader",
    ),
    "new Object()": ("Object{}", "Object"),
    "list.get(0) + 1": ("4", "int"),
    'map.get("one") + map.size()': ("3", "int"),
    "boxed == 42 && boxed.equals(42)": ("true", "boolean"),
    "boxed + 1": ("43", "int"),
    'f == "text"': ("true", "boolean"),
    "f.substring(1).toUpperCase().length()": ("3", "int"),
    "kind(text)": ('"object"', "String"),
    'kind("s")': ('"string"', "String"),
    "kind('c')": ('"int"', "String"),
    "kind(b)": ('"long"', "String"),
    "kind(boxed)": ('"Integer"', "String"),
    "kind(list.get(0))": ('"Integer"', "String"),
    'many("f", 1, "b", null)': ('"f3"', "String"),
    'many("f")': ('"f0"', "String"),
    'String.format("%d-%s", a, f)': ('"1-text"', "String"),
    "Arrays.asList(1, 2).contains(2)": ("true", "boolean"),
    "new int[][] {{1}, {2, 3}}": ("[[1], [2, 3]]", "int[][]"),
    "new int[2][3]": ("[[0, 0, 0], [0, 0, 0]]", "int[][]"),
    "new ArrayList<>(list)": ("[3, 1, 2]", "ArrayList"),
    "new java.util.HashMap<String, List<Integer>>()": ("{}", "HashMap"),
    'Color.valueOf("GREEN").ordinal()': ("1", "int"),
    "Color.values()[0] == Color.RED": ("true", "boolean"),
    "Math.max(a, 5L) + Math.PI": ("8.141592653589793", "double"),
    "f instanceof Comparable && ((String) text).length() == 1": ("true", "boolean"),
    "text instanceof String t && t.isEmpty()": ("false", "boolean"),
    "nothing instanceof String": ("false", "boolean"),
    "String[].class": ("String[].class", "Class"),
    "int.class.getName()": ('"int"', "String"),
    "stock.clone()": ("[1, 2, 3]", "int[]"),
    "super.equals(this)": ("true", "boolean"),
    "java.time.LocalDate.of(2020, 1, 5).plusDays(3)": ("2020-01-08", "LocalDate"),
    "Collections.max(list)": ("3", "Integer"),
    "plus.apply(3)": ("11", "Integer"),
    "list.stream().filter(n -> n > a).map(n -> n + count).collect(Collectors.toList())": (
        "[10, 9]",
        "ArrayList",
    ),
    "map.keySet().stream().map(String::length).reduce(0, Integer::sum)": ("6", "Integer"),
    "((Function<Integer, Integer>) n -> secret(n) + item.price).apply(4)": ("16", "Integer"),
    "new Object() { int z = 3; }.z": ("3", "int"),
    "list.stream().map(n -> new Item(n)).mapToInt(n -> n.price).sum() + LIMIT": ("16", "int"),
    "list.stream().filter(n -> n > a).count()": ("2", "long"),
    "list.stream().filter(n -> { int twice = 0; twice += 2 * n; return twice > 4; }).count()": (
        "1",
        "long",
    ),
    "list.stream().filter(n -> n > 9).findAny().orElse(null)": ("null", "null"),
    "switch (Color.GREEN) { case RED -> 1; case GREEN -> count; }": ("7", "Integer"),
    'switch (a) { case 1 -> "one"; default -> "other"; }': ('"one"', "String"),
}


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expressions_mean_what_they_mean_in_java(bench: JavaBench, expression: str) -> None:
    event = bench.debugger.evaluate(expression, 0)
    assert event.error_kind is None, event.error
    assert (event.values[0].text, event.values[0].type) == EXPRESSIONS[expression]


FAILURES = {
    "fails()": "IllegalArgumentException: bad thing, raised at Shop.java:59 in Shop.fails",
    "list.stream().map(n -> fails()).toArray()": "IllegalArgumentException: bad thing, raised at "
    "Shop.java:59 in Shop.fails",
    'Integer.parseInt("12x")': 'NumberFormatException: For input string: "12x"',
    "1 / (a - 1)": "ArithmeticException: / by zero",
    "stock[5]": "ArrayIndexOutOfBoundsException: Index 5 out of bounds for length 3",
    "nothing.toString()": "NullPointerException: what toString() is called on is null",
    "item.next.price": "NullPointerException: what the field price is read from is null",
    "(Integer) text": "ClassCastException: class java.lang.String cannot be cast to class",
    "new int[-1]": "NegativeArraySizeException: -1",
    "itemm.price": "no variable, field or class is named itemm here; nearest: item",
    "later + 1": "local variable later has no value here",
    "zzqq": "is named zzqq here; nearest names in scope: ",
    "list.sizee()": "ArrayList has no method sizee; nearest: size",
    "item.pryce": "Shop.Item has no field pryce; nearest: price",
    "secrets(1)": "no method is named secrets here; nearest: secret",
    "secret()": "Shop.secret() does not exist; there is Shop.secret(int)",
    "kind(null)": "the call is ambiguous between Shop.kind(String), Shop.kind(Integer)",
    "new Nope()": "there is no class Nope here",
    "new Runnable()": "Runnable is abstract",
    "Shop.count": "count is no static field of Shop",
    "f.length": "String has no field length; length() is a method",
    "a != null": "!= does not work on int and null: int is never null",
    "a.foo()": "a value of type int has no methods",
    "a = b": "it would change the program: it assigns; == compares",
    "((Runnable) () -> count = 2).hashCode()": "it would change the program: it assigns",
    "a++": "it would change the program: it assigns",
    "1 +": "syntax error: an expression is needed where it ends after '1 +'",
    "a b": "syntax error: the end or an operator is needed where there is 'b' after 'a'",
    '"open': "syntax error: unclosed string literal",
    "3000000000": "too large at its start; write a long with L",
    "": "there is no expression",
    "list.stream().map(n -> n > lits).count()": "no variable, field or class is named lits here",
    "list.stream().foo(n -> n)": "does not compile: cannot find symbol; symbol: method foo",
    "(" * 10_000 + "1" + ")" * 10_000: "nested too deeply",
    "((Supplier<Integer>) () -> 1).get()" + " + 1" * 5_000: "nested too deeply",
}


@pytest.mark.parametrize("expression", FAILURES)
def test_what_can_not_be_evaluated_is_said_and_harms_nothing(
    bench: JavaBench, expression: str
) -> None:
    event = bench.debugger.evaluate(expression, 0)
    assert event.error_kind in (ErrorKind.EVALUATION, ErrorKind.BAD_REQUEST)
    assert FAILURES[expression] in str(event.error)
    assert bench.text_of("a") == "1"


def test_a_frame_with_a_huge_number_does_not_exist(bench: JavaBench) -> None:
    for number in (2**32, 2**63, 10**30):
        event = bench.debugger.evaluate("a", number)
        assert event.error == f"there is no frame {2**31 - 1}; the stack has frames 0 to 1"


def test_a_condition_that_is_no_expression_is_refused_at_once(bench: JavaBench) -> None:
    event = bench.debugger.set_breakpoint(bench.at("generic", "Shop.java", condition="best >"))
    assert event.error_kind is ErrorKind.BAD_REQUEST
    assert "the condition is not an expression: syntax error" in str(event.error)
    kept = bench.debugger.list_breakpoints().breakpoints
    assert [point.line for point in kept] == [bench.line("here", "Shop.java")]


@pytest.mark.parametrize(
    ("changes", "what", "hint"),
    [
        ({"condition": "a = 1"}, "the condition", "; == compares"),
        ({"condition": "a++ == 1"}, "the condition", ""),
        ({"watch": ("a", "list.get(a++)")}, "the watch 'list.get(a++)'", ""),
        ({"watch": ("a += 2",)}, "the watch 'a += 2'", ""),
    ],
)
def test_what_is_evaluated_at_every_hit_may_assign_nothing(
    bench: JavaBench, changes: dict[str, Any], what: str, hint: str
) -> None:
    event = bench.debugger.set_breakpoint(bench.at("generic", "Shop.java", **changes))
    assert event.error == f"{what} would change the program: it assigns{hint}"
    assert bench.text_of("a") == "1"


def test_a_condition_may_negate(bench: JavaBench) -> None:
    condition = "a != -1 && !list.isEmpty() && ~a != 0"
    event = bench.debugger.set_breakpoint(bench.at("generic", "Shop.java", condition=condition))
    assert event.error_kind is None, event.error


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("LIMIT = 5", "LIMIT is final"),
        ("a = b", "incompatible types: long is no int"),
        ("5 = a", "only a variable, a field or an array element can be assigned"),
    ],
)
def test_assignments_that_can_not_be(bench: JavaBench, code: str, told: str) -> None:
    event = bench.debugger.run_code(code, 0)
    assert told in str(event.error)
    assert bench.text_of("a") == "1"


def test_output_of_an_expression_is_the_programs(bench: JavaBench) -> None:
    event = bench.debugger.evaluate('System.out.println("said " + a)', 0)
    assert (event.output, event.values[0].text) == ("said 1\n", "void")


@pytest.mark.slow
def test_assignments_take_effect_when_the_program_goes_on(shop: JavaBench) -> None:
    condition = 'list.size() == 3 && f.startsWith("te")'
    shop.start(shop.at("here", "Shop.java", condition=condition), test="Shop")
    failed = shop.debugger.run_code("count = 50; fails(); count = 60;", 0)
    assert failed.error_kind is ErrorKind.EVALUATION
    assert str(failed.error).startswith("IllegalArgumentException: bad thing, raised at ")
    assert shop.text_of("count") == "50"
    code = """
        a = 10; a += 5; a++;
        f = "new" + a;
        this.count = 100;
        boxed += 1;
        stock[0] = stock[1]++ + 5;
        for (int n : stock) { if (n == 3) continue; list.add(n); }
        try { fails(); } catch (IllegalArgumentException raised) { f += raised.getMessage(); }
    """
    event = shop.debugger.run_code(code, 0)
    assert event.error_kind is None, event.error
    output = shop.debugger.control(Action.CONTINUE).output.splitlines()
    assert output[1] == "16 new16bad thing 100 43 7 [3, 1, 2, 7]"


def test_code_has_variables_loops_and_output(shop: JavaBench) -> None:
    paused(shop, "here")
    run = shop.debugger.run_code
    first = run("int total = 0; for (int i = 0; i < 5; i++) { if (i == 3) break; total += i; }", 0)
    assert first.error_kind is None, first.error
    run("do { total++; } while (total < 9); var names = new ArrayList<String>();", 0)
    run('for (String key : map.keySet()) names.add(key + "!"); while (total > 7) total--;', 0)
    run("Function<Integer, Integer> triple = n -> n * 3; List<Integer> some = List.of(1, 2);", 0)
    assert shop.text_of("total") == "7"
    assert shop.text_of("names") == '["one!", "two!"]'
    assert shop.text_of("triple.apply(total)") == "21"
    assert shop.text_of("some.stream().mapToInt(n -> n + 1).sum()") == "5"
    said = run("list.forEach(n -> System.out.println(n + total));", 0)
    assert said.output == "10\n8\n9\n"
    named = "Runnable said = new Runnable() { public void run() { System.out.println(f); } };"
    assert run(f"{named} said.run();", 0).output == "text\n"
    early = run("for (int n : stock) { if (n > 1) return; System.out.println(n); }", 0)
    assert early.output == "1\n"
    again = run("int a = 3;", 0)
    assert again.error is not None
    assert "a is a local variable of the frame already" in again.error


def test_names_reach_out_of_lambdas_and_anonymous_classes(shop: JavaBench) -> None:
    paused(shop, "lambda", "anonymous", "generic")
    assert shop.text_of("inner + a + count + secret(1)") == "24"
    assert shop.text_of("Arrays.asList(1, 2).stream().mapToInt(n -> n + inner).sum()") == "19"
    shop.debugger.control(Action.CONTINUE)
    assert shop.text_of("own + a + count + Shop.this.count") == "18"
    assert shop.text_of("Arrays.asList(a).stream().mapToInt(n -> n + count).sum()") == "8"
    names = [value.name for value in shop.debugger.locals().values]
    assert names == ["this", "a"]
    shop.debugger.control(Action.CONTINUE)
    assert shop.text_of("best.compareTo(items.get(1)) + best") == "4"
    assert shop.text_of("items.stream().filter(n -> n.compareTo(best) < 0).count()") == "2"


@pytest.mark.slow
def test_what_never_ends_is_interrupted(open_java_bench: Callable[..., JavaBench]) -> None:
    java_bench = open_java_bench(DebugLimits(action_timeout=2, interrupt_grace=4))
    java_bench.write({"Shop.java": (PROGRAMS / "Shop.java").read_text()})
    paused(java_bench, "here")
    java_bench.debugger.evaluate("list.stream().map(n -> n).count()", 0)
    for code in ("while (true) { }", "while (true) { Runnable n = () -> endless(); n.run(); }"):
        event = java_bench.debugger.run_code(code, 0)
        assert event.error_kind is ErrorKind.TIMEOUT, code
        assert java_bench.text_of("a + count") == "8"


APP = """\
package app;
import java.util.*;
import shop.Cart;
public class App {
    public static void main(String[] args) {
        List<Item> items = new ArrayList<>(Arrays.asList(new Item(3), new Item(4)));
        Cart cart = new Cart();
        Object first = cart.first();
        System.out.println(items); // @here
    }
}
class Item {
    private static final int SEEN = 4;
    private int price;
    Item(int price) { this.price = price; }
    private int doubled() { return 2 * price; }
}
"""
CART = """\
package shop;
import java.util.*;
public class Cart {
    private static class Hidden { private int x = 9; }
    private int total = 7;
    private Hidden hidden = new Hidden();
    List<Hidden> all = Arrays.asList(hidden);
    List<Line> lines = new ArrayList<>(Arrays.asList(new Line(5)));
    public Line first() { return lines.get(0); }
}
class Line {
    private int n;
    int raw = 6;
    Line(int n) { this.n = n; }
    int twice() { return 2 * n; }
}
"""
OTHERS_MEMBERS = {
    "items.stream().mapToInt(i -> i.price + Item.SEEN).sum()": "15",
    "items.stream().mapToInt(i -> i.doubled()).sum()": "14",
    "items.stream().mapToInt(i -> cart.total).sum()": "14",
    "cart.lines.stream().mapToInt(l -> l.twice() + l.raw + l.n).sum()": "21",
    "cart.all.stream().map(h -> h.x).toArray()": "[9]",
    "cart.lines.stream().mapToInt(l -> cart.hidden.x).sum()": "9",
    "((java.util.function.ToLongFunction<String>) String::length).applyAsLong(\"abc\")": "3",
    "new Comparator<Item>() { public int compare(Item a, Item b) { return a.price - b.price; } }"
    ".compare(items.get(0), items.get(1))": "-1",
    "items.stream().map(i -> { try { return i.price / 0; } catch (ArithmeticException e) "
    "{ return -1; } }).toArray()": "[-1, -1]",
}  # fmt: skip


@pytest.mark.slow
def test_compiled_code_sees_what_interpreted_code_sees(java_bench: JavaBench) -> None:
    """Private members of other classes, and classes of other packages (JDK 15 to 23)."""
    jdk = find_jdk(java_bench.sandbox)
    if not 15 <= jdk.feature <= 23:
        pytest.skip(f"compiled code can't reach private members on JDK {jdk.feature}")
    java_bench.write({"app/App.java": APP, "shop/Cart.java": CART})
    java_bench.start(java_bench.at("here", "app/App.java"), test="app.App")
    for expression, expected in OTHERS_MEMBERS.items():
        assert java_bench.text_of(expression) == expected, expression
    denied = java_bench.debugger.evaluate("items.stream().mapToInt(Item::doubled).sum()", 0)
    assert denied.error is not None
    assert denied.error.endswith("or evaluate what is private by itself, without a lambda")
    said = java_bench.debugger.evaluate("items.stream().map(i -> first.n).count()", 0)
    assert said.error is not None
    assert "symbol: variable n; location: variable first of type java.lang.Object" in said.error
