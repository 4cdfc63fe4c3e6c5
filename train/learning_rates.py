"""The usual learning rates by method, adapters and the model's size: defaults and a warning."""

from __future__ import annotations

from train.config import TrainConfig

USUAL = {
    ("sft", "lora"): (1e-4, 2e-4),
    ("sft", "full"): (1e-5, 2e-5),
    ("dpo", "lora"): (5e-7, 1e-5),
    ("dpo", "full"): (5e-7, 1e-5),
    ("grpo", "lora"): (1e-6, 1e-5),
    ("grpo", "full"): (1e-6, 1e-5),
}
"""The lowest and the highest. Adapters begin at zero and bear the highest."""
SMALL = 2_000_000_000
"""Parameters below which supervised training bears `SMALL_SFT`: SmolLM2 was trained with 3e-4
(1.7B) and 1e-3 (135M), every weight of it."""
SMALL_SFT = 1e-3
FAR = 10
"""The factor from which on a learning rate is more likely a mistake than a choice."""


def with_learning_rate(config: TrainConfig) -> TrainConfig:
    """The config with its method's learning rate if it sets none."""
    if config.learning_rate is not None:
        return config
    low, high = USUAL[config.method, _weights(config)]
    return config.model_copy(update={"learning_rate": low if config.lora is None else high})


def doubt(config: TrainConfig, parameters: int) -> str | None:
    """What to warn of if the learning rate is unusual for a model of so many parameters."""
    rate, weights = config.learning_rate, _weights(config)
    low, high = USUAL[config.method, weights]
    if config.method == "sft" and parameters < SMALL:
        high = SMALL_SFT
    if rate is None or low / FAR < rate < high * FAR:
        return None
    kind = "adapters (LoRA)" if weights == "lora" else "every weight"
    return (
        f"train.learning_rate = {rate:g} is far from {low:g} to {high:g}, which method: "
        f"{config.method} usually takes to train {kind} of a model of {parameters:,} parameters; "
        "train.learning_rate=null takes the method's own"
    )


def _weights(config: TrainConfig) -> str:
    return "full" if config.lora is None else "lora"
