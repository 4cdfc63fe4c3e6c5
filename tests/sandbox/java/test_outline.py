"""The classes and methods found in a source file."""

from __future__ import annotations

from sandbox.java.lookup import outline

SOURCE = '''
package a.b;

import org.junit.*;
import static org.junit.Assert.assertEquals;

/* class Commented { void no() {} } */
public abstract class Outer<T extends Comparable<T>> extends base.Parent implements Runnable {
    static final String BRACE = "} class Quoted { {";
    static final char QUOTE = '"';

    @Test(expected = Error.class, timeout = 3)
    public <X> void generic() throws java.io.IOException, Error {
        if (BRACE != null) { call("{"); }
        new Runnable() { @Test public void run() { class Local { @Test void hidden() {} } } };
    }

    @ParameterizedTest
    @CsvSource({"a, b", "c"})
    void parameterised(@Ann String first, int second) {}

    @Test void lambda() { run(() -> { @Test class X {} }); }

    abstract void none();

    static class Inner extends Outer { @org.junit.Test public void inside() {} }

    interface Face { default void face() {} }

    enum Kind { ONE { void q() {} }, TWO; public static void main(String... words) {} }
}

record Point(int x, int y) { Point { check(x); } @Test void dot() {} }

class Text { String block = """
    class Fake { void fake() { "
    """; void real() {} }
'''


def test_classes_and_their_parents() -> None:
    classes = {each.name: each for each in outline(SOURCE).classes}
    assert list(classes) == [
        "a.b.Outer",
        "a.b.Outer$Inner",
        "a.b.Outer$Face",
        "a.b.Outer$Kind",
        "a.b.Point",
        "a.b.Text",
    ]
    assert classes["a.b.Outer"].parent == "base.Parent"
    assert not classes["a.b.Outer"].concrete
    assert classes["a.b.Outer$Inner"].concrete
    assert classes["a.b.Outer$Inner"].simple_name == "Inner"


def test_methods_and_which_are_tests_or_entries() -> None:
    methods = {each.name: each.methods for each in outline(SOURCE).classes}
    outer = {method.name: method.test for method in methods["a.b.Outer"]}
    assert outer == {"generic": True, "parameterised": True, "lambda": True}
    assert [method.test for method in methods["a.b.Outer$Inner"]] == [True]
    assert [method.entry for method in methods["a.b.Outer$Kind"]] == [True]
    assert [method.name for method in methods["a.b.Point"] if method.test] == ["dot"]
    assert [method.name for method in methods["a.b.Text"]] == ["real"]


def test_imports_and_no_package() -> None:
    assert "org.junit.Assert.assertEquals" in outline(SOURCE).imports
    assert [each.name for each in outline("class Solo { }").classes] == ["Solo"]


def test_what_is_no_java_is_no_error() -> None:
    assert outline("}}} {{{ class ( \" '").classes == ()
