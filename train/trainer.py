"""What all of TRL's trainers share: the model, the adapters, the options, and what is logged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from importlib.util import find_spec
from math import isfinite
from pathlib import Path
from typing import Any

from collect.errors import ConfigError, did_you_mean
from collect.models.config import AS_DATA, WEIGHTS
from sandbox.environment import install_command
from train.config import TrainConfig
from train.job import DDP, sharded
from train.report import EvalPoint, LossPoint

OnStep = Callable[[LossPoint, int], None]
"""Called with each logged step and the total number of steps."""
OnPart = Callable[[float, int], None]
"""Called as training begins and at each batch, with the steps done and their total."""


NAMED = {
    "learning_rate": "learning_rate",
    "max_steps": "max_steps",
    "num_train_epochs": "epochs",
    "per_device_train_batch_size": "batch_size",
    "gradient_accumulation_steps": "gradient_accumulation",
    "save_steps": "checkpoint_every",
    "seed": "seed",
    "use_cpu": "device",
}
"""Options of all TRL trainers that have their own field in TrainConfig."""
OPTIONS = NAMED | {
    "max_length": "max_length",
    "num_generations": "grpo.generations",
    "max_completion_length": "grpo.max_completion_length",
    "temperature": "grpo.temperature",
    "reward_weights": "grpo.rewards",
}
"""All that have one, those of single trainers included."""
FIXED = (
    *("output_dir", "assistant_only_loss", "save_strategy", "dataset_kwargs", "truncation_mode"),
    *("remove_unused_columns", "max_tool_calling_iterations"),
)
"""Options that the stage sets itself (the last is `agents.sub_max_steps`), or that have no effect
on encoded rows."""
FIXED_FOR_PAIRS = ("padding_free", "dataset_num_proc")
CONFIGS = {"sft": "SFTConfig", "dpo": "DPOConfig", "grpo": "GRPOConfig"}
LOADING = "model_init_kwargs"
"""Options for loading a model, which TRL ignores for one that is already loaded, but would give to
a reference model."""
METRICS = ("reward", "episodes/", "tools/", "completions/", "kl", "frac_reward_zero_std")
"""Prefixes of the metrics that are kept of each logged step beside the loss."""


def check_trainer_arguments(config: TrainConfig) -> None:
    """Raise ConfigError if the method's trainer has no such option or it is not to be set here."""
    import trl

    kind = CONFIGS[config.method]
    known = {field.name for field in fields(getattr(trl, kind))}
    named = OPTIONS | {"beta": f"{config.method}.beta"}
    fixed = FIXED + FIXED_FOR_PAIRS if config.method == "dpo" else FIXED
    for name in config.trainer_arguments:
        where = f"train.trainer_arguments.{name}"
        if name == LOADING:
            raise ConfigError(
                f"{where} would be ignored, since TRL gets a model that is already loaded; remove "
                "it. How it is loaded is set by train.attention and train.lora.quantize"
            )
        if name not in known:
            near = did_you_mean(name, known)
            raise ConfigError(f"{where}: TRL's {kind} has no option {name!r}{near}")
        if name in named:
            raise ConfigError(f"{where} is set by train.{named[name]}; use that")
        if name in fixed:
            raise ConfigError(f"{where} can't be changed; remove it")


def check_quantization(config: TrainConfig) -> None:
    bits = config.lora.quantize if config.lora is not None else None
    if bits is None:
        return
    where = f"train.lora.quantize: {bits}"
    if on_cpu(config):
        raise ConfigError(f"{where} needs a CUDA GPU, and training runs on the CPU; set it to null")
    if find_spec("bitsandbytes") is None:
        raise ConfigError(
            f"{where} needs bitsandbytes, which is not installed: {install_command('qlora')}, or "
            "set it to null"
        )
    if sharded():
        raise ConfigError(
            f"{where} works with a whole model in each process, not with FSDP; launch with "
            f"{DDP}, or set it to null"
        )


def on_cpu(config: TrainConfig) -> bool:
    import torch

    return config.device == "cpu" or not torch.cuda.is_available()


