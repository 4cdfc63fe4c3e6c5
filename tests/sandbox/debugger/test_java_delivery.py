"""The Java probe's jar: made once, delivered whole, repaired if a program spoils it."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox import Command, SandboxConfig, open_sandbox
from sandbox.debugger import StopReason
from sandbox.debugger.java_session import deliver_probe, probe_jar
from sandbox.environment import cache_folder
from sandbox.java.jdk import find_jdk
from tests.sandbox.debugger.java_bench import JavaBench
from tests.sandbox.java.conftest import require_program


@pytest.mark.slow
def test_compiled_once_for_a_jdk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    require_program("javac")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with open_sandbox(SandboxConfig()) as box:
        jar = probe_jar(box, find_jdk(box))
        assert box.read_tree() == {}, "the probe is compiled elsewhere"
        (kept,) = cache_folder().glob("probe-*.jar")
        assert kept.read_bytes() == jar
        written = kept.stat().st_mtime_ns
        assert probe_jar(box, find_jdk(box)) == jar
        assert kept.stat().st_mtime_ns == written
    names = zipfile.ZipFile(io.BytesIO(jar)).namelist()
    assert {"stepinto/probe/Main.class", "stepinto/runner/TestRunner.class"} <= set(names)
    assert all(name.startswith("stepinto/") for name in names)


@pytest.mark.slow
def test_a_cache_that_can_not_be_written_is_only_slower(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    require_program("javac")
    (tmp_path / "file").write_text("")
    kept = cache_folder()
    with open_sandbox(SandboxConfig()) as box:
        jar = probe_jar(box, find_jdk(box))
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
        assert cache_folder() != kept
        assert probe_jar(box, find_jdk(box)) == jar


@pytest.mark.slow
def test_a_program_that_spoils_the_jar_is_debugged_all_the_same(
    open_java_bench: Callable[..., JavaBench],
) -> None:
    bench = open_java_bench()
    for spoil in ('echo "spoilt" >>"$0"', 'rm -f "$0"'):
        event = bench.main("int here = 1;  // @here\nSystem.out.println(here);", "here")
        assert event.stop_reason is StopReason.BREAKPOINT, event.error
        jar = deliver_probe(bench.sandbox, find_jdk(bench.sandbox))
        assert bench.sandbox.run(Command(["sh", "-c", spoil, jar])).exit_code == 0
        event = bench.debugger.restart()
        assert event.stop_reason is StopReason.BREAKPOINT, event.error


SPOIL = """\
for (java.io.File jar : new java.io.File("/tmp").listFiles((f, n) -> n.endsWith(".jar"))) {
    java.nio.charset.Charset bytes = java.nio.charset.StandardCharsets.ISO_8859_1;
    String text = new String(java.nio.file.Files.readAllBytes(jar.toPath()), bytes);
    java.io.RandomAccessFile file = new java.io.RandomAccessFile(jar, "rw");
    file.write(text.replace("there is no expression", "what the program tells").getBytes(bytes));
    System.out.println("spoilt");
}
int here = 1; // @here"""


def test_what_a_program_writes_to_the_jar_is_not_run(java_bench: JavaBench) -> None:
    assert java_bench.main(SPOIL, "here").output == "spoilt\n"
    event = java_bench.debugger.evaluate(";")
    assert event.error == "there is no expression; write one"


PLUGIN = """
    public class Plugged implements com.sun.source.util.Plugin {
        public String getName() { return "plugged"; }
        public boolean autoStart() { return true; }
        public void init(com.sun.source.util.JavacTask task, String... arguments) {
            try {
                new java.io.File("/tmp/plugged").createNewFile();
            } catch (java.io.IOException error) {
            }
        }
    }
"""


def test_no_plugin_of_the_program_runs_in_the_compiler_of_snippets(java_bench: JavaBench) -> None:
    service = "META-INF/services/com.sun.source.util.Plugin"
    java_bench.write({"Plugged.java": PLUGIN, service: "Plugged\n"})
    java_bench.main("List<Integer> numbers = Arrays.asList(3);\nint here = 1; // @here", "here")
    assert java_bench.text_of("numbers.stream().mapToInt(n -> n + 1).sum()") == "4"
    assert java_bench.sandbox.run(Command(["test", "-e", "/tmp/plugged"])).exit_code == 1
