"""Tests and main classes found in a workspace by their names."""

from __future__ import annotations

import pytest

from sandbox import Sandbox
from sandbox.errors import NoSuchTest
from sandbox.java.lookup import Found, Lookup, parse_name
from sandbox.java.project import scan_workspace
from tests.sandbox.java.conftest import Lay

FILES = {
    "pom.xml": "<project/>",
    "core/src/test/java/demo/CalcTest.java": """\
        package demo;
        import org.junit.Test;
        public class CalcTest extends BaseTest {
            @Test public void testTotal() {}
            @Test public void testEmpty() {}
            public static class Inner { @Test public void testInner() {} }
        }
        """,
    "core/src/test/java/demo/BaseTest.java": """\
        package demo;
        public abstract class BaseTest extends lib.Unknown { @org.junit.Test public void base() {} }
        """,
    "app/src/test/java/demo/CalcTest.java": """\
        package demo;
        public class CalcTest extends junit.framework.TestCase { public void testOld() {} }
        class Hidden extends CalcTest { public void testHidden() {} }
        """,
    "core/src/test/java/demo/OldTest.java": """\
        package demo;
        class OldTest {
            @Test void plain() {}
            @Nested class Filling { @Test void fills() {} }
        }
        """,
    "core/src/main/java/demo/Main.java": """\
        package demo;
        public class Main { public static void main(String[] args) {} static void helper() {} }
        """,
    "core/target/generated/demo/CalcTest.java": "package demo; class CalcTest {}",
}


@pytest.fixture
def workspace(lay_out: Lay) -> Sandbox:
    return lay_out(FILES)


def find(sandbox: Sandbox, text: str) -> Found:
    return Lookup(sandbox, scan_workspace(sandbox)).find(parse_name(text))


def test_names_lead_to_classes_and_methods(workspace: Sandbox) -> None:
    core = "core/src/test/java/demo/CalcTest.java"
    for text, file, selector in (
        ("mvn -pl core test -Dtest=CalcTest#testTotal", core, "demo.CalcTest#testTotal"),
        ("gradle :core:test --tests demo.CalcTest.testTotal", core, "demo.CalcTest#testTotal"),
        (f"{core}::testEmpty", core, "demo.CalcTest#testEmpty"),
        (f"/workspace/{core}", core, "demo.CalcTest"),
        ("demo.CalcTest$Inner#testInner", core, "demo.CalcTest$Inner#testInner"),
        ("demo.CalcTest.Inner.testInner", core, "demo.CalcTest$Inner#testInner"),
        ("mvn -pl core test -Dtest=*lcTest", core, "demo.CalcTest"),
        ("testInner", core, "demo.CalcTest$Inner#testInner"),
        (
            "app/src/test/java/demo/CalcTest.java::testOld",
            f"app{core[4:]}",
            "demo.CalcTest#testOld",
        ),
        ("Hidden", f"app{core[4:]}", "demo.Hidden"),
        ("demo.Hidden.testHidden", f"app{core[4:]}", "demo.Hidden#testHidden"),
        ("Hidden#testOld", f"app{core[4:]}", "demo.Hidden#testOld"),
    ):
        found = find(workspace, text)
        assert (found.file, found.selector, found.test) == (file, selector, True), text


def test_inherited_methods_of_the_workspace_and_of_libraries(workspace: Sandbox) -> None:
    found = find(workspace, "mvn -pl core test -Dtest=CalcTest")
    assert found.methods == ("testTotal", "testEmpty", "base")
    assert find(workspace, "core/src/test/java/demo/CalcTest.java::base").method == "base"
    assert find(workspace, "core/src/test/java/demo/CalcTest.java::fromLibrary").test


def test_main_classes_and_their_arguments(workspace: Sandbox) -> None:
    for text, arguments in (("Main", ()), ("demo.Main 1 2", ("1", "2")), ("Main.java x", ("x",))):
        found = find(workspace, text)
        assert (found.class_name, found.test, found.methods) == ("demo.Main", False, ("main",))
        assert found.arguments == arguments


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("app/src/test/java/demo/CalcTest.java::testOdd", "its nearest tests: testOld"),
        (
            "demo.OldTest#fills",
            r"no method fills; its nearest tests: demo.OldTest\$Filling#fills$",
        ),
        ("demo.CalkTest", "the nearest: .*CalcTest.java"),
        ("org.other.Nothing#x", r"there is no test org.other.Nothing#x; the nearest: .*Test.java"),
        ("BaseTest#base", "BaseTest.*is abstract.*its subclasses: demo.CalcTest$"),
        ("Base 1 2", "there is no main class Base"),
        ("CalcTest 1 2", "no `public static void main"),
    ],
)
def test_what_is_not_there_is_told_the_nearest(workspace: Sandbox, text: str, said: str) -> None:
    with pytest.raises(NoSuchTest, match=said):
        find(workspace, text)


def test_a_class_without_tests_and_main(lay_out: Lay) -> None:
    box = lay_out({"Helper.java": "class Helper { void helps() {} }"})
    with pytest.raises(NoSuchTest, match="holds no test and no main method"):
        find(box, "Helper")
    with pytest.raises(NoSuchTest, match="no Java sources"):
        find(lay_out({}), "Helper")
