"""Tests that can't be loaded before the fix: their file imports what only the fix adds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from collect.benchmarks.base import TestStatus
from collect.benchmarks.local import LocalBenchmark
from collect.benchmarks.marks import Mark, Verification, verify_instance
from collect.benchmarks.pytest_run import run_pytest
from collect.code.patches import diff_trees
from collect.rollouts.rollout import score
from sandbox import Sandbox, SandboxConfig
from sandbox.debugger import Launch, open_debugger

BUGGY = "def rate(day):\n    return 5\n"
FIXED = (
    "def rate(day):\n    return 7 if day > 5 else 5\n\n\ndef is_weekend(day):\n    return day > 5\n"
)
OLD_TEST = "from rates import rate\n\n\ndef test_monday():\n    assert rate(1) == 5\n"
NEW_TEST = """\
from rates import is_weekend, rate


def test_sunday():
    assert is_weekend(7) and rate(7) == 7


class TestWeek:
    def test_friday(self):
        assert not is_weekend(5)
"""
USES_FIXTURE = "def test_sunday(weekend):\n    assert weekend == [6, 7]\n"
FIXTURE = """\
import pytest
import rates

WEEKEND = [day for day in range(1, 8) if rates.is_weekend(day)]


@pytest.fixture
def weekend():
    return WEEKEND
