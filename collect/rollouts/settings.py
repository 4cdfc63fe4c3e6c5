"""The settings that decide what a rollout does: their hash, and how they differ.

A run folder keeps the settings of its rows as `settings/HASH.json`, so that a start with other
settings can say what differs.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from collect.config import RuntimeConfig
from collect.models.config import LocalConfig, ModelConfig, VllmConfig
from collect.models.model_folders import file_stamps
from collect.rollouts.rollout import RolloutSpec
from collect.store.atomic_files import write_text
from collect.store.build_info import digest

MAX_SHOWN = 5
# What does not change the output of a model, of its server, and of a sandbox.
NOT_OF_A_MODELS_IDENTITY = {
    *("prices", "concurrency", "timeout", "retries", "api_key_env", "base_url", "device"),
    *("max_batch", "prefix_cache", "threads", "check_tools"),
}
NOT_OF_A_SERVERS_IDENTITY = {
    *("tensor_parallel", "gpu_memory_utilization", "host", "port", "command", "environment"),
    *("start_timeout", "restarts"),
}
NOT_OF_A_SANDBOXES_IDENTITY = {"starts_at_once", "engine_wait"}
Facts = dict[str, Any]


def settings_facts(runtime: RuntimeConfig, spec: RolloutSpec) -> Facts:
    """Every setting that can change what a rollout does."""
    names = [name for name in (spec.main, spec.sub) if name]
    return {
        "seed": runtime.seed,
        "sandbox": runtime.sandbox.model_dump(mode="json", exclude=NOT_OF_A_SANDBOXES_IDENTITY),
        "agents": runtime.agents.model_dump(mode="json"),
        "models": [model_facts(runtime.model_config_of(name)) for name in names],
    }


def model_facts(config: ModelConfig) -> Facts:
    """The settings of a model that can change its output, and the state of its files."""
    facts = config.model_dump(mode="json", exclude=NOT_OF_A_MODELS_IDENTITY)
    folders: list[str | Path] = [config.model] if isinstance(config, LocalConfig) else []
    if isinstance(config, VllmConfig) and config.server is not None:
        for name in NOT_OF_A_SERVERS_IDENTITY:
            del facts["server"][name]
        folders = [config.server.model]
        if config.model is not None:
            folders.append(config.server.adapters[config.model])
    files = [each for folder in folders for each in file_stamps(Path(folder))]
    return facts | {"files": files} if files else facts


def note_settings(folder: Path, facts: Facts) -> None:
    """Store settings in a run folder, under their hash: 16 hex digits, `digest`."""
    path = _path(folder, digest(facts))
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, json.dumps(facts, indent=2, sort_keys=True) + "\n")


def what_differs(folder: Path, noted_hash: str, facts: Facts) -> str:
    """Differences from settings with that hash, such as `agents.sub_max_steps: was 25, is 12`."""
    path = _path(folder, noted_hash)
    if not path.is_file():
        return "another sandbox, agents, seed or models section"
    try:
        before = _flat(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, RecursionError):
        return f"other settings (which can't be told: {path} is not what a run writes there)"
    now = _flat(facts)
    keys = [key for key in sorted({*before, *now}) if before.get(key) != now.get(key)]
    unset = "not set"
    told = [f"{key}: was {before.get(key, unset)}, is {now.get(key, unset)}" for key in keys]
    if len(told) > MAX_SHOWN:
        told[MAX_SHOWN:] = [f"{len(told) - MAX_SHOWN} more"]
    return f"other settings ({'; '.join(told)})"


def _path(folder: Path, noted_hash: str) -> Path:
    return folder / "settings" / f"{noted_hash}.json"


def _flat(value: Any, key: str = "") -> dict[str, str]:
    """The leaves of nested settings as JSON, by dotted key; `models[0]` is the main model."""
    if isinstance(value, dict) and value:
        inner = {f"{key}.{name}" if key else name: each for name, each in value.items()}
    elif isinstance(value, list) and any(isinstance(each, dict) for each in value):
        inner = {f"{key}[{index}]": each for index, each in enumerate(value)}
    else:
        return {key: json.dumps(value)}
    return {
        place: leaf for name, each in inner.items() for place, leaf in _flat(each, name).items()
    }
