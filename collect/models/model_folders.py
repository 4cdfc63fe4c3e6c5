"""Models named by a folder or a hub id."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from collect.errors import ConfigError

TRAINING = "training.json"
"""StepInto's report of the training, next to a model's weights."""


def training_of(folder: Path) -> dict[str, Any]:
    """The training report in a model's folder; empty if there is none.

    Raises ConfigError on a broken one.
    """
    return read_json(folder / TRAINING) or {}


def trained_on(model: str) -> set[str]:
    """The repositories that a model was trained on, if its folder lists them."""
    return set(training_of(Path(model)).get("repositories", ()))


def file_stamps(folder: Path) -> list[tuple[str, int, int]]:
    """Name, bytes and time (ns) of each file; empty if there is no folder.

    A retrained model is a different one, even in the same folder.
    """
    if not folder.is_dir():
        return []
    return sorted(
        (file.name, file.stat().st_size, file.stat().st_mtime_ns)
        for file in folder.iterdir()
        if file.is_file()
    )


def read_json(path: Path) -> dict[str, Any] | None:
    """A JSON file of a model's folder, or None if it is missing. Raises ConfigError."""
    if not path.is_file():
        return None
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError(f"{path} can't be read: {error}") from error


def check_model_folder(model: str) -> None:
    """Raises ConfigError if it is a path without a model; a hub name is `name` or `owner/name`."""
    is_path = Path(model).exists() or model.startswith((".", "/", "~")) or model.count("/") > 1
    if is_path and not (Path(model) / "config.json").is_file():
        raise ConfigError(
            f"model {model}: there is no model in that folder (no config.json); train one "
            "with `stepinto train`, or give a folder that save_pretrained wrote, or a hub name"
        )
