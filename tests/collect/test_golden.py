"""The oracle's trajectories are what they were: prompts, tools, sessions and rendering."""

import shutil
from typing import Any

import pytest

from tests.golden import (
    INSTANCES,
    JAVA,
    REPAIRS,
    golden_file,
    normalised,
    repair_trajectory,
    trajectory,
)

CORE = ("shopcart__negative-base", "inspectcoder", "ldb_block")
"""`make test` has these alone."""
HOW_TO_RENEW = "if the change is meant: python -m tests.golden, and read the diff"
needs_maven = pytest.mark.skipif(shutil.which("mvn") is None, reason="there is no Maven here")


def case(name: str) -> Any:
    marks = [needs_maven] if name in JAVA else []
    return pytest.param(name, marks=marks if name in CORE else [*marks, pytest.mark.slow])


@pytest.mark.parametrize("instance_id", list(map(case, INSTANCES)))
def test_trajectory(instance_id: str) -> None:
    expected = golden_file(instance_id).read_text(encoding="utf-8")
    found = normalised(trajectory(instance_id))
    assert found == expected, HOW_TO_RENEW


@pytest.mark.parametrize("system", list(map(case, REPAIRS)))
def test_trajectory_of_a_repair(system: str) -> None:
    expected = golden_file(system).read_text(encoding="utf-8")
    found = repair_trajectory(system)
    assert found["patch"], "it repaired nothing"
    assert normalised(found) == expected, HOW_TO_RENEW
