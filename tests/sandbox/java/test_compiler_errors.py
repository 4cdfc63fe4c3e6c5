"""Errors picked out of what compilers and build tools print."""

from __future__ import annotations

from sandbox.java.javac import MAX_ERRORS, shown_errors

JAVAC = """\
/workspace/src/Calc.java:4: error: cannot find symbol
        int s = foo;
                ^
  symbol:   variable foo
  location: class Calc
src/Other.java:9: error: ';' expected
Note: Some input files use unchecked or unsafe operations.
2 errors
"""
MAVEN = """\
[INFO] Compiling 2 source files to /workspace/target/classes
[ERROR] /workspace/src/Calc.java:[4,17] cannot find symbol
  symbol:   variable foo
  location: class demo.Calc
[ERROR] COMPILATION ERROR :
[ERROR] Failed to execute goal org.apache.maven.plugins:maven-compiler-plugin:compile
[ERROR] /workspace/src/Calc.java:[4,17] cannot find symbol
[ERROR]   symbol:   variable foo
[ERROR]   location: class demo.Calc
[ERROR] -> [Help 1]
"""
GRADLE = """\
:compileJava/workspace/src/Calc.java:4: error: incompatible types: int cannot be converted
        String s = 3;
* What went wrong:
Execution failed for task ':compileJava'.
"""


def no_source(file: str, line: int) -> str:
    return ""


def test_javac_with_symbols_and_source_lines() -> None:
    shown = shown_errors(JAVAC, "/workspace", lambda file, line: f"   {file}@{line}")
    assert shown.splitlines() == [
        "src/Calc.java:4: cannot find symbol; symbol: variable foo; location: class Calc",
        "    src/Calc.java@4",
        "src/Other.java:9: ';' expected",
        "    src/Other.java@9",
    ]


def test_maven_says_each_error_twice() -> None:
    assert shown_errors(MAVEN, "/workspace", no_source) == (
        "src/Calc.java:4: cannot find symbol; symbol: variable foo; location: class demo.Calc"
    )


def test_gradle_prints_the_first_error_behind_the_task() -> None:
    assert shown_errors(GRADLE, "/workspace", no_source) == (
        "src/Calc.java:4: incompatible types: int cannot be converted"
    )


def test_many_errors_are_cut() -> None:
    output = "".join(f"A.java:{n}: error: wrong {n}\n" for n in range(1, 40))
    lines = shown_errors(output, "/workspace", no_source).splitlines()
    assert lines[-1] == f"... and {39 - MAX_ERRORS} more errors"
    assert len(lines) == MAX_ERRORS + 1


def test_a_build_that_fails_otherwise_shows_its_reason() -> None:
    gradle = "noise\n* What went wrong:\nCould not resolve x:y:1.\n> No cached version\n* Try:\nRun"
    assert shown_errors(gradle, "/w", no_source) == "Could not resolve x:y:1.\n> No cached version"
    maven = "[INFO] x\n[ERROR] Plugin a:b:1 not found\n[ERROR] \n[ERROR] -> [Help 1]\n"
    assert shown_errors(maven, "/w", no_source) == "[ERROR] Plugin a:b:1 not found"
    crashed = 'Exception in thread "main" java.lang.InternalError: a fault'
    assert shown_errors(f"noise\n{crashed}\n", "/w", no_source) == crashed
    assert shown_errors("some\nlast words\n", "/w", no_source) == "some\nlast words"
