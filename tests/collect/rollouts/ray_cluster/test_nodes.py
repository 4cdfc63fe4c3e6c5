"""Which node does a rollout, which is excluded, and when a dead worker starts again."""

from __future__ import annotations

import time

import pytest

from collect.errors import FailureKind
from collect.rollouts.ray_cluster.cluster import BUGS_IN_A_ROW, LONGEST_BACK_OFF, Nodes, fault_of
from tests.records import make_rollout


def ready(names: str, per_node: int = 2) -> Nodes:
    nodes = Nodes(per_node)
    nodes.update({name: f"host-{name}" for name in names})
    for node in nodes.all:
        node.started(object())
    return nodes


def given(nodes: Nodes, *images: str) -> str:
    """The nodes that do rollouts which need one of these images each, in turn."""
    chosen = ""
    for image in images:
        node = nodes.best([image])
        assert node is not None
        node.running += 1
        chosen += node.id
    return chosen


def test_an_image_has_its_own_nodes_and_is_not_left_to_one() -> None:
    first = given(ready("abc", 4), *["one"] * 12)
    assert given(ready("cab", 4), *["one"] * 12) == first, "whatever the order of the nodes"
    assert len(set(first[:2])) == 1
    assert [first.count(name) for name in "abc"] == [4, 4, 4]
    preferred = {given(ready("abc", 4), f"image-{number}") for number in range(20)}
    assert preferred == set("abc")


def test_work_without_an_image_goes_where_most_room_is() -> None:
    nodes = ready("abc", 4)
    first, second, third = nodes.all
    first.running, second.running, third.running = 2, 1, 3
    assert nodes.best([]) is second
    first.running = second.running = third.running = 4
    assert nodes.best([]) is None


def test_a_node_is_excluded_for_a_while_after_faults_in_a_row() -> None:
    nodes = ready("ab")
    first, second = nodes.all
    for _ in range(2):
        for number in range(BUGS_IN_A_ROW - 1):
            assert first.report("EngineDown: gone", f"bug-{number}") is None
        assert first.report("EngineDown: gone", "bug-0") is None, "one bug counts once"
        assert first.report(None, "bug") is None
    for number in range(BUGS_IN_A_ROW - 1):
        assert first.report("EngineDown: gone", f"bug-{number}") is None
    told = first.report("EngineDown: gone", "another")
    assert told == "no rollouts on host-a for the next 120 s: EngineDown: gone"
    assert first.status.state == "excluded: EngineDown: gone"
    assert given(nodes, "one", "one") == "bb"
    assert nodes.best(["one"]) is None
    assert not nodes.others({second.id})
    assert nodes.hopeful
    first.excluded_until = time.monotonic()
    assert nodes.others({second.id})
    assert given(nodes, "one", "one") == "aa"


def test_what_is_avoided_is_not_given() -> None:
    nodes = ready("ab")
    node = nodes.best(["one"], avoided={"a"})
    assert node is not None
    assert node.id == "b"
    assert nodes.best(["one"], avoided={"a", "b"}) is None
    assert not nodes.others({"a", "b"})


def test_a_rollout_that_failed_waits_for_no_node_that_only_starts() -> None:
    nodes = ready("a")
    nodes.update({"a": "host-a", "b": "host-b"})
    (starting,) = nodes.to_start()
    starting.starting = True
    assert starting.hopeful
    assert not nodes.others({"a"})
    starting.started(object())
    assert nodes.others({"a"})


def test_a_worker_that_could_not_get_ready_is_started_again_later() -> None:
    nodes = ready("a")
    (node,) = nodes.all
    node.died()
    node.start_at, node.starting = 0.0, True
    told = "no rollouts on host-a for the next 120 s: EngineDown: gone"
    assert node.unready("EngineDown: gone") == told
    assert node.status.state == "excluded: EngineDown: gone"
    assert round(node.start_at - time.monotonic()) == 120
    assert not nodes.to_start()
    assert not nodes.hopeful
    assert nodes.ailments() == ["host-a: EngineDown: gone"]
    assert node.unready("EngineDown: gone") is None, "it is told once"
    node.start_at = 0.0
    assert nodes.to_start() == [node]
    node.started(object())
    assert node.status.state == "ready"
    assert given(nodes, "one", "one") == "aa"


def test_a_worker_that_dies_again_and_again_waits_longer() -> None:
    (node,) = (nodes := ready("a")).all
    waits: list[int] = []
    for _ in range(2000):
        node.died()
        waits.append(round(node.start_at - time.monotonic()))
        assert not nodes.to_start()
    assert waits[:7] == [1, 2, 4, 8, 16, 32, 60]
    assert set(waits[7:]) == {LONGEST_BACK_OFF}
    assert not nodes.hopeful
    node.start_at = 0
    assert nodes.to_start() == [node]
    assert nodes.best([]) is None


def test_nodes_come_and_go() -> None:
    nodes = ready("ab")
    nodes.update({"b": "host-b", "c": "host-c"})
    assert [(each.host, each.state) for each in nodes.statuses] == [
        ("host-b", "ready"),
        ("host-c", "starting"),
        ("host-a", "gone"),
    ]
    assert [node.id for node in nodes.to_start()] == ["c"]


def test_ailments_matter_once_all_nodes_have_one() -> None:
    nodes = ready("ab")
    first, second = nodes.all
    first.died()
    first.unready("no Docker")
    assert not nodes.ailments()
    assert nodes.to_start() == []
    second.died()
    second.unready("no key")
    assert nodes.ailments() == ["host-a: no Docker", "host-b: no key"]


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
