"""When a node rests, and when it is tried again."""

from __future__ import annotations

from itertools import count

import pytest

from collect.errors import FailureKind
from collect.rollouts.ray_cluster.nodes import FIRST_REST, IN_A_ROW, LONGEST_REST, Health, fault_of
from tests.records import make_rollout

MOST = 4
NUMBERS = count()


def failing(health: Health, times: int, now: float) -> list[bool]:
    """Rollouts of so many bugs, none of which was there before."""
    return [health.ended("engine", f"bug-{next(NUMBERS)}", now, now) for _ in range(times)]


def room(health: Health, now: float) -> int:
    """How many rollouts a node could begin at once."""
    return sum(health.room([now] * begun, MOST, now) for begun in range(MOST + 1))


def test_a_node_rests_after_faults_in_a_row() -> None:
    health = Health()
    assert failing(health, IN_A_ROW - 1, 10) == [False] * (IN_A_ROW - 1)
    assert not health.ended(None, "bug", 10, 10)
    assert room(health, 10) == MOST
    assert failing(health, IN_A_ROW, 20) == [False] * (IN_A_ROW - 1) + [True]
    assert health.reason == "engine"
    assert room(health, 20 + FIRST_REST - 1) == 0


def test_a_node_is_tried_again_with_one_rollout() -> None:
    health = Health()
    failing(health, IN_A_ROW, 0)
    assert room(health, FIRST_REST) == 1
    assert health.room([0.0], MOST, FIRST_REST), "one from before the rest is no trial"
    assert not health.ended(None, "bug", FIRST_REST, FIRST_REST + 5)
    assert room(health, FIRST_REST + 5) == MOST
    assert failing(health, IN_A_ROW - 1, FIRST_REST + 6) == [False] * (IN_A_ROW - 1)


def test_rests_become_longer_up_to_a_bound() -> None:
    health, now, rests = Health(), 0.0, []
    failing(health, IN_A_ROW, now)
    for _ in range(2000):
        rests.append(health.until - now)
        now = health.until
        assert failing(health, 1, now) == [True]
    assert rests[:6] == [60, 120, 240, 480, 900, 900]
    assert set(rests[6:]) == {LONGEST_REST}


def test_what_began_before_a_rest_says_nothing_after_it() -> None:
    health = Health()
    failing(health, IN_A_ROW, 100)
    until = health.until
    assert not health.ended("engine", "bug", 50, 130)
    assert not health.ended(None, "bug", 50, until + 1)
    assert (health.until, room(health, until + 1)) == (until, 1)


def test_a_bug_that_fails_everywhere_rests_no_node() -> None:
    health = Health()
    assert not any(health.ended("no image", "bug", now, now) for now in range(100))
    assert room(health, 100) == MOST
    assert not health.ended("no image", "another", 100, 100)
    assert not health.ended("no image", "bug", 100, 100)
    assert health.ended("no image", "a third", 100, 100)


def test_a_trial_that_meets_the_same_bug_again_says_nothing() -> None:
    health = Health()
    failing(health, IN_A_ROW - 1, 0)
    assert health.ended("no image", "bug", 0, 0)
    now = health.until
    assert not health.ended("no image", "bug", now, now)
    assert (health.rest_seconds, health.until, room(health, now)) == (FIRST_REST, now, 1)
    assert health.ended("no image", "another", now, now)
    assert health.rest_seconds == 2 * FIRST_REST


@pytest.mark.parametrize(
    ("failure", "fault"),
    [
        ("EngineDown", "EngineDown: it broke"),
        ("ImageMissing", "ImageMissing: it broke"),
        ("OutOfDisk", "OutOfDisk: it broke"),
        ("EndpointDown", None),
        ("OutOfMemory", None),
        (None, None),
    ],
)
def test_what_is_a_nodes_fault(failure: str | None, fault: str | None) -> None:
    kind = None if failure is None else FailureKind.INFRASTRUCTURE
    row = make_rollout(
        failure_kind=kind, failure_type=failure, failure_message="it broke\nin this way"
    )
    assert fault_of(row) == fault
