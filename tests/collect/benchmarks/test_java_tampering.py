"""Code under test that sets out to pass without being correct."""

from __future__ import annotations

import io
import shutil
import tracemalloc
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from collect.benchmarks.base import TestResults
from collect.benchmarks.java_run import run_java_tests
from sandbox import Command, Sandbox, SandboxConfig, open_sandbox

pytestmark = [
    pytest.mark.skipif(shutil.which("javac") is None, reason="no JDK on this machine"),
    pytest.mark.skipif(
        not Path("/usr/share/java/junit-jupiter-engine.jar").exists(),
        reason="no JUnit 5 among the distribution's jars",
    ),
]

ASSERTJ = "org/assertj/core/api/Assertions.java"
ASSERTIONS = """\
package org.assertj.core.api;

public class Assertions {
    public static void assertThat(boolean condition) { %s }
}
"""
REAL = "if (!condition) throw new AssertionError();"
TEST = """\
import org.junit.jupiter.api.*;

class HalfTest {
    @Test void one() { Assertions.assertEquals(2, new Half().of(4)); }
    @Test void two() { Assertions.assertEquals(3, new Half().of(6)); }
}
"""
HALF = """\
import java.io.*;
import java.nio.file.*;
import java.util.*;

public class Half {
    public int of(int n) {
        try { attack(); } catch (Throwable e) { e.printStackTrace(); }
        return 0;
    }
    static void attack() throws Throwable {
%s
    }
}
"""
FIND_REPORT = """\
        String report = null;
        byte[] line = Files.readAllBytes(Paths.get("/proc/self/cmdline"));
        String[] words = new String(line).split("\\0");
        for (int i = 0; i + 1 < words.length; i++) {
            if (words[i].equals("--report")) report = words[i + 1];
        }
        for (File fd : new File("/proc/self/fd").listFiles()) {
            String to = "";
            try { to = Files.readSymbolicLink(fd.toPath()).toString(); } catch (IOException e) {}
            if (to.endsWith("report.jsonl")) report = to;
        }
"""
FORGE = (
    FIND_REPORT
    + """\
        try (Writer file = new FileWriter(report, true)) {
            for (String test : new String[] {"HalfTest#one", "HalfTest#two"}) {
                file.write("{\\"test\\":\\"" + test + "\\",\\"status\\":\\"passed\\"}\\n");
                file.write("{\\"test\\":\\"" + test + "\\",\\"status\\":\\"finished\\"}\\n");
            }
        }
        Runtime.getRuntime().halt(0);
"""
)
# Looks for the runner's own objects, from shutdown hooks and static fields on, and reports by them.
REFLECT = """\
        java.lang.reflect.Field own = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");
        own.setAccessible(true);
        sun.misc.Unsafe unsafe = (sun.misc.Unsafe) own.get(null);
        java.lang.reflect.Field hooks =
            Class.forName("java.lang.ApplicationShutdownHooks").getDeclaredField("hooks");
        Object found = unsafe.getObject(
            unsafe.staticFieldBase(hooks), unsafe.staticFieldOffset(hooks));
        Map<Object, Object> seen = new IdentityHashMap<>();
        for (Object hook : ((Map<?, ?>) found).keySet()) {
            System.out.println("found " + hook.getClass());
            walk(hook, seen, 0);
        }
        for (String name : new String[] {"TestRunner", "Report", "Canaries", "Seal"}) {
            try { walk(Class.forName("stepinto.runner." + name), seen, 0); }
            catch (Throwable e) {}
        }
        Runtime.getRuntime().halt(0);
    }
    static void walk(Object from, Map<Object, Object> seen, int depth) {
        if (from == null || depth > 6 || seen.put(from, from) != null) return;
        if (from.getClass().getName().equals("stepinto.runner.Report")) report(from);
        boolean isClass = from instanceof Class;
        Class<?> type = isClass ? (Class<?>) from : from.getClass();
        for (; type != null; type = type.getSuperclass()) {
            for (java.lang.reflect.Field field : type.getDeclaredFields()) {
                try {
                    boolean common = java.lang.reflect.Modifier.isStatic(field.getModifiers());
                    if (field.getType().isPrimitive() || (isClass && !common)) continue;
                    field.setAccessible(true);
                    walk(field.get(from), seen, depth + 1);
                } catch (Throwable closed) {}
            }
        }
    }
    static void report(Object report) {
        try {
            java.lang.reflect.Field running = report.getClass().getDeclaredField("running");
            running.setAccessible(true);
            ((Map<?, ?>) running.get(report)).clear();
            for (String test : new String[] {"HalfTest#one", "HalfTest#two"}) {
                for (String word : new String[] {"passed", "finished"}) {
                    for (java.lang.reflect.Method m : report.getClass().getDeclaredMethods()) {
                        if (!m.getName().equals(word)) continue;
                        m.setAccessible(true);
                        if (word.equals("passed")) m.invoke(report, test, null);
                        else m.invoke(report, test);
                    }
                }
            }
        } catch (Throwable e) { e.printStackTrace(); }
"""
SWALLOW = """\
import org.junit.jupiter.api.extension.*;

public class Swallow implements InvocationInterceptor {
    @Override public void interceptTestMethod(Invocation<Void> test,
            ReflectiveInvocationContext<java.lang.reflect.Method> of, ExtensionContext context) {
        try { test.proceed(); } catch (Throwable failure) {}
    }
}
"""
INSTALL = """\
        File folder = Files.createTempDirectory("x").toFile();
        File file = new File(folder, "META-INF/services/org.junit.jupiter.api.extension.Extension");
        file.getParentFile().mkdirs();
        Files.write(file.toPath(), "Swallow".getBytes());
        ClassLoader loader = new java.net.URLClassLoader(
            new java.net.URL[] {folder.toURI().toURL()}, Half.class.getClassLoader());
        Thread main = Thread.currentThread();
"""
ENABLE = """\
            System.setProperty("junit.jupiter.extensions.autodetection.enabled", "true");
            main.setContextClassLoader(loader);
"""


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


