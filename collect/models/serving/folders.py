"""What the folders of models and adapters say about how they are served."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from collect.errors import ConfigError
from collect.models.config import AUTO
from collect.models.model_folders import read_json, training_of

ADAPTER_CONFIG = "adapter_config.json"
TEMPLATE = "chat_template.jinja"
UNSERVED = ("modules_to_save", "use_dora", "alora_invocation_tokens")
"""Settings of peft's adapters that vLLM does not serve."""


@dataclass(frozen=True)
class Adapter:
    """A LoRA adapter as peft saves it."""

    folder: Path
    rank: int
    """The highest of its layers'."""
    base: str
    """What it was trained on: a folder or an id on the hub; empty where it does not say."""


def is_adapter(folder: Path) -> bool:
    """Whether a folder holds an adapter and no whole model."""
    return (folder / ADAPTER_CONFIG).is_file() and not (folder / "config.json").is_file()


def read_adapter(folder: Path) -> Adapter:
    """Raises ConfigError where it is none, or none that vLLM serves."""
    facts = read_json(folder / ADAPTER_CONFIG)
    if facts is None:
        raise ConfigError(
            f"{folder} is no adapter: it has no {ADAPTER_CONFIG}; give a folder that peft wrote, "
            "as `stepinto train` does with `train.merge: false`"
        )
    unserved = [name for name in UNSERVED if facts.get(name)]
    if facts.get("peft_type") != "LORA" or unserved:
        what = f"{', '.join(unserved)} set" if unserved else f"peft_type {facts.get('peft_type')}"
        raise ConfigError(
            f"the adapter {folder} has {what}, which vLLM does not serve; merge it into its model "
            "(`train.merge: true`) and serve that"
        )
    ranks = [facts.get("r"), *(facts.get("rank_pattern") or {}).values()]
    rank = max(int(each) for each in ranks if each)
    return Adapter(folder, rank, str(facts.get("base_model_name_or_path") or ""))


def trained_parser(folder: Path) -> str | None:
    """The parser that a model was trained for; None: it calls no tools; AUTO: it does not say."""
    config = training_of(folder).get("config")
    parser = config.get("tool_call_parser", AUTO) if isinstance(config, dict) else AUTO
    return parser if parser is None else str(parser)


def own_template(folder: Path) -> Path | None:
    """The file of the chat template that lies with a model or adapter."""
    path = folder / TEMPLATE
    return path if path.is_file() else None
