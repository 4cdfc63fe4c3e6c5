"""The sandbox backends, the cache and the settings of every test; Docker's tests are skipped if no
engine answers."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from collect.benchmarks import marks
from collect.console import log_to_stderr
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

# Tests neither read nor change what the user keeps in the cache. Their own, which is much work to
# make again, stays with the checkout.
os.environ["XDG_CACHE_HOME"] = str(Path(__file__).parents[1] / ".cache" / "tests")


def pytest_configure(config: pytest.Config) -> None:
    """Forget what earlier sessions verified, unless this process is one of xdist's workers."""
    if not hasattr(config, "workerinput"):
        shutil.rmtree(marks.Verifications().folder, ignore_errors=True)


@pytest.fixture(scope="session", autouse=True)
def own_verifications(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A worker doesn't read what another one verified meanwhile."""
    shared, own = cache_folder(), tmp_path_factory.mktemp("verifications")

    def folder() -> Path:
        found = cache_folder()
        return own if found == shared else found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(marks, "cache_folder", folder)
        yield


@pytest.fixture
def offline_maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's own settings keep Maven offline, so that builds have the machine's packages."""
    settings = tmp_path / "home" / ".m2" / "settings.xml"
    settings.parent.mkdir(parents=True)
    settings.write_text("<settings><offline>true</offline></settings>")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


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


@pytest.fixture(autouse=True, scope="session")
def log_messages() -> None:
    """Print what is logged, as the command line does."""
    log_to_stderr()


@pytest.fixture(params=["local", pytest.param("docker", marks=pytest.mark.docker)])
def backend(request: pytest.FixtureRequest) -> str:
    if request.param == "docker":
        request.getfixturevalue("image")
    return str(request.param)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fuzz-actions", type=int, help="debugger actions of each fuzzer test")
    parser.addoption("--fuzz-seed", type=int, default=0, help="where the fuzzer tests begin")
