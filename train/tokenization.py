"""What turns rows into tokens: a base model's tokenizer and a pair of chat templates."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collect.errors import ConfigError
from train.base_model import resolve_base_model
from train.config import TrainConfig
from train.preflight.rendered import Templates
from train.templates import serving_template, training_template


@dataclass(frozen=True)
class Tokenization:
    """A tokenizer with its templates; its own template is the training one."""

    base: str
    """Where it is from: a local folder or a hub id."""
    tokenizer: Any
    templates: Templates


def load_tokenization(config: TrainConfig) -> Tokenization:
    """The tokenizer of `config.base_model`, which needs no weights, and the config's templates.

    Raises ConfigError where one of them can't be had.
    """
    from transformers import AutoTokenizer

    base = _resolved(config)
    try:
        tokenizer = AutoTokenizer.from_pretrained(base)
    except (OSError, ValueError) as error:
        raise ConfigError(f"the tokenizer of {base} can't be loaded: {error}") from error
    if not tokenizer.is_fast:
        raise ConfigError(
            f"the tokenizer of {base} can't tell which text a token stands for, so no token can be "
            "masked; give a model with a tokenizer.json"
        )
    sources = config.templates
    serving = serving_template(tokenizer, sources["serving_template"])
    tokenizer.chat_template = training_template(tokenizer, sources["training_template"])
    return Tokenization(base, tokenizer, Templates(tokenizer.chat_template, serving))


def _resolved(config: TrainConfig) -> str:
    folder = Path(config.base_model).expanduser()
    if (folder / "tokenizer.json").is_file():
        return str(folder.resolve())
    return resolve_base_model(config.base_model, config.base_model_sha256)
