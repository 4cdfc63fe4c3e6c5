"""Models that are named by a folder, or by an id on the hub."""

from __future__ import annotations

from pathlib import Path

from collect.errors import ConfigError


def is_path(model: str) -> bool:
    """Whether a model is a folder, for a hub name is `name` or `owner/name`."""
    return Path(model).exists() or model.startswith((".", "/", "~")) or model.count("/") > 1


def check_model_folder(model: str) -> None:
    """Raises ConfigError where it is a path without a model."""
    if is_path(model) and not (Path(model) / "config.json").is_file():
        raise ConfigError(
            f"model {model}: there is no model in that folder (no config.json); train one "
            "with `stepinto train`, or give a folder that save_pretrained wrote, or a hub name"
        )
