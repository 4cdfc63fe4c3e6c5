"""A real Ray cluster of several nodes on this machine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("ray", reason="needs stepinto[ray]")

from benchmarks.ray_nodes import RayNodes


@pytest.fixture(scope="module")
def nodes() -> Iterator[RayNodes]:
    with RayNodes(2).running() as running:
        yield running
