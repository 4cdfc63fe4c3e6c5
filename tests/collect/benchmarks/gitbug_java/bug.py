"""A made-up bug of a small Maven project: its clone, and its record in GitBug-Java's schema."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from collect.code.patches import diff_trees

POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>made</groupId><artifactId>counter</artifactId><version>1</version>
  <properties>
    <maven.compiler.source>1.8</maven.compiler.source>
    <maven.compiler.target>1.8</maven.compiler.target>
  </properties>
  <dependencies><dependency>
    <groupId>org.junit.jupiter</groupId><artifactId>junit-jupiter</artifactId>
    <version>5.9.2</version><scope>test</scope>
  </dependency></dependencies>
</project>
"""
SOURCE, TEST = "src/main/java/made/Counter.java", "src/test/java/made/CounterTest.java"
PROGRAM = (
    "package made;\nclass Counter {{\n    int next(int n) {{\n        return {};\n    }}\n}}\n"
)
TESTS = """\
package made;
import static org.junit.jupiter.api.Assertions.assertEquals;
import org.junit.jupiter.api.*;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
class CounterTest {
    @Test void starts() { assertEquals(1, new Counter().next(0)); }
    @Test @Disabled void later() { }
"""
MORE = """\
    @ParameterizedTest @ValueSource(ints = {0, 5}) void counts(int n) {
        assertEquals(n + 1, new Counter().next(n));
    }
"""
BEFORE = {
    "pom.xml": POM,
    SOURCE: PROGRAM.format("1"),
    TEST: TESTS + "}\n",
    ".gitignore": "target\n",
}
BUGGY = {**BEFORE, TEST: TESTS + MORE + "}\n", "notes.md": "New notes.\n"}
CORRECT = {**BUGGY, SOURCE: PROGRAM.format("n + 1")}


def make_clone(folder: Path) -> tuple[str, str]:
    """The clone of `made/counter`; the fix's commit, and the one before."""
    clone = folder / "made-counter"
    clone.mkdir(parents=True)
    _git(clone, "init", "-q")
    commits = [_commit(clone, tree) for tree in (BEFORE, CORRECT)]
    return commits[1], commits[0]


def record(fix: str, before: str, **changes: Any) -> dict[str, Any]:
    """The bug's record."""
    row = {
        "repository": "made/counter",
        "language": "java",
        "clone_url": "https://github.com/made/counter.git",
        "commit_hash": fix,
        "commit_message": "Count on from the number",
        "previous_commit_hash": before,
        "bug_patch": _diff(BUGGY, CORRECT),
        "test_patch": _diff({TEST: BEFORE[TEST]}, {TEST: BUGGY[TEST]}),
        "non_code_patch": _diff({}, {"notes.md": BUGGY["notes.md"]}),
        "strategy": "PASS_PASS",
        "issues": [
            {"id": 3, "title": "It stops at 1", "body": "Always.", "is_pull_request": False},
            {"id": 4, "title": "Fix it", "body": "By n + 1", "is_pull_request": True},
        ],
        "actions_runs": [
            _run({"starts": "Passed", "later()": "Skipped"}),
            _run({**RAN, "counts(int)[2]": "Failure"}),
            _run(RAN),
        ],
    }
    return {**row, **changes}


RAN = {
    "starts": "Passed",
    "later": "Skipped",
    "counts(int)[1]": "Passed",
    "counts(int)[2]": "Passed",
}


def _run(results: Mapping[str, str]) -> list[dict[str, Any]]:
    tests = [
        {
            "classname": "made.CounterTest",
            "name": name,
            "time": 0.1,
            "results": [{"result": result, "message": "expected 6", "type": "AssertionError"}],
            "stdout": None,
            "stderr": None,
        }
        for name, result in results.items()
    ]
    return [{"failed": False, "tests": tests, "workflow": {}, "build_tool": "maven"}]


def _diff(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    return diff_trees(
        {path: text.encode() for path, text in before.items()},
        {path: text.encode() for path, text in after.items()},
    )


def _commit(clone: Path, tree: Mapping[str, str]) -> str:
    for path, text in tree.items():
        (clone / path).parent.mkdir(parents=True, exist_ok=True)
        (clone / path).write_text(text)
    _git(clone, "add", "-A")
    _git(clone, "commit", "-q", "-m", "a commit")
    return _git(clone, "rev-parse", "HEAD").strip()


def _git(clone: Path, *arguments: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    return subprocess.check_output(["git", *who, *arguments], cwd=clone, text=True)
