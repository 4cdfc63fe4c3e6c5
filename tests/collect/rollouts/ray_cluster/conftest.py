"""A real Ray cluster of several nodes on this machine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("ray", reason="needs the extra ray")

from tests.chaos.ground import RayNodes


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayNodes]:
    with RayNodes(2).running() as running:
        yield running


@pytest.fixture
def nodes(cluster: RayNodes) -> RayNodes:
    """Two nodes, whatever the test before has done to them."""
    cluster.restore()
    return cluster
