"""The sandbox backends, for every test; Docker's are skipped where no engine answers. And what is
set once for all tests."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from collect.benchmarks import marks
from sandbox.engine import connect
from sandbox.environment import cache_folder
from tests.sandbox.image import (
    engine_error,
    ensure_git_image,
    ensure_image,
    ensure_java_image,
)

# How long an example takes is the machine's affair: it does other things meanwhile.
settings.register_profile("tests", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tests")


@pytest.fixture(scope="session", autouse=True)
def own_verifications(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests neither read nor add to what the user has verified; what they start as a process of its
    own still reads it. The rest of the cache is theirs too: it is much work to make again."""
    users, own = cache_folder(), tmp_path_factory.mktemp("verifications")

    def folder() -> Path:
        found = cache_folder()
        return own if found == users else found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(marks, "cache_folder", folder)
        yield


@pytest.fixture(scope="session")
def image() -> str:
    """The tag of the test image; skips where there is no container engine."""
    reason = engine_error()
    if reason is not None:
        pytest.skip(f"needs a container engine: {reason}")
    return ensure_image()


@pytest.fixture
def engine(image: str) -> Iterator[Any]:
    """A client of the container engine, which has the test image."""
    client = connect()
    yield client
    client.close()


@pytest.fixture(scope="session")
def git_image() -> str:
    """The tag of the test image with git; skips where there is no engine."""
    reason = engine_error()
    if reason is not None:
        pytest.skip(f"needs a container engine: {reason}")
    return ensure_git_image()


@pytest.fixture(scope="session")
def java_image() -> str:
    """The tag of the test image with a JDK; skips where there is no engine, or no JDK to copy."""
    reason = engine_error()
    if reason is not None:
        pytest.skip(f"needs a container engine: {reason}")
    if shutil.which("javac") is None:
        pytest.skip("needs a JDK on this machine, to make an image with one")
    return ensure_java_image()


@pytest.fixture(params=["local", pytest.param("docker", marks=pytest.mark.docker)])
def backend(request: pytest.FixtureRequest) -> str:
    if request.param == "docker":
        request.getfixturevalue("image")
    return str(request.param)


@pytest.fixture(scope="session")
def trackio_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where trackio keeps its runs, which it asks for once, when it is imported."""
    folder = tmp_path_factory.mktemp("trackio")
    os.environ["TRACKIO_DIR"] = str(folder)
    return folder


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fuzz-actions", type=int, help="debugger actions of each fuzzer test")
    parser.addoption("--fuzz-seed", type=int, default=0, help="where the fuzzer tests begin")
