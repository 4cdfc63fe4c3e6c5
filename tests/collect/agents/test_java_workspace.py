"""A Java project in an agent's shell: it builds and tests, also where nothing may be edited yet."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from collect.agents.file_tools import (
    Bash,
    BashArguments,
    EditGate,
    Grep,
    GrepArguments,
    prepare_java_workspace,
)
from collect.agents.tools import ToolReply
from collect.store.records import ToolOutcome
from sandbox import Sandbox, SandboxConfig, open_sandbox

POM = b"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>shop</groupId>
  <artifactId>shop</artifactId>
  <version>1</version>
  <properties>
    <maven.compiler.source>1.8</maven.compiler.source>
    <maven.compiler.target>1.8</maven.compiler.target>
    <project.build.sourceEncoding>UTF-8</project.build.sourceEncoding>
  </properties>
  <dependencies>
    <dependency>
      <groupId>junit</groupId>
      <artifactId>junit</artifactId>
      <version>4.x</version>
      <scope>test</scope>
    </dependency>
  </dependencies>
</project>
"""
TEST = b"""\
package shop;

public class CartTest {
    @org.junit.Test
    public void total() {
        org.junit.Assert.assertEquals(3, 1 + 1);
    }
}
"""
FILES = {
    "pom.xml": POM,
    "src/test/java/shop/CartTest.java": TEST,
    "app/build.gradle": b"",
    "settings.gradle": b"include 'app'\n",
}
needs_maven = pytest.mark.skipif(shutil.which("mvn") is None, reason="there is no Maven here")


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with open_sandbox(SandboxConfig()) as opened:
        opened.write_files(FILES)
        prepare_java_workspace(opened)
        yield opened


def bash(sandbox: Sandbox, command: str, is_open: bool = False) -> ToolReply:
    return Bash(sandbox, 100.0, EditGate(is_open)).call(BashArguments(command=command), "1")


@needs_maven
@pytest.mark.parametrize("is_open", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_tests_run_while_the_gate_is_closed_and_leave_no_change(
    sandbox: Sandbox, is_open: bool
) -> None:
    before = sandbox.read_tree()
    reply = bash(sandbox, "mvn -q test", is_open)
    assert reply.outcome is ToolOutcome.ERROR
    assert "expected:<3> but was:<2>" in reply.text
    assert "\x1b" not in reply.text
    assert sandbox.read_tree() == before
    assert set(before) == set(FILES)


def test_edits_are_still_refused(sandbox: Sandbox) -> None:
    assert bash(sandbox, "touch src/x").outcome is ToolOutcome.REFUSED
    assert bash(sandbox, "touch target/x app/build/x .gradle/x").outcome is ToolOutcome.OK


@pytest.mark.slow
@pytest.mark.docker
def test_what_was_built_behind_the_gate_can_be_built_again(image: str) -> None:
    with open_sandbox(SandboxConfig(backend="docker", image=image)) as container:
        container.write_files(FILES)
        prepare_java_workspace(container)
        first = bash(container, "mkdir -p target/classes && touch target/classes/a && touch src/x")
        assert first.outcome is ToolOutcome.REFUSED
        again = bash(container, "rm target/classes/a && touch target/classes/b src/x", is_open=True)
        assert again.outcome is ToolOutcome.OK, again.text


def test_build_output_is_not_searched(sandbox: Sandbox) -> None:
    bash(sandbox, "echo needle >target/report.txt")
    assert Grep(sandbox).call(GrepArguments(pattern="needle"), "1").text == "No matches."


def test_a_second_time_changes_nothing(sandbox: Sandbox) -> None:
    listed = bash(sandbox, "ls -lR").text
    prepare_java_workspace(sandbox)
    assert bash(sandbox, "ls -lR").text == listed
