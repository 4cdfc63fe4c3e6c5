"""The container engine: connect to it, find images, create and remove containers."""

from __future__ import annotations

import random
import re
import tarfile
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sandbox.base import SandboxConfig
from sandbox.bubblewrap import OWN_UIDS
from sandbox.errors import EngineDown, ImageMissing, SandboxUnavailable
from sandbox.leftovers import owner_is_dead, owner_tag


def client_errors() -> tuple[type[Exception], ...]:
    """All exceptions that the client raises if the engine refuses, fails or does not answer."""
    import requests
    import urllib3
    from docker.errors import DockerException

    # The last two come from streams, which `requests` does not translate.
    return DockerException, requests.RequestException, urllib3.exceptions.HTTPError, ConnectionError


@contextmanager
def engine_errors() -> Iterator[None]:
    """Raises SandboxUnavailable if the engine refuses a request, EngineDown if it is down."""
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


LABEL = "stepinto"
OWNER_LABEL = "stepinto.owner"
USER_LABEL = "stepinto.user"
RESERVED_PIDS = 32
"""Processes above the sandbox's limit, so that a full container can still be swept."""
ENGINE_TIMEOUT = 120
"""Seconds for one answer of the engine; starting a container is slow on a busy one."""

# No program in a container can signal its first process, whatever its user. (`kill -9 -1` would
# kill an idle child of an init with the same user, and so the container.) It adopts orphans and
# reaps them by ignoring SIGCHLD; `env` can't do that in BusyBox and in coreutils before 8.31, so
# there the shell waits for them.
_IDLE = """
ignoring='env --ignore-signal=CHLD'
$ignoring true 2>/dev/null && exec $ignoring sleep infinity
while :; do sleep 1000000 & wait $!; done
"""
BY_SOCKET = "http+docker://"
"""Address prefix of an engine on this machine."""


def connect() -> Any:
    """Connect to the container engine. Raises EngineDown if none answers."""
    import docker

    try:
        client = docker.from_env(timeout=ENGINE_TIMEOUT)
        client.ping()
    except client_errors() as error:
        raise EngineDown(
            "no container engine answers: start Docker, or name it in DOCKER_HOST "
            f"(`docker info` shows whether it runs). It said: {error}"
        ) from error
    return client


@engine_errors()
def local_root() -> Path | None:
    """The folder where the engine keeps images and containers; None if it is not on this machine.

    Raises EngineDown.
    """
    with closing(connect()) as client:
        root = Path(client.info()["DockerRootDir"])
        return root if client.api.base_url.startswith(BY_SOCKET) and root.is_dir() else None


@engine_errors()
def image_or_none(client: Any, image: str) -> Any:
    """A local image by tag, digest or id, or None. Raises EngineDown."""
    from docker.errors import ImageNotFound

    try:
        return client.images.get(image)
    except ImageNotFound:
        return None


def find_image(client: Any, image: str) -> Any:
    """A local image by tag, digest or id. Raises ImageMissing, EngineDown; nothing is pulled."""
    found = image_or_none(client, image)
    if found is None:
        raise ImageMissing(
            f"the image {image!r} is not on this machine: get it with `docker pull {image}`, "
            "or load it from a file with `docker load -i FILE`; `stepinto bench pull CONFIG` gets "
            "all those of a config's bugs"
        )
    return found


def digest_of(image: Any) -> str:
    """An image's registry digest; its id if it came from no registry."""
    digests = image.attrs.get("RepoDigests") or [image.id]
    return str(digests[0])


def choose_users(image: Any) -> tuple[int, int]:
    """The uid of an image's sandbox, and that of its read-only commands.

    A uid of StepInto's own, unless the image sets one by the label `stepinto.user` or a numeric
    USER other than root's. Raises SandboxUnavailable if the label has no number.
    """
    named = str((image.attrs["Config"].get("User") or "").partition(":")[0])
    labelled = (image.attrs["Config"].get("Labels") or {}).get(USER_LABEL)
    own = _own_number()
    if labelled is not None:
        if re.fullmatch("[0-9]{1,9}", labelled, re.ASCII) is None:
            raise SandboxUnavailable(f"the image's label {USER_LABEL} is no user's number")
        return int(labelled), own
    return (int(named) if named.isdigit() and int(named) else own), own + 1


