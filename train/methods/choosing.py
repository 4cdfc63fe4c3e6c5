"""The method that a config names."""

from __future__ import annotations

from train.config import TrainConfig
from train.methods.base import Method
from train.methods.sft import SupervisedFineTuning


def open_method(config: TrainConfig) -> Method:
    """The implementation of `train.method`."""
    return SupervisedFineTuning(config)
