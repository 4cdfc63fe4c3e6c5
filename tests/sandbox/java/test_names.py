"""What a launch's text names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sandbox.errors import NoSuchTest
from sandbox.java.lookup import Named, parse_name

CALC = Named("demo.CalcTest", "testTotal")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("demo.CalcTest#testTotal", CALC),
        ("demo.CalcTest::testTotal", CALC),
        ("demo.CalcTest#testTotal()", CALC),
        ("demo.CalcTest#testTotal(int, java.lang.String)", CALC),
        ("demo.CalcTest#testTotal[2]", replace(CALC, invocation="2")),
        ("demo.CalcTest#testTotal(int, long)[2: a name]", replace(CALC, invocation="2: a name")),
        ("CalcTest.java::total [2]", Named("CalcTest.java", "total", invocation="2")),
        ("mvn test '-Dtest=CalcTest#total[2]'", Named("CalcTest", "total", invocation="2")),
        ("gradle test --tests CalcTest.total[2]", Named("CalcTest.total", invocation="2")),
        ("demo.Outer$Inner#m", Named("demo.Outer$Inner", "m")),
        ("demo.CalcTest.testTotal", Named("demo.CalcTest.testTotal")),
        ("src/test/java/demo/CalcTest.java", Named("src/test/java/demo/CalcTest.java")),
        ("demo/CalcTest.java:12", Named("demo/CalcTest.java")),
        ("demo/CalcTest.java::testTotal", Named("demo/CalcTest.java", "testTotal")),
        ("mvn -B -o test -Dtest=demo.CalcTest#testTotal", CALC),
        (
            "./mvnw -pl app,core -am test '-Dtest=CalcTest#testTotal+testEmpty'",
            Named("CalcTest", "testTotal", module="app"),
        ),
        ("mvn -f app/pom.xml test -Dtest=CalcTest", Named("CalcTest", module="app")),
        (
            "./gradlew --offline :lib:app:test --tests demo.CalcTest.testTotal",
            Named("demo.CalcTest.testTotal", module="lib/app"),
        ),
        ("gradle test --tests='*CalcTest'", Named("*CalcTest")),
        ("JAVA_HOME=/x gradle test --tests CalcTest", Named("CalcTest")),
        ("Main.java 1 'two words'", Named("Main.java", None, ("1", "two words"), True)),
        ("java -ea -cp out:lib/* demo.Main 7", Named("demo.Main", None, ("7",), True)),
        ("java Main.java", Named("Main.java", None, (), True)),
    ],
)
def test_every_way_to_name_a_test_or_a_program(text: str, named: Named) -> None:
    assert parse_name(text) == named


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "names no test"),
        ("mvn test", "-Dtest="),
        ("gradle test", "--tests"),
        ("java -jar app.jar", "a jar"),
        ("java -ea", "no main class"),
        ("CalcTest; rm -rf /", "names no test"),
        ("x" * 5000, "5000 characters"),
    ],
)
def test_what_names_nothing_is_told_what_would(text: str, said: str) -> None:
    with pytest.raises(NoSuchTest, match=r"demo\.CartTest#testTotal") as raised:
        parse_name(text)
    assert said in str(raised.value)


@pytest.mark.parametrize(
    "text", ["A#b" + "()" * 1_900 + "x", "A" + "[]" * 1_900 + "x", "(" * 3_900]
)
def test_a_name_of_brackets_is_soon_refused(text: str) -> None:
    """Each bracket could end a part or not: this took twice the time with each pair."""
    with pytest.raises(NoSuchTest):
        parse_name(text)
