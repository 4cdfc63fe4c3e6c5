"""The learning rates that methods take by default, and the warning about unusual ones."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from configs.loading import load_config
from train.config import LoraSettings, TrainConfig, doubt, with_learning_rate

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
SMOLLM2, QWEN_7B = 134_515_008, 7_615_616_512


@pytest.mark.parametrize(
    ("method", "lora", "rate"),
    [
        ("sft", LoraSettings(), 2e-4),
        ("sft", None, 1e-5),
        ("dpo", LoraSettings(), 1e-5),
        ("dpo", None, 5e-7),
        ("grpo", LoraSettings(), 1e-5),
        ("grpo", None, 1e-6),
    ],
)
def test_each_method_has_its_own(method: Any, lora: LoraSettings | None, rate: float) -> None:
    config = TrainConfig(method=method, lora=lora)
    chosen = with_learning_rate(config)
    assert chosen.learning_rate == rate
    assert doubt(chosen, SMOLLM2) is None
    assert doubt(chosen, QWEN_7B) is None
    assert with_learning_rate(chosen.model_copy(update={"learning_rate": 0.5})).learning_rate == 0.5


@pytest.mark.parametrize(
    ("parameters", "lora", "rate", "told"),
    [
        (SMOLLM2, LoraSettings(), 1e-3, None),
        (SMOLLM2, None, 1e-3, None),
        (SMOLLM2, LoraSettings(), 1e-2, "0.0001 to 0.001"),
        (QWEN_7B, LoraSettings(), 1e-3, None),
        (QWEN_7B, LoraSettings(), 2e-3, "0.0001 to 0.0002"),
        (QWEN_7B, LoraSettings(), 1e-5, "0.0001 to 0.0002"),
        (QWEN_7B, None, 2e-4, r"1e-05 to 2e-05, .* every weight"),
    ],
)
def test_far_from_the_usual_is_ten_times(
    parameters: int, lora: LoraSettings | None, rate: float, told: str | None
) -> None:
    said = doubt(TrainConfig(lora=lora, learning_rate=rate), parameters)
    assert said is None if told is None else re.search(told, said or "")


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yaml")), ids=lambda path: path.stem)
def test_no_shipped_config_is_doubted(path: Path) -> None:
    config = load_config(path)
    if "train" in config.stages:
        size = re.search(r"(\d+(?:\.\d+)?)B", config.train.base_model)
        parameters = int(float(size[1]) * 1e9) if size else SMOLLM2
        assert doubt(with_learning_rate(config.train), parameters) is None
