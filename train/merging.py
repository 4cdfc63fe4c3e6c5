"""The trained model, whole and in full precision, where the trainer doesn't hold it so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from train.config import TrainConfig
from train.processes import sharded
from train.trainer import load_model


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
