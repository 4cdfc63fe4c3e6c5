"""A model behind a real HTTP server, for every test of collect."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.collect.models.chat_server import ChatServer


@pytest.fixture(
    params=["local", pytest.param("docker", marks=[pytest.mark.docker, pytest.mark.slow])]
)
def backend(request: pytest.FixtureRequest) -> str:
    """Each sandbox backend; `make test` has Docker in the tests of `sandbox` and in one rollout."""
    if request.param == "docker":
        request.getfixturevalue("image")
    return str(request.param)


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer().running() as running:
        yield running
