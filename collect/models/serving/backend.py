"""A model served by vLLM, for all conversations of a run."""

from __future__ import annotations

import logging
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from collect.errors import ConfigError
from collect.models.base import ConversationContext, Model
from collect.models.budget import Limits
from collect.models.chat_completions import list_models
from collect.models.config import ChatConfig, OpenAIConfig, ServerConfig, VllmConfig
from collect.models.endpoint import EndpointBackend, EndpointModel
from collect.models.first_request import RUNNING_ADVICE, STARTED_ADVICE, check_tool_call
from collect.models.serving.launch import SERVED_NAME
from collect.models.serving.server import VllmServer

logger = logging.getLogger(__name__)

# The servers of this process. Models with the same server settings share one.


@dataclass
class _Entry:
    server: VllmServer
    users: int = 0


class ServerPool:
    """Starts each server for its first user and stops it after its last. Thread-safe."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}
        self._keepers = 0
        self._lock = threading.Lock()

    def acquire(self, config: ServerConfig, log: Path) -> VllmServer:
        """The running server of a config; started if there is none. Raises ConfigError."""
        key = config.model_dump_json()
        with self._lock:
            entry = self._entries.get(key)
            if entry is None or (entry.server.given_up and not entry.users):
                # Unused servers may hold the memory that this one needs.
                self._stop_unused()
                entry = _Entry(VllmServer(config, log))
                entry.server.start()
                self._entries[key] = entry
            entry.users += 1
            return entry.server

    def release(self, server: VllmServer) -> None:
        """Remove one user."""
        with self._lock:
            for entry in self._entries.values():
                if entry.server is server:
                    entry.users -= 1
            if not self._keepers:
                self._stop_unused()

    @contextmanager
    def kept(self) -> Iterator[None]:
        """While this is open, a server without users stays up, unless another one starts."""
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
        for key, entry in list(self._entries.items()):
            if not entry.users:
                del self._entries[key]
                entry.server.close()


POOL = ServerPool()


@contextmanager
def keep_servers() -> Iterator[None]:
    """`ServerPool.kept` for this process's pool; also a decorator."""
    with POOL.kept():
        yield


LOGS = "servers"
"""Folder for server logs in a run's folder."""


class VllmBackend:
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
        self._server: VllmServer | None = None
        self._released = False
        if config.server is not None:
            log = (folder or Path(tempfile.gettempdir()) / "stepinto") / LOGS / f"{name}.log"
            self._server = POOL.acquire(config.server, log)
        try:
            self._endpoint = self._opened(name, config, limits, stop)
            self._check_tools(config)
            if self._server is not None:
                self._server.proven.set()
        except BaseException:
            self._release()
            raise

    @property
    def name(self) -> str:
        """The model's name in the config."""
        return self._endpoint.name

    @property
    def server(self) -> VllmServer | None:
        """The server that StepInto started, or None if it was already running."""
        return self._server

    def open(self, context: ConversationContext) -> EndpointModel:
        """See `EndpointBackend.open`."""
        return self._endpoint.open(context)

    def close(self) -> None:
        """Close the connections, and stop the server unless others use it."""
        self._endpoint.close()
        self._release()

    def _opened(
        self, name: str, config: VllmConfig, limits: Limits, stop: threading.Event
    ) -> EndpointBackend:
        server = self._server
        if server is None:
            model = _running_model(config)
            return EndpointBackend(name, _as_endpoint(config, model, config.base_url), limits, stop)
        endpoint = _as_endpoint(config, config.model or SERVED_NAME, server.url)
        return EndpointBackend(
            name, endpoint, limits, stop, ready=lambda: server.wait_until_ready(stop)
        )

    def _check_tools(self, config: VllmConfig) -> None:
        server, model = self._server, self._endpoint.config.model
        if not config.check_tools:
            return
        if server is not None and (model in server.checked or not server.launch.takes_tools):
            return
        asked: Model = EndpointModel(self._endpoint)
        advice = STARTED_ADVICE if server is not None else RUNNING_ADVICE
        warning = check_tool_call(asked, f"{self.name} ({self._endpoint.where})", advice)
        if warning is not None:
            logger.warning(f"warning: {warning}")
        if server is not None:
            server.checked.add(model)

    def _release(self) -> None:
        if self._server is not None and not self._released:
            self._released = True
            POOL.release(self._server)


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
