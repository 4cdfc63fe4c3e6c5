from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from collect.benchmarks import java_run
from collect.benchmarks.base import TestStatus
from collect.benchmarks.java_run import run_java_tests, steers_tests
from sandbox import Sandbox, SandboxConfig, open_sandbox
from sandbox.base import JavaConfig
from sandbox.errors import SandboxUnavailable
from sandbox.java import project
from sandbox.java.build import built_test

pytestmark = [
    pytest.mark.skipif(shutil.which("javac") is None, reason="no JDK on this machine"),
    pytest.mark.skipif(
        not Path("/usr/share/java/junit-jupiter-engine.jar").exists(),
        reason="no JUnit 5 among the distribution's jars",
    ),
]

STATUSES = """\
package demo;

import static org.junit.jupiter.api.Assertions.*;
import org.junit.jupiter.api.*;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class AllTest {
    @Test void passes() {}
    @Test void fails() { assertEquals(1, 2); }
    @Test void raises() { throw new IllegalStateException(); }
    @Test @Disabled void disabled() {}
    @Test void assumes() { Assumptions.assumeTrue(false); }
    @ParameterizedTest @ValueSource(ints = {1, 2, 3}) void allPass(int n) { assertTrue(n > 0); }
    @ParameterizedTest @ValueSource(ints = {1, 2, 3}) void onePasses(int n) { assertEquals(1, n); }

    @Nested class Inner {
        @Test void passes() {}
    }
}
"""
ENDLESS = "endless() throws InterruptedException { while (true) Thread.sleep(1000); }"
BEFORE_ALL = """\
package demo;

import org.junit.jupiter.api.*;

class BrokenTest {
    @BeforeAll static void open() { throw new IllegalStateException("no"); }
    @Test void passes() {}
    @Nested class Inner {
        @Test void passes() {}
    }
}
"""


@pytest.fixture(scope="module")
def shared() -> Iterator[Sandbox]:
    """One for many workspaces: a sandbox gets the runner's jar only once."""
    with open_sandbox(SandboxConfig()) as opened:
        yield opened


