"""Java: launches beside a bare `java` with jdb attached to it."""

from __future__ import annotations

from benchmarks.debugger_speed.actions import MAIN_CLASS
from benchmarks.debugger_speed.measuring import Row, medians, seconds, stopped_at
from sandbox import Sandbox
from sandbox.debugger import BreakpointRequest, DebugLimits, Launch, jdb_parsing
from sandbox.debugger.channel import Json
from sandbox.debugger.java_session import JavaDebugger
from sandbox.debugger.jdb_launch import jdb_command
from sandbox.debugger.jdb_terminal import JdbLauncher
from sandbox.debugger.prompts import End, PromptTerminal
from sandbox.errors import DebuggerError

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
    target = JdbLauncher().target(sandbox, launch, LIMITS)
    file, line = launch.breakpoints[0].file or "", launch.breakpoints[0].line or 0
    spec = f"{launch.test.partition('#')[0]}:{line}"

    def ours() -> None:
        stopped_at(debugger.start(launch), file, line)

    works = {
        "ours": lambda: seconds(ours) * 1000,
        "jdb": lambda: seconds(lambda: _jdb_to_breakpoint(sandbox, target, spec)) * 1000,
    }
    found = medians(works, 3 if quick else 9, warm_up=1)
    debugger.close()
    note = "bare: java + jdb"
    what = f"Java, to a breakpoint {what}"
    return Row("launch", what, found["ours"], "ms", found["jdb"], LAUNCH_TARGET, note)


def _jdb_to_breakpoint(sandbox: Sandbox, target: Json, spec: str) -> None:
    """Start the same JVM suspended, attach jdb, set the breakpoint, and go there."""
    terminal = sandbox.spawn(jdb_command(sandbox, target, stdin=""))
    jdb = PromptTerminal(terminal, jdb_parsing.recognise)
    try:
        jdb.wait(60.0, running=True)
        jdb.ask(f"stop at {spec}", 60.0)
        reply = jdb.ask("cont", 60.0, running=True)
        if reply.end is not End.PROMPT or "Breakpoint hit" not in reply.text:
            raise DebuggerError(f"jdb did not stop at {spec}: {reply.text}")
    finally:
        jdb.close()
