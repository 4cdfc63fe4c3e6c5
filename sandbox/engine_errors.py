"""What the client of the container engine raises, as errors of StepInto."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sandbox.errors import EngineDown, SandboxUnavailable


def client_errors() -> tuple[type[Exception], ...]:
    """All that the client raises where the engine refuses, fails or does not answer."""
    import requests
    import urllib3
    from docker.errors import DockerException

    # The last two come out of a stream, which breaks outside of what `requests` translates.
    return DockerException, requests.RequestException, urllib3.exceptions.HTTPError, ConnectionError


@contextmanager
def engine_errors() -> Iterator[None]:
    """Raises SandboxUnavailable where the engine refuses what it is asked for, and EngineDown where
    it fails or does not answer."""
    from docker.errors import APIError

    try:
        yield
    except client_errors() as error:
        if isinstance(error, APIError) and error.is_client_error():
            raise SandboxUnavailable(f"the container engine refused a request: {error}") from error
        raise EngineDown(
            f"the container engine does not answer, or not as it should: {error}; `docker info` "
            "and its log show why"
        ) from error
