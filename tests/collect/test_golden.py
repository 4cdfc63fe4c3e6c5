"""The oracle's trajectories are what they were: prompts, tools, sessions and rendering."""

import pytest

from tests.golden import INSTANCES, golden_file, normalised, trajectory


@pytest.mark.parametrize("instance_id", INSTANCES)
def test_trajectory(instance_id: str) -> None:
    expected = golden_file(instance_id).read_text(encoding="utf-8")
    found = normalised(trajectory(instance_id))
    assert found == expected, "if the change is meant: python -m tests.golden, and read the diff"
