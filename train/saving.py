"""Save the trained model's folder so that transformers and vLLM can load it."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from collect.errors import ConfigError
from collect.models.model_folders import TRAINING, training_of
from collect.store.atomic_files import replacing_folder
from train.config import TrainConfig
from train.processes import sharded
from train.report import TrainReport
from train.tokenization import Tokenization, set_serving_template
from train.trainer import load_model


def finished(folder: Path, fingerprint: str) -> TrainReport | None:
    """The report of a model folder that this same training has written, or None."""
    made = training_of(folder)
    return TrainReport.model_validate(made) if made.get("fingerprint") == fingerprint else None


def save_model(
    model: Any, tokenization: Tokenization, target: Path, texts: Mapping[str, str]
) -> None:
    """Write weights, tokenizer, serving template, generation config, and texts by name.

    All are written beside the target and moved there when complete.
    """
    tokenizer = copy.deepcopy(tokenization.tokenizer)
    set_serving_template(tokenizer, tokenization.templates.serving)
    # Generation is to stop at the tokenizer's end-of-turn token.
    known = model.generation_config.eos_token_id
    ids = [known] if isinstance(known, int) else list(known or [])
    if tokenizer.eos_token_id not in ids:
        model.generation_config.eos_token_id = [*ids, tokenizer.eos_token_id]
    # The trainer disables the cache.
    model.config.use_cache = True
    with replacing_folder(target) as folder:
        model.save_pretrained(folder)
        # Saving an adapter does not save the generation config.
        model.generation_config.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
        # safetensors makes its files unreadable for others, such as a server's container.
        readable = folder.stat().st_mode & 0o666
        for file in folder.iterdir():
            file.chmod(readable)


def save_copy(
    model: Any, tokenization: Tokenization, target: Path, repositories: Collection[str]
) -> None:
    """Write another model as it would be served, such as the base model.

    Records only the repositories whose bugs it was trained on, if any.
    """
    told = json.dumps({"repositories": sorted(repositories)}, indent=2) + "\n"
    save_model(model, tokenization, target, {TRAINING: told} if repositories else {})


def final_model(trainer: Any, config: TrainConfig, base: str, folder: Path) -> Any:
    """The trained model, from the trainer; or by way of `folder` if the trainer holds a quantized
    base model, or only a part of the model. Every process must call it."""
    quantized = config.lora is not None and config.lora.quantize is not None
    if not (quantized or sharded()):
        return trainer.accelerator.unwrap_model(trainer.model)
    trainer.save_model(str(folder))
    return reloaded(config, base, folder) if trainer.is_world_process_zero() else None


def reloaded(config: TrainConfig, base: str, folder: Path) -> Any:
    """Load the model in a trainer's folder: adapters on the full-precision base model, or a whole
    one."""
    if config.lora is None:
        return load_model(config, str(folder))
    from peft import PeftModel

    return PeftModel.from_pretrained(load_model(config, base, quantized=False), str(folder))


FINGERPRINT = "fingerprint"
PROCESSES = "processes"
"""File with the number of processes; checkpoints without it are accepted."""


def step_of(checkpoint: Path) -> int:
    """The optimizer step after which a checkpoint was saved."""
    return int(checkpoint.name.removeprefix("checkpoint-"))


def newest_whole(folder: Path) -> Path | None:
    """The checkpoint to resume from, or None."""
    found = [path for path in folder.glob("checkpoint-*") if path.name[11:].isdigit()]
    return max(filter(_is_whole, found), key=step_of, default=None)


def _is_whole(checkpoint: Path) -> bool:
    """Whether the save was completed: the trainer writes its state file last."""
    try:
        state = json.loads((checkpoint / "trainer_state.json").read_text())
    except (OSError, ValueError):
        return False
    return bool(state.get("global_step") == step_of(checkpoint))


def prepare(folder: Path, fingerprint: str, processes: int) -> Path | None:
    """Keep the checkpoints of this same training; remove broken ones and those of others.

    Returns the one to resume from. Raises ConfigError if another number of processes wrote it: with
    more of them a step trains more rows, so resuming would train some rows twice.
    """
    mark, noted = folder / FINGERPRINT, folder / PROCESSES
    if not mark.is_file() or mark.read_text() != fingerprint:
        shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    mark.write_text(fingerprint)
    for path in folder.glob("checkpoint-*"):
        if not _is_whole(path):
            shutil.rmtree(path)
    newest = newest_whole(folder)
    before = int(noted.read_text()) if newest and noted.is_file() else processes
    if before != processes:
        raise ConfigError(
            f"{newest} was saved by a training in {before} processes, and this start has "
            f"{processes}, whose steps are of other rows: start it with {before} processes, or "
            f"remove {folder} to begin anew"
        )
    noted.write_text(str(processes))
    return newest
