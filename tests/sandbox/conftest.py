"""Sandboxes of both backends for the tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from sandbox import Command, Sandbox, SandboxConfig, open_sandbox
from tests.sandbox.image import TAG

OpenSandbox = Callable[..., Sandbox]
LIMITS = {"command_timeout": 30, "memory_mb": 256, "pids": 48, "file_size_mb": 8}
EMPTY = "chmod -R u+rwx .; find . /tmp -mindepth 1 ! -path /tmp/home -delete; ls -A"

slow_in_containers = pytest.mark.parametrize(
    "backend",
    ["local", pytest.param("docker", marks=[pytest.mark.docker, pytest.mark.slow])],
    indirect=True,
)
"""For what takes long in a container, and goes the same way there as what other tests prove."""


@pytest.fixture
def open_backend(backend: str) -> Iterator[OpenSandbox]:
    """Opens sandboxes of the test's backend with the given settings, and closes them."""
    with ExitStack() as opened:

        def open_one(**settings: Any) -> Sandbox:
            config = SandboxConfig.model_validate({"backend": backend, "image": TAG, **settings})
            return opened.enter_context(open_sandbox(config))

        yield open_one


@contextmanager
def lent(box: Sandbox) -> Iterator[Sandbox]:
    """A sandbox that a test gives back as empty as it got it."""
    yield box
    assert box.run(Command(["sh", "-c", f"{{ {EMPTY}; }} 2>/dev/null"])).output == ""


@pytest.fixture(scope="session")
def shared_container(image: str) -> Iterator[Sandbox]:
    """One container for many tests: it starts longer than most of them take."""
    config = SandboxConfig.model_validate({"backend": "docker", "image": image, **LIMITS})
    with open_sandbox(config) as opened:
        yield opened


@pytest.fixture
def box(backend: str, request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """One sandbox with small limits, which the test doesn't close."""
    if backend == "local":
        yield request.getfixturevalue("open_backend")(**LIMITS)
    else:
        with lent(request.getfixturevalue("shared_container")) as container:
            yield container
