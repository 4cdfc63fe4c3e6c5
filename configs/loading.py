"""Read a run's config: one YAML file, dotted overrides on top, every key checked.

The resolved config is saved in the run folder, so that the folder can be given instead of a file.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from collect.config import SAVED_NAME
from collect.durable import write_text
from collect.errors import ConfigError
from collect.wrong_fields import wrong_fields
from configs.keys import refuse_keys
from configs.run_config import RunConfig
from configs.values import read_yaml, refuse_numbers, refuse_texts
from train.launched_processes import is_main_process

RUN_PLACEHOLDER = "{run}"
"""Stands for the run's folder in any text of a config."""


def load_config(source: Path, overrides: Sequence[str] = ()) -> RunConfig:
    """The config of a YAML file or of a run folder, with `key.subkey=value` overrides.

    Raises ConfigError that names the file, the key and, for an unknown key, the nearest known one;
    also where it holds a secret, see `configs.keys`.
    """
    path = source / SAVED_NAME if source.is_dir() else source
    raw = _read_yaml(path)
    if source.is_dir():
        raw = _moved(raw, source)
    for override in overrides:
        _apply_override(raw, override)
    refuse_keys(raw, str(path))
    refuse_texts(raw, str(path))
    folder = _folder(raw)
    try:
        config = RunConfig.model_validate(_fill_in(raw, folder))
    except ValidationError as error:
        problems = "\n".join(f"  {line}" for line in wrong_fields(error, RunConfig))
        raise ConfigError(f"{path}: the config is wrong:\n{problems}") from error
    refuse_numbers(config.model_dump(), str(path))
    return config


@contextmanager
def config_saved(config: RunConfig) -> Iterator[None]:
    """Save the resolved config in the run folder, for later stages and readers.

    Where this one turns out not to work, a folder's earlier config comes back, and of a refused
    run that has done nothing yet nothing stays. Of several processes, the main one saves it.
    """
    if not is_main_process():
        yield
        return
    path = config.folder / SAVED_NAME
    earlier = path.read_text(encoding="utf-8") if path.exists() else None
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False))
    try:
        yield
    except Exception:
        if earlier is not None:
            write_text(path, earlier)
        else:
            _take_back(path)
        raise


def _take_back(path: Path) -> None:
    """Remove a saved config and its folder, unless something else was written there."""
    inside = list(path.parent.rglob("*"))
    if all(other == path or (other.is_dir() and not other.is_symlink()) for other in inside):
        shutil.rmtree(path.parent, ignore_errors=True)


def _read_yaml(path: Path) -> dict[str, Any]:
    try:
        raw = read_yaml(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigError(
            f"there is no config {path}; give a YAML file, or a run folder with a {SAVED_NAME}"
        ) from error
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ConfigError(f"{path} can't be read as YAML: {error}") from error
    if not isinstance(raw, dict):
        raise ConfigError(f"{path} must hold keys and values, not {type(raw).__name__}")
    return raw


def _apply_override(raw: dict[str, Any], override: str) -> None:
    key, separator, text = override.partition("=")
    if not separator or not key:
        raise ConfigError(f"override {override!r} must have the form key.subkey=value")
    try:
        value = read_yaml(text)
    except (ValueError, yaml.YAMLError) as error:
        raise ConfigError(f"the value of override {override!r} is not YAML: {error}") from error
    *parents, last = key.split(".")
    place = raw
    for parent in parents:
        below = place.setdefault(parent, {})
        if not isinstance(below, dict):
            raise ConfigError(f"override {override!r}: {parent!r} is a value, it has no keys")
        place = below
    place[last] = value


def _folder(raw: dict[str, Any]) -> str:
    return str(Path(str(raw.get("runs_folder", "runs"))) / str(raw.get("run", "")))


def _moved(raw: dict[str, Any], source: Path) -> dict[str, Any]:
    """A saved config for the folder that it was found in, which may have been copied or moved."""
    place = source.resolve()
    if Path(_folder(raw)).resolve() == place:
        return raw
    moved: dict[str, Any] = _replaced(raw, f"{_folder(raw)}/", f"{source}/")
    return moved | {"run": place.name, "runs_folder": str(source.parent)}


def _fill_in(value: Any, folder: str) -> Any:
    return _replaced(value, RUN_PLACEHOLDER, folder)


def _replaced(value: Any, old: str, new: str) -> Any:
    if isinstance(value, str):
        return value.replace(old, new)
    if isinstance(value, list):
        return [_replaced(item, old, new) for item in value]
    if isinstance(value, dict):
        return {key: _replaced(item, old, new) for key, item in value.items()}
    return value
