"""The seam between the stage and what it trains with."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from train.config import TrainConfig
from train.job import Job, QuestionBench
from train.methods.dpo import PreferenceOptimization
from train.methods.grpo import RewardOptimization
from train.methods.sft import SupervisedFineTuning
from train.preflight.report import Preflight
from train.tokenization import Tokenization


class Method(Protocol):
    """One way to train: its data, and the trainer over them. The rest is the stage's."""

    @property
    def other_facts(self) -> Any:
        """What besides config and data makes a training another one, as JSON; None: nothing."""

    def check(self) -> None:
        """Raise ConfigError where the config can't work, before anything is loaded."""

    def data(self, run: Path) -> Path:
        """The file of rows. Raises ConfigError where there is none."""

    def repositories(self, data: Path) -> set[str]:
        """Whose bugs the rows are about; empty where they don't say."""

    def prepare(self, job: Job, tokenization: Tokenization) -> Preflight:
        """Make the rows ready for the trainer, and say what training on them would meet.

        Raises ConfigError where training can't work.
        """

    def trainer(
        self, job: Job, model: Any, tokenization: Tokenization
    ) -> AbstractContextManager[Any]:
        """TRL's trainer over the prepared rows; what it holds is let go at the block's end."""


# The method that a config names.


def open_method(config: TrainConfig, bench: QuestionBench | None) -> Method:
    """The implementation of `train.method`; `bench` is what training on rewards needs."""
    if config.method == "dpo":
        return PreferenceOptimization(config)
    if config.method == "grpo":
        return RewardOptimization(config, bench or QuestionBench())
    return SupervisedFineTuning(config)
