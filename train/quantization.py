"""A base model in 4 or 8 bits with adapters in higher precision (QLoRA,
https://arxiv.org/abs/2305.14314)."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, Literal

from collect.errors import ConfigError
from sandbox.environment import install_command
from train.config import LoraSettings
from train.processes import sharded

Bits = Literal["4bit", "8bit"]


def check_quantization(lora: LoraSettings | None, cpu: bool) -> None:
    """Raise ConfigError if this machine can't run a quantized model."""
    bits = lora.quantize if lora is not None else None
    if bits is None:
        return
    if cpu:
        raise ConfigError(
            f"train.lora.quantize: {bits} needs a CUDA GPU, and training runs on the CPU; "
            "set it to null"
        )
    if find_spec("bitsandbytes") is None:
        raise ConfigError(
            f"train.lora.quantize: {bits} needs bitsandbytes, which is not installed: "
            f"{install_command('qlora')}, or set it to null"
        )
    if sharded():
        raise ConfigError(
            f"train.lora.quantize: {bits} works with a whole model in each process, not with FSDP; "
            "launch with configs/accelerate/ddp.yaml, or set it to null"
        )


def quantized_options(bits: Bits) -> dict[str, Any]:
    """Options of `from_pretrained`: NF4 with double quantization, computed in bfloat16."""
    import torch
    from accelerate import PartialState
    from transformers import BitsAndBytesConfig

    if bits == "8bit":
        settings = BitsAndBytesConfig(load_in_8bit=True)
    else:
        settings = BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_use_double_quant=True,
            bnb_4bit_compute_dtype=torch.bfloat16,
        )
    place = PartialState().device
    return {"quantization_config": settings, "device_map": {"": place}}
