"""From the models of a config to backends."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from collect.models.base import ModelBackend
from collect.models.budget import Limits
from collect.models.config import (
    LocalConfig,
    ModelConfig,
    OpenAIConfig,
    ReplayConfig,
    VllmConfig,
)


def open_models(
    configs: Mapping[str, ModelConfig],
    limits: Limits,
    stop: threading.Event,
    folder: Path | None = None,
) -> dict[str, ModelBackend]:
    """One backend a name. Missing keys, packages and files, and servers that can't be started,
    raise ConfigError here, with none left open; a local model is read into memory when its first
    conversation is opened, and can still raise it then.

    Once `stop` is set, every waiting or later request raises RolloutStopped. `folder` is where
    logs of servers go.
    """
    backends: dict[str, ModelBackend] = {}
    with ExitStack() as opened:
        for name, config in configs.items():
            backends[name] = open_model(name, config, limits, stop, folder)
            opened.callback(backends[name].close)
        opened.pop_all()
    return backends


def open_model(
    name: str,
    config: ModelConfig,
    limits: Limits,
    stop: threading.Event,
    folder: Path | None = None,
) -> ModelBackend:
    """One backend. Imports only what this kind needs. Raises ConfigError."""
    if isinstance(config, OpenAIConfig):
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
    from collect.models.oracle import OracleBackend

    return OracleBackend(name, config)