def _own_number() -> int:
    return random.SystemRandom().choice(range(OWN_UIDS.start, OWN_UIDS.stop - 1_000_000))


@engine_errors()
def create_container(
    client: Any, config: SandboxConfig, image: Any, uid: int | None, folder: str
) -> Any:
    """Create, without starting it, a hardened container that idles until it is removed.

    `uid` None: a user of the image, whose processes on the whole machine are not counted against
    the limit. Raises SandboxUnavailable, EngineDown.
    """
    from docker.errors import APIError
    from docker.types import Ulimit

    # If commands in an image's workspace may run as root, the first process must not, since a
    # process can be debugged by its own user. A labelled image may know no user but root.
    own_user = uid is not None or USER_LABEL in (image.attrs["Config"].get("Labels") or {})
    idle = 0 if own_user else _own_number()
    size = config.file_size_mb * 1024 * 1024
    files = config.open_files
    ulimits = [
        Ulimit(name="fsize", soft=size, hard=size),
        Ulimit(name="nofile", soft=files, hard=files),
        Ulimit(name="core", soft=0, hard=0),
    ]
    if uid is not None and uid in OWN_UIDS:
        # The kernel counts a user's processes on the whole machine, so it must be an own user.
        ulimits.append(Ulimit(name="nproc", soft=config.pids, hard=config.pids))
    try:
        return client.containers.create(
            image.id,
            entrypoint=["sh", "-c"],
            command=[_IDLE],
            user=f"{idle}:{idle}",
            working_dir=folder,
            labels={LABEL: "1", OWNER_LABEL: owner_tag()},
            init=False,
            network_mode="none",
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            mem_limit=f"{config.memory_mb}m",
            memswap_limit=f"{config.memory_mb}m",
            nano_cpus=int(config.cpus * 1e9),
            pids_limit=config.pids + RESERVED_PIDS,
            ulimits=ulimits,
            healthcheck={"test": ["NONE"]},
        )
    except APIError as error:
        raise SandboxUnavailable(f"the container engine refused the sandbox: {error}") from error


@engine_errors()
def owner_of(container: Any, folder: str, image: str) -> int:
    """The uid that owns a folder in a container. Raises SandboxUnavailable, EngineDown."""
    from docker.errors import NotFound

    try:
        chunks, _ = container.get_archive(folder)
    except NotFound as error:
        raise SandboxUnavailable(
            f"the image {image!r} has no folder {folder}, where its bug's code should lie; is it "
            "the image of another benchmark?"
        ) from error
    first = next(iter(chunks))
    chunks.close()
    entry = tarfile.TarInfo.frombuf(first[: tarfile.BLOCKSIZE], "utf-8", "replace")
    if not entry.isdir():
        raise SandboxUnavailable(f"{folder} of the image {image!r} is not a folder")
    return entry.uid


def remove_container(client: Any, container: str) -> bool:
    """Kill and remove a container with its volumes; returns whether it is gone.

    If the engine can't remove it, this only warns: the next start of StepInto, or `stepinto clean`,
    removes it.
    """
    from docker.errors import APIError, NotFound

    try:
        client.api.remove_container(container, force=True, v=True)
    except NotFound:
        return True
    except client_errors() as error:
        # Another close is already removing it.
        if isinstance(error, APIError) and "already in progress" in str(error):
            return True
        warnings.warn(f"the container {container[:12]} was not removed: {error}", stacklevel=2)
        return False
    return True


@dataclass(frozen=True)
class LeftContainers:
    """Ids of StepInto's containers whose process does not live here."""

    removed: list[str] = field(default_factory=list)
    of_others: list[str] = field(default_factory=list)
    """Left alone, since this machine can't see whether their process lives."""


@engine_errors()
def remove_leftover_containers(of_others: bool = False) -> LeftContainers:
    """Remove the containers of StepInto processes of this machine that have died.

    `of_others`: also those whose process is of another machine or PID namespace, so may live.
    Raises EngineDown.
    """
    left = LeftContainers()
    with closing(connect()) as client:
        ours = {"label": f"{LABEL}=1"}
        for container in client.containers.list(all=True, filters=ours, ignore_removed=True):
            dead = owner_is_dead(container.labels.get(OWNER_LABEL, ""))
            if dead is None and not of_others:
                left.of_others.append(str(container.id))
            elif dead is not False and remove_container(client, container.id):
                left.removed.append(str(container.id))
    return left
