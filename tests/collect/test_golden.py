"""The oracle's trajectories are what they were: prompts, tools, sessions and rendering."""

import shutil

import pytest

from tests.golden import (
    JAVA,
    PYTHON,
    REPAIRS,
    golden_file,
    normalised,
    repair_trajectory,
    trajectory,
)

HOW_TO_RENEW = "if the change is meant: python -m tests.golden, and read the diff"
needs_maven = pytest.mark.skipif(shutil.which("mvn") is None, reason="there is no Maven here")


@pytest.mark.parametrize(
    "instance_id",
    [*PYTHON, *(pytest.param(name, marks=[needs_maven, pytest.mark.slow]) for name in JAVA)],
)
def test_trajectory(instance_id: str) -> None:
    expected = golden_file(instance_id).read_text(encoding="utf-8")
    found = normalised(trajectory(instance_id))
    assert found == expected, HOW_TO_RENEW


@pytest.mark.parametrize("system", REPAIRS)
def test_trajectory_of_a_repair(system: str) -> None:
    expected = golden_file(system).read_text(encoding="utf-8")
    found = repair_trajectory(system)
    assert found["patch"], "it repaired nothing"
    assert normalised(found) == expected, HOW_TO_RENEW
