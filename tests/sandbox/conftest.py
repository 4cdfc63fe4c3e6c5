"""Sandboxes of both backends for the tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from sandbox import Sandbox, SandboxConfig, open_sandbox
from tests.sandbox.image import TAG

OpenSandbox = Callable[..., Sandbox]


@pytest.fixture
def open_backend(backend: str) -> Iterator[OpenSandbox]:
    """Opens sandboxes of the test's backend with the given settings, and closes them."""
    with ExitStack() as opened:

        def open_one(**settings: Any) -> Sandbox:
            config = SandboxConfig.model_validate({"backend": backend, "image": TAG, **settings})
            return opened.enter_context(open_sandbox(config))

        yield open_one


@pytest.fixture
def box(open_backend: OpenSandbox) -> Sandbox:
    """One sandbox with small limits."""
    return open_backend(command_timeout=30, memory_mb=256, pids=48, file_size_mb=8)
