"""Set up TRL's trainers from the config: the shared parts, and SFTTrainer."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from math import isfinite
from pathlib import Path
from typing import Any

from collect.errors import ConfigError
from collect.field_errors import did_you_mean
from train.config import LoraSettings, TrainConfig
from train.encoding import IGNORED
from train.evaluation import eval_options
from train.quantization import quantized_options
from train.report import LossPoint

# The loss on a CPU. TRL reads every row in full and computes logits for every token.
#
# In agent conversations most tokens are context, so most of the head's work is wasted. Rows also
# begin alike, with the system prompt and tools, so a batch reads that part once. On a GPU TRL skips
# ignored tokens by itself.


MAX_SCORED = 4_096
"""Tokens whose logits are held at once; larger batches are left to TRL, which splits them."""
MIN_SHARED = 32
"""Tokens; a shorter shared beginning is not worth a separate pass."""


def trained_logits(model: Any, inputs: dict[str, Any], shared: int) -> tuple[Any, Any]:
    """Logits for each trained token of a batch, row after row, and these tokens.

    The first `shared` tokens must be the same in all rows; they are read once, and gradients of all
    rows flow through them. The rest is read row by row, without padding, which must be at the end.
    """
    import torch
    from transformers import DynamicCache

    ids, labels = inputs["input_ids"], inputs["labels"]
    beginning = _keys_and_values(model, ids[:1, :shared]) if shared else None
    logits, targets = [], []
    for row, length in enumerate(inputs["attention_mask"].sum(dim=1).tolist()):
        places = (labels[row, 1:length] != IGNORED).nonzero().squeeze(1)
        if len(places):
            with _scored_at(model.get_output_embeddings(), places - shared):
                output = model(
                    input_ids=ids[row : row + 1, shared:length],
                    past_key_values=DynamicCache(beginning) if beginning else None,
                    use_cache=beginning is not None,
                )
            logits.append(output.logits[0].float())
            targets.append(labels[row, places + 1])
    return torch.cat(logits), torch.cat(targets)


def _keys_and_values(model: Any, ids: Any) -> list[tuple[Any, Any]]:
    """Keys and values of every layer, with gradients."""
    cache = model(input_ids=ids, use_cache=True, logits_to_keep=1).past_key_values
    return [(layer.keys, layer.values) for layer in cache.layers]


@contextmanager
def _scored_at(head: Any, places: Any) -> Iterator[None]:
    """Make the head compute these positions only."""

    def choose(_: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        return (arguments[0][:, places], *arguments[1:])

    handle = head.register_forward_pre_hook(choose)
    try:
        yield
    finally:
        handle.remove()


def shared_beginning(inputs: dict[str, Any]) -> int:
    """Number of leading tokens that all rows of a batch share, none of them trained.

    Excludes the last token before a trained one, whose logits each row needs.
    """
    ids, mask, labels = (inputs[name] for name in ("input_ids", "attention_mask", "labels"))
    if len(ids) < 2:
        return 0
    alike = (ids == ids[:1]) & (mask == 1)
    alike[:, :-1] &= labels[:, 1:] == IGNORED
    shared = int(alike.all(dim=0).cumprod(dim=0).sum())
    return shared if MIN_SHARED <= shared < ids.shape[1] else 0


def can_skip(model: Any, arguments: Any) -> bool:
    """Whether the model can compute logits at chosen positions, and nothing needs the others.

    With several processes all must make the same number of passes, so TRL does it.
    """
    text = model.config.get_text_config()
    plain = arguments.loss_type == "nll" and not arguments.label_smoothing_factor
    in_rows = not arguments.packing and not arguments.padding_free
    mixture = hasattr(text, "output_router_logits")
    chosen = "logits_to_keep" in inspect.signature(model.forward).parameters
    return plain and in_rows and not mixture and chosen and arguments.world_size == 1


def trained_tokens_trainer() -> Any:
    """A subclass of MeasuringTrainer that computes the same loss from trained tokens' logits
    only."""
    import torch

    from collect.models.local_generation import keeps_all_keys
    from train.trl_trainers import MeasuringTrainer

    class TrainedTokensTrainer(MeasuringTrainer):
        def compute_loss(
            self,
            model: Any,
            inputs: dict[str, Any],
            return_outputs: bool = False,
            num_items_in_batch: Any = None,
        ) -> Any:
            trained = int((inputs["labels"][:, 1:] != IGNORED).sum())
            if return_outputs or not 0 < trained <= MAX_SCORED:
                return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
            shared = shared_beginning(inputs) if self._can_share(model) else 0
            logits, targets = trained_logits(model, inputs, shared)
            loss = torch.nn.functional.cross_entropy(logits, targets, reduction="sum")
            loss = loss / (trained if num_items_in_batch is None else num_items_in_batch)
            self._note(inputs, logits.detach(), targets)
            return loss

        def _can_share(self, model: Any) -> bool:
            return not self.args.gradient_checkpointing and keeps_all_keys(model)

        def _note(self, inputs: Any, logits: Any, targets: Any) -> None:
            """Record the numbers that SFTTrainer logs beside the loss."""
            metrics = self._metrics["train" if self.model.training else "eval"]
            accuracy = (logits.argmax(-1) == targets).float().mean()
            metrics["mean_token_accuracy"].append(accuracy.item())
            if self.model.training:
                self._total_train_tokens += inputs["attention_mask"].sum().item()
            metrics["num_tokens"] = [self._total_train_tokens]

    return TrainedTokensTrainer


OnStep = Callable[[LossPoint, int], None]
"""Called with each logged step and the total number of steps."""

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
"""TRL options that have their own field in TrainConfig."""
FIXED = (
    "output_dir",
    "assistant_only_loss",
    "save_strategy",
    "dataset_kwargs",
    "truncation_mode",
)
"""Options that the stage sets itself, or that have no effect on rows that are already cut."""

METRICS = ("reward", "episodes/", "tools/", "completions/", "kl", "frac_reward_zero_std")
"""Prefixes of the metrics that are kept of each logged step beside the loss."""


def check_trainer_arguments(
    arguments: dict[str, Any],
    kind: str = "SFTConfig",
    named: Mapping[str, str] = NAMED,
    fixed: Collection[str] = FIXED,
) -> None:
    """Raise ConfigError if TRL's `kind` has no such option or the option is not to be set here."""
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
    """Whether the CPU multiplies faster in bfloat16 than in float32, as newer ones do."""
    import torch

    features = torch.cpu.get_capabilities()
    return bool(features.get("avx512_bf16") or features.get("amx_bf16"))


