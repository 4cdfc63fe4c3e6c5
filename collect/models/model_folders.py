"""Models that are named by a folder, or by an id on the hub."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from collect.errors import ConfigError

TRAINING = "training.json"
"""Beside a model's weights: what StepInto's training was."""


def training_of(folder: Path) -> dict[str, Any]:
    """The report of its training that lies with a model; empty where there is none.

    Raises ConfigError on a broken one.
    """
    return read_json(folder / TRAINING) or {}


def trained_on(model: str) -> set[str]:
    """The repositories that a model was trained on, where its folder says so."""
    return set(training_of(Path(model)).get("repositories", ()))


def file_stamps(folder: Path) -> list[tuple[str, int, int]]:
    """Name, bytes and time (ns) of each file; empty where there is no folder.

    A model trained again is another model, though it lies in the same place.
    """
    if not folder.is_dir():
        return []
    return sorted(
        (file.name, file.stat().st_size, file.stat().st_mtime_ns)
        for file in folder.iterdir()
        if file.is_file()
    )


def read_json(path: Path) -> dict[str, Any] | None:
    """One of the files beside a model; None where it is not there. Raises ConfigError."""
    if not path.is_file():
        return None
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError(f"{path} can't be read: {error}") from error


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