@pytest.fixture(
    params=["local", pytest.param("docker", marks=[pytest.mark.docker, pytest.mark.slow])]
)
def either(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    config = SandboxConfig()
    if request.param == "docker":
        image = str(request.getfixturevalue("java_image"))
        config = SandboxConfig(backend="docker", image=image)
    with open_sandbox(config) as opened:
        yield opened


def run(sandbox: Sandbox, files: dict[str, str], *tests: str, timeout: float = 60) -> list[str]:
    sandbox.write_files({path: text.encode() for path, text in files.items()})
    return list(run_java_tests(sandbox, tests, timeout).statuses.values())


def junit(name: str, *methods: str) -> dict[str, str]:
    """A test class of JUnit 5; a method is its name and body."""
    tests = "".join(f"    @Test void {method}\n" for method in methods)
    text = f"import org.junit.jupiter.api.*;\n\nclass {name} {{\n{tests}}}\n"
    return {f"{name}.java": text}


def test_every_status(either: Sandbox) -> None:
    expected = {
        "demo.AllTest#passes": TestStatus.PASSED,
        "demo.AllTest#fails": TestStatus.FAILED,
        "demo.AllTest#raises": TestStatus.FAILED,
        "demo.AllTest#disabled": TestStatus.SKIPPED,
        "demo.AllTest#assumes": TestStatus.SKIPPED,
        "demo.AllTest#allPass": TestStatus.PASSED,
        "demo.AllTest#onePasses": TestStatus.FAILED,
        "demo.AllTest#unknown": TestStatus.MISSING,
        "demo.AllTest$Inner#passes": TestStatus.PASSED,
        "demo.BrokenTest#passes": TestStatus.FAILED,
        "demo.BrokenTest$Inner#passes": TestStatus.FAILED,
        "demo.NoTest#passes": TestStatus.MISSING,
        "AllTest#passes": TestStatus.MISSING,
    }
    sources = {"demo/AllTest.java": STATUSES, "demo/BrokenTest.java": BEFORE_ALL}
    either.write_files({path: text.encode() for path, text in sources.items()})
    before = either.read_tree()
    results = run_java_tests(either, list(expected), timeout=60)
    assert results.statuses == expected
    assert not results.timed_out
    assert "there is no test demo.NoTest" in results.output
    assert either.read_tree() == before


def test_what_does_not_compile_is_missing_and_told(sandbox: Sandbox) -> None:
    files = junit("ATest", "one() { int n = total; }")
    sandbox.write_files({path: text.encode() for path, text in files.items()})
    results = run_java_tests(sandbox, ["ATest#one", "ATest#two"], timeout=60)
    assert list(results.statuses.values()) == ["missing", "missing"]
    assert results.not_loaded == {"ATest#one": "ATest", "ATest#two": "ATest"}
    assert results.build_failure is None
    assert "ATest.java:4" in results.output
    assert "total" in results.output


def test_a_build_that_takes_too_long_may_be_the_patchs_fault(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java_run, "built_test", partial(built_test, timeout=0))
    monkeypatch.setattr(project, "LEAST", 0.05)  # no JVM starts as fast
    files = junit("ATest", "one() {}")
    sandbox.write_files({path: text.encode() for path, text in files.items()})
    results = run_java_tests(sandbox, ["ATest#one"], timeout=60)
    assert list(results.statuses.values()) == ["missing"]
    assert "still at it at the time-out" in str(results.build_failure)


@pytest.mark.slow
def test_a_class_that_does_not_compile_leaves_the_others_alone(sandbox: Sandbox) -> None:
    files = junit("ATest", "one() {}") | junit("BTest", "two() { int n = total; }")
    files |= junit("CTest", "three() {}")
    tests = ["ATest#one", "BTest#two", "CTest#three"]
    assert run(sandbox, files, *tests) == ["passed", "missing", "passed"]


@pytest.mark.slow
def test_a_time_out_keeps_what_ended_before_it(sandbox: Sandbox) -> None:
    files = junit("ATest", "first() {}", ENDLESS, "last() {}")
    sandbox.write_files({path: text.encode() for path, text in files.items()})
    tests = ["ATest#first", "ATest#endless", "ATest#last"]
    results = run_java_tests(sandbox, tests, timeout=15)
    assert results.timed_out
    assert list(results.statuses.values()) == ["passed", "missing", "missing"]


@pytest.mark.slow
def test_a_program_that_ends_the_jvm_or_prints_a_verdict_fakes_none(shared: Sandbox) -> None:
    fake = r"{\"test\": \"FakeTest#one\", \"status\": \"passed\"}"
    files = junit(
        "FakeTest",
        f'one() {{ System.out.println("{fake}"); Runtime.getRuntime().halt(0); }}',
        f'two() {{ System.out.println("{fake}"); System.exit(0); }}',
    )
    assert run(shared, files, "FakeTest#one") == ["missing"]
    assert run(shared, files, "FakeTest#two") == ["failed"]


def test_an_invocation_that_never_came_is_no_pass(shared: Sandbox) -> None:
    text = """\
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class HaltTest {
    @ParameterizedTest @ValueSource(ints = {1, 2})
    void halts(int n) { if (n == 2) Runtime.getRuntime().halt(0); }
}
"""
    assert run(shared, {"HaltTest.java": text}, "HaltTest#halts") == ["missing"]


@pytest.mark.slow
def test_no_class_of_the_workspace_stands_in_for_runner_or_framework(sandbox: Sandbox) -> None:
    harmless = "public static void assertTrue(boolean condition) {}"
    files = {
        "org/junit/jupiter/api/Assertions.java": (
            f"package org.junit.jupiter.api;\n\npublic class Assertions {{ {harmless} }}\n"
        ),
        "stepinto/runner/TestRunner.java": (
            "package stepinto.runner;\n\npublic class TestRunner {\n"
            "    public static void main(String[] arguments) {}\n}\n"
        ),
        **junit("ATest", "one() { Assertions.assertTrue(false); }"),
    }
    assert run(sandbox, files, "ATest#one") == ["failed"]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("if (new Half().of(4) != 2) throw new AssertionError();", "passed"),
        pytest.param(
            *("if (new Half().of(4) != 3) throw new AssertionError();", "failed"),
            marks=pytest.mark.slow,
        ),
        pytest.param("System.exit(0);", "failed", marks=pytest.mark.slow),
        pytest.param("Runtime.getRuntime().halt(0);", "missing", marks=pytest.mark.slow),
    ],
)
def test_a_program_that_checks_itself(shared: Sandbox, body: str, expected: str) -> None:
    main = f"public static void main(String[] a) {{ {body} }}"
    files = {
        "Half.java": "class Half { int of(int n) { return n / 2; } }\n",
        "Main.java": f"public class Main {{ {main} }}\n",
    }
    assert run(shared, files, "Main") == [expected]


@pytest.mark.slow
def test_classes_are_never_stale(sandbox: Sandbox) -> None:
    files = {"Count.java": "class Count { static int n() { return 1; } }\n"}
    files |= junit("ATest", "one() { Assertions.assertEquals(1, Count.n()); }")
    assert run(sandbox, files, "ATest#one") == ["passed"]
    assert run(sandbox, {"Count.java": files["Count.java"].replace("1", "2")}, "ATest#one") == [
        "failed"
    ]
    assert run(sandbox, {"Count.java": "class Other {}\n"}, "ATest#one") == ["missing"]


def test_no_tests_run_nothing(sandbox: Sandbox) -> None:
    assert run(sandbox, {}) == []


def test_a_sandbox_without_a_jdk_is_named() -> None:
    config = SandboxConfig(java=JavaConfig(java_home="/nowhere"))
    with open_sandbox(config) as opened, pytest.raises(SandboxUnavailable, match="no Java in"):
        run(opened, junit("ATest", "one() {}"), "ATest#one")


@pytest.mark.parametrize(
    ("path", "steers"),
    [
        ("pom.xml", True),
        ("core/build.gradle.kts", True),
        ("lib/evil.jar", True),
        ("src/main/resources/junit-platform.properties", True),
        ("src/main/resources/META-INF/services/javax.annotation.processing.Processor", True),
        ("src/main/resources/META-INF/services/shop.Tax", False),
        ("src/main/java/shop/Build.java", False),
    ],
)
def test_what_steers_tests(path: str, steers: bool) -> None:
    assert steers_tests(path) is steers