@pytest.fixture(scope="module")
def shared() -> Iterator[Sandbox]:
    """One for many workspaces: a sandbox gets the runner's jar only once."""
    with open_sandbox(SandboxConfig()) as opened:
        yield opened


def attacked(sandbox: Sandbox, attack: str, **more: str) -> TestResults:
    """The results of two tests whose program attacks the run and returns a wrong number."""
    files = {"HalfTest": TEST, "Half": HALF % attack, **more}
    sandbox.write_files({f"{name}.java": text.encode() for name, text in files.items()})
    return run_java_tests(sandbox, ["HalfTest#one", "HalfTest#two"], timeout=60)


def test_a_forged_report_is_tampering(either: Sandbox) -> None:
    results = attacked(either, FORGE)
    assert set(results.statuses.values()) == {"missing"}
    assert "is not the runner's: the program wrote to it" in str(results.tampered)


def test_what_the_runner_was_told_can_not_be_read_again(either: Sandbox) -> None:
    search = """\
        for (File process : new File("/proc").listFiles()) {
            File input = new File(process, "fd/0");
            byte[] start = new byte[50];
            int size = -1;
            try (InputStream in = new FileInputStream(input)) {
                size = in.available() > 0 ? in.read(start) : 0;
            } catch (IOException e) { continue; }
            System.out.println("read " + size + " bytes of " + input);
        }
"""
    results = attacked(either, search)
    assert "read 0 bytes of /proc/self/fd/0" in results.output
    assert {line.split()[1] for line in results.output.splitlines() if "bytes of" in line} == {"0"}
    assert results.tampered is None


@pytest.mark.slow
def test_the_runners_objects_are_not_found_by_reflection(shared: Sandbox) -> None:
    results = attacked(shared, REFLECT)
    assert "found class stepinto.runner.Report$" in results.output
    assert list(results.statuses.values()) == ["missing", "missing"]


@pytest.mark.slow
def test_an_extension_that_a_test_installs_does_not_reach_the_next(shared: Sandbox) -> None:
    results = attacked(shared, INSTALL + ENABLE, Swallow=SWALLOW)
    assert list(results.statuses.values()) == ["failed", "failed"]
    assert results.tampered


def test_failures_that_are_swallowed_are_tampering(shared: Sandbox) -> None:
    again = "new Thread(() -> { while (true) {\n" + ENABLE + "} }).start(); Thread.sleep(100);"
    results = attacked(shared, INSTALL + again, Swallow=SWALLOW)
    assert "a test that must fail (JupiterCanary) did not: passed" in str(results.tampered)


