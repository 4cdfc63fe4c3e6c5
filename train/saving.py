"""The trained model's folder, as transformers and vLLM load it."""

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
from train.tokenization import set_serving_template
from train.trainer import load_model


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


# The trained model, whole and in full precision, where the trainer doesn't hold it so.


def final_model(trainer: Any, config: TrainConfig, base: str, folder: Path) -> Any:
    """What was trained: from the trainer, or where that holds a quantized base model, or a part
    of the model, by way of `folder`. Every process has to call it.
    """
    quantized = config.lora is not None and config.lora.quantize is not None
    if not (quantized or sharded()):
        return trainer.accelerator.unwrap_model(trainer.model)
    trainer.save_model(str(folder))
    return reloaded(config, base, folder) if trainer.is_world_process_zero() else None


def reloaded(config: TrainConfig, base: str, folder: Path) -> Any:
    """The model in a trainer's folder: adapters on the base model in full precision, or whole."""
    if config.lora is None:
        return load_model(config, str(folder))
    from peft import PeftModel

    return PeftModel.from_pretrained(load_model(config, base, quantized=False), str(folder))


# Finding the checkpoint to go on from.


FINGERPRINT = "fingerprint"
PROCESSES = "processes"
"""How many there were; checkpoints of a training that has not noted it are taken as they are."""


def step_of(checkpoint: Path) -> int:
    """The optimizer step after which a checkpoint was saved."""
    return int(checkpoint.name.removeprefix("checkpoint-"))


def is_whole(checkpoint: Path) -> bool:
    """Whether the save was finished: the trainer writes its state file last."""
    try:
        state = json.loads((checkpoint / "trainer_state.json").read_text())
    except (OSError, ValueError):
        return False
    return bool(state.get("global_step") == step_of(checkpoint))


def newest_whole(folder: Path) -> Path | None:
    """The checkpoint to resume from, or None."""
    found = [path for path in folder.glob("checkpoint-*") if path.name[11:].isdigit()]
    return max(filter(is_whole, found), key=step_of, default=None)


def prepare(folder: Path, fingerprint: str, processes: int) -> Path | None:
    """Keep the checkpoints of this very training, and remove those of any other and broken ones.

    Returns the one to go on from. Raises ConfigError where another number of processes left it.
    """
    mark = folder / FINGERPRINT
    if not mark.is_file() or mark.read_text() != fingerprint:
        shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    mark.write_text(fingerprint)
    for path in folder.glob("checkpoint-*"):
        if not is_whole(path):
            shutil.rmtree(path)
    newest = newest_whole(folder)
    if newest is not None:
        _refuse_other_processes(newest, processes)
    (folder / PROCESSES).write_text(str(processes))
    return newest


def _refuse_other_processes(checkpoint: Path, processes: int) -> None:
    """A step of more processes trains more rows, so that going on would train some twice."""
    noted = checkpoint.with_name(PROCESSES)
    before = int(noted.read_text()) if noted.is_file() else processes
    if before != processes:
        raise ConfigError(
            f"{checkpoint} was saved by a training in {before} processes, and this start has "
            f"{processes}, whose steps are of other rows: start it with {before} processes, or "
            f"remove {checkpoint.parent} to begin anew"
        )
