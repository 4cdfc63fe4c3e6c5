"""Opens the backends of a config's models."""

from __future__ import annotations

import threading
from pathlib import Path

from collect.errors import ConfigError
from collect.models.base import ModelBackend
from collect.models.budget import Limits
from collect.models.config import (
    LocalConfig,
    ManualConfig,
    ModelConfig,
    RemoteConfig,
    ReplayConfig,
    VllmConfig,
)


def open_model(
    name: str,
    config: ModelConfig,
    limits: Limits,
    stop: threading.Event,
    folder: Path | None = None,
) -> ModelBackend:
    """Open one backend. Imports only what this kind needs.

    Missing keys, packages and files, and servers that don't start, raise ConfigError here. A local
    model is loaded when its first conversation is opened, and can still raise it then. Once `stop`
    is set, all waiting and later requests raise RolloutStopped. `folder` is for the logs of
    servers and the requests of manual models.
    """
    if isinstance(config, RemoteConfig):
        from collect.models.endpoint import EndpointBackend

        return EndpointBackend(name, config, limits, stop)
    if isinstance(config, VllmConfig):
        from collect.models.serving.backend import VllmBackend

        return VllmBackend(name, config, limits, stop, folder)
    if isinstance(config, LocalConfig):
        from collect.models.local import LocalBackend

        return LocalBackend(name, config, stop)
    if isinstance(config, ReplayConfig):
        from collect.models.replay import ReplayBackend

        return ReplayBackend.from_config(name, config)
    if isinstance(config, ManualConfig):
        from collect.models.manual import ManualBackend

        if folder is None:
            raise ConfigError(f"the model {name} is played by hand, which only rollouts can be")
        return ManualBackend(name, folder, stop)
    from collect.oracle import OracleBackend

    return OracleBackend(name, config)


def open_and_ask(
    name: str,
    config: ModelConfig,
    limits: Limits,
    stop: threading.Event,
    folder: Path | None,
    *,
    tools: bool,
) -> tuple[ModelBackend, str]:
    """A backend, and a description of what answered. An endpoint is sent one request, with a tool
    call if agents send it `tools`. Raises ConfigError."""
    if not isinstance(config, RemoteConfig):
        said = str(config.backend)
        if isinstance(config, VllmConfig):
            said += f", {config.server.model if config.server else config.base_url}"
        elif isinstance(config, LocalConfig):
            said += f", {config.model}; it is loaded with its first conversation"
        elif isinstance(config, ReplayConfig):
            said += f" of {config.path}"
        return open_model(name, config, limits, stop, folder), said
    from collect.models.endpoint import EndpointBackend

    endpoint = EndpointBackend(name, config, limits, stop)
    try:
        key = f"key of ${config.api_key_env}" if config.api_key_env else "without a key"
        where = f"{config.model} at {endpoint.address.rstrip('/')}, {key}"
        return endpoint, f"{where}; {endpoint.ask_first(tools)}"
    except BaseException:
        endpoint.close()
        raise