"""
EXITS = "import sys\nimport rates\n\nif not hasattr(rates, 'is_weekend'):\n    sys.exit(2)\n\n\n"
BASE = {"rates.py": BUGGY, "tests/test_rates.py": OLD_TEST}
MONDAY, SUNDAY = "tests/test_rates.py::test_monday", "tests/new/test_days.py::test_sunday"
FRIDAY = "tests/new/test_days.py::TestWeek::test_friday"


def local(folder: Path, files: dict[str, str], **fields: Any) -> LocalBenchmark:
    tree = BASE | files
    for path, text in tree.items():
        (folder / "shop" / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / "shop" / path).write_text(text)
    before = {path: text.encode() for path, text in tree.items()}
    bug = {
        "id": "weekend",
        "repository": "shop",
        "problem_statement": "Weekends cost as much as other days.",
        "fail_to_pass": [SUNDAY],
        "pass_to_pass": [MONDAY],
        "gold_patch": diff_trees(before, before | {"rates.py": FIXED.encode()}),
        "test_paths": ["tests"],
        **fields,
    }
    (folder / "bugs.jsonl").write_text(json.dumps(bug) + "\n")
    return LocalBenchmark(folder)


def verified(benchmark: LocalBenchmark) -> Verification:
    [bug] = benchmark.instances()
    return verify_instance(benchmark, bug, SandboxConfig())


@pytest.mark.parametrize(
    "files",
    [
        {"tests/new/test_days.py": NEW_TEST},
        {"tests/new/test_days.py": USES_FIXTURE, "tests/new/conftest.py": FIXTURE},
        {"tests/new/test_days.py": EXITS + NEW_TEST},
        {
            "tests/new/test_days.py": "import rates\n\n"
            + NEW_TEST.replace(
                "def test_sunday", "WEEKEND = rates.is_weekend(6)\n\n\ndef test_sunday"
            )
        },
    ],
    ids=["module", "conftest", "exits", "attribute"],
)
def test_a_test_that_cannot_be_imported_fails_before_the_fix(
    tmp_path: Path, files: dict[str, str]
) -> None:
    done = verified(local(tmp_path, files))
    assert (done.marks, done.problems) == ((Mark.OK,), ())


def test_without_other_tests_and_without_a_gold_patch(tmp_path: Path) -> None:
    files = {"tests/new/test_days.py": NEW_TEST}
    only_new = {"fail_to_pass": [SUNDAY, FRIDAY], "pass_to_pass": []}
    assert verified(local(tmp_path / "a", files, **only_new)).marks == (Mark.OK,)
    assert verified(local(tmp_path / "b", files, gold_patch="")).marks == (Mark.NO_GOLD,)


def test_a_test_that_its_file_does_not_have_is_still_missing(tmp_path: Path) -> None:
    wrong = "tests/test_rates.py::test_tuesday"
    files = {"tests/new/test_days.py": NEW_TEST}
    done = verified(local(tmp_path, files, fail_to_pass=[SUNDAY, wrong]))
    assert done.marks == (Mark.BROKEN,)
    assert done.problems == (
        f"does not fail before: {wrong} is missing",
        f"does not pass after: {wrong} is missing",
    )


def test_what_cannot_be_imported_after_the_fix_is_told(tmp_path: Path) -> None:
    files = {"tests/new/test_days.py": "import rates.more\n" + NEW_TEST}
    done = verified(local(tmp_path, files))
    told = "tests/new/test_days.py can't be imported or compiled"
    assert done.problems == (f"does not pass after: {SUNDAY} is failed ({told})",)


def test_a_test_that_the_bug_claims_to_pass_is_no_other(tmp_path: Path) -> None:
    files = {"tests/new/test_days.py": NEW_TEST}
    done = verified(local(tmp_path, files, pass_to_pass=[FRIDAY]))
    told = "tests/new/test_days.py can't be imported or compiled"
    assert done.problems == (f"other test: {FRIDAY} is failed ({told}) before and passed after",)


def test_a_conftest_keeps_only_the_tests_below_it_from_running(sandbox: Sandbox) -> None:
    files = BASE | {
        "tests/new/conftest.py": "from rates import is_weekend\n",
        "tests/new/test_days.py": NEW_TEST,
        "tests/new/deep/test_deep.py": OLD_TEST,
        "tests/newer/conftest.py": "import no_such_module\n",
        "tests/newer/test_newer.py": OLD_TEST.replace("monday", "tuesday"),
    }
    sandbox.write_files({path: text.encode() for path, text in files.items()})
    deep, newer = "tests/new/deep/test_deep.py::test_monday", "tests/newer/test_newer.py::test_x"
    results = run_pytest(sandbox, [SUNDAY, deep, newer, MONDAY], timeout=60)
    assert results.not_loaded == {
        SUNDAY: "tests/new/conftest.py",
        deep: "tests/new/conftest.py",
        newer: "tests/newer/conftest.py",
    }
    assert results.statuses[MONDAY] is TestStatus.PASSED


def test_options_that_pytest_refuses_are_no_failing_tests(sandbox: Sandbox) -> None:
    files = BASE | {"pytest.ini": "[pytest]\naddopts = --no-such-option\n"}
    sandbox.write_files({path: text.encode() for path, text in files.items()})
    results = run_pytest(sandbox, [MONDAY], timeout=60)
    assert (results.not_loaded, results.statuses) == ({}, {MONDAY: TestStatus.MISSING})


JAVA_BUGGY = "public class Rates {\n    static int rate(int day) { return 5; }\n"
JAVA_FIXED = JAVA_BUGGY + "    static boolean isWeekend(int day) { return day > 5; }\n"
JAVA_TEST = """\
class DaysTest {
    public static void main(String[] arguments) {
        if (!Rates.isWeekend(7)) throw new AssertionError();
    }
}
"""


def test_a_java_class_that_does_not_compile_fails_before_the_fix(tmp_path: Path) -> None:
    old_test = JAVA_TEST.replace("Days", "Rates").replace(
        "!Rates.isWeekend(7)", "Rates.rate(1) != 5"
    )
    files = {
        "Rates.java": JAVA_BUGGY + "}\n",
        "DaysTest.java": JAVA_TEST,
        "RatesTest.java": old_test,
    }
    before = {path: text.encode() for path, text in files.items()}
    after = before | {"Rates.java": JAVA_FIXED.encode() + b"}\n"}
    bug = {
        "language": "java",
        "fail_to_pass": ["DaysTest"],
        "pass_to_pass": ["RatesTest"],
        "gold_patch": diff_trees(before, after),
        "test_paths": ["DaysTest.java", "RatesTest.java"],
    }
    benchmark = local(tmp_path, files, **bug)
    benchmark.languages = ("java",)
    assert verified(benchmark).problems == ()
    benchmark = local(tmp_path, files, **bug | {"fail_to_pass": ["DayTest"]})
    benchmark.languages = ("java",)
    assert "does not fail before: DayTest is missing" in verified(benchmark).problems


def test_such_a_bug_is_scored(tmp_path: Path) -> None:
    benchmark = local(tmp_path, {"tests/new/test_days.py": NEW_TEST})
    [bug] = benchmark.instances()
    assert score(benchmark, bug, bug.gold_patch, SandboxConfig()).resolved
    without = score(benchmark, bug, "", SandboxConfig())
    assert not without.resolved
    assert {test.name: test.after for test in without.tests} == {
        SUNDAY: TestStatus.FAILED,
        MONDAY: TestStatus.PASSED,
    }


def test_a_debug_session_tells_why_the_file_cannot_be_imported(sandbox: Sandbox) -> None:
    files = BASE | {"tests/new/test_days.py": NEW_TEST}
    sandbox.write_files({path: text.encode() for path, text in files.items()})
    debugger = open_debugger("python", sandbox)
    stop = debugger.start(Launch(SUNDAY))
    debugger.close()
    assert stop.error is not None
    assert "cannot import name 'is_weekend' from 'rates'" in stop.error
    assert "tests/new/test_days.py:1" in stop.error
