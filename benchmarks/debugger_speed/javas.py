"""Java: launches beside jdb's own."""

from __future__ import annotations

import posixpath
import time

from benchmarks.debugger_speed.actions import MAIN_CLASS
from benchmarks.debugger_speed.measuring import Row, medians, seconds, stopped_at
from sandbox import Command, Sandbox
from sandbox.debugger import BreakpointRequest, DebugLimits, Launch
from sandbox.debugger.java_session import JavaDebugger, launch_target
from sandbox.errors import DebuggerError
from sandbox.java.build import built_test
from sandbox.java.jdk import find_jdk

LIMITS = DebugLimits(start_timeout=300)
LAUNCH_TARGET = 1.3
TEST = "demo.CartTest#testTotal"
TEST_FILE, TEST_LINE = "src/test/java/demo/CartTest.java", 10
TEST_SOURCE = b"""\
package demo;

import static org.junit.Assert.assertEquals;
import org.junit.Test;

public class CartTest {
    @Test
    public void testTotal() {
        int price = 3;
        int total = price + 4;
        assertEquals(7, total);
    }
}
"""
POM = b"""\
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>demo</groupId><artifactId>cart</artifactId><version>1</version>
  <properties>
    <maven.compiler.source>8</maven.compiler.source>
    <maven.compiler.target>8</maven.compiler.target>
    <project.build.sourceEncoding>UTF-8</project.build.sourceEncoding>
  </properties>
  <dependencies>
    <dependency>
      <groupId>junit</groupId><artifactId>junit</artifactId><version>4.x</version>
      <scope>test</scope>
    </dependency>
  </dependencies>
</project>
"""
PLAIN_PROJECT = {MAIN_CLASS.file: MAIN_CLASS.source}
MAVEN_PROJECT = {"pom.xml": POM, TEST_FILE: TEST_SOURCE}


def program_launches(sandbox: Sandbox, quick: bool) -> Row:
    """To the first breakpoint in a main class, built already."""
    point = BreakpointRequest(file=MAIN_CLASS.file, line=MAIN_CLASS.loop_line)
    launch = Launch(MAIN_CLASS.test, (point,), stop_at_entry=False)
    return _launches(sandbox, launch, "in a program", quick)


def test_launches(sandbox: Sandbox, quick: bool) -> Row:
    """To the first breakpoint in a JUnit test of a Maven project, built already."""
    point = BreakpointRequest(file=TEST_FILE, line=TEST_LINE)
    launch = Launch(TEST, (point,), stop_at_entry=False)
    return _launches(sandbox, launch, "in a JUnit 4 test (Maven)", quick)


def _launches(sandbox: Sandbox, launch: Launch, what: str, quick: bool) -> Row:
    debugger = JavaDebugger(sandbox, LIMITS)
    command = _jdb_command(sandbox, launch)
    file, line = launch.breakpoints[0].file or "", launch.breakpoints[0].line or 0
    spec = f"{launch.test.partition('#')[0]}:{line}"

    def ours() -> None:
        stopped_at(debugger.start(launch), file, line)

    works = {
        "ours": lambda: seconds(ours) * 1000,
        "jdb": lambda: seconds(lambda: _jdb_to_breakpoint(sandbox, command, spec)) * 1000,
    }
    found = medians(works, 3 if quick else 9, warm_up=1)
    debugger.close()
    note = "bare: jdb"
    what = f"Java, to a breakpoint {what}"
    return Row("launch", what, found["ours"], "ms", found["jdb"], LAUNCH_TARGET, note)


def _jdb_command(sandbox: Sandbox, launch: Launch) -> Command:
    """jdb on the same program, which it runs in a JVM of its own."""
    jdk = find_jdk(sandbox)
    found, project = built_test(sandbox, launch.test, LIMITS.build_timeout)
    target = launch_target(sandbox, jdk, found, project)
    java, *words = target["command"]
    at = words.index("-cp")
    argv = [
        posixpath.join(posixpath.dirname(java), "jdb"),
        *("-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC", "-J-Xshare:auto"),
        # All that jdb passes on: without `-ea` the program runs no slower.
        *(word for word in words[:at] if word.startswith("-X")),
        *("-classpath", *words[at + 1 :]),
    ]
    return Command(argv, cwd=target["cwd"], env=target["env"])


def _jdb_to_breakpoint(sandbox: Sandbox, command: Command, spec: str) -> None:
    """Start jdb, set the breakpoint, start the program, and go there. Raises DebuggerError."""
    terminal = sandbox.spawn(command)
    deadline = time.monotonic() + 60.0
    try:
        terminal.send_line(f"stop at {spec}\nrun".encode())
        while (line := terminal.read_line(deadline - time.monotonic())) is not None:
            if b"Breakpoint hit" in line:
                return
        raise DebuggerError(f"jdb did not stop at {spec} within 60 s")
    finally:
        terminal.close()
