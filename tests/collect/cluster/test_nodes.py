"""Which node does a rollout, and when a dead worker starts again."""

from __future__ import annotations

import time

from collect.cluster.nodes import MAX_BACK_OFF_SECONDS, Nodes


def ready(**images: set[str]) -> Nodes:
    """Nodes with these images, two rollouts each."""
    nodes = Nodes(per_node=2)
    nodes.update({name: f"host-{name}" for name in images})
    for node in nodes.all:
        node.worker, node.images = object(), frozenset(images[node.id])
    return nodes


def test_work_goes_where_its_image_is_and_else_where_most_room_is() -> None:
    nodes = ready(a={"one"}, b={"two"}, c=set())
    given = []
    for image in ("two", "two", "two", "three", "one"):
        node = nodes.best([image])
        assert node is not None
        node.running += 1
        given.append(node.id)
    assert given == ["b", "b", "a", "c", "a"]
    assert nodes.best(["two"]) is not None
    for node in nodes.all:
        node.running = 2
    assert nodes.best([]) is None


def test_a_worker_that_dies_again_and_again_waits_longer() -> None:
    (node,) = (nodes := ready(a={"one"})).all
    waits = []
    for _ in range(9):
        node.died()
        waits.append(round(node.start_at - time.monotonic()))
        assert not nodes.to_start()
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert waits[-1] == MAX_BACK_OFF_SECONDS
    assert not nodes.hopeful
    node.start_at = 0
    assert nodes.to_start() == [node]
    assert nodes.best([]) is None
    assert not node.images


def test_nodes_come_and_go() -> None:
    nodes = ready(a=set(), b=set())
    nodes.update({"b": "host-b", "c": "host-c"})
    assert [(each.host, each.state) for each in nodes.statuses] == [
        ("host-b", "ready"),
        ("host-c", "starting"),
        ("host-a", "gone"),
    ]
    assert [node.id for node in nodes.to_start()] == ["c"]


def test_refusals_matter_once_all_refuse() -> None:
    nodes = ready(a=set(), b=set())
    first, second = nodes.all
    first.worker = None
    first.refused("no Docker")
    assert not nodes.refusals()
    assert nodes.to_start() == []
    second.worker = None
    second.refused("no key")
    assert nodes.refusals() == ["host-a: no Docker", "host-b: no key"]