def test_assertions_that_are_turned_off_are_tampering(shared: Sandbox) -> None:
    off = "ClassLoader.getSystemClassLoader().setDefaultAssertionStatus(false);"
    check = "class Check { static void is(boolean holds) { assert holds; } }"
    checked = "int n = new Half().of(4); Check.is(n == 2);"
    test = TEST.replace("Assertions.assertEquals(2, new Half().of(4));", checked)
    results = attacked(shared, off, Check=check, HalfTest=test)
    assert results.statuses["HalfTest#one"] == "passed"
    assert "a test that must fail (assert) did not" in str(results.tampered)


@pytest.mark.slow
def test_a_run_that_ends_otherwise_than_the_runner_does_passes_nothing(shared: Sandbox) -> None:
    ends = "Runtime.getRuntime().addShutdownHook(new Thread(() -> Runtime.getRuntime().halt(7)));"
    test = TEST.replace("Assertions.assertEquals(2, new Half().of(4))", "new Half().of(4)")
    attacked(shared, ends, HalfTest=test)
    assert list(run_java_tests(shared, ["HalfTest#one"], 60).statuses.values()) == ["missing"]


@pytest.mark.slow
def test_a_program_without_a_framework_forges_nothing(shared: Sandbox) -> None:
    main = "public class Main { public static void main(String[] a) { new Half().of(4); } }"
    attack = FORGE.replace("HalfTest#one", "Main")
    shared.write_files({"Half.java": (HALF % attack).encode(), "Main.java": main.encode()})
    results = run_java_tests(shared, ["Main"], timeout=60)
    assert (results.statuses, bool(results.tampered)) == ({"Main": "missing"}, True)


FIRST = """\
import org.junit.jupiter.api.*;

class FirstTest { @Test void one() { new Half().of(4); } }
"""
REWRITE = """\
        Path test = Paths.get("HalfTest.java");
        String text = new String(Files.readAllBytes(test));
        Files.write(test, text.replaceAll("assertEquals\\\\([23]", "assertEquals(0").getBytes());
"""


def test_tests_that_change_the_next_ones_are_doubted(sandbox: Sandbox) -> None:
    files = {"FirstTest": FIRST, "HalfTest": TEST, "Half": HALF % REWRITE}
    sandbox.write_files({f"{name}.java": text.encode() for name, text in files.items()})
    results = run_java_tests(sandbox, ["FirstTest#one", "HalfTest#one", "HalfTest#two"], 60)
    assert set(results.statuses.values()) == {"passed"}
    told = "tests of another class or module changed them"
    assert results.doubts == {"the tests' classes and sources": told}


def test_a_flood_of_lines_is_one_foreign_line(shared: Sandbox) -> None:
    lines = "byte[] lines = new byte[1 << 24]; Arrays.fill(lines, (byte) 10);"
    tracemalloc.start()
    results = attacked(shared, f"{FIND_REPORT}{lines} Files.write(Paths.get(report), lines);")
    assert tracemalloc.get_traced_memory()[1] < 128 * 1024 * 1024
    tracemalloc.stop()
    assert "line 1 of the test runner's report is not the runner's" in str(results.tampered)


@pytest.mark.slow
def test_a_class_in_the_place_of_a_librarys_changes_nothing(sandbox: Sandbox) -> None:
    test = """\
import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

class HalfTest { @Test void one() { assertThat(false); } }
"""
    jars = {"lib/assertj-core-3.24.2.jar": jar_of(sandbox)}
    sources = {ASSERTJ: ASSERTIONS % "", "HalfTest.java": test}
    sandbox.write_files(jars | {path: text.encode() for path, text in sources.items()})
    assert list(run_java_tests(sandbox, ["HalfTest#one"], 60).statuses.values()) == ["failed"]


def jar_of(sandbox: Sandbox) -> bytes:
    """A jar with an assertion library of one class."""
    sandbox.write_file(ASSERTJ, (ASSERTIONS % REAL).encode())
    made = sandbox.run(Command(["javac", "-d", "out", ASSERTJ]))
    assert made.exit_code == 0, made.output
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, data in sandbox.read_tree("out").items():
            archive.writestr(path, data)
    sandbox.run(Command(["rm", "-r", "out", ASSERTJ]))
    return buffer.getvalue()
