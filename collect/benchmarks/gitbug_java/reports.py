"""JUnit's XML reports, which Maven and Gradle write: what GitBug-Java's expectations come from."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree

from collect.benchmarks.base import TestStatus
from collect.benchmarks.gitbug_java.records import test_id, worst
from sandbox import Command, Sandbox
from sandbox.errors import SandboxFileError
from sandbox.scratch import scratch_folder

FAILURES = ("failure", "error")
_PLACES = r"""
places() {
    find -L . -type f \( -path '*/target/surefire-reports/*.xml' \
        -o -path '*/target/failsafe-reports/*.xml' -o -path '*/build/test-results/*.xml' \) "$@"
}
"""
_REMOVE = (
    _PLACES
    + r"""
places -exec rm -f {} +
left=$(places | head -n 3)
[ -z "$left" ] || { echo "$left"; exit 1; }
"""
)
"""Looks at what is left: `find -L` fails of a loop of links, too."""
_GATHER = (
    _PLACES
    + r"""
mkdir -p "$1" && number=0
places | while read -r file; do
    number=$((number + 1)); cp "$file" "$1/$number.xml"
done
"""
)


def remove_reports(sandbox: Sandbox) -> None:
    """Take away what earlier runs have left. Raises SandboxError where some stay."""
    result = sandbox.run(Command(["sh", "-c", _REMOVE]))
    if result.exit_code:
        raise SandboxFileError(
            f"can't remove the reports of earlier test runs: {result.output.strip()}"
        )


def read_reports(sandbox: Sandbox) -> dict[str, TestStatus]:
    """Every test's status; of several of one id the worst. Raises SandboxError."""
    with scratch_folder(sandbox) as folder:
        result = sandbox.run(Command(["sh", "-c", _GATHER, "sh", folder]))
        if result.exit_code:
            raise SandboxFileError(
                f"can't gather the reports of the tests: {result.output.strip()}"
            )
        reports = sandbox.read_tree(folder)
    found: dict[str, set[TestStatus]] = {}
    for data in reports.values():
        for test, status in _tests(data):
            found.setdefault(test, set()).add(status)
    return {test: worst(each) for test, each in found.items()}


def _tests(data: bytes) -> Iterator[tuple[str, TestStatus]]:
    """The tests of one report; none of one that is no XML, for the JVM ended as it wrote it."""
    try:
        root = ElementTree.fromstring(data)
    except ElementTree.ParseError:
        return
    for case in root.iter("testcase"):
        children = {child.tag for child in case}
        if children & set(FAILURES):
            status = TestStatus.FAILED
        else:
            status = TestStatus.SKIPPED if "skipped" in children else TestStatus.PASSED
        yield test_id(case.get("classname", ""), case.get("name", "")), status
