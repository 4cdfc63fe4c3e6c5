"""A model behind a real HTTP server, for every test of collect."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.collect.models.chat_server import ChatServer


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer().running() as running:
        yield running
