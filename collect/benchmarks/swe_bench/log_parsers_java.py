"""Test logs of SWE-bench's Java repositories, read as upstream reads them (see `log_parsers`)."""

from __future__ import annotations

import re

from collect.benchmarks.base import TestStatus

MAVEN_COMMAND = re.compile(r".*-Dtest=(\S+)")
MAVEN_END = re.compile(r".*BUILD (SUCCESS|FAILURE)$")
ANT_RESULT = re.compile(r"\s*\[junit\]\s+\[(PASS|FAIL|ERR)\]\s+(.*)$")
GRADLE_RESULT = re.compile(r"([^>].+)\s+(PASSED|FAILED)$")
GRADLE_TEST = re.compile(r"[^>]\S*\s+>\s+\S+$")
PASSES = {"SUCCESS", "PASS", "PASSED"}


def parse_maven(log: str) -> dict[str, TestStatus]:
    """Maven does not name the tests that pass: there is a command a test, which the shell shows,
    and the end of each build; the two may come in any order, each among its own in order."""
    tests: list[str] = []
    statuses: dict[str, TestStatus] = {}
    early: list[TestStatus] = []
    for line in map(str.strip, log.split("\n")):
        named, ended = MAVEN_COMMAND.match(line), MAVEN_END.match(line)
        if named:
            tests.append(named[1])
        if ended and tests:
            statuses[tests.pop(0)] = _status(ended[1])
        elif ended:
            early.append(_status(ended[1]))
    return {**statuses, **dict(zip(tests, early, strict=False))}


def parse_ant(log: str) -> dict[str, TestStatus]:
    """`[junit] [PASS] test` a line."""
    found = (ANT_RESULT.match(line.strip()) for line in log.split("\n"))
    return {result[2]: _status(result[1]) for result in found if result}


def parse_gradle(log: str) -> dict[str, TestStatus]:
    """`Class > test PASSED` a line; what the test prints may come between, on lines of its own."""
    statuses: dict[str, TestStatus] = {}
    current: str | None = None
    for line in map(str.strip, log.split("\n")):
        whole = GRADLE_RESULT.match(line)
        if whole:
            statuses[whole[1]] = _status(whole[2])
            current = None
        elif GRADLE_TEST.match(line):
            current = line
        elif current is not None and line in ("PASSED", "FAILED"):
            statuses[current] = _status(line)
            current = None
    return statuses


def _status(word: str) -> TestStatus:
    return TestStatus.PASSED if word in PASSES else TestStatus.FAILED
