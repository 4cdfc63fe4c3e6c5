"""Connects to a running Ray cluster, or starts one on this machine."""

from __future__ import annotations

import logging
import os
import socket
from typing import Any

from collect.errors import ConfigError
from sandbox.environment import install_command

# Otherwise Ray contacts its vendor's server.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
LOOK_SECONDS = 10.0


def connect(address: str | None) -> Any:
    """The `ray` module, connected. Raises ConfigError if Ray or the cluster is missing.

    `address` is `auto` or `HOST:PORT` of a head; None starts a cluster on this machine.
    """
    try:
        import ray
    except ImportError as error:
        raise ConfigError(
            f"runner.backend=ray needs Ray: {install_command('ray')}, or set runner.backend=threads"
        ) from error
    if ray.is_initialized():
        return ray
    try:
        _look_for(address)
        ray.init(
            address=address or "local",
            log_to_driver=False,
            logging_level=logging.ERROR,
            include_dashboard=None if address else False,
        )
    except (OSError, RuntimeError, ValueError) as error:
        raise ConfigError(
            f"no Ray cluster answers at runner.ray.address={address!r}: {error}; start one with "
            "`ray start --head`, or set runner.ray.address=null to work on this machine"
        ) from error
    return ray


def _look_for(address: str | None) -> None:
    """Raises OSError if nothing listens at `HOST:PORT`, which Ray would take minutes to find out,
    and ValueError if that is not a head's address."""
    if address in (None, "auto"):
        return
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal() or "/" in host:
        raise ValueError("it is neither `auto` nor HOST:PORT")
    socket.create_connection((host, int(port)), LOOK_SECONDS).close()


def nodes_with_room(ray: Any) -> dict[str, str]:
    """Hosts of the nodes that are alive and offer CPUs, by node id.

    A head without CPUs (`--num-cpus=0`) does no rollouts.
    """
    return {
        node["NodeID"]: node["NodeManagerHostname"]
        for node in ray.nodes()
        if node["Alive"] and node["Resources"].get("CPU", 0) > 0
    }


def losses(ray: Any) -> tuple[type[Exception], ...]:
    """The exceptions that Ray raises if a worker or its node is gone.

    A result of more than about 100 kB stays on the node until it is fetched: it can be lost after
    the worker has finished.
    """
    errors = ray.exceptions
    return (
        errors.RayActorError,
        errors.WorkerCrashedError,
        errors.OutOfMemoryError,
        errors.OutOfDiskError,
        errors.NodeDiedError,
        errors.ObjectLostError,
    )
