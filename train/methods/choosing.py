"""The method that a config names."""

from __future__ import annotations

from train.config import TrainConfig
from train.methods.base import Method
from train.methods.dpo import PreferenceOptimization
from train.methods.grpo import RewardOptimization
from train.methods.sft import SupervisedFineTuning
from train.question_bench import QuestionBench


def open_method(config: TrainConfig, bench: QuestionBench | None) -> Method:
    """The implementation of `train.method`; `bench` is what training on rewards needs."""
    if config.method == "dpo":
        return PreferenceOptimization(config)
    if config.method == "grpo":
        return RewardOptimization(config, bench or QuestionBench())
    return SupervisedFineTuning(config)
