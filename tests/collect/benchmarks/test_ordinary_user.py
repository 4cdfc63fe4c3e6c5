"""Attacks once more, where StepInto itself runs as an ordinary user."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.sandbox.users import AS_ORDINARY, run_tests_as_ordinary

HERE = Path(__file__).parent
PYTEST = (
    "no_verdict or no_module or replaced or honest_fix or observer or twins_apart or reads_its_test"
)
ATTACKS = {
    "pytest": (HERE / "test_forged_verdicts.py", f"({PYTEST}) and not container"),
    "answers": (HERE / "test_self_repair_scoring.py", "no_answer or program"),
    "Java": (HERE / "test_java_tampering.py", "not docker"),
}


@pytest.mark.parametrize("user", [AS_ORDINARY])
@pytest.mark.parametrize("runner", [pytest.param(name, marks=pytest.mark.slow) for name in ATTACKS])
def test_no_verdict_is_forged_by_the_project_of_an_ordinary_user(runner: str, user: str) -> None:
    module, chosen = ATTACKS[runner]
    told = run_tests_as_ordinary(module, chosen)
    passed = re.search(r"^(\d+) passed", told, re.MULTILINE)
    assert passed, told
    assert int(passed[1]) >= 9, told
    assert "failed" not in told, told


@pytest.mark.slow
@pytest.mark.parametrize("user", [AS_ORDINARY])
def test_an_ordinary_users_git_runs_nothing_and_waits_for_nothing(user: str) -> None:
    chosen = "filter or wait_for or end or killed"
    told = run_tests_as_ordinary(HERE / "test_git_clones.py", chosen)
    passed = re.search(r"^(\d+) passed", told, re.MULTILINE)
    assert passed, told
    assert int(passed[1]) >= 20, told
    assert "failed" not in told, told
