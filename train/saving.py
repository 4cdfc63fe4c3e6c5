"""The trained model's folder, as transformers and vLLM load it."""

from __future__ import annotations

import copy
import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from collect.durable import replacing_folder
from collect.models.model_folders import TRAINING, training_of
from train.report import TrainReport
from train.templates import set_serving_template


def finished(folder: Path, fingerprint: str) -> TrainReport | None:
    """The report of a model folder that this very training has made, or None."""
    made = training_of(folder)
    return TrainReport.model_validate(made) if made.get("fingerprint") == fingerprint else None


def save_model(
    model: Any,
    tokenizer: Any,
    template: str,
    report: TrainReport,
    target: Path,
    *,
    merge: bool,
    texts: Mapping[str, str],
) -> None:
    """Write weights, tokenizer, serving template, generation config, report, and texts by name.

    They are written beside the target and put in its place when complete.
    """
    with replacing_folder(target) as temporary:
        _write_model(model.merge_and_unload() if merge else model, tokenizer, template, temporary)
        for name, text in texts.items():
            (temporary / name).write_text(text, encoding="utf-8")
        (temporary / TRAINING).write_text(report.model_dump_json(indent=2) + "\n")
        _let_others_read(temporary)


def save_copy(
    model: Any, tokenizer: Any, template: str, target: Path, repositories: Collection[str]
) -> None:
    """Write another model as it would be served, such as the base model.

    Of its training nothing is told but whose bugs were trained on, where there are such.
    """
    with replacing_folder(target) as temporary:
        _write_model(model, copy.deepcopy(tokenizer), template, temporary)
        if repositories:
            told = json.dumps({"repositories": sorted(repositories)}, indent=2)
            (temporary / TRAINING).write_text(told + "\n")
        _let_others_read(temporary)


def _write_model(saved: Any, tokenizer: Any, template: str, folder: Path) -> None:
    set_stop_tokens(saved, tokenizer)
    # The trainer switches the cache off.
    saved.config.use_cache = True
    set_serving_template(tokenizer, template)
    saved.save_pretrained(folder)
    # An adapter's save leaves the generation config to its base model.
    saved.generation_config.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _let_others_read(folder: Path) -> None:
    """safetensors keeps its files from every other user, and so from a server's container."""
    readable = folder.stat().st_mode & 0o666
    for file in folder.iterdir():
        file.chmod(readable)


def set_stop_tokens(model: Any, tokenizer: Any) -> None:
    """Let generation end where the tokenizer's end-of-turn token does."""
    known = model.generation_config.eos_token_id
    ids = [known] if isinstance(known, int) else list(known or [])
    if tokenizer.eos_token_id not in ids:
        model.generation_config.eos_token_id = [*ids, tokenizer.eos_token_id]
