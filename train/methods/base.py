"""The interface between the train stage and its training methods."""

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
    """A training method: its data, and the trainer over them. The stage does the rest."""

    @property
    def other_facts(self) -> Any:
        """Facts besides config and data that distinguish this training, as JSON; None: nothing."""

    def check(self) -> None:
        """Raise ConfigError if the config can't work, before anything is loaded."""

    def data(self, run: Path) -> Path:
        """The file of rows. Raises ConfigError if there is none."""

    def repositories(self, data: Path) -> set[str]:
        """Repositories whose bugs the rows are about; empty if unknown."""

    def prepare(self, job: Job, tokenization: Tokenization) -> Preflight:
        """Encode the rows for the trainer, and report on them.

        Raises ConfigError if training can't work.
        """

    def trainer(
        self, job: Job, model: Any, tokenization: Tokenization
    ) -> AbstractContextManager[Any]:
        """TRL's trainer over the prepared rows; its resources are freed at the end of the block."""


# Chooses the method that a config names.


def open_method(config: TrainConfig, bench: QuestionBench | None) -> Method:
    """The implementation of `train.method`; `bench` is what training on rewards needs."""
    if config.method == "dpo":
        return PreferenceOptimization(config)
    if config.method == "grpo":
        return RewardOptimization(config, bench or QuestionBench())
    return SupervisedFineTuning(config)
