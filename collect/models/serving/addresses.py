"""Where a server of this machine listens, and whether it answers there."""

from __future__ import annotations

import http.client
import socket

from collect.errors import ConfigError

EVERYWHERE = ("0.0.0.0", "::", "")
HEALTH_TIMEOUT = 5.0
"""Seconds."""


def free_port(host: str) -> int:
    """A port that nothing listens at now."""
    with _bound(host, 0) as held:
        return int(held.getsockname()[1])


def check_port(host: str, port: int) -> None:
    """Raises ConfigError where something listens there.

    vLLM shares its port with whoever else does (SO_REUSEPORT): two of its servers at one port
    would answer in turn.
    """
    try:
        _bound(host, port).close()
    except OSError as error:
        raise ConfigError(
            f"server.port: {host}:{port} can't be had ({error.strerror or error}); stop what "
            "listens there, choose another port, or leave `port` out for a free one"
        ) from error


def reachable(host: str) -> str:
    """The address at which this machine reaches a server that listens at `host`."""
    return "127.0.0.1" if host in EVERYWHERE else host


def health(host: str, port: int) -> int | None:
    """The status of the server's /health; None where it does not answer. Goes by no proxy."""
    connection = http.client.HTTPConnection(reachable(host), port, timeout=HEALTH_TIMEOUT)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    held = socket.socket(family, socket.SOCK_STREAM)
    try:
        # What only waits for late packets of an ended server is free; what listens is not.
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind((host, port))
    except OSError:
        held.close()
        raise
    return held