def load_model(config: TrainConfig, base: str, *, quantized: bool = True) -> Any:
    """The base model: float32 on a CPU and for full training, otherwise bfloat16.

    Quantized if the config says so (QLoRA, https://arxiv.org/abs/2305.14314: NF4 with double
    quantization, computed in bfloat16), unless `quantized` is false.
    """
    import torch
    from accelerate import PartialState
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig

    whole = config.lora is None or on_cpu(config)
    options: dict[str, Any] = {"dtype": torch.float32 if whole else torch.bfloat16}
    bits = config.lora.quantize if config.lora and quantized else None
    if bits == "8bit":
        options["quantization_config"] = BitsAndBytesConfig(load_in_8bit=True)
    elif bits == "4bit":
        options["quantization_config"] = BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_use_double_quant=True,
            bnb_4bit_compute_dtype=torch.bfloat16,
        )
    if bits is not None:
        options["device_map"] = {"": PartialState().device}
    return AutoModelForCausalLM.from_pretrained(
        base, attn_implementation=config.attention, **options, **WEIGHTS
    )


def without_weights(config: TrainConfig, base: str) -> Any:
    """The base model on torch's meta device, which takes neither time nor memory.

    Raises ConfigError if this machine or the model does not have the attention implementation.
    """
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    described = AutoConfig.from_pretrained(base, **AS_DATA)
    try:
        with torch.device("meta"):
            return AutoModelForCausalLM.from_config(
                described, attn_implementation=config.attention, **AS_DATA
            )
    except (ImportError, ValueError) as error:
        if config.attention is None:
            raise
        raise ConfigError(f"train.attention: {config.attention}: {error}") from error


def shared_options(config: TrainConfig, output: Path) -> dict[str, Any]:
    """The options shared by all TRL trainers. CPUs need no activation checkpointing, and FSDP has
    its own."""
    import torch

    cpu = on_cpu(config)
    features = torch.cpu.get_capabilities()
    # Newer CPUs multiply faster in bfloat16 than in float32.
    fast_bf16 = bool(features.get("avx512_bf16") or features.get("amx_bf16"))
    arguments = {
        "bf16": not cpu or fast_bf16,
        "gradient_checkpointing": not cpu and not sharded(),
        "ddp_find_unused_parameters": False,
        "logging_steps": 1,
        "logging_first_step": True,
        "save_total_limit": 2,
        "lr_scheduler_type": "cosine",
        "disable_tqdm": True,
        "report_to": ["wandb"] if config.wandb else "none",
    } | config.trainer_arguments
    arguments |= {option: getattr(config, setting) for option, setting in NAMED.items()}
    return arguments | {
        "output_dir": str(output),
        "max_steps": config.max_steps or -1,
        "save_strategy": "steps",
        "use_cpu": cpu,
    }


def quiet(trainer: Any) -> Any:
    from transformers import PrinterCallback

    trainer.remove_callback(PrinterCallback)
    return trainer


class AtItsEnd(Exception):
    """A training was resumed from its last step. The trainer would do one more."""


def report_steps(on_step: OnStep | None, on_part: OnPart | None) -> Any:
    """A trainer callback that calls `on_step` for each logged step, and `on_part`. Its training
    raises AtItsEnd in place of a step too many."""
    from transformers import TrainerCallback

    class Report(TrainerCallback):  # type: ignore[misc]
        batches = 0
        """Those of the present step."""

        def tell(self, args: Any, state: Any, batches: int) -> None:
            self.batches = batches
            part = batches / args.gradient_accumulation_steps
            if on_part is not None:
                on_part(state.global_step + part, state.max_steps)

        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self.tell(args, state, 0)

        def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step >= state.max_steps:
                raise AtItsEnd

        def on_substep_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self.tell(args, state, self.batches + 1)

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self.tell(args, state, 0)

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            for point in loss_curve([{**(logs or {}), "step": state.global_step}]):
                if on_step is not None:
                    on_step(point, state.max_steps)

    return Report()


def loss_curve(history: list[dict[str, Any]]) -> list[LossPoint]:
    """The logged steps of a trainer's history, without its closing summary."""
    return [
        LossPoint(
            step=entry["step"],
            epoch=entry.get("epoch", 0.0),
            loss=entry["loss"],
            learning_rate=entry.get("learning_rate", 0.0),
            token_accuracy=entry.get("mean_token_accuracy"),
            metrics={
                name: float(value)
                for name, value in entry.items()
                if name.startswith(METRICS) and isinstance(value, int | float) and isfinite(value)
            },
        )
        for entry in history
        if "loss" in entry
    ]


def eval_curve(history: list[dict[str, Any]]) -> list[EvalPoint]:
    return [
        EvalPoint(
            step=entry["step"],
            loss=entry["eval_loss"],
            token_accuracy=entry.get("eval_mean_token_accuracy"),
        )
        for entry in history
        if "eval_loss" in entry
    ]
