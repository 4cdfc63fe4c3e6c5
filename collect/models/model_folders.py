"""Models that are named by a folder, or by an id on the hub."""

from __future__ import annotations

import json
from pathlib import Path

from collect.errors import ConfigError

TRAINING = "training.json"
"""Beside a model's weights: what StepInto's training was."""


def trained_on(model: str) -> set[str]:
    """The repositories that a model was trained on, where its folder says so."""
    path = Path(model) / TRAINING
    if not path.is_file():
        return set()
    return set(json.loads(path.read_text(encoding="utf-8")).get("repositories", ()))


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
