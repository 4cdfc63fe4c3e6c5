"""TRL's trainers, set up from the config: what they share, and the SFTTrainer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import fields
from math import isfinite
from pathlib import Path
from typing import Any

from collect.errors import ConfigError
from collect.near_names import did_you_mean
from train.config import LoraSettings, TrainConfig
from train.evaluation import eval_options
from train.loss import can_skip, trained_tokens_trainer
from train.quantization import quantized_options
from train.report import LossPoint

OnStep = Callable[[LossPoint, int], None]
"""Called with each logged step and the number of steps in all."""

NAMED = {
    "learning_rate": "learning_rate",
    "max_length": "max_length",
    "max_steps": "max_steps",
    "num_train_epochs": "epochs",
    "per_device_train_batch_size": "batch_size",
    "gradient_accumulation_steps": "gradient_accumulation",
    "save_steps": "checkpoint_every",
    "seed": "seed",
    "use_cpu": "device",
}
"""Options of TRL that have a field of their own in TrainConfig."""
FIXED = (
    "output_dir",
    "assistant_only_loss",
    "save_strategy",
    "dataset_kwargs",
    "truncation_mode",
)
"""Options that the stage needs as they are, or that change nothing on rows cut already."""

METRICS = ("reward", "episodes/", "tools/", "completions/", "kl", "frac_reward_zero_std")
"""How the names begin of what is kept of each logged step beside the loss."""


def check_trainer_arguments(
    arguments: dict[str, Any],
    kind: str = "SFTConfig",
    named: Mapping[str, str] = NAMED,
    fixed: Collection[str] = FIXED,
) -> None:
    """Raise ConfigError where TRL's `kind` has no such option, or it is not to be set this way."""
    import trl

    known = {field.name for field in fields(getattr(trl, kind))}
    for name in arguments:
        where = f"train.trainer_arguments.{name}"
        if name in named:
            raise ConfigError(f"{where} is set by train.{named[name]}; use that")
        if name in fixed:
            raise ConfigError(f"{where} can't be changed; remove it")
        if name not in known:
            near = did_you_mean(name, known)
            raise ConfigError(f"{where}: TRL's {kind} has no option {name!r}{near}")


def on_cpu(config: TrainConfig) -> bool:
    """Whether training runs on the CPU."""
    import torch

    return config.device == "cpu" or not torch.cuda.is_available()


def has_fast_bf16() -> bool:
    """Whether the CPU multiplies in bfloat16 faster than in float32, as newer ones do."""
    import torch

    features = torch.cpu.get_capabilities()
    return bool(features.get("avx512_bf16") or features.get("amx_bf16"))


def sft_config(config: TrainConfig, output: Path) -> Any:
    """TRL's configuration."""
    from trl import SFTConfig

    options = shared_options(config, output)
    if config.curriculum == "difficulty":
        options["train_sampling_strategy"] = "sequential"
    return SFTConfig(max_length=config.max_length, **options | eval_options(config))


def shared_options(config: TrainConfig, output: Path) -> dict[str, Any]:
    """The options of every trainer of TRL's. On a CPU checkpointing activations is needless."""
    cpu = on_cpu(config)
    arguments = {
        "bf16": not cpu or has_fast_bf16(),
        "gradient_checkpointing": not cpu,
        "ddp_find_unused_parameters": False,
        "logging_steps": 1,
        "logging_first_step": True,
        "save_total_limit": 2,
        "lr_scheduler_type": "cosine",
        "disable_tqdm": True,
        "report_to": ["wandb"] if config.wandb else "none",
    } | config.trainer_arguments
    return arguments | {
        "output_dir": str(output),
        "learning_rate": config.learning_rate,
        "max_steps": config.max_steps or -1,
        "num_train_epochs": config.epochs,
        "per_device_train_batch_size": config.batch_size,
        "gradient_accumulation_steps": config.gradient_accumulation,
        "save_strategy": "steps",
        "save_steps": config.checkpoint_every,
        "seed": config.seed,
        "use_cpu": cpu,
    }


def load_model(config: TrainConfig, base: str, *, quantized: bool = True) -> Any:
    """The base model: float32 on a CPU and for training every weight, else bfloat16.

    In fewer bits where the config has it, unless not `quantized`.
    """
    import torch
    from transformers import AutoModelForCausalLM

    whole = config.lora is None or on_cpu(config)
    dtype = torch.float32 if whole else torch.bfloat16
    bits = config.lora.quantize if config.lora and quantized else None
    options = quantized_options(bits) if bits else {}
    return AutoModelForCausalLM.from_pretrained(base, dtype=dtype, **options)


def lora_config(settings: LoraSettings, model: Any) -> Any:
    """peft's configuration of the adapters."""
    from peft import LoraConfig

    targets: Any = settings.target_modules
    layers = None
    if settings.top_layers is not None:
        depth = model.config.get_text_config().num_hidden_layers
        layers = list(range(max(0, depth - settings.top_layers), depth))
        # peft chooses layers only among modules given by name.
        targets = _linear_names(model) if targets == "all-linear" else targets
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


def _linear_names(model: Any) -> list[str]:
    """The last parts of the names of all linear modules but the head."""
    from torch import nn

    head = model.get_output_embeddings()
    modules = model.named_modules()
    linear = (name for name, each in modules if isinstance(each, nn.Linear) and each is not head)
    return sorted({name.rpartition(".")[2] for name in linear})


def build_trainer(
    config: TrainConfig,
    model: Any,
    tokenizer: Any,
    rows: Any,
    output: Path,
    *,
    test_rows: Any = None,
    trained_tokens_only: bool = True,
) -> Any:
    """A trainer over rows of `input_ids` and `labels`, which TRL takes as they are.

    The loss is the same with `trained_tokens_only` as without, which on a CPU takes longer.
    """
    from train.measuring import MeasuringTrainer

    arguments = sft_config(config, output)
    chosen = trained_tokens_only and on_cpu(config) and can_skip(model, arguments)
    kind = trained_tokens_trainer() if chosen else MeasuringTrainer
    return quiet(
        kind(
            model=model,
            args=arguments,
            train_dataset=rows,
            eval_dataset=test_rows,
            processing_class=tokenizer,
            peft_config=lora_config(config.lora, model) if config.lora else None,
        )
    )


def quiet(trainer: Any) -> Any:
    """The trainer, without its own prints."""
    from transformers import PrinterCallback

    trainer.remove_callback(PrinterCallback)
    return trainer


def report_steps(on_step: OnStep) -> Any:
    """A trainer callback that passes on each logged step."""
    from transformers import TrainerCallback

    class Report(TrainerCallback):  # type: ignore[misc]
        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            for point in loss_curve([{**(logs or {}), "step": state.global_step}]):
                on_step(point, state.max_steps)

    return Report()


def loss_curve(history: list[dict[str, Any]]) -> list[LossPoint]:
    """The logged steps of a trainer's history; its closing summary is none of them."""
    return [
        LossPoint(
            step=entry["step"],
            epoch=entry.get("epoch", 0.0),
            loss=entry["loss"],
            learning_rate=entry.get("learning_rate", 0.0),
            token_accuracy=entry.get("mean_token_accuracy"),
            metrics=_metrics(entry),
        )
        for entry in history
        if "loss" in entry
    ]


def _metrics(entry: dict[str, Any]) -> dict[str, float]:
    """What a trainer on preferences or rewards says of a step, where it is a number."""
    return {
        name: float(value)
        for name, value in entry.items()
        if name.startswith(METRICS) and isinstance(value, int | float) and isfinite(value)
    }
