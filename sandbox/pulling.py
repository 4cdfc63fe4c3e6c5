"""Fetch one image from its registry, and say of a fetch that failed whether to try again when."""

from __future__ import annotations

import re
from typing import Any

from sandbox.errors import EngineDown, ImageMissing, PullLimited, SandboxError

_LIMITED = re.compile(r"too ?many ?requests|rate.?limit|rate exceeded", re.IGNORECASE)
"""What registries say where they give out no more for now."""


def pull_from_registry(client: Any, image: str) -> None:
    """Fetch an image from the registry that its name tells. Raises `client_errors`."""
    from docker.errors import DockerException
    from docker.utils import parse_repository_tag

    repository, tag = parse_repository_tag(image)
    for line in client.api.pull(repository, tag or "latest", stream=True, decode=True):
        # The client takes what fails once the first line is there for a success.
        if "error" in line:
            raise DockerException(line["error"])


def pull_failure(image: str, error: Exception) -> SandboxError:
    """What it means that a pull raised one of `client_errors`."""
    from docker.errors import APIError, DockerException

    said = str((isinstance(error, APIError) and error.explanation) or error)
    told = f"the image {image!r} can't be fetched: {said}"
    if not isinstance(error, DockerException):
        return EngineDown(told)
    return PullLimited(told) if _LIMITED.search(said) else ImageMissing(told)
