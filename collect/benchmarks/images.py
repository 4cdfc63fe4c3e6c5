"""The container images that a set of bugs needs."""

from __future__ import annotations

from collections.abc import Iterable

from collect.benchmarks.base import Instance
from collect.quantities import first_of
from sandbox import SandboxConfig
from sandbox.engine import connect, image_or_none
from sandbox.errors import ImageMissing


def required_images(instances: Iterable[Instance], sandbox: SandboxConfig) -> list[str]:
    """The distinct images, in the bugs' order; empty if the sandbox is not a container."""
    if sandbox.backend != "docker":
        return []
    images = (sandbox.image or instance.image for instance in instances)
    return list(dict.fromkeys(image for image in images if image is not None))


def require_images(instances: Iterable[Instance], sandbox: SandboxConfig) -> None:
    """Raises ImageMissing if images are missing, with their names and how to get them;
    EngineDown."""
    images = required_images(instances, sandbox)
    if not images:
        return
    client = connect()
    try:
        missing = [image for image in images if image_or_none(client, image) is None]
    finally:
        client.close()
    if missing:
        raise ImageMissing(
            f"{len(missing)} of the {len(images)} images that these bugs need are not on this "
            f"machine: {first_of(missing)}. `stepinto bench pull CONFIG` fetches "
            "them; benchmark.instances and benchmark.limit choose fewer bugs"
        )
