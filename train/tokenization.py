"""What rows are tokenised with: a base model's tokenizer and a pair of chat templates."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from collect.errors import ConfigError
from train.base_model import resolve_base_model
from train.config import TrainConfig
from train.encoding import Templates

OF_TRL = "trl:"
"""Prefix of the name of one of TRL's templates, as opposed to a path."""


def template_file(source: str | None) -> Path | None:
    """The path of a template in a file; None for one of TRL's or the base model's."""
    return None if source is None or source.startswith(OF_TRL) else Path(source).expanduser()


def load_template(source: str) -> str:
    """The text of `trl:NAME.jinja` (of the installed TRL) or of a file."""
    path = template_file(source)
    if path is not None:
        if not path.is_file():
            raise ConfigError(f"there is no chat template {path}; give a path or `trl:NAME.jinja`")
        return path.read_text()
    spec = find_spec("trl")
    folder = Path((spec.origin if spec else None) or "").parent / "chat_templates"
    path = folder / source.removeprefix(OF_TRL)
    if not path.is_file():
        names = ", ".join(sorted(each.name for each in folder.glob("*.jinja")))
        raise ConfigError(f"the installed TRL has no chat template {path.name}; it has {names}")
    return path.read_text()


def training_template(tokenizer: Any, source: str | None) -> str:
    """A template with generation markers, which mark the trained tokens.

    By default the tokenizer's own, or TRL's training variant of it.
    """
    from trl.chat_template_utils import get_training_chat_template, has_generation_markers

    if source is not None:
        template = load_template(source)
        if not has_generation_markers(template):
            raise ConfigError(
                f"the training template {source} has no {{% generation %}} markers around the "
                "assistant's turns; use one of TRL's `*_training.jinja`, or add them"
            )
        return template
    own = tokenizer.chat_template
    if own is None:
        raise ConfigError("the base model has no chat template; set train.training_template")
    if has_generation_markers(own):
        return str(own)
    try:
        return str(get_training_chat_template(tokenizer))
    except ValueError as error:
        raise ConfigError(
            "TRL has no training variant of the base model's chat template; set "
            "train.training_template to a template with {% generation %} markers"
        ) from error


def set_serving_template(tokenizer: Any, template: str) -> None:
    """Set the tokenizer's serving template, and the parser of replies that belongs to it."""
    from trl.chat_template_utils import add_response_schema

    tokenizer.chat_template = template
    # TRL knows only its own templates' parsers; others keep the base model's.
    with contextlib.suppress(ValueError):
        add_response_schema(tokenizer)


@dataclass(frozen=True)
class Tokenization:
    """A tokenizer with its templates; its own template is the training one."""

    base: str
    """A local folder or a hub id."""
    tokenizer: Any
    templates: Templates


def load_tokenization(config: TrainConfig) -> Tokenization:
    """The tokenizer of `config.base_model`, loaded without weights, and the config's templates.

    Raises ConfigError if one of them is unavailable.
    """
    from transformers import AutoTokenizer

    # A folder needs no model to have a tokenizer.
    folder = Path(config.base_model).expanduser()
    if (folder / "tokenizer.json").is_file():
        base = str(folder.resolve())
    else:
        base = resolve_base_model(config.base_model, config.base_model_sha256)
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
    source = sources["serving_template"]
    serving = tokenizer.chat_template if source is None else load_template(source)
    if serving is None:
        raise ConfigError("the base model has no chat template; set train.serving_template")
    tokenizer.chat_template = training_template(tokenizer, sources["training_template"])
    return Tokenization(base, tokenizer, Templates(tokenizer.chat_template, str(serving)))