def sft_config(config: TrainConfig, output: Path) -> Any:
    """TRL's SFTConfig."""
    from trl import SFTConfig

    options = shared_options(config, output)
    if config.curriculum == "difficulty":
        options["train_sampling_strategy"] = "sequential"
    return SFTConfig(max_length=config.max_length, **options | eval_options(config))


def shared_options(config: TrainConfig, output: Path) -> dict[str, Any]:
    """The options shared by all TRL trainers. CPUs need no activation checkpointing."""
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
    """The base model: float32 on a CPU and for full training, otherwise bfloat16.

    Quantized if the config says so, unless `quantized` is false.
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
    """The last parts of the names of all linear modules except the head."""
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

    `trained_tokens_only` does not change the loss; on a CPU it is faster.
    """
    from train.trl_trainers import MeasuringTrainer

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
    """Remove the trainer's own printing."""
    from transformers import PrinterCallback

    trainer.remove_callback(PrinterCallback)
    return trainer


def report_steps(on_step: OnStep) -> Any:
    """A trainer callback that calls `on_step` for each logged step."""
    from transformers import TrainerCallback

    class Report(TrainerCallback):  # type: ignore[misc]
        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            for point in loss_curve([{**(logs or {}), "step": state.global_step}]):
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
            metrics=_metrics(entry),
        )
        for entry in history
        if "loss" in entry
    ]


def _metrics(entry: dict[str, Any]) -> dict[str, float]:
    """The numeric metrics that a preference or reward trainer logs for a step."""
    return {
        name: float(value)
        for name, value in entry.items()
        if name.startswith(METRICS) and isinstance(value, int | float) and isfinite(value)
    }
