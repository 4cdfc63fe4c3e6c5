"""A model served by vLLM, for all conversations of a run."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from collect.errors import ConfigError
from collect.models.budget import Limits
from collect.models.config import ChatConfig, OpenAIConfig, ServerConfig, VllmConfig
from collect.models.endpoint import EndpointBackend
from collect.models.openai_apis import list_models
from collect.models.serving.server import SERVED_NAME, VllmServer

STARTED_ADVICE = "set server.tool_call_parser to the parser of the model's family"
RUNNING_ADVICE = "start it with --enable-auto-tool-choice and --tool-call-parser"
LOGS = "servers"
"""Folder for server logs in a run's folder."""


class ServerPool:
    """The servers of this process: starts each for its first user and stops it after its last.
    Models with the same server settings share one. Thread-safe.
    """

    def __init__(self) -> None:
        self._servers: dict[str, VllmServer] = {}
        self._keepers = 0
        self._lock = threading.Lock()

    def acquire(self, config: ServerConfig, log: Path) -> VllmServer:
        """The running server of a config; started if there is none. Raises ConfigError."""
        key = config.model_dump_json()
        with self._lock:
            server = self._servers.get(key)
            if server is None or (server.given_up is not None and not server.users):
                # Unused servers may hold the memory that this one needs.
                self._stop_unused()
                server = VllmServer(config, log)
                server.start()
                self._servers[key] = server
            server.users += 1
            return server

    def release(self, server: VllmServer) -> None:
        """Remove one user."""
        with self._lock:
            server.users -= 1
            if not self._keepers:
                self._stop_unused()

    @contextmanager
    def kept(self) -> Iterator[None]:
        """While this is open, a server without users stays up, unless another one starts. Also a
        decorator.
        """
        with self._lock:
            self._keepers += 1
        try:
            yield
        finally:
            with self._lock:
                self._keepers -= 1
                if not self._keepers:
                    self._stop_unused()

    def _stop_unused(self) -> None:
        for key, server in list(self._servers.items()):
            if not server.users:
                del self._servers[key]
                server.close()


POOL = ServerPool()


class VllmBackend(EndpointBackend):
    """Chat completions from a vLLM server that StepInto starts, or from a running one."""

    def __init__(
        self,
        name: str,
        config: VllmConfig,
        limits: Limits,
        stop: threading.Event,
        folder: Path | None = None,
    ) -> None:
        """Start the server or find the running one, and check that tool calls work.

        `folder` is for the server's log; None: a temporary one. Raises ConfigError.
        """
        self.server: VllmServer | None = None
        """The server that StepInto started, or None if it was already running."""
        if config.server is None:
            endpoint = _as_endpoint(config, _running_model(config), config.base_url)
            super().__init__(name, endpoint, limits, stop)
            if config.check_tools:
                self.calls_tool(RUNNING_ADVICE)
            return
        log = (folder or Path(tempfile.gettempdir()) / "stepinto") / LOGS / f"{name}.log"
        self.server = server = POOL.acquire(config.server, log)
        try:
            model = config.model or SERVED_NAME
            ready = partial(server.wait_until_ready, stop)
            super().__init__(name, _as_endpoint(config, model, server.url), limits, stop, ready)
            if config.check_tools and server.takes_tools and model not in server.checked:
                self.calls_tool(STARTED_ADVICE)
                server.checked.add(model)
            server.proven.set()
        except BaseException:
            POOL.release(server)
            raise

    def close(self) -> None:
        """Close the connections, and stop the server unless others use it."""
        super().close()
        server, self.server = self.server, None
        if server is not None:
            POOL.release(server)


def _running_model(config: VllmConfig) -> str:
    """The model's name at a running server. Raises ConfigError."""
    listed = list_models(_as_endpoint(config, config.model or "", config.base_url))
    there = f"the server at {config.base_url} has: {', '.join(listed) or 'none'}"
    if config.model is None:
        if len(listed) != 1:
            raise ConfigError(f"set `model` to one of the server's; {there}")
        return listed[0]
    if config.model not in listed:
        raise ConfigError(f"there is no model {config.model!r} to be had; {there}")
    return config.model


def _as_endpoint(config: VllmConfig, model: str, url: str | None) -> OpenAIConfig:
    shared = {name: getattr(config, name) for name in ChatConfig.model_fields}
    return OpenAIConfig(
        backend="openai", model=model, base_url=url, api_key_env=config.api_key_env, **shared
    )
